"""Writing to a terminal, a pipe or a file without ever failing on what the text is.

Also what is being done, and for how long: a spinner on a terminal, now and then a line in a log.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from dqsql.redaction import redact
from dqsql.report.text import duration, shorten

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ERASE_LINE = "\r\x1b[K"
_INTERVAL = 0.1
# A log that says nothing for longer looks as if the work hung.
_LOG_INTERVAL = 10.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES = "|/-\\"


class Terminal:
    """One output stream: lines, colours where they belong, and silence once the reader is gone.

    Args:
        stream: where to write, or None when the process has no such stream.
        color: True or False to force it, None to colour only on a terminal.
    """

    def __init__(self, stream: TextIO | None, *, color: bool | None = None) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._status = ""
        self.failure: str | None = None
        """Why it could not be written, other than its reader having gone."""
        self.is_terminal = _is_terminal(stream)
        self.color = self.is_terminal if color is None else color
        self.unicode = _encoding(stream).startswith("utf")

    @property
    def is_open(self) -> bool:
        """Whether anybody reads what is written."""
        return self._stream is not None

    def style(self, text: str, *names: str) -> str:
        """Return `text` in the named styles, or as it is where colour does not belong."""
        if not self.color or not names:
            return text
        return f"\x1b[{';'.join(_STYLES[n] for n in names)}m{text}\x1b[0m"

    def line(self, text: str = "") -> None:
        """Write one line. A broken pipe makes the terminal silent from then on."""
        with self._lock:
            status, self._status = self._status, ""
            erase = _ERASE_LINE if status else ""
            self._write(f"{erase}{text}\n{status}")
            self._status = status

    def status(self, text: str) -> None:
        """Show `text` as the last, passing line of a terminal; an empty text removes it."""
        with self._lock:
            if text != self._status:
                self._write(f"{_ERASE_LINE if self._status else ''}{text}")
                self._status = text

    def width(self) -> int:
        """The number of columns, 80 where that is not known."""
        try:
            # Some terminals say that they have none.
            return os.get_terminal_size(self._stream.fileno()).columns or 80 if self._stream else 80
        except (OSError, ValueError, AttributeError):
            return 80

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            encoding = _encoding(self._stream)
            # What it lacks is written as escapes.
            self._stream.write(redact(text).encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (BrokenPipeError, ValueError):  # the reader is gone, or the stream is closed
            self._silence()
        except OSError as error:
            self.failure = error.strerror or str(error)
            self._silence()

    def _silence(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Let what is still buffered in the stream go nowhere, or Python complains when it exits."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)
    except (OSError, ValueError, AttributeError):
        return


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _encoding(stream: TextIO | None) -> str:
    return (getattr(stream, "encoding", None) or "utf-8").lower()


def color_wanted(flag: bool | None, environment: Mapping[str, str]) -> bool | None:
    """Return whether to colour: the flag first, then `NO_COLOR`, else None for `as it fits`.

    See https://no-color.org: any value that is not empty counts.
    """
    if flag is not None:
        return flag
    refused = environment.get("NO_COLOR") or environment.get("DQSQL_NO_COLOR")
    return False if refused or environment.get("TERM") == "dumb" else None


def standard_terminals(flag: bool | None) -> tuple[Terminal, Terminal]:
    """Return standard output and standard error of this process."""
    color = color_wanted(flag, os.environ)
    return Terminal(sys.stdout, color=color), Terminal(sys.stderr, color=color)


class Progress:
    """Shows what is being done and for how long.

    Use as a context manager: a thread redraws the line while the work goes on. `step("")` hides
    the line. Where no terminal is attached, a step that lasts is a line of its own, every
    `log_interval` seconds.
    """

    def __init__(
        self,
        terminal: Terminal,
        clock: Callable[[], float] = time.monotonic,
        log_interval: float = _LOG_INTERVAL,
    ) -> None:
        self._log_interval = log_interval
        self._terminal = terminal
        self._clock = clock
        self._frames = _FRAMES if terminal.unicode else _ASCII_FRAMES
        self._text = self._note = ""
        self._since = clock()
        self._frame = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Progress:
        """Start redrawing."""
        if self._terminal.is_open:
            work = self._redraw if self._terminal.is_terminal else self._log
            self._thread = threading.Thread(target=work, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop redrawing and clean the line."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.step("")

    def step(self, text: str) -> None:
        """Begin a step; its time counts from now."""
        self._text, self._note = text, ""
        self._since = self._clock()
        self.draw()

    def note(self, text: str) -> None:
        """Say how far the step is."""
        self._note = text

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line away while something else is written to the same screen."""
        with self._lock:
            if self._terminal.is_terminal:
                self._terminal.status("")
            yield
            self.draw()

    def draw(self) -> None:
        """Draw the line once."""
        if self._terminal.is_terminal:
            with self._lock:
                self._draw()

    @property
    def _shown(self) -> str:
        return f"{self._text}, {self._note}" if self._text and self._note else self._text

    def _draw(self) -> None:
        text = self._shown
        if not text:
            self._terminal.status("")
            return
        self._frame = (self._frame + 1) % len(self._frames)
        line = f"{self._frames[self._frame]} {text}  {duration(self._clock() - self._since)}"
        # A line that wraps cannot be erased.
        self._terminal.status(shorten(line, self._terminal.width() - 1))

    def _log(self) -> None:
        while not self._stop.wait(self._log_interval):
            with self._lock:
                if self._text:
                    seconds = duration(self._clock() - self._since)
                    self._terminal.line(f"          .. {self._shown}, for {seconds}")

    def _redraw(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self.draw()

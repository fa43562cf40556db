"""What is being done, and for how long: a spinner on a terminal, now and then a line in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dqsql.report.terminal import Terminal
from dqsql.report.text import duration, shorten

_INTERVAL = 0.1
# A log that says nothing for longer looks as if the work hung.
_LOG_INTERVAL = 10.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES = "|/-\\"


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

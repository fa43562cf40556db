from __future__ import annotations

import io

import pytest

from dqsql.report.terminal import Progress, Terminal, color_wanted


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.writes = 0

    def write(self, text: str, /) -> int:
        self.writes += 1
        raise self.error


def test_colour_only_on_a_terminal_or_by_force() -> None:
    assert Terminal(io.StringIO()).style("x", "red") == "x"
    assert Terminal(Screen()).style("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert Terminal(io.StringIO(), color=True).style("x", "red") == "\x1b[31mx\x1b[0m"
    assert Terminal(Screen(), color=False).style("x", "red") == "x"


def test_no_color_is_respected_and_the_flag_wins() -> None:
    assert color_wanted(None, {"NO_COLOR": "1"}) is False
    assert color_wanted(None, {"NO_COLOR": ""}) is None
    assert color_wanted(None, {"DQSQL_NO_COLOR": "1"}) is False
    assert color_wanted(True, {"NO_COLOR": "1"}) is True
    assert color_wanted(None, {"TERM": "dumb"}) is False


def test_text_that_the_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Terminal(stream).line("größe")
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"


def test_a_broken_pipe_is_silent_and_a_full_disk_is_remembered() -> None:
    pipe = Broken(BrokenPipeError())
    terminal = Terminal(pipe)
    terminal.line("a")
    terminal.line("b")
    assert (pipe.writes, terminal.failure) == (1, None)
    full = Terminal(Broken(OSError(28, "No space left on device")))
    full.line("a")
    assert full.failure == "No space left on device"


def test_no_stream_and_a_closed_stream_are_silent() -> None:
    Terminal(None).line("a")
    stream = io.StringIO()
    terminal = Terminal(stream)
    stream.close()
    terminal.line("a")
    assert terminal.failure is None


def test_lines_erase_the_status_and_draw_it_again() -> None:
    screen = Screen()
    terminal = Terminal(screen)
    terminal.status("busy")
    terminal.line("done")
    terminal.status("")
    assert screen.getvalue() == "busy\r\x1b[Kdone\nbusy\r\x1b[K"


def test_progress_draws_on_terminals_only() -> None:
    plain = io.StringIO()
    with Progress(Terminal(plain)) as progress:
        progress.step("scanning")
        with progress.hidden():
            pass
    assert plain.getvalue() == ""


def test_progress_shows_the_step_and_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    screen = Screen()
    progress = Progress(Terminal(screen), clock=lambda: now[0])
    progress.step("scanning 120 batches")
    now[0] = 22.0
    progress.draw()
    assert "scanning 120 batches  0.0s" in screen.getvalue()
    assert "scanning 120 batches  12.0s" in screen.getvalue()
    with progress.hidden():
        assert screen.getvalue().endswith("\r\x1b[K")
    progress.step("")
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_note_is_about_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    progress = Progress(Terminal(screen), clock=lambda: 0.0)
    progress.step("scanning")
    progress.note("37 of 200 tasks done")
    progress.draw()
    assert "scanning, 37 of 200 tasks done  0.0s" in screen.getvalue()
    progress.step("measuring")
    assert screen.getvalue().endswith("measuring  0.0s")


def test_progress_stops_its_thread() -> None:
    screen = Screen()
    with Progress(Terminal(screen)) as progress:
        progress.step("x" * 500)
    assert screen.getvalue().endswith("\r\x1b[K")
    assert max(len(part) for part in screen.getvalue().split("\r\x1b[K")) < 80

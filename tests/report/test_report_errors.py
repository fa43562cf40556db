from __future__ import annotations

import io
from pathlib import Path

import pytest

from dqsql.errors import AnnotationError, ConfigError, ErrorGroup, Span
from dqsql.report.errors import error_record, print_error
from dqsql.report.terminal import Terminal


def printed(error: AnnotationError | ConfigError | ErrorGroup, *roots: Path) -> str:
    stream = io.StringIO()
    print_error(Terminal(stream), error, roots)
    return stream.getvalue()


def unknown(file: str, line: int, column: int, text: str) -> AnnotationError:
    return AnnotationError(
        f"unknown annotation {text}",
        span=Span(file, line, column, text),
        hint="did you mean 'not_null'?",
    )


def test_the_line_and_a_caret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flights.sql").write_text("select\n    a, -- @not_nul\nfrom t\n")
    assert printed(unknown("flights.sql", 2, 11, "@not_nul")) == (
        "flights.sql:2:11: project error: unknown annotation @not_nul\n"
        "  2 |     a, -- @not_nul\n"
        "    |           ^^^^^^^^\n"
        "  hint: did you mean 'not_null'?\n"
    )


def test_files_are_found_below_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.sql").write_text("-- @x\n")
    text = printed(unknown("a.sql", 1, 4, "@x"), tmp_path / "shop")
    assert text.startswith("shop/a.sql:1:4: ")
    assert "  1 | -- @x\n" in text


def test_tabs_and_wide_characters_before_the_caret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sql").write_text("\t`価格` -- @x\r\n", encoding="utf-8")
    lines = printed(unknown("a.sql", 1, 10, "@x")).splitlines()
    assert lines[1] == "  1 |  `価格` -- @x"
    # Each of the two wide characters takes two cells.
    assert lines[2] == "    | " + " " * 11 + "^^"


def test_long_lines_are_cut_around_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sql").write_text("x" * 5000 + "@bad" + "y" * 5000)
    lines = printed(unknown("a.sql", 1, 5001, "@bad")).splitlines()
    assert len(lines[1]) < 120
    caret = lines[2].index("^")
    assert lines[1][caret : caret + 4] == "@bad"


@pytest.mark.parametrize(("line", "column"), [(99, 1), (0, 0), (1, 500)])
def test_places_outside_the_file_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int, column: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sql").write_text("select 1")
    assert "unknown annotation" in printed(unknown("a.sql", line, column, "@x"))


def test_files_that_cannot_be_read_and_no_place() -> None:
    assert printed(unknown("gone.sql", 3, 4, "@x")).startswith("gone.sql:3:4: project error: ")
    assert printed(ConfigError("first\nsecond", hint="one\ntwo")) == (
        "configuration error: first\n  second\n  hint: one\n        two\n"
    )


def test_groups_print_each_error_once() -> None:
    one, two = unknown("a", 1, 1, "@x"), unknown("a", 2, 1, "@y")
    text = printed(ErrorGroup([one, ErrorGroup([two, one])]))
    assert text.count("unknown annotation") == 2
    assert text.endswith("2 errors\n")


def test_messages_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in printed(ConfigError("bad \x1b[2J value"))


def test_the_record_of_an_error() -> None:
    record = error_record(unknown("a.sql", 1, 2, "@x"))
    assert record["type"] == "AnnotationError"
    assert (record["file"], record["line"], record["column"]) == ("a.sql", 1, 2)
    assert error_record(ConfigError("x"))["file"] is None


def test_of_thousands_of_errors_the_first_are_shown() -> None:
    told = printed(ErrorGroup([ConfigError(f"setting {n} is wrong") for n in range(4_500)]))
    assert told.count("is wrong") == 50
    assert told.endswith("\n4,500 errors, of which the first 50 are shown\n")

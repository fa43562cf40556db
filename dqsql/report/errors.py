"""Errors as a person reads them: the place, the message, the line with a caret, the hint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dqsql.errors import DqsqlError, ProfileError, Span, unique_errors
from dqsql.model.wording import plural
from dqsql.report.terminal import Terminal
from dqsql.report.text import display_width, printable

_MAX_LINE = 100
_MOST_TOLD = 50
_MAX_FILE_BYTES = 10_000_000


def print_error(terminal: Terminal, error: DqsqlError, roots: Sequence[Path] = ()) -> None:
    """Print one block per error, of an `ErrorGroup` one for each of the first members.

    `roots` are folders that the files of spans may be relative to, tried in order.
    """
    errors = unique_errors([error])
    for each in errors[:_MOST_TOLD]:
        for line in error_lines(terminal, each, roots):
            terminal.line(line)
    if len(errors) > 1:
        # Of thousands the first ones say what to mend; in JSON there are all.
        shown = "" if len(errors) <= _MOST_TOLD else f", of which the first {_MOST_TOLD} are shown"
        summary = f"{plural(len(errors), 'error')}{shown}"
        terminal.line(terminal.style(summary, "red", "bold"))


def error_lines(terminal: Terminal, error: DqsqlError, roots: Sequence[Path] = ()) -> Iterator[str]:
    """Yield the lines of the block for one error."""
    kind = terminal.style(error.kind, "red", "bold")
    first, *rest = error.message.splitlines() or [""]
    path = _resolve(error.span, roots) if error.span else None
    where = f"{_shown(error.span, path)}: " if error.span else ""
    yield f"{terminal.style(where, 'bold')}{kind}: {printable(first)}"
    yield from (f"  {printable(line)}" for line in rest)
    # The line of a profile may hold a token.
    shown = None if isinstance(error, ProfileError) else path
    if error.span and shown:
        yield from _excerpt(terminal, error.span, shown)
    if error.hint:
        first, *rest = error.hint.splitlines()
        yield f"  {terminal.style('hint:', 'cyan')} {printable(first)}"
        yield from (f"        {printable(line)}" for line in rest)


def error_record(error: DqsqlError) -> dict[str, Any]:
    """Return the error as plain data for JSON output."""
    span = error.span
    return {
        "kind": error.kind,
        "type": type(error).__name__,
        "message": error.message,
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "text": span.text if span else None,
        "hint": error.hint,
    }


def failure_record(error: DqsqlError) -> dict[str, Any]:
    """Return what `--output json` prints when dqsql could not do its work."""
    return {
        "status": "error",
        "exit_code": 2,
        "errors": [error_record(e) for e in unique_errors([error])],
    }


def _resolve(span: Span, roots: Sequence[Path]) -> Path | None:
    candidates = [root / span.file for root in (*roots, Path())]
    return next((path for path in candidates if path.is_file()), None)


def _shown(span: Span, path: Path | None) -> str:
    """The place, relative to the current folder, so that editors and terminals can open it."""
    if path is None:
        return printable(str(span))
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        relative = str(path)
    shown = relative if not relative.startswith(os.path.join("..", "..")) else str(path)
    return printable(f"{shown}:{span.line}:{span.column}")


def _excerpt(terminal: Terminal, span: Span, path: Path) -> Iterator[str]:
    """The offending line, and a caret below the place."""
    line = _read_line(path, span.line)
    if line is None or not line.strip():
        return
    start = min(max(span.column - 1, 0), len(line))
    wanted = span.text.splitlines()[0] if span.text else ""
    length = len(wanted) if wanted and line.startswith(wanted, start) else 1
    # A very long line (generated SQL) is cut around the place.
    left = max(0, start - _MAX_LINE // 2) if len(line) > _MAX_LINE else 0
    window = line[left : left + _MAX_LINE]
    before = printable(line[left:start])
    marked = printable(line[start : min(start + length, left + len(window))])
    caret = terminal.style("^" * max(display_width(marked), 1), "red", "bold")
    yield f"  {span.line} | {printable(window)}"
    yield f"  {' ' * len(str(span.line))} | {' ' * display_width(before)}{caret}"


def _read_line(path: Path, number: int) -> str | None:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        lines = path.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return None
    return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else None

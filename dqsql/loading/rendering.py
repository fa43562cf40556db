"""Renders a check model and knows afterwards where everything came from.

Two renders. The first carries an id behind the opener of every comment, so that a rendered comment
can be traced to the one that the user wrote, also through loops; removing the ids gives exactly
the text of a plain render. The second also carries line numbers (which may disturb white space)
and only serves to map lines.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from dqsql.errors import DqsqlError
from dqsql.loading.scanner import ScannedText, Segment, line_starts, scan

# Private-use characters: no valid SQL holds them outside of strings, and Jinja leaves them alone.
_LEFT, _RIGHT = "\ue0d1", "\ue0d2"
_MARKER = re.compile(f"{_LEFT}(\\d+){_RIGHT}")


@dataclass(frozen=True, slots=True)
class RenderedComment:
    """A comment of the rendered text, and the one in the raw text that it came from, if known."""

    segment: Segment
    raw: Segment | None


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered model: its text, its comments, and for each line the line in the raw text."""

    raw: str
    sql: str
    comments: tuple[RenderedComment, ...]
    line_map: tuple[int, ...]

    def raw_place(self, offset: int) -> tuple[int, int]:
        """Line and column (from 1) in the raw text of an offset in the rendered text.

        Exact where the line was rendered unchanged up to, or from, that column; else the place of
        the same word in the raw line; else the start of the Jinja block or of the line.
        """
        starts = line_starts(self.sql)
        line = bisect_right(starts, offset)
        index = offset - starts[line - 1]
        raw_lines = _lines(self.raw)
        raw_line = min(self.line_map[line - 1], len(raw_lines))
        before, after = raw_lines[raw_line - 1], _lines(self.sql)[line - 1]
        prefix = _common_prefix(before, after)
        if index < prefix or before == after:
            return raw_line, index + 1
        suffix = _common_prefix(before[::-1], after[::-1])
        from_end = len(after) - index
        if from_end <= min(suffix, len(before) - prefix):
            return raw_line, len(before) - from_end + 1
        word = re.match(r"\w+", after[index:])
        if (
            word
            and len(matches := list(re.finditer(rf"\b{re.escape(word.group())}\b", before))) == 1
        ):
            return raw_line, matches[0].start() + 1
        block = before.rfind("{{", 0, prefix + 2)
        return raw_line, (block if block >= 0 else min(prefix, index)) + 1


def render_model(raw: str, render: Callable[[str], str]) -> Rendering:
    """Render `raw` with `render` and map the result back. Passes on the errors of `render`."""
    scanned = scan(raw)
    try:
        starts = [(c.body_start, number) for number, c in enumerate(scanned.comments)]
        marked = render(_with_markers(raw, starts))
    except DqsqlError:
        # Fails at the place as the user sees it, without markers in front.
        render(raw)
        raise
    sql, ids = _without_markers(marked)
    # One object: what is kept by text is then found without comparing it.
    sql = raw if sql == raw else sql
    written = scanned.comments
    comments = tuple(
        RenderedComment(segment, written[ids[segment.body_start]])
        if segment.body_start in ids
        else RenderedComment(segment, None)
        for segment in scan(sql, jinja=False).comments
    )
    return Rendering(raw, sql, comments, _line_map(raw, sql, scanned, render))


def _with_markers(text: str, markers: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    for offset, number in sorted(markers):
        parts += [text[position:offset], f"{_LEFT}{number}{_RIGHT}"]
        position = offset
    return "".join([*parts, text[position:]])


def _without_markers(text: str) -> tuple[str, dict[int, int]]:
    """The text without markers, and the marker at each of its offsets."""
    parts: list[str] = []
    ids: dict[int, int] = {}
    position = length = 0
    for match in _MARKER.finditer(text):
        parts.append(text[position : match.start()])
        length += match.start() - position
        ids[length] = int(match.group(1))
        position = match.end()
    parts.append(text[position:])
    return "".join(parts), ids


def _line_map(
    raw: str, sql: str, scanned: ScannedText, render: Callable[[str], str]
) -> tuple[int, ...]:
    if raw == sql:
        return tuple(range(1, sql.count("\n") + 2))
    try:
        marked = render(_with_markers(raw, _line_markers(raw, scanned)))
    except DqsqlError:
        # A marker got into an argument, for example of `ref` by way of a {% set %} block.
        return _line_map_by_difference(raw, sql)
    return _line_map_from_markers(sql, marked) or _line_map_by_difference(raw, sql)


def _line_markers(raw: str, scanned: ScannedText) -> list[tuple[int, int]]:
    """Line numbers at the starts of lines outside of Jinja blocks, and around the blocks."""
    starts = line_starts(raw)
    markers: dict[int, int] = {}
    blocks = [(s.start, s.end) for s in scanned.jinja]
    for number, start in enumerate(starts, start=1):
        before = bisect_right(blocks, start, key=itemgetter(0)) - 1
        if before < 0 or not blocks[before][0] < start < blocks[before][1]:
            markers[start] = number
    for start, end in blocks:
        markers[start] = bisect_right(starts, start)
        markers[end] = bisect_right(starts, end)
    return list(markers.items())


def _line_map_from_markers(sql: str, marked: str) -> tuple[int, ...] | None:
    """Walk both texts by their visible characters; None when these differ."""
    visible: list[int] = []
    text: list[str] = []
    line = position = 0
    for match in [*_MARKER.finditer(marked), None]:
        stop = match.start() if match else len(marked)
        chars = "".join(marked[position:stop].split())
        text.append(chars)
        visible.extend([line] * len(chars))
        if match:
            line, position = int(match.group(1)), match.end()
    if "".join(text) != "".join(sql.split()):
        return None
    result: list[int | None] = []
    position = 0
    for rendered_line in sql.split("\n"):
        count = len("".join(rendered_line.split()))
        result.append(visible[position] if count else None)
        position += count
    return _fill(result)


def _fill(lines: list[int | None]) -> tuple[int, ...]:
    """Give blank lines the line behind the one before, but none behind the one that follows."""
    following: list[int] = []
    limit = 10**9
    for line in reversed(lines):
        limit = line if line is not None else limit
        following.append(limit)
    following.reverse()
    filled: list[int] = []
    last = 0
    for line, limit in zip(lines, following, strict=True):
        last = max(1, line) if line is not None else max(1, min(last + 1, limit))
        filled.append(last)
    return tuple(filled)


def _line_map_by_difference(raw: str, sql: str) -> tuple[int, ...]:
    raw_lines, sql_lines = raw.split("\n"), sql.split("\n")
    result: list[int | None] = [None] * len(sql_lines)
    matcher = difflib.SequenceMatcher(None, raw_lines, sql_lines, autojunk=False)
    for tag, raw_start, raw_end, start, end in matcher.get_opcodes():
        for i in range(start, end):
            # A replaced block keeps its order; what it grew by stays at its last line.
            offset = (
                i - start if tag == "equal" else min(i - start, max(0, raw_end - raw_start - 1))
            )
            result[i] = min(raw_start + offset, len(raw_lines) - 1) + 1
    return _fill(result)


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _common_prefix(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))

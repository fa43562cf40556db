"""Writes suggestions into the text of a check model: comments only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from dqsql.model.plain_names import plain_name
from dqsql.suggestions.batches import ProposedBatches
from dqsql.suggestions.suggestion import Suggestion, outside_jinja

# Nothing but white space and a comma may stand before a column that gets a line above its own.
_ALONE = re.compile(r"\s*,?\s*")
_AWAY = str.maketrans({"@": "", "{": "(", "}": ")", "\n": " ", "\r": " ", "\\": "/"})


def comment_line(suggestion: Suggestion, *, inside: bool, indent: str = "") -> str:
    """The suggestion as a comment of one line: the reason as prose, then the annotation."""
    reason = suggestion.reason.translate(_AWAY)
    return f"{indent}-- {reason}: {suggestion.annotation(inside=inside)}"


def inserted(
    raw: str, suggestions: Sequence[Suggestion], places: Mapping[str, tuple[int, int]]
) -> str:
    """The text of a model with suggestions in it.

    `places` gives, by column in lower case, the line and column (from 1) where its projection
    starts in the text. A column that stands alone on its line gets a line above; everything else
    goes to the end of the text, and names its column.
    """
    newline = "\r\n" if "\r\n" in raw else "\n"
    lines = raw.split("\n")
    above = _lines_above(lines, places)
    by_line: dict[int, list[str]] = {}
    tail: list[str] = []
    for suggestion in suggestions:
        line = above.get((suggestion.column or "").lower())
        if line is None:
            tail.append(comment_line(suggestion, inside=False))
            continue
        indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
        text = comment_line(suggestion, inside=True, indent=indent)
        by_line.setdefault(line, []).append(text + ("\r" if newline == "\r\n" else ""))
    written: list[str] = []
    for number, text in enumerate(lines, start=1):
        written += [*by_line.get(number, []), text]
    body = "\n".join(written)
    if not tail:
        return body
    end = "" if body.endswith("\n") else newline
    return f"{body}{end}{newline.join(tail)}{newline}"


def _lines_above(lines: Sequence[str], places: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The line of each column that stands alone on it."""
    used: dict[int, int] = {}
    for line, _ in places.values():
        used[line] = used.get(line, 0) + 1
    return {
        column: line
        for column, (line, start) in places.items()
        if used[line] == 1
        and 0 < line <= len(lines)
        and _ALONE.fullmatch(lines[line - 1][: start - 1])
    }


def new_document(
    template: str,
    title: str,
    evidence: str,
    reads: str,
    columns: Sequence[str],
    suggestions: Sequence[Suggestion],
    batches: ProposedBatches | None = None,
) -> str:
    """The text of a new check model that reads a whole relation, in batches if they are proposed.

    The template has the places `<<title>>`, `<<evidence>>`, `<<config>>`, `<<columns>>`,
    `<<reads>>` and `<<checks>>`.
    """
    blocks: list[str] = []
    for number, name in enumerate(columns):
        own = [s for s in suggestions if s.column == name]
        lines = [comment_line(s, inside=True, indent="    ") for s in own]
        comma = "," if number + 1 < len(columns) else ""
        blocks.append("\n".join([*lines, f"    {outside_jinja(plain_name(name))}{comma}"]))
    tail = [comment_line(s, inside=False) for s in suggestions if s.column not in columns]
    filled = {
        "title": title.translate(_AWAY),
        "evidence": evidence.translate(_AWAY),
        "config": _config(batches),
        "columns": "\n".join(blocks),
        "reads": reads,
        "checks": "\n".join(tail),
    }
    text = re.sub(r"<<(\w+)>>", lambda m: filled[m.group(1)], template)
    return text.rstrip() + "\n"


def _config(batches: ProposedBatches | None) -> str:
    if batches is None:
        return ""
    reason = batches.reason.translate(_AWAY)
    return f"-- {reason}\n{{{{ config(batch_by = '{batches.batch_by}') }}}}\n\n"


def difference(before: str, after: str, path: str) -> str:
    """A unified diff."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )

"""What looks like a check and is none, or not the one that is meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from dqsql.errors import Span
from dqsql.loading.scanner import is_commented_out, scan
from dqsql.loading.settings import CHECK_SETTINGS
from dqsql.model.project import CheckModel

_JINJA_COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)
# What begins a comment elsewhere, and not what begins one of Jinja.
_HASH = re.compile(r"(?<![{\w:])(#|//)[ \t]*@([^\W\d]\w*)")
_MARKED = re.compile(r"(?<![^\s-])@([^\W\d]\w*)")
# Settings in front of the first annotation of a comment.
_SETTINGS_FIRST = re.compile(r"[^@{}]*(\{\s*(\w+)\s*:[^@{}]*\})\s*@([^\W\d]\w*)")
# A comment that is nothing but a call, or a name.
_CALL = re.compile(r"\s*([^\W\d]\w*)\s*(?:\(.*\))?\s*", re.DOTALL)

# What stands before an annotation and belongs to what it compares: `0 <= @min`, `2 * @max < 30`,
# `not @unique`. Arrows are prose, and so is a dash before what compares nothing.
_COMPARED_BEFORE = re.compile(r"(?:(?<![-=<>])[<>]=?|!=|(?<![-=<>!])==?|<=>|<>)\s*$")
_RECKONED_BEFORE = re.compile(r"\s*(?:[^\W\d]\w*\([^()]*\)|[\d.]+)\s*[-+*/%]\s*")
_NEGATED_BEFORE = re.compile(r"(?<!\w)not\s+$", re.IGNORECASE)
_COMPARES = re.compile(r"[<>=]|\bbetween\b|\bin\b", re.IGNORECASE)
# Words behind an annotation that say of which rows it is meant, and what is subtracted by a dash.
_CONDITION = re.compile(r"(?:where|when|if|unless|filter|within|per|group\s+by)\b", re.IGNORECASE)
_DASH = re.compile(r"\d\s+-\s*\d+$")
_OPERAND = re.compile(r"\w")


def suspicions(
    model: CheckModel, names: Collection[str], complete: Collection[str]
) -> Iterator[str]:
    """Warnings about a check model's text, each with its place.

    `names` are all that an annotation may begin with, and `complete` those of them that are one by
    themselves; in lower case.
    """
    yield from _commented_out(model, names)
    if model.relation is not None:
        # Of a dbt model, comments are mostly about other things.
        return
    yield from _in_jinja_comments(model, names)
    yield from _behind_a_hash(model, names)
    yield from _without_mark(model, complete)
    yield from _settings_first(model, names)


def _commented_out(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in scan(model.raw_sql).comments:
        body = model.raw_sql[comment.body_start : comment.body_end]
        for mark in _MARKED.finditer(body) if "--" in body else ():
            offset = comment.body_start + mark.start()
            known = mark.group(1).lower() in names
            if known and is_commented_out(model.raw_sql, comment, offset):
                place = Span.at_offset(model.path, model.raw_sql, offset)
                yield (
                    f"{place}: @{mark.group(1)} is commented out with its line, so it is not"
                    " checked; delete it, or the -- before it"
                )


def _in_jinja_comments(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in _JINJA_COMMENT.finditer(model.raw_sql):
        for mark in _MARKED.finditer(comment.group(1)):
            if mark.group(1).lower() in names:
                place = Span.at_offset(model.path, model.raw_sql, comment.start(1) + mark.start())
                yield (
                    f"{place}: @{mark.group(1)} is in a comment of Jinja, which is not part of"
                    f" the SQL; write -- @{mark.group(1)}"
                )


def _behind_a_hash(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    comments = scan(model.raw_sql).comments
    for mark in _HASH.finditer(model.raw_sql):
        inside = any(c.body_start <= mark.start() < c.body_end for c in comments)
        sign, name = mark.groups()
        if name.lower() in names and not inside:
            place = Span.at_offset(model.path, model.raw_sql, mark.start())
            yield f"{place}: {sign} begins no comment in Spark's SQL; write -- @{name}"


def _without_mark(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in scan(model.raw_sql).comments:
        text = model.raw_sql[comment.body_start : comment.body_end]
        call = _CALL.fullmatch(text)
        if call is not None and call.group(1).lower() in names:
            place = Span.at_offset(model.path, model.raw_sql, comment.body_start + call.start(1))
            shown = text.strip()
            yield f"{place}: the comment {shown!r} is not a check; did you mean @{shown}?"


def _settings_first(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in scan(model.raw_sql).comments:
        text = model.raw_sql[comment.body_start : comment.body_end]
        match = _SETTINGS_FIRST.match(text)
        if match is None or match.group(3).lower() not in names:
            continue
        if match.group(2) in CHECK_SETTINGS:
            place = Span.at_offset(model.path, model.raw_sql, comment.body_start + match.start(1))
            settings, name = match.group(1), match.group(3)
            yield (
                f"{place}: the settings {settings} stand before the @, where they are not read;"
                f" write @{name} {settings}"
            )


# --- in annotations ------------------------------------------------------------------------------


LITERAL = re.compile(r"""(?<!\w)(?:'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# Behind one backslash they mean something in a regular expression or a pattern, and nothing in the
# text of SQL, which drops the backslash.
_LOST = frozenset("dDwWsSpPBhvAzGQE.*+?()[]{}|^$<-/&")
_GLUED = re.compile(r"(?<=[^\w\s@])@([^\W\d]\w*)")
_APART = re.compile(r"^\s*@[ \t]+([^\W\d]\w*)", re.MULTILINE)
_CALL_OR_END = re.compile(r"\s*(?:$|[(\[{)\],.;]|[<>=!]|between\b|@)", re.IGNORECASE)


def lost_escape(text: str) -> tuple[int, str] | None:
    r"""The offset and text of a `\d` in a SQL text, whose backslash SQL drops; None without one."""
    for literal in LITERAL.finditer(text):
        for escape in _ESCAPE.finditer(literal.group()):
            if escape.group(1) in _LOST:
                return literal.start() + escape.start(), escape.group()
    return None


def stray_names(comment: str, names: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Offset, name and hint of each `(@not_null` or `@ not_null` that is no annotation.

    Only of those in `names`, and only where they look like checks: `@ count of a day` is prose.
    """
    for pattern, hint in ((_GLUED, "put a space before the @"), (_APART, "no space behind the @")):
        for match in pattern.finditer(comment):
            if match.group(1).lower() in names and _CALL_OR_END.match(comment, match.end()):
                yield comment.index("@", match.start()), match.group(1), hint


def belongs_before(before: str, annotation: str) -> bool:
    """Whether the text before an annotation was meant as a part of it.

    >>> [belongs_before(text, "@min < 50") for text in ("0 <= ", "2 * ", "not ", "the key -> ")]
    [True, True, True, False]
    >>> prose = ("id (the key) - ", "* ", "key => ", "1. ", "is > 0 for all: ", "important! ")
    >>> any(belongs_before(text, "@min > 0") for text in prose)
    False
    """
    compared = _COMPARED_BEFORE.search(before) and _OPERAND.search(before)
    reckoned = _RECKONED_BEFORE.fullmatch(before) and _COMPARES.search(annotation)
    return bool(_NEGATED_BEFORE.search(before) or compared or reckoned)


def is_condition(rest: str) -> bool:
    """Whether the text behind an annotation says of which rows it is meant."""
    return _CONDITION.match(rest) is not None


def ends_with_dash(expression: str) -> bool:
    """Whether an expression ends in a difference of numbers, as prose behind a dash makes one."""
    return _DASH.search(expression) is not None

"""What looks like a check and is none: what to warn about, and hints on annotations with errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from dqsql.errors import Span
from dqsql.loading.scanner import scan
from dqsql.loading.settings import CHECK_SETTINGS
from dqsql.model.project import DBT_TEST, CheckModel

_JINJA_COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)
_MARKED = re.compile(r"(?<!\S)@([^\W\d]\w*)")
# A comment that is nothing but a call, or a name.
_CALL = re.compile(r"\s*([^\W\d]\w*)\s*(?:\(.*\))?\s*", re.DOTALL)


def suspicions(
    model: CheckModel, names: Collection[str], complete: Collection[str]
) -> Iterator[str]:
    """Warnings about a check model's text, each with its place.

    `names` are all that an annotation may begin with, and `complete` those of them that are one by
    themselves; in lower case.
    """
    yield from _repeated(model)
    if model.relation is not None:
        # Of a dbt model, comments are mostly about other things.
        return
    yield from _in_jinja_comments(model, names)
    yield from _without_mark(model, complete)


def _repeated(model: CheckModel) -> Iterator[str]:
    seen: dict[str, Span] = {}
    for annotation in model.annotations:
        if DBT_TEST in annotation.settings.options:
            continue
        # Where it stands makes no difference to what it says.
        text = " ".join(annotation.expression.split())
        same = repr(replace(annotation, span=Span(""), expression=text))
        if same in seen:
            yield (
                f"{annotation.span}: @{annotation.expression.strip()} is there twice,"
                f" also at {seen[same]}"
            )
        seen.setdefault(same, annotation.span)


def _in_jinja_comments(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in _JINJA_COMMENT.finditer(model.raw_sql):
        for mark in _MARKED.finditer(comment.group(1)):
            if mark.group(1).lower() in names:
                place = Span.at_offset(model.path, model.raw_sql, comment.start(1) + mark.start())
                yield (
                    f"{place}: @{mark.group(1)} stands in a comment of Jinja, which is no part of"
                    f" the SQL; write -- @{mark.group(1)}"
                )


def _without_mark(model: CheckModel, names: Collection[str]) -> Iterator[str]:
    for comment in scan(model.raw_sql).comments:
        text = model.raw_sql[comment.body_start : comment.body_end]
        call = _CALL.fullmatch(text)
        if call is not None and call.group(1).lower() in names:
            place = Span.at_offset(model.path, model.raw_sql, comment.body_start + call.start(1))
            shown = text.strip()
            yield f"{place}: the comment {shown!r} is no check; did you mean @{shown}?"


# --- hints on annotations ------------------------------------------------------------------------


_WORD = re.compile(r"[^\W\d]\w*")
# Operators in sqlglot's eyes, and what is meant.
_OPERATORS = {
    "notnull": "not_null",
    "isnull": "null_count > 0",
    "between": "in_range(1, 100), or a metric: @mean between 1 and 100",
    "like": "matches('regex'), or @satisfies(column like '..')",
    "rlike": "matches('regex')",
    "in": "accepted_values(..)",
    "exists": "not_null",
}
_PERCENT = re.compile(r"\d\s*%\s*(?:$|and\b|or\b)", re.IGNORECASE)
_HALF = re.compile(r"\b(and|or)\s*(?:[<>=!])", re.IGNORECASE)
_NOTHING_BEHIND = re.compile(r"(?:[<>=!]|\b(?:and|or|between|in))\s*$", re.IGNORECASE)
_JOINED = re.compile(r"\b(and|or)\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+\S+\s+and\s*$", re.IGNORECASE)
_ASSIGNED = re.compile(r"\(\s*(\w+)\s*=\s*(?:\[(.*)\]|\()", re.DOTALL)
_LITERAL = re.compile(r"""(?<!\w)(?:'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# Behind one backslash they mean something in a regular expression or a pattern, and nothing in the
# text of SQL, which drops the backslash.
_LOST = frozenset("dDwWsSpPBhvAzGQE.*+?()[]{}|^$<-/&")
_LOOSE_SETTING = re.compile(rf"\b({'|'.join(sorted(CHECK_SETTINGS))})\s*[:=]\s*(\S.*)")
_GLUED = re.compile(r"(?<=[(\[;:,])@([^\W\d]\w*)")
_APART = re.compile(r"^\s*@[ \t]+([^\W\d]\w*)", re.MULTILINE)
_CALL_OR_END = re.compile(r"\s*(?:$|[(\[{)\],.;]|[<>=!]|between\b|@)", re.IGNORECASE)


def expression_hint(text: str) -> str | None:
    """How an expression that cannot be parsed may have been meant, or None."""
    word = _WORD.match(text.strip())
    meant = _OPERATORS.get(word.group().lower()) if word else None
    if meant is not None:
        return f"did you mean @{meant}?"
    if text.count("'") % 2 or text.count('"') % 2:
        return "a quote is not closed"
    assigned = _ASSIGNED.search(text)
    if assigned is not None:
        listed = (assigned.group(2) or "..").strip()
        return f"write the values one after the other: ({listed})"
    if "&&" in _LITERAL.sub("''", text):
        return "SQL says and, not &&"
    if _PERCENT.search(text):
        return "shares are numbers between 0 and 1: 0.8, not 80%"
    half = _HALF.search(text)
    if half is not None:
        return f"{half.group(1)} needs a whole comparison behind it; or write: between 1 and 100"
    joined = _JOINED.search(text)
    if joined is not None and not _BETWEEN.search(text):
        return f"leave {joined.group(1)} out: each @ begins a check of its own"
    if _NOTHING_BEHIND.search(text):
        return "something is missing at the end"
    return None


def lost_escape(text: str) -> tuple[int, str] | None:
    r"""The offset and text of a `\d` in a SQL text, whose backslash SQL drops; None without one."""
    for literal in _LITERAL.finditer(text):
        for escape in _ESCAPE.finditer(literal.group()):
            if escape.group(1) in _LOST:
                return literal.start() + escape.start(), escape.group()
    return None


def loose_setting(text: str) -> str | None:
    """The hint on prose that is a setting without its braces, or None."""
    found = _LOOSE_SETTING.search(text)
    return f"write {{{found.group(1)}: {found.group(2).strip()}}}" if found else None


def stray_names(comment: str, names: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Offset, name and hint of each `(@not_null` or `@ not_null` that is no annotation.

    Only of those in `names`, and only where they look like checks: `@ count of a day` is prose.
    """
    for pattern, hint in ((_GLUED, "put a space before the @"), (_APART, "no space behind the @")):
        for found in pattern.finditer(comment):
            if found.group(1).lower() in names and _CALL_OR_END.match(comment, found.end()):
                yield comment.index("@", found.start()), found.group(1), hint

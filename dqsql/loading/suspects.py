"""What looks like a check and is none, and checks that stand there twice: things to warn about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from dqsql.errors import Span
from dqsql.loading.scanner import scan
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

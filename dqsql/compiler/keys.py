"""Names and small expressions that the statements of a plan share, and names of checks."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

from sqlglot import exp

from dqsql.compiler.trees import has_aggregate
from dqsql.dialect import (
    as_type,
    call,
    column,
    identifier,
    literal,
    parse_expression,
    quoted,
    to_sql,
)
from dqsql.errors import CompileError, Span
from dqsql.model.project import CheckModel, view_name
from dqsql.model.types import TIMES, WHOLE_NUMBERS

BATCH = "batch"
SEGMENT = "segment"
NO_BATCH = "the run's start"


def check_batch_by(model: CheckModel) -> exp.Expr | None:
    """The parsed `batch_by` expression of a model, or None. Raises DqsqlError with the place."""
    if model.config.batch_by is None:
        return None
    return parse_expression(model.config.batch_by, Span(model.path))


def batch_columns(model: CheckModel) -> list[str]:
    """The columns that `batch_by` reads, as it writes them. Raises DqsqlError with the place."""
    batch_by = check_batch_by(model)
    inner = None if batch_by is None else batch_by.unnest()
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    constant = isinstance(inner, exp.Literal | exp.Boolean | exp.Null)
    if batch_by is not None and (constant or has_aggregate(batch_by)):
        why = "is the same in all rows" if constant else "has an aggregate"
        raise CompileError(
            f"batch_by says to which batch a row belongs, and {to_sql(batch_by)} {why}",
            span=Span(model.path),
            hint="name a column, or an expression of columns: date_trunc('day', ordered_at)",
        )
    return [] if batch_by is None else [c.parts[0].name for c in batch_by.find_all(exp.Column)]


def batch_text(model: CheckModel) -> exp.Expr | None:
    """The batch of a row as text, as it is stored; None for a model without `batch_by`."""
    batch_by = check_batch_by(model)
    return None if batch_by is None else as_type(batch_by, "string")


def is_named_by_value(spark_type: str) -> bool:
    """Whether no two batches of a Spark type have the same text; times are texts in UTC."""
    return spark_type in WHOLE_NUMBERS or spark_type in TIMES


def batch_key(model: CheckModel, spark_type: str) -> exp.Expr | None:
    """What rows are grouped by to have batches of a Spark type; None without `batch_by`.

    It is `batch_by` itself where values are told apart by their texts as they are: to write the
    date of every row as text took half of the time of a scan of daily batches.
    """
    return check_batch_by(model) if is_named_by_value(spark_type) else batch_text(model)


def identifier_table(name: str) -> exp.Table:
    """A table reference by quoted name."""
    return exp.Table(this=identifier(name))


def model_table(model: CheckModel) -> exp.Table:
    """The view of a check model, as a table of a FROM clause."""
    return identifier_table(view_name(model))


def model_view(model: CheckModel) -> str:
    """The view of a check model as SQL text."""
    return quoted(view_name(model))


def segment_label(segments: Sequence[str]) -> exp.Expr:
    """A segment as text: `origin=EWR, carrier is null`; null for the whole batch.

    No two segments have one label: of several columns, a comma of a value has a backslash before it
    where the next column could begin.
    """
    if not segments:
        return as_type(exp.Null(), "string")
    parts: list[exp.Expr] = []
    for name in segments:
        value: exp.Expr = as_type(column(name), "string")
        if len(segments) > 1:
            value = _escaped(value, segments[1:])
        parts.append(call("coalesce", call("concat", f"{name}=", value), f"{name} is null"))
    return call("concat_ws", ", ", *parts)


def _escaped(value: exp.Expr, following: Sequence[str]) -> exp.Expr:
    names = "|".join(re.escape(name) for name in following)
    mark = rf"\\|,(?= ({names})(=| is null))"
    special = call("contains", value, literal(","))
    escaped = call("regexp_replace", value.copy(), literal(mark), literal(r"\\$0"))
    return call("if", special, escaped, value.copy())


def union_all(first: exp.Select, second: exp.Select) -> exp.Select:
    """All rows of both queries, which become part of the result."""
    both = exp.union(first, second, distinct=False, copy=False)
    return exp.select(exp.Star()).from_(both.subquery("rows_of_batch", copy=False), copy=False)


def not_null(value: exp.Expr) -> exp.Expr:
    """`value is not null`."""
    return exp.Not(this=exp.Is(this=exp.Paren(this=value), expression=exp.Null()))


def row_number(partition: Sequence[str], *order: exp.Expr) -> exp.Window:
    """The place of a row, from 1, among those that agree in some columns."""
    return exp.Window(
        this=call("row_number"),
        partition_by=[column(name) for name in partition],
        order=exp.Order(expressions=[exp.Ordered(this=value) for value in order]),
    )


def by_hash(name: str) -> tuple[exp.Expr, exp.Expr]:
    """An order that looks random, and is the same whenever it is asked for."""
    return call("xxhash64", column(name)), column(name)


def as_json(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Columns of a row as JSON text, those that are null among them."""
    options = call("map", literal("ignoreNullFields"), literal("false"))
    return call("to_json", call("struct", *parts), options) if parts else literal("{}")


def relation_table(sql: str) -> exp.Table:
    """A relation of the compiler's SQL text as a table of a FROM clause."""
    return exp.to_table(sql, dialect="spark")


def slug(text: str) -> str:
    """A short form of an expression, of letters, digits and underscores."""
    words = {">=": "ge", "<=": "le", "<>": "ne", "!=": "ne", ">": "gt", "<": "lt", "=": "eq"}
    for symbol, word in words.items():
        text = text.replace(symbol, f" {word} ")
    text = re.sub(r"(?<![\w)])-(?=[\d.])", " minus ", text)
    short = re.sub(r"\W+", _between_words, text).strip("_").lower()
    # Of long texts that begin alike each has its own.
    return (short if len(short) <= 80 else f"{short[:71]}_{_fingerprint(text)}") or "check"


@lru_cache(maxsize=16)
def short_names(columns: tuple[str, ...]) -> dict[str, str]:
    """The slugs of columns by their names in lower case, no two alike.

    >>> list(short_names(("Order Id", "x y", "x.y", "x_y")).values())
    ['order_id', 'x_y_887fcea6', 'x_y_b24ca9b7', 'x_y']
    """
    short = {name: slug(name) for name in dict.fromkeys(c.lower() for c in columns)}
    counted = Counter(short.values())
    return {
        name: text if counted[text] == 1 or text == name else f"{text}_{_fingerprint(name)}"
        for name, text in short.items()
    }


def _fingerprint(text: str) -> str:
    return short_hash(" ".join(text.lower().split()))


def short_hash(text: str) -> str:
    """Eight digits that tell a text from others."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _between_words(match: re.Match[str]) -> str:
    """What stands for a stretch without letters: vowel signs and accents are parts of words."""
    text = match.group()
    marks = "".join(takewhile(lambda c: unicodedata.category(c) in ("Mn", "Mc"), text))
    if not match.string[: match.start()][-1:].isalpha():
        return "_"
    return marks if len(marks) == len(text) else f"{marks}_"

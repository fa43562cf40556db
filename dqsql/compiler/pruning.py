"""Range conditions on the columns below `batch_by`, so that Spark can skip partitions and files.

`date_trunc('day', ts) in (..)` says nothing to a file source about `ts`. Every row that it chooses
also meets `ts >= first and ts < last + 1 day`, which can be compared with partitions and with the
statistics of files. Such a condition is added only where it is implied: for the functions below,
whose results have known preimages, over columns of known types. The session's time zone is UTC, so
that timestamps with and without time zone have the same days.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.trees import called
from dqsql.dialect import as_type
from dqsql.model.batches import Moment, as_text, before, end_of, read_time
from dqsql.model.types import TIMES, type_of

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
# `trunc(date, unit)` knows these only; it gives null for the others.
_DATE_UNITS = frozenset({"year", "quarter", "month", "week"})
# Patterns of `date_format` that sort by time: how Python reads them, and the unit that they name.
_PATTERNS = {
    "yyyy": ("%Y", "year"),
    "yyyy-MM": ("%Y-%m", "month"),
    "yyyyMM": ("%Y%m", "month"),
    "yyyy-MM-dd": ("%Y-%m-%d", "day"),
    "yyyyMMdd": ("%Y%m%d", "day"),
    "yyyy/MM/dd": ("%Y/%m/%d", "day"),
    "yyyy-MM-dd HH": ("%Y-%m-%d %H", "hour"),
    "yyyyMMddHH": ("%Y%m%d%H", "hour"),
    "yyyy-MM-dd HH:mm": ("%Y-%m-%d %H:%M", "minute"),
    "yyyy-MM-dd HH:mm:ss": ("%Y-%m-%d %H:%M:%S", "second"),
}
_MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True)
class Interval:
    """The moments from `start` up to, without, `end`; None is unbounded."""

    start: dt.datetime | None
    end: dt.datetime | None


def batches_condition(
    batch_by: exp.Expr, batches: Collection[str], types: Mapping[str, str]
) -> exp.Expr | None:
    """What rows of `batches` (texts) have in common in the column below `batch_by`, or None.

    `types` gives the Spark types of the model's columns.
    """
    bare = batch_by.unnest()
    if not batches or isinstance(bare, exp.Column):
        return None
    prefixed = _prefix_of(bare)
    if prefixed is not None:
        return _text_range(prefixed, batches, types)
    moments = [batch_moment(bare, b) for b in batches]
    known = [m for m in moments if m is not None]
    if len(known) < len(moments):
        return None
    try:
        interval = Interval(min(known), max(known) + dt.timedelta(microseconds=1))
        return _time_range(bare, interval, types)
    except OverflowError:
        return None


def interval_condition(
    batch_by: exp.Expr,
    start: Moment | None,
    end: Moment | None,
    batch_type: str,
    types: Mapping[str, str],
) -> exp.Expr | None:
    """What batches between two moments, the end excluded, have in common, or None.

    Text is not compared in SQL, since texts and times need not have the same order.
    """
    parts = _typed_range(exp.Paren(this=batch_by.copy()), start, end, batch_type)
    bare = batch_by.unnest()
    if not isinstance(bare, exp.Column) and (batch_type in TIMES or _pattern(bare) is not None):
        below = _below(bare, start, end, types)
        parts += [below] if below is not None else []
    return exp.and_(*parts) if parts else None


def _below(
    bare: exp.Expr, start: Moment | None, end: Moment | None, types: Mapping[str, str]
) -> exp.Expr | None:
    first = start if isinstance(start, dt.datetime) else None
    last = end if isinstance(end, dt.datetime) else None
    if first is None and last is None:
        return None
    try:
        return _time_range(bare, Interval(first, last), types)
    except OverflowError:
        return None


def batch_moment(batch_by: exp.Expr, batch: str) -> dt.datetime | None:
    """The moment at which a batch, given as text, begins; None when it is no time."""
    bare = batch_by.unnest()
    pattern = _pattern(bare)
    if pattern is not None:
        return _parsed(batch, _PATTERNS[pattern][0])
    if called(bare) == "year":
        return _parsed(batch, "%Y")
    return read_time(batch)


def null_without_batch(batch_by: exp.Expr, types: Mapping[str, str]) -> str | None:
    """The column that is null wherever `batch_by` is, as far as that can be told.

    It is the column itself, or the date or time that `batch_by` is made of: a text may be no date.
    `types` are the Spark types of columns.
    """
    preimage = _preimage(batch_by, Interval(None, None), outermost=True)
    if preimage is None:
        return None
    column, bare = preimage[0], batch_by.unnest()
    plain = isinstance(bare, exp.Column) and not bare.table
    return column.name if plain or _type_of(column, types) in TIMES else None


def _parsed(text: str, pattern: str) -> dt.datetime | None:
    try:
        moment = dt.datetime.strptime(text, pattern)
    except ValueError:
        return None
    # strptime also takes `2013-2-8`, which is no value of Spark's.
    return moment if len(moment.strftime(pattern)) == len(text) else None


# --- preimages ---------------------------------------------------------------------------------


def _time_range(bare: exp.Expr, interval: Interval, types: Mapping[str, str]) -> exp.Expr | None:
    preimage = _preimage(bare, interval, outermost=True)
    if preimage is None:
        return None
    reference, wanted = preimage
    kind = _type_of(reference, types)
    if kind not in TIMES:
        return None
    parts = _typed_range(reference, wanted.start, wanted.end, kind)
    return exp.and_(*parts) if parts else None


def _preimage(
    node: exp.Expr, interval: Interval, *, outermost: bool = False
) -> tuple[exp.Column, Interval] | None:
    """The column below an expression, and where its values lie if those of the expression do."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return node, interval
    # What gives numbers and texts would be read as something else by a function around it.
    step = _step(node) or (_spelling(node) if outermost else None)
    if step is None:
        return None
    inner, unit = step
    if unit is None or interval.end is None:
        return _preimage(inner, interval)
    # The value is the beginning of a unit before the end; the argument lies within that unit.
    return _preimage(inner, Interval(interval.start, end_of(before(interval.end), unit)))


def _step(node: exp.Expr) -> tuple[exp.Expr, str | None] | None:
    """The argument of a known function, and the unit to whose beginning it goes back."""
    if isinstance(node, exp.Cast):
        kind = node.to.sql(dialect="spark").lower()
        if kind == "date":
            return node.this, "day"
        same = kind in ("timestamp", "timestamp_ntz", "timestamp_ltz", "string")
        return (node.this, None) if same else None
    name, args = called(node), node.expressions
    if name in ("date", "to_date") and len(args) == 1:
        return args[0], "day"
    if name == "to_timestamp" and len(args) == 1:
        return args[0], None
    if name == "date_trunc" and len(args) == 2:
        unit = _UNITS.get(_text(args[0]).lower())
        return (args[1], unit) if unit is not None else None
    if name == "trunc" and len(args) == 2:
        unit = _UNITS.get(_text(args[1]).lower())
        return (args[0], unit) if unit in _DATE_UNITS else None
    return None


def _spelling(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """The argument of a function that spells a time, and the unit that is left of it."""
    pattern = _pattern(node)
    if pattern is not None:
        return node.expressions[0], _PATTERNS[pattern][1]
    is_year = called(node) == "year" and len(node.expressions) == 1
    return (node.expressions[0], "year") if is_year else None


def _pattern(node: exp.Expr) -> str | None:
    """The pattern of a `date_format` that is known."""
    if called(node) != "date_format" or len(node.expressions) != 2:
        return None
    text = _text(node.expressions[1])
    return text if text in _PATTERNS else None


def _typed_range(
    value: exp.Expr, start: Moment | None, end: Moment | None, kind: str
) -> list[exp.Expr]:
    """`value >= start` and `value < end` in the value's own type, where it can hold them."""
    low = None if start is None else as_text(start, kind)
    high = None if end is None else as_text(end, kind)
    parts: list[exp.Expr] = []
    if low is not None:
        parts.append(exp.GTE(this=value.copy(), expression=typed(low, kind)))
    if high is not None:
        parts.append(exp.LT(this=value.copy(), expression=typed(high, kind)))
    return parts


def typed(text: str, spark_type: str) -> exp.Expr:
    """A text as a value of a Spark type."""
    value = exp.Literal.string(text)
    if spark_type == "string":
        return value
    return as_type(value, spark_type)


def tried(text: str, spark_type: str) -> exp.Expr:
    """A text as a value of a Spark type; null, also in ANSI mode, where it is none."""
    value = typed(text, spark_type)
    return exp.TryCast(**value.args, safe=True) if isinstance(value, exp.Cast) else value


# --- prefixes of texts -------------------------------------------------------------------------


def _prefix_of(node: exp.Expr) -> exp.Column | None:
    """The column of `substr(column, 1, n)` or `left(column, n)`."""
    name, args = called(node), node.expressions
    numbers = [a.this for a in args[1:] if isinstance(a, exp.Literal) and not a.is_string]
    is_prefix = (name in ("substr", "substring") and len(args) == 3 and numbers[:1] == ["1"]) or (
        name == "left" and len(args) == 2
    )
    if not is_prefix or len(numbers) != len(args) - 1:
        return None
    inner = args[0].unnest()
    return inner if isinstance(inner, exp.Column) else None


def _text_range(
    reference: exp.Column, batches: Collection[str], types: Mapping[str, str]
) -> exp.Expr | None:
    """A text is not before its prefix, and before the prefix with a greater last character."""
    if _type_of(reference, types) != "string":
        return None
    behind = _after_prefix(max(batches))
    low = exp.GTE(this=reference.copy(), expression=exp.Literal.string(min(batches)))
    if behind is None:
        return low
    return exp.and_(low, exp.LT(this=reference.copy(), expression=exp.Literal.string(behind)))


def _after_prefix(prefix: str) -> str | None:
    """The first text in the order of code points behind all that begin with `prefix`."""
    if not prefix or ord(prefix[-1]) >= _MAX_CODE_POINT:
        return None
    code = ord(prefix[-1]) + 1
    # Surrogates are no characters.
    return prefix[:-1] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)


# --- small helpers -----------------------------------------------------------------------------


def _type_of(reference: exp.Column, types: Mapping[str, str]) -> str:
    return type_of(reference.name, types) if len(reference.parts) == 1 else ""


def _text(node: exp.Expr) -> str:
    return node.name if node.is_string else ""

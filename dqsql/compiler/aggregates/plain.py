"""Aggregates that are their own state, or a quotient of two: counts, sums, extremes, averages."""

from __future__ import annotations

from dqsql.compiler.aggregates.base import (
    Aggregate,
    AggregateCall,
    Component,
    Lowering,
    Relations,
    as_double,
    merge_with,
    own_value,
)
from dqsql.compiler.aggregates.frequency import count_distinct
from dqsql.dialect import formula
from dqsql.model.plan import Buffer


def _merged_by(name: str, *others: str, distinct: bool = False) -> Aggregate:
    """An aggregate whose states merge by the aggregate itself."""
    buffer = Buffer.ORDERED if name in ("min", "max") else Buffer.FIXED
    return Aggregate((name, *others), own_value(name, merge_with(name), buffer), distinct=distinct)


def _count(aggregate: AggregateCall, relations: Relations) -> Lowering | None:
    if aggregate.distinct:
        return count_distinct(aggregate) if aggregate.args else None
    return own_value("count", merge_with("sum"))(aggregate, relations)


def _average(aggregate: AggregateCall, relations: Relations) -> Lowering | None:
    if len(aggregate.args) != 1:
        return None
    # As Spark's avg: a sum of 64-bit integers may overflow where their mean does not.
    x = as_double(aggregate.args[0])
    total = Component("total", aggregate.aggregate("sum", x), merge_with("sum"))
    (count,) = own_value("count", merge_with("sum"))(aggregate, relations).components
    return Lowering((total, count), lambda s: formula("{0} / nullif({1}, 0)", *s))


AGGREGATES = (
    Aggregate(("count",), _count, distinct=True),
    Aggregate(("count_if",), own_value("count_if", merge_with("sum"))),
    _merged_by("sum"),
    _merged_by("try_sum"),
    _merged_by("min", distinct=True),
    _merged_by("max", distinct=True),
    _merged_by("bool_and", "every", distinct=True),
    _merged_by("bool_or", "any", "some", distinct=True),
    _merged_by("bit_and", distinct=True),
    _merged_by("bit_or", distinct=True),
    _merged_by("bit_xor"),
    Aggregate(("avg", "mean"), _average),
)

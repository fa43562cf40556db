"""Aggregates that are their own state, or a quotient of two: counts, sums, extremes, averages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.aggregates.base import (
    Aggregate,
    AggregateCall,
    Component,
    Lowering,
    Relations,
    as_double,
    first_state,
    merge_with,
    own_value,
)
from dqsql.compiler.aggregates.frequency import count_distinct
from dqsql.compiler.trees import nodes
from dqsql.dialect import column, formula, to_sql
from dqsql.model.metric_traits import TOO_LARGE_SUM
from dqsql.model.plan import Buffer, StateColumn
from dqsql.model.types import is_number


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
    # Of texts those count that are numbers.
    count = Component("count", aggregate.aggregate("count", x), merge_with("sum"))
    return Lowering((total, count), lambda s: formula("{0} / nullif({1}, 0)", *s))


def without_needless_casts(state: StateColumn, types: Mapping[str, str]) -> StateColumn:
    """The state without the casts to double that its columns do not need.

    Totals of decimals are summed as such, as by Spark's avg: three 0.1 are 0.3. Numbers are counted
    as they are: Spark counts them once for all metrics. `types` are the Spark types of the model's
    columns, in lower case.
    """
    if state.source is not None or not any(_needless(state.scan, types)):
        return state
    scan = state.scan.copy()
    for cast in list(_needless(scan, types)):
        cast.replace(cast.this)
    return replace(state, scan=scan)


# A sum has ten digits more; one that may not fit is left to doubles.
_MOST_DIGITS = 28
_DECIMAL = re.compile(r"decimal\((\d+),")


def _needless(scan: exp.Expr, types: Mapping[str, str]) -> Iterator[exp.Cast]:
    """The columns that are counted as doubles, and the decimal ones that are summed as such."""
    for node in nodes(scan, exp.Cast):
        if not isinstance(node.this, exp.Column) or not isinstance(node.parent, exp.Anonymous):
            continue
        kind, name = types.get(node.this.name.lower(), ""), str(node.parent.this).lower()
        digits = _DECIMAL.match(kind)
        exact = name == "sum" and digits is not None and int(digits.group(1)) <= _MOST_DIGITS
        if exact or (name == "count" and is_number(kind)):
            yield node


def _try_sum(aggregate: AggregateCall, relations: Relations) -> Lowering | None:
    """A sum, null where it does not fit into its type."""
    if len(aggregate.args) != 1:
        return None
    # The sum of sums; null where one is that did not fit.
    merged = "case when count_if({0} is null and {1} > 0) = 0 then try_sum({0}) end"
    scan, count = (aggregate.aggregate(name, *aggregate.args) for name in ("try_sum", "count"))
    components = (
        Component("sum", scan, lambda name, group: formula(merged, *map(column, group))),
        Component("count", count, merge_with("sum")),
    )
    return Lowering(components, first_state)


def _sum(aggregate: AggregateCall, relations: Relations) -> Lowering | None:
    """A sum, which fails where it does not fit; without ANSI mode Spark gives a wrong number."""
    lowering = _try_sum(aggregate, relations)
    if lowering is None:
        return None
    written = to_sql(aggregate.args[0]).replace("`", "")
    message = (
        f"the sum of {written} {TOO_LARGE_SUM}:"
        f" cast it to a larger one, as in sum(cast({written} as double))"
    )
    return Lowering(
        lowering.components,
        lambda s: formula(
            "case when {0} is null and {1} > 0 then raise_error({2}) else {0} end",
            *s,
            exp.Literal.string(message),
        ),
    )


AGGREGATES = (
    Aggregate(("count",), _count, distinct=True),
    Aggregate(("count_if",), own_value("count_if", merge_with("sum"))),
    Aggregate(("sum",), _sum),
    Aggregate(("try_sum",), _try_sum),
    _merged_by("min", distinct=True),
    _merged_by("max", distinct=True),
    _merged_by("bool_and", "every", distinct=True),
    _merged_by("bool_or", "any", "some", distinct=True),
    _merged_by("bit_and", distinct=True),
    _merged_by("bit_or", distinct=True),
    _merged_by("bit_xor"),
    Aggregate(("avg", "mean"), _average),
)

"""Sketches: how many distinct values there are, and which value has a rank, approximately."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.keys import not_null
from dqsql.compiler.trees import called, nodes
from dqsql.dialect import call, formula, literal, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Buffer, StateColumn

HLL_LOG2_REGISTERS = 12
KLL_K = 400


def _approx_count_distinct(
    aggregate: base.AggregateCall, relations: base.Relations
) -> base.Lowering | None:
    if not 1 <= len(aggregate.args) <= 2:
        return None
    registers = HLL_LOG2_REGISTERS
    if len(aggregate.args) == 2:
        registers = _hll_registers(number(aggregate.args[1]))
    value = aggregate.args[0].copy()
    # The sketch takes integers, strings and binary only, and xxhash64 of null is a number.
    hashed = exp.If(this=not_null(value), true=call("xxhash64", value))
    scan = aggregate.aggregate("hll_sketch_agg", exp.Case(ifs=[hashed]), literal(registers))
    component = base.Component(
        f"hll{registers}", scan, base.merge_with("hll_union_agg"), Buffer.OBJECT
    )
    # A sketch that was never merged is estimated by the order in which its values came (Cohen's and
    # Ting's historic inverse probability, 2014); one that was merged, with itself too, by what it
    # holds.
    return base.Lowering(
        (component,), lambda s: formula("hll_sketch_estimate(hll_union({0}, {0}))", s[0])
    )


def with_hashed_maps(state: StateColumn, maps: Collection[str]) -> StateColumn:
    """The state with maps hashed by their sorted entries: Spark hashes none, as they have no order.

    `maps` are the model's columns of that type, in lower case.
    """
    if not maps or state.source is not None or not any(_hashed(state.scan, maps)):
        return state
    scan = state.scan.copy()
    for value in list(_hashed(scan, maps)):
        value.replace(formula(base.SORTED_ENTRIES, value.copy()))
    return replace(state, scan=scan)


def _hashed(scan: exp.Expr, maps: Collection[str]) -> Iterator[exp.Expr]:
    """The columns of some names that are hashed."""
    for node in nodes(scan, exp.Column):
        parent = node.parent
        hashed = isinstance(parent, exp.Func) and parent.name.lower() == "xxhash64"
        if hashed and node.name.lower() in maps:
            yield node


def _hll_registers(relative_sd: float) -> int:
    """The log2 of the number of HLL registers for a relative standard deviation (1.04/sqrt(m))."""
    if not 0 < relative_sd < 1:
        raise UnsupportedExpressionError(
            f"approx_count_distinct: the relative error {relative_sd} is not between 0 and 1"
        )
    registers: int = math.ceil(2 * math.log2(1.04 / relative_sd))
    return min(21, max(4, registers))


def _kll_quantile(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering | None:
    if not 2 <= len(aggregate.args) <= 3:
        return None
    k = KLL_K if len(aggregate.args) == 2 else _kll_k(number(aggregate.args[2]))
    x = base.as_double(aggregate.args[0])
    rank = aggregate.args[1]
    scan = aggregate.aggregate("kll_sketch_agg_double", x, literal(k))
    component = base.Component(
        f"kll{k}", scan, base.merge_with("kll_merge_agg_double"), Buffer.OBJECT
    )
    kind = "array<double>" if is_array(rank) else "double"
    # Spark refuses to ask a sketch of no values.
    quantile = (
        "case when kll_sketch_get_n_double({0}) > 0"
        f" then kll_sketch_get_quantile_double({{0}}, cast({{1}} as {kind})) end"
    )
    return base.Lowering((component,), lambda states: formula(quantile, states[0], rank))


def is_array(rank: exp.Expr) -> bool:
    """Whether several ranks are asked for."""
    return called(rank) == "array"


def _kll_k(accuracy: float) -> int:
    """The k of a KLL sketch whose rank error is 1/accuracy (2.296 / k^0.9021, DataSketches)."""
    if accuracy <= 0:
        raise UnsupportedExpressionError(f"the accuracy {accuracy} of a quantile is not positive")
    k: int = math.ceil((2.296 * accuracy) ** (1 / 0.9021))
    return min(65535, max(8, k))


def number(node: exp.Expr) -> float:
    """The number that an argument is. Raises UnsupportedExpressionError."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this)
    raise UnsupportedExpressionError(f"expected a number, found {to_sql(node)}")


AGGREGATES = (
    base.Aggregate(
        ("approx_count_distinct",), _approx_count_distinct, in_state=lambda args: args[:1]
    ),
    base.Aggregate(("kll_quantile",), _kll_quantile, in_state=lambda args: args[:1]),
)

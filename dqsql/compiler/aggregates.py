"""Lowering of Spark's aggregate functions to state, merge and finish.

Each entry of `LOWERINGS` says how one aggregate is split: which state columns a scan computes, how
state rows of several batches are merged, and how the aggregate's value is had from the state. An
aggregate that is not listed does not decompose: its value is kept per batch and never merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.central_moments import (
    CORRELATION,
    KURTOSIS,
    SKEWNESS,
    STDDEV,
    VARIANCE,
    comoments,
    moments,
)
from dqsql.compiler.facts import ABOUT_THE_RELATION, FACT, FACTS
from dqsql.compiler.keys import not_null
from dqsql.compiler.lowering import (
    AggregateCall,
    Component,
    Lowering,
    Merge,
    as_double,
    filtered,
    merge_with,
)
from dqsql.compiler.naive_bayes import NAIVE_BAYES, classification_of, measure_of, merged, score
from dqsql.compiler.references import RELATION_ROWS
from dqsql.compiler.trees import map_aggregates, outermost_aggregates
from dqsql.dialect import call, column, formula, literal, parse_expression, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Buffer, Entries, FrequencyTable, Relation

FREQUENCY = "frequency"
TRIGRAMS = "trigrams"
_FORMS = {"batch": Entries.TRIGRAMS, "text": Entries.TEXTS}
HLL_LOG2_REGISTERS = 12
KLL_K = 400


def lower(aggregate: AggregateCall, relations: Mapping[str, Relation]) -> Lowering:
    """Split an aggregate into state, merge and finish; keep it whole where that cannot be done.

    `relations` are the other relations that the checks of the model read, by their SQL text.
    """
    if aggregate.name == FACT:
        return _fact(aggregate)
    if aggregate.name == NAIVE_BAYES:
        return _naive_bayes(aggregate)
    if aggregate.name == RELATION_ROWS:
        return _relation_rows(relations[aggregate.args[0].this])
    if aggregate.name == "count" and aggregate.distinct and aggregate.args:
        return _count_distinct(aggregate)
    if aggregate.name == FREQUENCY:
        return _over_frequencies(aggregate, aggregate.args)
    rule = LOWERINGS.get(aggregate.name)
    plain = not aggregate.distinct or aggregate.name in _DISTINCT_IS_NO_MATTER
    lowering = None
    if rule is not None and plain and aggregate.within_group is None:
        lowering = rule(aggregate)
    return lowering or _whole(aggregate)


def _whole(aggregate: AggregateCall) -> Lowering:
    """The aggregate as one value that does not merge."""
    args: list[exp.Expr] = [a.copy() for a in aggregate.args]
    if aggregate.distinct:
        args = [exp.Distinct(expressions=args)]
    node: exp.Expr = call(aggregate.name, *args)
    if aggregate.within_group is not None:
        node = exp.WithinGroup(this=node, expression=aggregate.within_group.copy())
    buffer = Buffer.DISTINCT if aggregate.distinct else Buffer.OBJECT
    suffix = f"{aggregate.name}_distinct" if aggregate.distinct else aggregate.name
    component = Component(suffix, filtered(node, aggregate.where), None, buffer)
    return Lowering((component,), lambda states: states[0])


def _fact(aggregate: AggregateCall) -> Lowering:
    name = str(aggregate.args[0].this) if aggregate.args else ""
    if name not in FACTS:
        raise UnsupportedExpressionError(f"{FACT} takes one of {', '.join(sorted(FACTS))}")
    # Known without any row, and not worth a buffer of its own.
    scan = formula("case when count(*) >= 0 then {0} end", call(FACT, aggregate.args[0]))
    component = Component(name, scan, merge_with("max"), whole_only=name in ABOUT_THE_RELATION)
    return Lowering((component,), lambda states: states[0])


def _naive_bayes(aggregate: AggregateCall) -> Lowering:
    learned = classification_of(aggregate.args, aggregate.where)
    measure = measure_of(aggregate.args)
    component = Component(
        "nb",
        exp.Null(),
        lambda name, group: merged(column(name)),
        Buffer.CLASSIFICATION,
        classification=learned,
    )
    return Lowering((component,), lambda states: score(states[0], measure, learned.buckets))


def _relation_rows(relation: Relation) -> Lowering:
    component = Component(
        "rows",
        call("count", exp.Star()),
        merge_with("max" if relation.batch is None else "sum"),
        Buffer.RELATION,
        relation=relation,
        whole_only=True,
    )
    return Lowering((component,), lambda states: states[0])


def _over_frequencies(aggregate: AggregateCall, args: Sequence[exp.Expr]) -> Lowering:
    """`frequency(expression, columns..)`: an expression of aggregates over a frequency table."""
    if len(args) < 2:
        raise UnsupportedExpressionError(
            f"{FREQUENCY} takes an expression over n and at least one column",
            hint=f"for example: {FREQUENCY}(max(n) / sum(n), carrier)",
        )
    expression, columns = args[0], tuple(args[1:])
    table = _table(columns, aggregate.where)
    aggregates = list(dict.fromkeys(to_sql(a) for a in outermost_aggregates(expression)))
    components = tuple(
        Component(f"freq{i}", a, None, Buffer.FREQUENCY, table)
        for i, a in enumerate(parse_expression(text) for text in aggregates)
    )

    def finish(states: Sequence[exp.Expr]) -> exp.Expr:
        by_text = dict(zip(aggregates, states, strict=True))
        return map_aggregates(expression, lambda a: by_text[to_sql(a)].copy())

    return Lowering(components, finish)


def _count_distinct(aggregate: AggregateCall) -> Lowering:
    """`count(distinct a, b)`: tuples with a null do not count."""
    conditions = [not_null(a.copy()) for a in aggregate.args] if len(aggregate.args) > 1 else []
    where = [exp.Paren(this=aggregate.where.copy())] if aggregate.where is not None else []
    restricted = exp.and_(*where, *conditions) if where or conditions else None
    about = replace(aggregate, where=restricted)
    return _over_frequencies(about, (call("count", exp.Star()), *aggregate.args))


def _table(columns: tuple[exp.Expr, ...], where: exp.Expr | None) -> FrequencyTable:
    """The table of columns, or of the trigrams of one: `trigrams(column, form)`."""
    of = [c for c in columns if isinstance(c, exp.Anonymous) and str(c.this).lower() == TRIGRAMS]
    if not of:
        return FrequencyTable(columns, where)
    form = of[0].expressions[1] if len(of[0].expressions) == 2 else literal("batch")
    entries = _FORMS.get(str(form.this)) if isinstance(form, exp.Literal) else None
    if entries is None:
        raise UnsupportedExpressionError(
            f"{to_sql(form)} is no form of the index of peculiarity",
            hint="'batch' is over all trigrams of a batch, 'text' the mean over its texts",
        )
    if len(columns) != 1 or not 1 <= len(of[0].expressions) <= 2:
        raise UnsupportedExpressionError(
            f"{TRIGRAMS} takes one column, and has no other column beside it"
        )
    return FrequencyTable((of[0].expressions[0],), where, entries)


def _value(
    scan_name: str, merge: Merge, buffer: Buffer = Buffer.FIXED
) -> Callable[[AggregateCall], Lowering]:
    """An aggregate that is its own state: count, sum, min, bool_and, .."""

    def rule(aggregate: AggregateCall) -> Lowering:
        scan = aggregate.aggregate(scan_name, *aggregate.args)
        component = Component(scan_name, scan, merge, buffer)
        return Lowering((component,), lambda states: states[0])

    return rule


def _count(aggregate: AggregateCall) -> Component:
    return Component("count", aggregate.aggregate("count", *aggregate.args), merge_with("sum"))


def _average(aggregate: AggregateCall) -> Lowering | None:
    if len(aggregate.args) != 1:
        return None
    # As Spark's avg: a sum of 64-bit integers may overflow where their mean does not.
    x = as_double(aggregate.args[0])
    total = Component("total", aggregate.aggregate("sum", x), merge_with("sum"))
    return Lowering(
        (total, _count(aggregate)),
        lambda s: formula("{0} / nullif({1}, 0)", *s),
    )


# --- sketches ----------------------------------------------------------------------------------


def _approx_count_distinct(aggregate: AggregateCall) -> Lowering | None:
    if not 1 <= len(aggregate.args) <= 2:
        return None
    registers = HLL_LOG2_REGISTERS
    if len(aggregate.args) == 2:
        registers = _hll_registers(_number(aggregate.args[1]))
    value = aggregate.args[0].copy()
    # The sketch takes integers, strings and binary only, and xxhash64 of null is a number.
    hashed = exp.If(this=not_null(value), true=call("xxhash64", value))
    scan = aggregate.aggregate("hll_sketch_agg", exp.Case(ifs=[hashed]), literal(registers))
    component = Component(f"hll{registers}", scan, merge_with("hll_union_agg"), Buffer.OBJECT)
    return Lowering((component,), lambda s: call("hll_sketch_estimate", s[0]))


def _hll_registers(relative_sd: float) -> int:
    """The log2 of the number of HLL registers for a relative standard deviation (1.04/sqrt(m))."""
    if not 0 < relative_sd < 1:
        raise UnsupportedExpressionError(
            f"approx_count_distinct: the relative error {relative_sd} is not between 0 and 1"
        )
    registers: int = math.ceil(2 * math.log2(1.04 / relative_sd))
    return min(21, max(4, registers))


def _approx_percentile(aggregate: AggregateCall) -> Lowering | None:
    if not 2 <= len(aggregate.args) <= 3:
        return None
    k = KLL_K if len(aggregate.args) == 2 else _kll_k(_number(aggregate.args[2]))
    x = as_double(aggregate.args[0])
    rank = aggregate.args[1]
    scan = aggregate.aggregate("kll_sketch_agg_double", x, literal(k))
    component = Component(f"kll{k}", scan, merge_with("kll_merge_agg_double"), Buffer.OBJECT)

    def finish(states: Sequence[exp.Expr]) -> exp.Expr:
        return quantile_of_sketch(states[0], rank)

    return Lowering((component,), finish)


def quantile_of_sketch(sketch: exp.Expr, rank: exp.Expr) -> exp.Expr:
    """The quantile at `rank`, null for a sketch of no values (which Spark refuses to ask)."""
    kind = "array<double>" if _is_array(rank) else "double"
    return formula(
        "case when kll_sketch_get_n_double({0}) > 0"
        f" then kll_sketch_get_quantile_double({{0}}, cast({{1}} as {kind})) end",
        sketch,
        rank,
    )


def _is_array(rank: exp.Expr) -> bool:
    return isinstance(rank, exp.Anonymous) and str(rank.this).lower() == "array"


def _kll_k(accuracy: float) -> int:
    """The k of a KLL sketch whose rank error is 1/accuracy (2.296 / k^0.9021, DataSketches)."""
    if accuracy <= 0:
        raise UnsupportedExpressionError(f"the accuracy {accuracy} of a quantile is not positive")
    k: int = math.ceil((2.296 * accuracy) ** (1 / 0.9021))
    return min(65535, max(8, k))


def _number(node: exp.Expr) -> float:
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this)
    raise UnsupportedExpressionError(f"expected a number, found {to_sql(node)}")


_SAMPLE_VARIANCE = moments(2, VARIANCE % (1, 1))
_SAMPLE_STDDEV = moments(2, STDDEV % (1, 1))
_BOOL_AND = _value("bool_and", merge_with("bool_and"))
_BOOL_OR = _value("bool_or", merge_with("bool_or"))
_DISTINCT_IS_NO_MATTER = frozenset(
    {"min", "max", "bool_and", "bool_or", "every", "any", "some", "bit_and", "bit_or"}
)

LOWERINGS: dict[str, Callable[[AggregateCall], Lowering | None]] = {
    "count": _value("count", merge_with("sum")),
    "count_if": _value("count_if", merge_with("sum")),
    "sum": _value("sum", merge_with("sum")),
    "try_sum": _value("try_sum", merge_with("try_sum")),
    "min": _value("min", merge_with("min"), Buffer.ORDERED),
    "max": _value("max", merge_with("max"), Buffer.ORDERED),
    "bool_and": _BOOL_AND,
    "every": _BOOL_AND,
    "bool_or": _BOOL_OR,
    "any": _BOOL_OR,
    "some": _BOOL_OR,
    "bit_and": _value("bit_and", merge_with("bit_and")),
    "bit_or": _value("bit_or", merge_with("bit_or")),
    "bit_xor": _value("bit_xor", merge_with("bit_xor")),
    "avg": _average,
    "mean": _average,
    "variance": _SAMPLE_VARIANCE,
    "var_samp": _SAMPLE_VARIANCE,
    "var_pop": moments(2, VARIANCE % (0, 0)),
    "stddev": _SAMPLE_STDDEV,
    "std": _SAMPLE_STDDEV,
    "stddev_samp": _SAMPLE_STDDEV,
    "stddev_pop": moments(2, STDDEV % (0, 0)),
    "skewness": moments(3, SKEWNESS),
    "kurtosis": moments(4, KURTOSIS),
    "covar_pop": comoments("case when {0} > 0 then {3} / {0} end"),
    "covar_samp": comoments("case when {0} > 1 then {3} / ({0} - 1) end"),
    "corr": comoments(CORRELATION),
    "approx_count_distinct": _approx_count_distinct,
    "approx_percentile": _approx_percentile,
    "percentile_approx": _approx_percentile,
}

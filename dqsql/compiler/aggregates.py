"""Lowering of Spark's aggregate functions to state, merge and finish.

Each entry of `LOWERINGS` says how one aggregate is split: which state columns a scan computes, how
state rows of several batches are merged, and how the aggregate's value is had from the state. An
aggregate that is not listed does not decompose: its value is kept per batch and never merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.facts import ABOUT_THE_RELATION, FACT, FACTS
from dqsql.compiler.keys import not_null
from dqsql.compiler.naive_bayes import NAIVE_BAYES, classification_of, measure_of, merged, score
from dqsql.compiler.references import RELATION_ROWS
from dqsql.compiler.trees import map_aggregates, outermost_aggregates
from dqsql.dialect import call, column, formula, literal, parse_expression, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Buffer, Classification, Entries, FrequencyTable, Relation

FREQUENCY = "frequency"
TRIGRAMS = "trigrams"
_FORMS = {"batch": Entries.TRIGRAMS, "text": Entries.TEXTS}
HLL_LOG2_REGISTERS = 12
KLL_K = 400

Finish = Callable[[Sequence[exp.Expr]], exp.Expr]
Merge = Callable[[str, Sequence[str]], exp.Expr]


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate call as the user wrote it: `name(distinct args) filter (where ..)`."""

    name: str
    args: tuple[exp.Expr, ...]
    distinct: bool = False
    where: exp.Expr | None = None
    within_group: exp.Expr | None = None

    def aggregate(self, name: str, *args: exp.Expr) -> exp.Expr:
        """The aggregate `name(args)` over the rows that this call is about."""
        return filtered(call(name, *(a.copy() for a in args)), self.where)


@dataclass(frozen=True)
class Component:
    """One state column of an aggregate: what to scan, how to merge, and the kind of its buffer."""

    suffix: str
    scan: exp.Expr
    merge: Merge | None
    buffer: Buffer = Buffer.FIXED
    frequency: FrequencyTable | None = None
    relation: Relation | None = None
    whole_only: bool = False
    classification: Classification | None = None


@dataclass(frozen=True)
class Lowering:
    """An aggregate split into state columns and the expression that finishes them."""

    components: tuple[Component, ...]
    finish: Finish
    notes: tuple[str, ...] = field(default=())


def filtered(aggregate: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE where)`, or the aggregate itself."""
    if where is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=where.copy()))


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
    component = Component(name, scan, _merge_with("max"), whole_only=name in ABOUT_THE_RELATION)
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
        _merge_with("max" if relation.batch is None else "sum"),
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


def _merge_with(function: str) -> Merge:
    return lambda name, group: call(function, column(name))


def _sum(name: str, group: Sequence[str]) -> exp.Expr:
    return call("sum", column(name))


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
    return Component("count", aggregate.aggregate("count", *aggregate.args), _sum)


def _average(aggregate: AggregateCall) -> Lowering | None:
    if len(aggregate.args) != 1:
        return None
    # As Spark's avg: a sum of 64-bit integers may overflow where their mean does not.
    x = _as_double(aggregate.args[0])
    total = Component("total", aggregate.aggregate("sum", x), _sum)
    return Lowering(
        (total, _count(aggregate)),
        lambda s: formula("{0} / nullif({1}, 0)", *s),
    )


# --- central moments ---------------------------------------------------------------------------
#
# States are n, mean and the sums of powers of deviations, merged pairwise after Chan, Golub and
# LeVeque (1979) and Pebay (2008). Sums of squares would lose all digits to cancellation.
#
# Where numbers are large and near each other, their mean as one double is too coarse: at 1e9 it is
# off by 1e-7. The mean is therefore kept as a pivot and the mean distance from it. The pivot is the
# number in its leading 17 bits (Dekker 1971, Veltkamp's splitting), where all numbers of the batch
# agree in them; what is left of each is exact. Where they do not agree the pivot is 0: the spread
# is then large enough for doubles.

_SPLITTER = 2**36 + 1
_HIGH = f"({{0}} * {_SPLITTER} - ({{0}} * {_SPLITTER} - {{0}}))"


def _as_double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.DataType.build("double"))


def _moment_components(aggregate: AggregateCall, order: int) -> tuple[Component, ...]:
    x = _as_double(aggregate.args[0])
    n = aggregate.aggregate("count", *aggregate.args)
    low = formula(f"({{0}} - {_HIGH})", x)
    least, most = (formula(_HIGH, aggregate.aggregate(f, x)) for f in ("min", "max"))
    # A difference, since infinities are split into NaN, which equals itself in Spark.
    agree = formula("{0} - {1} = 0", least, most)

    def shifted(name: str) -> exp.Expr:
        """The aggregate of the distances from the pivot."""
        near, far = aggregate.aggregate(name, low), aggregate.aggregate(name, x)
        return formula("case when {0} then {1} else {2} end", agree, near, far)

    # What the third and fourth moments are standardised by.
    m2 = formula("({0} * {1})", aggregate.aggregate("var_pop", x), n)
    # Spark exposes the third and fourth moments only standardised; undo that. They are null where
    # the variance is 0, and then the central moments are 0.
    skewness, kurtosis = aggregate.aggregate("skewness", x), aggregate.aggregate("kurtosis", x)
    scans = {
        "count": n,
        "pivot": formula("case when {0} then {1} else 0 end", agree, least),
        "mean": formula("({0} / nullif({1}, 0))", shifted("sum"), n),
        "m2": formula("({0} * {1})", shifted("var_pop"), n),
        "m3": formula("coalesce({0} * power({1}, 1.5) / sqrt({2}), {1})", skewness, m2, n),
        "m4": formula("coalesce(({0} + 3) * {1} * {1} / nullif({2}, 0), {1})", kurtosis, m2, n),
    }
    names = ["count", "pivot", "mean", "m2", "m3", "m4"][: order + 2]
    return tuple(
        Component(name, scans[name], _sum if name == "count" else _pairwise(_MOMENT_UPDATES, name))
        for name in names
    )


_N = "(a.n + b.n)"
_D = "((b.pivot - a.pivot) + (b.mean - a.mean))"
_MOMENT_UPDATES = {
    "pivot": "a.pivot",
    "mean": f"a.mean + {_D} * b.n / {_N}",
    "m2": f"a.m2 + b.m2 + {_D} * {_D} * a.n * b.n / {_N}",
    "m3": f"a.m3 + b.m3 + power({_D}, 3) * a.n * b.n * (a.n - b.n) / ({_N} * {_N})"
    f" + 3 * {_D} * (a.n * b.m2 - b.n * a.m2) / {_N}",
    "m4": f"a.m4 + b.m4 + power({_D}, 4) * a.n * b.n * (a.n * a.n - a.n * b.n + b.n * b.n)"
    f" / ({_N} * {_N} * {_N}) + 6 * {_D} * {_D} * (a.n * a.n * b.m2 + b.n * b.n * a.m2)"
    f" / ({_N} * {_N}) + 4 * {_D} * (a.n * b.m3 - b.n * a.m3) / {_N}",
}
_DX = "(b.mean_x - a.mean_x)"
_DY = "(b.mean_y - a.mean_y)"
_COMOMENT_UPDATES = {
    "mean_x": f"a.mean_x + {_DX} * b.n / {_N}",
    "mean_y": f"a.mean_y + {_DY} * b.n / {_N}",
    "cxy": f"a.cxy + b.cxy + {_DX} * {_DY} * a.n * b.n / {_N}",
    "m2_x": f"a.m2_x + b.m2_x + {_DX} * {_DX} * a.n * b.n / {_N}",
    "m2_y": f"a.m2_y + b.m2_y + {_DY} * {_DY} * a.n * b.n / {_N}",
}


def _pairwise(updates: dict[str, str], result: str) -> Merge:
    """Fold the state rows pairwise and take field `result` of the merged state.

    The first state column of the group is the count; the others are the keys of `updates`, in
    order. In the update formulas `a` and `b` are the two states. Rows with count 0 take no part.
    """

    def merge(name: str, group: Sequence[str]) -> exp.Expr:
        fields = ["n", *updates][: len(group)]
        pack = ", ".join(f"'{f}', cast({{{i}}} as double)" for i, f in enumerate(fields))
        start = ", ".join(f"'{f}', cast(0 as double)" for f in fields)
        merged = ", ".join(["'n', a.n + b.n", *(f"'{f}', {updates[f]}" for f in fields[1:])])
        return formula(
            f"aggregate(collect_list(named_struct({pack})), named_struct({start}), (a, b) -> "
            f"if(coalesce(b.n, 0) = 0, a, if(a.n = 0, b, named_struct({merged})))).{result}",
            *(column(c) for c in group),
        )

    return merge


def _moments(order: int, finish: str) -> Callable[[AggregateCall], Lowering | None]:
    """An aggregate over n, mean and central moments up to `order`.

    In `finish` the states are {0} n, {1} pivot, {2} mean from there, {3} m2, {4} m3, {5} m4.
    """

    def rule(aggregate: AggregateCall) -> Lowering | None:
        if len(aggregate.args) != 1:
            return None
        return Lowering(_moment_components(aggregate, order), lambda s: formula(finish, *s))

    return rule


def _comoment_components(aggregate: AggregateCall) -> tuple[Component, ...]:
    x, y = aggregate.args
    both = exp.and_(_is_not_null(x), _is_not_null(y))
    where = both if aggregate.where is None else exp.and_(aggregate.where.copy(), both)
    pairs = AggregateCall(aggregate.name, aggregate.args, where=where)
    x, y = _as_double(x), _as_double(y)
    count = pairs.aggregate("count", literal(1))

    def times_n(name: str, *args: exp.Expr) -> exp.Expr:
        return formula("({0} * {1})", pairs.aggregate(name, *args), count)

    scans = {
        "mean_x": pairs.aggregate("avg", x),
        "mean_y": pairs.aggregate("avg", y),
        "cxy": times_n("covar_pop", x, y),
        "m2_x": times_n("var_pop", x),
        "m2_y": times_n("var_pop", y),
    }
    return (
        Component("pairs", count, _sum),
        *(Component(f, s, _pairwise(_COMOMENT_UPDATES, f)) for f, s in scans.items()),
    )


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))


def _comoments(finish: str) -> Callable[[AggregateCall], Lowering | None]:
    """An aggregate over n, two means, two second moments and the co-moment of two columns.

    In `finish` the states are {0} n, {1} mean x, {2} mean y, {3} co-moment, {4} m2 x, {5} m2 y.
    """

    def rule(aggregate: AggregateCall) -> Lowering | None:
        if len(aggregate.args) != 2:
            return None
        return Lowering(_comoment_components(aggregate), lambda s: formula(finish, *s))

    return rule


# --- sketches ----------------------------------------------------------------------------------


def _approx_count_distinct(aggregate: AggregateCall) -> Lowering | None:
    if not 1 <= len(aggregate.args) <= 2:
        return None
    registers = HLL_LOG2_REGISTERS
    if len(aggregate.args) == 2:
        registers = _hll_registers(_number(aggregate.args[1]))
    value = aggregate.args[0].copy()
    # The sketch takes integers, strings and binary only, and xxhash64 of null is a number.
    hashed = exp.If(this=_is_not_null(value), true=call("xxhash64", value))
    scan = aggregate.aggregate("hll_sketch_agg", exp.Case(ifs=[hashed]), literal(registers))
    component = Component(f"hll{registers}", scan, _merge_with("hll_union_agg"), Buffer.OBJECT)
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
    x = _as_double(aggregate.args[0])
    rank = aggregate.args[1]
    scan = aggregate.aggregate("kll_sketch_agg_double", x, literal(k))
    component = Component(f"kll{k}", scan, _merge_with("kll_merge_agg_double"), Buffer.OBJECT)

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


_VARIANCE = "case when {0} > %d then {3} / ({0} - %d) end"
_SKEWNESS = "case when {3} > 0 then sqrt({0}) * {4} / power({3}, 1.5) end"
_KURTOSIS = "case when {3} > 0 then {0} * {5} / ({3} * {3}) - 3 end"
_CORR = "case when {4} > 0 and {5} > 0 then {3} / sqrt({4} * {5}) end"
_STDDEV = "case when {0} > %d then sqrt({3} / ({0} - %d)) end"

_SAMPLE_VARIANCE = _moments(2, _VARIANCE % (1, 1))
_SAMPLE_STDDEV = _moments(2, _STDDEV % (1, 1))
_BOOL_AND = _value("bool_and", _merge_with("bool_and"))
_BOOL_OR = _value("bool_or", _merge_with("bool_or"))
_DISTINCT_IS_NO_MATTER = frozenset(
    {"min", "max", "bool_and", "bool_or", "every", "any", "some", "bit_and", "bit_or"}
)

LOWERINGS: dict[str, Callable[[AggregateCall], Lowering | None]] = {
    "count": _value("count", _sum),
    "count_if": _value("count_if", _sum),
    "sum": _value("sum", _sum),
    "try_sum": _value("try_sum", _merge_with("try_sum")),
    "min": _value("min", _merge_with("min"), Buffer.ORDERED),
    "max": _value("max", _merge_with("max"), Buffer.ORDERED),
    "bool_and": _BOOL_AND,
    "every": _BOOL_AND,
    "bool_or": _BOOL_OR,
    "any": _BOOL_OR,
    "some": _BOOL_OR,
    "bit_and": _value("bit_and", _merge_with("bit_and")),
    "bit_or": _value("bit_or", _merge_with("bit_or")),
    "bit_xor": _value("bit_xor", _merge_with("bit_xor")),
    "avg": _average,
    "mean": _average,
    "variance": _SAMPLE_VARIANCE,
    "var_samp": _SAMPLE_VARIANCE,
    "var_pop": _moments(2, _VARIANCE % (0, 0)),
    "stddev": _SAMPLE_STDDEV,
    "std": _SAMPLE_STDDEV,
    "stddev_samp": _SAMPLE_STDDEV,
    "stddev_pop": _moments(2, _STDDEV % (0, 0)),
    "skewness": _moments(3, _SKEWNESS),
    "kurtosis": _moments(4, _KURTOSIS),
    "covar_pop": _comoments("case when {0} > 0 then {3} / {0} end"),
    "covar_samp": _comoments("case when {0} > 1 then {3} / ({0} - 1) end"),
    "corr": _comoments(_CORR),
    "approx_count_distinct": _approx_count_distinct,
    "approx_percentile": _approx_percentile,
    "percentile_approx": _approx_percentile,
}

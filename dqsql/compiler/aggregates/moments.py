"""Variances, higher moments and correlations as mergeable states.

States are n, mean and the sums of powers of deviations, merged pairwise after Chan, Golub and
LeVeque (1979) and Pebay (2008). Sums of squares would lose all digits to cancellation.

Where numbers are large and near each other, their mean as one double is too coarse: at 1e9 it is
off by 1e-7. The mean is therefore kept as a pivot and the mean distance from it. The pivot is the
number in its leading 17 bits (Dekker 1971, Veltkamp's splitting), where all numbers of the batch
agree in them; what is left of each is exact. Where they do not agree the pivot is 0: the spread
is then large enough for doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.keys import not_null
from dqsql.compiler.trees import where_met
from dqsql.dialect import column, fill, formula, literal, operand

_VARIANCE = "case when {0} > %d then {3} / ({0} - %d) end"
_STDDEV = "case when {0} > %d then sqrt({3} / ({0} - %d)) end"

_SPLITTER = 2**36 + 1
_HIGH = f"({{0}} * {_SPLITTER} - ({{0}} * {_SPLITTER} - {{0}}))"
_MOMENTS = ("count", "pivot", "mean", "m2", "m3", "m4")


def _moments(
    order: int, finish: str
) -> Callable[[base.AggregateCall, base.Relations], base.Lowering | None]:
    """An aggregate over n, mean and central moments up to `order`.

    In `finish` the states are {0} n, {1} pivot, {2} mean from there, {3} m2, {4} m3, {5} m4.
    """

    def lower(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering | None:
        if len(aggregate.args) != 1:
            return None
        return base.Lowering(_moment_components(aggregate, order), lambda s: formula(finish, *s))

    return lower


def _comoments(finish: str) -> Callable[[base.AggregateCall, base.Relations], base.Lowering | None]:
    """An aggregate over n, two means, two second moments and the co-moment of two columns.

    In `finish` the states are {0} n, {1} mean x, {2} mean y, {3} co-moment, {4} m2 x, {5} m2 y.
    """

    def lower(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering | None:
        # Of a column with itself the states of both would be the same ones.
        if len(aggregate.args) != 2 or aggregate.args[0] == aggregate.args[1]:
            return None
        return base.Lowering(_comoment_components(aggregate), lambda s: formula(finish, *s))

    return lower


# --- what is scanned ---------------------------------------------------------------------------
#
# These trees are large. They are made once, for any column, and then filled in.


def _moment_components(aggregate: base.AggregateCall, order: int) -> tuple[base.Component, ...]:
    scans = _filled(_moment_scans(aggregate.where is not None), aggregate)
    names = _MOMENTS[: order + 2]
    merges = (base.merge_with("sum"), *(_pairwise(_MOMENT_UPDATES, name) for name in names[1:]))
    return tuple(base.Component(n, scans[n], m) for n, m in zip(names, merges, strict=True))


def _comoment_components(aggregate: base.AggregateCall) -> tuple[base.Component, ...]:
    scans = _filled(_comoment_scans(aggregate.where is not None), aggregate)
    merges = {name: _pairwise(_COMOMENT_UPDATES, name) for name in _COMOMENT_UPDATES}
    return tuple(
        base.Component(n, s, merges.get(n, base.merge_with("sum"))) for n, s in scans.items()
    )


def _filled(scans: Mapping[str, exp.Expr], aggregate: base.AggregateCall) -> dict[str, exp.Expr]:
    where = () if aggregate.where is None else (aggregate.where,)
    return {name: fill(scan, *aggregate.args, *where) for name, scan in scans.items()}


@lru_cache
def _moment_scans(filtered: bool) -> dict[str, exp.Expr]:
    """The states over operand 0, over the rows that meet operand 1 where they are `filtered`."""
    over = base.AggregateCall("moments", (operand(0),), where=operand(1) if filtered else None)
    x = base.as_double(operand(0))
    n = over.aggregate("count", x)
    low = formula(f"({{0}} - {_HIGH})", x)
    least, most = (formula(_HIGH, over.aggregate(f, x)) for f in ("min", "max"))
    # A difference, since infinities are split into NaN, which equals itself in Spark.
    agree = formula("{0} - {1} = 0", least, most)

    def shifted(name: str) -> exp.Expr:
        """The aggregate of the distances from the pivot."""
        near, far = over.aggregate(name, low), over.aggregate(name, x)
        return formula("case when {0} then {1} else {2} end", agree, near, far)

    # What the third and fourth moments are standardised by.
    m2 = formula("({0} * {1})", over.aggregate("var_pop", x), n)
    # Spark exposes the third and fourth moments only standardised; undo that. They are null where
    # the variance is 0, and then the central moments are 0.
    skewness, kurtosis = over.aggregate("skewness", x), over.aggregate("kurtosis", x)
    return {
        "count": n,
        "pivot": formula("case when {0} then {1} else 0 end", agree, least),
        "mean": formula("({0} / nullif({1}, 0))", shifted("sum"), n),
        "m2": formula("({0} * {1})", shifted("var_pop"), n),
        "m3": formula("coalesce({0} * power({1}, 1.5) / sqrt({2}), {1})", skewness, m2, n),
        "m4": formula("coalesce(({0} + 3) * {1} * {1} / nullif({2}, 0), {1})", kurtosis, m2, n),
    }


@lru_cache
def _comoment_scans(filtered: bool) -> dict[str, exp.Expr]:
    """The states over operands 0 and 1, over the rows that meet operand 2 where `filtered`."""
    x, y = operand(0), operand(1)
    dx, dy = base.as_double(x), base.as_double(y)
    both = exp.and_(not_null(dx.copy()), not_null(dy.copy()))
    where = where_met(operand(2), both) if filtered else both
    over = base.AggregateCall("comoments", (x, y), where=where)
    count = over.aggregate("count", literal(1))

    def times_n(name: str, *args: exp.Expr) -> exp.Expr:
        return formula("({0} * {1})", over.aggregate(name, *args), count)

    return {
        "pairs": count,
        "mean_x": over.aggregate("avg", dx),
        "mean_y": over.aggregate("avg", dy),
        "cxy": times_n("covar_pop", dx, dy),
        "m2_x": times_n("var_pop", dx),
        "m2_y": times_n("var_pop", dy),
    }


# --- how states merge --------------------------------------------------------------------------

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


def _pairwise(updates: dict[str, str], result: str) -> base.Merge:
    """Fold the state rows pairwise and take field `result` of the merged state.

    They are sorted first, since the order in which Spark collects them varies, and the last digits
    with it.

    The first state column of the group is the count; the others are the keys of `updates`, in
    order. In the update formulas `a` and `b` are the two states. Rows with count 0 take no part.
    """

    def merge(name: str, group: Sequence[str]) -> exp.Expr:
        fields = ["n", *updates][: len(group)]
        pack = ", ".join(f"'{f}', cast({{{i}}} as double)" for i, f in enumerate(fields))
        start = ", ".join(f"'{f}', cast(0 as double)" for f in fields)
        merged = ", ".join(["'n', a.n + b.n", *(f"'{f}', {updates[f]}" for f in fields[1:])])
        return formula(
            f"aggregate(array_sort(collect_list(named_struct({pack}))), named_struct({start}),"
            " (a, b) -> "
            f"if(coalesce(b.n, 0) = 0, a, if(a.n = 0, b, named_struct({merged})))).{result}",
            *(column(c) for c in group),
        )

    return merge


AGGREGATES = (
    base.Aggregate(("variance", "var_samp"), _moments(2, _VARIANCE % (1, 1))),
    base.Aggregate(("var_pop",), _moments(2, _VARIANCE % (0, 0))),
    base.Aggregate(("stddev", "std", "stddev_samp"), _moments(2, _STDDEV % (1, 1))),
    base.Aggregate(("stddev_pop",), _moments(2, _STDDEV % (0, 0))),
    base.Aggregate(
        ("skewness",), _moments(3, "case when {3} > 0 then sqrt({0}) * {4} / power({3}, 1.5) end")
    ),
    base.Aggregate(
        ("kurtosis",), _moments(4, "case when {3} > 0 then {0} * {5} / ({3} * {3}) - 3 end")
    ),
    base.Aggregate(("covar_pop",), _comoments("case when {0} > 0 then {3} / {0} end")),
    base.Aggregate(("covar_samp",), _comoments("case when {0} > 1 then {3} / ({0} - 1) end")),
    base.Aggregate(
        ("corr",), _comoments("case when {4} > 0 and {5} > 0 then {3} / sqrt({4} * {5}) end")
    ),
)

"""Expressions of several aggregates, drawn from a grammar: merged, they are what Spark says.

Each example draws many expressions and data sets; all expressions go into one query. `scale` is
how large the numbers are that a value is made of, and with it how large the error of rounding may
be: a difference of two large numbers has the error of these, however small it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .test_state_laws import Dataset, datasets, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("compiled_plans")

TOLERANCE = 1e-8


@dataclass(frozen=True)
class Metric:
    """SQL of a metric, and of its scale."""

    sql: str
    scale: str


numbers = st.sampled_from(["0", "1", "-3", "0.5", "1000", "2.25"])
atoms = st.sampled_from(["x", "y", "(n % 1000)"])


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("(({}) * {})".format, inner, st.sampled_from(["2", "-0.5", "4"])),
        st.builds("coalesce({}, {})".format, inner, numbers),
        st.builds("nullif({}, {})".format, inner, numbers),
        st.builds("abs({})".format, inner),
        st.builds("cast({} as double)".format, inner),
        st.builds("try_cast({} as int)".format, inner),
        st.builds("case when {} then {} else {} end".format, conditions, inner, inner),
        st.builds("case when {} then {} end".format, conditions, inner),
    )


conditions = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, atoms, st.sampled_from([">", "<=", "=", "<>"]), numbers),
        st.builds("{} is null".format, atoms),
        st.builds("{} between -5 and {}".format, atoms, numbers),
        st.sampled_from(["s = 'a'", "length(s) > 1", "s in ('a', '')", "x <=> y"]),
    ),
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
    ),
    max_leaves=3,
)
row_numbers = st.recursive(atoms, _wider, max_leaves=3)


def _filtered(aggregate: str, condition: str | None) -> str:
    return aggregate if condition is None else f"{aggregate} filter (where {condition})"


filters = st.one_of(st.none(), st.none(), conditions)
# Sums of these numbers are exact, whatever the order.
exact = st.one_of(
    st.builds(_filtered, st.just("count(*)"), filters),
    st.builds(_filtered, st.builds("count({})".format, row_numbers), filters),
    st.builds(_filtered, st.builds("count_if({})".format, conditions), filters),
    st.builds(
        _filtered,
        st.builds("{}({})".format, st.sampled_from(["sum", "min", "max", "avg"]), row_numbers),
        filters,
    ),
    st.builds("int(bool_or({}))".format, conditions),
    st.builds("cast(sum(cast({} as decimal(20, 3))) as double)".format, st.just("n % 1000")),
)
rounding = st.one_of(
    st.builds(
        _filtered,
        st.builds("{}({})".format, st.sampled_from(["var_pop", "stddev", "variance"]), atoms),
        filters,
    ),
    st.builds(_filtered, st.builds("covar_pop({}, {})".format, atoms, atoms), filters),
)
aggregates = st.one_of(
    exact.map(lambda e: Metric(e, f"abs({e})")),
    # The error of a moment is relative to the squares of the numbers, which are below a thousand.
    rounding.map(lambda r: Metric(r, f"(abs({r}) + 1e3)")),
)


def _plus(a: Metric, sign: str, b: Metric) -> Metric:
    return Metric(f"({a.sql} {sign} {b.sql})", f"({a.scale} + {b.scale})")


def _times(a: Metric, number: str) -> Metric:
    return Metric(f"({a.sql} * {number})", f"({a.scale} * abs({number}))")


def _over(a: Metric, count: str) -> Metric:
    return Metric(f"({a.sql} / nullif({count}, 0))", f"({a.scale} / abs(nullif({count}, 0)))")


def _coalesced(a: Metric, number: str) -> Metric:
    return Metric(f"coalesce({a.sql}, {number})", f"coalesce({a.scale}, 1)")


def _case(left: str, right: str, a: Metric, b: Metric) -> Metric:
    case = f"case when {left} > {right} then {{}} else {{}} end"
    return Metric(case.format(a.sql, b.sql), case.format(a.scale, b.scale))


metrics = st.recursive(
    aggregates,
    lambda inner: st.one_of(
        st.builds(_plus, inner, st.sampled_from("+-"), inner),
        st.builds(_times, inner, st.sampled_from(["2", "-0.5", "100"])),
        st.builds(_over, inner, exact),
        st.builds(_coalesced, inner, numbers),
        st.builds(_case, exact, exact, inner, inner),
        inner.map(lambda m: Metric(f"cast({m.sql} as double)", m.scale)),
        inner.map(lambda m: Metric(f"abs({m.sql})", m.scale)),
    ),
    max_leaves=4,
)


def agrees(got: Any, wanted: Any, scale: Any) -> bool:
    if got is None or wanted is None:
        return got is wanted
    got, wanted = float(got), float(wanted)
    if not math.isfinite(wanted):
        return got == wanted or (math.isnan(got) and math.isnan(wanted))
    allowed = 0.0 if scale is None or not math.isfinite(scale) else TOLERANCE * (1 + float(scale))
    return math.isclose(got, wanted, rel_tol=TOLERANCE, abs_tol=allowed)


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(
    drawn=st.lists(metrics, min_size=25, max_size=25),
    data=st.lists(datasets, min_size=20, max_size=20),
)
def test_merged_is_direct(spark: SparkSession, drawn: list[Metric], data: list[Dataset]) -> None:
    texts = [m.sql for m in drawn]
    found = values(spark, data, texts, [*texts, *(m.scale for m in drawn)])
    wrong = [
        (text, way, got[i], direct[i], parts)
        for way in ("one state", "merged", "merged twice")
        for got, direct, parts in zip(found[way], found["direct"], data, strict=True)
        if direct
        for i, text in enumerate(texts)
        if not agrees(got[i], direct[i], direct[len(texts) + i])
    ]
    assert wrong == []

"""Laws of state, merge and finish, for every aggregate that decomposes, in Spark.

finish(state(A)) is the aggregate asked directly of A, and merging the states of any split of A, in
any order, gives the state of A. Many random data sets go into each query.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dqsql.compiler.aggregates import registry
from dqsql.compiler.aggregates.sketches import HLL_LOG2_REGISTERS, KLL_K
from dqsql.compiler.states import StateRegistry
from dqsql.dialect import parse_expression, to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("compiled_plans")

# Aggregates whose value must be exactly Spark's; also of NaN, infinities, nulls and no rows.
EXACT = (
    "count(*)",
    "count(x)",
    "count(x, y)",
    "count(x) filter (where y > 0)",
    "count_if(x > 0)",
    "sum(n)",
    "sum(x)",
    "sum(cast(n as decimal(20, 3)))",
    "try_sum(n)",
    "min(x)",
    "max(x)",
    "min(s)",
    "max(s)",
    "max(distinct n)",
    "max(struct(n, s))",
    "min(x) filter (where n > 0)",
    "bool_and(x > 0)",
    "every(x > 0)",
    "bool_or(x > 0)",
    "some(x > 0)",
    "any(x > 0)",
    "bit_and(n)",
    "bit_or(n)",
    "bit_xor(n)",
    "avg(x)",
    "mean(n)",
    "avg(x) filter (where n > 0)",
)
# Aggregates that round: equal to 1e-9.
CLOSE = (
    "variance(x)",
    "var_samp(n)",
    "var_pop(x)",
    "stddev(x)",
    "std(x)",
    "stddev_samp(x) filter (where n > 0)",
    "stddev_pop(x)",
    "skewness(x)",
    "kurtosis(x)",
    "covar_pop(x, y)",
    "covar_samp(x, n)",
    "corr(x, y)",
)
# Sketches, which are exact as long as they hold few values.
DISTINCT = {
    "approx_count_distinct(x)": "count(distinct x)",
    "approx_count_distinct(s, 0.05)": "count(distinct s)",
}
RANKS = (0.0, 0.25, 0.5, 0.9, 1.0)

Row = tuple[float | None, float | None, int | None, str | None]
Dataset = list[list[Row]]

eighths = st.integers(-8000, 8000).map(lambda i: i / 8)
numbers = st.one_of(
    eighths,
    eighths,
    eighths,
    st.none(),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]),
)
rows = st.tuples(
    numbers,
    st.one_of(st.none(), eighths),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.one_of(st.none(), st.text("abé'\\ ", max_size=3)),
)
plain_rows = st.tuples(eighths, eighths, st.integers(-9, 9), st.just("a"))
datasets = st.one_of(
    st.lists(st.lists(rows, max_size=6), max_size=5),
    st.lists(st.lists(plain_rows, max_size=8), max_size=5),
)
few_jobs = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)


def frame_of(spark: SparkSession, data: Sequence[Dataset]) -> DataFrame:
    """One row per value, with the number of its data set and of its part."""
    flat = [
        (example, part, *row)
        for example, parts in enumerate(data)
        for part, values in enumerate(parts)
        for row in values
    ]
    kinds = {
        "example": pa.int64(),
        "part": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "n": pa.int64(),
        "s": pa.string(),
    }
    columns = list(zip(*flat, strict=True)) if flat else [()] * len(kinds)
    return spark.createDataFrame(
        pa.table(
            {k: pa.array(c, kind) for (k, kind), c in zip(kinds.items(), columns, strict=True)}
        )
    )


def values(
    spark: SparkSession, data: Sequence[Dataset], texts: Sequence[str], direct: Sequence[str]
) -> dict[str, list[list[Any]]]:
    """Values by way of their making (Spark's own, of one state, of merged states), by data set."""
    registry = StateRegistry()
    finishes = [to_sql(registry.finish(parse_expression(t))[0]) for t in texts]
    scans = ", ".join(f"{to_sql(s.scan)} as `{s.name}`" for s in registry.states)
    assert all(s.merge is not None for s in registry.states)
    merges = ", ".join(f"{to_sql(s.merge)} as `{s.name}`" for s in registry.states if s.merge)
    finish = ", ".join(f"{f} as v{i}" for i, f in enumerate(finishes))
    asked = ", ".join(f"{t} as v{i}" for i, t in enumerate(direct))
    frame_of(spark, data).createOrReplaceTempView("law_data")
    examples = f"(select explode(sequence(0, {len(data) - 1})) as example)"
    spark.sql(
        f"""
        select example, part, {scans} from law_data group by example, part
        union all
        -- A batch without rows has a state too.
        select e.example, -1 as part, nothing.* from {examples} as e
        cross join (select {scans} from law_data where false) as nothing
        """
    ).createOrReplaceTempView("law_states")
    queries = {
        "direct": f"select example, {asked} from law_data group by example",
        "one state": f"""
            select example, {finish} from (
                select example, {scans} from law_data group by example
            )
        """,
        "merged": f"""
            select example, {finish} from (
                select example, {merges} from law_states group by example
            )
        """,
        "merged twice": f"""
            select example, {finish} from (
                select example, {merges} from (
                    select example, part % 2 as part, {merges} from law_states
                    group by example, part % 2
                ) group by example
            )
        """,
    }
    found: dict[str, list[list[Any]]] = {}
    for way, query in queries.items():
        by_example = {row[0]: list(row[1:]) for row in spark.sql(query).collect()}
        found[way] = [by_example.get(i, []) for i in range(len(data))]
    return found


def same(got: Any, wanted: Any, tolerance: float) -> bool:
    if got is None or wanted is None:
        return got is wanted
    if isinstance(wanted, float) or tolerance:
        got, wanted = float(got), float(wanted)
        if math.isnan(wanted) or math.isinf(wanted) or not tolerance:
            return got == wanted or (math.isnan(got) and math.isnan(wanted))
        return math.isclose(got, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return bool(got == wanted)


def differences(
    found: dict[str, list[list[Any]]],
    data: Sequence[Dataset],
    texts: Sequence[str],
    tolerance: float,
) -> list[Any]:
    return [
        (text, way, got[i], wanted[i], parts)
        for way in ("one state", "merged", "merged twice")
        for got, wanted, parts in zip(found[way], found["direct"], data, strict=True)
        if wanted
        for i, text in enumerate(texts)
        if not same(got[i], wanted[i], tolerance)
    ]


def test_every_lowering_is_under_a_law() -> None:
    texts = (*EXACT, *CLOSE, *DISTINCT, "kll_quantile(x, 0.5)")
    # Taken over counts of numbers, which `tests/engine/test_quantiles.py` is about.
    of_counts = {"approx_percentile", "percentile_approx"}
    assert {t.split("(")[0] for t in texts} | of_counts == registry.names(own=False)


@few_jobs
@given(data=st.lists(datasets, min_size=40, max_size=60))
def test_exact_aggregates(spark: SparkSession, data: list[Dataset]) -> None:
    found = values(spark, data, EXACT, EXACT)
    assert differences(found, data, EXACT, 0) == []


@few_jobs
@given(data=st.lists(datasets, min_size=40, max_size=60))
def test_rounding_aggregates(spark: SparkSession, data: list[Dataset]) -> None:
    found = values(spark, data, CLOSE, CLOSE)
    assert differences(found, data, CLOSE, 1e-9) == []


@few_jobs
@given(data=st.lists(datasets, min_size=40, max_size=60))
def test_sketches_of_few_values_are_exact(spark: SparkSession, data: list[Dataset]) -> None:
    quantiles = tuple(f"kll_quantile(x, {r})" for r in RANKS)
    arrays = (f"kll_quantile(x, array({', '.join(map(str, RANKS))}))",)
    texts = (*DISTINCT, *quantiles, *arrays)
    direct = (*DISTINCT.values(), *("count(x)" for _ in (*quantiles, *arrays)))
    found = values(spark, data, texts, direct)
    assert differences(found, data, tuple(DISTINCT), 0) == []
    for way in ("one state", "merged", "merged twice"):
        for got, parts in zip(found[way], data, strict=True):
            if got:
                wanted = [exact_quantile(parts, r) for r in RANKS]
                assert got[2:-1] == wanted, (way, parts)
                assert got[-1] == (None if wanted[0] is None else wanted), (way, parts)


def exact_quantile(parts: Dataset, rank: float) -> float | None:
    """The smallest value whose share of values up to it is at least `rank`; NaN is left out."""
    xs = sorted(r[0] for p in parts for r in p if r[0] is not None and not math.isnan(r[0]))
    return xs[max(0, math.ceil(rank * len(xs)) - 1)] if xs else None


def test_deviation_of_large_numbers_with_tiny_noise(spark: SparkSession) -> None:
    drawn = np.random.default_rng(5).normal(0, 1, 4_000)
    pairs = list(itertools.product((1e9, -123456789.5, 1e-9), (1, 1e-3, 1000)))
    series = [center + noise * drawn for center, noise in pairs]
    data = [[[(v, None, None, None) for v in part] for part in np.split(x, 100)] for x in series]
    texts = ("stddev(x)", "var_pop(x)")
    found = values(spark, data, texts, texts)
    for way in ("one state", "merged", "merged twice"):
        for pair, x, (stddev, variance) in zip(pairs, series, found[way], strict=True):
            # numpy's own error is 1e-8 for the smallest noise, unless the mean is taken away first.
            around = x - x[0]
            wanted = np.std(around, ddof=1), np.var(around)
            assert (stddev, variance) == pytest.approx(wanted, rel=1e-9, abs=0), (way, pair)


def test_mean_of_decimals(spark: SparkSession) -> None:
    numbers_ = np.random.default_rng(7).integers(-(10**12), 10**12, 300)
    data: list[Dataset] = [[[(None, None, int(n), None) for n in numbers_[i::7]] for i in range(7)]]
    text = "avg(cast(n / 1000 as decimal(20, 3)))"
    found = values(spark, data, (text,), (text,))
    for way in ("one state", "merged", "merged twice"):
        # The state is a sum of doubles; Spark rounds to four digits more than the column has.
        wanted = float(found["direct"][0][0])
        assert float(found[way][0][0]) == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def test_sketches_of_many_values_keep_their_bounds(spark: SparkSession) -> None:
    registry = StateRegistry()
    texts = ("approx_count_distinct(id)", "kll_quantile(v, array(0.01, 0.5, 0.99))")
    finish = ", ".join(to_sql(registry.finish(parse_expression(t))[0]) for t in texts)
    scans = ", ".join(f"{to_sql(s.scan)} as `{s.name}`" for s in registry.states)
    merges = ", ".join(f"{to_sql(s.merge)} as `{s.name}`" for s in registry.states if s.merge)
    rows_ = "(select id, pmod(hash(id), 1000003) as v from range(200000))"
    states = f"(select {scans} from {rows_} group by id % 37)"
    ((distinct, quantiles),) = spark.sql(
        f"select {finish} from (select {merges} from {states})"
    ).collect()
    # Five standard errors of HLL; twice the rank error that KLL keeps with 99 %.
    assert distinct == pytest.approx(200_000, rel=5 * 1.04 / math.sqrt(2**HLL_LOG2_REGISTERS))
    rank_error = 2 * 2.296 / KLL_K**0.9021
    shares = ", ".join(f"avg(int(v <= {q}))" for q in quantiles)
    (ranks,) = spark.sql(f"select array({shares}) from {rows_}").collect()
    for rank, wanted in zip(ranks[0], (0.01, 0.5, 0.99), strict=True):
        assert abs(rank - wanted) < rank_error


def test_mean_of_large_integers(spark: SparkSession) -> None:
    data: list[Dataset] = [[[(None, None, 2**62, None)], [(None, None, 2**62, None)] * 3]]
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        found = values(spark, data, ("avg(n)",), ("avg(n)",))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
    assert differences(found, data, ("avg(n)",), 1e-9) == []

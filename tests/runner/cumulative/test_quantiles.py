"""Quantiles: exact in small batches, bounded in large ones, and the same in whatever order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.compiler.aggregates.quantiles import BITS, DIGITS, EXACT_ROWS, _decimal, _rounded
from dqsql.dialect import column, to_sql

from .conftest import NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR, DECIMAL_ERROR = 2.0**-BITS, 0.5 * 10.0 ** (1 - DIGITS)
RANKS = (0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0)
SIZES = {"2024-01-01": 301, "2024-01-02": EXACT_ROWS + 2_345, "2024-01-03": EXACT_ROWS}
COLUMNS = ("uniform", "normal", "skewed", "far", "whole", "same")
METRICS = tuple(f"quantile({c}, {r})" for c in COLUMNS for r in RANKS)
# What else rounds, or depends on the order of rows: the digits that are stored do not.
OTHERS = (
    *("sum(uniform)", "mean(skewed)", "stddev(normal)", "entropy(whole)"),
    *("approx_count_distinct(normal)", "uniqueness(same)"),
)
SQL = (
    "{{ config(batch_by='day') }}\n"
    f"select day, part, {', '.join(COLUMNS)} from {{{{ source('raw', 't') }}}}\n"
    + "".join(f"-- @expect({m} is not null)\n" for m in METRICS)
    + "".join(f"-- @expect({m} is not null) {{scope: cumulative}}\n" for m in METRICS)
    + "".join(f"-- @expect({m} is not null)\n" for m in OTHERS)
    + "".join(f"-- @expect({m} is not null) {{scope: cumulative}}\n" for m in OTHERS)
)


def numbers(day: str) -> dict[str, np.ndarray[Any, Any]]:
    rng, size = np.random.default_rng(int(day[-2:])), SIZES[day]
    return {
        "part": rng.integers(0, 2, size),
        "uniform": rng.uniform(0, 1, size),
        "normal": rng.normal(0, 1000, size),
        "skewed": np.exp(rng.normal(0, 4, size)),
        "far": 1.7e9 + rng.integers(0, 10**6, size).astype(float),
        "whole": rng.poisson(40, size).astype(float),
        "same": np.where(rng.random(size) < 0.7, 5.25, rng.normal(0, 1, size)),
    }


def put(project: Project, order: int) -> None:
    """Write the days; `order` shuffles their rows."""
    folder = project.root / "data"
    folder.mkdir()
    for day, size in SIZES.items():
        shuffled = np.random.default_rng(order).permutation(size)
        table = {name: pa.array(values[shuffled]) for name, values in numbers(day).items()}
        days = {"day": pa.array([day] * size)}
        pq.write_table(pa.table({**days, **table}), folder / f"{day}.parquet")


def measured(project: Project) -> dict[tuple[str, str, str, str, str], float]:
    return {
        (r["batch"], r["scope"], r["column_name"], r["metric"], r["parameters"]): r["value"]
        for r in project.rows("dq_metrics")
    }


@pytest.mark.slow
def test_quantiles_of_small_and_large_batches(new_project: NewProject) -> None:
    filled, grown = new_project("filled", SQL), new_project("grown", SQL)
    put(filled, 1)
    put(grown, 2)
    filled.run()
    for day in SIZES:
        grown.run(day)
    found = measured(filled)
    assert len(found) == len(SIZES) * (2 * len(METRICS) + 2 * len(OTHERS))
    # To the last digit, whatever the order of rows and batches.
    assert found == measured(grown)

    before: dict[str, list[np.ndarray[Any, Any]]] = {c: [] for c in COLUMNS}
    for day, size in SIZES.items():
        of_day = numbers(day)
        for name in COLUMNS:
            before[name].append(of_day[name])
            for rank in RANKS:
                at = (name, "quantile", str(rank))
                exact = float(np.quantile(of_day[name], rank))
                got = found[day, "delta", *at]
                if size <= EXACT_ROWS:
                    assert got == pytest.approx(exact, rel=1e-12), (day, at)
                else:
                    assert off_by_less(of_day[name], rank, got), (day, at)
                union = np.concatenate(before[name])
                together = found[day, "cumulative", *at]
                assert off_by_less(union, rank, together, DECIMAL_ERROR), (day, at)


def off_by_less(
    values: np.ndarray[Any, Any], rank: float, got: float, error: float = ERROR
) -> bool:
    """Whether both numbers next to the quantile are off by less than the error that is promised."""
    low = float(np.quantile(values, rank, method="lower"))
    high = float(np.quantile(values, rank, method="higher"))
    slack = 1.0000001 * error
    return low - slack * abs(low) <= got <= high + slack * abs(high)


def test_numbers_are_rounded_to_their_leading_digits(spark: SparkSession) -> None:
    rng = np.random.default_rng(11)
    mantissas = rng.uniform(1, 2, 20_000) * rng.choice([-1.0, 1.0], 20_000)
    xs = np.ldexp(mantissas, rng.integers(-1000, 1023, 20_000))
    xs = np.concatenate([xs, [0.0, 1.0, -1.0, 4095.0, 5e-324, math.inf, -math.inf, 1.7e308]])
    frame = spark.createDataFrame(pa.table({"x": xs}))
    rows = frame.selectExpr("x", f"{to_sql(_rounded(column('x')))} as r").toArrow().to_pydict()
    x, rounded = np.array(rows["x"]), np.array(rows["r"])
    small = np.abs(x) < 1e290
    assert np.all(np.abs(rounded[small] - x[small]) <= ERROR * np.abs(x[small]))
    assert np.array_equal(rounded[~small], x[~small])
    # As few as are promised: 2,048 between a number and its double.
    between = np.linspace(1, 2, 100_000, endpoint=False)
    frame = spark.createDataFrame(pa.table({"x": between}))
    few = frame.selectExpr(f"count(distinct {to_sql(_rounded(column('x')))}) as n").toArrow()
    assert few["n"].to_pylist()[0] <= 2 ** (BITS - 1) + 1


def test_numbers_that_people_write_stay_as_they_are(spark: SparkSession) -> None:
    rng = np.random.default_rng(12)
    written = [
        round(float(m) * 10.0**e, 12) for e in range(-8, 9) for m in rng.integers(1, 9999, 99)
    ]
    others = np.ldexp(rng.uniform(1, 2, 20_000), rng.integers(-900, 900, 20_000))
    xs = np.concatenate([written, others, [0.0, -0.1, 5e-324, math.inf, -math.inf, 1.7e308]])
    frame = spark.createDataFrame(pa.table({"x": xs}))
    rows = frame.selectExpr("x", f"{to_sql(_decimal(column('x')))} as r").toArrow().to_pydict()
    x, rounded = np.array(rows["x"]), np.array(rows["r"])
    plain = np.array([float(f"{v:.3e}") == v for v in x])
    assert plain[: len(written)].all()
    assert np.array_equal(rounded[plain], x[plain])
    finite = (np.abs(x) < 1e290) & (np.abs(x) > 1e-290)
    assert np.all(np.abs(rounded[finite] - x[finite]) <= DECIMAL_ERROR * np.abs(x[finite]))
    assert np.array_equal(rounded[~finite], x[~finite])


def test_cumulative_quantiles_of_few_rows_are_those_of_the_rows(new_project: NewProject) -> None:
    sql = (
        "{{ config(batch_by = 'day') }} select day, x from {{ source('raw', 't') }}\n"
        "-- @median(x) = 0.1 {scope: cumulative}\n"
        "-- @quantile(x, 0.9) <= 0.109 {scope: cumulative, name: p90}\n"
    )
    project = new_project("few", sql)
    (project.root / "data").mkdir()
    table = pa.table({"x": [0.1, 0.1, 0.1, 0.109], "day": ["a", "a", "b", "b"]})
    pq.write_table(table, project.root / "data" / "t.parquet")
    assert {r.status.value for r in project.run().results} == {"pass"}


def test_quantiles_of_large_numbers_close_to_each_other_lie_between_them(
    new_project: NewProject,
) -> None:
    """Rounded to 12 digits, all of them are beyond the largest one."""
    sql = "select x from {{ source('raw', 't') }}\n-- @median(x) between 99999997 and 100000003"
    sql += "\n-- @expect(quantile(x, 0) >= min(x) and quantile(x, 1) <= max(x))"
    days = sql.replace("select x", "{{ config(batch_by = 'day') }} select day, x")
    for name, model in {"whole": sql, "days": days}.items():
        project = new_project(name, model)
        xs = 1e8 + np.arange(2 * EXACT_ROWS) % 7 - 3
        (project.root / "data").mkdir()
        table = pa.table({"x": xs, "day": pa.array(["2024-01-01"] * len(xs))})
        pq.write_table(table, project.root / "data" / "t.parquet")
        assert [r.status.value for r in project.run().results] == ["pass", "pass"]


def test_each_quantile_of_a_column_is_taken_from_the_same_sort(new_project: NewProject) -> None:
    """Of one column several at once, with and without `where`, also of a column of nulls."""
    wanted = {
        "quantile(x, 0.1)": 1.0,
        "quantile(x, 0.9)": 9.0,
        "median(x)": 5.0,
        "approx_percentile(x, array(0.2, 0.8))[1]": 8.0,
        "approx_percentile(x, array(0.3))[0]": 3.0,
        "approx_percentile(x, 0.9) filter (where x < 6)": 4.5,
        "approx_percentile(x, array(0.1, 0.6)) filter (where x < 6)[1]": 3.0,
        "quantile(y, 0.25)": 2.5,
        "median(nothing)": None,
    }
    conditions = [f"{m} is null" if v is None else f"{m} = {v}" for m, v in wanted.items()]
    sql = "select x, y, nothing from {{ source('raw', 't') }}\n"
    project = new_project("several", sql + "".join(f"-- @expect({c})\n" for c in conditions))
    (project.root / "data").mkdir()
    xs = np.random.default_rng(1).permutation(11).astype(float)
    nothing = pa.nulls(12, pa.float64())
    table = {"x": pa.array([*xs, math.nan]), "y": pa.array([*(10 - xs), None]), "nothing": nothing}
    pq.write_table(pa.table(table), project.root / "data" / "t.parquet")
    found = project.run().results
    assert [(r.status.value, r.message) for r in found if r.status.value != "pass"] == []
    assert len(found) == len(wanted)

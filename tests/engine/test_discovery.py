"""Batches that are counted of a file, against what Spark counts of the model's view."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dqsql.compiler.segments import batch_source, batches_query
from dqsql.engine.discovery import find_batches, rows_of_batches
from dqsql.engine.relations import register_model
from dqsql.runner.compilation import CompileResult, compile_project

DAY = dt.date(2024, 2, 29)
COLUMNS: Mapping[str, pa.Array] = {
    "day": pa.array([DAY, DAY, None, dt.date(2024, 3, 1)]),
    "old": pa.array([dt.date(1850, 1, 1), DAY, DAY, DAY]),
    "far": pa.array([dt.date(9999, 12, 31), DAY, None, DAY]),
    "tiny": pa.array([-1, 2, None, 2], pa.int8()),
    "whole": pa.array([7, 7, None, -3], pa.int32()),
    "big": pa.array([2**60, 7, None, 7]),
    "text": pa.array(["a", " a", "ü\U0001f600", ""]),
    "listed": pa.array(["x", None, "x", "y"]).dictionary_encode(),
    "large": pa.array(["x", None, "x", "y"], pa.large_string()),
    "moment": pa.array([dt.datetime(2024, 2, 29)] * 4, pa.timestamp("us", "UTC")),
    "share": pa.array([0.5, 0.5, None, 1.0]),
    "a.b": pa.array([1, 2, 2, None]),
    "Ünï `x`": pa.array([1, 2, 2, None]),
}
SOURCES = """\
sources:
  - name: s
    tables:
      - {name: t, external: {location: rows.parquet}}
"""
FROM = "from {{ source('s', 't') }}"

Compile = Callable[[str, str], CompileResult]


@pytest.fixture
def compiled(make_project: Callable[..., Path]) -> Compile:
    def make(batch_by: str, select: str) -> CompileResult:
        model = f"{{{{ config(batch_by = {batch_by!r}) }}}}\n{select}\n-- @row_count > 0\n"
        root = make_project({"checks/m.sql": model, "checks/sources.yml": SOURCES})
        pq.write_table(pa.table(dict(COLUMNS)), root / "rows.parquet")
        return compile_project(root)

    return make


def batches(spark: SparkSession, compiled: CompileResult) -> tuple[object, object]:
    """What the file says, and what Spark says."""
    model = compiled.plans[0].model
    register_model(spark, compiled.project, model)
    query = batches_query(model)
    assert query is not None
    assert model.config.batch_by is not None
    kind = spark.sql(f"select {model.config.batch_by} from dqsql__m").dtypes[0][1]
    counted = rows_of_batches(spark, compiled.project, model, kind)
    return counted, find_batches(spark, "m", query).rows


@pytest.mark.parametrize("name", COLUMNS)
def test_a_file_says_what_spark_says(spark: SparkSession, compiled: Compile, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    counted, expected = batches(spark, compiled(quoted, f"select {quoted}, share as s {FROM}"))
    if name in ("old", "moment", "share"):
        assert counted is None
    else:
        assert counted == expected


@pytest.mark.parametrize(
    ("batch_by", "select", "column"),
    [
        ("day", f"select * {FROM}", "day"),
        ("DAY", f"select Day, share {FROM}", "Day"),
        ("d", f"select t.day as d, lower(text) as l, share * 2 as s {FROM} as t", "day"),
        ("day", f"select old as day, day as d {FROM}", "old"),
    ],
)
def test_other_names_of_a_column(
    spark: SparkSession, compiled: Compile, batch_by: str, select: str, column: str
) -> None:
    made = compiled(batch_by, select)
    assert batch_source(made.plans[0].model) == ("dqsql_source__s__t", column)
    counted, expected = batches(spark, made)
    assert counted == (None if column == "old" else expected)


@pytest.mark.parametrize(
    ("batch_by", "select"),
    [
        ("day", f"select day {FROM} where share > 0.5"),
        ("day", f"select distinct day {FROM}"),
        ("day", f"select day, count(*) as n {FROM} group by day"),
        ("day", f"select day {FROM} limit 2"),
        ("day", f"select day {FROM} tablesample (1 rows)"),
        ("day", f"select t.day {FROM} as t cross join {{{{ source('s', 't') }}}} as u"),
        ("day", f"select day {FROM} union all select day {FROM}"),
        ("day", f"with t as (select day {FROM} limit 1) select day from t"),
        ("day", f"select t.day {FROM} as t lateral view explode(array(1, 2)) x as n"),
        ("day", f"select explode(array(1, 2)) as n, day {FROM}"),
        ("day", f"select stack(2, 1, 2) as n, day {FROM}"),
        ("day", f"select inline(array(struct(1))), day {FROM}"),
        ("day", f"select *, share as s2 {FROM} order by day limit 1"),
        ("day", f"select * except (share) {FROM}"),
        ("day", f"select date_add(day, 1) as day {FROM}"),
        ("date_trunc('month', day)", f"select day {FROM}"),
        ("day", f"select t.x as day {FROM} as t(x, b, c, d, e, f, g, h, i, j, k, l, m)"),
    ],
)
def test_whatever_adds_or_leaves_out_rows_is_for_spark(
    compiled: Compile, batch_by: str, select: str
) -> None:
    assert batch_source(compiled(batch_by, select).plans[0].model) is None

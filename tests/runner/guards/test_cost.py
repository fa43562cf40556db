"""Scans and shuffles: what `compile` says is what Spark plans, and a budget holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql
from dqsql.errors import CompileError, ErrorGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'd'EXTRA) }}
select d, x, s from {{ source('shop', 'orders') }}
-- @row_count > 0
-- @approx_count_distinct(s) > 1
-- @uniqueness(x) > 0.5
"""
SOURCES = "sources:\n  - name: shop\n    tables:\n      - name: orders\n"


def files(extra: str = "", settings: str = "") -> dict[str, str]:
    return {
        "dqsql_project.yml": f"name: shop\nprofile: test\n{settings}\n",
        "checks/sources.yml": SOURCES,
        "checks/orders.sql": MODEL.replace("EXTRA", extra),
    }


@pytest.mark.parametrize("extra", ["", ", segment_by = ['s']"])
def test_shuffles_are_those_of_the_plan(
    make_project: Callable[..., Path], spark: SparkSession, extra: str
) -> None:
    compiled = dqsql.compile_project(make_project(files(extra)))
    assert compiled.errors == ()
    spark.range(3).selectExpr(
        "date'2024-01-01' as d", "id as x", "cast(id as string) as s"
    ).createOrReplaceTempView("dqsql__orders")
    assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
    counted = {
        q.purpose: (q.shuffles, _exchanges(spark, q.sql))
        for q in compiled.queries["orders"]
        if q.scans
    }
    joined = {"scan: sketches and extremes", "scan: frequency tables"}
    said = {name: said - (name in joined) for name, (said, _) in counted.items()}
    assert said == {name: planned for name, (_, planned) in counted.items()}


def _exchanges(spark: SparkSession, sql: str) -> int:
    plan: str = spark.sql(sql)._jdf.queryExecution().executedPlan().toString()
    return sum("Exchange" in line and "ReusedExchange" not in line for line in plan.splitlines())


def test_a_budget_that_is_exceeded_is_an_error(make_project: Callable[..., Path]) -> None:
    # A look at the batches, counts, sketches, and frequencies.
    assert dqsql.compile_project(make_project(files(), "a")).errors == ()
    enough = dqsql.compile_project(make_project(files(settings="scan_budget: 4"), "b"))
    assert enough.errors == ()
    root = make_project(files(settings="scan_budget: {model: 3, total: 2}"), "c")
    model, total = dqsql.compile_project(root).errors
    assert isinstance(model, CompileError) and isinstance(total, CompileError)
    assert model.message == (
        "orders needs 4 scans (1 for which batches there are, 1 for counts, sums and moments,"
        " 1 for sketches and extremes, 1 for frequency tables), more than scan_budget = 3"
    )
    assert "4 scans together, more than the total of scan_budget = 2" in total.message
    with pytest.raises(ErrorGroup):
        dqsql.run(root)
    own = make_project(files(extra=", scan_budget = 9", settings="scan_budget: 1"), "d")
    assert dqsql.compile_project(own).errors == ()

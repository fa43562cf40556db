"""Values that should differ are spread over partitions before they are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dqsql.compiler.scan import SMALL_ROWS, BatchFilter, Scan
from dqsql.dialect import to_sql
from dqsql.runner.compilation import Where

ROWS = 3 * SMALL_ROWS
MODEL = """\
select
    key, -- @unique
    other, -- @unique
    kind -- {check}
from db.t
"""


def scan_of(project: Path, rows: int) -> Scan:
    """The scan of all states of the only model, of one batch."""
    (plan,) = Where(project_dir=project).compile().plans
    scan = Scan(plan.model, batches=BatchFilter(("now",), "string"), sizes={"now": rows})
    return scan.of(plan.states, {})


@pytest.mark.parametrize(
    ("check", "rows", "spread"),
    [
        ("@unique", ROWS, True),
        ("@not_null", ROWS, True),
        ("@unique", SMALL_ROWS, False),
        # Values that occur often are counted where they are: few of them are sent.
        ("@count_distinct = 3", ROWS, False),
    ],
)
def test_keys_are_spread(
    spark: SparkSession, make_project: Callable[..., Path], check: str, rows: int, spread: bool
) -> None:
    project = make_project({"checks/m.sql": MODEL.format(check=check)})
    scan = scan_of(project, rows)
    statement = to_sql(scan.query())
    assert ("repartition(" in statement) is spread
    # What is counted does not depend on how many rows there really are.
    spark.range(6_000).selectExpr(
        "case when id % 3 > 0 then concat('k', id) end as key",
        "concat('k', id div 2 * 2) as other",
        "array('a', 'b', 'c')[id % 3] as kind",
    ).createOrReplaceTempView("dqsql__m")
    (row,) = spark.sql(statement).collect()
    found = {name.split("__")[0]: value for name, value in row.asDict().items() if "freq" in name}
    assert found["key"] == 0
    assert found["other"] == 3_000

"""Rows are grouped by the values of `batch_by`, and batches named by their texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dqsql.compiler.scan import BatchFilter, Scan
from dqsql.dialect import to_spark
from dqsql.engine.execution import ModelExecution
from dqsql.runner.compilation import Where

MODEL = """\
{{{{ config(batch_by="{batch_by}", segment_by={segments}) }}}}
select
    shop, day, batch, hour, local, number, key,
    amount, -- @median > 0 @mean > 0
    name -- @entropy > 0 @max_length > 0 @unique @max is not null
from db.t
-- @predictability(name, shop) is not null
-- @uniqueness(key) = 1
"""
ROWS = """
    select
        id % 2 as shop,
        date'2024-10-25' + cast(id % 3 as int) as day,
        date'2024-10-25' + cast(id % 4 as int) as batch,
        timestamp_seconds(1729983600 + 1800 * (id % 6)) as hour,
        timestamp_ntz'2024-10-25 00:00:00' + make_dt_interval(id % 3) as local,
        if(id % 50 = 0, null, id % 4) as number,
        id as key,
        cast(id * 1.5 as double) as amount,
        concat('n', id % 7) as name
    from range(600)
"""
TYPES = {
    "day": "date",
    "batch": "date",
    "hour": "timestamp",
    "local": "timestamp_ntz",
    "number": "bigint",
    "date_trunc('hour', hour)": "timestamp",
    "cast(hour as date)": "date",
    "concat('w', number)": "string",
}


def states_of(
    spark: SparkSession, project: Path, spark_type: str, names: list[str], *, by_value: bool
) -> tuple[str, list[tuple[object, ...]]]:
    (plan,) = Where(project_dir=project).compile().plans
    columns = dict(spark.table("dqsql__m").dtypes)
    batches = BatchFilter(tuple(names), spark_type, columns)
    # Batches of many rows are rounded before their quantiles are taken.
    sizes = dict.fromkeys(names, 5) | {names[0]: 20_000}
    scan = Scan(plan.model, batches=batches, columns=columns, sizes=sizes)
    execution = ModelExecution(spark, None, plan, scan)  # type: ignore[arg-type]
    if not by_value:
        execution.scan = replace(scan, batches=replace(batches, spark_type="string"))
    text = to_spark(execution.statement(plan.states, {}))
    rows = [tuple(row) for row in spark.sql(text).collect()]
    return text, sorted(rows, key=repr)


# Each type, and each sort of expression, once with segments.
IN_SEGMENTS = ("batch", "local", "number", "date_trunc('hour', hour)", "concat('w', number)")


@pytest.mark.parametrize(
    ("batch_by", "segments"),
    [*((name, []) for name in TYPES), *((name, ["shop"]) for name in IN_SEGMENTS)],
)
def test_states_are_those_of_the_texts(
    spark: SparkSession, make_project: Callable[..., Path], batch_by: str, segments: list[str]
) -> None:
    project = make_project({"checks/m.sql": MODEL.format(batch_by=batch_by, segments=segments)})
    spark.sql(ROWS).createOrReplaceTempView("dqsql__m")
    found = spark.sql(f"select distinct cast({batch_by} as string) as b from dqsql__m")
    names = sorted(row.b for row in found.collect() if row.b is not None)
    ours, by_value = states_of(spark, project, TYPES[batch_by], names, by_value=True)
    _, by_text = states_of(spark, project, TYPES[batch_by], names, by_value=False)
    assert by_value == by_text
    assert sorted({row[0] for row in by_value}) == names
    assert ("CAST(`batch` AS STRING)" in ours) is (TYPES[batch_by] != "string")

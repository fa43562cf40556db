"""How far Spark is with a long statement is told while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.engine.consumption import watched_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_of_a_long_statement(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    with watched_tasks(spark, lambda done, total: told.append((done, total)), interval=0.02):
        slow = "java_method('java.lang.Thread', 'sleep', id * 0 + 150)"
        spark.range(0, 8, 1, 8).selectExpr(f"{slow} as s").collect()
    assert told
    assert {total for _, total in told} == {8}
    assert told == sorted(told)
    assert told[-1][0] >= 2
    before = len(told)
    spark.range(0, 8, 1, 8).selectExpr(f"{slow} as s").collect()
    assert len(told) == before


def test_a_few_tasks_are_not_worth_a_word(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    with watched_tasks(spark, lambda *counts: told.append(counts), interval=0.02):
        spark.range(0, 2, 1, 2).selectExpr(
            "java_method('java.lang.Thread', 'sleep', id * 0 + 150) as s"
        ).collect()
    assert told == []

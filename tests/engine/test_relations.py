"""What is registered as views, how often, and how its size is estimated."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from dqsql.engine.registered import Registered
from dqsql.engine.relations import estimated_bytes, register_model
from dqsql.errors import UsageError
from dqsql.loading.project import load_project
from dqsql.model.project import CheckModel, Project
from tests.conftest import MakeProject


def test_once_for_all_threads() -> None:
    done: list[str] = []
    registered = Registered()

    def register(name: str) -> None:
        registered.once(name, lambda: done.append(name))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(register, ["a", "b", "c"] * 50))
    assert sorted(done) == ["a", "b", "c"]


def test_what_fails_is_tried_again() -> None:
    registered, tries = Registered(), []

    def register() -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            raise UsageError(f"try {len(tries)}")

    for number in (1, 2):
        with pytest.raises(UsageError, match=f"try {number}"):
            registered.once("a", register)
    registered.once("a", register)
    registered.once("a", register)
    assert tries == [0, 1, 2]


@contextmanager
def table(spark: SparkSession, name: str, rows: int) -> Iterator[str]:
    spark.range(rows).selectExpr("id", "uuid() as text").repartition(3).write.saveAsTable(name)
    try:
        yield name
    finally:
        spark.sql(f"drop table {name}")


def test_sizes_by_spark(spark: SparkSession) -> None:
    with table(spark, "sized", 1_000) as name:
        # 1,000 random texts of 36 characters.
        assert 36_000 < estimated_bytes(spark, name) < 80_000
        spark.sql("create or replace temp view seen as select a.* from sized a, sized b")
        assert estimated_bytes(spark, "seen") > 1e8
    assert estimated_bytes(spark, "range(1000000000000000)") > 7e15


def built(spark: SparkSession, make_project: MakeProject, relation: str) -> str:
    """The plan of a model that is built as a relation."""
    root = make_project({"checks/m.sql": "select 1 as id -- @not_null\n"})
    project: Project = load_project(root)
    model: CheckModel = replace(project.models[0], relation=relation)
    register_model(spark, replace(project, models=(model,)), model)
    plan = spark.sql("explain select text, count(*) from dqsql__m group by text").first()
    assert plan is not None
    return str(plan[0])


def test_small_relations_are_read_in_one_task(
    spark: SparkSession, make_project: MakeProject
) -> None:
    with table(spark, "little", 1_000) as name:
        assert "Exchange" not in built(spark, make_project, name)
    with table(spark, "larger", 200_000) as name:
        assert "Exchange" in built(spark, make_project, name)

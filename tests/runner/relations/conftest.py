"""Runs small projects on rows that a test writes down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.model.results import Result, RunResult, Status
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Table = Callable[..., None]


class Project:
    """A project that can be run, changed and run again."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark

    def write(self, model: str, sql: str) -> None:
        """Write a check model."""
        path = self.root / "checks" / f"{model}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(sql, encoding="utf-8")

    def run(self, **options: Any) -> RunResult:
        """Run the project; whatever goes wrong with a whole model is raised."""
        result = dqsql.run(self.root, spark=self.spark, **options)
        for model in result.models:
            if model.error is not None:
                raise model.error
        return result

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a warehouse table."""
        return table_rows(self.root / "warehouse" / "dq", table)

    def metrics(self, metric: str) -> dict[tuple[str, str | None], Any]:
        """Stored values by batch and segment: the number, or both number and text."""
        rows = [r for r in self.rows("dq_metrics") if r["metric"] == metric]
        return {
            (r["batch"], r["segment"]): r["value"]
            if r["value_text"] is None
            else (r["value"], r["value_text"])
            for r in rows
        }


@pytest.fixture
def project(make_project: Callable[..., Path], spark: SparkSession) -> Project:
    """An empty project."""
    return Project(make_project({}), spark)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[Table]:
    """`table("orders", "select ..")` makes a temporary view for the test."""
    names: list[str] = []

    def make(name: str, sql: str) -> None:
        frame = spark.sql(sql)
        # Not lazily: the new view may read the old one of the same name.
        frame = spark.createDataFrame(frame.collect(), frame.schema)
        frame.createOrReplaceTempView(f"`{name}`")
        names.append(name)

    yield make
    for name in set(names):
        spark.sql(f"drop view `{name}`")


def verdicts(result: RunResult) -> dict[tuple[str, str | None, str | None], Result]:
    """Verdicts by check name, batch and segment."""
    return {(r.check_name, r.batch, r.segment): r for r in result.results}


def statuses(result: RunResult) -> Mapping[str, Status]:
    """Status by check name; for runs of one batch."""
    return {r.check_name: r.status for r in result.results}

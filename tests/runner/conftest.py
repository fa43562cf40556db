"""Runs small projects in the shared Spark session and reads their tables back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.model.results import Result, RunResult
from tests.tables import table_names, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What differs between two runs that did the same.
OF_THE_RUN = frozenset(
    {"run_id", "started_at", "finished_at", "computed_at", "evaluated_at", "checked_at", "versions"}
    | {"grown_at", "lacked_at"}
    | {"valid_from", "valid_to", "arguments", "git_sha"}
    | {"opened_at", "last_seen_at", "resolved_at", "made_of"}
)
# What single runs did, and the files of a project that they read.
JOURNALS = ("dq_runs", "dq_model_runs", "dq_result_history", "dq_inputs")
Tables = dict[str, list[str]]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("DQSQL_", "DBT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class Project:
    """A project on disk whose runs share the session of the tests."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark

    def run(self, **options: Any) -> RunResult:
        """Run the project; an error of a model is raised."""
        result = self.attempt(**options)
        for model in result.models:
            if model.error is not None:
                raise model.error
        return result

    def attempt(self, **options: Any) -> RunResult:
        """Run the project."""
        return dqsql.run(self.root, spark=self.spark, **options)

    def data(self, query: str, name: str = "t") -> None:
        """Write the rows of a query as the file source `name`."""
        frame = self.spark.sql(query).coalesce(1)
        frame.write.mode("overwrite").parquet(str(self.root / "data" / name))

    def write(self, files: Mapping[str, str]) -> None:
        """Write more files."""
        for path, text in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a warehouse table, sorted."""
        return sorted(table_rows(self.root / "warehouse" / "dq", table), key=str)

    def results(self) -> list[dict[str, Any]]:
        """The entries of `run_results.json`."""
        text = (self.root / "target" / "run_results.json").read_text(encoding="utf-8")
        found: list[dict[str, Any]] = json.loads(text)["results"]
        return found

    def tables(self) -> Tables:
        """All tables but the journals of runs, without what is the single run's."""
        return {
            name: sorted(comparable(row) for row in self.rows(name))
            for name in table_names(self.root / "warehouse" / "dq")
            if name not in JOURNALS
        }

    def metrics(self, model: str | None = None) -> dict[tuple[Any, ...], Any]:
        """Values by batch, segment, column and metric with parameters."""
        return {
            (
                r["batch"],
                r["segment"],
                r["column_name"],
                f"{r['metric']}({r['parameters'] or ''})",
            ): r["value"] if r["value"] is not None else r["value_text"]
            for r in self.rows("dq_metrics")
            if model is None or r["model"] == model
        }


def comparable(row: Mapping[str, Any]) -> str:
    """A row as text, with empty columns left out and sketches (random) by their kind."""
    return str(
        sorted(
            (key, "sketch" if isinstance(value, bytes) else value)
            for key, value in row.items()
            if key not in OF_THE_RUN and value is not None
        )
    )


SOURCES = """\
sources:
  - name: raw
    tables:
      - name: t
        path: data/t
        format: parquet
      - name: u
        path: data/u
        format: parquet
"""
NewProject = Callable[..., Project]


@pytest.fixture
def new_project(make_project: Callable[..., Path], spark: SparkSession) -> Iterator[NewProject]:
    """`new_project("select ..", data="select .. from values ..")`, or several files."""

    def make(
        model: str | None = None,
        data: str | None = None,
        files: Mapping[str, str | None] | None = None,
        name: str = "project",
    ) -> Project:
        given: dict[str, str | None] = {"checks/sources.yml": SOURCES}
        if model is not None:
            given["checks/m.sql"] = model
        project = Project(make_project({**given, **(files or {})}, name), spark)
        if data is not None:
            project.data(data)
        return project

    yield make


def by_check(result: RunResult) -> dict[str, Result]:
    """The results of a run of one batch by the expression of the check."""
    return {r.check_name: r for r in result.results if r.segment is None}

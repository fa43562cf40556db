"""Microbatch models: dbt's batches are dqsql's, and what dbt builds again is checked again."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql
from dqsql.report.run_results import run_results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UID = "model.days.events"
CONFIG = {
    "enabled": True,
    "materialized": "incremental",
    "incremental_strategy": "microbatch",
    "event_time": "at",
    "batch_size": "day",
    "begin": "2025-01-02",
    "lookback": 0,
}
NODE = {
    "unique_id": UID,
    "resource_type": "model",
    "name": "events",
    "package_name": "days",
    "original_file_path": "models/events.sql",
    "relation_name": "days_db.events",
    "config": CONFIG,
    "columns": {},
    "depends_on": {"nodes": [], "macros": []},
}
MANIFEST = {
    "metadata": {
        "dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json",
        "project_name": "days",
        "generated_at": "2100-01-01T00:00:00Z",
    },
    "nodes": {UID: NODE},
    "sources": {},
}


@pytest.fixture
def days(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    spark.sql("create schema days_db")
    spark.sql(
        "select explode(sequence(timestamp '2025-01-01', timestamp '2025-01-04',"
        " interval 12 hours)) as at, 1 as n"
    ).coalesce(1).write.saveAsTable("days_db.events")
    files = {
        "dbt_project.yml": f"name: days\nvars: {{dqsql: {{warehouse: {tmp_path}/dq}}}}\n",
        "profiles.yml": "days:\n  outputs:\n    default: {type: spark, schema: a}\n",
        "models/events.sql": "select at,\nn -- @min >= 1\nfrom x -- @row_count >= 1",
        "target/manifest.json": json.dumps(MANIFEST),
    }
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    yield tmp_path
    spark.sql("drop schema days_db cascade")


def build(root: Path, *intervals: tuple[str, str]) -> None:
    """What dbt writes when it has built these batches, just now."""
    at = dt.datetime.now(dt.UTC).isoformat()
    result = {
        "unique_id": UID,
        "status": "success",
        "batch_results": {"successful": [list(i) for i in intervals], "failed": []},
    }
    content = {"metadata": {"generated_at": at}, "results": [result], "args": {}}
    (root / "target/run_results.json").write_text(json.dumps(content), encoding="utf-8")


def checked(root: Path, spark: SparkSession) -> list[str]:
    (model,) = dqsql.run(root, spark=spark).models
    assert model.error is None
    return list(model.batches)


def test_batches_are_those_of_dbt(days: Path, spark: SparkSession) -> None:
    # `begin` leaves the first day out.
    assert checked(days, spark) == ["2025-01-02", "2025-01-03", "2025-01-04"]
    assert checked(days, spark) == []
    build(days, ("2025-01-03T00:00:00+00:00", "2025-01-04T00:00:00+00:00"))
    assert checked(days, spark) == ["2025-01-03"]
    # What was checked after dbt built it is not checked again.
    assert checked(days, spark) == []


def generic(name: str, namespace: str | None = None, **kwargs: object) -> dict[str, object]:
    return {
        "unique_id": f"test.days.{name}",
        "resource_type": "test",
        "name": name,
        "package_name": "days",
        "original_file_path": "models/schema.yml",
        "attached_node": UID,
        "config": {"enabled": True, "severity": "warn"},
        "test_metadata": {"name": name, "namespace": namespace, "kwargs": kwargs},
        "depends_on": {"nodes": [UID], "macros": []},
    }


def test_failures_are_about_all_batches_of_the_run(days: Path, spark: SparkSession) -> None:
    """Rows are added up; a value that two batches have is one value."""
    tests = [
        generic("accepted_values", column_name="n", values=[9], quote=False),
        generic("expression_is_true", "dbt_utils", expression="n > 1"),
    ]
    nodes = {**MANIFEST["nodes"], **{str(t["unique_id"]): t for t in tests}}  # type: ignore[dict-item]
    content = json.dumps({**MANIFEST, "nodes": nodes})
    (days / "target/manifest.json").write_text(content, encoding="utf-8")
    result = dqsql.run(days, spark=spark, dbt_tests=True)
    plans = dqsql.compile_project(days, dbt_tests=True).plans
    failures = {e["unique_id"]: e["failures"] for e in run_results(result, plans)["results"]}
    assert len(result.models[0].batches) == 3
    assert failures["test.days.accepted_values"] == 1
    assert failures["test.days.expression_is_true"] == 5

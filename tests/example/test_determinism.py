"""The example's flights of 15 days: the same tables from every backfill, and from daily runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.engine.storage import open_store
from dqsql.loading.project import load_project
from dqsql.model.tables import DISTRIBUTIONS, METRICS, RESULTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "example_project"
DAYS = tuple(f"2013-01-{day:02}" for day in range(1, 16))
# What says which run it was, and when.
OF_THE_RUN = frozenset({"run_id", "computed_at", "evaluated_at"})


def tables(root: Path, spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    store = open_store(spark, load_project(root).target)
    found = {}
    for table in (METRICS, RESULTS, DISTRIBUTIONS):
        rows = [{k: v for k, v in r.items() if k not in OF_THE_RUN} for r in store.rows(table)]
        found[table.name] = sorted(rows, key=lambda r: str([r.get(k) for k in table.keys]))
    return found


@pytest.mark.slow
def test_backfills_and_daily_runs_give_the_same_tables(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for name in ("first", "second", "third", "daily"):
        root = tmp_path / name
        shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("warehouse", "target", "logs"))
        runs = [(day,) for day in DAYS] if name == "daily" else [DAYS]
        for batches in runs:
            result = dqsql.run(root, spark=spark, select=["flights"], batches=batches)
            assert result.exit_code != 2
        found[name] = tables(root, spark)
    assert len(found["first"]["dq_metrics"]) > 500
    for name in ("second", "third", "daily"):
        for table, rows in found["first"].items():
            differ = [
                pair for pair in zip(rows, found[name][table], strict=True) if pair[0] != pair[1]
            ]
            assert differ == [], (name, table)

"""Whole runs of a small project whose tables are of some format; a part of the scenario."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import dqsql
from dqsql.engine.storage import Store
from dqsql.engine.storage_base import COUNTS, STATES, TableFamily
from dqsql.model.project import Target
from dqsql.model.tables import ALL_TABLES, MODEL_RUNS, RUNS

MODEL = """
{{ config(batch_by='day', segment_by=['kind'], severity='warn') }}
select
    day,
    kind,
    code, -- @unique @pattern @entropy > 0 {scope: cumulative}
    x     -- @mean > 0 {scope: cumulative} @max < 7
from view_of_rows
-- @anomaly(row_count, absolute_change(lower => -1, upper => 1))
"""
# Days of two months; the last row of a day is there twice.
ROWS = """
select date '2024-01-30' + cast(id / 8 as int) as day, if(id % 2 = 0, 'a', 'b') as kind,
    concat('k-', id) as code, id % 8 as x
from range({days} * 8) union all
select date '2024-01-30' + cast(id as int), 'b', concat('k-', id * 8 + 7), 7 from range({days})
"""
DAYS = ("2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02")
# Of the single run, of the order of rows, and of the machine.
_VOLATILE = frozenset(
    {
        *(
            "run_id",
            "computed_at",
            "evaluated_at",
            "checked_at",
            "grown_at",
            "lacked_at",
            "versions",
            "captured_at",
            "opened_at",
            "last_seen_at",
            "replaced_at",
            "at",
            "made_of",
        ),
        *("started_at", "finished_at", "valid_from", "valid_to", "message", "details"),
    }
)


@dataclass
class ProjectRuns:
    """A project under `folder` whose tables are those of `warehouse`."""

    spark: SparkSession
    folder: Path
    warehouse: Target

    def history(self, store: Store) -> list[dict[str, list[str]]]:
        """The tables after a first run, one of new batches, and one of old ones, twice."""
        self._make()
        found = []
        for days, batches in ((2, ()), (4, ()), (4, DAYS[1:3]), (4, DAYS[1:3])):
            view = ROWS.format(days=days)
            self.spark.sql(view).createOrReplaceTempView("view_of_rows")
            result = dqsql.run(self.folder, spark=self.spark, batches=batches, store_failures=True)
            for model in result.models:
                if model.error is not None:
                    raise model.error
            found.append(self._dump(store))
        return found

    def _make(self) -> None:
        place = (
            f"table_format: {self.warehouse.table_format}, spark_conf: {{spark.sql.catalog.x: x}}"
            if self.warehouse.warehouse is None
            else f"warehouse: {self.warehouse.warehouse}"
        )
        files = {
            "dqsql_project.yml": "name: formats\nprofile: formats\n",
            "profiles.yml": f"""\
                formats:
                  target: t
                  outputs:
                    t: {{type: spark, method: session, schema: {self.warehouse.schema}, {place}}}
                """,
            "checks/m.sql": MODEL,
        }
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")

    def _dump(self, store: Store) -> dict[str, list[str]]:
        found = {t.name: _plain(store.rows(t)) for t in ALL_TABLES if t not in (RUNS, MODEL_RUNS)}
        for family in (STATES, COUNTS):
            found[family.rows("m")] = _plain(_kept(store, family))
            total = store.read_total("m", family)
            found[family.total("m")] = _plain([] if total is None else total.toArrow().to_pylist())
        return found


def _kept(store: Store, family: TableFamily) -> list[dict[str, Any]]:
    frame = store.read_state("m", DAYS, family)
    return [] if frame is None else frame.toArrow().to_pylist()


def _plain(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(
        json.dumps({k: v for k, v in row.items() if k not in _VOLATILE}, default=str)
        for row in rows
    )

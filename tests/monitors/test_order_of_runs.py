"""Backfills and daily runs store the same, whatever kind of monitor warns of what is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dqsql.model.monitors import monitor_specs
from tests.runner.conftest import Project

from .conftest import write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = [f"2024-01-{day:02}" for day in range(1, 21)]
ODD = 15
# Every kind, and none stops a batch from being learned from.
MODEL = """\
{{ config(batch_by = 'day', segment_by = ['shop'], severity = 'warn') }}
select
    day,
    shop,
    id,      -- @stays_unique @has_type('bigint')
    amount,  -- @avh @anomaly(mean) {severity: error, after: 6}
    price,   -- @alive @drift(psi, against => 'previous') < 0.25
    unit,    -- @alive {severity: error, after: 6} @drift(js, against => 'last 7') < 0.2
    code     -- @pattern
from {{ source('raw', 't') }}
-- @expected_segments
-- @anomaly(row_count) {segments: true}
-- @schema @schema_is('day date, shop string') @matches_relation(source('raw', 'u'), keys => [id])
-- @drift_pvalue(price, against => 'last 3') > 0.001
-- @cadence @novelty(min_history => 5) @row_anomalies(min_history => 5)
"""
# From the 16th on a key is repeated, a shop is gone, a column is constant, a value is gone, amounts
# are tenfold and codes have another form.
ROWS = f"""
select
    date_add(date'2024-01-01', cast(d.id as int)) as day,
    element_at(array('a', 'b', if(d.id >= {ODD}, 'a', 'c')), cast(r.id % 3 + 1 as int)) as shop,
    d.id * 1000 + if(d.id >= {ODD} and r.id = 1, 0, r.id) as id,
    (10 + pmod(xxhash64(d.id, r.id), 100) / 25.0D) * if(d.id >= {ODD}, 10, 1) as amount,
    if(d.id >= {ODD}, 5.0D, 10 + pmod(xxhash64(r.id, d.id), 70) / 10.0D) as price,
    if(d.id >= {ODD}, 'kg', element_at(array('kg', 'm'), cast(r.id % 2 + 1 as int))) as unit,
    concat(if(d.id >= {ODD}, 'x_', 'AB-'), cast(1000 + pmod(xxhash64(d.id, r.id), 9000) as string))
        as code
from range({len(DAYS)}) as d, range(60) as r
where r.id < 55 + pmod(xxhash64(d.id), 5)
"""
# What says which run it was, and when.
OF_THE_RUN = {"run_id", "computed_at", "evaluated_at", "fitted_at", "valid_from", "valid_to"}
TABLES = ("dq_results", "dq_metrics", "dq_programs", "dq_batches")
Runs = Callable[..., Project]


@pytest.fixture
def runs(tmp_path: Path, spark: SparkSession) -> Runs:
    """`runs("name", [["2024-01-01", ..], ..])`: a project after these runs, each of some days."""

    def make(name: str, batches: Iterable[list[str]]) -> Project:
        root = write_project(tmp_path / name, {"checks/m.sql": MODEL})
        project = Project(root, spark)
        project.data(ROWS)
        project.data(f"select * from ({ROWS}) where id % 50 > 0", "u")
        for some in batches:
            project.run(batches=some)
        return project

    return make


def stored(project: Project, table: str) -> list[str]:
    """What a table holds but for the single runs."""
    return sorted(
        str({k: v for k, v in row.items() if k not in OF_THE_RUN | {"checked_at", "versions"}})
        for row in project.rows(table)
        # What a run's columns are compared with is that of the run before.
        if row.get("detector") != "schema"
    )


def test_runs_in_other_portions_store_the_same(runs: Runs) -> None:
    backfill = runs("backfill", [DAYS])
    warned: dict[str, list[str]] = {}
    for row in backfill.rows("dq_results"):
        if row["status"] == "warn" and row["segment"] is None:
            warned.setdefault(row["check_name"], []).append(row["batch"][-2:])
    # Three times it is told, then it is normal.
    for check in ("stays_unique", "alive", "expected_segments"):
        assert sorted(set(warned[check]))[-3:] == ["16", "17", "18"], check
    assert {r["detector"] for r in backfill.rows("dq_results")} == set(monitor_specs())
    portions = runs("portions", [DAYS[:14], [DAYS[14]], [DAYS[15]], DAYS[16:18], DAYS[18:]])
    for table in TABLES:
        assert differing(stored(portions, table), stored(backfill, table)) == [], table


def differing(one: list[str], other: list[str]) -> list[Any]:
    """The rows that only one of two has."""
    return sorted(set(one) ^ set(other))

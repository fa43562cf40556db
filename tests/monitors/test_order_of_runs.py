"""Backfills and daily runs store the same, whatever kind of monitor warns of what is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from dqsql import explain
from dqsql.model.monitors import monitor_specs
from dqsql.model.results import Status
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
    rows = Project(tmp_path, spark)
    rows.data(ROWS)
    folder = tmp_path / "data"
    (folder / "u").mkdir()
    # Some keys are not in the other relation.
    others = pq.read_table(folder / "t").to_pandas().query("id % 50 > 0")
    others.to_parquet(folder / "u" / "rows.parquet")

    def make(name: str, batches: Iterable[list[str]]) -> Project:
        root = write_project(tmp_path / name, {"checks/m.sql": MODEL})
        project = Project(root, spark)
        shutil.copytree(folder, root / "data")
        for some in batches:
            project.run(batches=some)
        return project

    return make


def stored(project: Project, table: str) -> list[str]:
    """What a table holds but for the single runs."""
    return sorted(
        str(
            {
                k: v
                for k, v in row.items()
                if k not in OF_THE_RUN | {"checked_at", "grown_at", "lacked_at", "versions"}
            }
        )
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
    portions = runs("portions", [DAYS[:ODD], [DAYS[ODD]], DAYS[16:18], DAYS[18:]])
    for table in TABLES:
        assert differing(stored(portions, table), stored(backfill, table)) == [], table


def differing(one: list[str], other: list[str]) -> list[Any]:
    """The rows that only one of two has."""
    return sorted(set(one) ^ set(other))


# Four batches a day for 20 days, which differ from hour to hour, and not from day to day.
BY_HOUR = """\
{{ config(batch_by = 'at', severity = 'warn') }}
select
    at,
    kind,   -- @avh
    amount  -- @avh
from {{ source('raw', 't') }}
"""
HOURS = """
select
    timestamp'2024-01-01' + make_dt_interval(0, cast(b.id as int) * 6) as at,
    if(pmod(xxhash64(r.id, b.id), 8) < 1 + 2 * (b.id % 4), 'web', 'app') as kind,
    10 + 10 * (b.id % 4) + pmod(xxhash64(b.id, r.id), 100) / 25.0D as amount
from range(80) as b, range(60) as r
"""


def two_projects(
    folder: Path, spark: SparkSession, model: str, rows: str
) -> tuple[Project, Project]:
    """One for a backfill, and one for the same batches in portions."""
    backfill = Project(write_project(folder / "backfill", {"checks/m.sql": model}), spark)
    backfill.data(rows)
    shutil.copytree(backfill.root, folder / "portions")
    return backfill, Project(folder / "portions", spark)


def test_batches_of_a_time_of_day_are_alike(tmp_path: Path, spark: SparkSession) -> None:
    backfill, portions = two_projects(tmp_path, spark, BY_HOUR, HOURS)
    whole = backfill.run()
    assert {r.status for r in whole.results} == {Status.PASS, Status.SKIPPED}
    # Seven days are too few; that is told of each time.
    (first,) = (r for r in whole.results if r.batch == "2024-01-08 06:00:00" and r.column == "kind")
    assert first.message == "still learning: 7 of 8 accepted batches of 06:00"
    batches = sorted({str(r.batch) for r in whole.results})
    last = batches[-1]
    (verdict,) = (r for r in whole.results if r.batch == last and r.column == "amount")
    assert verdict.details["history"] == ["2024-01-01 18:00:00", "2024-01-19 18:00:00", 19]
    assert verdict.details["left_out"] == []
    # More of that time are read than there are days in what other monitors look at.
    for some in (batches[:30], batches[30:79], [last]):
        portions.run(batches=some)
    for table in TABLES:
        assert differing(stored(portions, table), stored(backfill, table)) == [], table
    again = explain(verdict.check_id, batch=last, project_dir=portions.root, spark=spark)
    assert again.same and len(again.past) == 19
    # What is usual at midnight is not so in the evening.
    rows, source = HOURS.split("    if(", 1)
    portions.data(f"{rows}    if({source.replace('(b.id % 4)', 'if(b.id = 79, 0, b.id % 4)')}")
    told = portions.run(batches=[last]).results
    assert {r.column for r in told if r.status is Status.WARN} == {"kind", "amount"}


# Twelve batches a day, of which the newest of all times are not enough to learn one time from; an
# error comes in one of nine.
TWO_HOURLY = """
select
    timestamp'2024-01-01' + make_dt_interval(0, cast(b.id as int) * 2) as at,
    10 + 2 * (b.id % 12) + pmod(xxhash64(b.id, r.id), 100) / 25.0D as amount,
    cast(b.id % 9 = 0 and r.id = 0 as int) as errors
from range(136) as b, range(30) as r
"""


def test_issues_are_learned_from_where_many_batches_come_a_day(
    tmp_path: Path, spark: SparkSession
) -> None:
    model = BY_HOUR.replace("kind,   -- @avh", "errors, -- @avh(fpr => 0.0001)")
    model = model.replace("amount  -- @avh", "amount  -- @avh(fpr => 0.0001)")
    backfill, portions = two_projects(tmp_path, spark, model, TWO_HOURLY)
    whole = backfill.run()
    # That an hour had no error on its ten days is no promise.
    assert not [r for r in whole.results if r.is_finding and r.column == "errors"]
    batches = sorted({str(r.batch) for r in whole.results})
    verdicts = {r.batch: r for r in whole.results if r.column == "amount"}
    newest = verdicts[batches[-1]]
    details = newest.details
    assert details["issues"] > 0
    # Ten batches of a time of day promise little at a rare rate; those of all times do.
    (least,) = (c["lower"] for c in details["clauses"] if c["metric"] == "complete_ratio")
    assert least > 0.9
    shown = explain(newest.id, project_dir=backfill.root, spark=spark)
    assert shown.same, [c for c in shown.compared if not c.same]
    for some in (batches[:-3], [batches[-3]], batches[-2:]):
        portions.run(batches=some)
    for table in TABLES:
        assert differing(stored(portions, table), stored(backfill, table)) == [], table
    portions.data(TWO_HOURLY.replace("    10 +", "    10 * (1 + 99 * (b.id div 135)) +"))
    (told,) = (r for r in portions.run(batches=[batches[-1]]).results if r.column == "amount")
    assert told.status is Status.WARN
    assert "sum is" in told.message

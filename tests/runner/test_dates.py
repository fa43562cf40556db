"""Columns of dates and times in `@avh` and `@novelty`: how far values are from their batch."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.results import Result, RunResult, Status

from ..conftest import PROFILES_YML, PROJECT_YML
from .conftest import SOURCES, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS, ROWS = 24, 40
BROKEN = 22
FIRST = dt.date(2024, 1, 1)
# Without Saturdays and Sundays: a newest date that only moves on would jump on every Monday.
WORKDAYS = [d for d in (FIRST + dt.timedelta(n) for n in range(60)) if d.weekday() < 5][:DAYS]
MODEL = """\
{{ config(batch_by = 'day', avh = true, severity = 'warn') }}
-- @novelty(fpr => 0.01)
select day, ordered, due, shipped, updated, born
from {{ source('raw', 't') }}
"""
COLUMNS = ("ordered", "due", "shipped", "updated", "born")


def rows_of_day(number: int) -> dict[str, list[Any]]:
    """Dates as people have them; one day with a default, a typo, the future and a stale load."""
    rng = np.random.default_rng(number)
    day = WORKDAYS[number]
    noon = dt.datetime.combine(day, dt.time(12), dt.UTC)
    columns = {
        "day": [day] * ROWS,
        "ordered": [noon - dt.timedelta(minutes=float(m)) for m in rng.uniform(0, 700, ROWS)],
        "due": [day + dt.timedelta(float(n)) for n in rng.integers(20, 31, ROWS)],
        "shipped": [day - dt.timedelta(float(n)) for n in rng.poisson(2, ROWS)],
        "updated": [day] * ROWS,
        "born": [day - dt.timedelta(float(n)) for n in rng.integers(7_000, 30_000, ROWS)],
    }
    if number == BROKEN:
        columns["ordered"][3] = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        columns["due"][5] = dt.date(2099, 12, 31)
        columns["shipped"][7] = day + dt.timedelta(365)
        columns["updated"] = [day - dt.timedelta(9)] * ROWS
    return columns


@pytest.fixture(scope="module")
def checked(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> tuple[Project, RunResult]:
    project = Project(tmp_path_factory.mktemp("dates"), spark)
    settings = {"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML}
    project.write({**settings, "checks/sources.yml": SOURCES, "checks/m.sql": MODEL})
    columns: dict[str, list[Any]] = {}
    for number in range(DAYS):
        for name, values in rows_of_day(number).items():
            columns.setdefault(name, []).extend(values)
    folder = project.root / "data" / "t"
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return project, project.run()


def verdicts(result: RunResult, detector: str) -> dict[tuple[str | None, str], Result]:
    return {(r.column, r.batch or ""): r for r in result.results if r.detector == detector}


@pytest.mark.parametrize(
    ("column", "metric"),
    [
        ("ordered", "days_to_min"),
        ("due", "days_to_max"),
        ("shipped", "days_to_max"),
        ("updated", "days_to_min"),
    ],
)
def test_a_date_far_from_its_batch_is_found(
    checked: tuple[Project, RunResult], column: str, metric: str
) -> None:
    verdict = verdicts(checked[1], "avh")[column, str(WORKDAYS[BROKEN])]
    assert verdict.status is Status.WARN
    broken = {c["metric"] for c in verdict.details["clauses"] if c["status"] == "fail"}
    assert metric in broken
    assert "days from the batch to" in verdict.message


def test_days_without_such_dates_are_quiet(checked: tuple[Project, RunResult]) -> None:
    found = verdicts(checked[1], "avh")
    told = {k: v.message for k, v in found.items() if v.status is Status.WARN}
    assert set(told) == {(c, str(WORKDAYS[BROKEN])) for c in COLUMNS if c != "born"}, told


def test_novelty_tells_of_dates_too(checked: tuple[Project, RunResult]) -> None:
    verdict = verdicts(checked[1], "novelty")[None, str(WORKDAYS[BROKEN])]
    assert verdict.status is Status.WARN
    assert "days_to_" in verdict.message


def test_what_is_stored_are_days(checked: tuple[Project, RunResult]) -> None:
    values = {
        r["metric"]: r["value"]
        for r in checked[0].rows("dq_metrics")
        if r["column_name"] == "updated" and r["batch"] == str(WORKDAYS[BROKEN])
    }
    assert values["days_to_min"] == values["days_to_max"] == values["days_to_median"] == -9
    assert "str_len" not in values


def test_without_a_batch_days_are_since_1970(checked: tuple[Project, RunResult]) -> None:
    project, _ = checked
    project.write({"checks/n.sql": NUMBERED})
    found = project.run()
    told = [(r.status, r.message) for r in found.results if r.model == "n"]
    assert [status for status, _ in told] == [Status.PASS] * 3, told


NUMBERED = """\
select
    day,
    due   -- @days_to_min > 19000 @days_to_max(day) = 30 @days_to_median(day) between 20 and 30
from {{ source('raw', 't') }}
where due < '2024-02-20' and due > '2024-01-30'
"""

"""`@avh` in whole runs: histories of several kinds, issues in the last batches, and reviews."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.metric_traits import metric_words
from dqsql.model.results import Result, RunResult, Status

from ..conftest import PROFILES_YML, PROJECT_YML
from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 30
BROKEN = 28  # the day with issues; the days after it are good again
ROWS = 40

MODEL = """\
{{ config(batch_by = 'day', avh = {'window': 20}, severity = 'warn') }}
select day, steady, growing, weekly, constant, regimes, code, plate, ```odd`` name`
from {{ source('raw', 't') }}
"""


def day(number: int) -> str:
    """The name of a batch."""
    return str(dt.date(2024, 1, 1) + dt.timedelta(number))


def rows_of_day(number: int) -> dict[str, list[Any]]:
    """Columns with histories of several kinds; issues in six of them on one day."""
    rng = np.random.default_rng(number)
    broken = number == BROKEN
    noise = rng.normal(0, 1, ROWS)
    steady = 100 + 5 * noise
    growing = 1000 + 40 * number + 10 * noise
    weekly = (300 if number % 7 < 5 else 120) + 5 * noise
    regimes = (50 if number < 14 else 80) + 3 * noise
    codes = [f"AB-{rng.integers(100, 999)}" for _ in range(ROWS)]
    if broken:
        steady = steady * 1000
        codes = [c + " " for c in codes]
        weekly[: ROWS // 2] = 0
    plates = [f"KA-{rng.integers(100, 999)}" for _ in range(ROWS)]
    if broken:
        plates = [plate.lower() for plate in plates]
    constant = [7.0] * ROWS if not broken else [8.0] * ROWS
    return {
        "day": [dt.date(2024, 1, 1) + dt.timedelta(number)] * ROWS,
        "steady": steady.tolist(),
        "growing": growing.tolist(),
        "weekly": weekly.tolist(),
        "constant": constant,
        "regimes": regimes.tolist(),
        "code": codes,
        "plate": plates,
        "`odd` name": [
            None if broken and row % 5 else str(rng.integers(0, 3)) for row in range(ROWS)
        ],
    }


def write_days(project: Project, days: range) -> None:
    """Write the rows of some days as the source."""
    columns: dict[str, list[Any]] = {}
    for number in days:
        for name, values in rows_of_day(number).items():
            columns.setdefault(name, []).extend(values)
    table = pa.table({**columns, "day": pa.array(columns["day"], pa.date32())})
    folder = project.root / "data" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "rows.parquet")


def verdicts(result: RunResult) -> dict[tuple[str, str], Result]:
    """The verdicts of `@avh` by column and batch."""
    return {(r.column or "", r.batch or ""): r for r in result.results if r.detector == "avh"}


@pytest.fixture(scope="module")
def checked(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> tuple[Project, RunResult]:
    """Thirty days, checked at once."""
    project = Project(tmp_path_factory.mktemp("avh"), spark)
    settings = {"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML}
    project.write({**settings, "checks/sources.yml": SOURCES, "checks/m.sql": MODEL})
    write_days(project, range(DAYS))
    return project, project.run()


def test_issues_are_found_in_their_columns_and_nowhere_else(
    checked: tuple[Project, RunResult],
) -> None:
    found = verdicts(checked[1])
    flagged = {c for (c, b), r in found.items() if b == day(BROKEN) and r.status is Status.WARN}
    assert flagged == {"steady", "constant", "code", "plate", "weekly", "`odd` name"}


def test_a_change_of_letter_case_is_found_by_the_shares_of_cases(
    checked: tuple[Project, RunResult],
) -> None:
    result = verdicts(checked[1])["plate", day(BROKEN)]
    broken = {c["metric"] for c in result.details["clauses"] if c["status"] != "pass"}
    assert broken <= {"upper_ratio", "lower_ratio"}
    assert broken


def test_missing_values_are_found_by_bounds_that_are_there_for_them(
    checked: tuple[Project, RunResult],
) -> None:
    result = verdicts(checked[1])["`odd` name", day(BROKEN)]
    assert "80% of values are null, expected at most" in result.message
    broken = [c for c in result.details["clauses"] if c["status"] != "pass"]
    assert any("missing" in name for c in broken for name in c["catches"])


def test_quiet_days_are_quiet(checked: tuple[Project, RunResult]) -> None:
    judged = [
        r
        for (_, batch), r in verdicts(checked[1]).items()
        if batch != day(BROKEN) and r.status is not Status.SKIPPED
    ]
    # The change of level of `regimes` is no fault of the monitor's.
    alarms = [r for r in judged if r.status is Status.WARN and r.column != "regimes"]
    assert len(alarms) <= 0.02 * len(judged)


def test_the_first_batches_are_for_learning(checked: tuple[Project, RunResult]) -> None:
    found = verdicts(checked[1])
    skipped = sorted(
        b for (c, b), r in found.items() if c == "steady" and r.status is Status.SKIPPED
    )
    assert skipped == [day(i) for i in range(8)]
    assert found["steady", day(3)].message.startswith("still learning: 3 of 8")


def test_a_change_of_level_is_flagged_and_then_learned(checked: tuple[Project, RunResult]) -> None:
    found = verdicts(checked[1])
    assert found["regimes", day(14)].status is Status.WARN
    assert found["regimes", day(DAYS - 1)].status is Status.PASS


def test_a_finding_says_what_it_saw_and_from_what_it_learned(
    checked: tuple[Project, RunResult],
) -> None:
    result = verdicts(checked[1])["steady", day(BROKEN)]
    assert "steady is unlike its history" in result.message
    assert day(BROKEN - 1) in result.message
    details = json.loads(json.dumps(dict(result.details)))
    assert details["history"] == [day(BROKEN - 20), day(BROKEN - 1), 20]
    assert details["fpr_bound"] <= details["fpr"] == 0.01
    broken = [c for c in details["clauses"] if c["status"] == "fail"]
    assert broken
    assert metric_words(broken[0]["metric"]) in result.message
    assert any("unit" in issue for c in broken for issue in c["catches"])


def test_programs_and_distributions_are_stored(checked: tuple[Project, RunResult]) -> None:
    project, _ = checked
    programs = [r for r in project.rows("dq_programs") if r["valid_to"] is None]
    assert {r["column_name"] for r in programs} >= {"steady", "growing", "code", "`odd` name"}
    evidence = json.loads(next(r for r in programs if r["column_name"] == "code")["evidence"])
    assert len(evidence["issues"]) == 46
    row = evidence["variants"][evidence["issues"].index("missing_1.0")]
    assert row[evidence["metrics"].index("complete_ratio")] == 0
    profiles = {(r["column_name"], r["profile"]) for r in project.rows("dq_distributions")}
    assert ("steady", "quantile_profile") in profiles
    assert ("code", "pattern_profile") in profiles
    assert not [r for r in project.rows("dq_metrics") if r["metric"].endswith("_profile")]


@pytest.mark.slow
def test_day_by_day_decides_as_a_backfill_does(
    checked: tuple[Project, RunResult], new_project: NewProject
) -> None:
    project = new_project(MODEL)
    found: dict[tuple[str, str], Result] = {}
    for last in (25, 29, DAYS):
        write_days(project, range(last))
        found |= verdicts(project.run())
    at_once = verdicts(checked[1])
    assert {k: summary(r) for k, r in found.items()} == {k: summary(r) for k, r in at_once.items()}


def summary(result: Result) -> Mapping[str, Any]:
    """What must not depend on how the batches were run."""
    return {
        "status": result.status,
        "clauses": [
            (c["metric"], c["transform"], c["lag"], c["status"])
            for c in result.details.get("clauses", ())
        ],
        "history": result.details.get("history"),
        "sampled": result.details.get("sampled"),
    }

"""Batches that a person reviewed, and whose values are restated since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql

from ..conftest import PROFILES_YML, PROJECT_YML
from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day', lookback = 5) }}
select day,
  x -- @not_null
from {{ source('raw', 't') }}
"""
REVIEWED = "2024-01-02"
Reviewed = Callable[[str], Project]


def days(nulls: dict[int, int], last: int, rows: dict[int, int] | None = None) -> str:
    """Days of ten rows each, or of so many `rows`, of which some are null."""
    parts = [
        f"select date'2024-01-{day:02}' as day, if(id < {nulls.get(day, 0)}, null, id) as x"
        f" from range({(rows or {}).get(day, 10)})"
        for day in range(1, last + 1)
    ]
    return " union all ".join(parts)


@pytest.fixture(scope="module")
def flagged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """A project whose second day has a null; it is copied before a person says what of it."""
    project = Project(tmp_path_factory.mktemp("flagged"), spark)
    settings = {"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML}
    project.write({**settings, "checks/sources.yml": SOURCES, "checks/m.sql": MODEL})
    project.data(days({2: 1}, 3))
    assert project.run().exit_code == 1
    return project


@pytest.fixture
def reviewed(flagged: Project, tmp_path: Path) -> Reviewed:
    """`reviewed("accept")`: a project on whose second day a person gave this verdict."""

    def review(verdict: str) -> Project:
        root = Path(shutil.copytree(flagged.root, tmp_path / "project"))
        dqsql.review("m", [REVIEWED], verdict, "known", project_dir=root)
        return Project(root, flagged.spark)

    return review


def status(project: Project, model: str = "m") -> str:
    rows = project.rows("dq_batches")
    (row,) = (r for r in rows if (r["model"], r["batch"]) == (model, REVIEWED))
    return str(row["status"])


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_batch_that_is_as_it_was_is_not_told_again(reviewed: Reviewed, verdict: str) -> None:
    project = reviewed(verdict)
    for last in (4, 5):
        project.data(days({2: 1}, last))
        result = project.run()
        assert (result.exit_code, REVIEWED in result.models[0].batches) == (0, False)
    assert status(project) == f"{verdict}ed"


@pytest.mark.parametrize("rows", [10, 11])
def test_worse_values_than_were_accepted_are_told(reviewed: Reviewed, rows: int) -> None:
    project = reviewed("accept")
    project.data(days({2: 9}, 4, {2: rows}))
    assert [r.batch for r in project.run().findings] == [REVIEWED]
    assert status(project) == "flagged"
    (finding,) = (f for f in project.rows("dq_findings") if REVIEWED in f["batches"])
    # Nobody speaks of it as known any more.
    assert (finding["state"], finding["author"], finding["reason"]) == ("open", None, None)
    assert project.run().exit_code == 1


def test_an_annotation_about_the_time_hides_no_change(new_project: NewProject) -> None:
    model = MODEL.replace("select day,", "select day, -- @max <= current_date()")
    project = new_project(model, days({2: 1}, 3))
    project.run()
    dqsql.review("m", [REVIEWED], "accept", "known", project_dir=project.root)
    project.data(days({2: 9}, 4))
    assert [r.batch for r in project.run().findings] == [REVIEWED]
    assert status(project) == "flagged"


def test_better_values_than_were_accepted_stay_accepted(reviewed: Reviewed) -> None:
    project = reviewed("accept")
    project.data(days({2: 1}, 4, {2: 20}))
    project.run()
    assert status(project) == "accepted"


def test_a_rejected_batch_that_is_sent_again_is_accepted(reviewed: Reviewed) -> None:
    project = reviewed("reject")
    project.data(days({}, 4))
    result = project.run()
    assert (result.exit_code, REVIEWED in result.models[0].batches) == (0, True)
    assert status(project) == "accepted"


def test_a_rejected_batch_that_is_sent_worse_stays_rejected(reviewed: Reviewed) -> None:
    project = reviewed("reject")
    project.data(days({2: 9}, 4))
    assert project.run().exit_code == 1
    assert status(project) == "rejected"
    project.data(days({2: 9}, 5))
    assert project.run().exit_code == 0


def test_a_named_batch_that_fails_worse_is_flagged(reviewed: Reviewed) -> None:
    project = reviewed("accept")
    project.data(days({2: 9}, 3))
    project.run(batches=[REVIEWED])
    assert status(project) == "flagged"


CUMULATIVE = """\
{{ config(batch_by = 'day', lookback = 3) }}
select day,
  x -- @mean < 60 {scope: cumulative}
from {{ source('raw', 't') }}
-- @row_count > 3
"""


def test_totals_are_the_same_where_a_reviewed_batch_is_looked_at(new_project: NewProject) -> None:
    models = {
        f"checks/{name}.sql": CUMULATIVE.replace("lookback = 3", f"lookback = {lookback}")
        for name, lookback in (("looked_at", 3), ("not_looked_at", 0))
    }
    project = new_project(files=models, data=days({}, 3, {2: 3}))
    project.run()
    for model in ("looked_at", "not_looked_at"):
        dqsql.review(model, [REVIEWED], "accept", "a holiday", project_dir=project.root)
    for last in (4, 5):
        project.data(days({}, last, {2: 3}))
        result = project.run()
    means = []
    for found in result.models:
        assert not [note for note in found.notes if "leave out" in note]
        cumulative = [r for r in found.results if r.check_name.startswith("mean")]
        means.append([r.observed for r in cumulative if r.batch == "2024-01-05"])
    assert len(means) == 2
    assert means[0] == means[1] and None not in means[0]


# Models by what a person says of their second day, and what fails there.
ELSEWHERE = {
    f"{verdict}_{name}": selected
    for verdict in ("accept", "reject")
    for name, selected in {
        "time": "datediff(current_date(), day) as x -- @max < 10",
        "columns": "x -- @max < 2",
    }.items()
}


def test_what_does_not_come_from_the_batch_is_no_change(new_project: NewProject) -> None:
    """Neither the time that passes, nor that the source has one more column."""
    config = "{{ config(batch_by = 'day', lookback = 3) }}\nselect day,\n  "
    schema = "\nfrom {{ source('raw', 't') }}\n-- @schema {severity: warn}\n"
    models = {f"checks/{m}.sql": f"{config}{text}{schema}" for m, text in ELSEWHERE.items()}
    project = new_project(files=models, data=days({}, 2))
    project.run()
    for model in ELSEWHERE:
        assert status(project, model) == "flagged"
        verdict = model.split("_")[0]
        dqsql.review(model, [REVIEWED], verdict, "known", project_dir=project.root)
    project.data(f"select *, 1 as more from ({days({}, 3)})")
    project.run()
    assert {m: status(project, m) for m in ELSEWHERE} == {
        m: f"{m.split('_')[0]}ed" for m in ELSEWHERE
    }


# Checks of columns, with a value that was accepted and a worse one.
WORSE = {
    "a_sum": ("@expect(sum(x) = 5)", "1.0D", "500.0D"),
    "no_number": ("@mean < 0", "1.0D", "double('NaN')"),
    "above": ("@mean between -1 and 0", "-2.0D", "9.0D"),
    "a_text": ("@expect(max(cast(x as string)) = 'x')", "1.0D", "2.0D"),
}


def test_what_is_worse(new_project: NewProject) -> None:
    models = {
        f"checks/{column}.sql": MODEL.replace("x -- @not_null", f"{column} as x -- {check}")
        for column, (check, *_) in WORSE.items()
    }

    def data(last: int, *, restated: bool = False) -> str:
        values = ", ".join(f"{case[1 + restated]} as {column}" for column, case in WORSE.items())
        days = f"date_add(date'2024-01-01', cast(id as int)) as day from range({last})"
        return f"select {values}, {days}"

    def statuses() -> set[str]:
        return {status(project, model) for model in WORSE}

    project = new_project(files=models, data=data(2))
    project.run()
    for model in WORSE:
        dqsql.review(model, [REVIEWED], "accept", "known", project_dir=project.root)
    assert statuses() == {"accepted"}
    project.data(data(3))
    project.run()
    assert statuses() == {"accepted"}
    project.data(data(3, restated=True))
    project.run(batches=[REVIEWED])
    assert statuses() == {"flagged"}

"""A retry does not turn red into green, and neither does a crash after the ledger was written."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql
from dqsql.model.results import Status
from dqsql.runner import project_run
from dqsql.runner.upkeep import doctor

from .conftest import NewProject, Project
from .test_notify import fed

MODEL = """\
{{ config(batch_by = 'day') }}
select day, x from {{ source('raw', 't') }}
-- @max(x) < 9
"""
# The second and the fourth of four days have an x of 9.
X = (0, 9, 2, 9)
FLAGGED = ("2024-01-02", "2024-01-04")


def waiting(project: Project, **options: Any) -> tuple[int, tuple[str, ...]]:
    result = project.run(**options)
    return result.exit_code, result.models[0].waiting


def test_flagged_batches_fail_every_retry_until_they_are_reviewed(new_project: NewProject) -> None:
    project = fed(new_project(MODEL), *X)
    assert project.run().exit_code == 1
    for _ in range(2):
        assert waiting(project) == (1, FLAGGED)
        assert project.rows("dq_runs")[0]["status"] == "fail"
    assert waiting(project, only_new=True) == (0, ())
    for batch in FLAGGED:
        dqsql.review("m", [batch], "accept", "fine", project_dir=project.root)
    assert waiting(project) == (0, ())
    # A newer run has its own verdict.
    fed(project, *X, 4)
    assert project.run().exit_code == 0
    assert waiting(project) == (0, ())


class Died(BaseException):
    """The process ends here."""


def test_a_crash_after_the_ledger(new_project: NewProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project = fed(new_project(MODEL), *X[:2])

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(project_run, "store_dimensions", dies)
        with pytest.raises(Died):
            project.run()
    result = project.run()
    assert (result.exit_code, result.models[0].status) == (1, Status.FAIL)
    assert result.models[0].waiting == ("2024-01-02",)
    assert result.results == ()


def test_a_batch_that_is_checked_again_fails_every_retry(new_project: NewProject) -> None:
    project = fed(new_project(MODEL), 0)
    assert project.run().exit_code == 0
    fed(project, 9)
    assert project.run(batches=["2024-01-01"]).exit_code == 1
    fed(project, 9)
    assert waiting(project) == (1, ("2024-01-01",))


def test_batches_of_another_batch_by_wait_for_nobody(new_project: NewProject) -> None:
    whole = MODEL.partition("\n")[2]
    project = fed(new_project(whole), *X[:3])
    assert project.run().exit_code == 1
    (old,) = (r["batch"] for r in project.rows("dq_batches"))
    project.write({"checks/m.sql": MODEL})
    result = project.run()
    (model,) = result.models
    note = "batch_by is day, and was not set: 1 earlier batch is retired, and checks start again"
    assert note in model.notes
    statuses = {r["batch"]: r["status"] for r in project.rows("dq_batches")}
    assert statuses == {
        old: "retired",
        "2024-01-01": "accepted",
        "2024-01-02": "flagged",
        "2024-01-03": "accepted",
    }
    # Only what is in force counts, and it is told once.
    assert waiting(project) == (1, ("2024-01-02",))
    fed(project, 0, 1, 2, 3)
    result = project.run()
    assert not any("batch_by" in n for n in result.models[0].notes)
    assert (result.exit_code, [r.batch for r in result.results]) == (0, ["2024-01-04"])
    assert doctor(project.root).ailments == ()
    # Back again, the batches of before are not those of now.
    project.write({"checks/m.sql": whole})
    result = project.run()
    assert any("was day: 4 earlier batches are retired" in n for n in result.models[0].notes)


def test_findings_of_a_check_that_is_gone_are_resolved(new_project: NewProject) -> None:
    project = fed(new_project(MODEL), *X[:2])
    project.run()
    assert [r["state"] for r in project.rows("dq_findings")] == ["open"]
    project.write({"checks/m.sql": MODEL.replace("@max(x) < 9", "@max(x) < 10")})
    project.run(full_refresh=True)
    assert [r["state"] for r in project.rows("dq_findings")] == ["resolved"]


def test_a_late_batch_does_not_turn_a_retry_green(new_project: NewProject) -> None:
    """Where nothing is new, the newest batch is checked again because of its age."""
    project = fed(new_project(f"{MODEL}-- @cadence('daily')\n"), *X[:3])
    assert project.run().exit_code == 1
    before = {r["batch"]: r["checked_at"] for r in project.rows("dq_batches")}
    for _ in range(2):
        result = project.run()
        (model,) = result.models
        assert {r.batch for r in result.results} == {"2024-01-03"}
        assert (result.exit_code, model.waiting) == (1, ("2024-01-02",))
        assert {r["batch"]: r["checked_at"] for r in project.rows("dq_batches")} == before
    assert project.run(only_new=True).exit_code == 0
    dqsql.review("m", ["2024-01-02"], "accept", "fine", project_dir=project.root)
    assert project.run().exit_code == 0


def test_another_failure_of_an_accepted_batch_was_not_accepted(new_project: NewProject) -> None:
    model = f"{MODEL}-- @row_count = 1 @sum(x) < 99 {{scope: cumulative}}\n"
    project = fed(new_project(model), *X[:3])
    assert project.run().exit_code == 1
    day = "2024-01-02"
    dqsql.review("m", [day], "accept", "fine", project_dir=project.root)
    # The same failure again.
    assert waiting(project, batches=[day]) == (1, ())
    assert waiting(project) == (0, ())
    # A row of that day comes late.
    table = pa.table({"day": [dt.date.fromisoformat(day)], "x": pa.array([3], pa.int32())})
    pq.write_table(table, project.root / "data" / "t" / "late.parquet")
    assert project.run(batches=[day]).exit_code == 1
    assert waiting(project) == (1, (day,))
    (batch,) = (r for r in project.rows("dq_batches") if r["batch"] == day)
    assert (batch["status"], batch["counted"]) == ("flagged", False)
    dqsql.review("m", [day], "accept", "fine", project_dir=project.root)
    assert waiting(project, batches=[day]) == (1, ())
    assert waiting(project) == (0, ())

"""A retry does not turn red into green, and neither does a crash after the ledger was written."""

from __future__ import annotations

from typing import Any

import pytest

import dqsql
from dqsql.model.results import Status
from dqsql.runner import project_run

from .conftest import NewProject, Project

MODEL = """\
{{ config(batch_by = 'day') }}
select day, x from {{ source('raw', 't') }}
-- @max(x) < 9
"""
# Four days; the second and the fourth have an x of 9.
DATA = (
    "select date '2024-01-01' + cast(id as int) as day, if(id % 2 = 1, 9, id) as x from range({})"
)
FLAGGED = ("2024-01-02", "2024-01-04")


def waiting(project: Project, **options: Any) -> tuple[int, tuple[str, ...]]:
    result = project.run(**options)
    return result.exit_code, result.models[0].waiting


def test_flagged_batches_fail_every_retry_until_they_are_reviewed(new_project: NewProject) -> None:
    project = new_project(MODEL, DATA.format(4))
    assert project.run().exit_code == 1
    for _ in range(2):
        assert waiting(project) == (1, FLAGGED)
        assert project.rows("dq_runs")[0]["status"] == "fail"
    assert waiting(project, only_new=True) == (0, ())
    for batch in FLAGGED:
        dqsql.review("m", [batch], "accept", "fine", project_dir=project.root)
    assert waiting(project) == (0, ())
    # A newer run has its own verdict.
    project.data(DATA.format(5))
    assert project.run().exit_code == 0
    assert waiting(project) == (0, ())


class Died(BaseException):
    """The process ends here."""


def test_a_crash_after_the_ledger(new_project: NewProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project = new_project(MODEL, DATA.format(2))

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

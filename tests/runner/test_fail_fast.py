"""`--fail-fast`: what the run did not come to is checked by the next one."""

from __future__ import annotations

from .conftest import NewProject

MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    v -- {check}
from {{{{ source('raw', 't') }}}}
"""


def test_what_a_run_did_not_come_to_is_new_to_the_next(new_project: NewProject) -> None:
    project = new_project(
        files={
            "checks/a.sql": MODEL.format(check="@not_null"),
            "checks/b.sql": MODEL.format(check="@max < 100"),
        }
    )

    def batches() -> list[tuple[str, str]]:
        return sorted((r["model"], r["batch"]) for r in project.rows("dq_batches"))

    project.data("select '1' as day, int(null) as v")
    project.attempt(fail_fast=True)
    assert batches() == [("a", "1")]
    project.attempt()
    assert batches() == [("a", "1"), ("b", "1")]
    project.data("select explode(array('1', '2')) as day, int(null) as v")
    result = project.attempt(fail_fast=True)
    assert [m.skipped for m in result.models][-1] == "fail fast"
    project.attempt()
    assert batches() == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]

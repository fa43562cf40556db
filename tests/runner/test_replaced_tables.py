"""Tables without batches, of which each run reads all rows anew."""

from __future__ import annotations

import pytest

import dqsql
from dqsql.decisions.reviews import waiting_batches
from dqsql.model.project import CheckModel, ModelConfig
from dqsql.model.results import Status

from .conftest import NewProject

MODEL = "select id from {{ source('raw', 't') }}\n-- @unique(id)\n"
GOOD = "select id from range(5)"
BAD = f"{GOOD} union all select 1"


def test_what_an_earlier_run_found_waits_until_a_later_one_is_accepted(
    new_project: NewProject,
) -> None:
    project = new_project(MODEL, BAD)
    assert project.run().exit_code == 1
    (waiting,) = dqsql.waiting(project.root)
    project.data(GOOD)
    assert project.run().exit_code == 0
    assert dqsql.waiting(project.root) == ()
    assert dqsql.review("m", (), "accept", "old", every=True, project_dir=project.root) == ()
    # By its name it can be accepted all the same.
    reviewed = dqsql.review("m", [waiting.batch], "accept", "fine", project_dir=project.root)
    assert [r.batch for r in reviewed] == [waiting.batch]


def test_those_since_the_newest_accepted_one_wait() -> None:
    statuses = ["flagged", "accepted", "flagged", "rejected", "flagged"]
    rows = [
        {"batch": f"2024-01-0{n} 06:00:00", "status": status}
        for n, status in reversed(list(enumerate(statuses, start=1)))
    ]
    for replaced, days in ((True, [3, 5]), (False, [1, 3, 5])):
        expected = [f"2024-01-0{day} 06:00:00" for day in days]
        assert waiting_batches(rows, replaced=replaced) == expected

    # Those of a stream are not replaced.
    streamed = [{**row, "batch": f"orders-{i}"} for i, row in enumerate(rows)]
    assert len(waiting_batches(streamed, replaced=True)) == 3


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("select * from t", True),
        ("select * from t where day = '{{ var('day') }}'", False),
        ("select * from t where day = current_date", False),
        ("{{ config(batch_by = 'day') }} select day from t", False),
    ],
)
def test_whether_each_run_reads_all_rows(text: str, anew: bool) -> None:
    config = ModelConfig(batch_by="day" if "config" in text else None)
    model = CheckModel("m", "checks/m.sql", text, text, config, (), (), ())
    assert model.reads_all_rows is anew


def test_earlier_runs_cannot_be_checked_again(new_project: NewProject) -> None:
    project = new_project(MODEL, BAD)
    (batch,) = project.run().models[0].batches
    project.data(GOOD)
    # All rows are checked as they are, as a retry of what failed does.
    for options, told in (({"batches": [batch]}, 1), ({"event_time_start": "2024-01-01"}, 0)):
        result = project.run(**options)
        assert [r.status for r in result.results] == [Status.PASS]
        assert sum("cannot be read again" in note for note in result.models[0].notes) == told

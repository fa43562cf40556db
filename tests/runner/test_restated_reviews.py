"""Batches that a person reviewed, and whose values are restated since."""

from __future__ import annotations

import pytest

import dqsql

from .conftest import NewProject, Project

MODEL = """\
{{ config(batch_by = 'day', lookback = 5) }}
select day,
  x -- @not_null
from {{ source('raw', 't') }}
"""
REVIEWED = "2024-01-02"


def days(nulls: dict[int, int], last: int, rows: dict[int, int] | None = None) -> str:
    """Days of ten rows each, or of so many `rows`, of which some are null."""
    parts = [
        f"select date'2024-01-{day:02}' as day, if(id < {nulls.get(day, 0)}, null, id) as x"
        f" from range({(rows or {}).get(day, 10)})"
        for day in range(1, last + 1)
    ]
    return " union all ".join(parts)


def reviewed(new_project: NewProject, verdict: str) -> Project:
    """A project whose second day had a null, on which a person gave a verdict."""
    project = new_project(MODEL, days({2: 1}, 3))
    assert project.run().exit_code == 1
    dqsql.review("m", [REVIEWED], verdict, "known", project_dir=project.root)
    return project


def status(project: Project) -> str:
    (row,) = (r for r in project.rows("dq_batches") if r["batch"] == REVIEWED)
    return str(row["status"])


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_batch_that_is_as_it_was_is_not_told_again(new_project: NewProject, verdict: str) -> None:
    project = reviewed(new_project, verdict)
    for last in (4, 5):
        project.data(days({2: 1}, last))
        result = project.run()
        assert (result.exit_code, REVIEWED in result.models[0].batches) == (0, False)
    assert status(project) == f"{verdict}ed"


@pytest.mark.parametrize("rows", [10, 11])
def test_worse_values_than_were_accepted_are_told(new_project: NewProject, rows: int) -> None:
    project = reviewed(new_project, "accept")
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


def test_better_values_than_were_accepted_stay_accepted(new_project: NewProject) -> None:
    project = reviewed(new_project, "accept")
    project.data(days({2: 1}, 4, {2: 20}))
    project.run()
    assert status(project) == "accepted"


def test_a_rejected_batch_that_is_sent_again_is_accepted(new_project: NewProject) -> None:
    project = reviewed(new_project, "reject")
    project.data(days({}, 4))
    result = project.run()
    assert (result.exit_code, REVIEWED in result.models[0].batches) == (0, True)
    assert status(project) == "accepted"


def test_a_rejected_batch_that_is_sent_worse_stays_rejected(new_project: NewProject) -> None:
    project = reviewed(new_project, "reject")
    project.data(days({2: 9}, 4))
    assert project.run().exit_code == 1
    assert status(project) == "rejected"
    project.data(days({2: 9}, 5))
    assert project.run().exit_code == 0


def test_a_named_batch_that_fails_worse_is_flagged(new_project: NewProject) -> None:
    project = reviewed(new_project, "accept")
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
    means = []
    for name, lookback in (("looked_at", 3), ("not", 0)):
        model = CUMULATIVE.replace("lookback = 3", f"lookback = {lookback}")
        project = new_project(model, days({}, 3, {2: 3}), name=name)
        project.run()
        dqsql.review("m", [REVIEWED], "accept", "a holiday", project_dir=project.root)
        for last in (4, 5):
            project.data(days({}, last, {2: 3}))
            (found,) = project.run().models
        assert not [note for note in found.notes if "leave out" in note]
        cumulative = [r for r in found.results if r.check_name.startswith("mean")]
        means.append([r.observed for r in cumulative if r.batch == "2024-01-05"])
    assert means[0] == means[1] and None not in means[0]


@pytest.mark.parametrize("verdict", ["accept", "reject"])
@pytest.mark.parametrize(
    "selected", ["datediff(current_date(), day) as x -- @max < 10", "x -- @max < 2"]
)
def test_what_does_not_come_from_the_batch_is_no_change(
    new_project: NewProject, verdict: str, selected: str
) -> None:
    model = "{{ config(batch_by = 'day', lookback = 3) }}\nselect day,\n  " + selected
    model += "\nfrom {{ source('raw', 't') }}\n-- @schema {severity: warn}\n"
    project = new_project(model, days({}, 2))
    assert project.run().exit_code == 1
    dqsql.review("m", [REVIEWED], verdict, "known", project_dir=project.root)
    project.data(f"select *, 1 as more from ({days({}, 3)})")
    project.run()
    assert status(project) == f"{verdict}ed"


@pytest.mark.parametrize(
    ("check", "accepted", "restated"),
    [
        ("@expect(sum(x) = 5)", "1.0D", "500.0D"),
        ("@mean < 0", "1.0D", "double('NaN')"),
        ("@mean between -1 and 0", "-2.0D", "9.0D"),
        ("@expect(max(cast(x as string)) = 'x')", "1.0D", "2.0D"),
    ],
)
def test_what_is_worse(new_project: NewProject, check: str, accepted: str, restated: str) -> None:
    model = MODEL.replace("x -- @not_null", f"x -- {check}")

    def data(value: str, last: int) -> str:
        return f"select date_add(date'2024-01-01', cast(id as int)) as day, {value} as x" + (
            f" from range({last})"
        )

    project = new_project(model, data(accepted, 2))
    project.run()
    dqsql.review("m", [REVIEWED], "accept", "known", project_dir=project.root)
    assert status(project) == "accepted"
    project.data(data(accepted, 3))
    project.run()
    assert status(project) == "accepted"
    project.data(data(restated, 3))
    project.run(batches=[REVIEWED])
    assert status(project) == "flagged"

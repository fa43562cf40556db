"""Running again gives the tables of one clean run: after a re-run, and after a run that died."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dqsql.engine.journal import Journal
from dqsql.engine.storage_delta import DeltaFolderStore

from .conftest import NewProject, Project

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['kind']) }}
select
    day,
    kind, -- @not_null
    x     -- @mean between 0 and 5 @max < 9 @stddev < 100 @median < 6
from {{ source('raw', 't') }}
-- @row_count >= 2
"""
# Two days of one month and one of the next, so that batches share chunks; findings among them.
DATA = """
select date '2024-01-30' + cast(id / 4 as int) as day, if(id % 2 = 0, 'a', 'b') as kind, id as x
from range(12)
"""
WRITES = (*(n for n in dir(DeltaFolderStore) if n.startswith("replace_")), "append")


class Killed(BaseException):
    """The process dies; no handler of errors may swallow it."""


@contextmanager
def dying_at(monkeypatch: pytest.MonkeyPatch, number: int | None) -> Iterator[list[str]]:
    """Let write number `number` of the store (from 0) never happen, nor any later one.

    Yields the names of the writes that were asked for.
    """
    asked: list[str] = []
    dead = False
    lock = threading.Lock()

    def dying(name: str) -> Any:
        write = getattr(DeltaFolderStore, name)

        def attempt(self: DeltaFolderStore, *args: Any, **kwargs: Any) -> Any:
            nonlocal dead
            with lock:
                dead = dead or len(asked) == number
                asked.append(name)
            if dead:
                raise Killed(name)
            return write(self, *args, **kwargs)

        return attempt

    with monkeypatch.context() as patch:
        for name in WRITES:
            patch.setattr(DeltaFolderStore, name, dying(name))
        yield asked


def make(new_project: NewProject, name: str) -> Project:
    return new_project(MODEL, DATA, name=name)


def killed_at_each_write(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Iterator[Project]:
    """Projects whose run died at the first, second, .. write; after a clean run with `options`."""
    number = 0
    while True:
        project = make(new_project, f"killed{number}")
        if options:
            project.run()
        with dying_at(monkeypatch, number) as asked:
            try:
                project.run(**options)
            except Killed:
                pass
            else:
                break
        assert len(asked) > number
        yield project
        number += 1
    # State, metrics, verdicts, ledger, the two dimensions (unless they are there), the run itself.
    assert number >= (5 if options else 7)


@pytest.mark.slow
def test_a_first_run_that_died_at_any_write(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = make(new_project, "clean")
    clean.run()
    wanted = clean.tables()
    assert {name for name, rows in wanted.items() if rows} >= {
        "dq_batches",
        "dq_checks",
        "dq_metrics",
        "dq_models",
        "dq_results",
        "dq_state__m",
    }
    for project in killed_at_each_write(new_project, monkeypatch):
        project.run()
        assert project.tables() == wanted
        assert project.run().results == ()


@pytest.mark.slow
def test_a_second_run_of_a_batch_that_died_at_any_write(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = make(new_project, "clean")
    clean.run()
    wanted = clean.tables()
    for project in killed_at_each_write(new_project, monkeypatch, batches=["2024-01-31"]):
        project.run()
        assert project.tables() == wanted


def test_running_batches_again_changes_nothing(new_project: NewProject) -> None:
    # Spark takes the names of folders that it reads for patterns.
    project = make(new_project, "project (of {one}?)")
    first = project.run()
    wanted = project.tables()
    assert len(first.models[0].batches) == 3
    again = project.run(batches=["2024-01-31"])
    assert again.models[0].batches == ("2024-01-31",)
    assert project.tables() == wanted
    assert project.run(full_refresh=True).models[0].batches == first.models[0].batches
    assert project.tables() == wanted
    nothing = project.run()
    assert nothing.models[0].skipped == "nothing new"
    # What the run before flagged still waits for a review.
    assert nothing.exit_code == first.exit_code == 1
    assert project.tables() == wanted
    ranged = project.run(event_time_start="2024-01-31", event_time_end="2024-02-01")
    assert ranged.models[0].batches == ("2024-01-31",)
    assert project.tables() == wanted


@pytest.mark.slow
def test_batch_by_batch_is_the_same_as_all_at_once(new_project: NewProject) -> None:
    at_once = make(new_project, "at_once")
    at_once.run()
    one_by_one = make(new_project, "one_by_one")
    for day in ("2024-02-01", "2024-01-30", "2024-01-31"):
        one_by_one.run(batches=[day])
    found, wanted = one_by_one.tables(), at_once.tables()
    # A finding is called by the batch that it was first seen in, which may be a later one.
    assert len(found.pop("dq_findings")) == len(wanted.pop("dq_findings"))
    assert found == wanted


def test_new_rows_of_a_checked_batch_are_told_and_replaced(new_project: NewProject) -> None:
    project = make(new_project, "project")
    project.run()
    project.data(f"{DATA} union all select date '2024-01-31', 'c', 100L")
    told = project.run()
    assert told.results == ()
    assert "--batch 2024-01-31" in " ".join(told.models[0].notes)
    project.run(batches=["2024-01-31"])
    clean = make(new_project, "clean")
    clean.data(f"{DATA} union all select date '2024-01-31', 'c', 100L")
    clean.run()
    found, wanted = project.tables(), clean.tables()
    # A finding that is gone was there.
    assert "resolved" in str(found.pop("dq_findings")) + str(wanted.pop("dq_findings"))
    assert found == wanted


def test_what_a_dead_writer_left_is_no_row(new_project: NewProject) -> None:
    project = make(new_project, "project")
    project.run()
    wanted = project.tables()
    for table in ("dq_metrics", "dq_state__m", "dq_batches"):
        part = next((project.root / "warehouse" / "dq" / table).rglob("*.parquet"))
        part.with_name("part-of-a-commit-that-never-came.parquet").write_bytes(part.read_bytes())
    project.run(batches=["2024-01-31"])
    assert project.tables() == wanted


BY_DAY = """\
{{{{ config(batch_by = 'day'{more}) }}}}
select day, x from {{{{ source('raw', 't') }}}}
-- @max(x) < 10
"""
DAYS = "select date '2024-01-01' + cast(id as int) as day, if(id = 1, 20, 1) as x from range(3)"


def killed_again(project: Project, monkeypatch: pytest.MonkeyPatch, *batches: str) -> None:
    """Check batches again by a run that dies as soon as the ledger says so."""
    with dying_at(monkeypatch, 1), pytest.raises(Killed):
        project.run(batches=[*batches])


def test_a_batch_that_lost_its_rows_while_it_was_checked_again_is_told(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(BY_DAY.format(more=""), DAYS)
    assert project.run().exit_code == 1
    killed_again(project, monkeypatch, "2024-01-01", "2024-01-02")
    project.data(f"{DAYS.replace('range(3)', 'range(2, 5)')}")
    for _ in range(2):
        result = project.run()
        assert result.exit_code == 1
        assert result.models[0].unfinished == ("2024-01-01", "2024-01-02")
        (note,) = (n for n in result.models[0].notes if "not checked to the end" in n)
        assert "--batch 2024-01-01 --batch 2024-01-02" in note


def test_a_batch_before_the_beginning_is_checked_again(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(BY_DAY.format(more=", begin = '2024-01-03'"), DAYS)
    project.run()
    project.run(batches=["2024-01-01"])
    killed_again(project, monkeypatch, "2024-01-01")
    result = project.run()
    assert result.models[0].batches == ("2024-01-01",)
    assert {r["batch"]: r["status"] for r in project.rows("dq_batches")} == {
        "2024-01-01": "accepted",
        "2024-01-03": "accepted",
    }


def test_a_finding_is_not_about_a_batch_that_is_there_no_more(new_project: NewProject) -> None:
    text = "{{ config(batch_by = 'day') }}\nselect *\nfrom {{ source('raw', 't') }} -- @not_null(x)"
    project = new_project(text, "select * from values ('d1', 1), ('d2', null) as t(day, x)")
    project.run()
    assert {r["state"] for r in project.rows("dq_findings")} == {"open"}
    project.data("select 'd1' as day, 1 as x")
    project.run(batches=["d2"])
    found = {(r["state"], r["reason"]) for r in project.rows("dq_findings")}
    assert found == {("resolved", "its batches have no rows any more")}
    assert {r["batch"] for r in project.rows("dq_batches")} == {"d1"}


def test_what_is_replaced_is_kept_once_though_a_run_was_killed(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(MODEL, DATA)
    project.run()

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_do", killed)
        with pytest.raises(Killed):
            project.run(batches=["2024-01-30"])
    project.run()
    rows = project.rows("dq_result_history")
    keys = [(r["run_id"], r["check_id"], r["batch"], r["segment"]) for r in rows]
    assert len(keys) == len(set(keys))
    assert {r["batch"] for r in rows} == {"2024-01-30"}

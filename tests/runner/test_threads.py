"""Several models at a time: the tables and the words of one after the other."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dqsql.engine import journal
from dqsql.engine.journal import Journal
from dqsql.engine.storage import BatchPart
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import StorageError, UsageError
from dqsql.model.events import RunListener
from dqsql.model.results import ModelResult
from dqsql.model.table import Table
from dqsql.model.tables import METRICS

from .conftest import NewProject, Project

DATA = """
select date '2024-01-30' + cast(id / 4 as int) as day, if(id % 2 = 0, 'a', 'b') as kind,
    id as x, concat('n-', id) as t
from range(24)
"""
FROM = "from {{ source('raw', 't') }}"
MODELS = {
    "checks/parts.sql": f"""\
{{{{ config(batch_by = 'day', segment_by = ['kind']) }}}}
select
    day,
    kind,
    x -- @mean > 3 @median < 100 @max < 100 {{scope: cumulative}}
{FROM}
""",
    "checks/days.sql": f"""\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    x -- @stddev < 100 @sum < 1000 {{scope: cumulative}}
{FROM}
-- @row_count = 4 @anomaly(row_count)
""",
    "checks/whole.sql": f"""\
select
    x, -- @unique
    t  -- @pattern
{FROM}
""",
    "checks/bad.sql": "select x -- @mean > 0\nfrom nowhere",
    "checks/same.sql": f"select x -- @min >= 0\n{FROM}\n-- @equal_row_count(ref('whole')) @schema",
}


class Listener(RunListener):
    """Keeps what it hears of models."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def model_started(self, index: int, total: int, model: str) -> None:
        self.heard.append(f"{index}/{total} start {model}")

    def model_step(self, model: str, step: str) -> None:
        assert self.heard[-1].endswith((f"start {model}", f"end {model}"))

    def model_finished(self, index: int, total: int, result: ModelResult) -> None:
        self.heard.append(f"{index}/{total} end {result.model}")


def verdicts(project: Project, listener: Listener, **options: Any) -> list[Any]:
    result = project.attempt(listener=listener, **options)
    return [
        (
            m.model,
            str(m.error),
            [(r.check_name, day(r.batch), r.segment, r.status) for r in m.results],
        )
        for m in result.models
    ]


def day(batch: str) -> str:
    """A batch; the one of a model without batches is called by the start of the run."""
    return batch if batch.startswith("2024") else "the run"


def rows_of_days(project: Project) -> dict[str, list[str]]:
    """What the tables have of batches that are days."""
    return {
        name: [row for row in rows if "'batch', '2024" in row]
        for name, rows in project.tables().items()
    }


@pytest.mark.slow
def test_threads_change_nothing(new_project: NewProject) -> None:
    one = new_project(files=MODELS, data=DATA, name="one")
    four = new_project(files=MODELS, data=DATA, name="four")
    told, told_of_four = Listener(), Listener()
    expected = verdicts(one, told)
    assert verdicts(four, told_of_four, threads=4) == expected
    assert told_of_four.heard == told.heard
    assert [model for model, error, _ in expected if error != "None"] == ["bad"]
    assert rows_of_days(four) == rows_of_days(one)
    assert {n: len(rows) for n, rows in four.tables().items()} == {
        n: len(rows) for n, rows in one.tables().items()
    }
    with pytest.raises(UsageError, match="threads is 0"):
        four.run(threads=0)


def test_what_cannot_be_stored_is_an_error_of_its_model(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: MODELS[name] for name in ("checks/days.sql", "checks/parts.sql")}
    project = new_project(files=files, data=DATA)
    write = DeltaFolderStore.replace_batches

    def refusing(self: DeltaFolderStore, table: Table, parts: list[BatchPart]) -> None:
        if table == METRICS and any(part.model == "days" for part in parts):
            raise StorageError("the disk is full")
        write(self, table, parts)

    listener = Listener()
    with monkeypatch.context() as patch:
        patch.setattr(DeltaFolderStore, "replace_batches", refusing)
        result = project.attempt(listener=listener)
    assert result.exit_code == 2
    assert [(m.model, m.error and m.error.message) for m in result.models] == [
        ("days", "the disk is full"),
        ("parts", None),
    ]
    assert listener.heard[-1] == "1/2 end days"
    assert {r["model"] for r in project.rows("dq_batches")} == {"parts"}
    # The next run does what is missing, and nothing else.
    again = project.run()
    assert {m.model: len(m.batches) for m in again.models} == {"days": 6, "parts": 0}


def test_work_that_is_due_is_written_while_the_next_model_is_at_work(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {name: MODELS[name] for name in ("checks/days.sql", "checks/parts.sql")}
    project = new_project(files=models, data=DATA)
    seen: list[set[str]] = []

    class Waiting(Listener):
        def model_started(self, index: int, total: int, model: str) -> None:
            super().model_started(index, total, model)
            while index == 2 and not seen:
                time.sleep(0.05)
                if rows := project.rows("dq_batches"):
                    seen.append({r["model"] for r in rows})

    monkeypatch.setattr(Journal, "due", property(lambda journal: bool(journal._works)))
    monkeypatch.setattr(journal, "_LOOK", 0.01)
    project.attempt(listener=Waiting(), threads=1)
    assert seen == [{"days"}]
    assert {r["model"] for r in project.rows("dq_batches")} == {"days", "parts"}

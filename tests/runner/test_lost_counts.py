"""Counts of values that are lost: no duplicate across batches passes because of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dqsql.errors import StorageError
from dqsql.model.results import Status
from dqsql.runner.upkeep import doctor

from .conftest import NewProject

MODEL = """\
{{ config(batch_by = 'day') }}
select day,
    id -- @unique {scope: cumulative}
from {{ source('raw', 't') }}
"""
DATA = "select cast(id div 2 as string) as day, id from range(8)"


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def damaged(folder: Path) -> None:
    for file in folder.rglob("*.parquet"):
        content = bytearray(file.read_bytes())
        content[4:40] = bytes(36)
        file.write_bytes(content)


@pytest.mark.parametrize("harm", [deleted, damaged])
def test_what_was_counted_is_counted_again(new_project: NewProject, harm: object) -> None:
    project = new_project(MODEL, DATA)
    assert {r.status for r in project.run().results} == {Status.PASS}
    tables = project.root / "warehouse" / "dq"
    harm(tables / "dq_frequency__m")  # type: ignore[operator]
    shutil.rmtree(tables / "dq_frequency_total__m")
    # An id of the first day comes again.
    project.data(f"{DATA} union all select '4', 0")
    if harm is deleted:
        with pytest.raises(StorageError, match="dq_frequency__m is gone"):
            project.run()
    assert doctor(project.root).exit_code == 1
    assert doctor(project.root, repair=True).exit_code == 0
    assert doctor(project.root).ailments == ()
    result = project.run()
    assert result.models[0].batches == ("0", "1", "2", "3", "4")
    assert {r.batch: r.status for r in result.results} == {
        **dict.fromkeys("0123", Status.PASS),
        "4": Status.FAIL,
    }

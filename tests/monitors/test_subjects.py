"""Which files a command reads that is about relations by name, and how large its session is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dqsql.engine.launching import scale_of_sources
from dqsql.engine.small import SMALL_BYTES, Scale
from dqsql.errors import UsageError
from dqsql.model.project import Project
from dqsql.monitors.subjects import files_named
from dqsql.runner.compilation import Where
from tests.conftest import MakeProject

SOURCES = """\
sources:
  - name: raw
    tables: [{name: t, path: data/t.csv, format: csv}]
"""


@pytest.fixture
def project(make_project: MakeProject) -> Project:
    files: dict[str, str | None] = {
        "checks/sources.yml": SOURCES,
        "checks/m.sql": "select a from {{ source('raw', 't') }}",
        **{f"data/{name}.csv": "a\n1\n" for name in ("t", "u1", "u2")},
    }
    return Where(make_project(files)).project()


def names(files: list[Path] | None) -> list[str] | None:
    return None if files is None else [file.name for file in files]


def test_files_beside_the_sources(project: Project) -> None:
    assert files_named(project, ["m", "raw.t"]) == []
    assert names(files_named(project, ["m", "data/u1.csv"])) == ["u1.csv"]
    assert names(files_named(project, ["data/u*.csv"])) == ["u1.csv", "u2.csv"]
    for table in ("shop.orders", "s3://bucket/u.csv", "data/none*.csv"):
        assert files_named(project, ["data/u1.csv", table]) is None
    with pytest.raises(UsageError, match=r"there is no file data/u3\.csv"):
        files_named(project, ["data/u3.csv"])


def test_a_large_file_needs_a_session_like_any(project: Project) -> None:
    beside = project.root / "data" / "u1.csv"
    assert scale_of_sources(project, [beside]) is Scale.SMALL
    with beside.open("r+b") as file:
        file.truncate(SMALL_BYTES + 1)
    assert scale_of_sources(project) is Scale.SMALL
    assert scale_of_sources(project, [beside]) is Scale.ANY

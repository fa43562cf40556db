"""The Python code in the documentation is run: on small projects that are called as there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.model.results import RunResult
from tests.conftest import MakeProject

from .blocks import Block, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What has a test of its own, and what is about schedulers that are not installed.
ELSEWHERE = ("docs/streams.md", "docs/tutorial.md", "docs/ci.md")
SOURCES = "sources: [{name: raw, tables: [{name: t, path: data/t.parquet}]}]"
MODEL = "select id -- @not_null\nfrom {{ source('raw', 't') }}"


def run_here() -> list[Block]:
    return [b for b in blocks("python") if b.page not in ELSEWHERE]


@pytest.mark.parametrize("block", run_here(), ids=str)
def test_it_runs(
    block: Block, make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the projects that the pages name; what they start Spark for is handed in."""
    for name in ("example_project", "shop"):
        files = {"checks/sources.yml": SOURCES, "checks/flights.sql": MODEL}
        root = make_project(files, name)
        spark.range(3).write.parquet(str(root / "data" / "t.parquet"))
    monkeypatch.chdir(root.parent)
    given = functools.partial(dqsql.run, spark=spark)
    if block.page == "docs/storage.md":
        given(root)
        monkeypatch.chdir(root)
    monkeypatch.setattr(dqsql, "run", given)
    known: dict[str, Any] = {"spark": spark, "dqsql": dqsql}
    code = block.text.replace("/Workspace/Repos/me/", f"{root.parent}/")
    # The project here is none of dbt's.
    exec(code.replace(", dbt_tests=True", ""), known)
    if "test_orders" in known:
        known["test_orders"](spark)
    if "result" in known:
        result = known["result"]
        assert isinstance(result, RunResult)
        assert result.exit_code == 0
        assert len(result.results) > 0


def test_the_pages_have_code() -> None:
    assert {Path(b.page).name for b in run_here()} >= {"python.md", "storage.md", "report.md"}

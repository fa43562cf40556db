"""Whose a Spark session is, and what is left in it when dqsql is done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql
from dqsql.engine.session_use import put_view, using_session
from dqsql.engine.statements import tables_in
from tests.conftest import ROOT

from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['part']) }}
select
    day,
    part,
    x -- @mean < 100 @unique @median < 100 @count_distinct > 0 {scope: cumulative} @anomaly(mean)
from {{ source('raw', 't') }}
-- @matches_relation(source('raw', 'u'), keys => 'x')
"""
DATA = "select date'2024-01-01' as day, id % 2 as part, id as x from range(8)"


def views(spark: SparkSession) -> set[str]:
    return {name for name, is_temporary in tables_in(spark).items() if is_temporary}


def test_no_view_is_left_in_a_session_of_the_user(
    new_project: NewProject, spark: SparkSession
) -> None:
    before = views(spark)
    project = new_project(MODEL, DATA, files={"checks/bad.sql": "select x from nowhere -- @unique"})
    project.data(DATA.replace("range(8)", "range(9)"), "u")
    result = project.attempt(store_failures=True, quarantine=True)
    assert {m.model: bool(m.error) for m in result.models} == {"bad": True, "m": False}
    assert views(spark) == before
    assert result.models[1].rows == 8


def test_projects_that_share_a_session_do_not_read_each_other(
    new_project: NewProject, spark: SparkSession
) -> None:
    """Their models and sources have the same names, and other rows."""
    sums = {f"p{n}": n for n in (1, 2, 3)}
    model = "select x -- @sum > 0\nfrom {{ source('raw', 't') }}"
    projects = {name: new_project(model, f"select {n} as x", name=name) for name, n in sums.items()}
    found: dict[str, float | None] = {}

    def work(name: str, project: Project) -> None:
        found[name] = project.run().results[0].observed

    threads = [threading.Thread(target=work, args=item) for item in projects.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == sums


def test_another_project_waits_and_the_last_one_drops_the_views(spark: SparkSession) -> None:
    said: list[str] = []
    began = threading.Event()

    def other() -> None:
        began.set()
        with using_session(spark, Path("two")):
            said.append("two")

    with using_session(spark, Path("one")):
        thread = threading.Thread(target=other)
        thread.start()
        assert began.wait(60)
        with using_session(spark, Path("one")), using_session(spark, Path("three")):
            put_view(spark.range(1), "dqsql__of `one`")
        said.append("one")
        assert "dqsql__of `one`" in views(spark)
    thread.join(60)
    assert said == ["one", "two"]
    assert "dqsql__of `one`" not in views(spark)


SCRIPT = """
import sys, threading, dqsql
from pyspark.sql import SparkSession

def run(name):
    found[name] = [r.observed for r in dqsql.run(name).results]

found = {}
threads = [threading.Thread(target=run, args=[n]) for n in ("a", "b")]
[t.start() for t in threads]
[t.join() for t in threads]
assert found == {"a": [1.0], "b": [2.0]}, found
assert SparkSession.getActiveSession() is None
mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
run("a")
assert found["a"] == [1.0], found
assert mine.range(3).count() == 3
assert not mine.catalog.listTables()
mine.stop()
"""


DIES = """
import os, signal, dqsql
from pyspark import SparkContext
from pyspark.sql import SparkSession
from dqsql.model.events import RunListener

class Kills(RunListener):
    def model_step(self, model, step):
        if step.startswith("scanning"):
            process = SparkContext._gateway.proc
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
(model,) = dqsql.run("a", spark=mine, listener=Kills()).models
assert "the connection to Spark is lost" in str(model.error), model
"""


def run_script(text: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


OWN_DIES = "".join(line for line in DIES.splitlines(True) if not line.startswith("mine ="))


@pytest.mark.slow
@pytest.mark.parametrize("script", [DIES, OWN_DIES.replace("spark=mine, ", "")])
def test_a_session_that_dies(new_project: NewProject, tmp_path: Path, script: str) -> None:
    new_project("select x -- @sum > 0\nfrom {{ source('raw', 't') }}", "select 1 as x", name="a")
    run_script(script, tmp_path)


@pytest.mark.slow
def test_the_last_run_of_a_process_stops_the_session_and_no_run_that_of_the_user(
    new_project: NewProject, tmp_path: Path
) -> None:
    model = "select x -- @sum > 0\nfrom {{ source('raw', 't') }}"
    for name, n in {"a": 1, "b": 2}.items():
        new_project(model, f"select {n} as x", files={"checks/sources.yml": SOURCES}, name=name)
    run_script(SCRIPT, tmp_path)


def test_a_session_of_the_user_that_a_run_finds_keeps_its_settings(
    new_project: NewProject, spark: SparkSession
) -> None:
    project = new_project("select x -- @sum > 0\nfrom {{ source('raw', 't') }}", "select 1 as x")

    def settings() -> dict[str, str]:
        return {row["key"]: row["value"] for row in spark.sql("set").collect()}

    before = settings()
    assert dqsql.run(project.root).exit_code == 0
    assert settings() == before

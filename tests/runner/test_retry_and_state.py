"""Selection by earlier artefacts, and `dqsql retry`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dqsql.cli.main import cli
from dqsql.errors import UsageError
from dqsql.model.events import RunListener
from dqsql.report.artefacts import write_json
from dqsql.report.run_results import run_results
from dqsql.runner.compilation import compile_project
from dqsql.runner.request import read_retry

from .conftest import SOURCES

A = "{{ config(batch_by = 'd') }}\nselect * from {{ source('raw', 't') }}\n-- @max(v) < 3"
B = "select * from {{ source('raw', 't') }}\n-- @row_count > 0\n-- @not_null(v) {severity: warn}"
DATA = "select * from values ('a', 1), ('b', 5), ('c', 2) as t (d, v)"


def run_and_keep(project: Any) -> Path:
    """Run, and write what the command writes."""
    result = project.attempt()
    plans = compile_project(project.root).plans
    folder: Path = project.root / "target"
    text = json.dumps(run_results(result, plans), default=str)
    (folder / "run_results.json").write_text(text, encoding="utf-8")
    return folder


def test_what_failed_is_retried_and_selected(new_project: Callable[..., Any]) -> None:
    project = new_project(None, DATA, {"checks/a.sql": A, "checks/b.sql": B})
    folder = run_and_keep(project)
    retry = read_retry(folder / "run_results.json")
    assert retry.batches == {"a": ("b",)}
    names = [p.model.name for p in compile_project(project.root, select=["result:fail"]).plans]
    assert names == ["a"]
    again = project.attempt(select=["name:a"], batches_of=retry.batches)
    assert [m.batches for m in again.models] == [("b",)]
    with pytest.raises(UsageError, match="there is no"):
        read_retry(folder / "nothing.json")


class Interrupted(RunListener):
    """Ends a run when its second model begins, and keeps what is then there."""

    def __init__(self, file: Path, asked: dict[str, Any]) -> None:
        self.begun = lambda left: write_json(file, run_results(left, asked=asked))

    def model_started(self, index: int, total: int, model: str) -> None:
        if index == 2:
            raise KeyboardInterrupt


def test_a_run_that_was_interrupted_is_retried_as_a_whole(new_project: Callable[..., Any]) -> None:
    project = new_project(None, DATA, {"checks/a.sql": A, "checks/b.sql": B})
    file = run_and_keep(project) / "run_results.json"
    options: dict[str, Any]
    for options in ({"full_refresh": True}, {"select": ["a", "b"], "batches_of": {"a": ("b",)}}):
        asked = options.get("batches_of", {})
        with pytest.raises(KeyboardInterrupt):
            project.attempt(**options, listener=Interrupted(file, asked), threads=1)
        retry = read_retry(file)
        assert retry.batches == {"a": tuple(asked.get("a", ())), "b": ()}
        assert retry.arguments.get("full_refresh", False) is ("full_refresh" in options)


def test_a_retry_that_cannot_check_keeps_what_there_is_to_check(
    new_project: Callable[..., Any],
) -> None:
    project = new_project(None, DATA, {"checks/a.sql": A, "checks/b.sql": B})
    retry = read_retry(run_and_keep(project) / "run_results.json")
    broken = A.replace("select *", "select d, nothing as v")
    (project.root / "checks/a.sql").write_text(broken, encoding="utf-8")
    result = project.attempt(select=["name:a"], batches_of=retry.batches)
    assert result.exit_code == 2
    file = project.root / "target/run_results.json"
    write_json(file, run_results(result, asked=retry.batches))
    assert read_retry(file).batches == {"a": ("b",)}
    # The report knows it of a model that was checked before, though no other was checked.
    assert [r["status"] for r in project.rows("dq_model_runs") if r["error"]] == ["error"]


def selected(root: Path, *select: str, state: Path | None = None) -> str:
    compiled = compile_project(root, select=select, state=state)
    return "".join(p.model.name for p in compiled.plans)


def test_state(new_project: Callable[..., Any], tmp_path: Path) -> None:
    project = new_project(None, None, {"checks/a.sql": A, "checks/b.sql": B})
    where = ["--project-dir", str(project.root)]
    assert CliRunner().invoke(cli, ["compile", *where]).exit_code == 0
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(project.root / "target" / "manifest.json", state)
    assert selected(project.root, "state:modified", state=state) == ""
    assert selected(project.root, "state:unmodified", state=state) == "ab"
    project.write(
        {"checks/a.sql": A + " @min(v) > 0", "checks/c.sql": "select 1 as x -- @not_null"}
    )
    assert selected(project.root, "state:modified", state=state) == "ac"
    assert selected(project.root, "state:new", state=state) == "c"
    assert selected(project.root, "state:old,state:modified", state=state) == "a"
    assert selected(project.root, "state:modified.checks", state=state) == "a"
    assert selected(project.root, "state:modified.configs", state=state) == ""
    with pytest.raises(UsageError, match="--state"):
        selected(project.root, "state:modified")


STATE_FILES = {
    "checks/a.sql": A + "\n-- @few(v)",
    "checks/b.sql": B,
    "macros/m.sql": "{% macro check_few(c) %}{{ limit(c) }} < 9{% endmacro %}\n"
    "{% macro limit(c) %}max({{ c }}){% endmacro %}",
}
PROJECT = "name: test\nprofile: test\nmacro-paths: [macros]\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "part", "names"),
    [
        ("macros/m.sql", "max", "min", "macros", "a"),
        ("macros/m.sql", "< 9", "< 8", "macros", "a"),
        ("checks/b.sql", "warn", "error", "checks", "b"),
        ("checks/a.sql", "'d'", "'v'", "configs", "a"),
        ("dqsql_project.yml", "test\n", "test\nseverity: warn\n", "configs", "ab"),
        ("dqsql_project.yml", "test\n", "test\nmodels: {+lookback: 2}\n", "configs", "ab"),
        ("dqsql_project.yml", "test\n", "test\navh: {fpr: 0.1}\n", "configs", ""),
        ("macros/m.sql", "{% macro check", "{# why #}{% macro check", "macros", ""),
        ("checks/sources.yml", "data/t", "data/u", "configs", "ab"),
    ],
)
def test_what_a_model_depends_on_is_compared(
    make_project: Callable[..., Path],
    tmp_path: Path,
    file: str,
    old: str,
    new: str,
    part: str,
    names: str,
) -> None:
    sources = {"checks/sources.yml": SOURCES, "dqsql_project.yml": PROJECT}
    root = make_project({**sources, **STATE_FILES}, "project")
    where = ["--project-dir", str(root)]
    assert CliRunner().invoke(cli, ["compile", *where]).exit_code == 0
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(root / "target" / "manifest.json", state)
    text = (root / file).read_text(encoding="utf-8")
    assert old in text
    (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert selected(root, "state:modified", state=state) == names
    assert selected(root, f"state:modified.{part}", state=state) == names
    # A manifest of an older version says less, and still serves.
    manifest = json.loads((state / "manifest.json").read_text(encoding="utf-8"))
    for model in manifest["models"].values():
        del model["fingerprints"]
    (state / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert selected(root, "state:modified.checks", state=state) == ""


def test_methods_about_checks(new_project: Callable[..., Any]) -> None:
    root = new_project(None, None, {"checks/a.sql": A, "checks/b.sql": B}).root
    assert selected(root, "test_name:max") == "a"
    assert selected(root, "severity:warn") == "b"
    assert selected(root, "check:row_count*") == "b"
    assert selected(root, "test_type:annotation") == "ab"
    assert selected(root, "test_type:generic") == ""


def test_the_manifest_of_a_selection_keeps_what_it_said_of_the_others(
    new_project: Callable[..., Any],
) -> None:
    project = new_project(None, None, {"checks/a.sql": A, "checks/b.sql": B})
    where = ["--project-dir", str(project.root)]

    def checks(*select: str) -> set[str]:
        arguments = [part for name in select for part in ("--select", name)]
        assert CliRunner().invoke(cli, ["compile", *where, *arguments]).exit_code == 0
        text = (project.root / "target" / "manifest.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)["checks"]
        return {name.partition(".")[0] for name in found}

    assert checks("b") == {"b"}
    manifest = project.root / "target" / "manifest.json"
    for odd in (
        '{"models": null, "checks": {}}',
        '{"models": {"model.a": {}}, "checks": {"x": {}}}',
    ):
        manifest.write_text(odd)
        assert checks("b") == {"b"}
    assert checks() == {"a", "b"}
    assert checks("b") == {"a", "b"}
    # What was changed since is not known.
    project.write({"checks/a.sql": A + " @min(v) > 0"})
    assert checks("b") == {"b"}

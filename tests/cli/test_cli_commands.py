"""`init`, `debug`, `ls`, `compile` and `clean`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dqsql.cli.commands.explain import _facts, row_text
from dqsql.runner import api
from dqsql.runner.explain import Explanation

BAD = "select a, -- @not_nul\n b -- @no_such_thing > 3\nfrom {{ source('shop', 'orders') }}\n"


def files(folder: Path) -> dict[str, bytes]:
    found = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}


# --- init ----------------------------------------------------------------------------------------


def test_init_writes_a_project_that_compiles(
    dqsql: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = dqsql("init", "webshop")
    assert result.exit_code == 0
    assert "cd webshop" in result.output and "dqsql run" in result.output
    written = files(tmp_path / "webshop")
    assert {".gitignore", "checks/orders.sql", "data/orders.csv", "profiles.yml"} <= set(written)
    assert b"name: webshop" in written["dqsql_project.yml"]
    assert written["profiles.yml"].count(b"webshop:") == 1
    assert not any(b"starter" in content for content in written.values())
    assert dqsql("compile", "--project-dir", "webshop").exit_code == 0


def test_init_here(
    dqsql: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "3 data-checks"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / ".gitignore").write_text("mine")
    result = dqsql("init")
    assert result.exit_code == 0
    assert "add target/ and warehouse/" in result.output
    assert (folder / ".gitignore").read_text() == "mine"
    assert "name: project_3_data_checks" in (folder / "dqsql_project.yml").read_text()


def test_init_never_overwrites(dqsql: Callable[..., Result], project: Path) -> None:
    (project / "data" / "orders.csv").write_text("mine")
    before = files(project)
    result = dqsql("init")
    assert result.exit_code == 2
    assert "already has" in result.stderr
    assert files(project) == before


def test_init_leaves_a_dbt_project_as_it_is(
    dqsql: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dbt_project.yml").write_text("name: shop\n")
    before = files(tmp_path)
    result = dqsql("init")
    assert result.exit_code == 2
    assert "is a dbt project" in result.stderr and "dqsql run --dbt-tests" in result.stderr
    assert files(tmp_path) == before
    assert dqsql("init", "checks").exit_code == 0


@pytest.mark.parametrize("name", ["a-b", ".", "../up", "1st", "a b", "", "x" * 300])
def test_init_refuses_names_that_cannot_be_used(
    dqsql: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = dqsql("init", name)
    assert result.exit_code == 2 and "leave the name out" in result.stderr
    assert list(tmp_path.iterdir()) == []


# --- ls ------------------------------------------------------------------------------------------


def test_ls(dqsql: Callable[..., Result], project: Path) -> None:
    lines = dqsql("ls").stdout.splitlines()
    assert lines[:2] == ["model.orders", "orders.order_id.not_null"]
    assert dqsql("ls", "--resource-type", "model").stdout == "model.orders\n"
    assert dqsql("ls", "--resource-type", "source").stdout == "source.shop.orders\n"
    assert dqsql("ls", "--resource-type", "model", "--output", "path").stdout == (
        "checks/orders.sql\n"
    )
    assert "not_null" in dqsql("ls", "--output", "name").stdout.splitlines()
    everything = dqsql("ls", "--resource-type", "all", "--output", "json").stdout.splitlines()
    assert {json.loads(line)["resource_type"] for line in everything} == {
        "source",
        "model",
        "check",
        "macro",
    }
    macros = dqsql("ls", "--resource-type", "macro").stdout.splitlines()
    assert {"macro.check_mostly_paid", "macro.check_not_null"} <= set(macros)


def test_ls_of_nothing(dqsql: Callable[..., Result], project: Path) -> None:
    result = dqsql("ls", "--select", "tag:no_such_tag")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing is selected." in result.stderr


@pytest.mark.parametrize(
    "command", ["report", "report --text nope", "review list", "finding list", "profile"]
)
def test_a_name_that_no_model_has(
    dqsql: Callable[..., Result], project: Path, command: str
) -> None:
    select = () if "--text" in command else ("--select", "nope")
    result = dqsql(*command.split(), *select)
    assert result.exit_code == 2
    assert "no check model matches 'nope'" in result.stderr
    # A report that was written before is still there.
    assert not (project / "target" / "report.html").exists()


def test_a_method_may_find_nothing(dqsql: Callable[..., Result], project: Path) -> None:
    result = dqsql("review", "list", "--select", "tag:no_such_tag")
    place = project / "warehouse" / "dq"
    nothing = f"No batch waits for a review. No run has been in {place}.\n"
    assert (result.exit_code, result.stdout) == (0, nothing)
    result = dqsql("finding", "list")
    assert (result.exit_code, result.stdout) == (
        0,
        nothing.replace("batch waits for a review", "finding is open"),
    )


@pytest.mark.parametrize("batch", [("2024-01-01",), ("--batch", "2024-01-01")])
def test_a_batch_is_reviewed_by_its_name(
    dqsql: Callable[..., Result], project: Path, batch: tuple[str, ...]
) -> None:
    result = dqsql("review", "accept", "orders", *batch, "--reason", "fine")
    assert result.exit_code == 2
    assert "orders has no checked batch '2024-01-01'" in result.stderr


def test_a_link_to_nowhere_is_an_error_and_not_no_check(
    dqsql: Callable[..., Result], project: Path
) -> None:
    (project / "checks" / "lost.sql").symlink_to(project / "moved.sql")
    result = dqsql("ls")
    assert result.exit_code == 2
    assert "checks/lost.sql:1:1: project error: cannot read the file" in result.stderr


def test_names_of_variables_are_texts(dqsql: Callable[..., Result], project: Path) -> None:
    result = dqsql("ls", "--vars", "{1: 2}")
    assert result.exit_code == 2
    assert "the names in --vars must be texts" in result.stderr


@pytest.mark.parametrize("text", ["{min_orders 5}", "{min_orders:5}", "{min_orders=5}"])
def test_a_variable_without_a_value_is_an_error(dqsql: Callable[..., Result], text: str) -> None:
    result = dqsql("ls", "--vars", text)
    assert result.exit_code == 2
    assert "a variable in --vars has no value, or no space before it" in result.stderr


def test_a_contract_of_nothing(dqsql: Callable[..., Result], project: Path) -> None:
    (project / "empty.yaml").write_text("apiVersion: v3.1.0\nkind: DataContract\n")
    result = dqsql("contract", "import", "empty.yaml")
    assert "describes no objects" in result.stderr


def test_a_report_goes_to_one_place(dqsql: Callable[..., Result], project: Path) -> None:
    assert "--port is that of --serve" in dqsql("report", "--port", "80").output
    result = dqsql("report", "--text", "orders", "--serve")
    assert result.exit_code == 2
    assert "choose one" in result.stderr
    for more in (("--output-file", "x.html"), ("--select", "orders")):
        result = dqsql("report", "--text", "orders", *more)
        assert result.exit_code == 2 and more[0] in result.stderr


def test_ls_lists_what_it_can_and_fails(dqsql: Callable[..., Result], project: Path) -> None:
    (project / "checks" / "bad.sql").write_text(BAD)
    result = dqsql("ls")
    assert result.exit_code == 2
    assert "model.orders" in result.stdout
    assert "checks/bad.sql:1:" in result.stderr


# --- compile -------------------------------------------------------------------------------------


def test_compile(dqsql: Callable[..., Result], project: Path) -> None:
    result = dqsql("compile")
    assert result.exit_code == 0
    assert result.stdout.startswith("orders (checks/orders.sql): 10 checks; ")
    assert "5 columns read" in result.stdout
    assert "target/compiled/orders.sql" in result.stdout
    text = (project / "target" / "compiled" / "orders.sql").read_text()
    assert "count(`order_id`)" in text


def test_compile_lists_the_first_of_many_columns(
    dqsql: Callable[..., Result], project: Path
) -> None:
    columns = ",\n".join(f"c{i:02d}" for i in range(25))
    checks = "\n".join(f"-- @min(c{i:02d}) > 0" for i in range(25))
    (project / "checks" / "wide.sql").write_text(f"select\n{columns}\nfrom t\n{checks}\n")
    shown = dqsql("compile", "--select", "wide").stdout
    assert "  columns: c00, c01, " in shown and ", c18, c19 and 5 more\n" in shown


def test_compile_json(dqsql: Callable[..., Result], project: Path) -> None:
    printed = json.loads(dqsql("compile", "--output", "json").stdout)
    (model,) = printed["models"]
    assert (printed["exit_code"], model["checks"]) == (0, 10)
    assert model["compiled_path"] == "target/compiled/orders.sql"


def test_compile_reports_all_errors(dqsql: Callable[..., Result], project: Path) -> None:
    (project / "checks" / "bad.sql").write_text(BAD)
    result = dqsql("compile")
    assert result.exit_code == 2
    assert "checks/bad.sql:1:" in result.stderr
    assert "checks/bad.sql:2:" in result.stderr
    assert "^" in result.stderr
    assert result.stderr.endswith("2 errors\n")
    printed = json.loads(dqsql("compile", "--output", "json").stdout)
    assert (printed["status"], len(printed["errors"])) == ("error", 2)


# --- debug ---------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, str]]:
    made = [("python", True, "3.11"), ("java", True, "17")]

    def debug(*_: Any, **__: Any) -> Iterator[tuple[str, bool, str]]:
        yield from made

    monkeypatch.setattr(api, "debug", debug)
    return made


def test_debug(dqsql: Callable[..., Result], steps: list[tuple[str, bool, str]]) -> None:
    result = dqsql("debug")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[:2]] == [
        ["OK", "python", "3.11"],
        ["OK", "java", "17"],
    ]
    steps.append(("connection", False, "refused\nhint: start it"))
    result = dqsql("debug")
    assert result.exit_code == 2
    assert "ERROR connection" in result.stdout
    assert [line.split()[0] for line in dqsql("debug", "-q").stdout.splitlines()] == [
        "ERROR",
        "hint:",
    ]
    printed = json.loads(dqsql("debug", "--output", "json").stdout)
    assert (printed["exit_code"], printed["steps"][2]["ok"]) == (2, False)


# --- clean ---------------------------------------------------------------------------------------


def set_target_path(project: Path, path: str) -> None:
    with (project / "dqsql_project.yml").open("a") as file:
        file.write(f"\ntarget-path: '{path}'\n")


def test_clean_removes_the_target_folder_only(dqsql: Callable[..., Result], project: Path) -> None:
    before = files(project)
    dqsql("compile")
    assert (project / "target").is_dir()
    result = dqsql("clean")
    assert result.exit_code == 0
    assert f"Removed {project / 'target'}" in result.stdout
    assert files(project) == before
    assert "Nothing to remove" in dqsql("clean").stdout


@pytest.mark.parametrize("command", ["clean", "ls", "compile"])
def test_a_command_works_in_a_process_of_its_own(project: Path, command: str) -> None:
    arguments = [sys.executable, "-m", "dqsql", command, "--project-dir", str(project)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", [".", "..", "../other", "/", "checks/..", "checks", "data"])
def test_clean_refuses_other_folders(
    dqsql: Callable[..., Result], project: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    set_target_path(project, path)
    before = files(tmp_path)
    result = dqsql("clean")
    assert result.exit_code == 2
    assert "not removed" in result.stderr
    assert files(tmp_path) == before


def test_clean_does_not_follow_a_link(
    dqsql: Callable[..., Result], project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (project / "target").symlink_to(tmp_path / "other")
    result = dqsql("clean")
    assert result.exit_code == 2
    assert (tmp_path / "other").is_dir()


def test_clean_never_removes_the_warehouse(dqsql: Callable[..., Result], project: Path) -> None:
    dqsql("compile")
    (project / "target" / "warehouse" / "dq" / "dq_results").mkdir(parents=True)
    result = dqsql("clean")
    assert result.exit_code == 2
    assert "holds the warehouse table dq_results" in result.stderr
    assert (project / "target" / "compiled").is_dir()


def test_clean_says_why_it_cannot(
    dqsql: Callable[..., Result], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dqsql("compile")

    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    result = dqsql("clean")
    assert result.exit_code == 2
    assert "cannot be removed: Permission denied" in result.stderr


def test_the_column_of_a_check_is_first_in_rows_that_are_cut() -> None:
    wide = json.dumps({f"c{i}": "x" * 20 for i in range(30)} | {"Größe": None}, ensure_ascii=False)
    assert row_text(wide, "größe").startswith('{"Größe":null,"c0":"xxx')
    assert json.loads(row_text(wide, "größe")) == json.loads(wide)
    assert row_text(wide, None) == wide
    assert row_text('{"a": 1, "b": 2}', "b") == '{"a": 1, "b": 2}'


def test_a_check_is_explained_by_its_expression_not_by_bounds_that_are_left_out() -> None:
    """A row count of 3 fails `row_count < 3`: "at most 3" would say that it passes."""

    def facts(detector: str, lower: float | None = None) -> dict[str, str | None]:
        row = {
            "detector": detector,
            "check_name": "few",
            "observed": 3.0,
            "observed_text": None,
            "lower_bound": lower,
            "upper_bound": 3.0,
            "score": None,
        }
        found = Explanation("id", row, {"expression": "row_count < 3"}, (), (), (), None, None)
        return {name: text for name, text in _facts(found).items() if text is not None}

    seen = {"check": "row_count < 3", "observed": "3"}
    assert facts("constraint") == {**seen, "upper": "3"}
    assert facts("constraint", 1.5) == {**seen, "lower": "1.5", "upper": "3"}
    assert facts("constraint", 3.0) == {**seen, "expected": "3"}
    assert facts("anomaly")["band"] == "at most 3"


# --- session -------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", ["", "0s", "10", "-1s", "9" * 5000 + "s"])
def test_times_that_a_session_cannot_wait(
    dqsql: Callable[..., Result], project: Path, idle: str
) -> None:
    result = dqsql("session", "start", "--idle", idle)
    assert result.exit_code == 2
    assert "--idle takes a time such as 90s, 30m or 2h" in result.output

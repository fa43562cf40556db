from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dqsql.errors import EngineError
from dqsql.model.results import Status

from .conftest import FakeRun, verdict


@pytest.mark.parametrize(
    ("status", "code"),
    [(Status.PASS, 0), (Status.WARN, 0), (Status.NO_DATA, 0), (Status.FAIL, 1), (Status.ERROR, 2)],
)
def test_exit_codes(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun, status: Status, code: int
) -> None:
    fake_run.verdicts = (verdict("x", status), verdict("y", Status.PASS))
    assert dqsql("run").exit_code == code


def test_the_options_reach_the_run(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    args = "run -s orders tag:shop -x -f --batch 2025-03-01 2025-03-02 --target local"
    more = "--event-time-start 2025-03-01 --event-time-end 2025-03-03 --exclude path:none"
    more += " --store-failures --only-new --threads 3"
    result = dqsql(*args.split(), *more.split())
    assert result.exit_code == 0
    call = fake_run.calls[0]
    del call["listener"], call["compiled"]
    assert call == {
        "spark": None,
        "project_dir": Path(),
        "select": ("orders", "tag:shop"),
        "exclude": ("path:none",),
        "batches": ("2025-03-01", "2025-03-02"),
        "target": "local",
        "profile": None,
        "profiles_dir": None,
        "vars": None,
        "full_refresh": True,
        "fail_fast": True,
        "event_time_start": "2025-03-01",
        "event_time_end": "2025-03-03",
        "store_failures": True,
        "quarantine": None,
        "selector": None,
        "only_new": True,
        "threads": 3,
        "dbt_tests": None,
        "state": None,
    }


def test_where_the_seconds_went(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    done = dqsql("run", "--timing", "--output", "json")
    json.loads(done.stdout)
    lines = done.stderr.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("model "))
    assert lines[head].split() == ["model", "compile", "discovery", "scan", "decide"]
    assert [line.split()[0] for line in lines[head + 1 :]] == ["orders"]
    assert "start Spark" in lines[head - 3]
    assert "Where the seconds" not in dqsql("run").stderr


def test_artefacts_are_written(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.verdicts = (verdict("row_count_ge_3", Status.FAIL),)
    dqsql("run")
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    by_id = {entry["unique_id"]: entry for entry in results}
    assert by_id["orders.row_count_ge_3"]["status"] == "fail"
    assert by_id["orders.order_id.not_null"]["status"] == "skipped"
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    assert set(by_id) == set(manifest["checks"])
    assert (project / "target" / "compiled" / "orders.sql").is_file()
    assert 'failures="1"' in (project / "target" / "junit.xml").read_text()
    assert not (project / "target" / "sources.json").exists()


def test_a_run_that_cannot_begin_leaves_no_junit(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    junit = project / "target" / "junit.xml"
    dqsql("run")
    assert junit.is_file()
    assert dqsql("run", "--profile", "nowhere").exit_code == 2
    assert not junit.exists()


def test_findings_as_annotations_of_github(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.verdicts = (verdict("row_count_ge_3", Status.FAIL),)
    result = dqsql("run", "--output", "github")
    (line,) = [x for x in result.stdout.splitlines() if x.startswith("::")]
    assert line.startswith("::error file=checks/orders.sql,line=")


def test_json_output_is_one_object_and_nothing_else(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.verdicts = (verdict("row_count_ge_3", Status.FAIL),)
    result = dqsql("run", "--output", "json")
    printed = json.loads(result.stdout)
    assert (printed["status"], printed["exit_code"], result.exit_code) == ("fail", 1, 1)
    assert printed["counts"]["fail"] == 1
    assert "1 of 1 FAIL orders" in result.stderr


def test_json_output_of_an_error(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.error = EngineError("Spark is away")
    result = dqsql("run", "--output", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["errors"][0]["message"] == "Spark is away"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("--output", "json", "--threads", "x"), True),
        (("--output=json", "--threads", "x"), True),
        (("--threads", "x", "--output", "json", "--output", "text"), False),
        (("--threads", "x"), False),
    ],
)
def test_a_mistake_in_the_options_is_json_where_that_is_asked_for(
    words: tuple[str, ...], asked: bool, dqsql: Callable[..., Result], project: Path
) -> None:
    result = dqsql("run", *words)
    assert result.exit_code == 2
    assert "'x' is not a valid integer" in result.stderr
    assert bool(result.stdout) is asked
    if asked:
        printed = json.loads(result.stdout)
        assert (printed["status"], printed["exit_code"]) == ("error", 2)
        assert "'x' is not a valid integer" in printed["errors"][0]["message"]


def test_json_logs(dqsql: Callable[..., Result], project: Path, fake_run: FakeRun) -> None:
    result = dqsql("run", "--log-format", "json")
    names = [json.loads(line)["info"]["name"] for line in result.stdout.splitlines()]
    assert names[0] == "RunStarted"
    assert names[-1] == "RunFinished"
    fake_run.error = EngineError("Spark is away")
    result = dqsql("--log-format", "json", "run")
    assert json.loads(result.stdout)["info"]["name"] == "Error"
    assert result.stderr == ""


def test_quiet(dqsql: Callable[..., Result], project: Path, fake_run: FakeRun) -> None:
    assert dqsql("run", "--quiet").output == ""
    fake_run.verdicts = (verdict("x", Status.FAIL), verdict("y", Status.WARN))
    printed = dqsql("run", "-q").output
    assert "FAIL x: x is off" in printed
    assert "y is off" not in printed


def test_an_unwritable_target_stops_before_the_run(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    (project / "target").write_text("a file")
    result = dqsql("run")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert fake_run.calls == []


def test_a_broken_project_is_a_block_with_the_place(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    (project / "checks" / "broken.yml").write_text("sources: [{name: a, tables: [b]}]\n")
    result = dqsql("run")
    assert result.exit_code == 2
    assert "checks/broken.yml:" in result.stderr
    assert "Traceback" not in result.output
    assert not (project / "target").exists()


def test_outside_a_project(
    dqsql: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run", "compile", "ls", "clean"):
        result = dqsql(name)
        assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
        assert "there is no dqsql_project.yml" in result.stderr


def test_a_folder_without_a_project_shows_no_line_of_another(
    dqsql: Callable[..., Result], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    result = dqsql("compile", "--project-dir", str(tmp_path / "nowhere"))
    assert result.exit_code == 2
    assert "name:" not in result.stderr


def test_retry_does_as_the_run_was_told(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    told = {
        "target": "local",
        "profile": "starter",
        "vars": {"low": 3},
        "full_refresh": True,
        "event_time_start": "2025-03-01",
        "event_time_end": None,
        "batches": [],
        "store_failures": False,
        "select": ["orders"],
    }
    own = {"model": "orders", "failed_batches": ["2025-03-01"]}
    results = [{"status": "fail", "adapter_response": {"dqsql": own}}]
    (project / "target").mkdir()
    file = project / "target" / "run_results.json"
    file.write_text(json.dumps({"results": results, "args": told}))
    assert dqsql("retry", "--vars", "{low: 4}").exit_code == 0
    file.write_text(json.dumps({"results": results, "args": told}))
    assert dqsql("retry").exit_code == 0
    changed, same = fake_run.calls
    for call in (changed, same):
        assert call["select"] == ("name:orders",)
        assert call["batches_of"] == {"orders": ("2025-03-01",)}
        assert (call["target"], call["profile"]) == ("local", "starter")
        assert (call["full_refresh"], call["event_time_start"]) == (True, "2025-03-01")
        assert not {"event_time_end", "batches"} & call.keys()
    assert (changed["vars"], same["vars"]) == ("{low: 4}", {"low": 3})


def test_retry_comes_to_what_fail_fast_left_out(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    own = {"model": "orders", "left_out": True}
    results = [{"status": "skipped", "adapter_response": {"dqsql": own}}]
    (project / "target").mkdir()
    file = project / "target" / "run_results.json"
    file.write_text(json.dumps({"results": results, "args": {"fail_fast": True}}))
    assert dqsql("retry").exit_code == 0
    (call,) = fake_run.calls
    assert "fail_fast" not in call


@pytest.mark.parametrize(("flagged", "waiting", "code"), [(0, 2, 0), (4, 1, 1), (4, 0, 0)])
def test_retry_is_no_success_while_batches_wait(
    dqsql: Callable[..., Result],
    project: Path,
    fake_run: FakeRun,
    monkeypatch: pytest.MonkeyPatch,
    flagged: int,
    waiting: int,
    code: int,
) -> None:
    """As a run that finds nothing new; what was reviewed since is none of them."""
    asked = []

    def list_waiting(root: Path, **place: object) -> tuple[str, ...]:
        asked.append((root, place["target"]))
        return ("a batch",) * waiting

    monkeypatch.setattr("dqsql.runner.review.waiting", list_waiting)
    own = {"model": "orders", "unreviewed_batches": flagged}
    results = [{"status": "skipped", "adapter_response": {"dqsql": own}}] * 3
    (project / "target").mkdir()
    file = project / "target" / "run_results.json"
    file.write_text(json.dumps({"results": results, "args": {"target": "local"}}))
    told = dqsql("retry")
    assert (told.exit_code, fake_run.calls) == (code, [])
    assert [target for _, target in asked] == ["local"] * bool(flagged)
    assert "Nothing to retry: no check failed in the last run." in told.stdout
    assert ("1 batch waits for a review" in told.stdout) is bool(code)

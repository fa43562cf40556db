from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp, parse_one

from dqsql.errors import ConfigError, QueryError, Span
from dqsql.json_text import to_json
from dqsql.model.plan import Buffer, Check, Metric, Monitor, Plan, Query, StateColumn
from dqsql.model.project import (
    DBT_FRESHNESS,
    CheckModel,
    CheckSettings,
    MacroFile,
    ModelConfig,
    NoData,
    Project,
    Severity,
    Source,
    Target,
)
from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.report.artefacts import ensure_writable, write_atomically, write_compiled, write_json
from dqsql.report.manifest import columns_read, manifest
from dqsql.report.run_results import run_record, run_results, sources_record

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


MACRO = """{# Something else. #}
{% set a = 1 %}
{#- What
    x is. #}
{%- macro metric_x(a, b=3) -%} sum({{ a }}) {% endmacro %}
{% macro helper() %}{% endmacro %}
"""


def reject(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def sql(text: str) -> exp.Expression:
    return parse_one(text, dialect="spark")


@pytest.fixture
def plan() -> Plan:
    model = CheckModel(
        name="flights",
        path="checks/flights.sql",
        raw_sql="",
        sql="",
        config=ModelConfig(batch_by="day", extra={"avh": {"fpr": 0.01}}),
        projections=(),
        annotations=(),
        line_map=(),
        depends_on=("source.nyc.flights",),
    )
    states = (
        StateColumn("delay__sum", sql("sum(dep_delay)"), sql("sum(delay__sum)"), Buffer.FIXED),
        StateColumn("n", sql("count(`a b`.c)"), sql("sum(n)"), Buffer.FIXED),
    )
    metric = Metric("m0", "mean", "dep_delay", "", "mean(dep_delay)", sql("x"), ("delay__sum", "n"))
    check = Check(
        id="flights.dep_delay.mean_between_5_and_60",
        alias="c0",
        name="mean between 5 and 60",
        model="flights",
        column="dep_delay",
        expression="mean between 5 and 60",
        predicate=sql("m0 between 5 and 60"),
        metrics=("m0",),
        bounds=None,
        severity=Severity.ERROR,
        no_data=NoData.WARN,
        settings=CheckSettings(),
        span=Span("checks/flights.sql", 7, 30),
        tags=("ops",),
    )
    monitor = Monitor(
        id="flights.novelty",
        name="novelty",
        kind="novelty",
        model="flights",
        column=None,
        expression="novelty",
        arguments={},
        severity=Severity.WARN,
        settings=CheckSettings(),
        span=Span("checks/flights.sql", 9, 4),
    )
    return Plan(model, states, (metric,), (check,), (monitor,))


def dqsql_part(entry: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = entry["adapter_response"]["dqsql"]
    return part


def test_an_annotation_that_is_wrong_is_an_error_of_its_own(
    plan: Plan, make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    """Also where nothing is new, so that no check has a verdict."""
    (good,) = plan.checks
    wrong = QueryError("unknown check 'nope'", span=Span("checks/flights.sql", 3, 4))
    bad = replace(good, id="flights.nope", name="nope", span=wrong.span or good.span)
    broken = replace(plan, refused=((bad, wrong),), rejected=(wrong,))
    run = make_run(make_model(error=wrong, skipped="nothing new"))
    found = {e["unique_id"]: e for e in run_results(run, [broken])["results"]}
    assert {name: e["status"] for name, e in found.items()} == {
        good.id: "skipped",
        "flights.novelty": "skipped",
        "flights.nope": "error",
    }
    assert found["flights.nope"]["message"] == str(wrong)
    assert dqsql_part(found["flights.nope"])["line"] == 3
    # What stops the model is an error of all of its checks.
    stopped = make_run(make_model(error=QueryError("no such table")))
    entries = run_results(stopped, [broken])["results"]
    assert [e["status"] for e in entries] == ["error"] * 2


def test_one_entry_per_check_over_all_batches(
    plan: Plan,
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    results = [make_result(f"day {i:03}", Status.PASS) for i in range(10)]
    results += [make_result(f"day {i:03}", Status.FAIL, observed=99.0 + i) for i in range(10, 160)]
    content = run_results(make_run(make_model(*results)), [plan])
    check, monitor = content["results"]
    assert (check["unique_id"], check["status"], check["failures"]) == (
        plan.checks[0].id,
        "fail",
        150,
    )
    assert check["message"].endswith("worst day 159 (observed 258, expected 5 to 60)")
    assert check["execution_time"] == pytest.approx(6.1)
    part = dqsql_part(check)
    assert (part["batches"], part["verdicts"], part["line"]) == (160, 160, 7)
    assert part["findings"][0]["batch"] == "day 159"
    assert (len(part["findings"]), part["findings_left_out"]) == (100, 50)
    # Nothing was judged by the monitor in this run.
    assert (monitor["status"], monitor["message"]) == ("skipped", "no new batches")


def test_it_is_json_whatever_the_metrics_were(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    odd = make_result(
        status=Status.FAIL, observed=float("nan"), lower=-float("inf"), score=float("inf")
    )
    run = make_run(make_model(odd), arguments={"vars": {"x": float("nan")}})
    for content in (run_results(run), run_record(run)):
        parsed = json.loads(to_json(content), parse_constant=reject)
        finding = dqsql_part(parsed["results"][0])["findings"][0]
        assert (finding["observed"], finding["lower_bound"]) == (None, "-Infinity")


def test_only_the_keys_of_dbts_schema(
    plan: Plan,
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    """dbt's run-results v6 allows no additional keys and knows these statuses."""
    results = [make_result(status=s, check_id=s.value) for s in Status]
    content = run_results(make_run(make_model(*results)), [plan])
    assert set(content) == {"metadata", "results", "elapsed_time", "args"}
    assert set(content["metadata"]) == {
        "dbt_schema_version",
        "generated_at",
        "invocation_id",
        "env",
    }
    for entry in content["results"]:
        assert set(entry) == {
            "unique_id",
            "status",
            "message",
            "failures",
            "execution_time",
            "timing",
            "thread_id",
            "adapter_response",
            "compiled",
            "compiled_code",
            "relation_name",
            "batch_results",
        }
        assert entry["status"] in {"pass", "warn", "fail", "error", "skipped"}
    no_data = next(e for e in content["results"] if e["unique_id"] == "no_data")
    assert (no_data["status"], dqsql_part(no_data)["status"]) == ("warn", "no_data")


def test_a_model_that_could_not_be_checked(
    plan: Plan, make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    run = make_run(make_model(error=QueryError("no such function")))
    entries = run_results(run, [plan])["results"]
    assert [e["status"] for e in entries] == ["error", "error"]
    assert entries[0]["message"] == "no such function"
    (alone,) = run_results(run)["results"]
    assert (alone["unique_id"], alone["status"]) == ("model.flights", "error")
    assert run_record(run)["exit_code"] == 2


def test_an_empty_run(make_run: Callable[..., RunResult]) -> None:
    assert run_results(make_run())["results"] == []
    assert run_record(make_run())["status"] == "pass"


@pytest.mark.parametrize(
    ("hours", "loaded"),
    [
        (2.5, "2025-03-01T09:30:00.000000Z"),
        # A column of the calendar's last second in another time zone, or one of zero dates.
        (-24 * 366 * 9_000.0, "9999-12-31T23:59:59.999999Z"),
        (24 * 366 * 2_030.0, "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_sources_whose_age_no_calendar_holds(
    plan: Plan,
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
    hours: float,
    loaded: str,
) -> None:
    settings = CheckSettings(options={DBT_FRESHNESS: "error_after"})
    checked = replace(plan, checks=(replace(plan.checks[0], settings=settings),))
    run = make_run(make_model(make_result(observed=hours)))
    (entry,) = sources_record(run, [checked])["results"]
    assert entry["max_loaded_at"] == loaded
    assert entry["max_loaded_at_time_ago_in_s"] == hours * 3_600


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (Status.NO_DATA, "warn"),
        (Status.FAIL, "error"),
        (Status.WARN, "warn"),
        (Status.PASS, "pass"),
    ],
)
def test_the_status_of_a_source_is_that_of_its_check(
    plan: Plan,
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
    status: Status,
    told: str,
) -> None:
    """An empty table with `warn_after` alone is a warning to dbt, too."""
    settings = CheckSettings(options={DBT_FRESHNESS: "warn_after"})
    checked = replace(plan, checks=(replace(plan.checks[0], settings=settings),))
    run = make_run(make_model(make_result(status=status, observed=None)))
    (entry,) = sources_record(run, [checked])["results"]
    assert entry["status"] == told


def test_manifest_lists_columns_and_lineage(plan: Plan, tmp_path: Path) -> None:
    source = Source("nyc", "flights", "`nyc`.`flights`", Span("checks/sources.yml"))
    project = Project(
        name="nyc",
        root=tmp_path,
        target=Target("local", "nyc"),
        models=(plan.model,),
        sources=(source,),
        macros=(MacroFile("macros/metric_x.sql", MACRO), MacroFile("/usr/lib/dqsql/y.sql", "")),
    )
    content = manifest(project, [plan], generated_at=START, dqsql_version="0.1.0")
    json.loads(to_json(content), parse_constant=reject)
    check = content["checks"]["flights.dep_delay.mean_between_5_and_60"]
    assert check["columns"] == ["a b", "dep_delay"]
    assert check["metrics"] == ["mean(dep_delay)"]
    assert content["checks"]["flights.novelty"]["resource_type"] == "monitor"
    assert content["models"]["model.flights"]["config"]["avh"] == {"fpr": 0.01}
    assert list(content["macros"]) == ["macro.helper", "macro.metric_x"]
    assert content["macros"]["macro.helper"]["annotation"] is None
    macro = content["macros"]["macro.metric_x"]
    assert (macro["annotation"], macro["signature"]) == ("@x", "a, b=3")
    assert [a["name"] for a in macro["arguments"]] == ["a", "b"]
    assert macro["description"] == "What x is."
    assert content["parent_map"]["model.flights"] == ["source.nyc.flights"]
    assert content["child_map"]["source.nyc.flights"] == ["model.flights"]
    assert content["child_map"]["model.flights"] == [check["unique_id"], "flights.novelty"]
    assert columns_read(plan) == ("a b", "dep_delay")
    # What tools made for dbt read.
    schema = "https://schemas.getdbt.com/dbt/manifest/v12.json"
    assert content["metadata"]["dbt_schema_version"] == schema
    model, test = content["nodes"]["model.flights"], content["nodes"][check["unique_id"]]
    assert (model["resource_type"], model["depends_on"]) == (
        "model",
        {"nodes": ["source.nyc.flights"]},
    )
    assert (test["resource_type"], test["attached_node"]) == ("test", "model.flights")
    assert test["config"]["severity"] == check["severity"].upper()
    assert content["sources"]["source.nyc.flights"]["identifier"] == "flights"
    assert macro["macro_sql"].startswith("{%") and macro["macro_sql"].endswith("%}")


def test_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "x.json"
    write_json(path, {"a": 1})

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(ConfigError, match="No space left"):
            write_atomically(path, "half")
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_artefacts_are_readable_by_others(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_atomically(tmp_path / "x", "")
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_ensure_writable(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "a" / "target")
    assert (tmp_path / "a" / "target" / "CACHEDIR.TAG").is_file()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").touch()
    ensure_writable(tmp_path / "b")
    assert not (tmp_path / "b" / "CACHEDIR.TAG").exists()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_an_unwritable_target_is_one_clear_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        ensure_writable(tmp_path / name)
    assert caught.value.hint is not None


def test_a_folder_where_an_artefact_should_be(tmp_path: Path) -> None:
    (tmp_path / "run_results.json").mkdir()
    with pytest.raises(ConfigError, match=r"run_results\.json|Is a directory"):
        ensure_writable(tmp_path)


def test_compiled_statements(tmp_path: Path) -> None:
    queries = {
        "flights": (Query("scan\nof it", "select 1;", 1, ("a", "b")), Query("m", "select 2", 0)),
        "../up": (Query("x", "select 3", 0),),
    }
    written = dict(write_compiled(tmp_path, queries))
    assert written["flights"].read_text() == (
        "-- scan of it (scans: 1)\n-- columns read: a, b\nselect 1;\n\n-- m (scans: 0)\nselect 2;\n"
    )
    assert written["../up"].parent == tmp_path / "compiled"

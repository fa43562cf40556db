"""The findings of one batch as one line: root symptoms first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.monitors.grouping import grouped, symptom_of
from dqsql.report.findings import describe_batch, headline
from dqsql.report.run_results import run_results

from .test_report_console import Console

Make = Callable[..., Result]


@pytest.fixture
def bad_batch(make_result: Make) -> tuple[Result, ...]:
    def make(check: str, column: str | None, detector: str = "constraint", **more: Any) -> Result:
        given = {"check_id": f"flights.{column}.{check}", "check_name": check, "column": column}
        status = more.pop("status", Status.FAIL)
        return make_result(status=status, detector=detector, **given, **more)

    clauses = [
        {"metric": "mean", "status": "fail", "observed": 3.0},
        {"metric": "row_count", "status": "fail", "observed": 3.0},
    ]
    return (
        make("sum > 9", "fare", details={"expression": "sum > 9", "metrics": {"sum(fare)": 2.0}}),
        make("avh", "dest", "avh", message="dest is unlike", details={"clauses": clauses}),
        make("novelty", None, "novelty", message="far away", status=Status.WARN),
        make(
            "row_count > 90",
            None,
            observed=50.0,
            lower=90.0,
            upper=None,
            details={"expression": "row_count > 90", "metrics": {"row_count": 50.0}},
        ),
        make("max < 5", "fare", status=Status.PASS),
        make("boom", "fare", status=Status.ERROR),
    )


def test_a_bad_batch_is_one_finding(bad_batch: tuple[Result, ...]) -> None:
    (found,) = grouped(bad_batch)
    assert [r.check_name for r in found.roots] == ["row_count > 90"]
    assert len(found.findings) == 4
    assert {f.result.check_name: f.cause.check_name for f in found.findings if f.cause} == {
        "sum > 9": "row_count > 90",
        "avh": "row_count > 90",
        "novelty": "row_count > 90",
    }
    assert describe_batch(found) == (
        "row_count > 90: observed 50, expected at least 90; and 3 further symptoms"
    )


def test_the_console_shows_a_line_for_it(
    bad_batch: tuple[Result, ...],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    console = Console()
    model = make_model(*bad_batch, groups=grouped(bad_batch))
    console.listener.run_finished(make_run(model))
    lines = console.text.splitlines()
    assert lines[1] == "12:34:56  Batches with several findings:"
    assert lines[2].strip().startswith("FAIL flights 2025-03-01: row_count > 90: observed 50")


def test_models_upstream_come_first_and_are_named(
    make_result: Make, make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    def odd(model: str, day: str, checks: str) -> ModelResult:
        results = [
            make_result(day, Status.WARN, model=model, check_id=f"{model}{c}") for c in checks
        ]
        return make_model(*results, model=model, groups=grouped(results))

    raw, mart = odd("z_raw", "2025-01-02", "ab"), odd("mart", "2025-01-02", "cd")
    # One finding alone has no line here, and is the cause all the same.
    other, late = odd("raw", "2025-01-02", "e"), odd("late", "2025-01-03", "fg")
    upstream = {"stg": {"z_raw"}, "mart": {"z_raw", "stg", "raw"}, "late": {"z_raw"}}
    console = Console(upstream=upstream)
    console.listener.run_finished(make_run(raw, other, odd("stg", "2025-01-02", "h"), mart, late))
    lines = [line.strip() for line in console.text.splitlines()[2:5]]
    assert [line.split(":")[0] for line in lines] == [
        "WARN late 2025-01-03",
        "WARN z_raw 2025-01-02",
        "WARN mart 2025-01-02",
    ]
    assert ["may follow" in line for line in lines] == [False, False, True]
    assert lines[2].endswith("; may follow from raw, z_raw")


def test_keys_that_repeat_explain_shares_of_values(make_result: Make) -> None:
    def avh(column: str, observed: float, upper: float | None) -> Result:
        clause = {"metric": "complete_ratio", "status": "fail", "observed": observed}
        details = {"clauses": [clause | {"lower": 0.9, "upper": upper}]}
        return warned("avh", column, details=details)

    def warned(kind: str, column: str, **more: Any) -> Result:
        ids = {"check_name": kind, "detector": kind, "check_id": f"{column}.{kind}"}
        return make_result(status=Status.WARN, column=column, **ids, **more)

    def first(*results: Result) -> str:
        (found,) = grouped(results)
        return found.roots[0].check_name

    fuller, emptier = avh("method", 0.95, 0.94), avh("note", 0.5, None)
    repeated = warned("stays_unique", "order_id")
    assert symptom_of(fuller).stage > symptom_of(emptier).stage > symptom_of(repeated).stage
    assert first(fuller, emptier, repeated) == "stays_unique"


def test_many_batches_are_bounded_and_errors_come_first(
    make_result: Make, make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    results = [
        make_result(f"2025-01-{day:02d}", status, check_id=f"c{i}")
        for day in range(1, 16)
        for i in range(2)
        for status in [Status.FAIL if day == 3 else Status.WARN]
    ]
    console = Console()
    console.listener.run_finished(make_run(make_model(*results, groups=grouped(results))))
    lines = [line.strip() for line in console.text.splitlines()]
    assert lines[2].startswith("FAIL flights 2025-01-03")
    assert lines[3].startswith("WARN flights 14 batches, 2025-01-01 to 2025-01-15: ")
    # Batches with other checks each have a line of their own.
    results = [
        make_result(f"{b:02d}", Status.WARN, check_id=f"c{b}{i}") for b in range(15) for i in "ab"
    ]
    console = Console()
    console.listener.run_finished(make_run(make_model(*results, groups=grouped(results))))
    assert "... and 5 more batches" in console.text


def test_one_finding_in_a_batch_is_not_told_twice(
    make_result: Make, make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    results = [make_result(status=Status.FAIL), make_result()]
    console = Console()
    console.listener.run_finished(make_run(make_model(*results, groups=grouped(results))))
    assert "by batch" not in console.text


def test_severity_is_the_worst(make_result: Make) -> None:
    for status, wanted in ((Status.WARN, "warn"), (Status.FAIL, "error")):
        results = [make_result(status=s, check_id=s) for s in {Status.WARN, status}]
        (found,) = grouped(results)
        assert found.severity == wanted


def test_segments_that_explain_it_are_named(make_result: Make) -> None:
    def one(segment: str | None, status: Status) -> Result:
        return make_result(status=status, segment=segment)

    states = {"EWR": Status.FAIL, "JFK": Status.PASS, "LGA": Status.PASS}
    results = [one(None, Status.FAIL), *(one(s, status) for s, status in states.items())]
    (found,) = grouped(results)
    assert found.segments == ("EWR",)
    assert "(in EWR)" in describe_batch(found)
    (every,) = grouped(one(s, Status.FAIL) for s in (None, *states))
    assert (every.segments, [r.segment for r in every.roots]) == ((), [None])


def test_run_results_list_a_batch_once(
    bad_batch: tuple[Result, ...],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    run = make_run(make_model(*bad_batch, groups=grouped(bad_batch)))
    parts = [r["adapter_response"]["dqsql"] for r in run_results(run)["results"]]
    listed = [g for part in parts for g in part["batch_findings"]]
    assert len(listed) == 1
    root = "flights.None.row_count > 90@2025-03-01"
    assert listed[0]["symptoms"][0] == {"id": root, "cause": None}
    assert {s["cause"] for s in listed[0]["symptoms"][1:]} == {root}
    ids = [f["id"] for part in parts for f in part["findings"]]
    assert root in ids


def test_what_a_check_is_about(make_result: Make) -> None:
    cases = {
        "completeness >= 0.9": ("complete_ratio(x)", "completeness"),
        "mean between 1 and 2": ("mean(x)", "mean"),
        "matches '[a-z]+'": ("compliance(x rlike 'y')", "matches"),
        "> 3": ("max(x)", "max"),
    }
    for text, (metric, expected) in cases.items():
        result = make_result(details={"expression": text, "metrics": {metric: 1.0}})
        assert symptom_of(result).metric == expected
    told = make_result(detector="anomaly", details={"metric": "row_count", "expression": "x"})
    assert (symptom_of(told).metric, symptom_of(told).column) == ("row_count", None)
    about = {"metric": "mean(fare)", "series": ["fare", "mean", "", "delta"]}
    assert symptom_of(make_result(detector="anomaly", column=None, details=about)).column == "fare"


def test_two_conditions_on_rows_do_not_explain_each_other(make_result: Make) -> None:
    results = [
        make_result(status=Status.FAIL, check_id=c, column=None, check_name=f"compliance({c}) = 1")
        for c in ("a", "b")
    ]
    (found,) = grouped(results)
    assert len(found.roots) == 2


def test_what_the_check_says_already_is_not_said_again(make_result: Make) -> None:
    name = "completeness >= 0.9"
    message = f"completeness(note) is 0.5, expected {name}"
    found = make_result(status=Status.FAIL, check_name=name, column="note", message=message)
    assert headline(found, [found]) == "completeness >= 0.9 on note: completeness(note) is 0.5"


def test_the_same_check_is_named_once(make_result: Make) -> None:
    found = [
        make_result(
            check_id="m.rows",
            check_name="row_count > 9",
            column=None,
            status=Status.FAIL,
            segment=segment,
            observed=observed,
            lower=9.0,
            upper=None,
            details={"expression": "row_count > 9", "metrics": {"row_count": observed}},
        )
        for segment, observed in ((None, 8.0), ("k=a", 3.0), ("k=b", 5.0))
    ]
    passed = make_result(check_id="m.rows", status=Status.PASS, segment="k=c")
    (batch,) = grouped([*found, passed])
    assert describe_batch(batch) == (
        "row_count > 9: observed 3, expected at least 9 (in k=a; also in k=b)"
    )


def test_warnings_that_follow_are_one_line(
    make_result: Make, make_model: Callable[..., ModelResult]
) -> None:
    def one(check: str, column: str | None, detector: str, metric: str) -> Result:
        given = {"check_id": f"flights.{column}.{check}", "check_name": check, "column": column}
        clauses = [{"metric": metric, "status": "fail", "observed": 3.0}]
        details = {"clauses": clauses}
        return make_result(status=Status.WARN, detector=detector, details=details, **given)

    results = [
        one("row_count > 90", None, "constraint", "row_count"),
        *(one("avh", c, "avh", "sum") for c in "abcd"),
        one("sum > 9", "e", "constraint", "sum"),
    ]
    console = Console()
    console.listener.model_finished(1, 1, make_model(*results, groups=grouped(results)))
    assert "4 warnings follow from these: avh on a, avh on b, avh on c and 1 more" in console.text
    # A check that a person wrote is always told.
    assert "WARN sum > 9 on e" in console.text and "WARN avh" not in console.text
    few = results[:2]
    console = Console()
    console.listener.model_finished(1, 1, make_model(*few, groups=grouped(few)))
    assert "WARN avh on a" in console.text and "follow" not in console.text

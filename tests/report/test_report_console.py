from __future__ import annotations

import inspect
import io
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dqsql.errors import SourceNotFoundError, Span
from dqsql.model.project import NoData
from dqsql.model.results import FAIL_FAST, ModelResult, Result, RunResult, Status
from dqsql.monitors.grouping import grouped
from dqsql.report.console import ConsoleListener
from dqsql.report.events import JsonListener
from dqsql.report.terminal import Progress, Terminal

NOON = datetime(2025, 3, 1, 12, 34, 56, tzinfo=UTC)


class Console:
    """A listener and what it printed."""

    def __init__(self, **more: Any) -> None:
        self.stream = io.StringIO()
        out = Terminal(self.stream)
        progress = Progress(Terminal(None))
        self.listener = ConsoleListener(out, progress, clock=lambda: NOON, **more)

    @property
    def text(self) -> str:
        return self.stream.getvalue()


def test_the_lines_of_a_run(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    model = make_model(
        make_result("2013-02-08"), make_result("2013-02-09", Status.FAIL, observed=82.1)
    )
    console = Console()
    console.listener.run_started("run-1", 1, 1, "local")
    console.listener.session_starting()
    console.listener.model_started(1, 1, "flights")
    console.listener.model_step("flights", "scanning 2 batches")
    console.listener.model_finished(1, 1, model)
    console.listener.run_finished(make_run(model, warnings=("old macro",)))
    lines = console.text.splitlines()
    start = "12:34:56  1 of 1 START check model flights "
    assert lines[0] == "12:34:56  Found 1 check model, 1 check, target local"
    assert lines[1] == start.ljust(83, ".") + " [RUN]"
    assert lines[2] == (
        "12:34:56  1 of 1 FAIL flights: 2 batches, 1 check, 2 verdicts: 1 pass, 1 fail in 6.1s"
    )
    assert lines[3].strip() == (
        "FAIL mean between 5 and 60 on dep_delay: 2013-02-09: observed 82.1, expected 5 to 60"
    )
    assert lines[4] == "12:34:56  WARNING old macro"
    assert lines[6] == ("12:34:56  Checked 1 model, 2 batches, 336,776 rows with 2 scans in 7.5s.")
    assert lines[7] == "12:34:56  Completed with 1 failure"
    assert lines[8] == "12:34:56  Done. PASS=1 WARN=0 FAIL=1 NODATA=0 ERROR=0 SKIP=0 TOTAL=2"


def test_many_findings_are_bounded(
    make_result: Callable[..., Result], make_model: Callable[..., ModelResult]
) -> None:
    results = [make_result("1", Status.FAIL, check_id=f"c{i}", message="x") for i in range(47)]
    console = Console()
    console.listener.model_finished(1, 1, make_model(*results))
    assert console.text.count("on dep_delay") == 10
    assert "... and 37 more: see dq_results or `dqsql report`" in console.text


def test_nothing_new_is_said(
    make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    console = Console()
    console.listener.model_finished(1, 1, make_model())
    console.listener.run_finished(make_run(make_model()))
    assert "1 of 1 PASS flights: nothing new" in console.text
    assert "Nothing new: 1 check model looked at" in console.text


def test_nothing_to_do(make_run: Callable[..., RunResult]) -> None:
    console = Console()
    console.listener.run_finished(make_run())
    assert console.text == "12:34:56  Nothing to do.\n"


def test_a_model_that_could_not_be_checked(make_model: Callable[..., ModelResult]) -> None:
    error = SourceNotFoundError("no table nyc.flights", span=Span("checks/flights.sql", 3, 6))
    console = Console()
    console.listener.model_finished(1, 1, make_model(error=error, seconds=0.2))
    assert "1 of 1 ERROR flights: could not be checked (after 0.2s)" in console.text
    assert "checks/flights.sql:3:6: engine error: no table nyc.flights" in console.text


def test_error_is_told_apart_from_the_severity_of_that_name(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    model = make_model(make_result(), make_result("b", Status.ERROR), make_result("c", Status.FAIL))
    console = Console()
    console.listener.model_finished(1, 1, model)
    console.listener.run_finished(make_run(model))
    assert "3 verdicts: 1 pass, 1 fail, 1 could not be computed in" in console.text
    assert "Completed with 1 error (could not be computed), 1 failure" in console.text
    assert "1 could not be computed, 1 fail" in repr(make_run(model))


def test_what_had_no_data_is_counted_apart_from_warnings(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    empty = [make_result(str(i), Status.NO_DATA) for i in range(3)]
    console = Console()
    console.listener.run_finished(make_run(make_model(*empty)))
    assert "Completed with 3 verdicts without data\n" in console.text
    assert "WARN=0 FAIL=0 NODATA=3" in console.text
    console.listener.run_finished(make_run(make_model(*empty, make_result("4", Status.WARN))))
    assert "Completed with 1 warning, 3 verdicts without data\n" in console.text


def test_models_that_were_not_reached_are_counted(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    left = replace(make_model(), skipped=FAIL_FAST, batches=())
    console = Console()
    console.listener.run_finished(make_run(make_model(make_result("a", Status.FAIL)), left, left))
    assert "Completed with 1 failure, 2 models not reached\n" in console.text


def test_of_many_models_those_that_failed_are_named_at_the_end(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    def last(count: int) -> str:
        found = [make_result(status=Status.FAIL if i % 2 else Status.PASS) for i in range(count)]
        models = [make_model(r, model=f"m{i:02}") for i, r in enumerate(found)]
        console = Console()
        console.listener.run_finished(make_run(*models))
        return next(line for line in console.text.splitlines() if "Completed" in line)

    assert last(30).endswith(
        "Completed with 15 failures; failed: m01, m03, m05, m07, m09, m11, m13, m15, m17, m19"
        " and 5 more"
    )
    assert last(20).endswith("Completed with 10 failures")


def test_a_model_that_lost_its_rows_is_no_success(
    make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    lost, bare = replace(make_model(), gone=3), replace(make_model(), gone=0)
    console = Console()
    console.listener.run_finished(make_run(lost, bare))
    assert "Completed with 1 model without the rows that it had\n" in console.text
    console = Console()
    console.listener.run_finished(make_run(bare))
    assert "Completed successfully\n" in console.text
    console = Console()
    console.listener.run_finished(make_run(replace(bare, no_data=NoData.ERROR)))
    assert "Completed with 1 model without rows\n" in console.text


def test_quiet_prints_failures_and_errors_only(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    fine = make_model(make_result(), make_result(status=Status.WARN), notes=("a note",))
    bad = make_model(make_result(status=Status.FAIL), make_result(status=Status.WARN))
    console = Console(quiet=True)
    console.listener.run_started("run-1", 2, 2, "local")
    console.listener.model_started(1, 2, "flights")
    console.listener.model_finished(1, 2, fine)
    console.listener.run_finished(make_run(fine, warnings=("w",)))
    assert console.text == ""
    console.listener.model_finished(2, 2, bad)
    assert [line.split()[0] for line in console.text.splitlines()] == ["12:34:56", "FAIL"]
    console = Console(quiet=True)
    console.listener.run_finished(make_run(warnings=("no check model matches 'x'",)))
    assert console.text.endswith("WARNING no check model matches 'x'\n")


def test_batch_names_and_messages_cannot_steer_the_terminal(
    make_result: Callable[..., Result], make_model: Callable[..., ModelResult]
) -> None:
    evil = "\x1b[2J\nx"
    results = [make_result(evil, Status.FAIL, message=evil), make_result("b", Status.FAIL)]
    console = Console()
    console.listener.model_finished(1, 1, make_model(*results))
    assert "\x1b" not in console.text
    assert len(console.text.splitlines()) == 2


def test_json_lines(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    stream = io.StringIO()
    listener = JsonListener(Terminal(stream), clock=lambda: NOON)
    error = SourceNotFoundError("no table")
    model = make_model(make_result(status=Status.FAIL, observed=float("nan")), error=error)
    listener.run_started("run-1", 1, 1, "local")
    listener.inputs_found({"flights": 2_500_000})
    listener.session_starting()
    listener.model_started(1, 1, "flights")
    listener.model_step("flights", "scanning")
    listener.model_finished(1, 1, model)
    listener.run_finished(make_run(model, warnings=("w",)))
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [e["info"]["name"] for e in events] == [
        "RunStarted",
        "InputsFound",
        "SessionStarting",
        "ModelStarted",
        "ModelStep",
        "Finding",
        "Error",
        "ModelFinished",
        "Warning",
        "RunFinished",
    ]
    assert {e["info"]["invocation_id"] for e in events} == {"run-1"}
    assert events[0]["info"]["ts"] == "2025-03-01T12:34:56.000000Z"
    assert events[1]["info"]["msg"] == "2.5 MB to read"
    assert events[1]["data"] == {"bytes": {"flights": 2_500_000}}
    assert events[5]["data"]["worst"]["observed"] is None
    assert events[-1]["data"]["exit_code"] == 2


def test_quiet_json_lines(make_model: Callable[..., ModelResult]) -> None:
    stream = io.StringIO()
    listener = JsonListener(Terminal(stream), quiet=True, clock=lambda: NOON)
    listener.run_started("run-1", 1, 1, "local")
    listener.model_finished(1, 1, make_model())
    assert stream.getvalue() == ""


def test_lines_say_where_a_check_stands(
    make_result: Callable[..., Result], make_model: Callable[..., ModelResult]
) -> None:
    stream = io.StringIO()
    bad = make_result(status=Status.FAIL, observed=82.1)
    places = {bad.check_id: "checks/flights.sql:12"}
    listener = ConsoleListener(Terminal(stream), Progress(Terminal(None)), places=places)
    listener.model_finished(1, 1, make_model(bad))
    assert stream.getvalue().rstrip().endswith("expected 5 to 60 (checks/flights.sql:12)")


def test_the_same_failures_on_many_batches_are_one_line(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    days = [f"2025-01-{day:02d}" for day in range(1, 31)]
    results = [
        make_result(day, Status.FAIL, check_id=f"flights.{name}", check_name=name, message="off")
        for day in days
        for name in ("one", "two")
    ]
    warned = make_result(days[-1], Status.WARN, check_id="flights.w", check_name="row_count > 5")
    model = make_model(*results, warned, groups=grouped([*results, warned]))
    console = Console()
    console.listener.run_finished(make_run(model))
    (line,) = (x for x in console.text.splitlines() if " FAIL " in x)
    # The failure stands first, although a missing row would explain it.
    assert "FAIL flights 30 batches, 2025-01-01 to 2025-01-30: one on dep_delay: off" in line
    assert "more batch" not in console.text


def test_a_log_hears_of_a_long_step() -> None:
    assert inspect.signature(Progress).parameters["log_interval"].default <= 10
    stream = io.StringIO()
    told = threading.Event()

    class Log(Terminal):
        def line(self, text: str = "") -> None:
            super().line(text)
            told.set()

    with Progress(Log(stream), clock=lambda: 12.0, log_interval=0.01) as progress:
        progress.step("flights: scanning 9 batches")
        assert told.wait(30)
    assert stream.getvalue().splitlines()[0] == "          .. flights: scanning 9 batches, for 0.0s"


def progress_of(*models: ModelResult, sizes: dict[str, int]) -> list[str]:
    """What the progress says when each model is scanned."""
    said: list[str] = []

    class Steps(Progress):
        def step(self, text: str) -> None:
            said.append(text)

    listener = ConsoleListener(Terminal(None), Steps(Terminal(None)))
    listener.inputs_found(sizes)
    for index, model in enumerate(models, start=1):
        listener.model_started(index, len(models), model.model)
        listener.model_step(model.model, "scanning")
        listener.model_finished(index, len(models), model)
    return [text for text in said if "scanning" in text]


def test_progress_tells_batches_and_bytes() -> None:
    first = ModelResult("a", "a.sql", batches=("1", "2", "3"))
    second = ModelResult("b", "b.sql", batches=("1",))
    assert progress_of(first, second, sizes={"a": 3_000_000, "b": 1_000_000}) == [
        "a: scanning (model 1 of 2, 0%, 3 MB to read)",
        "b: scanning (model 2 of 2, 75%, 1 MB to read, 3 batches and 3 MB done)",
    ]
    # A model of unknown size: models are counted, not bytes.
    assert progress_of(first, second, sizes={"a": 3_000_000})[1] == (
        "b: scanning (model 2 of 2, 50%, 3 batches and 3 MB done)"
    )
    assert progress_of(first, sizes={"a": 1_500}) == ["a: scanning (1.5 KB to read)"]
    assert progress_of(first, sizes={}) == ["a: scanning"]

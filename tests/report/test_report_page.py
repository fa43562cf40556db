"""The data that the report's pages are drawn of; no Spark."""

from __future__ import annotations

import datetime as dt
import functools
import io
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dqsql.cli.commands.report import lines_of_model
from dqsql.decisions.lifecycle import updated_findings
from dqsql.model.results import Result, Status
from dqsql.report.html import PageServer, render
from dqsql.report.model_page import model_record
from dqsql.report.page import finding_lines, open_findings, overview_record, waiting_lines
from dqsql.report.profile import profile_table
from dqsql.report.terminal import Terminal
from dqsql.runner.report import newest as newest_batches
from tests.report.packed import unpacked
from tests.report.pages import EVIL, MADE, facts, month, page_of


def test_nothing_needs_to_be_loaded() -> None:
    text = render(page_of())
    assert "default-src 'none'" in text
    for word in ("src=", "url(", "@import", "fetch(", "XMLHttp", "innerHTML"):
        assert word not in text
    # The name of a namespace, not an address.
    assert re.findall(r"https?://[^'\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_texts_of_data_are_no_part_of_the_markup(make_result: Callable[..., Result]) -> None:
    result = make_result(EVIL, Status.FAIL, segment=EVIL, check_name=EVIL, message=EVIL)
    text = render(page_of(facts(result, name=EVIL)))
    assert "alert" not in text
    assert text.count("<script") == 3
    stored = re.findall(r'id="([\w-]+)">([^<]+)</script>', text)
    assert [name for name, _ in stored] == ["overview", "model-0"]
    overview, model = (unpacked(content) for _, content in stored)
    assert overview["models"][0]["name"] == EVIL
    assert model["batches"] == [EVIL]


def test_a_check_that_fails_for_a_month_is_one_finding(make_result: Callable[..., Result]) -> None:
    results = [make_result(f"2025-01-{d:02d}", Status.FAIL, observed=99.0) for d in range(1, 31)]
    (finding,) = overview_record(page_of(facts(*results)))["findings"]
    assert len(finding["batches"]) == 30
    assert (finding["batches"][0], finding["batches"][-1]) == ("2025-01-01", "2025-01-30")
    assert (finding["state"], finding["status"]) == ("open", "fail")


def test_verdicts_are_letters_and_equal_bounds_are_told_once(
    make_result: Callable[..., Result],
) -> None:
    record = model_record(facts(*month(make_result, 802.287)))
    (check,) = record["checks"]
    assert check["strip"] == "p" * 29 + "f"
    (series,) = check["series"]
    assert (series["lower"], series["upper"]) == (60.0, 100.0)
    assert (series["values"][-1], series["bad"]) == (802.287, "0" * 29 + "1")


def test_batches_that_wait_for_a_review_are_told_with_what_failed(
    make_result: Callable[..., Result],
) -> None:
    other = {"check_id": "flights.x", "check_name": "not_null", "column": "x", "message": "x"}
    results = [
        make_result("1", Status.FAIL, observed=99.0),
        make_result("2", Status.FAIL, observed=98.0),
        make_result("2", Status.WARN, **other),
        make_result("3", Status.FAIL, observed=97.0),
        make_result("3", Status.FAIL, segment="EWR", **other),
        make_result("3", Status.FAIL, segment="LGA", **other),
        make_result("4", Status.FAIL, **other),
    ]
    made = facts(*results, statuses={"1": "flagged", "2": "flagged", "3": "flagged"})
    seen = "mean between 5 and 60 on dep_delay: observed {}, expected 5 to 60"
    first, second = waiting_lines(made)
    assert (first["model"], first["batches"]) == ("flights", ["1", "2"])
    assert [text for _, text in first["failed"]] == [seen.format(98)]
    assert second["batches"] == ["3"]
    assert [text for _, text in second["failed"]] == [
        seen.format(97),
        "not_null on x: x (in EWR; also in LGA)",
    ]
    overview = overview_record(page_of(made))
    assert overview["waiting"] == [first, second]
    assert overview["models"][0]["ledger"] == "fff."


def test_many_checks_and_many_segments_are_told_in_short(
    make_result: Callable[..., Result],
) -> None:
    nulls = {"check_id": "flights.nulls", "check_name": "completeness > 0.9"}
    nulls |= {"message": "completeness(dep_delay) is 0.2, expected completeness > 0.9"}
    checks = [make_result("1", Status.FAIL, observed=99.0), make_result("1", Status.FAIL, **nulls)]
    (waiting,) = waiting_lines(facts(*checks, statuses={"1": "flagged"}))
    # What explains the other comes first.
    assert [check for check, _ in waiting["failed"]] == ["flights.nulls", checks[0].check_id]
    segments = [make_result("1", Status.FAIL, segment=f"shop={i}") for i in range(9)]
    found = facts(*segments, findings=updated_findings([], segments, MADE))
    (line,) = finding_lines(found)
    assert line["message"].endswith(
        "(in shop=0; also in shop=1, shop=2, shop=3 and 5 more segments)"
    )
    (check,) = model_record(found)["checks"]
    # Where all rows have no verdict, their place is a segment's.
    assert (len(check["series"]), check["undrawn"]) == (6, 3)


def test_findings_that_nobody_resolved_are_there_however_old(
    make_result: Callable[..., Result],
) -> None:
    """Their check may have no verdict on any batch of the report."""
    old = make_result("2024-01-01", Status.FAIL, check_id="flights.gone", observed=99.0)
    known = updated_findings([], [old], MADE)
    made = facts(make_result("2025-01-01"), findings=known)
    (line,) = finding_lines(made)
    assert (line["batches"], line["state"], line["spark"]) == (["2024-01-01"], "open", None)
    assert open_findings(page_of(made)) == 1
    check = next(c for c in model_record(made)["checks"] if c["id"] == "flights.gone")
    assert (check["strip"], check["series"], check["messages"]) == (".", [], [])
    assert check["label"] == "mean between 5 and 60 on dep_delay"
    assert line["state_text"] == "open"
    until = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
    muted = [{**row, "state": "muted", "muted_until": until} for row in known or ()]
    (line,) = finding_lines(facts(make_result("2025-01-01"), findings=muted))
    assert (line["state"], line["state_text"]) == ("muted", "muted until 2999-01-01")
    resolved = [{**row, "state": "resolved"} for row in known or ()]
    assert finding_lines(facts(make_result("2025-01-01"), findings=resolved)) == []
    assert open_findings(page_of(facts(make_result("2025-01-01"), findings=resolved))) == 0


def test_a_finding_says_what_it_follows_from_and_shows_what_it_saw(
    make_result: Callable[..., Result],
) -> None:
    nulls = {"check_id": "flights.nulls", "check_name": "completeness > 0.9"}
    nulls |= {"message": "completeness(dep_delay) is 0.2, expected completeness > 0.9"}
    before = [make_result(f"2025-01-{d:02d}", observed=20.0 + d) for d in range(1, 9)]
    results = [
        *before,
        make_result("2025-01-09", Status.FAIL, observed=99.0),
        make_result("2025-01-09", Status.FAIL, **nulls),
    ]
    lines = {f["check"]: f for f in finding_lines(facts(*results))}
    mean = lines["flights.dep_delay.mean_between_5_and_60"]
    assert mean["cause"] == ["flights.nulls", "completeness > 0.9 on dep_delay"]
    assert mean["spark"]["values"] == [*(20.0 + d for d in range(1, 9)), 99.0]
    assert mean["spark"]["bad"] == "0" * 8 + "1"
    assert lines["flights.nulls"]["cause"] is None
    # The label says already what was expected.
    assert lines["flights.nulls"]["message"] == "completeness(dep_delay) is 0.2"


def test_messages_of_segments_are_in_the_order_of_batches(
    make_result: Callable[..., Result],
) -> None:
    results = [
        make_result(f"2025-01-{d:02d}", Status.FAIL, segment=s)
        for s in ("EWR", "LGA")
        for d in range(1, 21)
    ]
    (check,) = model_record(facts(*results))["checks"]
    told = [batch for batch, *_ in check["messages"]]
    assert told == sorted(told, reverse=True)
    assert {segment for _, segment, *_ in check["messages"]} == {"EWR", "LGA"}


def test_what_a_monitor_learned_from_is_told(make_result: Callable[..., Result]) -> None:
    history = ["2025-01-01", "2025-01-30", 28]
    learned = make_result(
        "2025-01-31", Status.WARN, detector="anomaly", details={"history": history}
    )
    (check,) = model_record(facts(learned))["checks"]
    assert check["messages"][0][-1] == "28 batches, 2025-01-01 to 2025-01-30"


def test_the_line_of_a_check_is_one_of_the_models_file(make_result: Callable[..., Result]) -> None:
    row = {"check_id": make_result().check_id, "file": "checks/flights.sql", "line": 8}
    text = "-- a\n\nselect 1 -- @x\n\n"
    made = facts(make_result(), checks=[row], sql=text, file="checks/flights.sql")
    record = model_record(made)
    assert record["sql"] == {"file": "checks/flights.sql", "text": text.rstrip()}
    assert (record["checks"][0]["place"], record["checks"][0]["line"]) == (
        "checks/flights.sql:8",
        8,
    )
    elsewhere = facts(make_result(), checks=[row], sql=text, file="checks/other.sql")
    assert model_record(elsewhere)["checks"][0]["line"] is None


def test_series_of_a_program_are_whole(make_result: Callable[..., Result]) -> None:
    """Where the program had no bound on a metric, its stored value is shown without a band."""
    key = ("fare", "mean", "", "delta")
    clause = {"metric": "mean", "series": list(key), "status": "pass", "observed": 5.0}
    clause |= {"lower": 4.0, "upper": 6.0}
    results = [
        make_result("1", detector="avh", details={}),
        make_result("2", detector="avh", details={"clauses": [clause]}),
    ]
    (check,) = model_record(facts(*results, values={key: {"1": 4.5, "2": 5.0}}))["checks"]
    (series,) = check["series"]
    assert series["title"] == "mean on fare"
    assert series["values"] == [4.5, 5.0]
    assert (series["lower"], series["upper"]) == ([None, 4.0], [None, 6.0])


def test_series_of_a_program_have_names_that_tell_them_apart(
    make_result: Callable[..., Result],
) -> None:
    names = {"p25": ("fare", "quantile"), "p75": ("fare", "quantile"), "row_count": ("", "rows")}
    clauses = [
        {"metric": name, "status": "pass", "observed": 5.0, "lower": 4.0, "upper": None}
        | {"series": [column, metric, name, "delta"]}
        for name, (column, metric) in names.items()
    ]
    made = make_result("1", detector="avh", column="fare", details={"clauses": clauses})
    ((series),) = (c["series"] for c in model_record(facts(made))["checks"])
    assert [s["title"] for s in series] == [
        "lower quartile (p25) on fare",
        "upper quartile (p75) on fare",
        "number of rows (row_count)",
    ]


def test_what_is_skipped_does_not_hide_what_passed(make_result: Callable[..., Result]) -> None:
    results = [
        make_result("1"),
        make_result("1", Status.SKIPPED, check_id="flights.avh", detector="avh"),
        make_result("2", Status.SKIPPED, check_id="flights.avh", detector="avh"),
    ]
    made = facts(*results)
    made.batches.append({"batch": "3", "status": "accepted", "rows": 1})  # type: ignore[attr-defined]
    (model,) = overview_record(page_of(made))["models"]
    assert model["strip"] == "ps."


def test_numbers_that_cannot_be_drawn(make_result: Callable[..., Result]) -> None:
    seen = [float("nan"), float("inf"), 1.7e308, 1.0]
    results = [make_result(str(i), observed=v, lower=-1.7e308) for i, v in enumerate(seen)]
    ((series,),) = (c["series"] for c in model_record(facts(*results))["checks"])
    assert series["values"] == [None, None, 1e300, 1.0]
    assert series["lower"] == -1e300


def test_profiles(make_result: Callable[..., Result]) -> None:
    column: dict[str, Any] = dict.fromkeys(
        ("distinct", "detected_type", "summary", "lengths", "earliest", "latest", "distribution")
    )
    column |= {"name": "n", "spark_type": "string", "completeness": 0.5, "histogram": [0.5, 0.5]}
    record = {"relation": "r", "rows": 10, "passes": 3, "columns": [column]}
    table = profile_table(record | {"made_at": "2025-03-01T10:20:30+00:00"})
    mine = model_record(facts(make_result("1"), profile=table))["profile"]
    (other,) = overview_record(page_of(profiles=[table]))["profiles"]
    assert mine == other
    assert (mine["size"], mine["made"]) == ("10 rows, 1 column, read 3 times", "2025-03-01 10:20")
    assert mine["columns"][0][-1] == [0.5, 0.5]


def test_failing_rows_are_those_of_a_findings_own_batches(
    make_result: Callable[..., Result],
) -> None:
    first, between, last = (
        make_result(f"2025-01-0{d}", s)
        for d, s in ((1, Status.FAIL), (2, Status.PASS), (3, Status.FAIL))
    )
    made = facts(first, between, last)
    check_id = first.check_id
    rows = [
        {"check_id": check_id, "batch": f"2025-01-0{day}", "row": f'{{"x": {day}{i}}}'}
        for day in (1, 3)
        for i in range(12)
    ]
    shown = model_record(replace(made, failures=rows))["failures"]
    batches = {f["finding_id"]: f["batches"] for f in made.findings}
    assert {
        tuple(batches[f]): (b, found[0], len(found), n) for f, (b, found, n) in shown.items()
    } == {
        ("2025-01-01",): ("2025-01-01", '{"x": 10}', 10, 12),
        ("2025-01-03",): ("2025-01-03", '{"x": 30}', 10, 12),
    }


def test_a_removed_check_is_history(make_result: Callable[..., Result]) -> None:
    """Its finding has a page; it is no check of now, nor is a misspelt one that was mended."""
    kept, removed, misspelt = (
        [make_result(b, s, check_id=f"m.{name}") for b in batches]
        for name, s, batches in (
            ("kept", Status.PASS, ("1", "2")),
            ("removed", Status.FAIL, ("1", "2")),
            ("misspelt", Status.ERROR, ("1",)),
        )
    )
    dimensions = [{"check_id": "m.kept", "file": "m.sql", "line": 1}]
    made = facts(*kept, *removed, *misspelt, checks=dimensions, removed={"m.removed"})
    gone = {c["id"]: c["gone"] for c in model_record(made)["checks"]}
    assert gone == {"m.kept": False, "m.removed": True, "m.misspelt": True}
    assert overview_record(page_of(made))["models"][0]["checks"] == 1
    text = "\n".join(lines_of_model(made, Terminal(io.StringIO(), color=False)))
    assert "▁▁" in text and "█" not in text
    # It is not known to have been removed: the run may have failed to store its row.
    assert not facts(*removed, checks=dimensions).gone_checks


_COST = dict.fromkeys(
    (
        *("seconds", "scans", "rows", "bytes"),
        *(f"{p}_seconds" for p in ("compile", "discovery", "scan", "decide")),
    )
)


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ([(None, 3)], None),
        ([("old", 0), (None, 3)], None),
        ([(None, 3), ("first", 0), ("second", 0)], ("second", "2025-03-02 00:00", True)),
        ([("in part", 2)], ("in part", "2025-03-01 00:00", False)),
    ],
)
def test_a_model_that_could_not_be_checked(costs: list[Any], told: Any) -> None:
    made = facts(
        costs=[
            {"error": e, "batches": n, "started_at": MADE + dt.timedelta(days=i), **_COST}
            for i, (e, n) in enumerate(costs)
        ]
    )
    error = overview_record(page_of(made))["models"][0]["error"]
    assert told == (None if error is None else (error["text"], error["since"], error["whole"]))
    lines = list(lines_of_model(made, Terminal(io.StringIO(), color=False)))
    assert ("could not be checked" in "".join(lines)) is (told is not None)


def test_the_newest_batches() -> None:
    newest = functools.partial(newest_batches, now=dt.datetime(2025, 3, 1, tzinfo=dt.UTC))
    days = [{"batch": f"2025-01-{day:02d}"} for day in range(1, 32)]
    assert [r["batch"] for r in newest(days[::-1], 2)] == ["2025-01-30", "2025-01-31"]
    # One of a time to come is shown, and does not push the others out.
    stray = [*days, {"batch": "2099-01-01"}]
    assert [r["batch"] for r in newest(stray, 2)] == ["2025-01-30", "2025-01-31", "2099-01-01"]
    assert newest([{"batch": "2099-01-01"}], 2) == [{"batch": "2099-01-01"}]
    hours = [{"batch": f"2025-01-01 {hour:02d}:00:00"} for hour in range(24)]
    assert len(newest(hours, 1)) == 24
    numbers = [{"batch": str(n)} for n in range(20)]
    assert [r["batch"] for r in newest(numbers, 3)] == ["17", "18", "19"]
    assert len(newest([{"batch": str(n)} for n in range(1000)], 1000)) == 400


def test_one_model_as_text(make_result: Callable[..., Result]) -> None:
    stream = io.StringIO()
    lines = list(lines_of_model(facts(*month(make_result, 802.287)), Terminal(stream)))
    extent = "30 batches, 2025-01-01 to 2025-01-30; numbers are of the newest"
    assert lines[:3] == ["flights", extent, "▁ pass, █ fail"]
    assert "FAIL mean between 5 and 60 on dep_delay: since 2025-01-30, 1 batch" in lines
    strip, value = lines[-1].split()[-9:-7]
    assert (strip, value) == ("▁" * 29 + "█", "802.287")
    assert lines[-1].endswith(" mean between 5 and 60 on dep_delay")


def test_a_model_as_text_says_what_its_strips_and_numbers_are(
    make_result: Callable[..., Result],
) -> None:
    days = [f"2025-01-{d:02d}" for d in range(1, 32)] + [f"2025-02-{d:02d}" for d in range(1, 21)]
    shares = {"metrics": {"compliance(dep_delay > 0)": 1.0}}
    means = {"metrics": {"mean(dep_delay)": 20.0}}
    results = [
        make_result(day, Status.FAIL if day == days[-1] else Status.PASS, details=means)
        for day in days
    ]
    results += [make_result(day, check_id="z", check_name="z", details=shares) for day in days]
    made = facts(*results, statuses={days[-1]: "flagged"})
    lines = list(lines_of_model(made, Terminal(io.StringIO())))
    assert lines[1] == (
        "51 batches, 2025-01-01 to 2025-02-20; strips show the newest 40, numbers are of the newest"
    )
    broken = make_result(days[-1], Status.ERROR, check_id="y", check_name="y", observed=None)
    empty = make_result(days[-1], Status.NO_DATA, check_id="x", check_name="x", observed=None)
    many = lines_of_model(facts(*results, broken, empty), Terminal(io.StringIO()))
    assert list(many)[2] == "▁ pass, █ fail or could not be computed, ▃ no data"
    assert "1 batch waits for a review" in lines
    assert "  2025-02-20: dqsql review list --select flights" in lines
    assert lines[-2].endswith("▁█ 20        mean(dep_delay)")
    assert lines[-1].endswith("▁▁ 20        share of rows that pass")


def test_the_report_is_served_on_this_machine_only() -> None:
    with PageServer("<p>ä</p>") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"
            with urllib.request.urlopen(server.url, timeout=30) as answer:
                assert answer.read().decode() == "<p>ä</p>"
            foreign = urllib.request.Request(server.url, headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(foreign, timeout=30)
            refused.value.close()
        finally:
            server.shutdown()
            thread.join()

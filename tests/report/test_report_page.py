"""The report: the data that its pages are drawn of, and what a browser draws; no Spark."""

from __future__ import annotations

import datetime as dt
import html
import io
import itertools
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dqsql.cli.commands.report import lines_of_model
from dqsql.decisions.lifecycle import updated_findings
from dqsql.model.results import Result, Status
from dqsql.monitors.grouping import grouped
from dqsql.report.html import PageServer, render
from dqsql.report.page import ModelFacts, Page, model_record, overview_record
from dqsql.report.profile import ProfileTable, profile_table
from dqsql.report.terminal import Terminal
from dqsql.runner.report import newest
from tests.report.packed import unpacked

MADE = dt.datetime(2025, 3, 1, tzinfo=dt.UTC)
EVIL = "<script>alert('x')</script>\"><img src=x onerror=console.error(1)>"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


def page_of(*facts: ModelFacts, profiles: Sequence[ProfileTable] = ()) -> Page:
    period = "the newest 90 days of each model"
    return Page("nyc", "local", MADE, "0.1.0", period, facts, tuple(profiles))


def facts(*results: Result, statuses: dict[str, str] | None = None, **more: Any) -> ModelFacts:
    batches = sorted({r.batch for r in results if r.batch})
    given: dict[str, Any] = {
        "name": "flights",
        "batches": [
            {"batch": b, "status": (statuses or {}).get(b, "accepted"), "rows": 1000}
            for b in batches
        ],
        "results": results,
        "groups": grouped(results),
        "values": {},
        "programs": [],
        "reviews": {},
        "dimension": {},
        "findings": updated_findings([], results, MADE) or (),
    }
    return ModelFacts(**{**given, **more})


def month(make_result: Callable[..., Result], odd: float, **more: Any) -> list[Result]:
    """Thirty days of means from 60 to 100, of which the last is odd."""
    return [
        make_result(
            f"2025-01-{day:02d}",
            Status.FAIL if day == 30 else Status.PASS,
            observed=odd if day == 30 else 70.0 + day % 7,
            lower=60.0,
            upper=100.0,
            **more,
        )
        for day in range(1, 31)
    ]


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


def test_the_newest_batches() -> None:
    days = [{"batch": f"2025-01-{day:02d}"} for day in range(1, 32)]
    assert [r["batch"] for r in newest(days[::-1], 2)] == ["2025-01-30", "2025-01-31"]
    hours = [{"batch": f"2025-01-01 {hour:02d}:00:00"} for hour in range(24)]
    assert len(newest(hours, 1)) == 24
    numbers = [{"batch": str(n)} for n in range(20)]
    assert [r["batch"] for r in newest(numbers, 3)] == ["17", "18", "19"]
    assert len(newest([{"batch": str(n)} for n in range(1000)], 1000)) == 400


def test_one_model_as_text(make_result: Callable[..., Result]) -> None:
    stream = io.StringIO()
    lines = list(lines_of_model(facts(*month(make_result, 802.287)), Terminal(stream)))
    assert lines[:2] == ["flights", "30 batches, 2025-01-01 to 2025-01-30"]
    assert "FAIL mean between 5 and 60 on dep_delay: since 2025-01-30, 1 batch" in lines
    assert lines[-1].split()[-2:] == ["▁" * 29 + "█", "802.287"]


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


# --- in a browser ------------------------------------------------------------------------------


def drawn(folder: Path, page: Page, place: str = "#/", width: int = 1280) -> str:
    """The document that a browser makes of a report; it must not complain."""
    file = folder / "report.html"
    # Charts are drawn when they come into sight, which a browser without a screen may never tell;
    # before printing all of them are.
    # How far the page is wider than the window is told, on a phone (some browsers' windows
    # have at least 500 pixels).
    draw = """<script>
        setTimeout(() => dispatchEvent(new Event('beforeprint')), 1000);
        setTimeout(() => {
            const page = document.documentElement;
            page.setAttribute('data-beyond', page.scrollWidth - page.clientWidth);
        }, 2000)
    </script>"""
    file.write_text(render(page) + draw, encoding="utf-8")
    options = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--window-size={width},6000", f"--user-data-dir={folder / 'browser'}"),
        *("--virtual-time-budget=5000", "--dump-dom"),
    )
    done = subprocess.run(
        [str(BROWSER), *options, f"{file.as_uri()}{place}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", path)]


def check_that_anomalies_lie_outside(document: str, count: int) -> None:
    """No red dot lies on the band at its place, in the coordinates of the picture."""
    found = 0
    for picture in re.findall(r"<svg[^>]*>.*?</svg>", document, re.DOTALL):
        bands = [points(d) for d in re.findall(r'class="band" d="([^"]+)"', picture)]
        for x, y in re.findall(r'class="odd" cx="([\d.]+)" cy="([\d.]+)"', picture):
            found += 1
            edges = [py for band in bands for px, py in band if px == float(x)]
            assert edges, "the band is drawn where the anomaly is"
            assert not min(edges) <= float(y) <= max(edges)
            assert 0 <= float(y) <= 168
    assert found == count


@needs_browser
@pytest.mark.parametrize(
    ("odd", "broken"), [(802.287, True), (-5e9, True), (101.0, False), (58.0, False)]
)
def test_an_anomaly_is_drawn_outside_of_its_band(
    make_result: Callable[..., Result], tmp_path: Path, odd: float, broken: bool
) -> None:
    made = facts(*month(make_result, odd))
    document = drawn(tmp_path, page_of(made), "#/model/flights")
    check_that_anomalies_lie_outside(document, 1)
    assert ('data-break="y"' in document) == broken


@needs_browser
def test_an_axis_is_whole_where_nothing_was_as_it_should_be(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    bounds = {"observed": 2 / 3, "lower": 1.0, "upper": 1.0}
    made = facts(*(make_result(str(i), Status.FAIL, **bounds) for i in range(3)))
    document = drawn(tmp_path, page_of(made), "#/model/flights")
    check_that_anomalies_lie_outside(document, 3)
    assert "data-break" not in document.partition("<script")[0]


@needs_browser
def test_texts_of_data_stay_texts_in_the_browser(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    results = [
        make_result(f"{EVIL}{i}", Status.FAIL, segment=EVIL, check_name=EVIL, message=EVIL)
        for i in range(2)
    ]
    made = facts(*results, name=EVIL, sql=EVIL, dimension={"owner": EVIL, "tags": [EVIL]})
    (finding,) = made.findings
    for place in (
        "#/",
        f"#/model/{quote(EVIL, '')}",
        f"#/finding/{quote(finding['finding_id'], '')}",
    ):
        document = drawn(tmp_path, page_of(made), place)
        assert "<img" not in document
        assert html.escape(EVIL, quote=False) in document


@needs_browser
def test_a_finding_has_what_a_person_needs(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    check = {"check_id": "flights.dep_delay.mean_between_5_and_60", "where": "dest = 'LAX'"}
    check |= {"expression": "mean between 5 and 60", "file": "checks/flights.sql", "line": 12}
    check |= {"tags": ["ops"], "description": None}
    failures = [{"check_id": check["check_id"], "batch": "2025-01-30", "row": '{"id": 7}'}]
    made = facts(
        *month(make_result, 802.287),
        dimension={"owner": "ann"},
        checks=[check],
        failures=failures,
        sql="select dep_delay from flights",
    )
    finding = made.findings[0]["finding_id"]
    document = html.unescape(drawn(tmp_path, page_of(made), f"#/finding/{quote(finding, '')}"))
    for words in (
        "mean between 5 and 60 where dest = 'LAX'",
        "60 to 100",
        "802.3 on 2025-01-30",
        "checks/flights.sql:12",
        "ann",
        "dqsql explain flights.dep_delay.mean_between_5_and_60@2025-01-30",
        "dqsql review accept flights 2025-01-30 --reason",
        "<td>7</td>",
        "select dep_delay from flights",
    ):
        assert words in document, words


@needs_browser
def test_what_could_not_be_computed_is_no_failure_and_no_severity(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    nothing = dict.fromkeys(("observed", "lower", "upper"))
    made = facts(make_result("2025-01-01", Status.ERROR, message="no such function", **nothing))
    overview = drawn(tmp_path, page_of(made))
    assert "1 could not be computed, 0 failures, 0 warnings" in overview
    assert 'aria-label="flights: 1 could not be computed"' in overview
    finding = quote(made.findings[0]["finding_id"], "")
    document = drawn(tmp_path, page_of(made), f"#/finding/{finding}")
    assert "could not be computed: the run exits with 2" in document
    assert "error: the run exits with 1 when the check is not met" in document
    assert "dqsql run --select flights" in document
    assert "<pre>dqsql review" not in document
    for empty in ("Allowed", "Seen"):
        assert f"<dt>{empty}</dt>" not in document


@needs_browser
def test_an_axis_has_three_marks_and_a_band_is_of_its_batch(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """Where one batch has no upper bound, no slope leads there from the bound of another."""
    results = [
        make_result(str(i), observed=0.12 + 0.0123 * i, lower=0.1, upper=None if i == 4 else 0.28)
        for i in range(1, 10)
    ]
    odd = make_result("9", Status.FAIL, check_id="x", observed=0.27)
    made = facts(*results, odd)
    document = drawn(tmp_path, page_of(made), "#/check/flights/" + results[0].check_id)
    assert document.count('class="grid"') >= 3
    for band in re.findall(r'class="(?:band|edge)" d="M?([^"]+)"', document):
        for part in band.rstrip("Z").split("M"):
            corners = points(part)
            steps = itertools.pairwise(corners)
            assert all(x == to_x or y == to_y for (x, y), (to_x, to_y) in steps)


@needs_browser
def test_a_finding_of_a_program_says_which_metric_it_saw(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    clauses = [
        {"metric": m, "status": s, "observed": o, "lower": None, "upper": 6.0}
        | {"series": ["fare", m, "", "delta"]}
        for m, s, o in (("max", "pass", 5.0), ("p75", "fail", 7.0))
    ]
    made = facts(
        make_result("1", Status.FAIL, detector="avh", column="fare", details={"clauses": clauses})
    )
    finding = quote(made.findings[0]["finding_id"], "")
    document = drawn(tmp_path, page_of(made), f"#/finding/{finding}")
    assert "upper quartile (p75) on fare: 7 on 1" in document
    assert "upper quartile (p75) on fare: at most 6" in document
    assert "<dt>Monitor</dt>" in document


@needs_browser
def test_nothing_is_wider_than_a_phone(make_result: Callable[..., Result], tmp_path: Path) -> None:
    long = "customer_country_of_residence_at_the_time_of_the_order_" * 2
    days = (dt.date(2025, 1, 1) + dt.timedelta(days=i) for i in range(60))
    results = [
        make_result(day.isoformat(), Status.FAIL, column=long, check_name=long, message=long)
        for day in days
    ]
    row = "{" + ", ".join(f'"column_{i}": "word word"' for i in range(30)) + "}"
    failures = [{"check_id": results[0].check_id, "batch": results[-1].batch, "row": row}]
    made = facts(*results, name=long, dimension={"owner": long, "tags": [long]}, failures=failures)
    other = facts(make_result("2025-01-01", Status.FAIL))
    finding = quote(made.findings[0]["finding_id"], "")
    for place in ("#/", f"#/model/{long}", f"#/finding/{finding}", "#/checks"):
        document = drawn(tmp_path, page_of(made, other), place, width=360)
        assert 'data-beyond="0"' in document, place


@needs_browser
def test_the_overview_and_the_checks(make_result: Callable[..., Result], tmp_path: Path) -> None:
    made = facts(*month(make_result, 802.287), dimension={"owner": "ann", "tags": ["daily"]})
    overview = drawn(tmp_path, page_of(made), width=360)
    assert 'aria-label="flights: 1 fail, 29 pass"' in overview
    assert "1 failure, 0 warnings" in overview
    checks = drawn(tmp_path, page_of(made), "#/checks")
    assert "96.6%" in checks
    assert "No batch of these models has been checked yet" in drawn(tmp_path, page_of())

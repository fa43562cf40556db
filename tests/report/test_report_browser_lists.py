"""Lists, commands, keys and paper in a report that a browser draws."""

from __future__ import annotations

import datetime as dt
import html
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from dqsql.model.results import Result, Status
from dqsql.report.html import render
from tests.report.pages import (
    BROWSER,
    Sheet,
    drawn,
    drawn_together,
    facts,
    month,
    needs_browser,
    page_of,
)


@needs_browser
def test_on_paper_lists_are_whole_and_commands_unfolded(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    results = [
        make_result(f"{i}", Status.FAIL, check_id=f"flights.{i}", check_name=f"c{i}", column=None)
        for i in range(60)
    ]
    waiting = {str(i): "flagged" for i in range(60)}
    made = page_of(*(facts(*results, name=n, statuses=waiting) for n in ("flights", "b", "c")))
    count = "document.querySelectorAll('.finding:not(.waiting)').length"
    opened = "document.querySelectorAll('.waiting details[open]').length"
    then = f"""
        const tell = (name) => document.body.setAttribute(name, `${{{count}}} ${{{opened}}}`);
        tell('data-screen');
        dispatchEvent(new Event('beforeprint'));
        tell('data-paper');
        dispatchEvent(new Event('afterprint'));
        tell('data-after');
    """
    document = drawn(tmp_path, made, "#/?status=fail", then=then)
    all_of_them = sum(len(m.findings) for m in made.models)
    assert 'data-screen="50 0"' in document
    assert re.search(rf'data-paper="{all_of_them} [1-9]\d*"', document)
    assert 'data-after="50 0"' in document
    # What was filtered is told, for the filters are not on paper.
    assert f"{all_of_them} of {all_of_them}: status fail, state not resolved" in document


@needs_browser
def test_findings_take_little_paper(make_result: Callable[..., Result], tmp_path: Path) -> None:
    """A message has most of the width of a sheet, so that a dozen of findings fit on two."""
    message = "dep_delay is unlike its history: 57.5% of values are null, expected at most 22%"
    results = [
        make_result("2025-01-01", Status.WARN, check_id=f"flights.{i}", message=message)
        for i in range(12)
    ]
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render(page_of(facts(*results))), encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
    own = (f"--user-data-dir={tmp_path / 'browser'}", f"--print-to-pdf={paper}")
    command = [str(BROWSER), *options, *own, page.as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert 1 <= len(re.findall(rb"/Type /Page\b", paper.read_bytes())) <= 2


@needs_browser
def test_a_finding_names_the_commands_for_people(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    results = [make_result("1", Status.FAIL, observed=99.0), make_result("2", Status.FAIL)]
    made = facts(*results, statuses={"2": "flagged"})
    (finding,) = made.findings
    place = f"#/finding/{quote(finding['finding_id'], '')}"
    until = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
    muted = facts(
        *results, findings=[{**finding, "state": "muted", "muted_until": until, "author": "ann"}]
    )
    settled = facts(*results, findings=[{**finding, "state": "resolved", "author": "ann"}])
    documents = drawn_together(
        tmp_path, *(Sheet(page_of(f), place) for f in (made, muted, settled))
    )
    document, of_muted, of_settled = map(html.unescape, documents)
    check = finding["check_id"]
    assert (
        "Assign the finding, acknowledge it (no more messages), or mute it until a day:" in document
    )
    assert f"dqsql finding assign {check} --to NAME" in document
    assert f'dqsql finding acknowledge {check} --reason "..."' in document
    assert re.search(rf"dqsql finding mute {check} --until \d{{4}}-\d\d-\d\d --reason", document)
    # Those of its batches that wait.
    assert 'dqsql review accept flights 2 --reason "..."' in document
    assert "The batches are fine after all, or are not" not in document
    assert "muted until 2999-01-01 by ann" in of_muted
    assert "<pre>dqsql review" not in of_settled
    assert f"dqsql finding reopen {finding['finding_id']}" in of_settled


@needs_browser
def test_what_had_no_data_is_counted_apart(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    results = [
        make_result("1", Status.NO_DATA, check_id="flights.a"),
        make_result("1", Status.WARN, check_id="flights.b"),
    ]
    overview = drawn(tmp_path, page_of(facts(*results)))
    assert "0 failures, 1 warning, 1 without data" in overview


@needs_browser
def test_a_chart_is_read_by_the_keyboard(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    then = """
        dispatchEvent(new Event('beforeprint'));
        const chart = document.querySelector('figure svg');
        chart.focus();
        const told = [];
        for (const key of ['ArrowLeft', 'ArrowLeft', 'ArrowRight', 'Home', 'ArrowLeft', 'End']) {
            chart.dispatchEvent(new KeyboardEvent('keydown', {key}));
            told.push(document.querySelector('figcaption span').textContent.split(' ')[0]);
        }
        document.body.setAttribute('data-told', told.join(' '));
        document.body.setAttribute('data-focus', document.activeElement === chart);
    """
    made = facts(*month(make_result, 250.0))
    check = quote(made.results[0].check_id, "")
    document = drawn(tmp_path, page_of(made), f"#/check/flights/{check}", then=then)
    days = "2025-01-29: 2025-01-28: 2025-01-29: 2025-01-01: 2025-01-01: newest"
    assert f'data-told="{days}"' in document
    assert 'data-focus="true"' in document


@needs_browser
def test_opening_the_report_reads_nothing_of_single_models(
    make_result: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is of each, their data is only read on their pages."""
    monkeypatch.setattr("dqsql.report.html.model_record", lambda facts: "nothing of use")
    document = drawn(tmp_path, page_of(facts(*month(make_result, 250.0))))
    assert 'aria-label="flights: 1 fail, 29 pass"' in document


@needs_browser
def test_many_batches_that_wait_are_folded(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    models = [
        facts(
            make_result("2025-01-01", Status.FAIL), name=f"m{i}", statuses={"2025-01-01": "flagged"}
        )
        for i in range(15)
    ]
    document = drawn(tmp_path, page_of(*models))
    first, _, rest = document.partition('<details class="rest"')
    assert re.findall(r'<div class="what"><a[^>]*>(m\d+)</a>', first) == [f"m{i}" for i in range(3)]
    assert "<summary>12 more</summary>" in rest


@needs_browser
def test_what_could_not_be_computed_has_no_picture(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    nothing = dict.fromkeys(("observed", "lower", "upper"))
    results = [make_result("1"), make_result("2", Status.ERROR, message="no", **nothing)]
    assert 'class="spark"' not in drawn(tmp_path, page_of(facts(*results)))


@needs_browser
def test_a_share_of_rows_is_told_in_percent_and_never_rounded_up(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    rows = {"details": {"metrics": ["compliance(x > 0)"]}, "lower": 1.0, "upper": 1.0}

    wanted = {
        0.999999: "99.9999%",
        0.66669: "66.66%",
        0.29: "29%",
        # As many digits as tell it from none and from all.
        1 - 1e-5: "99.999%",
        1e-5: "0.001%",
        1.0: "100%",
    }
    pages = [page_of(facts(make_result("1", Status.FAIL, observed=o, **rows))) for o in wanted]
    documents = drawn_together(tmp_path, *(Sheet(p, "#/model/flights") for p in pages))
    for document, share in zip(documents, wanted.values(), strict=True):
        assert re.findall(r"([\d.]+%) of rows", document) == [share]


@needs_browser
def test_of_many_models_those_with_findings_come_first(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    day = "2025-01-01"
    models = [facts(make_result(day), name=f"m{i}") for i in range(29)]
    document = drawn(tmp_path, page_of(*models, facts(make_result(day, Status.FAIL), name="bad")))
    first, _, rest = document.partition('<details class="rest"')
    named = re.compile(r'<a href="#/model/\w+" title="(\w+)">')
    assert named.findall(first) == ["bad", *(f"m{i}" for i in range(14))]
    assert named.findall(rest) == [f"m{i}" for i in range(14, 29)]
    assert "<summary>15 more models</summary>" in rest


@needs_browser
def test_failing_rows_are_those_of_the_newest_batch_that_has_any(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """And null is told from a text of that name."""
    results = [make_result(b, Status.FAIL) for b in ("1", "2")]
    rows = [("1", '{"x": null}'), ("2", '{"x": "null"}')]
    failures = [{"check_id": results[0].check_id, "batch": b, "row": r} for b, r in rows]
    made = facts(*results, failures=failures)
    place = f"#/finding/{quote(made.findings[0]['finding_id'], '')}"
    of_one = facts(*results, failures=failures[:1])
    newest, document = drawn_together(tmp_path, *(Sheet(page_of(f), place) for f in (made, of_one)))
    assert "<h2>Failing rows</h2>" in newest and '<td class="nowrap">null</td>' in newest
    assert "<h2>Failing rows of 1</h2>" in document
    assert '<td><i class="dim">null</i></td>' in document


@needs_browser
def test_a_batch_without_a_value_is_marked_and_is_the_newest(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """What has no value any more is told as that, not by the last value that there was."""
    known = [make_result(f"2025-01-0{d}", observed=0.5) for d in (1, 2)]
    empty = [make_result(f"2025-01-0{d}", Status.NO_DATA, observed=None) for d in (3, 4)]
    made = facts(*known, *empty)
    place = f"#/finding/{quote(made.findings[0]['finding_id'], '')}"
    other = make_result("2025-01-04", check_id="flights.other", check_name="other")
    document, not_judged = drawn_together(
        tmp_path,
        Sheet(page_of(made), place),
        Sheet(page_of(facts(*known, other)), f"#/check/flights/{known[0].check_id}"),
    )
    assert 'aria-live="polite">newest no value' in document
    assert document.count('class="odd none"') == 2
    assert "no value on 2025-01-04" in document
    # A batch that was not judged is no news: the last value is told with its batch.
    assert 'aria-live="polite">2025-01-02: 0.5' in not_judged


@needs_browser
def test_a_bound_that_is_not_allowed_itself_is_told_as_that(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    wanted = {
        "max < 4": "below 4",
        "max <= 4": "at most 4",
        "expect(sum(a) > 4)": "above 4",
        # These compare rows.
        "satisfies(a < 99)": "at most 4",
        "expect(4 >= count_if(a < 1))": "at most 4",
        "expect(max(a) <= 5 /* < */)": "at most 4",
        "max <> 4": "at most 4",
        "not max > 4": "at most 4",
        "row_count() - 3 > 5": "above 4",
        "compliance(s = '(') > 0.9": "above 4",
    }
    sheets = []
    for name, words in wanted.items():
        lower = words.startswith("above")
        bounds = {"lower": 4.0, "upper": None} if lower else {"lower": None, "upper": 4.0}
        result = make_result("1", Status.FAIL, check_name=name, observed=4.0, **bounds)
        sheets.append(Sheet(page_of(facts(result)), f"#/check/flights/{result.check_id}"))
    for document, (name, words) in zip(
        drawn_together(tmp_path, *sheets), wanted.items(), strict=True
    ):
        assert f"newest 4 · allowed {words}<" in document, name


@needs_browser
def test_the_content_is_reached_by_keyboard_and_the_address_stays(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    page, tell = page_of(facts(make_result("1"))), "document.body.setAttribute('data-at', "
    seen = "location.hash + document.activeElement.id"
    then = f"document.querySelector('.skip').click(); {tell}{seen});"
    document = drawn(tmp_path, page, "#/model/flights", then=then)
    assert 'data-at="#/model/flightsmain"' in document
    # Nor is an address that somebody has kept from before an empty page.
    assert ">Overview</h1>" in drawn(tmp_path, page, "#main")


@needs_browser
def test_acknowledged_findings_are_listed_behind_open_ones(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    made = facts(*(make_result("1", Status.FAIL, check_id=f"flights.{c}") for c in "abc"))
    states = dict(zip(("flights.a", "flights.b"), ("muted", "acknowledged"), strict=True))
    findings = [{**f, "state": states.get(f["check_id"], "open")} for f in made.findings]
    made = replace(made, findings=findings)
    by_check = {f["check_id"]: quote(f["finding_id"], "") for f in findings}
    commands = {"flights.a": "unmute flights.a", "flights.b": "reopen flights.b@1"}
    document, *pages = drawn_together(
        tmp_path,
        Sheet(page_of(made)),
        *(Sheet(page_of(made), f"#/finding/{by_check[check]}") for check in commands),
    )
    assert "<h2>Findings (3 open)</h2>" in document
    listed = re.findall(r'<div class="finding">.*?#/finding/(flights\.\w)', document)
    assert listed == ["flights.c", "flights.b", "flights.a"]
    for page, command in zip(pages, commands.values(), strict=True):
        assert f"dqsql finding {command}" in page
        assert "dqsql finding acknowledge" not in page

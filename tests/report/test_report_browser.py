"""What a browser draws of a report."""

from __future__ import annotations

import datetime as dt
import html
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from dqsql.decisions.lifecycle import updated_findings
from dqsql.model.results import Result, Status
from tests.report.pages import (
    EVIL,
    MADE,
    Sheet,
    drawn,
    drawn_together,
    facts,
    month,
    needs_browser,
    page_of,
)


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", path)]


def check_that_anomalies_lie_outside(document: str, count: int) -> None:
    """No part of a red dot lies on the band at its place, in pixels of the picture."""
    found = 0
    for picture in re.findall(r"<svg[^>]*>.*?</svg>", document, re.DOTALL):
        bands = [points(d) for d in re.findall(r'class="band" d="([^"]+)"', picture)]
        for x, y, size in re.findall(r'class="odd" cx="([\d.]+)" cy="([\d.]+)" r="(\d)"', picture):
            found += 1
            edges = [py for band in bands for px, py in band if px == float(x)]
            assert edges, "the band is drawn where the anomaly is"
            assert not min(edges) - float(size) < float(y) < max(edges) + float(size)
            assert 0 <= float(y) <= 168
    assert found == count


@needs_browser
def test_an_anomaly_is_drawn_outside_of_its_band(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    # By the odd value, whether the axis is broken.
    cases = {802.287: True, -5e9: True, 250.0: False, 100.001: False, 59.999: False}
    pages = [page_of(facts(*month(make_result, odd))) for odd in cases]
    documents = drawn_together(tmp_path, *(Sheet(p, "#/model/flights") for p in pages))
    for document, (odd, broken) in zip(documents, cases.items(), strict=True):
        check_that_anomalies_lie_outside(document, 1)
        assert ('data-break="y"' in document) == broken, odd


@needs_browser
def test_a_value_that_only_warns_is_drawn_outside_of_the_band(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """The band is what passes, not what does not fail."""
    two = {"lower": 0.0, "upper": 100.0, "warn_lower": 10.0, "warn_upper": 40.0}
    results = [make_result(str(i), observed=20.0 + i, **two) for i in range(8)]
    results.append(make_result("8", Status.WARN, observed=60.0, **two))
    check = quote(results[0].check_id, "")
    document = drawn(tmp_path, page_of(facts(*results)), f"#/check/flights/{check}")
    check_that_anomalies_lie_outside(document, 1)
    assert "newest 60 · allowed 10 to 40" in document


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
def test_an_axis_of_shares_is_whole(make_result: Callable[..., Result], tmp_path: Path) -> None:
    """A share of 0.2 is far from 0.999, and a person sees both on one scale."""
    results = [
        make_result(str(i), observed=0.999 + i * 1e-5, lower=0.999, upper=None) for i in range(9)
    ]
    results.append(make_result("9", Status.FAIL, observed=0.2, lower=0.999, upper=None))
    document = drawn(tmp_path, page_of(facts(*results)), "#/model/flights")
    check_that_anomalies_lie_outside(document, 1)
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
    places = ("#/", f"#/model/{quote(EVIL, '')}", f"#/finding/{quote(finding['finding_id'], '')}")
    for document in drawn_together(tmp_path, *(Sheet(page_of(made), p) for p in places)):
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
        "dqsql explain flights.dep_delay.mean_between_5_and_60 --batch 2025-01-30",
        "dqsql review accept flights 2025-01-30 --reason",
        ">7</td>",
        "select dep_delay from flights",
    ):
        assert words in document, words


@needs_browser
def test_what_could_not_be_computed_is_no_failure_and_no_severity(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    nothing = dict.fromkeys(("observed", "lower", "upper"))
    made = facts(make_result("2025-01-01", Status.ERROR, message="no such function", **nothing))
    finding = quote(made.findings[0]["finding_id"], "")
    overview, document = drawn_together(
        tmp_path, Sheet(page_of(made)), Sheet(page_of(made), f"#/finding/{finding}")
    )
    assert "1 could not be computed, 0 failures, 0 warnings" in overview
    assert 'aria-label="flights: 1 could not be computed"' in overview
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
    page, places = (
        page_of(made, other),
        ("#/", f"#/model/{long}", f"#/finding/{finding}", "#/checks"),
    )
    documents = drawn_together(tmp_path, *(Sheet(page, p, width=360) for p in places))
    for place, document in zip(places, documents, strict=True):
        assert 'data-beyond="0"' in document, place


@needs_browser
def test_the_overview_and_the_checks(make_result: Callable[..., Result], tmp_path: Path) -> None:
    made = facts(*month(make_result, 802.287), dimension={"owner": "ann", "tags": ["daily"]})
    overview, checks, *empties = drawn_together(
        tmp_path,
        *(Sheet(page_of(made), width=360), Sheet(page_of(made), "#/checks")),
        *(Sheet(page_of()), Sheet(page_of(), "#/checks")),
    )
    assert 'aria-label="flights: 1 fail, 29 pass"' in overview
    assert "1 failure, 0 warnings" in overview
    tiles = re.findall(r'<div class="value">(.*?)</div><div class="what">(.*?)</div>', overview)
    assert tiles[0] == ("1", "Open findings")
    assert ("0", "Batches waiting for review") in tiles
    assert ("0 of 1", "Models without findings") in tiles
    assert "96.6%" in checks
    for empty in empties:
        assert "No batch of these models has been checked yet" in empty
        assert "<table" not in empty


@needs_browser
def test_batches_that_wait_for_a_review_are_on_the_first_page(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """Also where the check passed again since, so that no finding is open."""
    results = [make_result("2025-01-01", Status.FAIL, observed=99.0), make_result("2025-01-02")]
    quiet = facts(*results)
    assert [f["state"] for f in quiet.findings] == ["resolved"]
    waits = facts(*results, statuses={"2025-01-01": "flagged"})
    check = quote(make_result().check_id, "")
    nothing, first, chart = drawn_together(
        tmp_path,
        *(Sheet(page_of(quiet)), Sheet(page_of(waits))),
        Sheet(page_of(waits), f"#/check/flights/{check}"),
    )
    assert "nothing to look at" in nothing
    document = html.unescape(first)
    assert "nothing to look at" not in document
    assert "Batches waiting for review</h2>" in document
    assert '<div class="value">1</div><div class="what">Batches waiting' in document
    assert "observed 99, expected 5 to 60" in document
    for word in ("accept", "reject"):
        assert f'dqsql review {word} flights 2025-01-01 --reason "..."' in document
    # In every chart of the model.
    assert re.findall(r'<rect class="flagged"[^>]*data-batch="([^"]+)"', chart) == ["2025-01-01"]
    assert '<i class="flagged"></i>waits for a review' in chart


@needs_browser
def test_a_finding_older_than_the_report_has_a_page(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    old = make_result("2024-01-01", Status.FAIL, check_id="flights.gone", observed=99.0)
    made = facts(make_result("2025-01-01"), findings=updated_findings([], [old], MADE))
    finding = quote(made.findings[0]["finding_id"], "")
    document, overview = drawn_together(
        tmp_path, Sheet(page_of(made), f"#/finding/{finding}"), Sheet(page_of(made))
    )
    document = html.unescape(document)
    assert "2024-01-01 (older than what this report covers)" in document
    assert "dqsql explain flights.gone --batch 2024-01-01" in document
    assert ">flights: mean between 5 and 60 on dep_delay</a>" in overview


@needs_browser
def test_the_metrics_that_broke_their_bounds_come_first(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    def of(batch: str, bad: str) -> Result:
        clauses = [
            {"metric": f"m{i}", "status": "fail" if f"m{i}" in bad else "pass", "observed": 5.0}
            | {"series": ["fare", f"m{i}", "", "delta"], "lower": None, "upper": 6.0}
            for i in range(12)
        ]
        status = Status.FAIL if bad else Status.PASS
        return make_result(batch, status, detector="avh", details={"clauses": clauses})

    made = facts(of("1", "m3"), of("2", ""), of("3", "m7 m9"))
    finding = quote(made.findings[-1]["finding_id"], "")
    document, last = drawn_together(
        tmp_path, *(Sheet(page_of(made), p) for p in ("#/model/flights", f"#/finding/{finding}"))
    )
    first, _, folded = document.partition('<details class="others">')
    titles = re.findall(r"<figcaption><b>(m\d+) on fare</b>", first)
    assert titles == ["m7", "m9", "m3"]
    assert "Other metrics (9)" in folded
    assert folded.count("<figcaption>") == 9
    assert "allowed for that batch" in first and "no bound for that batch" in first
    # What the finding of the last batch is about, and not what broke before.
    first = last.partition('<details class="others">')[0]
    assert re.findall(r"<figcaption><b>(m\d+) on fare</b>", first) == ["m7", "m9"]


@needs_browser
def test_a_finding_shows_the_file_and_marks_the_line(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    row = {"check_id": make_result().check_id, "file": "checks/flights.sql", "line": 3}
    text = "{{ config() }}\nselect\n  dep_delay -- @mean between 5 and 60\nfrom flights"
    made = facts(
        make_result("1", Status.FAIL, observed=99.0),
        checks=[row],
        sql=text,
        file="checks/flights.sql",
    )
    finding = quote(made.findings[0]["finding_id"], "")
    places = (f"#/finding/{finding}", "#/model/flights")
    for drawing in drawn_together(tmp_path, *(Sheet(page_of(made), p) for p in places)):
        document = html.unescape(drawing)
        marked = re.findall(r'<span class="line marked f" data-line="3">(.*?)\n</span>', document)
        assert marked == ["  dep_delay -- @mean between 5 and 60"]
        assert '<span class="line" data-line="1">{{ config() }}\n</span>' in document


@needs_browser
def test_a_row_says_what_a_finding_follows_from(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    nulls = {"check_id": "flights.nulls", "check_name": "completeness > 0.9", "message": "nulls"}
    batch = "2025-01-09"
    results = [
        make_result(batch, Status.FAIL, observed=99.0),
        make_result(batch, Status.FAIL, **nulls),
    ]
    document = html.unescape(drawn(tmp_path, page_of(facts(*results))))
    cause = "completeness > 0.9 on dep_delay"
    link = f'<a href="#/finding/{quote(f"flights.nulls@{batch}", "")}">{cause}</a>'
    assert f'<p class="follows">follows from {link}</p>' in document
    # The root comes first.
    assert document.index(f"flights: {cause}</a>") < document.index("flights: mean between")


@needs_browser
def test_days_without_a_batch_are_empty(make_result: Callable[..., Result], tmp_path: Path) -> None:
    gap = facts(make_result("2025-01-01"), make_result("2025-01-04"))
    whole = facts(make_result("2025-01-01"), make_result("2025-01-02"))
    document, other = drawn_together(tmp_path, Sheet(page_of(gap)), Sheet(page_of(whole)))
    (cells,) = re.findall(r'<path class="gap" d="([^"]+)"', document)
    assert cells.count("M") == 2
    assert '<i class="gap"></i>no batch' in document
    assert "no batch</span>" not in other


@needs_browser
def test_pages_have_titles_and_what_was_searched_is_there_after_going_back(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    results = [
        make_result("1", Status.FAIL, check_id=f"flights.{name}", check_name=name, column=None)
        for name in ("apples", "pears")
    ]
    made = page_of(facts(*results))
    then = """
        const search = document.querySelector('input[type=search]');
        search.value = 'pears';
        search.dispatchEvent(new Event('input'));
        document.querySelector('.finding a').click();
        await pause();
        document.body.setAttribute('data-there', document.title);
        history.back();
        await pause();
        document.body.setAttribute('data-hash', location.hash);
        document.body.setAttribute('data-back', document.querySelector('input').value);
        document.body.setAttribute('data-titles', document.title);
    """
    document = drawn(tmp_path, made, then=then)
    assert 'data-there="FAIL pears · Data quality of nyc"' in document
    assert 'data-back="pears"' in document
    assert 'data-titles="Data quality of nyc"' in document
    assert 'data-hash="#/?q=pears"' in document
    assert "flights: pears</a>" in document
    assert "flights: apples</a>" not in document


@needs_browser
def test_an_address_says_what_is_searched_for(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """So that a link to it can be sent; also that no state is asked for, where one is preset."""
    results = [
        make_result("1", Status.FAIL, check_id="flights.a", check_name="apples", column=None),
        make_result("1", Status.WARN, check_id="flights.p", check_name="pears", column=None),
        make_result("1", Status.FAIL, check_id="flights.f", check_name="figs", column=None),
        make_result("2", check_id="flights.f", check_name="figs", column=None),
    ]
    made = page_of(facts(*results))

    choose = """
        const select = document.querySelector('select[aria-label=state]');
        select.value = '';
        select.dispatchEvent(new Event('change'));
        document.body.setAttribute('data-hash', location.hash);
    """
    wanted = {
        ("#/", ""): ["apples", "pears"],
        ("#/?status=warn", ""): ["pears"],
        ("#/?q=fig&state=", ""): ["figs"],
        ("#/?state=no+such+state", ""): ["apples", "pears", "figs"],
        ("#/model/flights?status=warn", ""): ["pears"],
        ("#/?q=fig", choose): ["figs", "#/?q=fig&amp;state="],
    }
    documents = drawn_together(tmp_path, *(Sheet(made, *where) for where in wanted))
    for document, (where, names) in zip(documents, wanted.items(), strict=True):
        last = re.search(r'data-hash="([^"]*)"', document)
        found = re.findall(r'class="what"><a[^>]*>(?:flights: )?(\w+)</a>', document)
        assert [*found, *(last.groups() if last else ())] == names, where

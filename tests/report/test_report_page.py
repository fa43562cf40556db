"""The report: geometry of its charts, and what its page shows; no Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dqsql.model.results import Result, Status
from dqsql.report.charts import HEIGHT, WIDTH, ChartPoint, chart
from dqsql.report.html import render
from dqsql.report.page import MAX_CHARTS, ModelFacts, Page, model_page
from dqsql.report.profile import ProfileTable, profile_table
from dqsql.runner.grouping import grouped
from dqsql.runner.report import newest

VOID = {"meta", "br", "img", "input", "link", "hr"}
LOADING = {"src", "srcset", "action", "data", "poster", "background"}


class Page5(HTMLParser):
    """Reads a page and checks that it is closed, and loads nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        given = dict(attrs)
        assert not LOADING & set(given)
        assert not any(name.startswith("on") for name in given)
        self.ids += [i for i in [given.get("id")] if i]
        self.links += [href for href in [given.get("href")] if href]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page(*facts: ModelFacts, profiles: Sequence[ProfileTable] = ()) -> str:
    models = tuple(model_page(f, i) for i, f in enumerate(facts))
    made = dt.datetime(2025, 3, 1, tzinfo=dt.UTC)
    period = "the newest 90 days of each model"
    text = render(Page("nyc", "local", made, "0.1.0", period, models, tuple(profiles)))
    # No scripts, and nothing from elsewhere.
    assert "<script" not in text
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    return text


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
    }
    return ModelFacts(**{**given, **more})


def test_nothing_checked_yet() -> None:
    read = Page5(page())
    assert "No batch has been checked yet" in read.words
    assert "table" not in read.seen


def test_findings_by_batch_charts_and_programs(make_result: Callable[..., Result]) -> None:
    days = [f"2025-03-{day:02d}" for day in range(1, 11)]
    usual = [
        make_result(
            day,
            Status.FAIL if day == days[-1] else Status.PASS,
            detector="anomaly",
            check_id="flights.rows",
            message=f"row_count: odd on {day}" if day == days[-1] else "",
            observed=900.0 if day == days[-1] else 100.0 + i,
            lower=90.0,
            upper=120.0,
            details={"metric": "row_count", "expression": "anomaly(row_count)"},
        )
        for i, day in enumerate(days)
    ]
    odd = make_result(days[-1], Status.FAIL, check_id="flights.mean", observed=82.0)
    program = {
        "column_name": "fare",
        "detector": "avh",
        "batches": 30,
        "learned_from": days[0],
        "learned_to": days[-1],
        "fpr": 0.01,
        "description": "mean <= 12; 3 <= max",
    }
    reviews = {days[-1]: {"verdict": "reject", "author": "ann", "reason": "storm"}}
    text = page(
        facts(
            *usual,
            odd,
            statuses={days[-1]: "rejected"},
            programs=[program],
            reviews=reviews,
            dimension={"path": "checks/flights.sql", "description": "All <b>flights</b>"},
        )
    )
    read = Page5(text)
    assert "All <b>flights</b>" in read.words
    assert "row_count: odd on 2025-03-10" in read.words
    assert "flights.rows@2025-03-10" in read.words
    assert "reject by ann: storm" in read.words
    assert "mean <= 12" in read.words
    assert "3 <= max" in read.words
    assert read.seen.count("svg") == 2
    assert text.count('class="odd"') == 2
    assert text.count('class="rejected"') == 1
    assert {href[1:] for href in read.links} <= set(read.ids)


def test_texts_from_data_stay_texts(make_result: Callable[..., Result]) -> None:
    evil = "<script>alert('x')</script>\"><img src=x onerror=y>"
    results = [
        make_result(
            f"{evil}{i}", Status.FAIL, segment=evil, check_name=evil, message=evil, column=evil
        )
        for i in range(2)
    ]
    programs = [
        {"column_name": evil, "detector": "avh", "batches": 1, "fpr": None, "description": evil}
        | {"learned_from": evil, "learned_to": evil}
    ]
    read = Page5(page(facts(*results, name=evil, programs=programs)))
    assert "img" not in read.seen
    assert "<script>alert" in read.words


def test_profiles(make_result: Callable[..., Result]) -> None:
    evil = "<script>x</script>"
    column: dict[str, Any] = dict.fromkeys(
        ("distinct", "detected_type", "summary", "lengths", "earliest", "latest", "distribution")
    )
    column |= {"name": evil, "spark_type": "string", "completeness": 0.5, "histogram": []}
    summary = {"minimum": "-Infinity", "mean": None, "maximum": 1e6}
    number = column | {"name": "n", "histogram": [0.5, 0.0, 0.5], "summary": summary}
    number |= {"distinct": 9.8}
    words = column | {"distribution": {"values": [evil, "b"], "counts": [8, 1], "other": 1}}
    record = {"relation": evil, "rows": 10, "passes": 3, "columns": [number, words]}
    table = profile_table(record | {"made_at": "2025-03-01T10:20:30+00:00"})
    assert [c.distinct for c in table.columns] == ["10", ""]
    assert profile_table({**record, "columns": []}).columns == ()
    read = Page5(page(facts(make_result("1"), profile=table), profiles=[table]))
    assert read.words.count(f"{evil} 80%, b 10%") == 2
    assert "10 rows, 2 columns, read 3 times; as of 2025-03-01 10:20 UTC" in read.words
    assert "-inf" in read.words and "NaN" in read.words and "1,000,000" in read.words
    assert read.seen.count("rect") == 6


def test_series_of_a_program_are_whole(make_result: Callable[..., Result]) -> None:
    """Where the program had no bound on a metric, its stored value is shown without a band."""
    key = ("fare", "mean", "", "delta")
    clause = {"metric": "mean", "series": list(key), "status": "pass", "observed": 5.0}
    clause |= {"lower": 4.0, "upper": 6.0}
    results = [
        make_result("1", detector="avh", details={}),
        make_result("2", detector="avh", details={"clauses": [clause]}),
    ]
    made = model_page(facts(*results, values={key: {"1": 4.5, "2": 5.0}}), 0)
    (drawn,) = made.charts
    assert drawn.title == "mean on dep_delay"
    assert len(drawn.lines[0].split()) == 2
    assert len(drawn.bands) == 1


def test_charts_are_bounded_and_the_worst_come_first(make_result: Callable[..., Result]) -> None:
    results = [
        make_result(
            str(batch),
            Status.FAIL if number == 70 else Status.PASS,
            check_id=f"c{number}",
            check_name=f"monitor {number}",
            detector="novelty",
            observed=float(batch),
        )
        for number in range(MAX_CHARTS + 20)
        for batch in range(3)
    ]
    made = model_page(facts(*results), 0)
    assert (len(made.charts), made.charts_left_out) == (MAX_CHARTS, 20)
    assert made.charts[0].title == "monitor 70 on dep_delay"


NUMBERS = st.none() | st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.lists(
    st.builds(ChartPoint, st.just("b"), NUMBERS, NUMBERS, NUMBERS, st.booleans()), max_size=12
)


@given(POINTS)
def test_everything_lies_in_the_picture(points: list[ChartPoint]) -> None:
    drawn = chart("t", "a", points)
    if drawn is None:
        assert all(p.value is None or p.value - p.value != 0 for p in points)
        return
    pairs = [pair.split(",") for path in (*drawn.lines, *drawn.bands) for pair in path.split()]
    marks = [(m.x, m.y) for m in (*drawn.dots, *drawn.anomalies)]
    for x, y in [*((float(x), float(y)) for x, y in pairs), *marks]:
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_the_largest_numbers_there_are() -> None:
    points = [ChartPoint("1", 1.7e308, -1.7e308, None), ChartPoint("2", -1.7e308, None, 1e-310)]
    drawn = chart("t", "a", points)
    assert drawn is not None
    assert "nan" not in "".join((*drawn.lines, *drawn.bands))


def test_one_huge_value_does_not_flatten_the_others() -> None:
    points = [ChartPoint(str(i), float(i % 3), anomalous=False) for i in range(9)]
    drawn = chart("t", "a", [*points, ChartPoint("9", 1e9, anomalous=True)])
    assert drawn is not None
    heights = [float(pair.split(",")[1]) for pair in drawn.lines[0].split()]
    assert max(heights[:9]) - min(heights[:9]) > HEIGHT / 2
    assert drawn.anomalies[0].y == min(heights)


def test_the_newest_batches() -> None:
    days = [{"batch": f"2025-01-{day:02d}"} for day in range(1, 32)]
    assert [r["batch"] for r in newest(days[::-1], 2)] == ["2025-01-30", "2025-01-31"]
    hours = [{"batch": f"2025-01-01 {hour:02d}:00:00"} for hour in range(24)]
    assert len(newest(hours, 1)) == 24
    numbers = [{"batch": str(n)} for n in range(20)]
    assert [r["batch"] for r in newest(numbers, 3)] == ["17", "18", "19"]
    assert len(newest([{"batch": str(n)} for n in range(1000)], 1000)) == 400

"""`@anomaly` and `@novelty` in whole runs."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean
from typing import Any

import pytest

from dqsql import explain
from dqsql.errors import AnnotationError, CompileError, DqsqlError
from dqsql.model.events import RunListener
from dqsql.model.results import Result, RunResult, Status

from .conftest import NewProject

# Twenty days of two shops; on the last, half of the rows of one are missing and the text is odd.
ROWS = """
select
    date_add(date'2024-01-01', cast(d.id as int)) as day,
    if(r.id % 4 = 0, 'small', 'large') as shop,
    10 + cast(r.id % 10 as double) + 0.01 * d.id as amount,
    if(d.id = 19, concat('#', reverse(cast(xxhash64(r.id) as string))), concat('order ', r.id % 5))
        as note
from range(20) as d, range(80) as r
where not (d.id = 19 and r.id % 4 = 0 and r.id % 8 = 0) and not (d.id = 9 and r.id > 9)
"""
MODEL = """\
{{ config(batch_by = 'day', segment_by = ['shop'], severity = 'warn') }}
select
    day,
    shop,
    amount,  -- @anomaly(mean, batch_normal(warn => 3, error => 50))
    note
from {{ source('raw', 't') }}
/* @anomaly(row_count, online_normal) {
       direction: drop, segments: true, min_history: 5, exclude_where: "batch = '2024-01-10'"
   } */
-- @anomaly(sum(amount) / count(*), relative_rate_of_change(0.5, 2))
-- @anomaly(row_count, day_of_week) {severity: error}
-- @novelty(peculiarity => 'text') {name: novelty, exclude_where: "batch = '2024-01-10'"}
"""


def verdicts(result: RunResult) -> dict[tuple[str, str | None, str], Result]:
    """By the start of the check's name, segment and batch."""
    return {(r.check_name.split(",")[0], r.segment, r.batch or ""): r for r in result.results}


class Asking(RunListener):
    """Keeps how far the monitors are."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def model_step(self, model: str, step: str) -> None:
        if step.startswith("asking"):
            self.steps.append(step)


def test_strategies_and_novelty(new_project: NewProject) -> None:
    project, asking = new_project(MODEL, ROWS), Asking()
    found = verdicts(project.run(listener=asking))
    done = [f"asking the monitors, {i} of 20 batches done" for i in range(2, 20, 2)]
    assert asking.steps == ["asking the monitors", *done]
    last, odd = "2024-01-20", "2024-01-10"

    count = "anomaly(row_count"
    rows = {
        s: found[count, s, last]
        for s in (None, "shop=small", "shop=large")
        if (count, s, last) in found
    }
    assert rows["shop=small"].status is Status.WARN
    assert rows["shop=small"].observed == 10
    assert rows["shop=large"].status is Status.PASS
    assert found[count, None, odd].status is Status.SKIPPED
    assert found[count, None, "2024-01-02"].status is Status.SKIPPED

    mean = found["anomaly(mean", None, last]
    assert mean.column == "amount"
    assert mean.details["strategy"]["warn"] == 3
    assert mean.lower is not None and mean.upper is not None
    assert mean.lower < mean.details["decision"]["expected"] < mean.upper

    ratio = found["anomaly(sum(amount) / count(*)", None, last]
    assert ratio.status is Status.PASS
    assert found["anomaly(sum(amount) / count(*)", None, "2024-01-01"].status is Status.SKIPPED

    novelty = found["novelty", None, last]
    assert novelty.status is Status.WARN
    assert odd in novelty.details["left_out"]
    assert found["novelty", None, odd].message == "left out by exclude_where"
    assert "note" in novelty.message
    # The rows that are missing move the mean of the amounts off its line, by less than 1 % of their
    # range.
    columns = [c["column"] for c in novelty.details["decision"]["contributions"]]
    assert set(columns[:2]) == {"note"}
    assert found["novelty", None, "2024-01-16"].status is Status.PASS


# Thirteen days of other rows; the fourteenth has those of the fifth.
DELIVERED_AGAIN = """
select
    date_add(date'2024-01-01', cast(d.id as int)) as day,
    abs(xxhash64(r.id, if(d.id = 13, 4, d.id), 'a')) % 1000 as a,
    abs(xxhash64(r.id, if(d.id = 13, 4, d.id), 'b')) % 1000 as b,
    sqrt(abs(xxhash64(r.id, if(d.id = 13, 4, d.id), 'c')) % 1000) as c,
    concat('order ', abs(xxhash64(r.id, if(d.id = 13, 4, d.id), 'd')) % 1000) as d
from range(14) as d, range(80) as r
"""


def test_a_batch_that_is_delivered_again_is_found(new_project: NewProject) -> None:
    model = """\
{{ config(batch_by = 'day') }}
select day, a, b, c, d from {{ source('raw', 't') }}
-- @novelty {name: novelty}
"""
    project = new_project(model, DELIVERED_AGAIN)
    found = verdicts(project.run())
    assert found["novelty", None, "2024-01-13"].status is Status.PASS
    last = found["novelty", None, "2024-01-14"]
    assert last.status is Status.FAIL
    told = "batch 2024-01-14 is equal to batch 2024-01-05 in all 25 metrics of 4 columns"
    assert last.message.startswith(told)
    assert last.observed is not None and last.upper is not None
    assert last.observed > last.upper
    (row,) = (r for r in project.rows("dq_results") if r["batch"] == "2024-01-14")
    again = explain(
        row["check_id"], batch="2024-01-14", project_dir=project.root, spark=project.spark
    )
    assert again.same, [c for c in again.compared if not c.same]
    assert "metrics equal to those of 2024-01-05" in [c.name for c in again.compared]


WORDS = {
    ("d", "a"): ["abab", "abc", "abab", None, "x", "xy"],
    ("d", "b"): ["abab", "Zürich 🎈", "it's"],
    ("e", "a"): ["no", "", None],
    ("f", "b"): ["yz" * 700],
}


def peculiarity(texts: list[str | None], form: str) -> float | None:
    """The index of peculiarity by its formula, in plain Python."""
    texts = [t[:1_000] for t in texts if t is not None]
    grams = {
        size: Counter(t[i : i + size] for t in texts for i in range(len(t) - size + 1))
        for size in (2, 3)
    }
    squares = {
        g: ((math.log(grams[2][g[:2]]) + math.log(grams[2][g[1:]])) / 2 - math.log(n)) ** 2
        for g, n in grams[3].items()
    }
    if not squares:
        return None
    if form == "batch":
        return math.sqrt(sum(n * squares[g] for g, n in grams[3].items()) / grams[3].total())
    own = [[squares[t[i : i + 3]] for i in range(len(t) - 2)] for t in texts if len(t) > 2]
    return fmean(math.sqrt(fmean(one)) for one in own)


def test_the_index_of_peculiarity_is_that_of_the_formula(new_project: NewProject) -> None:
    rows = ", ".join(
        f"('{batch}', '{part}', {'null' if text is None else repr(text)})"
        for (batch, part), texts in WORDS.items()
        for text in texts
    )
    project = new_project(
        "{{ config(batch_by = 'day', segment_by = ['part'], severity = 'warn') }}\n"
        "select day, part,\n"
        "    word -- @index_of_peculiarity(form => 'text') < 99 {where: length(word) < 7}\n"
        "from {{ source('raw', 't') }}\n"
        "-- @index_of_peculiarity(word, 'text') < 99\n"
        "-- @novelty(mode => 'paper')\n-- @most_frequent_ratio(word) is not null",
        f"select * from values {rows} as t(day, part, word)",
    )
    project.run()
    found = project.metrics()
    for batch in "def":
        by_part = {f"part={p}": t for (b, p), t in WORDS.items() if b == batch}
        by_part[None] = [t for texts in by_part.values() for t in texts]
        for segment, texts in by_part.items():
            of = found_of(found, batch, segment)
            short = [t for t in texts if t is not None and len(t) < 7]
            assert of["index_of_peculiarity()"] == about(peculiarity(texts, "batch"))
            assert of["index_of_peculiarity('text')"] == about(peculiarity(texts, "text"))
            narrow = "index_of_peculiarity(form => 'text' where length(word) < 7)"
            assert of[narrow] == about(peculiarity(short, "text"))
            # The paper counts rows without a value, too.
            most = max(Counter(t for t in texts if t is not None).values())
            known = sum(t is not None for t in texts)
            assert of["most_frequent_share()"] == about(most / len(texts))
            assert of["most_frequent_ratio()"] == about(most / known)


def found_of(
    found: dict[tuple[Any, ...], Any], batch: str, segment: str | None
) -> dict[str, float | None]:
    """The metrics of a batch and segment, by name and parameters."""
    return {name: v for (b, s, _, name), v in found.items() if (b, s) == (batch, segment)}


def about(value: float | None) -> Any:
    """Equal but for rounding."""
    return None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@anomaly", "needs a metric"),
        ("@anomaly(row_count, holt_winter(7))", "no anomaly strategy is called 'holt_winter'"),
        ("@anomaly(row_count, online_normal(sd => 'x'))", "sd"),
        ("@anomaly(row_count, online_normal) {direction: sideways}", "direction"),
        ("@anomaly(row_count, online_normal, 3)", "not also 3"),
        ("@anomaly(rowcount, online_normal)", "rowcount"),
        ("@novelty(mode => 'best')", "mode"),
        ("@novelty(kk => 3)", "kk"),
        ("@novelty {peculiarity: row}", "'batch' or 'text'"),
        ("@index_of_peculiarity(x, 'row') < 3", "'row' is not a form of the index of peculiarity"),
    ],
)
def test_what_is_wrong_is_said_when_compiling(
    new_project: NewProject, annotation: str, message: str
) -> None:
    text = "select 1 as x, 2 as y from range(1)\n-- " + annotation
    with pytest.raises((AnnotationError, CompileError, DqsqlError)) as caught:
        new_project(text, "select 1 as x").run()
    assert message in str(caught.value)
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("checks/m.sql", 2)

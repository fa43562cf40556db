"""What `@novelty` takes for the history of a batch, from made-up metrics and without a run."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dqsql import compile_project
from dqsql.compiler.monitors import for_types
from dqsql.engine.storage_base import as_arrow
from dqsql.model.monitors import Rates
from dqsql.model.results import Status
from dqsql.model.tables import METRICS
from dqsql.monitors.context import MonitorContext
from dqsql.monitors.history import History
from dqsql.monitors.kinds.novelty.detector import NoveltyDetector, expected_between
from dqsql.monitors.kinds.novelty.stored import NoveltyReplay
from dqsql.monitors.programs import ProgramBook

from .conftest import write_project

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
DAYS = [str(dt.date(2024, 1, 1) + dt.timedelta(n)) for n in range(80)]
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select day, a, b, c from {{{{ source('raw', 't') }}}}
-- @novelty{settings}
"""


def measured(folder: Path, settings: str, odd: list[int]) -> NoveltyDetector:
    """Knows the metrics of all days, none of which is accepted; one is far out on some of them."""
    write_project(folder, {"checks/m.sql": MODEL.format(settings=settings)})
    compiled = compile_project(folder, profiles_dir=folder)
    compiled.raise_errors()
    history = History([], known=DAYS)
    context = MonitorContext(
        compiled.plans[0], history, ProgramBook([]), NOW, "run", Rates(0.01, 0.01)
    )
    detector = NoveltyDetector(context)
    (unit,) = detector.units
    draw = np.random.default_rng(5)
    rows = []
    for number, key in enumerate(unit.keys):
        values = 100 + draw.normal(size=len(DAYS))
        values[odd] += 12 if number == 0 else 0
        name = unit.keys[key]
        row = {
            "column_name": name.column,
            "metric": name.metric,
            "parameters": name.parameters,
            "scope": "delta",
        }
        rows += [{**row, "batch": d, "value": v} for d, v in zip(DAYS, values, strict=True)]
    history.add_metrics(as_arrow(METRICS, rows))
    return detector


def judged(folder: Path, settings: str, odd: list[int]) -> tuple[NoveltyDetector, list[Status]]:
    """Verdicts on all days, accepted whatever they are; one metric is far out on some of them."""
    detector = measured(folder, settings, odd)
    (unit,), history = detector.units, detector.context.history
    found = []
    for day in DAYS:
        (result,) = detector.judge(day)
        found.append(result.status)
        if result.status is Status.WARN:
            history.warn(unit.monitor.id, day, result.score)
        history.accept(day)
    return detector, found


def test_of_structs_and_arrays_no_trigrams_are_counted(tmp_path: Path) -> None:
    write_project(tmp_path, {"checks/m.sql": MODEL.format(settings="")})
    compiled = compile_project(tmp_path, profiles_dir=tmp_path)
    types = {"day": "date", "a": "string", "b": "array<struct<k:string>>", "c": "map<string,int>"}
    (monitor,) = for_types(compiled.plans[0], types).monitors
    watched = {(w.about, w.name.partition("(")[0]) for w in monitor.watched}
    plain = {"completeness", "approx_count_distinct", "most_frequent_ratio"}
    assert {name for about, name in watched if about == "b"} == plain
    assert {name for about, name in watched if about == "a"} == {*plain, "index_of_peculiarity"}


@pytest.mark.parametrize("settings", [" {severity: warn}", "(window => 30) {severity: warn}"])
def test_a_batch_that_was_warned_of_is_learned_from_only_if_that_recurs(
    tmp_path: Path, settings: str
) -> None:
    odd = [40, 50, 55, 60]
    detector, found = judged(tmp_path, settings, odd)
    # Of the second time on, half of such batches used to pass.
    assert [found[day] for day in odd[:3]] == [Status.WARN] * 3
    (unit,) = detector.units
    assert not {DAYS[40], DAYS[50]} & set(detector.past(unit, DAYS[55]))
    # The third time it is the new normal.
    assert {DAYS[40], DAYS[50], DAYS[55]} <= set(detector.past(unit, DAYS[60]))
    assert found[60] is Status.PASS
    if "window" in settings:
        assert [len(detector.past(unit, DAYS[day])) for day in (40, 55, 79)] == [30] * 3


def test_a_replay_of_the_papers_mode_says_that_its_rates_are_contaminations(tmp_path: Path) -> None:
    for settings, told in (("", False), ("(mode => 'paper')", True)):
        detector, _ = judged(tmp_path, settings, [40])
        found = NoveltyReplay(detector).replay(DAYS[30:], [], (0.01, 0.05))
        assert [one.fpr for one in found] == [0.01, 0.05]
        assert ["contaminations" in (one.aside or "") for one in found] == [told] * 2
        assert all(DAYS[40] in one.alarms for one in found)


@pytest.mark.parametrize(
    ("settings", "reach"),
    [
        ("", 2_000),
        (" {exclude_where: \"batch > '2'\"}", 2_000),
        ("(window => 60)", 62),
        ("(mode => 'paper')", None),
    ],
)
def test_long_histories_are_not_looked_at_to_their_beginning(
    tmp_path: Path, settings: str, reach: int | None
) -> None:
    """A decision over 8,760 hourly batches took ten seconds."""
    detector = measured(tmp_path, settings, [])
    assert [unit.reach for unit in detector.units] == [reach]


@pytest.mark.parametrize(("settings", "kept"), [("", 0), ("(mode => 'paper')", 3)])
def test_the_papers_mode_learns_from_batches_of_few_rows(
    tmp_path: Path, settings: str, kept: int
) -> None:
    detector = measured(tmp_path, f"{settings}\n-- @anomaly(row_count)", [])
    for day in DAYS:
        detector.context.history.accept(day)
    rows = [(day, 2.0 if number < 3 else 400.0) for number, day in enumerate(DAYS)]
    metric = {"column_name": None, "metric": "row_count", "parameters": None, "scope": "delta"}
    detector.context.history.add_metrics(
        as_arrow(METRICS, [{**metric, "batch": day, "value": value} for day, value in rows])
    )
    (unit,) = detector.units
    assert len({*DAYS[:3]} & set(detector.past(unit, DAYS[60]))) == kept


def test_batches_that_never_came_count_for_numbers_that_go_on(tmp_path: Path) -> None:
    """As of 20 days, one of which is missing: ids go on by twice as many on the next."""
    came = [*DAYS[:20], DAYS[21]]
    (counts,) = expected_between([*pairwise(came[:-1]), (came[-2], came[-1])])
    assert counts.tolist() == [1.0] * 19 + [2.0]
    assert expected_between([("a", "b"), ("b", "c")]) == []
    detector = measured(tmp_path, "", [])
    (unit,) = detector.units
    history = History([], known=came)
    rows = []
    for feature, key in unit.keys.items():
        if feature.column == "a":
            for batch in came:
                value = 1000.0 * DAYS.index(batch) + (999 if feature.metric == "max" else 0)
                row = {"column_name": "a", "metric": key.metric, "parameters": key.parameters}
                rows.append({**row, "scope": "delta", "batch": batch, "value": value})
    history.add_metrics(as_arrow(METRICS, rows))
    for batch in came[:-1]:
        history.accept(batch)
    detector.context.history = history
    assert "a" in detector._running(unit, came[:-1], came[-1])

"""`@avh` batch after batch on metrics as they would be stored: what is learned from. No Spark."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dqsql
from dqsql.compiler.issues import ISSUES_VERSION
from dqsql.compiler.monitors import for_types
from dqsql.errors import EngineError
from dqsql.model.metric_traits import NUMERIC_DISTANCES
from dqsql.model.plan import PROFILES
from dqsql.model.results import MetricProfile, MetricValue, Result, Status
from dqsql.monitors.context import MonitorContext
from dqsql.monitors.history import History
from dqsql.monitors.injection import Variant
from dqsql.monitors.kinds.avh.detector import AvhDetector
from dqsql.monitors.kinds.avh.evidence import IssueEvidence
from dqsql.monitors.kinds.avh.learning import AvhLearner
from dqsql.monitors.kinds.avh.unit import period_start
from dqsql.monitors.programs import ProgramBook, StoredProgram
from dqsql.monitors.recompute import StoredVerdict, batches_of
from dqsql.monitors.registry import recompute

SOURCES = """\
sources:
  - name: shop
    tables:
      - name: orders
"""
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    price  -- @avh(two_distribution => false) {{{settings}}}
from {{{{ source('shop', 'orders') }}}}
"""
METRICS = (
    *("min", "max", "mean", "median", "sum", "range"),
    *("row_count", "unique_ratio", "complete_ratio"),
    *("p25", "p75", "nan_ratio", "infinite_ratio", "negative_ratio"),
)
SHARES = ("complete_ratio", "nan_ratio", "infinite_ratio", "negative_ratio")
ISSUES = ("missing_0.5", "missing_1.0", "unit_x10_1.0", "volume_0.5", "volume_x2")
NAN = math.nan


def name(day: int) -> str:
    return str(dt.date(2024, 1, 1) + dt.timedelta(day))


class NoRows:
    """Stands where issues are injected; the model has no rows, so the stored evidence serves.

    Unless there are `variants` of the column's sample.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.variants: dict[str, Variant] = {}

    def measure(
        self, monitors: object, batches: Sequence[str], size: int
    ) -> Mapping[tuple[str, str], Mapping[str, Variant]]:
        self.asked += batches
        return {(batch, "price"): self.variants for batch in batches} if self.variants else {}


class Days:
    """Days of one column, judged one after the other as runs would."""

    def __init__(
        self,
        make_project: Callable[..., Path],
        settings: str = "window: 30",
        matching: Callable[[Collection[str], str], Collection[str]] = lambda known, where: (),
        version: int = ISSUES_VERSION,
        days: Sequence[int] = range(90),
    ) -> None:
        sql = MODEL.format(settings=settings)
        root = make_project({"checks/sources.yml": SOURCES, "checks/orders.sql": sql})
        compiled = dqsql.compile_project(root)
        compiled.raise_errors()
        plan = for_types(compiled.plans[0], {"day": "date", "price": "double"})
        self.plan = plan
        (self.monitor,) = plan.monitors
        self.history = History([], known=[name(d) for d in days])
        self.book = ProgramBook()
        evidence = self._evidence(version)
        self.book.put(
            StoredProgram(
                self.monitor.id, "price", "avh", 1, None, "", "", 0, 0.01, {}, "", evidence
            ),
            new_version=True,
        )
        now = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        self.context = MonitorContext(plan, self.history, self.book, now, "run", matching=matching)
        self.injector = NoRows()
        self.detector = AvhDetector(self.context, self.injector)  # type: ignore[arg-type]
        self.results: dict[int, Result] = {}

    @staticmethod
    def _evidence(version: int) -> dict[str, Any]:
        clean = dict(
            zip(METRICS, (0.1, 9, 5, 5, 5000, 8.9, 1000, 0.5, 1, 3, 7, 0, 0, 0), strict=True)
        )
        rows = {
            "missing_0.5": clean | {"sum": 2500, "complete_ratio": 0.5},
            "missing_1.0": {m: NAN for m in METRICS} | {"row_count": 1000, "complete_ratio": 0},
            "unit_x10_1.0": {k: v * 10 for k, v in clean.items()}
            | {n: clean[n] for n in ("row_count", "unique_ratio", "complete_ratio")},
            "volume_0.5": clean | {"row_count": 500, "sum": 2500},
            "volume_x2": clean | {"row_count": 2000, "sum": 10000, "unique_ratio": 0.25},
        }
        values = np.array([[rows[issue][m] for m in METRICS] for issue in ISSUES])
        sample = np.array([clean[m] for m in METRICS])
        return IssueEvidence(name(0), METRICS, ISSUES, sample, values, version).to_dict()

    def measure(self, day: int, values: Mapping[str, float]) -> None:
        """Store the metrics of a day."""
        found = []
        for watched in self.monitor.watched:
            metric = self.plan.metric(watched.alias)
            value = values.get(watched.name, NAN)
            found.append(
                MetricValue(
                    model="orders",
                    batch=name(day),
                    segment=None,
                    column=metric.column,
                    metric=metric.name,
                    parameters=metric.parameters,
                    scope=metric.scope.value,
                    value=None if math.isnan(value) else value,
                    value_text=None,
                    sample_size=1000,
                )
            )
        self.history.add(found)

    def judge(self, day: int, values: Mapping[str, float], accept: bool = False) -> Result:
        """The verdict on a day; it is learned from if it passes, or with `accept`."""
        self.measure(day, values)
        (result,) = self.detector.judge(name(day))
        if accept or result.status in (Status.PASS, Status.SKIPPED):
            self.history.accept(name(day))
        self.results[day] = result
        return result

    def alarms(self, days: range) -> list[int]:
        return [d for d in days if self.results[d].status is Status.FAIL]


def metrics_of(day: int, rows: float = 1000.0, empty: bool = False) -> dict[str, float]:
    """A good day: some 1,000 prices between 0 and 9, all there or none."""
    draw = np.random.default_rng(day)
    count = rows * (1 + 0.01 * draw.normal())
    if empty:
        rows = {"row_count": count, "count": 0.0}
        return rows | dict.fromkeys(SHARES, 0.0)
    low, high, mean = 0.1 + 0.01 * draw.random(), 9 - 0.1 * draw.random(), 5 + 0.05 * draw.normal()
    return {
        "min": low,
        "max": high,
        "mean": mean,
        "median": mean + 0.01 * draw.normal(),
        "sum": mean * count,
        "range": high - low,
        "row_count": count,
        "unique_ratio": 0.5 + 0.005 * draw.normal(),
        "complete_ratio": 1.0,
        "p25": mean - 2 + 0.02 * draw.normal(),
        "p75": mean + 2 + 0.02 * draw.normal(),
        "nan_ratio": 0.0,
        "infinite_ratio": 0.0,
        "negative_ratio": 0.0,
        "count": count,
        "stddev": 2.5,
    }


def weekly(day: int) -> dict[str, float]:
    return metrics_of(day, rows=1000.0 if day % 7 < 5 else 400.0)


def test_one_flagged_batch_does_not_put_the_season_out_of_step(
    make_project: Callable[..., Path],
) -> None:
    days = Days(make_project)
    for day in range(53):
        days.judge(day, weekly(day))
    # A Friday with half of its rows: it is flagged, and kept out of the history.
    friday = weekly(53)
    assert days.judge(53, friday | {"row_count": 480.0, "sum": 2400.0}).status is Status.FAIL
    for day in range(54, 68):
        days.judge(day, weekly(day))
    assert days.alarms(range(54, 68)) == []
    # Weeks on, it is the seasonal bound that tells a Friday like a Saturday from a good one.
    found = days.judge(74, weekly(74) | {"row_count": 400.0, "sum": 2000.0})
    assert found.status is Status.FAIL
    broken = {c["metric"]: c["lag"] for c in found.details["clauses"] if c["status"] == "fail"}
    assert 7 in broken.values()


def test_a_missing_day_does_not_put_the_season_out_of_step(
    make_project: Callable[..., Path],
) -> None:
    there = [day for day in range(76) if day != 68]
    days = Days(make_project, days=there)
    for day in there:
        days.judge(day, weekly(day))
    # Monday is compared with Mondays, not with the batch seven before, a Sunday.
    assert [d for d in there if d > 54 and days.results[d].status is Status.FAIL] == []
    found = days.results[75].details
    assert 7 in {c["lag"] for c in found["clauses"]}
    stored = {"detector": "avh", "column_name": "price", "batch": name(75)}
    past = batches_of(found, [name(d) for d in there])
    again = recompute(StoredVerdict(stored, found, days.history, past))
    assert again.compared and all(c.same for c in again.compared)


def test_a_column_that_is_empty_at_weekends(make_project: Callable[..., Path]) -> None:
    days = Days(make_project)
    for day in range(60):
        days.judge(day, metrics_of(day, empty=day % 7 >= 5))
    assert days.alarms(range(60)) == []
    saturday = days.results[54]
    assert name(54) == "2024-02-24" and saturday.status is Status.PASS
    assert "no value, as in accepted batches before" in saturday.message
    # An empty Wednesday is not like the Wednesdays before; a hundredfold price is found, too.
    assert days.judge(65, metrics_of(65, empty=True)).status is Status.FAIL
    prices = (*METRICS[:6], "p25", "p75")
    worked = {m: v * 100 if m in prices else v for m, v in metrics_of(66).items()}
    assert days.judge(66, worked).status is Status.FAIL


def test_accepting_an_empty_batch_is_learned(make_project: Callable[..., Path]) -> None:
    days = Days(make_project)
    for day in range(30):
        days.judge(day, metrics_of(day))
    first = days.judge(30, metrics_of(30, empty=True))
    assert first.status is Status.FAIL
    nulls = {c["metric"] for c in first.details["clauses"] if c["status"] == "null"}
    assert nulls
    # A person says that it is right: from then on, a null alone is no finding.
    days.history.accept(name(30))
    for day in range(31, 36):
        assert days.judge(day, metrics_of(day)).status is Status.PASS
    second = days.judge(36, metrics_of(36, empty=True))
    assert not [c for c in second.details["clauses"] if c["status"] == "null"]


def test_exclude_where_leaves_batches_out(make_project: Callable[..., Path]) -> None:
    asked: list[str] = []

    def holidays(known: Collection[str], where: str) -> Collection[str]:
        asked.append(where)
        return [b for b in known if b in (name(20), name(31))]

    days = Days(make_project, "exclude_where: \"batch in ('2024-01-21')\"", holidays)
    for day in range(20):
        days.judge(day, metrics_of(day))
    odd = metrics_of(20, rows=5000.0)
    found = days.judge(20, odd)
    assert (found.status, found.message) == (Status.SKIPPED, "left out by exclude_where")
    for day in range(21, 31):
        assert days.judge(day, metrics_of(day)).status is Status.PASS
    assert days.results[30].details["left_out"] == [name(20)]
    assert days.judge(31, odd).status is Status.SKIPPED
    # It was accepted like any other, and still says nothing of good batches.
    assert days.judge(32, odd).status is Status.FAIL
    assert days.results[32].details["since"] == [name(31)]
    assert asked == ["batch in ('2024-01-21')"]
    detector = AvhDetector(days.context, days.injector)  # type: ignore[arg-type]
    learner = AvhLearner(detector)
    (replayed,) = learner.replay([name(d) for d in range(18, 33)], {name(32)}, [0.01])
    assert (replayed.accepted, replayed.flagged) == (12, 1)


def test_a_condition_that_cannot_be_asked_is_said(make_project: Callable[..., Path]) -> None:
    def refuse(known: Collection[str], where: str) -> Collection[str]:
        raise EngineError("no column holiday")

    days = Days(make_project, 'exclude_where: "holiday"', refuse)
    found = days.judge(0, metrics_of(0))
    assert found.status is Status.ERROR
    assert found.message.endswith("no column holiday")
    detector = AvhDetector(days.context, days.injector)  # type: ignore[arg-type]
    learner = AvhLearner(detector)
    assert [one.note for one in learner.learn()] == [found.message]
    assert [one.note for one in learner.replay([name(0)], (), [0.01])] == [found.message]


def test_old_issues_are_injected_anew_and_serve_until_then(
    make_project: Callable[..., Path],
) -> None:
    """Those of the period: of the newest batch before it that has values to change."""
    # A period of 30 days began on 15 January.
    serves = name(12)
    for version, batch, asked in (
        (ISSUES_VERSION, serves, []),
        (ISSUES_VERSION, name(11), [serves, name(20)]),
        # What was learned later is nothing to judge a batch by that is checked again.
        (ISSUES_VERSION, name(18), [serves, name(20)]),
        (ISSUES_VERSION - 1, serves, [serves, name(20)]),
    ):
        days = Days(make_project, version=version)
        (unit,) = days.detector.units
        assert unit.evidence is not None
        unit.evidence = replace(unit.evidence, batch=batch)
        for day in range(20):
            days.measure(day, metrics_of(day, empty=day == 13))
            days.history.accept(name(day))
        found = days.judge(20, metrics_of(20))
        assert days.injector.asked == asked
        assert found.status is Status.PASS
        assert found.details["issues"] == len(ISSUES)


@pytest.mark.parametrize(
    ("batches", "start"),
    [
        (["2024-01-12", "2024-01-13", "2024-01-14"], "2023-12-16"),
        (["2024-01-13", "2024-01-14", "2024-01-15"], "2024-01-15"),
        # Of business days, weeks and months it takes as many of them.
        (["2024-01-11", "2024-01-12", "2024-01-15", "2024-01-16"], "2024-01-15"),
        (["2024-01-01", "2024-01-08", "2024-01-15"], "2023-09-17"),
        (["2023-12", "2024-01", "2024-02"], "2023-07-19"),
        (["2023-01-01", "2024-01-01"], "2010-10-07"),
        # By the hour, or by other names, it is the age that counts.
        (["2024-01-14T22", "2024-01-14T23", "2024-01-15T00"], None),
        (["a", "b", "c"], None),
        (["2024-01-15"], None),
    ],
)
def test_when_the_period_of_a_batch_began(batches: list[str], start: str | None) -> None:
    began = period_start(tuple(batches), 30)
    assert (None if began is None else f"{began:%Y-%m-%d}") == start


@pytest.mark.parametrize("settings", ["window: 30", "window: 10", "window: 30, refit_every: 90"])
def test_issues_are_injected_once_a_period(
    make_project: Callable[..., Path], settings: str
) -> None:
    """Also where what is learned from begins within the period."""
    days = Days(make_project, settings, version=ISSUES_VERSION - 1)
    clean = {m: 1000 / 3 for m in METRICS}
    days.injector.variants = {"clean": Variant(clean, {}), "unit_x10_1.0": Variant(clean, {})}
    for day in range(70):
        days.judge(day, metrics_of(day))
    # The first of the history, and those before 15 January and 14 February; or 7 March.
    assert len(days.injector.asked) == (3 if "refit" not in settings else 2)


def test_fresh_evidence_is_as_later_runs_read_it(make_project: Callable[..., Path]) -> None:
    days = Days(make_project, version=ISSUES_VERSION - 1)
    clean = {m: 1000 / 3 for m in METRICS}
    days.injector.variants = {
        "clean": Variant(clean, {}),
        "unit_x10_1.0": Variant(clean | {"max": math.inf, "mean": 10000 / 3}, {}),
    }
    for day in range(9):
        days.judge(day, metrics_of(day))
    fresh = days.detector.units[0].evidence
    stored = days.book.current(days.monitor.id)
    assert fresh is not None and stored is not None and stored.evidence is not None
    assert fresh.issues == ("unit_x10_1.0",)
    np.testing.assert_array_equal(fresh.variants, IssueEvidence.from_dict(stored.evidence).variants)
    assert math.isnan(fresh.variants[0, METRICS.index("max")])


def test_a_stored_verdict_is_computed_again_from_metrics(make_project: Callable[..., Path]) -> None:
    days = Days(make_project)
    for day in range(53):
        days.judge(day, weekly(day))
    days.judge(53, weekly(53) | {"row_count": 480.0, "sum": 2400.0})
    found = days.judge(54, weekly(54))
    assert found.details["since"] == [name(53)]
    checked = [name(d) for d in range(80)]
    row = {"detector": "avh", "column_name": "price", "batch": name(54)}

    def again(details: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        past = batches_of(details, checked)
        made = recompute(StoredVerdict(row, details, days.history, past))
        assert made.compared, made.note
        return {c.name: (c.stored, c.again) for c in made.compared if not c.same}

    assert again(found.details) == {}
    names = ("spread", "fpr", "bounds", "center")
    for place, name_of in enumerate(names):
        clauses = [dict(c) for c in found.details["clauses"]]
        if name_of == "bounds":
            clauses[0]["bounds"] = [b and b * 1.05 for b in clauses[0]["bounds"]]
            clauses[0] |= {
                k: v and v * 1.05 for k, v in clauses[0].items() if k in ("lower", "upper")
            }
        else:
            clauses[0][name_of] *= 1.05
        assert again({**found.details, "clauses": clauses}), (place, name_of)


def test_steps_keep_left_out_batches() -> None:
    history = History([name(0), name(2), name(3)], known=[name(d) for d in range(7)])
    assert history.steps([name(0), name(2), name(3)], name(5)) == [name(d) for d in range(5)]


def test_a_batch_that_was_warned_of_is_learned_from_only_if_that_recurs(
    make_project: Callable[..., Path],
) -> None:
    days = Days(make_project, settings="window: 30, severity: warn", days=range(120))
    for day in range(40):
        days.judge(day, metrics_of(day), accept=True)
    # A tenth of the values is missing: the next bound is no wider for that.
    bad = {"complete_ratio": 0.9}
    for day in (40, 44):
        assert days.judge(day, metrics_of(day) | bad, accept=True).status is Status.WARN
        for other in range(day + 1, day + 4):
            assert days.judge(other, metrics_of(other), accept=True).status is Status.PASS
    assert name(40) in days.results[47].details["left_out"]
    # The third time it is the new normal, until a person or the window says otherwise.
    assert days.judge(48, metrics_of(48) | bad, accept=True).status is Status.WARN
    assert days.judge(49, metrics_of(49) | bad, accept=True).status is Status.PASS
    assert days.results[49].details["left_out"] == []


def test_after_a_change_for_good_the_old_values_are_no_longer_usual(
    make_project: Callable[..., Path],
) -> None:
    def in_cents(day: int) -> dict[str, float]:
        prices = ("min", "max", "mean", "median", "sum", "range", "p25", "p75", "stddev")
        return {n: v * 100 if n in prices else v for n, v in metrics_of(day).items()}

    days = Days(make_project, settings="window: 30, severity: warn", days=range(120))
    for day in range(40):
        days.judge(day, metrics_of(day), accept=True)
    for day in range(40, 43):
        assert days.judge(day, in_cents(day), accept=True).status is Status.WARN
    for day in range(43, 49):
        assert days.judge(day, in_cents(day), accept=True).status is Status.PASS
    # Learned from eight days in cents, and none before.
    assert days.results[48].details["history"] == [name(40), name(47), 8]
    assert days.judge(49, metrics_of(49), accept=True).status is Status.WARN


def test_what_a_person_accepted_is_learned_from_though_it_was_warned_of(
    make_project: Callable[..., Path],
) -> None:
    days = Days(make_project, settings="window: 30, severity: warn")
    days.context.accepted_by_review = frozenset({name(40)})
    for day in range(40):
        days.judge(day, metrics_of(day), accept=True)
    days.judge(40, metrics_of(40) | {"complete_ratio": 0.9}, accept=True)
    assert days.results[40].status is Status.WARN
    assert name(40) in days.detector.past(days.detector.units[0], name(41))


def test_a_batch_on_which_the_column_was_not_measured_is_none_to_compare_with(
    make_project: Callable[..., Path],
) -> None:
    days = Days(make_project)
    for day in range(30):
        days.judge(day, metrics_of(day))
    # The number of rows alone was measured, as where Spark cannot read the column.
    rows = days.plan.metric(next(w.alias for w in days.monitor.watched if w.name == "row_count"))
    days.history.add(
        [MetricValue("orders", name(30), None, None, rows.name, "", "delta", 1000.0, None, 1000)]
    )
    days.history.accept(name(30))
    assert name(30) not in days.detector.past(days.detector.units[0], name(31))
    assert days.judge(31, metrics_of(31)).status is Status.PASS


def test_after_an_incident_that_is_over_nothing_is_forgotten(
    make_project: Callable[..., Path],
) -> None:
    days = Days(make_project, settings="window: 30, severity: warn", days=range(120))
    for day in range(40):
        days.judge(day, metrics_of(day), accept=True)
    for day in range(40, 43):
        found = days.judge(day, metrics_of(day) | {"complete_ratio": 0.5}, accept=True)
        assert found.status is Status.WARN
    for day in range(43, 50):
        assert days.judge(day, metrics_of(day), accept=True).status is Status.PASS
    assert days.results[49].details["left_out"] == [name(d) for d in range(40, 43)]
    assert days.results[49].details["history"] == [name(16), name(48), 30]
    again = metrics_of(50) | {"complete_ratio": 0.5}
    assert days.judge(50, again, accept=True).status is Status.WARN


def test_distances_to_the_batch_before_say_nothing_of_a_change_for_good(
    make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MODEL", MODEL.replace("false", "true"))
    (unit,) = Days(make_project).detector.units
    assert "cohen_d" in unit.names
    assert {key.metric for key in unit.singles}.isdisjoint(NUMERIC_DISTANCES)


def test_saturdays_are_like_saturdays(
    make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MODEL", MODEL.replace("false", "true"))
    days = Days(make_project)
    (unit,) = days.detector.units
    (profile,) = (key for name, key in unit.keys.items() if name in PROFILES)

    def judge(day: int, more: float = 0.0, accept: bool = False) -> Result:
        draw = np.random.default_rng(day)
        values = np.sort(draw.uniform(0, 9, 1000)) + (3 if day % 7 > 4 else 0) + more
        moments = {"mean": values.mean(), "stddev": values.std(ddof=1), "median": values[500]}
        ends = {"min": values[0], "max": values[-1], "range": values[-1] - values[0]}
        quartiles = {"p25": values[250], "p75": values[750], "sum": values.sum()}
        quantiles = tuple(np.quantile(values, np.linspace(0, 1, 257)).tolist())
        days.history.add_profile(profile, name(day), MetricProfile(quantiles, (), (), 0.0))
        fixed = {"row_count": 1000.0, "count": 1000.0, "unique_ratio": 0.5}
        return days.judge(day, metrics_of(day) | moments | ends | quartiles | fixed, accept)

    for day in range(60):
        judge(day)
    assert days.alarms(range(60)) == []
    # The distance of the first Saturdays and Mondays is to those of the week before.
    assert days.history.value(unit.keys["cohen_d"], name(54)) == pytest.approx(0, abs=0.3)
    assert judge(60, more=3).status is Status.FAIL
    # That one Thursday was let through makes no Thursdays like it.
    assert judge(66, more=3, accept=True).status is Status.FAIL
    for day in range(67, 73):
        judge(day)
    assert judge(73, more=3).status is Status.FAIL

"""What `@anomaly` takes for the history of a metric, from made-up metrics and without a run."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqsql import compile_project
from dqsql.engine.storage_base import as_arrow
from dqsql.model.monitors import Rates
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord, BatchStatus, MetricValue, Result, Status
from dqsql.model.tables import METRICS
from dqsql.monitors.context import MonitorContext
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.judging import Needs, accepted_before, needs_of
from dqsql.monitors.kinds.anomaly.detector import AnomalyDetector
from dqsql.monitors.kinds.anomaly.replay import AnomalyReplay
from dqsql.monitors.programs import ProgramBook
from dqsql.monitors.recompute import StoredVerdict, batches_of
from dqsql.monitors.registry import recompute

from .conftest import write_project

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
COUNT = MetricKey("", "row_count", "", "delta")
MakePlan = Callable[[str], Plan]


@pytest.fixture
def plan(tmp_path: Path) -> MakePlan:
    """`plan("@anomaly(row_count, ..)")`: a compiled model with some annotations."""

    def make(annotations: str) -> Plan:
        text = (
            "{{ config(batch_by = 'day') }}\n"
            f"select day, a from {{{{ source('raw', 't') }}}}\n-- {annotations}\n"
        )
        write_project(tmp_path, {"checks/m.sql": text})
        compiled = compile_project(tmp_path, profiles_dir=tmp_path)
        compiled.raise_errors()
        return compiled.plans[0]

    return make


def days(count: int, first: str = "2024-01-01") -> list[str]:
    start = dt.date.fromisoformat(first)
    return [str(start + dt.timedelta(days=i)) for i in range(count)]


def weekly(count: int, seed: int = 0) -> list[float]:
    """Row counts of 1,000 on weekdays and 400 on weekends, with noise."""
    noise = np.random.default_rng(seed).normal(0, 15, count)
    return [(400 if i % 7 in (5, 6) else 1000) + float(noise[i]) for i in range(count)]


def row_of(batch: str, value: float | None, segment: str | None = None) -> dict[str, Any]:
    """A row of dq_metrics."""
    empty = dict.fromkeys(("column_name", "parameters"))
    kind = {"metric": "row_count", "scope": "delta"}
    return {**empty, **kind, "segment": segment, "batch": batch, "value": value}


@dataclass
class Judge:
    """An `@anomaly` with the metrics that were measured so far."""

    plan: Plan
    batches: Sequence[str]
    values: Sequence[float | None]
    accepted: Sequence[str] = ()
    fpr: float = 0.01
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = History(self.accepted, known=self.batches)
        self.measure(self.values)
        book = ProgramBook([])
        context = MonitorContext(
            self.plan,
            self.history,
            book,
            NOW,
            "run",
            Rates(self.fpr, self.fpr),
            settings=self.settings,
        )
        self.detector = AnomalyDetector(context)

    def measure(self, values: Sequence[float | None], segment: str | None = None) -> None:
        pairs = zip(self.batches, values, strict=True)
        self.history.add_metrics(as_arrow(METRICS, [row_of(b, v, segment) for b, v in pairs]))

    def one(self, batch: str) -> Result:
        (result,) = self.detector.judge(batch)
        return result

    def day_by_day(self, first: int) -> list[Result]:
        """The verdicts on all batches from a place on; those with a finding are not accepted."""
        found = []
        for batch in self.batches[first:]:
            result = self.one(batch)
            found.append(result)
            if result.status is not Status.FAIL:
                self.history.accept(batch)
        return found


def hours(count: int) -> list[str]:
    start = dt.datetime(2024, 1, 1)
    return [str(start + dt.timedelta(hours=i)) for i in range(count)]


def computed_again(result: Result, judge: Judge) -> list[Any]:
    """What differs when the verdict is decided again as `dqsql explain` does."""
    assert result.batch is not None
    past = batches_of(result.details, judge.batches)
    history = History(past)
    values = [row_of(b, judge.history.value(COUNT, b)) for b in (*past, result.batch)]
    history.add_metrics(as_arrow(METRICS, values))
    row = {"detector": "anomaly", "batch": result.batch, "segment": None}
    found = recompute(StoredVerdict(row, result.details, history, past))
    assert found.compared, found.note
    return [asdict(c) for c in found.compared if not c.same]


@pytest.mark.parametrize(
    ("strategy", "start"), [("holt_winters(period => 7, fit => 'fast')", 70), ("stl(7)", 42)]
)
def test_a_bad_batch_does_not_put_the_season_out_of_step(
    plan: MakePlan, strategy: str, start: int
) -> None:
    batches, values = days(start + 20), weekly(start + 20)
    bad = start + 4
    values[bad] *= 0.3
    judge = Judge(plan(f"@anomaly(row_count, {strategy})"), batches, values, batches[:start])
    found = judge.day_by_day(start)
    assert [r.batch for r in found if r.status is Status.FAIL] == [batches[bad]]
    # The newest gap, and later one in the middle, keep their places when decided again.
    for result in found:
        assert computed_again(result, judge) == []
    assert found[5].details["left_out"] == [batches[bad]]
    assert found[5].details["history"] == [batches[0], batches[bad - 1], bad]


def test_a_window_counts_accepted_batches(plan: MakePlan) -> None:
    batches, values = days(60), weekly(60)
    accepted = [b for i, b in enumerate(batches) if i not in (50, 55, 58)]
    model = plan("@anomaly(row_count, holt_winters(period => 7, fit => 'fast')) {window: 14}")
    result = Judge(model, batches, values, accepted).one(batches[-1])
    assert result.status is Status.PASS
    assert result.details["decision"]["history_size"] == 14


def test_strategies_without_places_do_not_see_what_was_not_accepted(plan: MakePlan) -> None:
    batches, values = days(20), weekly(20)
    accepted = [b for i, b in enumerate(batches) if i not in (7, 18)]
    result = Judge(plan("@anomaly(row_count, batch_normal)"), batches, values, accepted).one(
        batches[-1]
    )
    assert result.details["left_out"] == [batches[7]]
    assert result.details["decision"]["history_size"] == 17


def test_hours_of_the_week_are_decided_on_beyond_400_batches(plan: MakePlan) -> None:
    """Three weeks of hours are 504 batches."""
    batches = hours(168 * 3 + 40)
    values = [100.0 + i % 168 + (i * 7919 % 13) / 13 for i in range(len(batches))]
    model = plan("@anomaly(row_count, hour_of_week)")
    ledger = {b: record(b) for b in batches[:-1]}
    (need,) = needs_of(model, {}, len(ledger))
    known = accepted_before(ledger, batches[-1:], need.depth)
    result = Judge(model, batches, values, known).one(batches[-1])
    assert result.status is Status.PASS, result.message
    (need,) = needs_of(plan("@anomaly(row_count, stl(168))"), {}, 5_000)
    assert need.depth == 12 * 168


def record(batch: str, status: BatchStatus = BatchStatus.ACCEPTED) -> BatchRecord:
    return BatchRecord("m", batch, status, 1, "", "")


@pytest.mark.parametrize(
    "annotation",
    [
        "@anomaly(row_count, threshold(1, 2000))",
        "@anomaly(row_count, stl(7))",
        "@anomaly(row_count, holt_winters(7, fit => 'fast')) {window: 30}",
        "@anomaly(row_count, online_normal) {window: 20, fpr: 0.01}",
        "@anomaly(row_count, day_of_week) {window: 40}",
    ],
)
def test_what_is_read_decides_as_all_that_is_stored_does(plan: MakePlan, annotation: str) -> None:
    """A run of one day reads so much; a backfill has the whole history at hand."""
    batches, values = days(600), weekly(600)
    ledger = {
        b: record(b, BatchStatus.FLAGGED if i % 50 == 49 else BatchStatus.ACCEPTED)
        for i, b in enumerate(batches[:-1])
    }
    model = plan(annotation)
    (need,) = needs_of(model, {}, len(ledger))
    assert need.depth is not None
    assert need.depth < 100
    read = accepted_before(ledger, batches[-1:], need.depth)
    assert len(read) == need.depth
    whole = [b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED]
    one, other = (Judge(model, batches, values, a).one(batches[-1]) for a in (read, whole))
    assert one == other
    assert one.status is Status.PASS


def test_what_is_read_of_stored_metrics(plan: MakePlan) -> None:
    several = plan(
        "@anomaly(row_count, stl(7)) {segments: true}\n-- @anomaly(mean(a), day_of_week)"
        "\n-- @anomaly(max(a), online_normal) {window: 9}"
    )
    some, whole = needs_of(several, {}, 1_000)
    assert some == Needs(84, frozenset({"row_count", "max"}), True)
    assert whole == Needs(None, frozenset({"mean"}), True)
    # As many as are stored are all; replayed batches have a history of their own.
    assert needs_of(several, {}, 84) == [Needs(None, frozenset({"row_count", "max", "mean"}), True)]
    assert needs_of(several, {}, 1_000, replayed=90)[0].depth == 174
    assert [n.depth for n in needs_of(plan("@novelty"), {}, 1_000)] == [None]
    assert [n.depth for n in needs_of(plan("@novelty {window: 60}"), {}, 1_000)] == [62]
    settings = {"anomaly": {"window": 50}}
    assert [n.depth for n in needs_of(plan("@anomaly(row_count)"), settings, 1_000)] == [50]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40), min_size=1), st.integers(1, 9))
def test_every_batch_of_a_run_has_the_history_of_its_own_day(
    accepted: set[int], run: set[int], depth: int
) -> None:
    ledger = {str(n): record(str(n)) for n in accepted}
    batches = [str(n) for n in sorted(run)]
    read = History(accepted_before(ledger, batches, depth))
    for batch in sorted(run):
        own = sorted(n for n in accepted - run if n < batch)[-depth:]
        assert read.before(str(batch), depth) == [str(n) for n in own]
    everything = accepted_before(ledger, batches, None)
    assert everything == [str(n) for n in sorted(accepted - run) if n < max(run)]


SHOPS = ("shop=a", "shop=b", "shop=c")


@pytest.mark.parametrize(
    ("annotation", "budget", "fpr"),
    [
        ("@anomaly(row_count) {segments: true}", 0.02, 0.005),
        ("@anomaly(row_count)", 0.02, 0.02),
        # What a person wrote holds for every decision.
        ("@anomaly(row_count) {segments: true, fpr: 0.02}", 0.01, 0.02),
        ("@anomaly(row_count, online_normal(4)) {segments: true}", 0.01, None),
        ("@anomaly(row_count) {segments: true}", None, None),
    ],
)
def test_a_batch_divides_its_budget_among_its_segments(
    plan: MakePlan, annotation: str, budget: float | None, fpr: float | None
) -> None:
    batches, values = days(30), weekly(30)
    settings = {"false_alarm_budget": "1 per week"} if budget else {}
    judge = Judge(plan(annotation), batches, values, batches[:-1], budget or 0.5, settings)
    for shop in SHOPS:
        judge.measure(values, shop)
    found = judge.detector.judge(batches[-1])
    assert len(found) == (4 if "segments" in annotation else 1)
    assert {r.details["strategy"]["fpr"] for r in found} == {fpr}
    assert {r.status for r in found} == {Status.PASS}


def test_a_replay_divides_it_too(plan: MakePlan) -> None:
    batches = days(60)
    values = np.random.default_rng(0).normal(100, 3, 60).tolist()
    values[50] = 111.0
    model = plan("@anomaly(row_count, batch_normal) {segments: true}")
    alarms = {}
    for budget in (0.01, None):
        settings = {"false_alarm_budget": "1 per week"} if budget else {}
        judge = Judge(model, batches, values, batches, 0.01, settings)
        for shop in [f"shop={n}" for n in range(40)]:
            judge.measure(values, shop)
        context = judge.detector.context
        detector = AnomalyDetector(context)
        (replayed,) = AnomalyReplay(detector).replay(batches, (), [0.01])
        alarms[budget] = replayed.alarms
    assert alarms == {0.01: (), None: (batches[50],)}


@pytest.mark.parametrize(
    ("strategy", "tenfold"),
    # A value that takes part in its own bounds excuses itself at times.
    [("batch_normal", 1), ("batch_normal(include_new => true)", 0.78)],
)
def test_a_replay_says_what_issues_of_volume_it_flags(
    plan: MakePlan, strategy: str, tenfold: float
) -> None:
    """Around 1,000 rows, give or take 200: ten times as many are seen, half of them are not."""
    batches = days(60)
    values = np.random.default_rng(3).normal(1_000, 200, 60).tolist()
    values[50] = 0.0
    judge = Judge(plan(f"@anomaly(row_count, {strategy})"), batches, values, batches)
    context = judge.detector.context
    learner = AnomalyReplay(AnomalyDetector(context))
    (replayed,) = learner.replay(batches, (batches[55],), [0.001])
    assert set(replayed.issues) == {"volume_x2", "volume_x10", "volume_0.1", "volume_0.5"}
    # An accepted batch each; one without rows has no volume to change.
    assert {n for _, n in replayed.issues.values()} == {replayed.accepted - 1}
    share = {name: caught / n for name, (caught, n) in replayed.issues.items()}
    assert share["volume_x10"] == tenfold
    assert share["volume_0.5"] < 0.2
    assert share["volume_0.5"] <= share["volume_x2"] <= 1
    assert set(replayed.kinds) == {"volume"}
    pairs = zip(batches, values, strict=True)
    # A mean does not follow the number of rows.
    judge = Judge(plan("@anomaly(mean(a))"), batches, values, batches)
    means = [{**row_of(b, v), "metric": "mean", "column_name": "a"} for b, v in pairs]
    judge.history.add_metrics(as_arrow(METRICS, means))
    learner = AnomalyReplay(AnomalyDetector(judge.detector.context))
    (other,) = learner.replay(batches, (), [0.001])
    assert (other.accepted > 40, other.issues) == (True, {})


def test_what_is_not_computed_again_is_told() -> None:
    def note(kind: str) -> str | None:
        return recompute(StoredVerdict({"detector": kind}, {}, History(()), ())).note

    for kind in ("schema", "schema_is", "has_type", "matches_relation"):
        assert note(kind) == (
            f"@{kind} is not computed again: its message and details say what it compared"
        )
    assert note("constraint") == ("nothing to compute again: its bounds are written in the check")


@pytest.mark.parametrize(
    ("earlier", "new", "status"),
    [
        ([], math.nan, Status.FAIL),
        ([], None, Status.NO_DATA),
        ([math.nan, math.nan], math.nan, Status.FAIL),
        # Three times are as usual, as with other findings.
        ([math.nan, math.nan, math.nan], math.nan, Status.NO_DATA),
        ([None, None, None], math.nan, Status.FAIL),
    ],
)
def test_nan_is_news_unless_it_is_usual(
    plan: MakePlan, earlier: list[float | None], new: float | None, status: Status
) -> None:
    values = [*weekly(30), *earlier, new]
    batches = days(len(values))
    judge = Judge(plan("@anomaly(row_count)"), batches, values, accepted=batches[:-1])
    found = judge.one(batches[-1])
    assert found.status is status, found.message
    assert found.observed is None
    assert ("NaN, no number" in found.message) == (status is Status.FAIL)


def test_a_text_is_no_number_to_compare(plan: MakePlan) -> None:
    batches = days(3)
    judge = Judge(plan("@anomaly(max(a))"), batches, [None] * 3)
    (metric,) = judge.plan.metrics
    for batch, text in zip(batches, ("x", None, "y"), strict=True):
        judge.history.add(
            [MetricValue("m", batch, None, metric.column, metric.name, "", "delta", None, text, 1)]
        )
    found = [judge.one(batch) for batch in batches]
    assert [r.status for r in found] == [Status.ERROR, Status.NO_DATA, Status.ERROR]
    assert found[0].message.endswith(
        "anomaly(max(a)): max(a) is a text or a time, and only numbers are compared"
    )

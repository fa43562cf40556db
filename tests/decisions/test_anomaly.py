"""Anomaly decisions: settings they share, edges, and laws that hold for every strategy."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dqsql.decisions.anomaly import (
    STRATEGIES,
    AnomalyDecision,
    AnomalyInput,
    evaluate_many,
    strategy,
)
from dqsql.decisions.anomaly_settings import AnomalySettings, anomaly_settings
from dqsql.decisions.strategies import LearnedStrategy, Strategy
from dqsql.errors import DecisionError
from tests.decisions.one_value import evaluate

START = datetime(2024, 1, 1)
# Refunds of a shop by day.
FEW = [3.0, 2, 4, 2, 2, 1, 2, 1, 4, 3, 3, 3, 3, 3, 7, 2, 5]
HISTORY = [100.0, 102, 98, 101, 99, 103, 97, 100, 101, 99]

LEARNED = [
    strategy("online_normal"),
    strategy("batch_normal"),
    strategy("day_of_week", min_per_slot=2),
    strategy("hour_of_day"),
    strategy("month"),
    strategy("stl", 7),
    strategy("holt_winters", 7, fit="fast"),
]
ALL = [
    *LEARNED,
    strategy("threshold", 50, 150),
    strategy("absolute_change", -20, 20),
    strategy("relative_rate_of_change", 0.8, 1.2),
]
name_of = pytest.mark.parametrize("chosen", ALL, ids=lambda s: s.name)
learned = pytest.mark.parametrize("chosen", LEARNED, ids=lambda s: s.name)


def days(count: int, start: datetime = START) -> list[datetime]:
    return [start + timedelta(days=i) for i in range(count)]


def year(seed: int = 0, size: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 100 + 10 * np.sin(2 * np.pi * np.arange(size) / 7) + rng.normal(0, 1, size)


def decide(
    chosen: Strategy, values: object, value: float | None, **more: object
) -> AnomalyDecision:
    size = len(np.atleast_1d(np.array(values, dtype=float)))
    times = days(size + 1)
    return evaluate(chosen, values, times[:-1], value, times[-1], **more)  # type: ignore[arg-type]


def test_batch_normal_by_hand() -> None:
    # Mean 100; squares 0+4+4+1+1+9+9+0+1+1 = 30, variance 30/9.
    sd = math.sqrt(30 / 9)
    found = decide(strategy("batch_normal", 3), HISTORY, 106.0)
    assert found.status == "anomalous"
    assert found.severity is None
    assert (found.expected, found.history_size) == (100.0, 10)
    assert (found.lower, found.upper) == pytest.approx((100 - 3 * sd, 100 + 3 * sd))
    assert found.deviations == pytest.approx(6 / sd)
    assert found.score == pytest.approx(6 / (3 * sd))
    assert found.explanation == (
        "106 is 3.3 standard deviations above the expected 100 (mean of 10 batches),"
        " allowed 94.5228 to 105.477"
    )
    assert decide(strategy("batch_normal", 3), HISTORY, 105.0).status == "ok"


def test_two_severities_in_one_decision() -> None:
    chosen = strategy("batch_normal", warn=3, error=4)
    sd = math.sqrt(30 / 9)
    found = [decide(chosen, HISTORY, 100 + k * sd) for k in (2.9, 3.5, 4.1, -4.1)]
    assert [f.severity for f in found] == [None, "warn", "error", "error"]
    assert (found[0].lower, found[0].upper) == pytest.approx((100 - 3 * sd, 100 + 3 * sd))
    assert found[0].error_lower == pytest.approx(100 - 4 * sd)
    assert found[0].error_upper == pytest.approx(100 + 4 * sd)
    only = decide(strategy("batch_normal", warn=3), HISTORY, 200.0)
    assert (only.severity, only.error_lower) == ("warn", None)


def test_false_positive_rate_instead_of_deviations() -> None:
    narrow = decide(strategy("batch_normal", fpr=0.05), HISTORY, 100.0)
    wide = decide(strategy("batch_normal", fpr=0.001), HISTORY, 100.0)
    assert wide.lower < narrow.lower < 97
    assert 103 < narrow.upper < wide.upper
    for fpr, band in ((0.05, narrow), (0.001, wide)):
        edge = decide(strategy("batch_normal"), HISTORY, band.upper + 1e-9)
        assert edge.p_value == pytest.approx(fpr, rel=1e-3)


def test_a_rate_from_outside_is_for_strategies_without_bounds_of_their_own() -> None:
    plain, own = strategy("batch_normal"), strategy("batch_normal", warn=3)
    assert isinstance(plain, LearnedStrategy)
    assert isinstance(own, LearnedStrategy)
    assert plain.with_rate(0.01) == strategy("batch_normal", fpr=0.01)
    assert own.with_rate(0.01) is own


def test_p_value_keeps_its_promise_on_normal_histories() -> None:
    rng = np.random.default_rng(1)
    chosen = strategy("batch_normal")
    x = 100 + rng.normal(0, 10, size=(2000, 15))
    asked = [AnomalyInput(row[:-1], None, row[-1]) for row in x]
    p = np.array([d.p_value for d in evaluate_many(chosen, asked)], dtype=float)
    for rate in (0.01, 0.05):
        assert (p <= rate).mean() <= rate + 3 * math.sqrt(rate / 2000)


@name_of
def test_every_strategy_decides_and_stores(chosen: Strategy) -> None:
    values = year()
    assert decide(chosen, values, float(values[33])).status == "ok"
    far = decide(chosen, values, 1000.0)
    assert far.status == "anomalous"
    assert far.lower < far.upper < 1000
    json.dumps(far.to_dict(), allow_nan=False)
    data = json.loads(json.dumps(chosen.to_dict()))
    assert strategy(**data) == chosen


@name_of
@pytest.mark.parametrize("value", [None, math.nan])
def test_no_value(chosen: Strategy, value: float | None) -> None:
    found = decide(chosen, year(), value)
    assert (found.status, found.explanation) == ("no_value", "nothing was measured")
    assert not found.anomalous


@name_of
@pytest.mark.parametrize("size", [0, 1])
def test_no_history_and_one_point(chosen: Strategy, size: int) -> None:
    found = decide(chosen, year()[:size], 100.0, settings=AnomalySettings(min_history=0))
    least = {"threshold": 0, "absolute_change": 1, "relative_rate_of_change": 1}
    wanted = "ok" if size >= least.get(chosen.name, 2) else "too_little_history"
    assert found.status == wanted
    if wanted != "ok":
        assert "needed" in found.explanation


@learned
@pytest.mark.parametrize("value", [5.0, 0.0, -3.0])
def test_constant_history(chosen: Strategy, value: float) -> None:
    history = np.full(40, value)
    same = decide(chosen, history, value)
    assert same.status == "ok"
    assert same.expected == pytest.approx(value)
    assert decide(chosen, history, value * (1 + 1e-12)).status == "ok"
    assert decide(chosen, history, value + 1).status == "anomalous"


@name_of
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_value(chosen: Strategy, value: float) -> None:
    found = decide(chosen, year(), value)
    assert found.status == "anomalous"
    assert found.p_value in (None, 0.0)
    json.dumps(found.to_dict(), allow_nan=False)


@name_of
def test_gaps_and_infinities_in_the_history(chosen: Strategy) -> None:
    values: list[float | None] = [float(v) for v in year()]
    values[5], values[12], values[-3] = None, math.nan, math.inf
    found = decide(chosen, values, float(values[33] or 0))
    assert found.status == "ok"
    assert math.isfinite(found.lower)


@name_of
def test_all_values_missing(chosen: Strategy) -> None:
    found = decide(chosen, [None] * 40, 100.0, settings=AnomalySettings(min_history=0))
    assert found.status == ("ok" if chosen.name == "threshold" else "too_little_history")


@name_of
def test_the_value_under_test_does_not_train(chosen: Strategy) -> None:
    one, other = (decide(chosen, year(), value) for value in (100.0, 1e6))
    for name in ("lower", "upper", "history_size"):
        assert getattr(one, name) == getattr(other, name)
    assert one.expected == other.expected or math.isnan(one.expected)


@name_of
def test_direction(chosen: Strategy) -> None:
    up = [
        decide(chosen, year(), 1000.0, settings=AnomalySettings(direction=d))
        for d in ("both", "spike", "drop")
    ]
    down = [
        decide(chosen, year(), -1000.0, settings=AnomalySettings(direction=d))
        for d in ("both", "spike", "drop")
    ]
    assert [f.anomalous for f in up] == [True, True, False]
    assert [f.anomalous for f in down] == [True, False, True]
    assert up[1].lower == -math.inf
    assert down[2].upper == math.inf
    if up[0].p_value is not None:
        assert up[1].p_value == pytest.approx(up[0].p_value / 2)
        assert up[2].p_value == 1.0


def test_window() -> None:
    values = [1000.0] * 20 + HISTORY
    found = decide(strategy("batch_normal"), values, 120.0, settings=AnomalySettings(window=10))
    assert (found.status, found.expected) == ("anomalous", 100.0)


def test_ignore_small_changes() -> None:
    history = [100.0] * 10
    plain = decide(strategy("batch_normal"), history, 100.5)
    assert plain.status == "anomalous"
    relative = decide(
        strategy("batch_normal"), history, 100.5, settings=AnomalySettings(ignore_relative=0.01)
    )
    assert (relative.status, relative.lower, relative.upper) == ("ok", 99.0, 101.0)
    absolute = AnomalySettings(ignore_absolute=2)
    assert decide(strategy("batch_normal"), history, 102.0, settings=absolute).status == "ok"
    assert decide(strategy("batch_normal"), history, 102.1, settings=absolute).anomalous


def test_excluded_batches_take_no_part() -> None:
    values = [*HISTORY, 5000.0, 4000.0]
    mask = [v > 1000 for v in values]
    found = decide(strategy("batch_normal"), values, 106.0, exclude=mask)
    assert (found.expected, found.history_size) == (100.0, 10)
    skipped = decide(strategy("batch_normal"), values, 9e9, excluded=True)
    assert (skipped.status, skipped.anomalous) == ("excluded", False)


@pytest.mark.parametrize("size", [7, 8])
def test_default_min_history(size: int) -> None:
    found = decide(strategy("batch_normal"), HISTORY[:size], 100.0)
    assert found.status == ("ok" if size == 8 else "too_little_history")
    if size == 7:
        assert found.explanation == "7 earlier values, 8 are needed"


def test_times_of_many_kinds() -> None:
    chosen, values = strategy("day_of_week", min_per_slot=2), year(size=28)
    plain = days(29)
    zone = timezone(timedelta(hours=-10))
    kinds = {
        "datetime": plain,
        "date": [t.date() for t in plain],
        "text": [t.date().isoformat() for t in plain],
        "datetime64": np.array(plain, dtype="datetime64[ns]"),
        "with zone": [t.replace(tzinfo=zone) for t in plain],
    }
    found = {k: evaluate(chosen, values, t[:-1], 100.0, t[-1]).expected for k, t in kinds.items()}
    assert set(found.values()) == {found["datetime"]}
    none = evaluate(chosen, values, None, 100.0)
    assert (none.status, "time" in none.explanation) == ("undecidable", True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"history_times": days(3)}, "10 values need as many times, not 3"),
        ({"exclude": [True]}, "10 values need as many marks, not 1"),
        ({"history_times": ["x"] * 10}, "not all batches have a time"),
        ({"history_values": np.ones((2, 5))}, "a list of numbers"),
    ],
)
def test_wrong_input(arguments: dict[str, object], words: str) -> None:
    call: dict[str, object] = {"history_values": HISTORY, "history_times": None, "value": 1.0}
    with pytest.raises(DecisionError, match=words):
        evaluate(strategy("batch_normal"), **(call | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("holt_winter", {}, "no anomaly strategy is called 'holt_winter'.*did you mean 'holt_wint"),
        ("whatever", {}, "one of auto, threshold"),
        ("holt_winters", {}, "period must be a whole number of at least 2"),
        ("holt_winters", {"period": 7.5}, "period must be a whole number"),
        ("holt_winters", {"period": 7, "seasonal": "weekly"}, "seasonal must be 'additive' or"),
        ("holt_winters", {"periode": 7}, "no parameter 'periode'.*did you mean 'period'"),
        ("holt_winters", {"period": 7, "damped": True, "fit": "fast"}, "fit 'fast' has no damped"),
        ("holt_winters", {"period": 7, "damped": True, "trend": "none"}, "no trend to damp"),
        ("stl", {"period": 1}, "stl: period"),
        ("threshold", {}, "needs a lower or an upper limit"),
        ("threshold", {"lower": 2, "upper": 1}, "lower 2 is above upper 1"),
        ("threshold", {"lower": 2, "warn_lower": 1}, "warn_lower 1 lies beyond lower 2"),
        (
            "absolute_change",
            {"upper": 1, "order": -1},
            "order must be a whole number of at least 0",
        ),
        ("relative_rate_of_change", {"upper": 1, "order": 0}, "order must be .* at least 1"),
        ("batch_normal", {"sd": -1}, "sd must be at least 0"),
        ("batch_normal", {"sd": "3"}, "sd must be a number, not '3'"),
        ("batch_normal", {"sd": True}, "sd must be a number"),
        ("batch_normal", {"sd": math.nan}, "sd must be a number"),
        ("batch_normal", {"sd": 3, "fpr": 0.1}, "sd and fpr both set the bounds"),
        ("batch_normal", {"warn": 4, "error": 3}, "warn 4 is above error 3"),
        ("batch_normal", {"fpr": 0}, "fpr must be above 0 and at most 0.5"),
        ("online_normal", {"ignore_start": 1.5}, "ignore_start must be at least 0 and at most 1"),
        ("day_of_week", {"min_per_slot": 1}, "min_per_slot"),
        ("day_of_week", {"spread": "all"}, "spread must be 'auto' or 'slot' or 'pooled'"),
    ],
)
def test_wrong_parameters(name: str, parameters: dict[str, object], words: str) -> None:
    with pytest.raises(DecisionError) as caught:
        strategy(name, **parameters)
    assert re.search(words, str(caught.value), re.DOTALL)


def test_positional_parameters() -> None:
    assert strategy("holt_winters", 7) == strategy("holt_winters", period=7)
    assert strategy("threshold", 0.9, 1) == strategy("threshold", lower=0.9, upper=1.0)
    assert strategy("batch_normal", 4) == strategy("batch_normal", sd=4)
    with pytest.raises(DecisionError, match="takes 1 arguments without a name, 2 are given"):
        strategy("batch_normal", 3, 4)
    with pytest.raises(DecisionError, match="given twice"):
        strategy("holt_winters", 7, period=7)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"direction": "DROP"}, AnomalySettings(direction="drop")),
        ({"ignore_small_changes": 5}, AnomalySettings(ignore_absolute=5.0)),
        ({"ignore_small_changes": "1%"}, AnomalySettings(ignore_relative=0.01)),
        ({"min_change": "2%", "direction": "up"}, AnomalySettings("spike", ignore_relative=0.02)),
        ({"min_change": 3, "direction": "down"}, AnomalySettings("drop", ignore_absolute=3.0)),
        (
            {"ignore_small_changes": {"absolute": 2, "relative": "5%"}, "window": 30},
            AnomalySettings(ignore_absolute=2.0, ignore_relative=0.05, window=30),
        ),
    ],
)
def test_settings_as_written(written: dict[str, object], wanted: AnomalySettings) -> None:
    assert anomaly_settings(**written) == wanted
    assert anomaly_settings(**asdict(wanted)) == wanted


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"direction": "sideways"}, "direction must be 'both' or 'spike' or 'drop'"),
        ({"windo": 3}, "has no parameter 'windo'"),
        ({"window": 0}, "window"),
        ({"window": 5, "min_history": 8}, "a window of 5 batches never has min_history 8"),
        ({"ignore_small_changes": {"percent": 1}}, "has no 'percent'"),
        ({"min_change": {"percent": 1}}, "min_change has no 'percent'"),
        ({"min_change": 1, "ignore_small_changes": 1}, "are the same setting"),
        ({"ignore_small_changes": "a%"}, "cannot be 'a%'"),
        ({"ignore_small_changes": -1}, "must be at least 0"),
    ],
)
def test_wrong_settings(written: dict[str, object], words: str) -> None:
    with pytest.raises(DecisionError, match=words):
        anomaly_settings(**written)


def test_many_at_once_are_as_one_by_one() -> None:
    times = np.array(days(61), dtype="datetime64[us]")
    inputs = [
        AnomalyInput(year(i, 60)[: 60 - i % 3], times[: 60 - i % 3], 100.0 + 5 * i, times[-1])
        for i in range(8)
    ]
    inputs[2] = AnomalyInput([1.0], times[:1], 5.0, times[1])
    inputs[4] = AnomalyInput(year(4, 60), times[:-1], None, times[-1])
    for chosen in ALL:
        together = evaluate_many(chosen, inputs)
        alone = [
            evaluate(chosen, i.values, i.times, i.value, i.time)
            for i in inputs  # type: ignore[arg-type]
        ]
        assert [t.status for t in together] == [a.status for a in alone]
        for t, a in zip(together, alone, strict=True):
            assert [t.lower, t.upper] == pytest.approx([a.lower, a.upper], nan_ok=True)


# Whole numbers have a unit of their own: one.
values_of = st.lists(st.integers(-1000, 1000).map(lambda v: v + 0.1), min_size=20, max_size=40)
IN_PLACE = [s for s in LEARNED if s.name != "holt_winters"]


@settings(max_examples=40, deadline=None)
@given(values_of, st.integers(-1000, 1000), st.sampled_from(IN_PLACE), st.sampled_from([0.5, 2, 8]))
def test_unit_does_not_matter(
    history: list[float], value: int, chosen: Strategy, scale: float
) -> None:
    # The verdict does not depend on unit and origin (bounds in deviations, not rates).
    assume(np.std(history) > 1)
    # The band of a series that hardly ever moves is a share of its level.
    assume(len(set(history)) > len(history) / 2)
    one = decide(chosen, history, float(value))
    assume(one.status in ("ok", "anomalous"))
    again = decide(chosen, [scale * v + 64 for v in history], scale * value + 64)
    assert again.expected == pytest.approx(scale * one.expected + 64, rel=1e-6, abs=1e-6)
    assert again.upper == pytest.approx(scale * one.upper + 64, rel=1e-5, abs=1e-5)
    assert again.lower == pytest.approx(scale * one.lower + 64, rel=1e-5, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(values_of, st.sampled_from(LEARNED))
def test_further_away_is_never_less_anomalous(history: list[float], chosen: Strategy) -> None:
    middle = decide(chosen, history, 0.0).expected
    assume(math.isfinite(middle))
    found = [decide(chosen, history, middle + d) for d in (0, 1, 10, 100, 1e4)]
    assert found[0].status == "ok"
    assert [f.anomalous for f in found] == sorted(f.anomalous for f in found)
    # On one side: errors may lie more to one than to the other.
    rates = [f.p_value for f in found[1:]]
    assert rates == sorted(rates, reverse=True)  # type: ignore[type-var]
    for decision in found:
        assert decision.anomalous == (decision.score > 1)  # type: ignore[operator]


@settings(max_examples=40, deadline=None)
@given(values_of)
def test_order_of_the_history_is_nothing_to_batch_normal(history: list[float]) -> None:
    # In deviations: rates are calibrated on the errors of the series in its order.
    one = decide(strategy("batch_normal", sd=3), history, 3.0)
    other = decide(strategy("batch_normal", sd=3), history[::-1], 3.0)
    assert [one.lower, one.upper] == pytest.approx([other.lower, other.upper])


def test_names() -> None:
    assert set(STRATEGIES) == {
        "auto",
        "threshold",
        "absolute_change",
        "rate_of_change",
        "relative_rate_of_change",
        "online_normal",
        "batch_normal",
        "holt_winters",
        "day_of_week",
        "hour_of_day",
        "hour_of_week",
        "month",
        "stl",
    }


@pytest.mark.parametrize(
    ("chosen", "value", "words"),
    [
        (strategy("absolute_change", lower=50), 310.0, "too low, compared with 300"),
        (strategy("absolute_change", upper=-10), 299.0, "too high, compared with 300"),
        (strategy("relative_rate_of_change", lower=1.05), 301.0, "too low"),
        (strategy("relative_rate_of_change", upper=0.9), 299.0, "too high"),
        (strategy("absolute_change", lower=1), 300.0, "too low"),
    ],
)
def test_fixed_limits_may_refuse_that_nothing_changes(
    chosen: Strategy, value: float, words: str
) -> None:
    found = decide(chosen, [100.0, 200.0, 300.0], value)
    assert found.anomalous and words in found.explanation
    assert found.score is not None and found.score > 1
    inside = found.lower if math.isfinite(found.lower) else found.upper
    assert decide(chosen, [100.0, 200.0, 300.0], inside).status == "ok"


@pytest.mark.parametrize("name", ["auto", "batch_normal", "online_normal"])
def test_small_whole_numbers(name: str) -> None:
    chosen = strategy(name)
    assert [decide(chosen, FEW, v).anomalous for v in (0.0, 9.0, 500.0)] == [False, False, True]
    # What was 1 in two of thirty batches is 1 now and then; it was never 6.
    rare = np.zeros(30)
    rare[[9, 20]] = 1
    assert [decide(chosen, rare, v).anomalous for v in (0.0, 1.0, 6.0)] == [False, False, True]


def test_a_zero_where_there_are_ratios_is_one_step_from_the_least() -> None:
    rng = np.random.default_rng(3)
    found = decide(strategy("auto"), np.round(np.exp(rng.normal(0, 1.0, 80)) * 0.05, 2) + 0.01, 0.0)
    assert "as ratios" in found.explanation
    assert not found.anomalous
    # Where the steps are small against the least, 0 is far below it.
    large = 2_000 * np.exp(rng.normal(0, 0.7, 60))
    assert [decide(strategy("auto"), large, v).anomalous for v in (0.0, 1.0)] == [True, True]


def test_shares_that_were_0_and_1_are_no_counts() -> None:
    for usual in (0.0, 1.0):
        history = np.full(90, usual)
        history[40] = 1 - usual
        found = [decide(strategy("auto"), history, v).anomalous for v in (0.5, usual)]
        assert found == [True, False]


def test_gaps_do_not_take_the_newest_values_away() -> None:
    values = np.full(1_460, np.nan)
    values[:731] = 100 + np.random.default_rng(5).normal(0, 1, 731)
    given = AnomalyInput(values, None, 100.0, absent=np.isnan(values))
    (found,) = evaluate_many(strategy("auto"), [given])
    assert (found.status, found.history_size) == ("ok", 730)
    assert 90 < found.lower < found.upper < 110


def test_changes_are_by_batch_and_excluded_batches_take_no_step() -> None:
    # Seen in every other batch.
    seen = np.where(np.arange(200) % 2 == 0, 10.0 * np.arange(200), np.nan)
    chosen = strategy("batch_normal", order=1)
    (found,) = evaluate_many(chosen, [AnomalyInput(seen, None, 2_000.0, absent=np.isnan(seen))])
    assert (found.status, found.expected) == ("ok", pytest.approx(2_000))
    # A counter that stands still at the weekends, which are left out.
    day = np.arange(71)
    steps = np.where(day % 7 < 5, 100 + np.random.default_rng(6).normal(0, 2, 71), 0.0)
    counter, weekend = np.cumsum(steps), day % 7 >= 5
    given = AnomalyInput(counter[:70], None, float(counter[70]), exclude=weekend[:70])
    (found,) = evaluate_many(chosen, [given])
    assert found.status == "ok"

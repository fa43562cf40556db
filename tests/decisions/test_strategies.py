"""Strategies against Deequ's documented examples, statsmodels, and by hand."""

from __future__ import annotations

import math
import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest
from statsmodels.tsa.holtwinters import ExponentialSmoothing
from statsmodels.tsa.seasonal import STL

from dqsql.decisions.anomaly import (
    AnomalyDecision,
    AnomalyInput,
    evaluate,
    evaluate_many,
    strategy,
)
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.seasonal import filled, inflation
from dqsql.decisions.strategies import Strategy
from dqsql.decisions.strategies_holt_winters import HoltWinters

SOON = AnomalySettings(min_history=0)


def anomalies(chosen: Strategy, values: list[float], start: int = 0) -> list[int]:
    """Positions flagged when each value is decided with those before it as history."""
    found = [
        evaluate(chosen, values[:i], None, values[i], settings=SOON).anomalous
        for i in range(start, len(values))
    ]
    return [start + i for i, anomalous in enumerate(found) if anomalous]


# --- Deequ's examples --------------------------------------------------------------------------


class JavaRandom:
    """Gaussian numbers of java.util.Random (which Deequ's examples are made of)."""

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)
        self.spare: float | None = None

    def bits(self, count: int) -> int:
        self.state = (self.state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self.state >> (48 - count)

    def double(self) -> float:
        return ((self.bits(26) << 27) + self.bits(27)) * 2.0**-53

    def gaussian(self) -> float:
        if self.spare is not None:
            value, self.spare = self.spare, None
            return value
        while True:
            one, other = 2 * self.double() - 1, 2 * self.double() - 1
            size = one * one + other * other
            if 0 < size < 1:
                factor = math.sqrt(-2 * math.log(size) / size)
                self.spare = other * factor
                return one * factor


def deequ_normal_data(size: int) -> list[float]:
    random = JavaRandom(1)
    values = [random.gaussian() for _ in range(size)]
    for i in range(20, 31):
        values[i] += i + (i % 2) * -2 * i
    return values


def test_threshold() -> None:
    data = [-1.0, 2.0, 3.0, 0.5]
    assert anomalies(strategy("threshold", upper=1.0), data) == [1, 2]
    assert anomalies(strategy("threshold", lower=-0.5, upper=1.0), data) == [0, 1, 2]


ALTERNATING = [float((i if i % 2 == 0 else -i) if 20 <= i <= 30 else 1) for i in range(51)]
STEPS = [0.0, 1.0, 3.0, 6.0, 18.0, 72.0]


@pytest.mark.parametrize("name", ["absolute_change", "rate_of_change"])
def test_absolute_change(name: str) -> None:
    assert anomalies(strategy(name, -2, 2), ALTERNATING) == list(range(20, 32))
    assert anomalies(strategy(name, upper=1), ALTERNATING) == list(range(20, 31, 2))
    assert anomalies(strategy(name, lower=-1), ALTERNATING) == list(range(21, 32, 2))
    second = strategy(name, max_rate_increase=8, order=2)
    # Second differences: 1, 1, 9, 42.
    assert anomalies(second, STEPS) == [4, 5]
    assert anomalies(strategy(name, -2, 2, order=0), [1.0, -1.0, 4.0, -7.0]) == [2, 3]


@pytest.mark.parametrize(
    ("data", "order", "wanted"),
    [
        ([1.0, 2.0, 4.0, 1.0, 2.0, 8.0], 1, [1.0, 2.0, -3.0, 1.0, 6.0]),
        ([1.0, 2.0, 4.0, 1.0, 2.0, 8.0], 2, [1.0, -5.0, 4.0, 5.0]),
        ([1.0, 5.0, -10.0, 3.0, 100.0, 0.01, 0.0065], 3, [47, 56, -280.99, 296.9765]),
    ],
)
def test_differences_of_higher_order(data: list[float], order: int, wanted: list[float]) -> None:
    chosen = strategy("absolute_change", 0, 0, order=order)
    found = [
        data[i] - evaluate(chosen, data[:i], None, data[i], settings=SOON).expected
        for i in range(order, len(data))
    ]
    assert found == pytest.approx(wanted)


def test_relative_rate_of_change() -> None:
    data = [float(i if 20 <= i <= 30 and i % 2 == 0 else 1) for i in range(51)]
    assert anomalies(strategy("relative_rate_of_change", 0.5, 2), data) == list(range(20, 32))
    assert anomalies(strategy("relative_rate_of_change", upper=1), data) == list(range(20, 31, 2))
    assert anomalies(strategy("relative_rate_of_change", lower=0.5), data) == list(range(21, 32, 2))
    # Two batches back: 3/0 is infinite, 6, 6, 12.
    assert anomalies(strategy("relative_rate_of_change", upper=8, order=2), STEPS) == [2, 5]


def test_relative_rate_of_change_of_negative_values_and_zero() -> None:
    chosen = strategy("relative_rate_of_change", 0.5, 2)
    found = evaluate(chosen, [-10.0], None, -15.0)
    assert (found.lower, found.upper, found.status) == (-20.0, -5.0, "ok")
    assert evaluate(chosen, [0.0], None, 0.0).status == "ok"
    assert evaluate(chosen, [0.0], None, 0.1).anomalous
    assert evaluate(strategy("relative_rate_of_change", upper=2), [0.0], None, -5.0).status == "ok"


def deequ_scan(
    data: list[float], low: float, high: float, skip: float, ignore: bool = True
) -> list[tuple[float, float, bool]]:
    """Deequ's computeStatsAndAnomalies: bounds that decide, and whether a value is flagged."""
    out, mean, squares = [], 0.0, 0.0
    for i, x in enumerate(data):
        before = mean, squares
        mean = x if i == 0 else mean + (x - mean) / (i + 1)
        squares += (x - before[0]) * (x - mean)
        sd = math.sqrt(squares / (i + 1))
        bad = i >= len(data) * skip and not mean - low * sd <= x <= mean + high * sd
        out.append((mean - low * sd, mean + high * sd, bad))
        if bad and ignore:
            mean, squares = before
    return out


def test_online_normal_has_deequs_bounds() -> None:
    data = deequ_normal_data(51)
    published = {
        20: (-14.868489924421404, 14.255383455388895),
        30: (-18.96540323993527, 18.35229677090276),
    }
    scan = deequ_scan(data, 3.5, 3.5, 0.2)
    assert [i for i, (_, _, bad) in enumerate(scan) if bad] == list(range(20, 31))
    # Deequ decides by the mean with the value and reports the mean without it.
    for place, (low, high) in published.items():
        assert (scan[place][1] - scan[place][0]) == pytest.approx(high - low)
    # Only the newest value is searched there, so nothing before it is left out.
    chosen = strategy("online_normal", 3.5, ignore_start=0.2, include_new=True)
    for i in range(2, 51):
        found = evaluate(chosen, data[:i], None, data[i], settings=SOON)
        low, high, bad = deequ_scan(data[: i + 1], 3.5, 3.5, 0.2, ignore=False)[-1]
        assert (found.lower, found.upper) == pytest.approx((low, high))
        assert found.anomalous == bad


def test_online_normal_flags_deequs_anomalies() -> None:
    data = deequ_normal_data(51)
    assert anomalies(strategy("online_normal", 3.5), data, 20) == list(range(20, 31))
    # One side only: what lies beyond the other side is no anomaly, and widens the bounds.
    upper = strategy("online_normal", upper_deviation_factor=1.5)
    assert anomalies(upper, data, 20) == list(range(20, 31, 2))
    lower = strategy("online_normal", lower_deviation_factor=1.5)
    assert anomalies(lower, data, 20) == list(range(21, 31, 2))


def test_online_normal_leaves_anomalies_out() -> None:
    data = [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    chosen = strategy("online_normal", 1.5, ignore_start=0.2)
    found = evaluate(chosen, data[:-1], None, 1.0, settings=SOON)
    assert (found.expected, found.lower, found.upper) == pytest.approx((1.0, 1.0, 1.0))
    assert "1 earlier anomaly left out" in found.explanation
    kept = strategy("online_normal", 1.5, ignore_anomalies=False)
    found = evaluate(kept, data[:-1], None, 1.0, settings=SOON)
    assert found.expected == pytest.approx(np.mean(data[:-1]))
    assert found.upper == pytest.approx(np.mean(data[:-1]) + 1.5 * np.std(data[:-1], ddof=1))


def test_batch_normal_has_deequs_bounds() -> None:
    data = deequ_normal_data(50)
    inside = range(25, 50)
    history = data[:25]
    found = [evaluate(strategy("batch_normal", 1), history, None, data[i]) for i in inside]
    assert (found[0].lower, found[0].upper) == pytest.approx(
        (-9.280850004177061, 10.639954755150061)
    )
    assert [i for i, f in zip(inside, found, strict=True) if f.anomalous] == list(range(25, 31))
    upper = strategy("batch_normal", upper_deviation_factor=1)
    rest = data[:20] + data[31:]
    one = evaluate(upper, rest, None, data[20])
    assert (one.lower, one.upper) == pytest.approx((-math.inf, 0.7781496015857838))


def test_batch_normal_without_variation() -> None:
    for value in (1000.0, 500.0):
        found = evaluate(strategy("batch_normal"), [1.0, 1, 1, 1], None, value, settings=SOON)
        assert found.anomalous
        assert (found.lower, found.upper) == pytest.approx((1.0, 1.0))


def test_batch_normal_with_the_interval() -> None:
    history = [1.0, 2.0, 3.0, 4.0]
    found = evaluate(
        strategy("batch_normal", 1, include_interval=True), history, None, 10.0, settings=SOON
    )
    assert found.expected == pytest.approx(4.0)
    assert found.upper == pytest.approx(4 + np.std([1, 2, 3, 4, 10], ddof=1))


WEEK = [1.0, 1, 1.2, 1.3, 1.5, 2.1, 1.9]


@pytest.mark.parametrize("fit", ["statsmodels", "fast"])
class TestHoltWintersOnDeequsExamples:
    def test_constant(self, fit: str) -> None:
        chosen = strategy("holt_winters", 7, fit=fit)
        assert evaluate(chosen, [1.0] * 20, None, 1.0).status == "ok"
        assert evaluate(chosen, [1.0] * 20, None, 0.0).anomalous

    def test_linear_trend(self, fit: str) -> None:
        chosen, data = strategy("holt_winters", 7, fit=fit), [float(i) for i in range(48)]
        for i in (36, 42, 47):
            found = evaluate(chosen, data[:i], None, data[i])
            assert found.status == "ok"
            assert found.expected == pytest.approx(i, rel=1e-4)

    def test_trend_and_season(self, fit: str) -> None:
        data = [math.sin(2 * math.pi / 7 * t) + t for t in range(48)]
        chosen = strategy("holt_winters", 7, fit=fit)
        for i in (36, 47):
            found = evaluate(chosen, data[:i], None, data[i])
            assert found.expected == pytest.approx(data[i], abs=0.02)

    def test_wrong_training_data(self, fit: str) -> None:
        train = [0.0, 1, 1, 1, 1, 1, 1] * 2
        assert evaluate(strategy("holt_winters", 7, fit=fit), train, None, 1.0).anomalous

    def test_an_anomaly_in_a_noisy_season(self, fit: str) -> None:
        random = JavaRandom(42)
        data = [value + 0.05 * random.gaussian() for value in WEEK * 6]
        chosen = strategy("holt_winters", 7, fit=fit)
        assert evaluate(chosen, data, None, 1.0).status == "ok"
        assert evaluate(chosen, data, None, 2.0).anomalous

    def test_too_short(self, fit: str) -> None:
        found = evaluate(strategy("holt_winters", 7, fit=fit), WEEK, None, 1.0)
        assert (found.status, "14 are needed" in found.explanation) == ("too_little_history", True)


# --- Holt-Winters against statsmodels ----------------------------------------------------------


def season(size: int, seed: int = 0, period: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(size)
    return 100 + 0.2 * t + 10 * np.sin(2 * np.pi * t / period) + rng.normal(0, 1, size)


@pytest.mark.parametrize(
    ("trend", "kind", "period"),
    [
        ("additive", "additive", 7),
        ("additive", "additive", 12),
        ("none", "multiplicative", 4),
        ("multiplicative", "additive", 4),
        ("additive", "multiplicative", 4),
    ],
)
def test_holt_winters_is_statsmodels(trend: str, kind: str, period: int) -> None:
    values = season(30, period=period)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = ExponentialSmoothing(
            values,
            trend=None if trend == "none" else trend,
            seasonal=kind,
            seasonal_periods=period,
        ).fit()
    chosen = strategy("holt_winters", period, trend=trend, seasonal=kind, sd=3)
    found = evaluate(chosen, values, None, 500.0)
    assert found.expected == pytest.approx(reference.forecast(1)[0], rel=1e-12)
    fitted = period - 1 + (3 if trend == "none" else 5)
    width = 3 * np.sqrt(reference.sse / (30 - fitted))
    assert found.upper == pytest.approx(reference.forecast(1)[0] + width)


@pytest.mark.parametrize("trend", ["additive", "none"])
@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_fast_recurrences_are_those_of_statsmodels(trend: str, kind: str) -> None:
    chosen = strategy("holt_winters", 7, trend=trend, seasonal=kind, fit="fast")
    assert isinstance(chosen, HoltWinters)
    y = season(60)
    parameters = np.array([0.3, 0.1, 0.2])
    forecast, errors, sse = chosen.smooth(y[:, None], parameters[:, None, None], keep=True)
    level, slope, seasons = chosen.starting_states(y[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ExponentialSmoothing(
            y,
            trend=None if trend == "none" else trend,
            seasonal=kind,
            seasonal_periods=7,
            initialization_method="known",
            initial_level=level[0],
            initial_trend=None if trend == "none" else slope[0],
            initial_seasonal=seasons[:, 0],
        )
        reference = model.fit(
            smoothing_level=0.3,
            smoothing_trend=None if trend == "none" else 0.1,
            smoothing_seasonal=0.2,
            optimized=False,
        )
    assert forecast[0, 0] == pytest.approx(reference.forecast(1)[0], rel=1e-10)
    assert errors[:, 0, 0] == pytest.approx(reference.resid, abs=1e-9)
    assert sse[0, 0] == pytest.approx(reference.sse)


def test_fast_fits_about_as_well_as_statsmodels() -> None:
    chosen = strategy("holt_winters", 7, fit="fast")
    assert isinstance(chosen, HoltWinters)
    many = np.stack([season(90, seed) for seed in range(4)])
    _, errors = chosen.fast(many)
    for values, error in zip(many, errors, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = ExponentialSmoothing(
                values,
                trend="add",
                seasonal="add",
                seasonal_periods=7,
                initialization_method="heuristic",
            ).fit()
        theirs = np.sqrt(np.mean(np.square(reference.resid[14:])))
        assert np.sqrt(np.mean(np.square(error[14:]))) <= 1.1 * theirs


def test_fast_series_do_not_know_each_other() -> None:
    chosen = strategy("holt_winters", 7, fit="fast")
    inputs = [AnomalyInput(season(50, seed), None, 110.0) for seed in range(5)]
    together = evaluate_many(chosen, inputs)
    alone = [evaluate(chosen, i.values, None, 110.0) for i in inputs]
    assert [t.expected for t in together] == [a.expected for a in alone]


def test_multiplicative_needs_positive_values() -> None:
    values = season(40)
    values[3] = 0
    for fit in ("statsmodels", "fast"):
        chosen = strategy("holt_winters", 7, seasonal="mul", fit=fit)
        found = evaluate(chosen, values, None, 100.0)
        assert (found.status, "above 0" in found.explanation) == ("undecidable", True)


def test_gaps_keep_their_place_in_the_season() -> None:
    assert filled(np.array([1.0, 2, np.nan, 1, np.nan, 3]), 3).tolist() == [1, 2, 3, 1, 2, 3]
    assert filled(np.array([np.nan, 5.0, np.nan]), 7).tolist() == [5, 5, 5]
    values = season(60)
    values[[10, 24, 59]] = np.nan
    for name in ("holt_winters", "stl"):
        more = {"fit": "fast"} if name == "holt_winters" else {}
        found = evaluate(strategy(name, 7, **more), values, None, 112.0)
        whole = evaluate(strategy(name, 7, **more), season(60), None, 112.0)
        assert found.expected == pytest.approx(whole.expected, abs=2)
        assert found.history_size == 57


# --- seasons -----------------------------------------------------------------------------------


def test_stl_by_statsmodels() -> None:
    values = season(70)
    parts = STL(values, period=7).fit()
    found = evaluate(strategy("stl", 7, sd=3), values, None, 0.0)
    assert found.expected == pytest.approx(parts.trend[-1] + parts.seasonal[-7])
    width = 3 * np.sqrt(np.mean(np.square(parts.resid))) * inflation(70, 7)
    assert found.lower == pytest.approx(found.expected - width)
    robust = evaluate(strategy("stl", 7, robust=True), values, None, 0.0)
    assert robust.expected != found.expected


def test_stl_alarms_as_often_as_three_deviations_promise() -> None:
    rng = np.random.default_rng(4)
    flagged = 0
    for _ in range(400):
        values = 10 * np.sin(2 * np.pi * np.arange(71) / 7) + rng.normal(size=71)
        flagged += evaluate(strategy("stl", 7), values[:-1], None, values[-1]).anomalous
    # 0.27 % for normal errors; without the correction of the residuals it were 10 %.
    assert flagged / 400 <= 0.0027 + 4 * math.sqrt(0.0027 / 400)


def test_day_of_week_by_hand() -> None:
    # Four weeks, Mondays 10, 12, 14, 16, other days 100.
    start = datetime(2024, 1, 1)
    times = [start + timedelta(days=i) for i in range(28)]
    values = [float(10 + 2 * (i // 7)) if i % 7 == 0 else 100.0 for i in range(28)]
    monday = start + timedelta(days=28)
    own = evaluate(strategy("day_of_week", 3, spread="slot"), values, times, 13.0, monday)
    sd = np.std([10, 12, 14, 16], ddof=1)
    assert (own.expected, own.history_size) == (13.0, 4)
    assert own.upper == pytest.approx(13 + 3 * sd)
    assert "mean of 4 Mondays" in own.explanation
    # Pooled: squares 9+1+1+9 of Mondays, none of other days; 28 values less 7 means.
    pooled = evaluate(strategy("day_of_week", 3), values, times, 13.0, monday)
    assert pooled.upper == pytest.approx(13 + 3 * math.sqrt(20 / 21))
    tuesday = evaluate(strategy("day_of_week"), values, times, 13.0, monday + timedelta(days=1))
    assert (tuesday.expected, tuesday.status) == (100.0, "anomalous")


def test_own_spread_from_eight_values_on() -> None:
    start = datetime(2024, 1, 1)
    times = [start + timedelta(days=i) for i in range(56)]
    rng = np.random.default_rng(2)
    values = np.array([rng.normal(100, 1 if i % 7 == 6 else 20) for i in range(56)])
    sunday = start + timedelta(days=62)
    found = evaluate(strategy("day_of_week", 3), values, times, 100.0, sunday)
    assert found.upper - found.expected == pytest.approx(3 * np.std(values[6::7], ddof=1))


@pytest.mark.parametrize(
    ("name", "time", "words"),
    [
        ("hour_of_day", datetime(2024, 3, 1, 9), "batches of 09:00"),
        ("hour_of_week", datetime(2024, 3, 1, 9), "Fridays 09:00"),
        ("month", datetime(2024, 3, 1, 9), "batches of March"),
        ("day_of_week", datetime(2024, 3, 1, 9), "Fridays"),
        ("day_of_week", datetime(1969, 12, 31), "Wednesdays"),
    ],
)
def test_slots(name: str, time: datetime, words: str) -> None:
    step = {"month": 1}.get(name, 7)
    times = [time - timedelta(days=step * i) for i in range(1, 20)][::-1]
    values = [5.0] * 19
    chosen = strategy(name)
    found = evaluate(chosen, values, times, 5.0, time)
    if name == "month":
        assert (found.status, "0 earlier" in found.explanation) == ("too_little_history", True)
        times = [time.replace(day=i + 2) for i in range(19)]
        found = evaluate(chosen, values, times, 5.0, time)
    assert found.status == "ok"
    assert words in found.explanation


def test_batches_without_a_time_are_left_out() -> None:
    start = datetime(2024, 1, 1)
    times = [np.datetime64(start + timedelta(days=7 * i), "us") for i in range(10)]
    times[3] = np.datetime64("NaT")
    values = [5.0] * 10
    values[3] = 500.0
    found = evaluate(
        strategy("day_of_week"), values, np.array(times), 5.0, start + timedelta(days=70)
    )
    assert (found.expected, found.history_size) == (5.0, 9)


# --- auto, new levels, differences -------------------------------------------------------------


def daily(values: np.ndarray, name: str = "auto", **more: object) -> list[AnomalyDecision]:
    """Decisions on the values from the thirtieth on, each after all before it."""
    times = np.datetime64("2024-01-01", "us") + np.arange(values.size) * np.timedelta64(1, "D")
    asked = [
        AnomalyInput(values[:t], times[:t], values[t], times[t]) for t in range(30, values.size)
    ]
    return evaluate_many(strategy(name, **more), asked)


@pytest.mark.parametrize(("name", "most"), [("auto", 8), ("online_normal", 8)])
def test_a_new_level_ends_its_alarms(name: str, most: int) -> None:
    # online_normal left what it called anomalies out for ever: 99.6 % alarms after a step.
    values = 100 + np.random.default_rng(1).normal(size=120)
    values[60:] += 15
    flagged = [d.anomalous for d in daily(values, name)]
    assert flagged[30]
    assert not any(flagged[:30])
    assert sum(flagged) <= most
    assert not any(flagged[40:])


def test_auto_tells_what_it_found() -> None:
    rng, day = np.random.default_rng(2), np.arange(84)
    week = 20 * np.sin(2 * np.pi * np.arange(7) / 7)
    season = 100 + week[day % 7] + rng.normal(size=84)
    cases = {
        "season by weekday": season,
        "trend": 100 + day + rng.normal(size=84),
        "as ratios": np.exp(0.03 * day + 0.05 * rng.normal(size=84)),
    }
    for words, values in cases.items():
        last = daily(values)[-1]
        assert last.status == "ok"
        for word in words.split(", "):
            assert word in last.explanation, (words, last.explanation)


def test_auto_sees_what_the_season_hides() -> None:
    rng, day = np.random.default_rng(3), np.arange(71)
    values = np.where(day % 7 >= 5, 20.0, 100.0) + rng.normal(size=71)
    assert (day[70] % 7, daily(values)[-1].status) == (0, "ok")
    values[70] = 20
    assert daily(values)[-1].status == "anomalous"


def test_auto_on_a_constant_metric() -> None:
    ones = np.ones(60)
    assert daily(ones)[-1].status == "ok"
    for value, status in ((0.995, "ok"), (0.95, "anomalous"), (1.1, "anomalous")):
        ones[-1] = value
        assert daily(ones)[-1].status == status


def test_an_outlier_does_not_train_auto() -> None:
    values = 100 + np.random.default_rng(4).normal(size=61)
    values[59] = 500
    last = daily(values)[-1]
    assert last.status == "ok"
    assert last.expected == pytest.approx(100, abs=1)
    assert last.upper < 120


@pytest.mark.parametrize("name", ["auto", "batch_normal", "online_normal", "day_of_week"])
def test_differences_before_a_strategy(name: str) -> None:
    day = np.arange(90)
    values = 1000 + 50.0 * day + np.random.default_rng(5).normal(size=90)
    last = daily(values, name, order=1)[-1]
    assert last.status == "ok"
    assert last.expected == pytest.approx(1000 + 50 * 89, abs=5)
    assert "of differences" in last.explanation
    values[-1] = values[-2]
    assert daily(values, name, order=1)[-1].status == "anomalous"


def test_differences_by_hand() -> None:
    # Changes 1, 2, 1, 2, 1, 2, 1, 2: their mean 1.5 after 12; changes of changes 1, -1, ..: 0 + 2.
    values = [0.0, 1, 3, 4, 6, 7, 9, 10, 12]
    once = evaluate(strategy("batch_normal", 3, order=1), values, None, 13.0, settings=SOON)
    assert once.expected == pytest.approx(13.5)
    twice = evaluate(strategy("batch_normal", 3, order=2), values, None, 13.0, settings=SOON)
    assert twice.expected == pytest.approx(12 + 2 + 1 / 7)


def test_auto_with_several_batches_a_day_tells_what_is_far_or_rare() -> None:
    rng, hour = np.random.default_rng(6), np.arange(24 * 28 + 13)
    values = 1000 + 500 * np.sin(2 * np.pi * hour / 24) + 20 * rng.normal(size=hour.size)
    times = np.datetime64("2024-01-01", "us") + hour * np.timedelta64(1, "h")

    def status(newest: float, **more: object) -> str:
        asked = AnomalyInput(values[:-1], times[:-1], newest, times[-1])
        return evaluate_many(strategy("auto", **more), [asked])[0].status

    usual = 1000 + 500 * np.sin(2 * np.pi * hour[-1] / 24)
    assert status(usual) == "ok"
    # A miss of four deviations is rare, but small for a metric that goes up and down so far.
    small = usual + 4 * 20
    assert (status(small), status(small, fpr=0.0027)) == ("ok", "anomalous")
    assert status(1000 + 6 * values.std()) == "anomalous"
    # Every night has it, but no noon.
    assert status(500.0) == "anomalous"


def test_a_value_below_zero_is_not_infinitely_far_from_small_ones() -> None:
    chosen = strategy("auto")
    history = np.random.default_rng(5).lognormal(1.5, 1.3, 200)
    assert not evaluate(chosen, history, None, -0.4).anomalous
    # Ratios hold for all others.
    assert evaluate(chosen, history, None, 1e5).anomalous
    assert evaluate(chosen, np.random.default_rng(5).lognormal(5, 0.2, 200), None, -40.0).anomalous

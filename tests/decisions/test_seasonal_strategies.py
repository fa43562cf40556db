"""Strategies that know a season, against statsmodels and by hand."""

from __future__ import annotations

import math
import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest
from statsmodels.tsa.holtwinters import ExponentialSmoothing
from statsmodels.tsa.seasonal import STL

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many, strategy
from dqsql.decisions.seasonal import filled, inflation
from dqsql.decisions.strategies import Strategy
from dqsql.decisions.strategies_holt_winters import HoltWinters
from tests.decisions.one_value import evaluate

# --- Holt-Winters ------------------------------------------------------------------------------


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
            values, trend=None if trend == "none" else trend, seasonal=kind, seasonal_periods=period
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


# --- other seasons -----------------------------------------------------------------------------


def test_gaps_in_what_grows_are_filled_by_what_has_grown() -> None:
    values = 10.0 * np.arange(21) + np.tile([0, 3, 0, 0, 1, 0, 0], 3)
    gapped = values.copy()
    gapped[[2, 9, 19]] = np.nan
    assert filled(gapped, 7).tolist() == values.tolist()


GROWING = [
    strategy("auto"),
    strategy("auto", order=1),
    strategy("batch_normal", order=1),
    strategy("batch_normal", order=2),
    strategy("holt_winters", 7),
    strategy("holt_winters", 7, fit="fast"),
    strategy("stl", 7),
]


def test_a_trend_outlives_a_gap() -> None:
    def basis(seed: int, gap: int) -> str:
        steps = np.random.default_rng(seed).normal(0, 4, 21)
        values = np.concatenate(
            [300 + 4.0 * np.arange(21) + np.cumsum(steps), np.full(gap, np.nan)]
        )
        given = AnomalyInput(values, None, 300.0, absent=np.isnan(values))
        (found,) = evaluate_many(strategy("auto"), [given])
        return "trend" if "trend" in found.explanation else "level"

    assert [basis(seed, 12) for seed in range(8)] == [basis(seed, 0) for seed in range(8)]
    assert {basis(seed, 12) for seed in range(8)} == {"trend", "level"}


@pytest.mark.parametrize("chosen", GROWING, ids=str)
def test_what_grows_has_grown_while_a_bad_batch_was_left_out(chosen: Strategy) -> None:
    values = 10_000 + 100 * np.arange(45) + np.random.default_rng(1).normal(0, 5, 45)
    values[30] = 5_000
    absent = np.zeros(45, dtype=bool)
    assert chosen.keeps_places
    # Its maximum likelihood is searched anew each time.
    slow = chosen.name == "holt_winters" and chosen.fit != "fast"
    for k in (28, 29, 30, 31, 44) if slow else range(28, 45):
        given = AnomalyInput(values[:k], None, values[k], absent=absent[:k])
        (found,) = evaluate_many(chosen, [given])
        assert found.anomalous == (k == 30), (k, found.explanation)
        absent[k] = found.anomalous


def test_gaps_before_a_multiplicative_season_are_filled_by_factors() -> None:
    values = 10 * np.exp(0.12 * np.arange(35)) * np.where(np.arange(35) % 7 < 5, 1.0, 0.3)
    absent = np.arange(35) == 5
    for chosen in (
        strategy("holt_winters", 7, seasonal="multiplicative"),
        strategy("holt_winters", 7, trend="multiplicative"),
    ):
        (found,) = evaluate_many(chosen, [AnomalyInput(values, None, 600.0, absent=absent)])
        assert found.status in ("ok", "anomalous")


def test_stl_by_statsmodels() -> None:
    values = season(70)
    parts = STL(values, period=7).fit()
    found = evaluate(strategy("stl", 7, sd=3), values, None, 0.0)
    slope = (parts.trend[-1] - parts.trend[-8]) / 7
    assert found.expected == pytest.approx(parts.trend[-1] + slope + parts.seasonal[-7])
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
    times[3] = np.datetime64("NaT", "us")
    values = [5.0] * 10
    values[3] = 500.0
    found = evaluate(
        strategy("day_of_week"), values, np.array(times), 5.0, start + timedelta(days=70)
    )
    assert (found.expected, found.history_size) == (5.0, 9)

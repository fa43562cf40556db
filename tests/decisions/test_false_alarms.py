"""How often strategies alarm on good values when the user says nothing about the bounds.

Seeds are fixed; the number of alarms of independent decisions is binomial.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dqsql.decisions.anomaly import AnomalyInput, evaluate, evaluate_many, strategy
from dqsql.decisions.strategies import DEFAULT_DEVIATIONS, Strategy, default_width

# Two sides of a normal distribution beyond three standard deviations.
NOMINAL = 2 * stats.norm.sf(DEFAULT_DEVIATIONS)
HISTORY = [98.0, 99, 100, 101, 102, 103, 97, 100, 101, 99]


def alarms(chosen: Strategy, history: int, series: int, week: float = 0.0) -> float:
    """Share of values flagged that are like the history: normal, with a weekly rhythm if any."""
    rng = np.random.default_rng(history)
    values = 100 + rng.normal(size=(series, history + 1))
    values += week * np.sin(2 * np.pi * np.arange(history + 1) / 7)
    times = np.datetime64("2024-01-01", "us") + np.arange(history + 1) * np.timedelta64(1, "D")
    asked = [AnomalyInput(row[:-1], times[:-1], row[-1], times[-1]) for row in values]
    return float(np.mean([d.anomalous for d in evaluate_many(chosen, asked)]))


def error(series: int) -> float:
    """Standard error of a share of `series` alarms at the nominal rate."""
    return math.sqrt(NOMINAL * (1 - NOMINAL) / series)


def test_default_bounds_are_students_prediction_interval() -> None:
    sd, quantile = np.std(HISTORY, ddof=1), stats.t(9).ppf(1 - NOMINAL / 2)
    found = evaluate(strategy("batch_normal"), HISTORY, None, 100.0)
    assert found.upper == pytest.approx(100 + quantile * math.sqrt(1 + 1 / 10) * sd)
    assert found.lower == pytest.approx(200 - found.upper)
    given = evaluate(strategy("batch_normal", 3), HISTORY, None, 100.0)
    assert given.upper == pytest.approx(100 + 3 * sd)
    assert default_width(1e6, 0) == pytest.approx(3, abs=1e-4)
    assert default_width(math.inf, 0) == 3


def test_deequs_arithmetic_keeps_three_deviations() -> None:
    for name in ("batch_normal", "online_normal"):
        free = evaluate(strategy(name, include_new=True), HISTORY, None, 101.0)
        given = evaluate(strategy(name, 3, include_new=True), HISTORY, None, 101.0)
        assert (free.lower, free.upper) == (given.lower, given.upper)


@pytest.mark.parametrize("name", ["batch_normal", "online_normal"])
@pytest.mark.parametrize("history", [8, 14, 30])
def test_short_histories_alarm_as_often_as_long_ones(name: str, history: int) -> None:
    series = 4_000
    found = alarms(strategy(name), history, series)
    # Leaving earlier anomalies out makes the spread of online_normal a little too small.
    most = 1.4 * NOMINAL if name == "online_normal" else NOMINAL
    assert NOMINAL - 3 * error(series) <= found <= most + 3 * error(series)
    if history == 8:
        # Three deviations of so few values promise nothing.
        assert alarms(strategy(name, 3), history, series) > 4 * NOMINAL


@pytest.mark.parametrize("history", [21, 28, 42])
def test_seasonal_baselines_with_few_weeks(history: int) -> None:
    series = 2_000
    found = alarms(strategy("day_of_week"), history, series, week=10)
    assert NOMINAL - 3 * error(series) <= found <= NOMINAL + 3 * error(series)


@pytest.mark.parametrize(("history", "series"), [(14, 2_000), (21, 2_000), (28, 2_000)])
def test_holt_winters_with_few_seasons(history: int, series: int) -> None:
    chosen = strategy("holt_winters", 7, fit="fast")
    assert alarms(chosen, history, series, week=10) <= NOMINAL + 3 * error(series)


def test_stl_with_few_seasons() -> None:
    series = 400
    assert alarms(strategy("stl", 7), 21, series, week=10) <= NOMINAL + 3 * error(series)


def test_rates_count_how_few_values_a_slot_has() -> None:
    # Three values of the weekday: the mean of three is more uncertain than that of 21.
    rng = np.random.default_rng(1)
    times = np.datetime64("2024-01-01", "us") + np.arange(22) * np.timedelta64(1, "D")
    values = 100 + rng.normal(size=22)
    chosen = strategy("day_of_week", fpr=0.01)
    found = evaluate(chosen, values[:-1], times[:-1], values[-1], times[-1])
    edge = evaluate(chosen, values[:-1], times[:-1], found.upper, times[-1])
    assert edge.p_value == pytest.approx(0.01)

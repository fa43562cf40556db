"""How often strategies alarm on good values when the user says nothing about the bounds.

Seeds are fixed; the number of alarms of independent decisions is binomial.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dqsql.decisions.anomaly import AnomalyInput, evaluate, evaluate_many, strategy
from dqsql.decisions.novelty import decide_novelty
from dqsql.decisions.novelty_config import NoveltyConfig, novelty_config
from dqsql.decisions.novelty_metrics import Feature
from dqsql.decisions.novelty_rate import (
    distances_to_others,
    ranges_without_each,
    threshold_of_rate,
)
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


# --- novelty -----------------------------------------------------------------------------------


def novelties(config: NoveltyConfig, history: int, count: int, batches: int) -> float:
    """Share of batches flagged that are like the history: independent normal metrics."""
    features = [Feature("c", f"m{i}") for i in range(count)]
    rng = np.random.default_rng(history)
    found = 0
    for _ in range(batches):
        rows = 100 + rng.normal(size=(history + 1, count))
        found += decide_novelty(features, rows[:-1], rows[-1], config).status == "anomalous"
    return found / batches


@pytest.mark.parametrize("mode", ["subspace", "paper"])
@pytest.mark.parametrize("history", [10, 20])
def test_a_rate_of_novelty_is_kept_with_short_histories(mode: str, history: int) -> None:
    batches, rate = 250, 0.01
    promised = novelties(novelty_config(mode=mode, fpr=rate), history, 20, batches)
    # Beyond the range of so few batches it is a model, which may be off by a factor of three.
    assert promised <= 3 * rate + 3 * math.sqrt(3 * rate / batches)
    # The contamination of the paper is no such promise.
    assert novelties(novelty_config(mode=mode), history, 20, batches) > promised + 0.04


def test_a_rate_of_novelty_still_finds_errors() -> None:
    rng = np.random.default_rng(3)
    features = [Feature("c", f"m{i}") for i in range(20)]
    rows = 100 + rng.normal(size=(21, 20))
    rows[-1, 7] = 115
    found = decide_novelty(features, rows[:-1], rows[-1], novelty_config(fpr=0.001))
    assert found.status == "anomalous"
    assert found.contributions[0].feature == features[7]
    rows[-1, 7] = np.inf
    assert decide_novelty(features, rows[:-1], rows[-1], novelty_config(fpr=0.001)).score == np.inf


def test_constant_metrics_and_a_rate() -> None:
    features = [Feature("c", "completeness"), Feature("d", "completeness")]
    rows = np.ones((12, 2))
    config = novelty_config(fpr=0.001)
    assert decide_novelty(features, rows, [1.0, 1.0], config).status == "ok"
    assert decide_novelty(features, rows, [1.0, 0.9], config).status == "anomalous"


def test_ranges_without_each() -> None:
    rows = np.random.default_rng(5).normal(size=(6, 4))
    rows[:, 3] = 2.0
    for i, found in enumerate(ranges_without_each(rows)):
        assert found == pytest.approx(np.ptp(np.delete(rows, i, axis=0), axis=0))
    far = distances_to_others(rows, np.ones_like(rows), 5, 2.0)
    assert far[0] == pytest.approx(np.sort(np.linalg.norm(rows[1:] - rows[0], axis=1)))


def test_thresholds_of_rates() -> None:
    distances = np.array([1.0, 2.0, 1.5, 1.2, 1.1, 1.3, 1.4, 1.6, 1.7, 1.8])
    # Two of eleven places lie above the ninth of ten.
    assert threshold_of_rate(distances, 2 / 11) == 1.8
    logs, size = np.log(distances), distances.size
    wanted = logs.mean() + stats.t(9).ppf(0.99) * np.sqrt(1 + 1 / size) * logs.std(ddof=1)
    assert threshold_of_rate(distances, 0.01) == pytest.approx(math.exp(wanted))
    # Below one in K + 1 never within what was seen.
    assert threshold_of_rate(np.array([1.0] * 9 + [50.0]), 0.05) >= 50
    assert threshold_of_rate(np.zeros(9), 0.05) == 0

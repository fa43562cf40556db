"""How often strategies alarm on good values when the user says nothing about the bounds.

Seeds are fixed; the number of alarms of independent decisions is binomial.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many, strategy
from dqsql.decisions.novelty import decide_novelty
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, novelty_config
from dqsql.decisions.strategies import DEFAULT_DEVIATIONS, Strategy
from tests.benchmarks.false_alarms import FAMILIES, Maker, days, strategy_alarms
from tests.decisions.one_value import evaluate

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


def test_deequs_arithmetic_keeps_three_deviations() -> None:
    for name in ("batch_normal", "online_normal"):
        free = evaluate(strategy(name, include_new=True), HISTORY, None, 101.0)
        given = evaluate(strategy(name, 3, include_new=True), HISTORY, None, 101.0)
        assert (free.lower, free.upper) == (given.lower, given.upper)


@pytest.mark.parametrize("name", ["auto", "batch_normal", "online_normal"])
@pytest.mark.parametrize("history", [8, 14, 30])
def test_short_histories_alarm_no_more_often_than_long_ones(name: str, history: int) -> None:
    series = 2_000
    assert alarms(strategy(name), history, series) <= 1.5 * NOMINAL + 3 * error(series)
    if history == 8 and name != "auto":
        # Three deviations of so few values promise nothing.
        assert alarms(strategy(name, 3), history, series) > 4 * NOMINAL


@pytest.mark.parametrize("history", [21, 28, 42])
def test_seasonal_baselines_with_few_weeks(history: int) -> None:
    series = 2_000
    found = alarms(strategy("day_of_week"), history, series, week=10)
    assert found <= 1.5 * NOMINAL + 3 * error(series)


def test_weekdays_of_one_spread_share_what_they_tell_of_tails() -> None:
    # By the ten values of its own weekday, a band of 1 % was six deviations wide: alarms at 0.1 %.
    found = [alarms(strategy("day_of_week", fpr=0.01), n, 500, week=10) for n in (63, 70, 120)]
    assert 0.004 <= np.mean(found) <= 0.015


@pytest.mark.parametrize("noise", [1.5, 2.0, 3.0])
def test_a_noisier_weekend_keeps_the_rate_by_itself(noise: float) -> None:
    rng, times, series = np.random.default_rng(5), days(105), 300
    weekend = np.arange(105) % 7 >= 5
    values = 100 + rng.normal(size=(series, 105)) * np.where(weekend, noise, 1.0)
    chosen = strategy("day_of_week", fpr=0.01)
    found = []
    for place in (76, 83, 90, 97, 104):
        asked = [AnomalyInput(v[:place], times[:place], v[place], times[place]) for v in values]
        found += [d.anomalous for d in evaluate_many(chosen, asked)]
    assert weekend[place]
    assert np.mean(found) <= 1.5 * 0.01


@pytest.mark.parametrize(("history", "series"), [(14, 2_000), (21, 2_000), (28, 2_000)])
def test_holt_winters_with_few_seasons(history: int, series: int) -> None:
    chosen = strategy("holt_winters", 7, fit="fast")
    assert alarms(chosen, history, series, week=10) <= 1.5 * NOMINAL + 3 * error(series)


def test_stl_with_few_seasons() -> None:
    series = 400
    assert alarms(strategy("stl", 7), 21, series, week=10) <= 1.5 * NOMINAL + 3 * error(series)


def test_rates_count_how_few_values_a_slot_has() -> None:
    # Three values of the weekday: the mean of three is more uncertain than that of 21.
    rng = np.random.default_rng(1)
    times = np.datetime64("2024-01-01", "us") + np.arange(22) * np.timedelta64(1, "D")
    values = 100 + rng.normal(size=22)
    chosen = strategy("day_of_week", fpr=0.01)
    found = evaluate(chosen, values[:-1], times[:-1], values[-1], times[-1])
    edge = evaluate(chosen, values[:-1], times[:-1], found.upper, times[-1])
    assert edge.p_value == pytest.approx(0.01, rel=1e-3)


# --- novelty -----------------------------------------------------------------------------------


def novelties(config: NoveltyConfig, history: int, batches: int, make: Maker) -> float:
    """Share of batches flagged that are like the history, of twelve metrics."""
    features = [Feature(f"c{i}", "mean") for i in range(12)]
    rng, found = np.random.default_rng(history), 0
    times = days(history + 1)
    for _ in range(batches):
        rows = make(rng, 12, history + 1).T
        found += decide_novelty(features, rows[:-1], rows[-1], config, times).status == "anomalous"
    return found / batches


@pytest.mark.parametrize("history", [8, 20, 60])
@pytest.mark.parametrize("family", ["normal", "AR(1) 0.6", "trend", "heavy tails", "shares"])
def test_novelty_keeps_its_rate_from_the_first_batch_on(family: str, history: int) -> None:
    # A quantile of the history's own distances flagged 13 to 31 %.
    batches, rate = 60, novelty_config().rate
    found = novelties(novelty_config(), history, batches, FAMILIES[family])
    assert found <= 1.5 * rate + 3 * math.sqrt(1.5 * rate / batches)


def test_novelty_finds_errors_at_its_rate() -> None:
    rng = np.random.default_rng(3)
    features = [Feature("c", f"m{i}") for i in range(20)]
    rows = 100 + rng.normal(size=(21, 20))
    rows[-1, 7] = 115
    found = decide_novelty(features, rows[:-1], rows[-1], novelty_config(fpr=0.01))
    assert found.status == "anomalous"
    assert found.contributions[0].feature == features[7]
    rows[-1, 7] = np.inf
    assert decide_novelty(features, rows[:-1], rows[-1], novelty_config(fpr=0.001)).score == np.inf


def test_a_rare_value_that_is_missing_for_once_is_no_novelty() -> None:
    features = [Feature("c", "approx_count_distinct"), Feature("d", "mean")]
    rows = np.column_stack([np.full(12, 3.0), 100 + np.random.default_rng(2).normal(size=12)])
    config = novelty_config(fpr=0.02)
    assert decide_novelty(features, rows, [2.0, 100.0], config).status == "ok"
    assert decide_novelty(features, rows, [4.0, 100.0], config).status == "anomalous"
    assert decide_novelty(features, rows, [9.0, 100.0], config).status == "anomalous"
    other = [Feature("c", "completeness"), features[1]]
    assert decide_novelty(other, rows, [2.0, 100.0], config).status == "anomalous"


def test_constant_metrics_and_a_rate() -> None:
    features = [Feature("c", "completeness"), Feature("d", "completeness")]
    rows = np.ones((12, 2))
    config = novelty_config(fpr=0.001)
    assert decide_novelty(features, rows, [1.0, 1.0], config).status == "ok"
    assert decide_novelty(features, rows, [1.0, 0.9], config).status == "anomalous"


# --- the bench ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_default_strategy_keeps_its_rate(family: str) -> None:
    found = strategy_alarms("auto", family, 0.01, 60, (60, 150))
    assert found.rate <= 1.5 * 0.01 + 3 * math.sqrt(1.5 * 0.01 / found.decided)
    if family != "shares":
        assert found.alarms > 0
    # An alarm at a step is right, and ends when it has been learned.
    assert (found.learning > 0) == (family == "step")


def test_heavy_tails_do_not_break_the_default_rate() -> None:
    # Three deviations of such values are 1.4 to 2.8 % of them.
    for name in ("auto", "batch_normal"):
        found = strategy_alarms(name, "heavy tails", None, 30, (100, 200))
        promised = strategy(name).rate
        assert promised is not None
        assert found.rate <= 1.5 * promised + 3 * math.sqrt(1.5 * promised / found.decided)


SEASONAL = ("day_of_week", "holt_winters", "stl")
EACH_ONCE = [
    pytest.param(name, family, marks=[] if (i + j) % 3 == 0 else [pytest.mark.slow])
    for i, name in enumerate(SEASONAL)
    for j, family in enumerate(FAMILIES)
]


@pytest.mark.parametrize(("name", "family"), EACH_ONCE)
def test_seasonal_strategies_keep_their_rate(name: str, family: str) -> None:
    found = strategy_alarms(name, family, 0.01, 60, (60, 150))
    assert found.rate <= 1.5 * 0.01 + 3 * math.sqrt(1.5 * 0.01 / found.decided)
    assert (found.learning > 0) == (family == "step")


@pytest.mark.parametrize("chance", [0.005, 0.02, 0.05])
def test_counts_that_are_rarely_off_by_one_keep_the_rate(chance: float) -> None:
    # Of these, 9 to 51 % were flagged at a promise of 5 %.
    found = []
    for seed in range(5):
        rng = np.random.default_rng([seed, round(1000 * chance)])
        odds = [chance / 2, 1 - chance, chance / 2]
        values = rng.choice([-1.0, 0.0, 1.0], p=odds, size=(120, 12))
        features = [Feature(f"c{i}", "max") for i in range(12)]
        for place in range(8, 120, 9):
            past, new = values[:place], values[place]
            decided = decide_novelty(features, past, new, None, days(place + 1))
            found.append(decided.status == "anomalous")
    assert np.mean(found) <= 0.05


def test_larger_jumps_and_zeros_that_never_moved_are_still_seen() -> None:
    features = [Feature(f"c{i}", "max") for i in range(12)]
    values = np.zeros((60, 12))
    values[20, 3], values[40, 5] = 1.0, -1.0
    new = np.zeros(12)
    new[3] = 8.0
    assert decide_novelty(features, values, new, None, days(61)).status == "anomalous"
    new[3] = -1.0
    assert decide_novelty(features, values, new, None, days(61)).status == "ok"
    values[:], new[3] = 0.0, 1.0
    assert decide_novelty(features, values, new, None, days(61)).status == "anomalous"


def test_what_was_warned_of_hides_nothing_worse() -> None:
    draw = np.random.default_rng(1)
    shares = draw.lognormal(np.log(0.003), 0.15, 60)
    others = draw.normal(1000, 10, (60, 10))
    names = [Feature("a", "most_frequent_ratio"), *(Feature(f"c{i}", "mean") for i in range(10))]
    history = np.column_stack([shares, others])
    history[40, 0] = 0.02
    warned, config = np.arange(60) == 40, novelty_config(fpr=0.01)

    def p_value(share: float, warned: np.ndarray | None) -> float:
        new = [share, *np.full(10, 1000.0)]
        return decide_novelty(names, history, new, config, None, None, warned).p_value

    assert p_value(0.006, None) > 0.1
    assert p_value(0.006, warned) < 0.05
    assert p_value(0.02, warned) < p_value(0.02, None) / 5
    # Batches that are left out say nothing of others.
    history[[10, 11]], warned[[10, 11]] = np.nan, True
    assert p_value(0.006, warned) < 0.05
    # Three times are usual.
    history[[45, 50], 0] = 0.02
    warned[[45, 50]] = True
    assert p_value(0.02, warned) == p_value(0.02, None)

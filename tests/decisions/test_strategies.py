"""What `auto` chooses, new levels of a metric, and differences before a strategy."""

from __future__ import annotations

import numpy as np
import pytest

from dqsql.decisions.anomaly import AnomalyDecision, AnomalyInput, evaluate_many, strategy
from dqsql.decisions.anomaly_settings import AnomalySettings
from tests.decisions.one_value import evaluate


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


@pytest.mark.parametrize(("place", "times"), [(0, 5), (0, 100), (5, 5), (15, 5), (29, 5)])
def test_a_lone_value_does_not_make_auto_blind(place: int, times: float) -> None:
    """Wherever it is: the first batch of a table is often all that there was before."""
    outages = []
    for seed in range(10):
        values = np.random.default_rng(seed).poisson(500, 31).astype(float)
        values[place] *= times
        values[30] = 0
        outages += daily(values)
    assert sum(found.anomalous for found in outages) == 10


def test_what_recurs_is_not_lone() -> None:
    values = np.full(33, 100.0) + np.random.default_rng(3).normal(size=33)
    values[[4, 11, 18, 25, 32]] = 500
    assert daily(values)[-1].status == "ok"


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
    settings = AnomalySettings(min_history=0)
    once = evaluate(strategy("batch_normal", 3, order=1), values, None, 13.0, settings=settings)
    assert once.expected == pytest.approx(13.5)
    twice = evaluate(strategy("batch_normal", 3, order=2), values, None, 13.0, settings=settings)
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


@pytest.mark.parametrize("length", [12, 25, 40])
def test_a_series_is_judged_alike_alone_and_beside_longer_ones(length: int) -> None:
    rng = np.random.default_rng(length)
    until = np.datetime64("2024-12-31")

    def series(values: np.ndarray, new: float) -> AnomalyInput:
        days = [until - np.timedelta64(len(values) - i, "D") for i in range(len(values))]
        return AnomalyInput(values, days, new, until)

    long = series(rng.poisson(1_000, 365).astype(float), 1_000.0)
    for _ in range(40):
        values = rng.poisson(100, length).astype(float)
        values[rng.choice(np.arange(3, length - 1), 3, replace=False)] = 400
        short = series(values, float(rng.choice([0, 40, 100, 200])))
        alone = evaluate_many(strategy("auto"), [short])[0]
        beside = evaluate_many(strategy("auto"), [short, long])[0]
        assert alone.status is beside.status
        assert [alone.lower, alone.upper] == pytest.approx([beside.lower, beside.upper], rel=1e-9)

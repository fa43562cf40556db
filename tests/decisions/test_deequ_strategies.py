"""Strategies against Deequ's documented examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dqsql.decisions.anomaly import strategy
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.strategies import Strategy
from tests.decisions.one_value import evaluate

SOON = AnomalySettings(min_history=0)


def anomalies(chosen: Strategy, values: list[float], start: int = 0) -> list[int]:
    """Positions flagged when each value is decided with those before it as history."""
    found = [
        evaluate(chosen, values[:i], None, values[i], settings=SOON).anomalous
        for i in range(start, len(values))
    ]
    return [start + i for i, anomalous in enumerate(found) if anomalous]


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


def test_online_normal_leaves_out_early_anomalies_where_it_is_told_to() -> None:
    data = np.random.default_rng(1).normal(100, 1, 60)
    data[3] = 300
    told = evaluate(strategy("online_normal", 3, ignore_start=0), data, None, 130.0, settings=SOON)
    assert told.anomalous
    assert "left out" in told.explanation
    # By itself it trusts the first ones.
    assert not evaluate(strategy("online_normal", 3), data, None, 130.0, settings=SOON).anomalous


@pytest.mark.parametrize(
    ("name", "limit", "old", "new", "further"),
    [
        ("relative_rate_of_change", {"upper": 1.15}, 100, 115, 116),
        ("relative_rate_of_change", {"lower": 0.55}, 100, 55, 54),
        ("absolute_change", {"upper": 0.1}, 0.7, 0.8, 0.8001),
        ("absolute_change", {"lower": -0.1}, 0.8, 0.7, 0.6999),
    ],
)
def test_a_change_as_large_as_its_limit_is_fine(
    name: str, limit: dict[str, float], old: float, new: float, further: float
) -> None:
    chosen = strategy(name, **limit)
    assert not evaluate(chosen, [old], None, new, settings=SOON).anomalous
    assert evaluate(chosen, [old], None, further, settings=SOON).anomalous


def test_a_change_that_is_said_to_be_small_is_fine() -> None:
    settings = AnomalySettings(min_history=0, ignore_absolute=0.1)
    chosen = strategy("absolute_change", upper=0.01)
    assert not evaluate(chosen, [0.7], None, 0.8, settings=settings).anomalous
    assert evaluate(chosen, [0.7], None, 0.81, settings=settings).anomalous

"""Bounds on the false-positive rate: their formulas, and the realised rate by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dqsql.decisions import bounds as b
from dqsql.errors import DecisionError

RUNS = 20_000
Sampler = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, runs: int, size: int) -> np.ndarray:
    return rng.normal(size=(runs, size))


def heavy(rng: np.random.Generator, runs: int, size: int) -> np.ndarray:
    return rng.standard_t(3, size=(runs, size))


def skewed(rng: np.random.Generator, runs: int, size: int) -> np.ndarray:
    return rng.exponential(size=(runs, size))


def discrete(rng: np.random.Generator, runs: int, size: int) -> np.ndarray:
    return rng.poisson(4.0, size=(runs, size)).astype(float)


def autocorrelated(rng: np.random.Generator, runs: int, size: int) -> np.ndarray:
    x = rng.normal(size=(runs, size))
    for t in range(1, size):
        x[:, t] = 0.5 * x[:, t - 1] + np.sqrt(0.75) * x[:, t]
    return x


def realised(sampler: Sampler, history: int, rate: float) -> float:
    """Return how often the tightest affordable upper threshold is broken by a good value."""
    rng = np.random.default_rng(12345)
    x = sampler(rng, RUNS, history + 1)
    past, new = x[:, :-1], x[:, -1]
    mean, sd = past.mean(axis=1), past.std(axis=1, ddof=1)
    ok = sd > 0
    past, new, mean, sd = past[ok], new[ok], mean[ok], sd[ok]
    k = np.geomspace(0.5, 200, 400)
    extreme = (past.max(axis=1) - mean) / sd
    fpr = b.calibrated_fpr(k[None, :], history, extreme[:, None], b.tail_dof(history, "mean"))
    first = (fpr <= rate).argmax(axis=1)
    return float(np.mean(new > mean + k[first] * sd))


@pytest.mark.parametrize("history", [8, 14, 30])
@pytest.mark.parametrize("sampler", [normal, discrete])
@pytest.mark.parametrize("rate", [0.005, 0.01, 0.05])
def test_light_tails_keep_the_promise(sampler: Sampler, history: int, rate: float) -> None:
    noise = 3 * np.sqrt(rate / RUNS)
    assert realised(sampler, history, rate) <= rate + noise


@pytest.mark.parametrize("history", [8, 14, 30])
@pytest.mark.parametrize("sampler", [heavy, skewed, autocorrelated])
@pytest.mark.parametrize("rate", [0.005, 0.01, 0.05])
def test_hostile_histories_stay_within_three_times_the_rate(
    sampler: Sampler, history: int, rate: float
) -> None:
    assert realised(sampler, history, rate) <= 3 * rate


def test_student_interval_is_exact_for_normal_values() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, 9))
    z = (x[:, 8] - x[:, :8].mean(axis=1)) / x[:, :8].std(axis=1, ddof=1)
    assert np.mean(z > 3.0) == pytest.approx(float(b.student_t_fpr(3.0, 8)), rel=0.05)


def test_paper_bounds() -> None:
    assert b.paper_fpr("chebyshev", 5.0) == pytest.approx(0.04)
    assert b.paper_fpr("cantelli", 3.0) == pytest.approx(0.1)
    assert b.paper_fpr("clt", 2.0) == pytest.approx(2 * stats.norm.sf(2.0))
    assert b.paper_method("row_count") == "clt"
    assert b.paper_method("pat_js_div") == "cantelli"
    assert b.paper_method("median") == "chebyshev"
    with pytest.raises(DecisionError, match="no bound"):
        b.paper_fpr("student_t", 1.0)


def test_inside_the_range_of_history_no_rate_below_the_conformal_one() -> None:
    assert b.calibrated_fpr(5.0, 30, 6.0, 3.5) == pytest.approx(1 / 31)
    assert b.calibrated_fpr(5.0, 30, 4.0, 3.5) < 1 / 31


@pytest.mark.parametrize("history", [8, 14, 30, 100])
@pytest.mark.parametrize("changing", [0.001, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("rate", [0.0005, 0.002, 0.01])
def test_counts_that_never_changed_keep_the_promise(
    history: int, changing: float, rate: float
) -> None:
    rng = np.random.default_rng(7)
    shape = (50_000, history + 1)
    x = 5.0 + (rng.random(shape) < changing) * rng.geometric(0.7, size=shape)
    constant = b.all_equal(x[:, :-1])
    spread, k = b.spread_floor("dist_val_count", 5.0, False), np.geomspace(1.5, 1e3, 400)
    band = b.dead_bands("dist_val_count", np.full(history, 5.0))[1]
    degrees = b.tail_dof(history, "dist_val_count")
    fpr = b.calibrated_fpr(k, history, 0.0, degrees, steady=True)
    alarms = constant & (x[:, -1] > 5.0 + band + k[(fpr <= rate).argmax()] * spread)
    assert np.mean(alarms) <= 3 * rate


def test_a_constant_is_bounded_more_tightly_than_what_moved() -> None:
    assert b.calibrated_fpr(4.0, 30, 0.0, 3.5, steady=True) == pytest.approx(
        2 / 31 * b.calibrated_fpr(4.0, 30, 0.0, 3.5)
    )
    assert b.dead_bands("dist_val_count", np.array([5.0, 5.0])) == (1.0, 1.0)
    assert b.dead_bands("dist_val_count", np.array([5.0, 6.0])) == (0.0, 0.0)
    assert b.all_equal(np.array([[5.0, 5.0], [5.0, 6.0], [0.0, 0.0]])).tolist() == [1, 0, 1]


def test_what_hangs_on_two_batches_or_one_row_has_heavier_tails() -> None:
    usual = b.tail_dof(30, "mean")
    assert b.tail_dof(30, "l_inf") < usual
    assert b.tail_dof(30, "days_to_max") == b.tail_dof(30, "min") < usual
    assert b.tail_dof(30, "mean", difference=True) < usual
    assert b.tail_dof(30, "mean", difference=True) == b.tail_dof(30, "l_inf")
    # Of few values no tail is known.
    assert b.tail_dof(5, "l_inf") == b.tail_dof(5, "mean") < b.tail_dof(30, "l_inf")


def test_resolution() -> None:
    assert b.spread_floor("row_count", 10.0, False) == 0.5
    assert b.spread_floor("min", 0.0, False, 200.0) == 2.0
    assert b.spread_floor("l_1", 0.2, True) == pytest.approx(0.01)
    assert b.spread_floor("sum", 0.0, False) > 0
    assert b.spread_floor("ks_dist", 0.0, False) == 0.01
    assert b.spread_floor("kl_div", 1.7e-14, False) == 0.01
    assert b.spread_floor("emd", 0.0, False, 50.0) == 0.5
    assert b.spread_floor("js_div", 0.001, False) == pytest.approx(1e-5)
    # Values at 100 ranks say no more of a share.
    assert b.spread_floor("ks_dist", 0.001, False) == pytest.approx(0.01 / math.sqrt(6))
    assert b.spread_floor("days_to_max", 0.5, False) == 0.02
    # A length that never changed is that of every text.
    assert b.spread_floor("str_len", 36.0, False) == pytest.approx(0.36)
    assert b.spread_floor("str_len", 36.0, False, constant=True) == pytest.approx(0.036)
    assert b.spread_floor("mean", 36.0, False, constant=True) == pytest.approx(0.36)
    assert b.dead_bands("days_to_max", np.zeros(8)) == (0.5, 0.5)
    assert b.dead_bands("days_to_max", np.append(np.zeros(7), 0.99)) == (0.0, 0.0)
    assert b.dead_bands("mean", np.zeros(8)) == (0.0, 0.0)


def test_a_rare_code_may_be_absent() -> None:
    one = np.ones(8)
    assert b.dead_bands("min", one) == (0.0, 1.0)
    assert b.dead_bands("max", 4 * one) == b.dead_bands("range", 3 * one) == (1.0, 0.0)
    # What varies, is no whole number, or is a change has its own spread.
    for values, difference in ((np.arange(8.0), False), (0.5 * one, False), (one, True)):
        assert b.dead_bands("min", values, difference) == (0.0, 0.0)
    assert b.spread_floor("p75", 0.0, False, 0.0, 2.0) == pytest.approx(0.1)
    assert b.spread_floor("p75", 1.0, False, 0.0, 2.0) == pytest.approx(0.01)


@given(st.integers(1, 10_000))
def test_a_history_promises_the_least_rate_that_it_can(history: int) -> None:
    least = b.least_fpr(history)
    assert least < 1 / (history + 1)
    assert b.history_for(least) == history
    assert b.least_fpr(b.history_for(least * 0.999)) <= least * 0.999


def test_times_of_batches_that_are_parts_of_a_day_are_known_better() -> None:
    """A minute of an hour's batch; half an hour of a day's, and of one whose rows have one time."""
    found = [
        b.spread_floor("days_to_min", 0.05, log=False, value_range=length)
        for length in (0.0, 1 / 96, 1 / 24, 0.2, 0.9, 2_000.0)
    ]
    assert found == pytest.approx([0.02, 0.02 / 24, 0.02 / 24, 0.004, 0.02, 0.02])


def test_a_bound_below_one_value_is_none() -> None:
    """On a logarithmic scale none would be below every bound."""
    assert b.possible_range("dist_val_count", log=True)[0] == math.log(0.5)
    assert b.possible_range("row_count", log=True)[0] == math.log(0.5)
    assert b.possible_range("mean", log=True)[0] == -math.inf

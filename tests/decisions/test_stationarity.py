"""The batched ADF test against statsmodels, and the choice of a transform."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from statsmodels.tsa.adfvalues import mackinnonp
from statsmodels.tsa.stattools import adfuller

from dqsql.decisions.adf import adf_ragged, mackinnon_p
from dqsql.decisions.stationarity import Transform, choose_transforms, drifting, is_stationary
from dqsql.errors import DecisionError


def reference(x: np.ndarray) -> tuple[float, float]:
    """The reference's answer, with the first of the lag orders that only rounding tells apart."""
    with np.errstate(all="ignore"):
        fits = adfuller(x, regresults=True)[3].autolag_results
        # Its keys count the regressors. A residual that is only rounding is none.
        least = 1e-18 * np.square(fits[2].model.endog).sum()
        aic = np.array([fit.aic if fit.ssr > least else -np.inf for fit in fits.values()])
        order = int((aic <= aic.min() + 1e-7).argmax())
        result = adfuller(x, maxlag=order, autolag=None)
    return float(result[0]), float(result[1])


@given(st.floats(-25, 5))
def test_p_values_agree_with_statsmodels(statistic: float) -> None:
    assert mackinnon_p(statistic) == pytest.approx(mackinnonp(statistic, "c"), rel=1e-12)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=40).filter(lambda x: len(set(x)) > 1))
def test_a_series_drifts_by_its_rank_correlation_with_time(values: list[int]) -> None:
    correlation = spearmanr(values, range(len(values))).statistic
    if abs(abs(correlation) - 0.5) > 1e-9:
        found = drifting(np.array([values, [7] * len(values)], dtype=float).T)
        assert found.tolist() == [abs(correlation) > 0.5, False]


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(6, 60),
    memory=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    decimals=st.sampled_from([0, 1, 8]),
    level=st.sampled_from([0.0, 1e3, 1e5]),
)
def test_agrees_with_statsmodels(
    seed: int, length: int, memory: float, decimals: int, level: float
) -> None:
    rng = np.random.default_rng(seed)
    x = np.zeros((4, length))
    noise = rng.normal(size=x.shape) * 3
    for t in range(length):
        x[:, t] = (memory * x[:, t - 1] if t else 0.0) + noise[:, t]
    x = np.round(x, decimals) + level
    x = x[np.ptp(x, axis=1) > 0]
    if not len(x):
        return
    statistic, p_value = adf_ragged(x, np.full(len(x), length))
    expected = np.array([reference(row) for row in x])
    both = np.isfinite(expected[:, 0]) & (np.abs(expected[:, 0]) < 1e6)
    np.testing.assert_allclose(statistic[both], expected[both, 0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(p_value[both], expected[both, 1], rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(6, 40), min_size=1, max_size=5),
    changes=st.integers(1, 3),
    step=st.sampled_from([1.0, 0.014, 1e7]),
)
def test_agrees_where_hardly_anything_varies(
    seed: int, lengths: list[int], changes: int, step: float
) -> None:
    rng = np.random.default_rng(seed)
    x = np.full((len(lengths), max(lengths)), 3.0)
    for row, length in enumerate(lengths):
        x[row, rng.integers(0, length, changes)] += step * rng.integers(1, 4, changes)
    statistic, p_value = adf_ragged(x, np.array(lengths))
    for row, length in enumerate(lengths):
        expected = reference(x[row, :length])
        if np.isfinite(expected[0]) and abs(expected[0]) < 1e6:
            found = statistic[row], p_value[row]
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_constant_counts_as_stationary() -> None:
    assert is_stationary(np.full((2, 30), 7.0)).all()
    assert choose_transforms(np.full((1, 30), 7.0)) == [Transform()]


@pytest.mark.parametrize("count", [12, 14, 19, 20, 29, 30, 60])
def test_a_straight_line_is_differenced(count: int) -> None:
    """Its fit is exact: the statistic of the test is rounding alone."""
    steps = np.array([1.0, 3.0, -7.0, 0.1, 1e-4, 1e9, 1 / 3])
    lines = 4 + 17 * np.arange(len(steps))[:, None] + steps[:, None] * np.arange(count)
    assert choose_transforms(lines) == [Transform(lag=1)] * len(steps)
    # Whatever has gaps is tested, and what is constant but for rounding stays.
    holes = np.where(np.arange(count) % 5 == 4, np.nan, lines)
    assert len(choose_transforms(holes)) == len(steps)
    assert choose_transforms([0.1 + 1e-17 * np.arange(count)]) == [Transform()]


def test_growth_is_differenced_and_undone() -> None:
    rng = np.random.default_rng(1)
    histories = 100_000 + np.cumsum(2_000 + 500 * rng.normal(size=(50, 30)), axis=1)
    transforms = choose_transforms(histories)
    # A test at 5 % now and then takes a trend for stationary; most must be differenced.
    assert sum(t is not None and t.lag >= 1 for t in transforms) >= 40
    history, transform = next(
        (h, t) for h, t in zip(histories, transforms, strict=True) if t is not None and t.lag
    )
    value = transform.apply(history, 180_000.0)
    assert transform.undo(history, value) == pytest.approx(180_000.0)


def test_weekly_pattern_is_differenced_by_its_period() -> None:
    rng = np.random.default_rng(2)
    season = np.array([100.0, 103, 101, 99, 102, 40, 30])
    history = np.tile(season, 6)[:35] + rng.normal(size=35) * 0.5
    transform = Transform(lag=7)
    assert transform.series(history).std() < 2
    assert transform.apply(history, season[0]) == pytest.approx(0.0, abs=3)


def test_log_of_a_nonpositive_value_is_infinitely_low() -> None:
    assert Transform(log=True).apply([1.0, 2.0], 0.0) == -np.inf
    assert np.isnan(Transform(log=True).apply([1.0, 2.0], np.nan))


def test_too_short_history_for_the_lag() -> None:
    with pytest.raises(DecisionError, match="needs 7 batches"):
        Transform(lag=7).apply([1.0, 2.0], 3.0)


def test_how_a_transform_is_stored_and_named() -> None:
    transform = Transform(log=True, lag=3)
    assert asdict(transform) == {"log": True, "lag": 3}
    assert transform.name == "log_difference"


# --- gaps --------------------------------------------------------------------------------------

GAP = float("nan")


def test_a_gap_is_compared_with_the_batch_a_multiple_of_the_lag_back() -> None:
    transform = Transform(lag=2)
    history = [1.0, 10.0, 2.0, GAP, GAP, 40.0]
    # 40 is compared with 10, four back: what is two back was left out; the gaps have no value.
    np.testing.assert_array_equal(transform.series(history), [1.0, GAP, GAP, 30.0])
    assert transform.apply(history, 5.0) == 3.0
    assert transform.undo(history, 3.0) == 5.0
    assert transform.apply(history[:-1], 41.0) == 31.0


def test_a_lag_that_reaches_nothing_is_refused() -> None:
    history = [GAP, 1.0, GAP, 2.0, GAP, 3.0]
    assert not Transform(lag=2).reaches(history)
    assert not Transform(lag=7).reaches(history)
    assert Transform(lag=3).reaches(history)
    assert Transform().reaches(history)
    with pytest.raises(DecisionError, match="left out"):
        Transform(lag=2).apply(history, 1.0)
    assert Transform(lag=2).reaches([history, [1.0] * 6]).tolist() == [False, True]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(4, 40),
    lag=st.integers(1, 12),
    share=st.floats(0, 0.9),
)
def test_differences_of_a_season_with_gaps_vanish(
    seed: int, length: int, lag: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    season = rng.integers(1, 100, lag).astype(float)
    history = np.tile(season, 2 + length // lag)[:length]
    history[rng.random(length) < share] = np.nan
    transform = Transform(lag=lag)
    if length > lag:
        series = transform.series(history)
        assert set(series[np.isfinite(series)]) <= {0.0}
    place = length % lag
    seen = np.isfinite(history[place::lag]).any() if length >= lag else False
    assert bool(transform.reaches(history)) == bool(seen)
    if seen:
        assert transform.apply(history, season[place]) == 0.0
        assert transform.undo(history, 0.0) == season[place]


def test_stationarity_is_tested_on_what_is_there() -> None:
    rng = np.random.default_rng(8)
    whole = rng.normal(size=(6, 26))
    whole[3:] = whole[3:].cumsum(axis=1)
    gaps = np.full((6, 30), np.nan)
    for row in range(6):
        gaps[row, np.sort(rng.permutation(30)[: 26 - row])] = whole[row, : 26 - row]
    found = is_stationary(gaps)
    assert found.tolist() == [bool(is_stationary(r[np.isfinite(r)])[0]) for r in gaps]
    assert found.any() and not found.all()


def test_a_short_series_is_stationary_only_if_it_is_constant() -> None:
    assert is_stationary([[1.0, 2.0, GAP, 3.0], [4.0, GAP, 4.0, GAP]]).tolist() == [False, True]


def test_the_chosen_lag_reaches_the_next_batch() -> None:
    rng = np.random.default_rng(9)
    season = np.array([100.0, 103, 101, 99, 102, 40, 30])
    history = np.tile(season, 6)[:35] + np.arange(35) * 3 + rng.normal(size=35) * 0.2
    (whole,) = choose_transforms(history[None])
    assert whole is not None and whole.lag
    gaps = history.copy()
    gaps[35 - whole.lag :: -whole.lag] = np.nan
    (found,) = choose_transforms(gaps[None])
    assert found is None or found.reaches(gaps)
    assert found != whole


def test_a_difference_beyond_the_largest_number_is_infinite() -> None:
    largest = float(np.finfo(float).max)
    difference = Transform(log=False, lag=1)
    assert difference.apply([0.0, -largest], largest) == np.inf
    assert difference.undo([0.0, largest], largest) == np.inf

"""Two-distribution metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dqsql.decisions import distances as d
from dqsql.errors import DecisionError
from dqsql.model.metric_traits import NUMERIC_DISTANCES, PATTERN_PREFIX
from tests.benchmarks.avh_states import numeric_state

counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), max_size=6)


def test_numeric_distances_match_scipy() -> None:
    rng = np.random.default_rng(0)
    p, q = np.sort(rng.normal(size=200)), np.sort(rng.normal(0.5, 2, size=150))
    assert d.earth_movers_distance(p, q) == pytest.approx(stats.wasserstein_distance(p, q))
    assert d.ks_distance(p, q) == pytest.approx(stats.ks_2samp(p, q).statistic)
    q = q[:150].repeat(4)[::3]
    assert d.earth_movers_distance(p, q) == pytest.approx(stats.wasserstein_distance(p, q))


def test_numeric_distances_of_equal_and_disjoint_batches() -> None:
    state = numeric_state(np.arange(100.0))
    same = d.numeric_distances(state, state)
    assert set(same) == set(NUMERIC_DISTANCES)
    assert all(value == pytest.approx(0.0, abs=1e-12) for value in same.values())
    far = d.numeric_distances(state, numeric_state(np.arange(100.0) + 1000))
    assert far["ks_dist"] == 1.0
    assert far["emd"] == pytest.approx(1000.0)
    assert far["js_div"] == pytest.approx(np.log(2))
    assert np.isfinite(far["kl_div"])


def test_unit_change_of_a_tenth_is_seen_by_the_divergences() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(100, 5, size=500)
    changed = values.copy()
    changed[:50] *= 1000
    state = numeric_state(values)
    assert d.numeric_distances(state, numeric_state(changed))["js_div"] > 0.02


def test_cohens_d() -> None:
    assert d.cohens_d(0, 1, 50, 1, 1, 50) == pytest.approx(1.0)
    assert d.cohens_d(1, 0, 5, 1, 0, 5) == 0.0
    assert d.cohens_d(1, 0, 5, 2, 0, 5) == float("inf")
    # One value has no standard deviation, and adds none.
    assert d.cohens_d(1, np.nan, 1, 3, 2, 5) == d.cohens_d(3, 2, 5, 1, np.nan, 1) == 1.0
    assert np.isnan(d.cohens_d(1, np.nan, 1, 2, np.nan, 1))
    assert np.isnan(d.cohens_d(np.nan, np.nan, 0, 2, 1, 5))


@settings(max_examples=100, deadline=None)
@given(counts, counts, st.integers(0, 20), st.integers(0, 20))
def test_categorical_ranges(
    a: dict[str, int], b: dict[str, int], other_a: int, other_b: int
) -> None:
    p, q = d.CategoricalState(a, other_a), d.CategoricalState(b, other_b)
    result = d.categorical_distances(p, q)
    if not sum(a.values()) + other_a or not sum(b.values()) + other_b:
        assert all(np.isnan(value) for value in result.values())
        return
    tops = {"l_1": 2, "l_inf": 1, "cosine": 1, "chi_squared": 2, "js_div": np.log(2)}
    for name, top in tops.items():
        assert -1e-12 <= result[name] <= top + 1e-12
    assert 0 <= result["kl_div"] < np.inf
    back = d.categorical_distances(q, p)
    for name in tops:
        assert result[name] == pytest.approx(back[name], abs=1e-12)


def test_volume_alone_moves_no_share_based_distance() -> None:
    p = d.CategoricalState({"a": 10, "b": 30}, 5)
    q = d.CategoricalState({"a": 100, "b": 300}, 50)
    result = d.categorical_distances(p, q, PATTERN_PREFIX)
    for name in ("pat_l_1", "pat_l_inf", "pat_cosine", "pat_chi_squared", "pat_js_div"):
        assert result[name] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("rows", [(150, 150), (320, 320), (320, 210), (5_000, 300)])
def test_keys_that_are_never_shared_are_as_far_as_can_be(rows: tuple[int, int]) -> None:
    """However many rows there are, and whichever of them are listed."""
    p, q = (
        d.CategoricalState({f"{tag}{i}": 1.0 for i in range(min(n, 200))}, max(0, n - 200))
        for tag, n in zip("ab", rows, strict=True)
    )
    found = d.categorical_distances(p, q)
    assert (found["l_1"], found["cosine"]) == pytest.approx((2, 1))
    assert found["l_inf"] <= 1 / 150
    # The same keys again are not far.
    assert d.categorical_distances(p, p)["l_1"] == 0


def listed(values: np.ndarray) -> d.CategoricalState:
    """The 200 most frequent values, as a profile has them."""
    names, counts = np.unique(values, return_counts=True)
    most = np.lexsort((names, -counts))[:200]
    kept = {str(names[i]): float(counts[i]) for i in most}
    return d.CategoricalState(kept, float(len(values) - sum(kept.values())))


def test_values_that_are_not_listed_are_no_difference() -> None:
    # A fifth of the rows on a Sunday, of which nearly all values are listed.
    rng = np.random.default_rng(1)
    weights = 1 / np.sqrt(np.arange(1, 901))
    usual, again, few = (rng.choice(900, n, p=weights / weights.sum()) for n in (1300, 1300, 260))
    for old, new, most in ((usual, again, 0.02), (again, few, 0.03), (few, usual, 0.03)):
        assert d.categorical_distances(listed(old), listed(new))["l_inf"] < most
    # A value that many rows have is as far as it is, whether it comes or goes.
    filled = np.where(np.arange(1300) < 130, 9999, again)
    for pair in ((usual, filled), (filled, usual)):
        found = d.categorical_distances(*map(listed, pair))
        assert found["l_inf"] == pytest.approx(0.1, abs=0.01)
    # Many values in place of few are a difference, too.
    found = d.categorical_distances(listed(usual % 5), listed(usual))
    assert found["l_1"] > 1.5


def test_values_that_no_row_has_are_no_values() -> None:
    none, some = d.CategoricalState({"a": 0.0}), d.CategoricalState({"b": 3.0}, 2.0)
    assert all(np.isnan(v) for v in d.categorical_distances(some, none).values())
    assert all(np.isnan(v) for v in d.categorical_distances(none, some).values())


def test_empty_batches_are_unknown() -> None:
    empty, state = numeric_state([np.nan]), numeric_state([1.0, 2.0])
    assert all(np.isnan(v) for v in d.numeric_distances(empty, state).values())
    assert all(np.isnan(v) for v in d.numeric_distances(state, empty).values())


def test_bad_state_is_refused() -> None:
    with pytest.raises(DecisionError, match="sorted"):
        d.ks_distance([2.0, 1.0], [1.0])
    with pytest.raises(DecisionError, match="negative"):
        d.categorical_distances(d.CategoricalState({"a": -1}), d.CategoricalState({"a": 1}))


def test_what_moves_steadily_has_moved_on_where_batches_were_left_out() -> None:
    steady = np.array([np.nan, 3.4, 3.5, 3.3])
    assert d.without_drift(6.8, steady, 1) == pytest.approx(3.4)
    assert d.without_drift(-6.8, -steady, 1) == pytest.approx(-3.4)
    assert d.without_drift(1.0, steady, 3) == 1.0
    # What hardly moved before is as far as it is, however many were left out.
    still = np.array([0.001, 0.002, 0.001])
    assert [round(d.without_drift(0.27, still, n), 3) for n in (1, 5)] == [0.269, 0.265]
    assert d.without_drift(0.5, np.array([np.nan]), 4) == 0.5
    assert math.isnan(d.without_drift(math.nan, still, 2))


def test_batches_of_one_shape_have_no_distance_whatever_their_sizes() -> None:
    old, new = d.CategoricalState({"AA": 700.0}), d.CategoricalState({"AA": 434.0})
    assert d.kl_divergence(*d.align_counts(old, new)) == 0.0
    padded = d.kl_divergence([3.0, 0.0, 7.0], [1.0, 0.0, 2.0])
    assert padded == d.kl_divergence([3.0, 7.0], [1.0, 2.0])


def test_a_value_that_occurs_twice_makes_no_other_column_of_keys() -> None:
    # Of many keys, the most frequent and a sample of the others are kept.
    before = d.CategoricalState({f"a{i}": 1.0 for i in range(200)}, 140.0)
    now = d.CategoricalState({"b0": 2.0, **{f"b{i}": 1.0 for i in range(1, 200)}}, 84.0)
    found = d.categorical_distances(before, now)
    assert found["l_inf"] == pytest.approx(2 / 285)
    # Where few values occur once, the others are one value of both sides.
    most = d.CategoricalState({**{f"c{i}": 50.0 for i in range(199)}, "c": 1.0}, 100.0)
    less = d.CategoricalState({**{f"c{i}": 50.0 for i in range(199)}, "d": 1.0}, 100.0)
    assert d.categorical_distances(most, less)["l_inf"] < 0.001

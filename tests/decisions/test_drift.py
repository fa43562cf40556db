"""The measures of `@drift`, held against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.drift import (
    Numbers,
    binned,
    categorical_drift,
    chi_squared,
    ks_p_value,
    new_categories,
    numeric_drift,
    pooled_categories,
    population_stability,
)

RANKS = (np.arange(100) + 0.5) / 100
DRAWS = {
    "same": lambda rng, n: rng.normal(10, 2, n),
    "moved": lambda rng, n: rng.normal(11, 2, n),
    "wider": lambda rng, n: rng.normal(10, 4, n),
    "skewed": lambda rng, n: rng.lognormal(2, 1, n),
    "flags": lambda rng, n: rng.integers(0, 2, n).astype(float),
}


def profile(values: np.ndarray) -> tuple[np.ndarray, float]:
    """What is stored of a batch: the values at 100 ranks, and how many there are."""
    return np.quantile(values, RANKS, method="inverted_cdf"), float(values.size)


def between(values: np.ndarray) -> tuple[np.ndarray, float]:
    """The same of few values, whose quantiles lie between the nearest two."""
    return np.quantile(values, RANKS), float(values.size)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("rows", [40, 1_000, 100_000])
def test_of_numbers_like_scipy_up_to_the_resolution(name: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    old, new = DRAWS["same"](rng, rows), DRAWS[name](rng, rows + rows // 3)
    p, q = Numbers.pooled([profile(old)]), Numbers.pooled([profile(new)])
    exact = stats.ks_2samp(old, new, method="asymp")
    found = numeric_drift("ks", p, q)
    assert found.value == pytest.approx(exact.statistic, abs=0.01)
    # An upper bound: what is not seen is not held against the batch.
    assert found.p_value is not None
    assert found.p_value >= exact.pvalue - 1e-9
    moved = stats.wasserstein_distance(old, new)
    scale = float(np.ptp(np.concatenate([old, new])))
    assert numeric_drift("wasserstein", p, q).value == pytest.approx(moved, abs=0.012 * scale)


@pytest.mark.parametrize(("few", "more"), [(2, 2), (5, 5), (8, 30), (30, 30)])
def test_of_few_numbers_the_p_value_is_never_too_small(few: int, more: int) -> None:
    rng = np.random.default_rng(few)
    alarms = 0
    for _ in range(200):
        old, new = rng.normal(size=few), rng.normal(size=more)
        found = numeric_drift("ks", *(Numbers.pooled([between(v)]) for v in (old, new)))
        exact = stats.ks_2samp(old, new, method="asymp")
        assert abs(found.value - exact.statistic) <= 0.011 + 1 / few + 1 / more
        assert found.p_value is not None
        assert found.p_value >= exact.pvalue - 1e-9
        alarms += found.p_value < 0.05
    assert alarms <= 10


def test_without_resolution_the_p_value_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    old, new = rng.normal(0, 1, 300), rng.normal(0.1, 1, 200)
    exact = stats.ks_2samp(old, new, method="asymp")
    assert ks_p_value(float(exact.statistic), 300, 200) == pytest.approx(float(exact.pvalue))
    assert ks_p_value(0.0, 3, 3) == 1.0


def test_of_weighted_atoms_as_scipy() -> None:
    """Several batches of several sizes as one reference."""
    parts = [(np.array([1.0, 2.0, 3.0]), 30.0), (np.array([10.0, 20.0]), 70.0)]
    p, q = Numbers.pooled(parts), Numbers.pooled([(np.array([2.0, 4.0]), 5.0)])
    exact = stats.wasserstein_distance(
        [1, 2, 3, 10, 20], [2, 4], [0.1, 0.1, 0.1, 0.35, 0.35], [0.5, 0.5]
    )
    assert numeric_drift("wasserstein", p, q).value == pytest.approx(exact)


def test_of_categories_as_scipy() -> None:
    rng = np.random.default_rng(2)
    names = [f"c{i}" for i in range(12)]
    for _ in range(20):
        counts = rng.multinomial(500, rng.dirichlet(np.full(12, 0.5)), 2).astype(float)
        old, new = (
            CategoricalState({n: c for n, c in zip(names, row, strict=True) if c}) for row in counts
        )
        p, q = counts[0], counts[1]
        js = categorical_drift("js", old, new).value
        assert js == pytest.approx(jensenshannon(p, q) ** 2)
        both = (p + q) > 0
        smooth_p, smooth_q = p[both] + 0.5, q[both] + 0.5
        # The category of all others is empty here, and tells nothing.
        kl = stats.entropy(smooth_q, smooth_p)
        assert categorical_drift("kl", old, new).value == pytest.approx(kl)
        psi = kl + stats.entropy(smooth_p, smooth_q)
        assert categorical_drift("psi", old, new).value == pytest.approx(psi)
        found = categorical_drift("chi2", old, new)
        exact = stats.chi2_contingency(np.array([p, q])[:, both], correction=False)
        assert found.value == pytest.approx(exact.statistic)
        assert found.p_value == pytest.approx(exact.pvalue, abs=1e-12)


def test_bins_are_tenths_of_the_reference_with_open_ends() -> None:
    rng = np.random.default_rng(3)
    old, new = rng.normal(0, 1, 50_000), rng.normal(0, 1, 50_000) * 1.2
    p, q = binned(Numbers.pooled([profile(old)]), Numbers.pooled([profile(new)]))
    cuts = np.quantile(old, np.arange(1, 10) / 10)
    exact = [np.histogram(x, [-np.inf, *cuts, np.inf])[0] for x in (old, new)]
    assert p == pytest.approx(exact[0], abs=600)
    assert q == pytest.approx(exact[1], abs=600)
    assert population_stability(p, q) == pytest.approx(population_stability(*exact), abs=0.01)


def test_the_same_distribution_has_nearly_no_drift() -> None:
    rng = np.random.default_rng(4)
    for name in ("same", "flags", "skewed"):
        old, new = DRAWS[name](rng, 20_000), DRAWS[name](rng, 20_000)
        p, q = Numbers.pooled([profile(old)]), Numbers.pooled([profile(new)])
        assert numeric_drift("psi", p, q).value < 0.02
        found = numeric_drift("ks", p, q)
        assert found.p_value is not None
        assert found.p_value > 0.05


def test_a_value_that_fills_bins_has_one_for_itself() -> None:
    old = np.repeat([0.0, 1.0, 2.0], [700, 200, 100])
    new = np.repeat([-1.0, 0.0, 1.0, 2.0], [50, 650, 200, 100])
    p, q = binned(Numbers.pooled([profile(old)]), Numbers.pooled([profile(new)]))
    assert p.sum() == pytest.approx(1_000)
    # Below, at and above the two values that fill bins.
    assert p == pytest.approx([0, 700, 0, 200, 100])
    assert q == pytest.approx([50, 650, 0, 200, 100])


def test_new_and_vanished_categories_are_finite_and_told() -> None:
    old, new = CategoricalState({"a": 50.0, "b": 50.0}), CategoricalState({"b": 50.0, "c": 50.0})
    for measure in ("psi", "js", "kl", "chi2"):
        found = categorical_drift(measure, old, new)
        assert math.isfinite(found.value)
        assert found.value > 0.3
        assert found.shifts == ("'a' 50% -> 0%", "'c' 0% -> 50%")
        assert categorical_drift(measure, old, new, shows_values=False).shifts == ()


def test_without_values_there_is_no_drift_to_tell() -> None:
    empty, some = Numbers.pooled([]), Numbers.pooled([(np.array([1.0, 2.0]), 2.0)])
    none, kept = CategoricalState({}), CategoricalState({"a": 1.0})
    for measure in ("psi", "js", "kl", "ks", "wasserstein"):
        assert math.isnan(numeric_drift(measure, empty, some).value)
        assert math.isnan(numeric_drift(measure, some, empty).value)
        assert numeric_drift(measure, some, some).value == 0.0
    for measure in ("psi", "js", "kl", "chi2"):
        assert math.isnan(categorical_drift(measure, none, kept).value)
        assert math.isnan(categorical_drift(measure, kept, none).value)
        assert categorical_drift(measure, kept, kept).value == 0.0
    assert chi_squared([3, 0], [5, 0]) == (0.0, 1.0)
    assert pooled_categories([kept, CategoricalState({"a": 2.0, "b": 1.0}, 4.0)]) == (
        CategoricalState({"a": 3.0, "b": 1.0}, 4.0)
    )


def test_infinite_values_lie_at_the_ends() -> None:
    rng = np.random.default_rng(5)
    plain = rng.normal(0, 1, 2_000)
    few, many, below = (plain.copy() for _ in range(3))
    few[:100], many[:600], below[:600] = np.inf, np.inf, -np.inf
    old = Numbers.pooled([profile(few)])
    for values in (many, below):
        new = Numbers.pooled([profile(values)])
        exact = stats.ks_2samp(few, values, method="asymp")
        found = numeric_drift("ks", old, new)
        assert found.value == pytest.approx(exact.statistic, abs=0.011)
        for measure in ("psi", "js", "kl"):
            assert 0.02 < numeric_drift(measure, old, new).value < math.inf
        assert numeric_drift("wasserstein", old, new).value == math.inf
    for measure in ("psi", "js", "kl", "ks", "wasserstein"):
        assert numeric_drift(measure, old, old).value == 0.0
    finite = np.where(np.isinf(few), 0, few) + 1
    moved = Numbers.pooled([profile(np.where(np.isinf(few), few, finite))])
    assert numeric_drift("wasserstein", old, moved).value == pytest.approx(0.95, abs=0.03)


def test_nan_is_no_number() -> None:
    quantiles, rows = profile(np.random.default_rng(6).normal(0, 1, 800))
    spoiled = np.concatenate([quantiles, [math.nan] * 25])
    found = Numbers.pooled([(spoiled, 1_000.0)])
    assert found.rows == rows == pytest.approx(800)
    assert numeric_drift("ks", Numbers.pooled([(quantiles, rows)]), found).value == 0.0
    assert Numbers.pooled([([math.nan] * 100, 50.0)]).rows == 0.0


@pytest.mark.parametrize("measure", ["psi", "js", "kl"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.0] * 100, [1.0] * 100),
        ([1.0] * 100, [1.0] * 50 + [100.0] * 50),
        ([0.0] * 5 + [1.0] * 95, [0.0] * 5 + [7.0] * 95),
        ([0.0] * 99 + [1.0], [-999.0] * 100),
        ([3.0] * 40 + [5.0] * 60, [4.0] * 100),
    ],
)
def test_a_value_that_fills_bins_is_not_taken_for_others(
    measure: str, before: list[float], after: list[float]
) -> None:
    old, new = (Numbers.pooled([(np.array(v), 1_000.0)]) for v in (before, after))
    assert numeric_drift(measure, old, new).value > 0.2
    assert numeric_drift(measure, old, old).value == 0.0


def test_few_values_beside_one_that_fills_bins_are_no_drift() -> None:
    rng = np.random.default_rng(8)
    draws = [np.where(rng.random(2_000) < 0.6, 0.0, rng.gamma(2, 5, 2_000)) for _ in range(2)]
    draws[1][:2] = -1.0
    old, new = (Numbers.pooled([profile(values)]) for values in draws)
    assert numeric_drift("psi", old, new).value < 0.05


def test_weights_that_do_not_add_up_to_one_are_no_drift() -> None:
    # Seven batches of a constant: their shares add up to 1 but for rounding.
    sizes = [145, 164, 1631, 411, 1405, 1978, 1995]
    old = Numbers.pooled([(np.zeros(100), n) for n in sizes])
    new = Numbers.pooled([(np.zeros(100), 2886)])
    assert old.below(np.array([0.0])) == [1.0]
    for measure in ("js", "kl", "psi", "ks", "wasserstein"):
        value = numeric_drift(measure, old, new).value
        assert value == pytest.approx(0.0, abs=1e-3)


def kept(counts: np.ndarray, most: int = 200) -> CategoricalState:
    """What is stored of a column: its most frequent values."""
    order = np.argsort(-counts, kind="stable")[:most]
    values = {f"v{i}": float(counts[i]) for i in order if counts[i]}
    return CategoricalState(values, float(counts.sum()) - sum(values.values()))


@pytest.mark.parametrize("categories", [150, 300, 1_000])
def test_samples_of_many_categories_do_not_differ(categories: int) -> None:
    """Of each a part is kept, and not the same one; that says nothing of the rest."""
    rng = np.random.default_rng(categories)
    even = np.full(categories, 1 / categories)
    then, now = (kept(rng.multinomial(10_000, even)) for _ in range(2))
    for measure, most in (("psi", 0.2), ("js", 0.03)):
        assert categorical_drift(measure, then, now).value < most
    # A value that was not there takes a tenth of all rows.
    counts = rng.multinomial(9_000, even)
    new = categorical_drift("psi", then, kept(np.append(counts, 1_000)))
    assert new.value > 0.2
    assert new.shifts[0].endswith("-> 10%")


def test_new_values_of_a_column_of_few_are_told() -> None:
    before = CategoricalState({"EUR": 90.0, "USD": 10.0})
    now = CategoricalState({"EUR": 85.0, "USD": 10.0, "EURO": 5.0, "x": 0.0})
    assert new_categories(before, now) == ("'EURO' 0% -> 5%",)
    assert new_categories(now, before) == ()
    # Keys and dates are others each time.
    assert new_categories(before, CategoricalState({"EUR": 1.0, "a": 1.0, "b": 1.0})) == ()
    # Of values that were not kept nobody knows whether they are new.
    assert new_categories(CategoricalState({"EUR": 90.0}, 10.0), now) == ()
    assert new_categories(CategoricalState({}), now) == ()

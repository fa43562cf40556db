"""How far the distribution of a column has moved: the measures of `@drift`, and their p-values.

Distributions are the bounded profiles that are stored of each batch: of numbers the values at 100
equally spaced ranks, of other columns how often each of the 200 most frequent values occurs.
Infinite values are the largest or smallest numbers; NaN is none.

- `psi`: population stability index, sum (q - p) ln(q / p); >= 0, no unit. Of numbers over bins cut
  at deciles of the reference, the outer ones open, as is the custom in credit scoring.
- `kl`: Kullback-Leibler divergence of the new batch from the reference, in nats, >= 0; bins as psi.
- `js`: Jensen-Shannon divergence in nats, in [0, ln 2]: the square of scipy's `jensenshannon`.
- `ks`: Kolmogorov-Smirnov statistic of numbers, in [0, 1], off by at most 0.01 + 1/n + 1/m for n
  and m values.
- `wasserstein`: mean distance that values would have to be moved, in the column's unit, >= 0;
  infinite where other shares of the values are.
- `chi2`: Pearson's statistic of homogeneity over categories, >= 0; grows with the rows.

`psi` and `kl` would be infinite where a value is new or has vanished. Half a row is added to every
category of both (Krichevsky-Trofimov), which leaves large batches as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.distances import (
    CategoricalState,
    align_counts,
    earth_movers_distance,
    js_divergence,
    kl_divergence,
    smoothed,
)
from dqsql.model.wording import number_text

MEASURES = ("psi", "js", "kl", "ks", "wasserstein", "chi2")
# Measures of numbers only, of categories only, and those that have a p-value.
OF_NUMBERS = frozenset({"ks", "wasserstein"})
OF_CATEGORIES = frozenset({"chi2"})
WITH_P_VALUE = frozenset({"ks", "chi2"})

_BINS = 10
# Of a column with more values, new ones come and go.
_FEW_VALUES = 50
_SHOWN = 3
# Sums of shares are off by so much at most.
_ROUNDING = 1e-9
# Where quantiles say how two batches differ.
_RANKS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A distribution of numbers.

    Attributes:
        atoms: sorted values, in the column's unit; empty where there are none.
        weights: the share of each atom; they add up to 1.
        rows: how many values the atoms stand for.
        resolution: by how much, in shares, the distribution function may be off.
    """

    atoms: FloatArray
    weights: FloatArray
    rows: float
    resolution: float

    @classmethod
    def pooled(cls, parts: Sequence[tuple[npt.ArrayLike, float]]) -> Numbers:
        """The distribution of several batches together: of each quantiles and number of values.

        Infinities lie at the ends; NaN is no number, and is left out with its share of the values.
        """
        kept = [_without_nan(np.asarray(q, dtype=float), float(n)) for q, n in parts]
        kept = [(q, n) for q, n in kept if q.size and n > 0]
        if not kept:
            return cls(np.zeros(0), np.zeros(0), 0.0, 0.0)
        rows = sum(n for _, n in kept)
        atoms = np.concatenate([q for q, _ in kept])
        weights = np.concatenate([np.full(q.size, n / rows / q.size) for q, n in kept])
        order = np.argsort(atoms, kind="stable")
        # Half the distance of two ranks; and of few values, that quantiles lie between them.
        off = sum(n / rows / q.size for q, n in kept) / 2 + len(kept) / rows
        return cls(atoms[order], weights[order], rows, off)

    def below(self, points: FloatArray) -> FloatArray:
        """The share of values at or below each point."""
        sums = np.concatenate([[0.0], np.minimum(np.cumsum(self.weights), 1.0)])
        # Weights that were rounded add up to about 1.
        sums[-1] = 1.0
        return np.asarray(sums[np.searchsorted(self.atoms, points, side="right")], dtype=float)

    def at_rank(self, share: float) -> float:
        """The smallest value that so large a share does not exceed."""
        place = int(np.searchsorted(np.cumsum(self.weights), share - 1e-12))
        return float(self.atoms[min(place, self.atoms.size - 1)])


def _without_nan(quantiles: FloatArray, rows: float) -> tuple[FloatArray, float]:
    known = quantiles[~np.isnan(quantiles)]
    return known, rows * known.size / quantiles.size if quantiles.size else 0.0


@dataclass(frozen=True)
class Drift:
    """How far a batch is from its reference.

    Attributes:
        value: the measure; NaN where either has no values.
        p_value: how likely so large a value is without drift, in [0, 1]; None where the measure
            has none. Of quantiles it is an upper bound.
        shifts: what has moved most, in words.
    """

    value: float
    p_value: float | None = None
    shifts: tuple[str, ...] = ()


def numeric_drift(measure: str, reference: Numbers, new: Numbers) -> Drift:
    """The drift of numbers, by any measure but `chi2`; NaN where either has no values."""
    if not reference.atoms.size or not new.atoms.size:
        return Drift(math.nan)
    shifts = _quantile_shifts(reference, new)
    if measure == "wasserstein":
        return Drift(_wasserstein(reference, new), None, shifts)
    if measure == "ks":
        value, p_value, place = _kolmogorov_smirnov(reference, new)
        return Drift(value, p_value, (place, *shifts))
    p, q = binned(reference, new)
    return Drift(_of_counts(measure, p, q), None, shifts)


def categorical_drift(
    measure: str, reference: CategoricalState, new: CategoricalState, *, shows_values: bool = True
) -> Drift:
    """The drift of categories, by any measure but `ks` and `wasserstein`.

    All values that were not kept are one category. Of a value that one of the two has not kept so
    much is taken to be among them as the other has, and at most what would not have been kept.
    `shows_values` is whether values may be shown. NaN where either has no values.
    """
    # Where no value is in both, all of them may well be others.
    if reference.counts.keys() & new.counts.keys():
        shares, shares_now = reference.shares, new.shares
        reference, new = _with_unkept(reference, shares_now), _with_unkept(new, shares)
    p, q = align_counts(reference, new)
    if p.sum() <= 0 or q.sum() <= 0:
        return Drift(math.nan)
    names = [*dict.fromkeys([*reference.counts, *new.counts]), None]
    shifts = _category_shifts(names, p, q) if shows_values else ()
    if measure == "chi2":
        value, p_value = chi_squared(p, q)
        return Drift(value, p_value, shifts)
    return Drift(_of_counts(measure, p, q), None, shifts)


def _with_unkept(state: CategoricalState, shares: Mapping[str, float]) -> CategoricalState:
    """A state with values that it has not kept, taken from its others: as frequent as elsewhere.

    And at most as frequent as the rarest that it has kept. `shares` are those of all rows.
    """
    if state.other <= 0:
        return state
    size, most = state.size, min(state.counts.values(), default=0.0)
    hidden = {n: min(s * size, most) for n, s in shares.items() if n not in state.counts}
    total = sum(hidden.values())
    scale = min(1.0, state.other / total) if total > 0 else 0.0
    unkept_counts = {name: scale * count for name, count in hidden.items()}
    return CategoricalState(
        {**state.counts, **unkept_counts}, max(0.0, state.other - scale * total)
    )


def pooled_categories(parts: Sequence[CategoricalState]) -> CategoricalState:
    """The categories of several batches together.

    A value that some have not kept is taken to be among their others, as `categorical_drift` does.
    """
    kept: dict[str, float] = {}
    rows: dict[str, float] = {}
    for part in parts:
        for name, count in part.counts.items():
            kept[name] = kept.get(name, 0.0) + count
            rows[name] = rows.get(name, 0.0) + part.size
    shares = {name: count / rows[name] for name, count in kept.items() if rows[name] > 0}
    whole = [_with_unkept(part, shares) for part in parts]
    counts = {name: sum(part.counts.get(name, 0.0) for part in whole) for name in kept}
    return CategoricalState(counts, sum(part.other for part in whole))


# --- measures ----------------------------------------------------------------------------------


def _of_counts(measure: str, p: FloatArray, q: FloatArray) -> float:
    if measure == "js":
        return js_divergence(p, q)
    return population_stability(p, q) if measure == "psi" else kl_divergence(p, q)


def population_stability(reference: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Return the population stability index of two count vectors, >= 0; NaN without mass.

    The sum of the two Kullback-Leibler divergences, with half a row in every category that either
    has.
    """
    smooth = smoothed(reference, new)
    if smooth is None:
        return math.nan
    p, q = smooth
    return max(0.0, float(((q - p) * np.log(q / p)).sum()))


def chi_squared(reference: npt.ArrayLike, new: npt.ArrayLike) -> tuple[float, float]:
    """Return Pearson's statistic of two count vectors (>= 0) and its p-value in [0, 1].

    As scipy's `chi2_contingency` without a correction. Without a second category the statistic is
    0 and the p-value 1; both are NaN without mass.
    """
    table = np.array([reference, new], dtype=float)
    if (table.sum(axis=1) <= 0).any():
        return math.nan, math.nan
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] == 1:
        return 0.0, 1.0
    from scipy.special import chdtrc

    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    value = float((np.square(table - expected) / expected).sum())
    return value, float(chdtrc(table.shape[1] - 1, value))


def binned(reference: Numbers, new: Numbers) -> tuple[FloatArray, FloatArray]:
    """Return the rows of both in bins of about a tenth of the reference each.

    The outer bins are open. A value that fills a bin has it for itself, even if there is none on
    one side of it: values beside it would be taken for it. No other bin is empty in the reference,
    so that values at its edge are not taken for new ones.
    """
    picks = [reference.at_rank(i / _BINS) for i in range(1, _BINS)]
    filled = [v for v in set(picks) if picks.count(v) > 1]
    around = np.array([*filled, *np.nextafter(filled, -np.inf)])
    cuts = np.unique(np.array([*picks, *around]))
    below = reference.below(cuts)
    has_rows = (np.diff(np.concatenate([[0.0], below])) > 0) & (below < 1.0 - 1e-12)
    kept = cuts[has_rows | np.isin(cuts, around)]
    shares = [np.diff(np.concatenate([[0.0], x.below(kept), [1.0]])) for x in (reference, new)]
    return shares[0] * reference.rows, shares[1] * new.rows


def _wasserstein(reference: Numbers, new: Numbers) -> float:
    sizes = {reference.atoms.size, new.atoms.size}
    points = np.sort(np.concatenate([reference.atoms, new.atoms]))
    finite = bool(np.isfinite(points).all())
    if finite and len(sizes) == 1 and np.ptp(reference.weights) == np.ptp(new.weights) == 0:
        return earth_movers_distance(reference.atoms, new.atoms)
    gaps = np.abs(reference.below(points[:-1]) - new.below(points[:-1]))
    if finite:
        return float(gaps @ np.diff(points))
    # As many infinite values as before need not be moved; one more is infinitely far away.
    moved = (gaps > _ROUNDING) & (points[:-1] != points[1:])
    return float(gaps[moved] @ (points[1:][moved] - points[:-1][moved]))


def _kolmogorov_smirnov(reference: Numbers, new: Numbers) -> tuple[float, float, str]:
    """The statistic, its p-value, and where the two differ most."""
    points = np.concatenate([reference.atoms, new.atoms])
    p, q = reference.below(points), new.below(points)
    place = int(np.abs(p - q).argmax())
    value = abs(float(p[place] - q[place]))
    at = _shift(f"at or below {number_text(points[place])} are", p[place], q[place])
    off = reference.resolution + new.resolution
    return value, ks_p_value(max(0.0, value - off), reference.rows, new.rows), at


def ks_p_value(statistic: float, rows: float, other_rows: float) -> float:
    """Return the asymptotic p-value of the two-sided statistic of two samples, in [0, 1].

    By the distribution of one sample of the effective size, as scipy's `ks_2samp` has it.
    """
    if statistic <= 0:
        return 1.0
    from scipy.stats import kstwo

    size = max(1, round(rows * other_rows / (rows + other_rows)))
    return float(np.clip(kstwo.sf(min(1.0, statistic), size), 0.0, 1.0))


# --- words -------------------------------------------------------------------------------------


def _quantile_shifts(reference: Numbers, new: Numbers) -> tuple[str, ...]:
    shifts = []
    for rank in _RANKS:
        old, now = reference.at_rank(rank), new.at_rank(rank)
        name = "median" if rank == 0.5 else f"p{100 * rank:.0f}"
        shifts.append(f"{name} {number_text(old)} -> {number_text(now)}")
    return tuple(shifts)


def _category_shifts(names: Sequence[str | None], p: FloatArray, q: FloatArray) -> tuple[str, ...]:
    """The categories whose shares differ most."""
    before, now = p / p.sum(), q / q.sum()
    order = np.argsort(-np.abs(now - before).round(12), kind="stable")[:_SHOWN]
    moved = [i for i in order if before[i] != now[i]]
    words = ["others" if name is None else repr(name) for name in names]
    return tuple(_shift(words[i], before[i], now[i]) for i in moved)


def are_few_values(before: CategoricalState, now: CategoricalState) -> bool:
    """Whether both tell every value, and the newer one has few."""
    return not before.other and not now.other and len(now.counts) <= _FEW_VALUES


def new_categories(before: CategoricalState, now: CategoricalState) -> tuple[str, ...]:
    """The values that a batch before did not have: `'EURO' 0% -> 5%`.

    Nothing of columns with many values, nor where most are others each time.
    """
    if not before.counts or not are_few_values(before, now):
        return ()
    new_shares = {name: share for name, share in now.shares.items() if name not in before.counts}
    if len(new_shares) > len(before.counts.keys() & now.counts.keys()):
        return ()
    most = sorted(new_shares, key=lambda name: (-new_shares[name], name))[:_SHOWN]
    return tuple(_shift(repr(name), 0.0, new_shares[name]) for name in most)


def _shift(what: str, before: float, now: float) -> str:
    """Two shares in words: `'DE' 70% -> 40%`."""
    return f"{what} {100 * before:.3g}% -> {100 * now:.3g}%"

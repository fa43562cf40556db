"""Distances between the distributions of two batches, from bounded state.

Numeric batches are given as quantile arrays: the values at equally spaced ranks, which stand for
equally weighted atoms. Categorical batches are given as frequency mappings: the most frequent
values with their counts, and the mass of all others. Pattern profiles are frequency mappings too,
so the six `Pat_` metrics of the paper are the categorical functions applied to patterns.

Source: He et al., "Auto-Validate by History", KDD 2023, Tables 3 and 4. The paper names the
metrics only; the choices it leaves open are:

- Kolmogorov-Smirnov and chi-squared are the statistics, not the p-values, because Proposition 2
  treats them as distances (small is good) and p-values vanish below what a double can hold.
- Cohen's d is taken absolute, for the same reason.
- The batch before is the reference distribution, the new batch is compared with it.
- Jensen-Shannon is in nats, in [0, ln 2]. Kullback-Leibler is smoothed by half a count per
  category (Krichevsky-Trofimov), so it is finite when a value is new or has vanished.
- A distance to or from an empty batch is NaN: it is not known, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.magnitudes import finite_values
from dqsql.errors import DecisionError
from dqsql.model.results import MetricProfile

_HISTOGRAM_BINS = 32
_SMOOTHING = 0.5
_MOST_OWN = 500
# From which part of the listed values that occur once on a column is one of keys.
_KEYS = 0.5
# The share of a sample of 200 keys that may be new by chance where hardly any of all keys are.
_BY_CHANCE = 0.015
# So few values of two batches may be equal within each, and differ, by chance.
_FEW_VALUES = 10


@dataclass(frozen=True, slots=True, eq=False)
class NumericState:
    """What is kept of one batch of a numeric column.

    Attributes:
        quantiles: non-decreasing values at equally spaced ranks, each standing for the same share
            of the batch; in the column's unit. Empty if the batch has no value.
        count: number of non-null values.
        mean: arithmetic mean, in the column's unit; NaN if empty.
        sd: sample standard deviation (n - 1), in the column's unit; NaN below two values.
    """

    quantiles: FloatArray
    count: float
    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class CategoricalState:
    """What is kept of one batch of a categorical column, or of its pattern profile.

    Attributes:
        counts: rows per kept value, each >= 0.
        other: rows whose value is not among the kept ones, >= 0. It is compared as one more
            category.
    """

    counts: Mapping[str, float]
    other: float = 0.0

    @property
    def size(self) -> float:
        """Rows, those of other values included."""
        return sum(self.counts.values()) + self.other

    @property
    def shares(self) -> dict[str, float]:
        """The share of all rows of each kept value that occurs."""
        size = self.size
        return {name: count / size for name, count in self.counts.items() if count}

    @classmethod
    def of(cls, profile: MetricProfile | None) -> CategoricalState:
        """Return the state of a stored profile; an empty one where there is none."""
        if profile is None:
            return cls({})
        return cls(dict(zip(profile.labels, profile.counts, strict=True)), profile.other)


def earth_movers_distance(reference: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Return the area between two quantile functions (1-Wasserstein), in the column's unit, or NaN.

    It is NaN if either batch is empty. The quantile arrays may have different lengths.
    """
    p, q = _quantiles(reference), _quantiles(new)
    if not p.size or not q.size:
        return float("nan")
    if p.size == q.size:
        return float(np.abs(p - q).mean())
    points = np.sort(np.concatenate([p, q]))
    gaps = np.abs(_cdf(p, points[:-1]) - _cdf(q, points[:-1]))
    return float(gaps @ np.diff(points))


def ks_distance(reference: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Return the two-sample Kolmogorov-Smirnov statistic, in [0, 1]; NaN if either is empty."""
    p, q = _quantiles(reference), _quantiles(new)
    if not p.size or not q.size:
        return float("nan")
    points = np.concatenate([p, q])
    return float(np.abs(_cdf(p, points) - _cdf(q, points)).max())


def cohens_d(
    reference_mean: float,
    reference_sd: float,
    reference_count: float,
    new_mean: float,
    new_sd: float,
    new_count: float,
) -> float:
    """Return |difference of means| / pooled standard deviation, in [0, inf]; no unit.

    Two constant batches of the same value give 0, of different values infinity, unless they are so
    few values that they may be equal by chance. NaN if either has no value, or both have one. What
    the standard deviation of one value is does not matter.
    """
    if min(reference_count, new_count) < 1 or reference_count + new_count < 3:
        return float("nan")
    sides = (reference_count, reference_sd), (new_count, new_sd)
    squares = sum((count - 1) * sd * sd for count, sd in sides if count > 1)
    pooled = float(np.sqrt(squares / (reference_count + new_count - 2)))
    difference = abs(new_mean - reference_mean)
    if pooled == 0.0:
        few = reference_count + new_count < _FEW_VALUES
        return 0.0 if difference == 0.0 or few else float("inf")
    return difference / pooled


def numeric_histograms(reference: NumericState, new: NumericState) -> tuple[FloatArray, FloatArray]:
    """Return both batches' counts over bins cut at quantiles of the reference.

    The bins have nearly equal mass in the reference, so one far outlier cannot squeeze all other
    values into one bin. A value that fills a whole bin (a tie) has that bin for itself; values
    below and above all of the reference have bins of their own.

    Returns:
        Two arrays of equal length with counts >= 0; both empty if either batch is empty.
    """
    p, q = _quantiles(reference.quantiles), _quantiles(new.quantiles)
    if not p.size or not q.size:
        return np.zeros(0), np.zeros(0)
    picks = np.linspace(0, p.size - 1, min(_HISTOGRAM_BINS, p.size)).round().astype(int)
    edges = np.unique(p[picks])
    # Each edge closes the bin on its left and, as an atom, starts the one on its right.
    cuts = np.unique(np.concatenate([edges, np.nextafter(edges, -np.inf)]))
    shares = [np.diff(np.concatenate([[0.0], _cdf(x, cuts), [1.0]])) for x in (p, q)]
    return shares[0] * reference.count, shares[1] * new.count


def js_divergence(reference: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Return the Jensen-Shannon divergence of two count vectors, in nats, in [0, ln 2].

    NaN if either has no mass. Needs no smoothing: the mixture is positive where either is.
    """
    p, q = _shares(reference), _shares(new)
    if p is None or q is None:
        return float("nan")
    mixture = (p + q) / 2
    return max(0.0, (_relative_entropy(p, mixture) + _relative_entropy(q, mixture)) / 2)


def kl_divergence(reference: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Return the Kullback-Leibler divergence KL(new || reference) in nats, >= 0 and finite.

    Half a count is added to every category that either has, so that neither a new nor a vanished
    value makes it infinite. NaN if either has no mass.
    """
    smooth = smoothed(reference, new)
    return float("nan") if smooth is None else max(0.0, _relative_entropy(smooth[1], smooth[0]))


def smoothed(reference: npt.ArrayLike, new: npt.ArrayLike) -> tuple[FloatArray, FloatArray] | None:
    """Return the shares of two count vectors, with half a count more of what either has.

    None if either has no mass.
    """
    p, q = np.asarray(reference, dtype=float), np.asarray(new, dtype=float)
    if p.sum() <= 0 or q.sum() <= 0:
        return None
    # What neither has would tell of the number of rows alone.
    either = p + q > 0
    p, q = p[either] + _SMOOTHING, q[either] + _SMOOTHING
    return p / p.sum(), q / q.sum()


def numeric_distances(reference: NumericState, new: NumericState) -> dict[str, float]:
    """Return the five two-distribution metrics of a numeric column (paper, Table 3).

    Keys are `NUMERIC_DISTANCES`.
    """
    p, q = numeric_histograms(reference, new)
    # Between infinite values there is no distance: NaN, without a word of numpy's.
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            "emd": earth_movers_distance(reference.quantiles, new.quantiles),
            "js_div": js_divergence(p, q),
            "kl_div": kl_divergence(p, q),
            "ks_dist": ks_distance(reference.quantiles, new.quantiles),
            "cohen_d": cohens_d(
                reference.mean, reference.sd, reference.count, new.mean, new.sd, new.count
            ),
        }


def categorical_distances(
    reference: CategoricalState, new: CategoricalState, prefix: str = ""
) -> dict[str, float]:
    """Return the six two-distribution metrics of a categorical column (paper, Table 4).

    Keys are `CATEGORICAL_DISTANCES`, each with the prefix: `PATTERN_PREFIX` if the frequencies are
    those of pattern strings.
    """
    shared = _shared_of_keys(reference, new)
    p, q = align_counts(reference, new, shared) if shared < 1 else _aligned(reference, new)
    distances = {
        **_distances_of_shares(_shares(p), _shares(q)),
        "js_div": js_divergence(p, q),
        "kl_div": kl_divergence(p, q),
    }
    return {f"{prefix}{name}": value for name, value in distances.items()}


def _distances_of_shares(p: FloatArray | None, q: FloatArray | None) -> dict[str, float]:
    """Four distances of two vectors of shares, each 0 if they are equal; NaN without mass.

    At most 2, 1, 1 and 2. The last is the two-sample chi-squared statistic per row: multiplied by
    n/2 for two batches of n rows it is the usual statistic of homogeneity. Freed of the row count,
    it does not move when only the volume does.
    """
    if p is None or q is None:
        return dict.fromkeys(("l_1", "l_inf", "cosine", "chi_squared"), float("nan"))
    apart, total = np.abs(p - q), p + q
    keep = total > 0
    similarity = float(p @ q) / float(np.sqrt((p @ p) * (q @ q)))
    return {
        "l_1": float(apart.sum()),
        "l_inf": float(apart.max()),
        "cosine": float(np.clip(1.0 - similarity, 0.0, 1.0)),
        "chi_squared": float((np.square(apart)[keep] / total[keep]).sum()),
    }


def align_counts(
    reference: CategoricalState, new: CategoricalState, shared: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the two mappings as count vectors over the union of their values.

    The mass of other values comes behind them, as one value. Where less than all of it is `shared`,
    a share in [0, 1], the rest are values that the other side has not: one each, or `_MOST_OWN`
    that stand for more.
    """
    keys = list(dict.fromkeys([*reference.counts, *new.counts]))
    vectors, states = [], (reference, new)
    for state in states:
        get = state.counts.get
        listed = np.array([*(get(key, 0.0) for key in keys), state.other * shared], dtype=float)
        vector = np.concatenate([listed, *(_own(s, shared) * (s is state) for s in states)])
        if (vector < 0).any():
            raise DecisionError("a frequency table has a negative count")
        vectors.append(vector)
    return vectors[0], vectors[1]


def _aligned(reference: CategoricalState, new: CategoricalState) -> tuple[FloatArray, FloatArray]:
    """Count vectors of batches of which either may have values that are not listed.

    As far as both have others these are one value. What one has more of them are many values.
    """
    sides = _with_unlisted(reference, new), _with_unlisted(new, reference)
    both = min(side.other / side.size if side.size else 0.0 for side in sides)
    more = [max(0.0, side.other - both * side.size) for side in sides]
    less = [replace(side, other=side.other - m) for side, m in zip(sides, more, strict=True)]
    p, q = align_counts(less[0], less[1])
    rarest = [min(state.counts.values(), default=1.0) or 1.0 for state in (reference, new)]
    parts = [_many(m, math.ceil(m / each)) for m, each in zip(more, rarest, strict=True)]
    return (
        np.concatenate([p, parts[0], np.zeros_like(parts[1])]),
        np.concatenate([q, np.zeros_like(parts[0]), parts[1]]),
    )


def _with_unlisted(state: CategoricalState, against: CategoricalState) -> CategoricalState:
    """The state with values that the other side lists, as far as they may be among its others.

    Each has at most as many rows as the rarest that is listed, and no larger a share than there. A
    Sunday of which all values are listed is like a weekday of which only the most frequent are.
    """
    if not state.counts or not state.other or not against.size:
        return state
    most, scale = min(state.counts.values()), state.size / against.size
    unlisted_counts = {
        v: min(c * scale, most) for v, c in against.counts.items() if v not in state.counts
    }
    part = min(1.0, state.other / (sum(unlisted_counts.values()) or 1.0))
    unlisted_counts = {value: count * part for value, count in unlisted_counts.items()}
    other = max(0.0, state.other - sum(unlisted_counts.values()))
    return CategoricalState({**state.counts, **unlisted_counts}, other)


def _own(state: CategoricalState, shared: float) -> FloatArray:
    mass = state.other * (1 - shared)
    return _many(mass, math.ceil(mass))


def _many(mass: float, number: int) -> FloatArray:
    """So many values that have a number of rows together; `_MOST_OWN` stand for more."""
    number = min(number, _MOST_OWN)
    return np.full(number, mass / max(number, 1))


def _shared_of_keys(reference: CategoricalState, new: CategoricalState) -> float:
    """The share of other values that two columns of keys have in common, by those listed.

    Where a listed value occurs once, so do all others: those listed are a sample of them by hash,
    the same of both sides. The fewer of the listed values that is, the less of a key is the column,
    whose other values are then one, the same on both sides; below a half it is none.
    """
    sides = reference.counts, new.counts
    once = [{key for key, count in side.items() if count <= 1} for side in sides]
    if not all(once):
        return 1.0
    apart = 1.0 - len(once[0] & once[1]) / max(map(len, once))
    apart = max(0.0, apart - _BY_CHANCE) / (1.0 - _BY_CHANCE)
    keys = min(len(single_keys) / len(side) for single_keys, side in zip(once, sides, strict=True))
    return 1.0 - keys * apart if keys >= _KEYS else 1.0


def _quantiles(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or np.isnan(array).any() or (array[1:] < array[:-1]).any():
        raise DecisionError("a quantile array must be one-dimensional, sorted and free of NaN")
    return array


def _cdf(atoms: FloatArray, points: FloatArray) -> FloatArray:
    return np.asarray(np.searchsorted(atoms, points, side="right") / atoms.size, dtype=float)


def _shares(counts: npt.ArrayLike) -> FloatArray | None:
    array = np.asarray(counts, dtype=float)
    total = array.sum()
    return array / total if total > 0 else None


def _relative_entropy(p: FloatArray, q: FloatArray) -> float:
    keep = p > 0
    return float((p[keep] * np.log(p[keep] / q[keep])).sum())


def without_drift(distance: float, past: FloatArray, batches: int) -> float:
    """A distance over several batches, without what their number usually adds to it.

    A column that moves steadily, as a running number, has moved once more for each batch that was
    left out between. At least its usual distance is left.

    Args:
        distance: to the batch before those that were left out; signed ones keep their sign.
        past: distances between neighbouring batches; NaN where there is none.
        batches: how many were left out.
    """
    known = np.abs(finite_values(past))
    usual = float(np.median(known)) if known.size else 0.0
    size = abs(distance)
    return math.copysign(max(size - batches * usual, min(size, usual)), distance)

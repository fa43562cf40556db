"""Bounds on the false-positive rate (FPR) of an interval around a metric's history.

`paper` is the text of He et al., "Auto-Validate by History", KDD 2023, Propositions 1-3: the mean
and the variance of the K historical values are taken for the true ones.

`calibrated` counts the uncertainty of both. Per side and with k = distance from the mean in
estimated standard deviations, the bound is

    max( P(T > k / sqrt(1 + 1/K)),  1/(K + 1) if the threshold lies inside the history's range )

with T of Student's t distribution with `tail_dof` degrees of freedom. What it promises:

- Normal history, values independent: (X - mean) / (s sqrt(1 + 1/K)) has exactly the t distribution
  with K - 1 degrees of freedom (Student 1908; Hahn & Meeker, "Statistical Intervals", 1991, 4.7).
  Beyond the point where t with fewer degrees of freedom has the heavier tail (below 2.4 for all K),
  the bound is at least the true rate, so it holds; it is conservative on purpose.
- Any exchangeable history: P(new value beyond the largest of K) <= 1/(K + 1) (conformal
  prediction; Vovk, Gammerman & Shafer 2005, Prop. 2.2), so no threshold inside the range is
  given a smaller rate.
- Beyond the range of the history no distribution-free statement below 1/(K + 1) exists. There the
  bound is a model: the standardised prediction error has tails no heavier than Student's t with
  `tail_dof` degrees of freedom. In the simulations of tests/decisions it holds for normal and
  Poisson histories; with t(3), exponential and autocorrelated (0.5) histories of 8, 14 and 30
  batches the realised rate stays within three times the promised one. Real columns keep it
  down to about 0.3 / (K + 1): see `least_fpr`.

A constant history has s = 0, which is a sample fact and not a property of the source: the next
value lies above all before it with a probability of up to 1/(K + 1), and as often below.
`calibrated` therefore adds a resolution to the spread (see `spread_floor`), so that one row fewer
in 10,000 is no finding. For numbers of rows or values and lengths, the tail only says how far the
next value lies from the others, if it does at all: the bound of a side is
2 P(T > k / sqrt(1 + 1/K)) / (K + 1), where k counts from the next whole number (see `dead_bands`).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.errors import DecisionError
from dqsql.model import metric_traits

Bounds = Literal["paper", "calibrated"]
Method = Literal["equality", "chebyshev", "cantelli", "clt", "student_t"]

_RANGES = {
    **dict.fromkeys(
        ["unique_ratio", "upper_ratio", "lower_ratio", *metric_traits.COUNTED_SHARES], (0.0, 1.0)
    ),
    **dict.fromkeys(["row_count", "dist_val_count", "range"], (0.0, np.inf)),
    **dict.fromkeys(["str_len", "char_len", "digit_len", "punc_len"], (0.0, np.inf)),
    **dict.fromkeys(["emd", "kl_div", "cohen_d", "pat_kl_div"], (0.0, np.inf)),
    **dict.fromkeys(["ks_dist", "l_inf", "cosine", "pat_l_inf", "pat_cosine"], (0.0, 1.0)),
    **dict.fromkeys(["l_1", "chi_squared", "pat_l_1", "pat_chi_squared"], (0.0, 2.0)),
    **dict.fromkeys(["js_div", "pat_js_div"], (0.0, float(np.log(2.0)))),
}

# How much rarer a program's rate may be than one in K + 1 batches.
_BEYOND_SEEN = 0.3
_TAIL_DOF = 3.5
_TAIL_DOF_OF_TWO_BATCHES = 3.0
_TAIL_DOF_OF_EXTREMES = 2.5
RELATIVE_RESOLUTION = 0.01
# Of lengths that every batch had alike, so that every text has one: a share of texts may differ.
_SAME_LENGTH_RESOLUTION = 0.001
_COUNT_RESOLUTION = 0.5
# Half an hour: more than the median of a day's moments moves by itself.
_DAY_RESOLUTION = 0.02
# Of batches whose moments are within so much of a day, or less, it is as much less.
_PART_OF_DAY, _SHORTEST = 0.25, 1 / 24
_DAY_BAND = 0.5
_STEPS = {"min": (0.0, 1.0), "max": (1.0, 0.0), "range": (1.0, 0.0)}
_STEPS |= dict.fromkeys(metric_traits.COUNT_METRICS, (1.0, 1.0))
# Of distances that were always zero: at the usual rates no bound on one lies below 0.03.
_DISTANCE_RESOLUTION = 0.01
# Of the difference of two shares that are known at 100 ranks: each is off by up to half a rank.
_RANK_RESOLUTION = 0.01 / math.sqrt(6)
# Of the largest range: bounds at the smallest usual rates reach as far as values did.
_RESOLUTION_OF_ZERO_QUARTILES = 0.05
EQUALITY_TOLERANCE = 1e-9
# Of distances that grow with the square of what shares differ by: a percent is as good as nothing.
_SQUARED = frozenset({"cosine", "chi_squared", "js_div", "kl_div"})
_SQUARED_EQUALITY = 1e-4


def possible_range(metric: str, log: bool = False, difference: bool = False) -> tuple[float, float]:
    """Return the least and the largest value that a transformed metric can take at all.

    Sketches may count a few distinct values more than there are. The logarithm of a number of rows
    or values ends where that is none.
    """
    low, high = _RANGES.get(metric, (-np.inf, np.inf))
    if metric == "unique_ratio":
        high = 1.1
    if log:
        low = float(np.log(_COUNT_RESOLUTION)) if metric in metric_traits.COUNT_METRICS else -np.inf
        high = float(np.log(high)) if np.isfinite(high) else np.inf
    return (low - high, high - low) if difference else (low, high)


def shown(metric: str, lower: float, upper: float) -> tuple[float, float]:
    """Return bounds of a metric in its own unit, infinite where nothing can lie beyond."""
    low, high = possible_range(metric)
    return (lower if lower > low else -np.inf), (upper if upper < high else np.inf)


def score(value: float, expected: float, lower: float, upper: float) -> float:
    """Return how far a value is from what is expected, over how far the bound of its side is."""
    width = abs((upper if value >= expected else lower) - expected)
    distance = abs(value - expected)
    if distance == 0.0 or math.isinf(width):
        return 0.0
    return distance / width if width > 0 else math.inf


def paper_method(metric: str) -> Method:
    """Return which proposition the paper assigns a metric to (section 4.2).

    Distances get Cantelli (Proposition 2), averages and counts of rows the central limit theorem
    (Proposition 3), all others Chebyshev (Proposition 1).
    """
    if metric in metric_traits.DISTANCE_METRICS:
        return "cantelli"
    return "clt" if metric in metric_traits.CLT_METRICS else "chebyshev"


def paper_fpr(method: Method, k: npt.ArrayLike) -> FloatArray:
    """Return the paper's FPR bound of half-width k standard deviations, in [0, 1].

    Args:
        method: chebyshev (two-sided), cantelli (upper side), clt (two-sided) or equality.
        k: half-width / standard deviation, > 0.
    """
    width = np.asarray(k, dtype=float)
    if method == "chebyshev":
        return np.asarray(np.minimum(1.0, 1.0 / np.square(width)))
    if method == "cantelli":
        return np.asarray(1.0 / (1.0 + np.square(width)))
    if method == "clt":
        return np.asarray(scipy.special.erfc(width / np.sqrt(2.0)))
    if method == "equality":
        return np.zeros_like(width)
    raise DecisionError(f"the paper has no bound {method!r}")


def student_t_fpr(k: npt.ArrayLike, history: int, degrees: float | None = None) -> FloatArray:
    """Return the one-sided rate of Student's prediction interval, in [0, 1].

    Exact for independent normal values with the default `degrees` = K - 1.

    Args:
        k: distance from the estimated mean in estimated standard deviations (n - 1).
        history: number of values K, >= 2.
        degrees: degrees of freedom, at most K - 1 are used.
    """
    dof = history - 1.0 if degrees is None else min(degrees, history - 1.0)
    standard = np.asarray(k, dtype=float) / np.sqrt(1.0 + 1.0 / history)
    return np.asarray(scipy.special.stdtr(dof, -standard), dtype=float)


def tail_dof(history: int, metric: str, difference: bool = False) -> float:
    """Return the degrees of freedom of the calibrated tail, fewer for short histories.

    A few values rarely show the tail that their source has, and underestimate its spread. A
    difference and a distance hang on two batches, either of which can be the odd one, and an
    extreme hangs on a single row.
    """
    most = (
        _TAIL_DOF_OF_TWO_BATCHES
        if difference or metric in metric_traits.DISTANCE_METRICS
        else _TAIL_DOF
    )
    if metric in metric_traits.EXTREME_METRICS:
        most = _TAIL_DOF_OF_EXTREMES
    return min(most, (history - 1.0) / 3.0)


def calibrated_fpr(
    k: npt.ArrayLike,
    history: int,
    extreme: npt.ArrayLike,
    degrees: float,
    steady: npt.ArrayLike = False,
) -> FloatArray:
    """Return the calibrated one-sided FPR bound; see the module's text for what it promises.

    Args:
        k: distance of the threshold from the mean, in estimated standard deviations, > 0.
        history: number of values K, >= 2.
        extreme: distance of the history's most extreme value of that side from the mean, in the
            same unit.
        degrees: degrees of freedom of the tail, see `tail_dof`.
        steady: whether the metric is one that says how far it moves, if it does, and never did.
    """
    tail = student_t_fpr(k, history, degrees)
    return fpr_of_tail(tail, k, history, extreme, steady)


def fpr_of_tail(
    tail: npt.ArrayLike,
    k: npt.ArrayLike,
    history: int,
    extreme: npt.ArrayLike,
    steady: npt.ArrayLike,
) -> FloatArray:
    """Return the same where the rates of Student's t are known."""
    beyond_all = 1.0 / (history + 1.0)
    tail = np.where(steady, 2.0 * beyond_all * np.asarray(tail), tail)
    inside = np.asarray(k, dtype=float) < np.asarray(extreme, dtype=float)
    return np.where(inside, np.maximum(tail, beyond_all), tail)


def least_fpr(history: int) -> float:
    """Return the smallest false-positive rate of a program that so many batches K can promise.

    0.3 / (K + 1). Measured, not derived (docs/quality.md): with 30 batches 1 % is kept over all
    development columns, 0.3 % and 0.1 % are not by texts. What is rarer than anything seen rests on
    a model of tails.
    """
    return _BEYOND_SEEN / (history + 1.0)


def history_for(fpr: float) -> int:
    """Return how many batches can promise a false-positive rate, in (0, 1)."""
    return max(1, math.ceil(_BEYOND_SEEN / fpr - 1e-9) - 1)


def all_equal(values: FloatArray) -> BoolArray:
    """Return of each series, the last axis, whether its values are equal but for rounding."""
    with np.errstate(over="ignore"):
        sizes = np.abs(values).max(axis=-1)
        return np.asarray(np.ptp(values, axis=-1) <= EQUALITY_TOLERANCE * sizes)


def dead_bands(metric: str, values: FloatArray, difference: bool = False) -> tuple[float, float]:
    """Return how far below and above its mean a metric may be before that counts, in its unit.

    Half a day for dates: where all are whole days, no two batches differ by less. A number of rows
    or values that was one and the same may be another, and a least, largest or widest value that
    was one and the same whole number may move by one towards the others: a code that few rows have
    is absent from a batch by chance. The `values` are its history, transformed, all finite.
    """
    if metric in metric_traits.DAY_METRICS:
        band = _DAY_BAND if (values == np.rint(values)).all() else 0.0
        return band, band
    whole = metric in _STEPS and not difference and values[0] % 1 == 0
    return _STEPS[metric] if whole and (values == values[0]).all() else (0.0, 0.0)


def spread_floor(
    metric: str,
    level: float,
    log: bool,
    value_range: float = 0.0,
    widest: float = 0.0,
    *,
    constant: bool = False,
) -> float:
    """Return the resolution that `calibrated` adds to the standard deviation (in quadrature).

    One percent of the metric's level, at least half a unit for counts, half an hour for days (which
    have `dead_bands`; less where batches are parts of a day); for metrics in the column's unit
    (min, max, mean, quartiles, range) at least one percent of the column's range, as their level
    says nothing (zero is no small temperature). On the log scale one percent. Distances
    whose level is zero say that batches were equal, not that the next may not differ by a few rows.
    Where the largest difference of shares is small, it is that of one row, and may double.
    Quartiles that are zero say that most values are: of dry days, not that it will never rain.
    The Kolmogorov-Smirnov statistic is that of values at 100 ranks. A mean length that never
    changed is that of every text, as of identifiers, and one part in a thousand is a change.

    Args:
        metric: name of the metric.
        level: median absolute value of the history, >= 0, in the metric's unit.
        log: whether bounds are put on the logarithm.
        value_range: typical max - min of the column, >= 0, in its unit or in days; 0 for texts.
        widest: largest max - min that the column had.
        constant: whether all values of the history are equal.
    """
    same_length = constant and metric in metric_traits.LENGTH_METRICS
    floor = (_SAME_LENGTH_RESOLUTION if same_length else RELATIVE_RESOLUTION) * level
    if metric in metric_traits.COUNT_METRICS:
        floor = max(floor, _COUNT_RESOLUTION)
    if metric in metric_traits.DAY_METRICS:
        part = max(value_range, _SHORTEST) if 0 < value_range <= _PART_OF_DAY else 1.0
        floor = max(floor, part * _DAY_RESOLUTION)
    if metric in metric_traits.UNIT_METRICS:
        floor = max(floor, RELATIVE_RESOLUTION * value_range)
    if metric in metric_traits.QUARTILES and level == 0.0:
        floor = max(floor, _RESOLUTION_OF_ZERO_QUARTILES * widest)
    # Equal but for rounding, or for a few rows among thousands where differences are squared.
    squared = metric.removeprefix(metric_traits.PATTERN_PREFIX) in _SQUARED
    equal = _SQUARED_EQUALITY if squared else EQUALITY_TOLERANCE
    if metric in metric_traits.DISTANCE_METRICS and level <= equal:
        # The earth mover's distance has the column's unit.
        floor = RELATIVE_RESOLUTION * value_range if metric == "emd" else _DISTANCE_RESOLUTION
    if metric == "ks_dist":
        floor = max(floor, _RANK_RESOLUTION)
    if metric == "l_inf" and level <= _DISTANCE_RESOLUTION:
        floor = max(floor, level)
    floor = max(floor, EQUALITY_TOLERANCE)
    return floor / level if log and level > 0 else floor

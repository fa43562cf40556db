"""Stationarity of metric histories: batched ADF test and the choice of a transform.

Source: He et al., "Auto-Validate by History", KDD 2023, section 4.2 and Appendix E (Algorithms 4
and 5): a history is taken as it is if the augmented Dickey-Fuller test rejects the unit root, else
as differences of the first lag that passes, else as differences of its logarithm, else dropped.

A history is taken by its places: a batch that was left out (flagged, rejected, without a value) is
NaN in it, so that a season stays in step. A difference is then against the nearest batch a multiple
of the lag back that is there, and tests are made on the differences that there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.adf import SHORTEST_FOR_ADF, adf_ragged
from dqsql.decisions.arrays import BoolArray, FloatArray, IntArray
from dqsql.decisions.magnitudes import SD_OF_MEDIAN
from dqsql.errors import DecisionError

_SIGNIFICANCE = 0.05
# Below this many values neither the test nor a spread estimated from them means anything.
_MIN_VALUES = 6
_CONSTANT_TOLERANCE = 1e-9
# A metric has moved if it is so many standard deviations away, and so large a part of its level.
_MOVED, _TRIFLE = 3.0, 0.01

# Rank correlation with time from which a history counts as drifting.
_DRIFT = 0.5


@dataclass(frozen=True, slots=True)
class Transform:
    """What is done to a metric's history before bounds are put on it.

    Attributes:
        log: whether the logarithm is taken first.
        lag: 0, or the distance in batches of the value that is subtracted. Where that batch was
            left out, it is the one twice as far back, and so on.
    """

    log: bool = False
    lag: int = 0

    @property
    def name(self) -> str:
        """One of identity, log, difference, log_difference."""
        if self.lag:
            return "log_difference" if self.log else "difference"
        return "log" if self.log else "identity"

    def series(self, history: npt.ArrayLike) -> FloatArray:
        """Return the transformed history; the last axis is time and becomes `lag` shorter.

        NaN for a batch that was left out, or that has no batch to be compared with.
        """
        values = np.asarray(history, dtype=float)
        if not self.lag:
            return self._scale(values)
        before = _carried(values, self.lag)[..., : -self.lag]
        return np.asarray(self._scale(values[..., self.lag :]) - self._scale(before), dtype=float)

    def reaches(self, history: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return, per history, whether there is something to compare the next batch with."""
        values = np.asarray(history, dtype=float)
        if not self.lag:
            return np.ones(values.shape[:-1], dtype=np.bool_)
        if values.shape[-1] < self.lag:
            return np.zeros(values.shape[:-1], dtype=np.bool_)
        return np.asarray(np.isfinite(self._before(values)), dtype=np.bool_)

    def apply(self, history: npt.ArrayLike, new_value: npt.ArrayLike) -> FloatArray:
        """Return the transformed value of a new batch that follows the history.

        Args:
            history: values of the batches before, oldest first, last axis time; NaN for one that
                was left out.
            new_value: one value, or any shape that broadcasts with history without time.

        Raises:
            DecisionError: there is no batch to compare with, see `reaches`.
        """
        # The distance of two numbers may be larger than a number can be.
        with np.errstate(over="ignore"):
            return np.asarray(self._scale(new_value) - self._offset(history), dtype=float)

    def undo(self, history: npt.ArrayLike, value: npt.ArrayLike) -> FloatArray:
        """Return, in the metric's unit, what `apply` maps to the given value."""
        with np.errstate(over="ignore"):
            raw = np.asarray(value, dtype=float) + self._offset(history)
            return np.asarray(np.exp(raw) if self.log else raw, dtype=float)

    def _scale(self, values: npt.ArrayLike) -> FloatArray:
        array = np.asarray(values, dtype=float)
        if not self.log:
            return array
        # A new value of zero or less is infinitely far below a positive history.
        out = np.full(array.shape, -np.inf)
        out[np.isnan(array)] = np.nan
        np.log(array, out=out, where=array > 0)
        return out

    def _offset(self, history: npt.ArrayLike) -> FloatArray:
        if not self.lag:
            return np.zeros(())
        values = np.asarray(history, dtype=float)
        if values.shape[-1] < self.lag:
            raise DecisionError(
                f"a difference of lag {self.lag} needs {self.lag} batches of history, "
                f"there are {values.shape[-1]}"
            )
        before = self._before(values)
        if not np.isfinite(before).all():
            raise DecisionError(
                f"a difference of lag {self.lag} needs a value {self.lag} batches before, or a "
                "multiple of that: all of them were left out"
            )
        return self._scale(before)

    def _before(self, values: FloatArray) -> FloatArray:
        """Return what the batch after the history is compared with; NaN for none."""
        return np.asarray(_carried(values, self.lag)[..., values.shape[-1] - self.lag])


def _carried(values: FloatArray, lag: int) -> FloatArray:
    """Return the values with each gap filled by the value `lag` before it, if that is there."""
    if np.isfinite(values).all():
        return values
    out = np.where(np.isfinite(values), values, np.nan)
    for start in range(lag, out.shape[-1], lag):
        block = out[..., start : start + lag]
        before = out[..., start - lag : start - lag + block.shape[-1]]
        out[..., start : start + lag] = np.where(np.isnan(block), before, block)
    return out


# What was found so often is normal.
RECURS = 3


def furthest_metrics(before: FloatArray, moved: FloatArray) -> IntArray:
    """Return which metric of each of some batches lies furthest out, in usual spreads.

    `before` are K x M metrics of usual batches, `moved` those of the others; NaN for none.
    """
    known = np.isfinite(before)
    values = np.where(known, before, np.where(known.any(axis=0), np.nan, 0.0))
    was = np.nanmedian(values, axis=0)
    spread = np.nanmedian(np.abs(values - was), axis=0) * SD_OF_MEDIAN
    with np.errstate(over="ignore"):
        away = np.abs(moved - was) / np.maximum(spread + _TRIFLE * np.abs(was), 1e-300)
    return np.asarray(np.where(np.isnan(away), 0.0, away).argmax(axis=1))


def like_the_moved(before: FloatArray, moved: FloatArray, since: FloatArray) -> BoolArray:
    """Return which batches are like some that lay far out, and not like those before.

    Each metric that moved says it by the medians that a value is nearer to; most of them decide. If
    none is far out, as where weekends are, it is the one that moved furthest. Each part has the
    metrics of some batches: `before`, of those that lay far out, and of those since.
    """
    parts = [np.where(np.isfinite(part), part, np.nan) for part in (before, moved)]
    there = np.all([np.isfinite(part).any(axis=0) for part in parts], axis=0)
    if not there.any():
        return np.zeros(len(since), dtype=np.bool_)
    was, then = (np.nanmedian(part[:, there], axis=0) for part in parts)
    spread = np.nanmedian(np.abs(parts[0][:, there] - was), axis=0) * SD_OF_MEDIAN
    away = np.abs(then - was) / np.maximum(spread + _TRIFLE * np.abs(was), 1e-300)
    far = (away > _MOVED) | (away == away.max())
    values = since[:, there][:, far]
    nearer = np.abs(values - then[far]) < np.abs(values - was[far])
    known = np.isfinite(values)
    votes = np.where(known, nearer, False).sum(axis=1)
    return np.asarray(2 * votes > known.sum(axis=1), dtype=np.bool_)


def is_stationary(series: npt.ArrayLike) -> BoolArray:
    """Return, per series (n x K), whether it is constant or the ADF test rejects a unit root.

    What is not finite is left out. A series too short for the test is not stationary, unless it is
    constant.
    """
    values = np.atleast_2d(np.asarray(series, dtype=float))
    known = np.isfinite(values)
    lengths = known.sum(axis=1)
    # What is known stands together, on the left.
    order = np.argsort(~known, axis=1, kind="stable")
    dense = np.take_along_axis(np.where(known, values, 0.0), order, axis=1)
    there = np.arange(values.shape[1]) < lengths[:, None]
    scale = np.maximum(np.abs(dense).max(axis=1, initial=0.0), np.finfo(float).tiny)
    least = np.where(there, dense, np.inf).min(axis=1, initial=np.inf)
    most = np.where(there, dense, -np.inf).max(axis=1, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        constant = (most - least <= _CONSTANT_TOLERANCE * scale) & (lengths > 0)
    result = np.asarray(constant, dtype=np.bool_)
    rest = np.flatnonzero(~constant & (lengths >= SHORTEST_FOR_ADF))
    if rest.size:
        result[rest] = adf_ragged(dense[rest], lengths[rest])[1] < _SIGNIFICANCE
    return result


def _is_straight(values: FloatArray) -> BoolArray:
    """Whether series without gaps, n x K, change by the same in each step, and do change."""
    steps = np.diff(values, axis=1)
    least, most = steps.min(axis=1, initial=np.inf), steps.max(axis=1, initial=-np.inf)
    rounding = 4 * np.finfo(float).eps * np.abs(values).max(axis=1, initial=0.0)
    size = np.maximum(np.abs(least), np.abs(most))
    with np.errstate(invalid="ignore"):
        straight = most - least <= _CONSTANT_TOLERANCE * size + rounding
    return np.asarray(straight & (size > rounding), dtype=np.bool_)


def choose_transforms(series: npt.ArrayLike) -> list[Transform | None]:
    """Choose the transform of each of many histories of equal length (paper, Algorithm 5).

    A lag must leave `_MIN_VALUES` differences (choice; the paper goes down to one).

    Args:
        series: n x K; what is not finite was left out.

    Returns:
        n transforms; None where no transform made the history stationary: drop the metric. The
        batch after the history can be transformed by each.
    """
    values = np.atleast_2d(np.asarray(series, dtype=float))
    chosen: list[Transform | None] = [None] * len(values)
    known = np.isfinite(values)
    positive = ((values > 0) & known).sum(axis=1) == known.sum(axis=1)
    need = max(_MIN_VALUES, SHORTEST_FOR_ADF)
    most = int(known.sum(axis=1).max(initial=0)) - need
    open_rows = np.arange(len(values))
    for tries in _tries(most):
        rows = open_rows[positive[open_rows]] if tries[0].log else open_rows
        if not rows.size:
            continue
        passed = _passed(values[rows], tries, need)
        stationary_rows = np.flatnonzero(passed.any(axis=1))
        for row, first in zip(
            rows[stationary_rows], passed[stationary_rows].argmax(axis=1), strict=True
        ):
            chosen[row] = tries[first]
        open_rows = np.setdiff1d(open_rows, rows[stationary_rows], assume_unique=True)
    return chosen


def _tries(most: int) -> list[list[Transform]]:
    """The transforms in the order in which they are tried, those together that one test tries.

    Most histories are stationary as they are or after one of the first differences.
    """
    starts = [1, *(s for s in (2, 5, 11) if s <= most), most + 1]
    blocks = [range(a, b) for a, b in itertools.pairwise(starts) if a < b]
    differences = [
        [Transform(log=log, lag=lag) for lag in b] for log in (False, True) for b in blocks
    ]
    return [[Transform()], *differences]


def _passed(values: FloatArray, tries: Sequence[Transform], need: int) -> BoolArray:
    """Which transforms make which histories stationary, n x tries."""
    count, length = values.shape
    made = np.full((count, len(tries), length), np.nan)
    able = np.ones((count, len(tries)), dtype=np.bool_)
    for place, transform in enumerate(tries):
        series = transform.series(values)
        made[:, place, length - series.shape[1] :] = series
        if transform.lag:
            able[:, place] = (np.isfinite(series).sum(axis=1) >= need) & transform.reaches(values)
    passed = np.zeros((count, len(tries)), dtype=np.bool_)
    passed[able] = is_stationary(made[able])
    if not tries[0].lag and not tries[0].log:
        # The fit of a straight line is exact, and the statistic of the test rounding alone.
        passed[:, 0] &= ~_is_straight(values)
    return passed


def drifting(values: FloatArray) -> npt.NDArray[np.bool_]:
    """Return per series (K x n) whether it rises or falls with time.

    By rank correlation above 0.5; a constant does not.
    """
    ranks: FloatArray = np.empty(values.shape)
    for place, column in enumerate(values.T):
        ranks[:, place] = _ranks(column)
    ranks -= ranks.mean(axis=0)
    time = (np.arange(len(values)) - (len(values) - 1) / 2)[:, None]
    norm = np.sqrt(np.square(ranks).sum(axis=0) * np.square(time).sum())
    # Not a product of matrices, which may flag a floating-point error that never happened.
    product = (time * ranks).sum(axis=0)
    correlation = np.divide(product, norm, out=np.zeros(ranks.shape[1]), where=norm > 0)
    return np.asarray(np.abs(correlation) > _DRIFT, dtype=np.bool_)


def _ranks(values: FloatArray) -> FloatArray:
    """Twice the average ranks of values, up to a constant.

    `scipy.stats.rankdata` gives them, too, but takes a second to import.
    """
    ordered = np.sort(values)
    below, up_to = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray(below + up_to, dtype=float)

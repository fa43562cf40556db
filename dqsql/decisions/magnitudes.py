"""Which numbers can be reckoned with.

A column may hold infinities, or the largest double as a stand-in for a missing value. Metrics of
such a batch have squares that no double can hold. As part of a history they say nothing; in the
batch under test they are infinitely far from whatever was usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import FloatArray

LARGEST = 1e150
# What a median of distances is multiplied by to be a standard deviation, of a normal distribution.
SD_OF_MEDIAN = 1.4826


def usable(values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which values are finite, and so are their squares; NaN is not."""
    return np.asarray(np.abs(np.asarray(values, dtype=float)) <= LARGEST, dtype=np.bool_)


def finite_values(values: npt.ArrayLike) -> FloatArray:
    """Return those of some values that are finite."""
    array = np.asarray(values, dtype=float)
    return np.asarray(array[np.isfinite(array)], dtype=float)


def finite(value: Any) -> Any:
    """Return a value for JSON: None for NaN and infinities."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def infinite_if_larger(values: npt.ArrayLike) -> FloatArray:
    """Return the values, those beyond `LARGEST` as infinities of their sign; NaN stays NaN."""
    array = np.asarray(values, dtype=float)
    return np.where(np.abs(array) > LARGEST, np.copysign(np.inf, array), array)


def for_zero(values: FloatArray) -> FloatArray:
    """Return what a zero counts as where logarithms are taken: half of the smallest step, S.

    The least of prices that are rounded to cents is 0.02, 0.01 or, now and then, 0: that is one
    step, not infinitely far. Where past values (S x K) differ in their last digits only, it is
    nearly so.
    """
    ordered = np.sort(np.where(values > 0, values, np.nan), axis=1)
    steps = np.diff(ordered, axis=1, prepend=0.0)
    return np.asarray(0.5 * np.where(steps > 0, steps, np.inf).min(axis=1), dtype=float)


# How many standard deviations of the other batches make a batch an outlier: no tail reaches there.
_OUTLIER = 12.0
# Of so many batches one may be one; an odd batch is odd in two distances, to it and from it.
_BATCHES_TO_AN_OUTLIER = 30


def packed(
    values: FloatArray, known: npt.NDArray[np.bool_]
) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray]]:
    """Yield series with equally many known values together: which rows, and these values, dense.

    Of S x P values those that are `known` count; a series without any is left out.
    """
    counts = known.sum(axis=1)
    for count in np.flatnonzero(np.bincount(counts)):
        if count:
            rows = np.flatnonzero(counts == count)
            yield rows, values[rows][known[rows]].reshape(rows.size, count)


def without_outliers(history: npt.ArrayLike, distance: bool = False) -> FloatArray:
    """Return a metric's history with NaN in the place of lone batches that are far from all others.

    One day of tenfold volume among the first batches would widen every spread so far that nothing
    is found before it has left the window. What happened more often is part of the history.

    Args:
        history: values of the batches, oldest first; NaN for one that was left out.
        distance: whether the values compare each batch with the one before.
    """
    values = np.asarray(history, dtype=float)
    (cleaned_values,) = without_outliers_each(values[None], np.array([distance]))
    return np.asarray(cleaned_values, dtype=float)


def without_outliers_each(histories: FloatArray, distances: npt.NDArray[np.bool_]) -> FloatArray:
    """Return many histories of one length (S x P) as `without_outliers` does."""
    out = np.array(histories, dtype=float)
    known = usable(out)
    for distance in (False, True):
        alike = np.flatnonzero(distances == distance)
        for rows, dense in packed(out[alike], known[alike]):
            size = dense.shape[1]
            if size < 8:
                continue
            most = max(1, size // _BATCHES_TO_AN_OUTLIER) * (2 if distance else 1)
            away = np.abs(dense - np.median(dense, axis=1, keepdims=True))
            order = np.argsort(away, axis=1, kind="stable")
            ranked = np.take_along_axis(dense, order, axis=1)
            rest, far = ranked[:, :-most], ranked[:, -most:]
            spread = rest.std(axis=1, ddof=1)
            floor = 0.01 * np.median(np.abs(rest), axis=1)
            bound = _OUTLIER * np.hypot(spread, floor)
            outliers = np.abs(far - rest.mean(axis=1, keepdims=True)) > bound[:, None]
            row, column = np.nonzero(outliers & (bound > 0.0)[:, None])
            places = np.nonzero(known[alike[rows]])[1].reshape(rows.size, size)
            out[alike[rows[row]], places[row, order[row, size - most + column]]] = np.nan
    return out


def is_counted(known: FloatArray, new: float) -> bool:
    """Whether values are whole numbers that vary.

    Shares may be 0 and 1 alone so far: of such values these are counts that are mostly 0, if the
    new one is whole, too.
    """
    if not known.size or np.ptp(known) == 0 or (known != np.rint(known)).any():
        return False
    return bool(np.abs(known).max() > 1 or (np.median(known) == 0 and new == np.rint(new)))


def is_volume(known: FloatArray, new: float) -> bool:
    """Whether values are numbers of rows, or the like: whole numbers, all above 0, that vary."""
    return bool(is_counted(known, new) and known.min() > 0)

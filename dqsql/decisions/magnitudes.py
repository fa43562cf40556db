"""Which numbers can be reckoned with.

A column may hold infinities, or the largest double as a stand-in for a missing value. Metrics of
such a batch have squares that no double can hold. As part of a history they say nothing; in the
batch under test they are infinitely far from whatever was usual.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LARGEST = 1e150


def usable(values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which values are finite, and so are their squares; NaN is not."""
    return np.asarray(np.abs(np.asarray(values, dtype=float)) <= LARGEST, dtype=np.bool_)


def infinite_if_larger(values: npt.ArrayLike) -> FloatArray:
    """Return the values, those beyond `LARGEST` as infinities of their sign; NaN stays NaN."""
    array = np.asarray(values, dtype=float)
    return np.where(np.abs(array) > LARGEST, np.copysign(np.inf, array), array)


# How many standard deviations of the other batches make a batch an outlier: no tail reaches there.
_OUTLIER = 12.0
# Of so many batches one may be one; an odd batch is odd in two distances, to it and from it.
_BATCHES_TO_AN_OUTLIER = 30


def without_outliers(history: npt.ArrayLike, distance: bool = False) -> FloatArray:
    """Return a metric's history with NaN in the place of lone batches that are far from all others.

    One day of tenfold volume among the first batches would widen every spread so far that nothing
    is found before it has left the window. What happened more often is part of the history.

    Args:
        history: values of the batches, oldest first; NaN for one that was left out.
        distance: whether the values compare each batch with the one before.
    """
    values = np.array(history, dtype=float)
    known = np.flatnonzero(usable(values))
    most = max(1, known.size // _BATCHES_TO_AN_OUTLIER) * (2 if distance else 1)
    if known.size < 8:
        return values
    away = np.abs(values[known] - np.median(values[known]))
    order = known[np.argsort(away, kind="stable")]
    rest, far = values[order[:-most]], order[-most:]
    spread = float(rest.std(ddof=1))
    floor = 0.01 * float(np.median(np.abs(rest)))
    odd = np.abs(values[far] - rest.mean()) > _OUTLIER * np.hypot(spread, floor)
    if spread > 0.0:
        values[far[odd]] = np.nan
    return values

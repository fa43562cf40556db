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

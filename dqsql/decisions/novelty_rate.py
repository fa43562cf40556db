"""Thresholds of the novelty detector that keep a false-positive rate with short histories.

The quantile of the training batches' distances, as the paper takes it, promises too much: a metric
is scaled by the range of the training batches, of which the batch under test is no part, so its
distance comes out larger than theirs. Here each training batch is scaled by the range of the
others. Then its distance and that of a good new batch are exchangeable, and P(the new one is the
largest of K + 1) = 1 / (K + 1) (conformal prediction; Vovk, Gammerman & Shafer 2005, Prop. 2.2); a
larger rate is kept by one of the distances seen, whatever their distribution. Beyond the largest,
which a rate below 1 / (K + 1) asks for, there is only a model: logarithms of distances are normal,
and the threshold is the end of Student's prediction interval.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]

# Distances below this share of the largest say nothing about the tail at the other end.
_LEAST_SHARE = 0.1
_ROUNDING = 1e-9


def ranges_without_each(training: FloatArray) -> FloatArray:
    """Return per training batch and metric the range of the other batches, K x F; K >= 3."""
    ranked = np.sort(training, axis=0)
    widths = np.tile(ranked[-1] - ranked[0], (len(training), 1))
    columns = np.arange(training.shape[1])
    widths[training.argmin(axis=0), columns] = ranked[-1] - ranked[1]
    widths[training.argmax(axis=0), columns] = ranked[-2] - ranked[0]
    return widths


def distances_to_others(
    training: FloatArray, widths: FloatArray, neighbors: int, power: float
) -> FloatArray:
    """Return per training batch the distances to its nearest others, K x neighbors, ascending.

    Args:
        training: K x F metrics, K > neighbors.
        widths: K x F, what the differences to a batch are divided by.
        neighbors: how many.
        power: of the Minkowski distance; inf for the largest difference.
    """
    found = np.empty((len(training), neighbors))
    for i, (batch, width) in enumerate(zip(training, widths, strict=True)):
        apart = np.linalg.norm((np.delete(training, i, axis=0) - batch) / width, power, axis=1)
        found[i] = np.sort(apart)[:neighbors]
    return found


def threshold_of_rate(training: FloatArray, rate: float) -> float:
    """Return what the distance of a good new batch exceeds with about this probability, >= 0.

    Args:
        training: K distances of training batches, exchangeable with that of a good new batch, >= 0.
        rate: in (0, 0.5].
    """
    most = np.finfo(float).max
    training = np.minimum(training, most)
    size, largest = len(training), float(training.max())
    if largest == 0:
        return 0.0
    if rate >= 1 / (size + 1):
        place = int(np.ceil((1 - rate) * (size + 1) - _ROUNDING)) - 1
        return float(np.sort(training)[min(max(place, 0), size - 1)])
    logs = np.log(np.maximum(training, _LEAST_SHARE * largest))
    quantile = float(special.stdtrit(size - 1, 1 - rate))
    reach = quantile * np.sqrt(1 + 1 / size) * logs.std(ddof=1)
    return min(max(float(np.exp(logs.mean() + reach)), largest), float(most))

"""Novelty at a false-positive rate: by how much each metric missed its forecast, and all together.

Each metric is forecast from its own history (`dqsql.decisions.forecasts`: level, season, trend and
memory, whatever forecast it best), so that drifts and weekdays are no novelties. What is left, the
misses, is looked at in two ways:

- Metric by metric: the probability of a miss as large, by tails learned from the metric's own
  past misses (`dqsql.decisions.tails`), whose heaviness is shrunken towards that of the batch's
  other metrics. The least of them is corrected for the number of metrics, of which correlated ones
  count less (Nyholt, "A Simple Correction for Multiple Testing", American Journal of Human
  Genetics 74, 2004; with the correlation that comes about by chance taken off).
- All together: Mahalanobis' distance by correlations shrunken towards none, for metrics that are
  usual one by one and unusual together. Each past batch's distance is by the others (left out by
  the formula of Sherman and Morrison), so that it is comparable with a new one's.

Either gets a share of the rate, so that the batch as a whole keeps it. Pure
functions of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.forecasts import IntArray, forecast
from dqsql.decisions.magnitudes import LARGEST
from dqsql.decisions.tails import fit_tails

# Of the rate, for metrics one by one; the rest is for all together.
SHARE_ALONE = 0.8
_RELEARN_AFTER = 5
_LEAST = 1e-300
# A spread of logarithms: distances that are always the same are too good to be true.
_LEAST_SPREAD = 0.05
_MOST_UNKNOWN = 0.5
_FEWEST_TOGETHER = 6


@dataclass(frozen=True, slots=True, eq=False)
class Surprise:
    """How surprising a batch is.

    Attributes:
        p_value: of the batch as a whole, in (0, 1].
        alone: of each metric, corrected for the number of metrics; F.
        together: of all metrics together; 1 where there are too few batches for it.
        expected: what was forecast of each metric; F.
    """

    p_value: float
    alone: FloatArray
    together: float
    expected: FloatArray


def surprise(
    training: FloatArray, tested: FloatArray, floor: FloatArray, slots: dict[str, IntArray]
) -> Surprise:
    """How surprising a batch is after others.

    Args:
        training: K x F metrics, oldest first.
        tested: F; may be infinite.
        floor: F, > 0: smaller misses are none.
        slots: seasons, each F x (K + 1).
    """
    values = training.T
    found = forecast(values, slots, _RELEARN_AFTER)
    chosen = found.chosen
    level = np.maximum(np.abs(found.expected), _LEAST)
    floors = np.where(found.ratios, floor / level, floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        positive = np.where(tested == 0, _for_zero(values), tested)
        logs = np.where(positive > 0, np.log(np.maximum(positive, _LEAST)), -np.inf)
        miss = (np.where(found.ratios, logs, tested) - chosen.expected) / chosen.factor
    tails = fit_tails(chosen.errors, floors, pooled=True)
    away = np.minimum(np.abs(miss), LARGEST)
    each = np.clip(2 * tails.beyond(away, miss > 0), _LEAST, 1 - 1e-12)
    sizes = np.maximum(tails.sizes.mean(axis=1), floors)
    past = (chosen.errors / sizes[:, None]).T
    past = past[np.isnan(past).mean(axis=1) <= _MOST_UNKNOWN]
    alone = -np.expm1(_independent(past) * np.log1p(-each))
    together = _together(past, np.clip(miss / sizes, -LARGEST, LARGEST))
    least = min(float(alone.min()) / SHARE_ALONE, together / (1 - SHARE_ALONE))
    return Surprise(min(1.0, max(least, _LEAST)), alone, together, found.expected)


def _for_zero(values: FloatArray) -> FloatArray:
    """Return what a zero counts as where logarithms are taken: half of the smallest step, F.

    The least of prices that are rounded to cents is 0.02, 0.01 or, now and then, 0: that is one
    step, not infinitely far. Where values differ in their last digits only, it is nearly so.
    """
    ordered = np.sort(np.where(values > 0, values, np.nan), axis=1)
    steps = np.diff(ordered, axis=1, prepend=0.0)
    return np.asarray(0.5 * np.where(steps > 0, steps, np.inf).min(axis=1), dtype=float)


def _independent(past: FloatArray) -> float:
    """How many independent metrics there are, in [1, F]; K x F misses."""
    size, count = past.shape
    if count == 1 or size < _FEWEST_TOGETHER:
        return float(count)
    # Extreme misses of heavy tails would be all there is to the correlation.
    filled = np.clip(np.nan_to_num(past), -3, 3)
    norm = np.sqrt(np.square(filled).sum(axis=0))
    scaled = filled / np.where(norm > 0, norm, 1.0)
    squares = np.square(scaled.T @ scaled)
    mean: float = float(squares.sum() - np.trace(squares)) / (count * (count - 1))
    # So large a square comes about by chance.
    shared = max(0.0, (mean - 1 / size) / (1 - 1 / size))
    return float(1 + (count - 1) * (1 - shared))


def _upper(past: FloatArray, new: float) -> float:
    """Probability that the next of numbers like those of the past is larger than a new one."""
    size = len(past)
    mean = past.mean()
    away = (new - mean) / np.sqrt(1 + 1 / size)
    if away <= 0:
        return 1.0
    errors = (past - mean) / np.sqrt(1 - 1 / size)
    tails = fit_tails(errors[None], np.array([_LEAST_SPREAD]))
    return float(tails.beyond(np.array([away]), np.array([True]))[0])


def _together(past: FloatArray, miss: FloatArray) -> float:
    """Probability of as large a distance of all metrics together, by those of past batches."""
    size, count = past.shape
    if count == 1 or size < _FEWEST_TOGETHER:
        return 1.0
    rows = np.nan_to_num(past)
    shrunken = count / (count + size)
    moment = (1 - shrunken) / size * rows.T @ rows + shrunken * np.eye(count)
    inverse = np.linalg.inv(moment)
    squares = np.einsum("kf,fg,kg->k", rows, inverse, rows)
    left_out = squares / (1 - np.minimum((1 - shrunken) / size * squares, 0.999))
    square = float(miss @ inverse @ miss)
    return _upper(0.5 * np.log(np.maximum(left_out, _LEAST)), 0.5 * np.log(max(square, _LEAST)))

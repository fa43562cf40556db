"""Novelty at a false-positive rate: by how much each metric missed its forecast, beside the others.

Each metric is forecast from its own history (`dqsql.decisions.forecasts`: level, season, trend and
memory, whatever forecast it best), so that drifts and weekdays are no novelties. What is left, the
misses, is foretold once more, by the misses of all other metrics of the same batch: a small batch
has fewer distinct values in every column. That is a ridge regression of each metric on all others
at once (the inverse of their second moments, shrunken towards none of them being related); each
past batch's is by the others (left out by the formula of Sherman and Morrison), so that it is
comparable with a new one's. It also finds metrics that are usual one by one and unusual together.

The probability of what is left then is that of tails learned from past batches
(`dqsql.decisions.tails`), whose heaviness is shrunken towards that of the batch's other metrics. A
miss that past batches exceeded on its side is at least as probable as they were frequent, and so is
a number that is nearly always 0 and was as far from it before, on either side. The least
probability is corrected for the number of columns and for the number of metrics of its column, so
that columns have equal parts of the rate, whatever they are of. Pure functions of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import BoolArray, FloatArray, IntArray
from dqsql.decisions.forecasts import forecast, median_of
from dqsql.decisions.magnitudes import LARGEST, for_zero
from dqsql.decisions.novelty_config import Feature
from dqsql.decisions.stationarity import RECURS
from dqsql.decisions.tails import fit_tails
from dqsql.model.metric_traits import DAY_METRICS

_RELEARN_AFTER = 5
_LEAST = 1e-300
_MOST_UNKNOWN = 0.5
_FEWEST_TOGETHER = 6
# Further misses of other metrics foretell no more of a metric than these: one that is far out does
# not make all others unusual.
_NEAR = 4.0
# Of the rate; the rest is for what estimates of tails and of relations are off by.
_SHARE = 0.9
_ROUNDING = 1e-6
# What is 0 in more than so large a share of the batches.
_NEARLY_ALWAYS = 0.75
_WEEK = 7
# A date that moves by less from one batch to the next, in days, stays where it is.
_STANDS = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Surprise:
    """How surprising a batch is.

    Attributes:
        p_value: of the batch as a whole, in (0, 1].
        alone: of each metric, beside the others, corrected for the number of metrics; F.
        expected: what was forecast of each metric, by its own history; F.
    """

    p_value: float
    alone: FloatArray
    expected: FloatArray


def surprise(
    training: FloatArray,
    tested: FloatArray,
    floor: FloatArray,
    slots: dict[str, IntArray],
    columns: IntArray,
    inward: FloatArray,
    warned: BoolArray | None = None,
) -> Surprise:
    """How surprising a batch is after others.

    Args:
        training: K x F metrics, oldest first; a row of NaN is a batch that is left out.
        tested: F; may be infinite.
        floor: F, > 0: smaller misses are none.
        slots: seasons, each F x (K + 1).
        columns: F, the number of each metric's column.
        inward: F, which way metrics move where a value is absent that was always there: -1 for
            numbers of distinct values and maxima, 1 for minima, 0 for others.
        warned: K, which batches were warned of; None for none.
    """
    values = training.T
    forecasts = forecast(values, slots, _RELEARN_AFTER, ~(tested < 0))
    chosen = forecasts.chosen
    level = np.maximum(np.abs(forecasts.expected), _LEAST)
    floors = np.where(forecasts.ratios, floor / level, floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        positive = np.where(tested == 0, for_zero(values), tested)
        logs = np.where(positive > 0, np.log(np.maximum(positive, _LEAST)), -np.inf)
        miss = (np.where(forecasts.ratios, logs, tested) - chosen.expected) / chosen.factor
    errors = chosen.errors
    if warned is not None and warned.any():
        errors = _without_furthest(errors, floors, warned)
    scale = fit_tails(errors, floors, pooled=True)
    sizes = np.maximum(scale.sizes.mean(axis=1), floors)
    past = (errors / sizes[:, None]).T
    past = past[np.isnan(past).mean(axis=1) <= _MOST_UNKNOWN]
    past, left = _beside(past, np.clip(miss / sizes, -LARGEST, LARGEST))
    tails = fit_tails(past.T, floors / sizes, pooled=True)
    away = np.minimum(np.abs(left), LARGEST)
    each = _precedented(2 * tails.beyond(away, left > 0), past, left)
    counted = ~np.isnan(training).all(axis=1)
    each = np.maximum(each, _exceptions(values[:, counted], tested))
    each = np.maximum(each, _first_steps(values[:, counted], tested, inward))
    if "hour" not in slots:
        each[_is_unmoved(values[:, counted], tested)] = 1.0
    _, place, metrics = np.unique(columns, return_inverse=True, return_counts=True)
    tests = metrics.size * metrics[place]
    p_values = -np.expm1(tests * np.log1p(-np.clip(each, _LEAST, 1 - 1e-12))) / _SHARE
    return Surprise(min(1.0, max(float(p_values.min()), _LEAST)), p_values, forecasts.expected)


def _without_furthest(errors: FloatArray, floors: FloatArray, warned: BoolArray) -> FloatArray:
    """Misses (F x K), without the furthest of each batch that was warned of, unless they recur.

    By one of ten times its usual size, all sizes would be usual.
    """
    known = ~np.isnan(errors)
    # Of batches that are left out, nothing counts.
    warned = warned & known.any(axis=0)
    far = np.nan_to_num(np.abs(errors[:, warned]))
    usual = np.fmax(median_of(np.abs(errors)), floors)
    furthest = (far / usual[:, None]).argmax(axis=0)
    rare = np.bincount(furthest, minlength=len(errors))[furthest] < RECURS
    kept = errors.copy()
    kept[furthest[rare], np.flatnonzero(warned)[rare]] = np.nan
    enough = (~np.isnan(kept)).sum(axis=1) >= _FEWEST_TOGETHER
    return np.where(enough[:, None], kept, errors)


def _beside(past: FloatArray, miss: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the misses of all other metrics leave of each, of K x F past ones and of F new ones."""
    size, count = past.shape
    if count == 1 or size < _FEWEST_TOGETHER:
        return past, miss
    shrunken = count / (count + size)
    weight = (1 - shrunken) / size
    rows = np.nan_to_num(past)
    near, here = np.clip(rows, -_NEAR, _NEAR), np.clip(miss, -_NEAR, _NEAR)
    # The inverse of weight * near.T @ near + shrunken * 1, by the matrix of batches (Woodbury).
    inner = near @ near.T + shrunken / weight * np.eye(size)
    solved = np.linalg.solve(inner, near)
    diagonal = (1 - (near * solved).sum(axis=0)) / shrunken
    rotated = solved / weight
    gain = weight * np.einsum("kf,kf->k", near, rotated)
    gain = 1 / (1 - np.minimum(gain, 0.999))[:, None]
    left = rotated * gain / (diagonal + weight * np.square(rotated) * gain) + (rows - near)
    new = (here - (near @ here) @ solved) / shrunken / diagonal + (miss - here)
    return np.where(np.isnan(past), np.nan, left), np.asarray(new, dtype=float)


def _exceptions(values: FloatArray, tested: FloatArray) -> FloatArray:
    """How often numbers that are nearly always 0 were as far from it, F; 0 if never.

    They have no tails to speak of: after two ones in a hundred batches, -1 is about as probable as
    these. One is the least that whole numbers can be: once one of them was, all tell together how
    often that happens. The past `values` are F x K.
    """
    rare = (values == 0).mean(axis=1) > _NEARLY_ALWAYS
    whole = rare & (values == np.rint(values)).all(axis=1) & (tested == np.rint(tested))
    far = (np.abs(values) >= np.abs(tested)[:, None]).sum(axis=1)
    often = np.where(far > 0, (1 + far) / (1 + values.shape[1]), 0.0)
    jumps = np.count_nonzero(values[whole])
    of_all = (1 + jumps) / (1 + values[whole].size) if jumps else 0.0
    often = np.where(whole & (np.abs(tested) <= 1), np.maximum(often, of_all), often)
    return np.asarray(np.where(rare, often, 0.0), dtype=float)


def _first_steps(values: FloatArray, tested: FloatArray, inward: FloatArray) -> FloatArray:
    """How probable it is that one of several values is missing for once, F; 0 of other changes.

    By the rule of succession: that a rare value was there each time is no promise. The past
    `values` are F x K; for `inward` see `surprise`.
    """
    whole = values[:, 0] == np.rint(values[:, 0])
    with np.errstate(invalid="ignore"):
        steady = (values == values[:, :1]).all(axis=1) & whole
        steps = steady & (inward != 0) & (tested - values[:, 0] == inward)
    # That none is left is no chance.
    steps &= tested != 0
    return np.where(steps, 1 / (2 + values.shape[1]), 0.0)


def _is_unmoved(values: FloatArray, tested: FloatArray) -> BoolArray:
    """Which metrics are what they were on each of the last days of a week, F.

    A season that was learned of what was there before may expect something else.
    """
    last = values[:, -_WEEK:]
    with np.errstate(invalid="ignore"):
        same = np.abs(last - tested[:, None]) <= _ROUNDING * np.abs(tested[:, None])
    return np.asarray(same.all(axis=1) & (last.shape[1] == _WEEK), dtype=bool)


def _precedented(each: FloatArray, past: FloatArray, new: FloatArray) -> FloatArray:
    """Probabilities of misses, F, none less than how often there were such on the same side."""
    toward = np.where(new > 0, past, -past)
    further = (toward >= np.abs(new) * (1 - _ROUNDING)).sum(axis=0)
    often = (1 + further) / (1 + (~np.isnan(past)).sum(axis=0))
    return np.asarray(np.where(further > 0, np.maximum(each, often), each), dtype=float)


def evenly_spaced(
    features: Sequence[Feature],
    training: FloatArray,
    counted: npt.NDArray[np.bool_],
    times: npt.NDArray[np.datetime64] | None,
) -> FloatArray:
    """What makes metrics those of batches at equal distances: (K + 1) x F, to be added.

    The oldest date of a full copy stays where it is, and is two days further from the batch if one
    is missing between. That is no news of the values. Nor is that dates moved on with the batches.
    `training` are metrics of the batches that are counted, of K; there are K + 1 `times`.
    """
    shift = np.zeros((len(counted) + 1, len(features)))
    if times is None or np.isnat(times).any() or len(times) < 3:
        return shift
    days = (times - times[0]) / np.timedelta64(1, "D")
    offset = days - np.arange(len(days)) * np.median(np.diff(days))
    places = [i for i, feature in enumerate(features) if feature.metric in DAY_METRICS]
    if places and offset.any():
        values, at = training[:, places], days[:-1][counted, None]
        # Of batches whose names SQL does not read as dates, days are counted from 1970.
        for sign in (1.0, -1.0):
            stands = np.median(np.abs(np.diff(values + sign * at, axis=0)), axis=0) < _STANDS
            shift[:, places] += np.where(stands, sign * offset[:, None], 0.0)
    return shift

"""Metrics of the novelty detector one by one: their resolution, their drift, their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.novelty_config import NoveltyConfig

FloatArray = npt.NDArray[np.float64]

RELATIVE_RESOLUTION = 0.01
SMALLEST_RESOLUTION = 1e-9
# Metrics in the column's own unit, whose level says nothing about what is a small change.
IN_UNIT = frozenset(["min", "max", "mean", "median", "stddev"])


@dataclass(frozen=True, slots=True)
class Feature:
    """A metric that takes part: its column (None for the batch as a whole) and its name."""

    column: str | None
    metric: str

    def __str__(self) -> str:
        return self.metric if self.column is None else f"{self.metric}({self.column})"


def one_by_one(
    training: FloatArray, tested: FloatArray, floor: FloatArray, config: NoveltyConfig
) -> tuple[FloatArray, FloatArray]:
    """Per metric, distances of the training batches (K x F) and of the one under test (F)."""
    width = np.maximum(np.ptp(training, axis=0), floor)
    points = training / width
    k = min(config.neighbors_alone, len(points) - 1)
    order = np.argsort(points, axis=0, kind="stable")
    ranked = np.take_along_axis(points, order, axis=0)
    gaps = np.full((2 * k, *points.shape), np.inf)
    for step in range(1, k + 1):
        apart = ranked[step:] - ranked[:-step]
        gaps[2 * step - 2, :-step] = apart
        gaps[2 * step - 1, step:] = apart
    nearest = np.partition(gaps, k - 1, axis=0)[:k]
    own = np.empty_like(points)
    np.put_along_axis(own, order, aggregate(nearest, config.aggregation, axis=0), axis=0)
    with np.errstate(invalid="ignore"):
        far = np.partition(np.abs(points - tested / width), k - 1, axis=0)[:k]
    return own, aggregate(far, config.aggregation, axis=0)


def resolution(features: Sequence[Feature], training: FloatArray) -> FloatArray:
    """Return per metric the width that a metric without variation is given, > 0.

    One percent of its level; for min, max, mean, median and stddev at least one percent of the
    column's range, where both min and max take part.
    """
    floor = RELATIVE_RESOLUTION * np.median(np.abs(training), axis=0)
    place = {(f.column, f.metric): i for i, f in enumerate(features)}
    for i, feature in enumerate(features):
        low, high = (place.get((feature.column, name)) for name in ("min", "max"))
        if feature.metric in IN_UNIT and low is not None and high is not None:
            spread = float(np.median(training[:, high] - training[:, low]))
            floor[i] = max(floor[i], RELATIVE_RESOLUTION * spread)
    return np.asarray(np.maximum(floor, SMALLEST_RESOLUTION), dtype=float)


def aggregate(distances: FloatArray, aggregation: str, axis: int) -> FloatArray:
    """The mean, the largest or the median of distances along an axis."""
    if aggregation == "max":
        found = distances.max(axis=axis)
    elif aggregation == "median":
        found = np.median(distances, axis=axis)
    else:
        found = distances.mean(axis=axis)
    return np.asarray(found, dtype=float)

"""Metrics of the novelty detector one by one: their names and their resolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqsql.decisions.anomaly_bands import resolutions_of
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.bounds import RELATIVE_RESOLUTION
from dqsql.model.metric_traits import UNIT_METRICS

SMALLEST_RESOLUTION = 1e-9


@dataclass(frozen=True, slots=True)
class Feature:
    """A metric that takes part: its column (None for the batch as a whole) and its name."""

    column: str | None
    metric: str

    def __str__(self) -> str:
        return self.metric if self.column is None else f"{self.metric}({self.column})"


def resolution(features: Sequence[Feature], training: FloatArray) -> FloatArray:
    """Return per metric the size below which a miss says nothing, > 0.

    As for `@anomaly` (see `anomaly_bands.resolutions_of`): of a metric that hardly varies 1 % of
    its level; for min, max, mean, median and stddev that hardly vary at least 1 % of the column's
    range, where both min and max take part.
    """
    floor, still = resolutions_of(np.ascontiguousarray(training.T))
    place = {(f.column, f.metric): i for i, f in enumerate(features)}
    for i, feature in enumerate(features):
        low, high = (place.get((feature.column, name)) for name in ("min", "max"))
        if feature.metric not in UNIT_METRICS or low is None or high is None:
            continue
        if still[i]:
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

"""What the novelty detector looks at: its settings, and the resolution of single metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from dqsql.decisions.anomaly_bands import resolutions_of
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.bounds import RELATIVE_RESOLUTION
from dqsql.decisions.strategies_parameters import bind, check_fields, read_parameter
from dqsql.errors import DecisionError
from dqsql.model.metric_traits import UNIT_METRICS
from dqsql.model.settings import Reader, as_bool, at_least, number_within, one_of

MODES = ("subspace", "paper")
DETECTORS = ("knn", "lof", "isolation_forest", "one_class_svm", "hbos", "abod")
DISTANCES = ("euclidean", "manhattan", "chebyshev")
AGGREGATIONS = ("mean", "max", "median")
DEFAULT_RATE = 0.05
DEFAULT_CONTAMINATION = 0.01
MIN_HISTORY = 8


@dataclass(frozen=True, slots=True)
class NoveltyConfig:
    """Settings of `decide_novelty`; defaults are the paper's (section 4) where it has one.

    Attributes:
        mode: 'subspace' (default) or 'paper'; see `dqsql.decisions.novelty`.
        detector: 'knn' (default), or another one of the paper's Table 1, from an optional extra.
        k: mode 'paper', lof and abod: number of neighbours.
        contamination: mode 'paper' and other detectors: share of training batches beyond the
            threshold, in [0, 0.5); None for 0.01.
        adaptive_contamination: at least 1 / K with K training batches (the paper's remedy for
            short histories, section 5.3): alarms earlier, at the price of more false alarms.
        distance: mode 'paper': 'euclidean' (default), 'manhattan' or 'chebyshev'.
        aggregation: mode 'paper', of the k distances: 'mean' (default), 'max' or 'median'.
        fpr: mode 'subspace': false-positive rate per batch, in (0, 0.5]; None for 0.05. In mode
            'paper' and of other detectors it is the contamination.
        min_history: fewest accepted batches to decide with, >= 3.
        window: newest accepted batches to look at; None for all.
    """

    mode: str = "subspace"
    detector: str = "knn"
    k: int = 5
    contamination: float | None = None
    adaptive_contamination: bool = False
    distance: str = "euclidean"
    aggregation: str = "mean"
    min_history: int = MIN_HISTORY
    window: int | None = None
    fpr: float | None = None
    readers: ClassVar[dict[str, Reader]] = {
        "mode": one_of(*MODES),
        "detector": one_of(*DETECTORS),
        "distance": one_of(*DISTANCES),
        "aggregation": one_of(*AGGREGATIONS),
        "contamination": number_within(0, 0.5, open_high=True),
        "fpr": number_within(0, 0.5, open_low=True),
        "adaptive_contamination": as_bool,
        "min_history": at_least(3),
        "k": at_least(1),
    }

    def __post_init__(self) -> None:
        owner, share = "novelty", self.contamination
        check_fields(owner, self)
        if self.fpr is not None and not self.keeps_rate:
            object.__setattr__(self, "contamination", min(self.fpr, 0.49))
        if self.keeps_rate and (share is not None or self.adaptive_contamination):
            raise DecisionError(
                f"{owner}: mode 'subspace' has no contamination, it keeps a false-positive rate",
                hint="fpr => 0.05, or mode => 'paper'",
            )
        if self.window is not None:
            window = read_parameter(owner, "window", self.window, at_least(self.min_history))
            object.__setattr__(self, "window", window)

    @property
    def keeps_rate(self) -> bool:
        """Whether its alarms keep a false-positive rate; else they have a contamination."""
        return self.mode == "subspace" and self.detector == "knn"

    @property
    def rate(self) -> float:
        """The false-positive rate, or contamination, in [0, 0.5]."""
        if not self.keeps_rate:
            return DEFAULT_CONTAMINATION if self.contamination is None else self.contamination
        return DEFAULT_RATE if self.fpr is None else self.fpr

    def contamination_for(self, size: int) -> float:
        """Contamination with so many training batches, in [0, 0.5)."""
        if not self.adaptive_contamination:
            return self.rate
        return max(self.rate, min(1.0 / size, 0.25))


def novelty_config(*positional: object, **named: object) -> NoveltyConfig:
    """Settings from the arguments of `@novelty(..)`.

    Raises:
        DecisionError: a parameter that does not exist or cannot have its value.
    """
    names = [field.name for field in fields(NoveltyConfig)]
    return NoveltyConfig(**bind("novelty", names, positional, named))


SMALLEST_RESOLUTION = 1e-9
# So many steps say whether a metric always moves by the same.
_FEWEST_STEPS = 5


@dataclass(frozen=True, slots=True)
class Feature:
    """A metric that takes part: its column (None for the batch as a whole) and its name."""

    column: str | None
    metric: str

    def __str__(self) -> str:
        return self.metric if self.column is None else f"{self.metric}({self.column})"


def resolution(
    features: Sequence[Feature], training: FloatArray, rows: float | None = None
) -> FloatArray:
    """Return per metric the size below which a miss says nothing, > 0.

    As for `@anomaly` (see `anomaly_bands.resolutions_of`): of a metric that hardly varies 1 % of
    its level; for min, max, mean, median and stddev that hardly vary, or move by one and the same
    step, at least 1 % of the column's range, where both min and max take part. The share of the
    most frequent value hangs on how many rows the others have, and moves smoothly where a table
    grows: at least 1 % of its level, and one row of the `rows` of the batch under test.
    """
    floor, still = resolutions_of(np.ascontiguousarray(training.T))
    if len(training) > _FEWEST_STEPS:
        still |= resolutions_of(np.ascontiguousarray(np.diff(training, axis=0).T))[1]
    place = {(f.column, f.metric): i for i, f in enumerate(features)}
    for i, feature in enumerate(features):
        if feature.metric == "most_frequent_ratio":
            one_row = 1.0 / rows if rows else 0.0
            level = float(np.median(training[:, i]))
            floor[i] = max(floor[i], RELATIVE_RESOLUTION * level, one_row)
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
        summary = distances.max(axis=axis)
    elif aggregation == "median":
        summary = np.median(distances, axis=axis)
    else:
        summary = distances.mean(axis=axis)
    return np.asarray(summary, dtype=float)

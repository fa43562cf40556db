"""How unlike other rows a row is, and by which columns; how many such rows a batch may have.

A row is compared with small random subsamples of good rows: its score is the mean, over the
subsamples, of the distance to the nearest row in each. Few rows of a subsample are odd ones, so
that what is odd is far from all of them, while a row of any dense region is near to some.

Source: Pang, Ting & Albrecht, "LeSiNN: Detecting Anomalies by Identifying Least Similar Nearest
Neighbours", IEEE ICDM Workshops 2015, pp. 623-630. The distance is the sum of the distances by
column (Manhattan), so that the score is the sum of the columns' parts.

Thresholds come from rows that a model has not seen: each half of the batches is scored by a model
of the other half (cross-conformal prediction: Vovk, Annals of Mathematics and Artificial
Intelligence 74, 2015, pp. 9-28). A batch has its own ways, so the number of rows beyond varies more
than by chance alone; the limit is that of a beta-binomial distribution of the accepted batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.beta_binomial import BetaBinomial, learn, share_limit
from dqsql.decisions.row_features import CONSTANT_STEP, Column, RowFeature, learn_feature
from dqsql.errors import DecisionError

SUBSAMPLES, SUBSAMPLE = 50, 64
# What a null counts for in a column, in deviations: more the rarer nulls are.
_MOST_FOR_NULL = CONSTANT_STEP
_CHUNK = 512
# Rows that say how much of a score is usual for each column, and the least share that is told.
_USUAL_ROWS = 500
_LEAST_SHARE = 0.05
_SEED = 0

Columns = Mapping[str, Column]


@dataclass(frozen=True)
class RowModel:
    """What good rows are like.

    `points` are the subsamples one after the other, each of `size` rows; `nulls` say what a null
    counts for by feature.
    """

    features: tuple[RowFeature, ...]
    points: FloatArray
    size: int
    nulls: FloatArray

    def scores(self, columns: Columns) -> FloatArray:
        """How unlike good rows each row is, >= 0, in deviations summed over columns."""
        numbers, missing = self._numbers(columns)
        groups = len(self.points) // self.size
        found = [
            scipy.spatial.distance.cdist(part, self.points, "cityblock")
            .reshape(len(part), groups, self.size)
            .min(axis=2)
            .mean(axis=1)
            for part in _chunks(numbers)
        ]
        near = np.concatenate(found) if found else np.zeros(0)
        return near + missing @ self.nulls

    def parts(self, columns: Columns) -> FloatArray:
        """The part of each column (feature) in each row's score: rows x features."""
        numbers, missing = self._numbers(columns)
        groups = len(self.points) // self.size
        parts = missing * self.nulls
        for group in range(groups):
            points = self.points[group * self.size : (group + 1) * self.size]
            nearest = points[
                scipy.spatial.distance.cdist(numbers, points, "cityblock").argmin(axis=1)
            ]
            parts = parts + np.abs(numbers - nearest) / groups
        return parts

    def _numbers(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """The rows as numbers, nulls at the centre, and where the nulls are."""
        raw = np.column_stack([f.numbers(columns[f.column]) for f in self.features])
        missing = np.isnan(raw)
        return np.where(missing, 0.0, raw), missing.astype(float)


def _chunks(rows: FloatArray) -> list[FloatArray]:
    return [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]


def fit_rows(
    features: Sequence[RowFeature], columns: Columns, places: npt.NDArray[np.intp]
) -> RowModel:
    """Learn from good rows.

    Args:
        features: the columns that take part.
        columns: values of all rows.
        places: the rows to learn from, by their numbers.
    """
    raw = np.column_stack([f.numbers(columns[f.column]) for f in features])[places]
    missing = np.isnan(raw)
    rows = np.where(missing, 0.0, raw)
    size = min(SUBSAMPLE, len(rows))
    random = np.random.default_rng(_SEED)
    chosen = [random.choice(len(rows), size, replace=False) for _ in range(SUBSAMPLES)]
    # A null is as far off as a text of its share would be, were nulls a value.
    share = (missing.sum(axis=0) + 1) / (len(rows) + 2)
    nulls = np.minimum(-np.log(share), _MOST_FOR_NULL)
    return RowModel(tuple(features), rows[np.concatenate(chosen)], size, nulls)


@dataclass(frozen=True)
class RowDetector:
    """A model with what follows from it for rows and batches.

    A row is odd whose score is above `threshold`. `odd` is the distribution of the share of odd
    rows in good batches, None where nothing can be excluded. `left_out` says of columns that take
    no part why. `usual` is the mean part of each column in the scores of good rows.
    """

    model: RowModel
    threshold: float
    odd: BetaBinomial | None
    rate: float
    left_out: Mapping[str, str]
    rows: int
    usual: FloatArray

    def reasons(self, columns: Columns, most: int = 5) -> list[list[dict[str, Any]]]:
        """Why rows are odd: for each its columns by their share in what is unusual of its score.

        A reason has the column, its share in (0, 1], the row's value and a usual one.
        """
        parts = np.maximum(self.model.parts(columns) - self.usual, 0.0)
        return [self._reasons(columns, row, own, most) for row, own in enumerate(parts)]

    def _reasons(
        self, columns: Columns, row: int, parts: FloatArray, most: int
    ) -> list[dict[str, Any]]:
        total = float(parts.sum())
        found = []
        for place in np.argsort(-parts, kind="stable")[:most]:
            feature, share = self.model.features[place], float(parts[place]) / max(total, 1e-300)
            if share < _LEAST_SHARE:
                break
            value = columns[feature.column][row]
            shown = None if value is None or value != value else value  # noqa: PLR0124
            found.append(
                {
                    "column": feature.column,
                    "share": round(share, 3),
                    "value": shown if isinstance(shown, str | None) else float(shown),
                    "usual": feature.usual,
                }
            )
        return found

    def limit(self, rows: int) -> float | None:
        """The largest share of odd rows of a good batch of so many rows; None: any."""
        return None if self.odd is None else share_limit(self.odd, rows, self.rate)


def learn_rows(
    columns: Columns,
    batches: npt.NDArray[np.int64],
    contamination: float,
    rate: float,
) -> RowDetector:
    """Learn from the rows of accepted batches what is usual.

    Args:
        columns: their values by column.
        batches: the place of each row's batch in time, from 0; at least two batches.
        contamination: share of rows of good batches that may be called odd, in (0, 1).
        rate: share of good batches that may be called bad, in (0, 1).

    Raises:
        DecisionError: no column can be compared.
    """
    read = {name: learn_feature(name, values, batches) for name, values in columns.items()}
    features = [f for f in read.values() if isinstance(f, RowFeature)]
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    if not features:
        raise DecisionError(
            "no column can be compared",
            hint="; ".join(f"{name}: {why}" for name, why in left_out.items()) or None,
        )
    halves = batches % 2
    unseen = np.zeros(len(batches))
    for half in (0, 1):
        others, mine = np.flatnonzero(halves != half), np.flatnonzero(halves == half)
        if len(others) and len(mine):
            unseen[mine] = fit_rows(features, columns, others).scores(_rows(columns, mine))
    threshold = _quantile(unseen, contamination)
    names = np.unique(batches)
    counts = [int((unseen[batches == b] > threshold).sum()) for b in names]
    sizes = [int((batches == b).sum()) for b in names]
    model = fit_rows(features, columns, np.arange(len(batches)))
    some = np.linspace(0, len(batches) - 1, min(len(batches), _USUAL_ROWS)).astype(int)
    usual = model.parts(_rows(columns, some)).mean(axis=0)
    odd = learn(counts, sizes, rate)
    return RowDetector(model, threshold, odd, rate, left_out, len(batches), usual)


def _rows(columns: Columns, places: npt.NDArray[np.int64]) -> dict[str, Column]:
    return {
        name: values[places]
        if isinstance(values, np.ndarray)
        else [values[int(place)] for place in places]
        for name, values in columns.items()
    }


def _quantile(scores: FloatArray, share: float) -> float:
    """The score that a new row exceeds with at most this probability (conformal quantile)."""
    ordered = np.sort(scores)
    place = int(np.ceil((1 - share) * (len(ordered) + 1))) - 1
    if place < len(ordered):
        return float(ordered[place])
    # Too few rows to know: what is far beyond the largest.
    return float(2 * ordered[-1])

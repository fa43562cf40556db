"""How unlike other rows a row is, and by which columns; how many such rows a batch may have.

A row is compared with small random subsamples of good rows: its score is the mean, over the
subsamples, of the distance to the nearest row in each. Few rows of a subsample are odd ones, so
that what is odd is far from all of them, while a row of any dense region is near to some.

Of a row's columns, numbers stay as they are, values of few texts become how rare they are, texts of
many values how long they are. What moves on from batch to batch (ids, counters) is left out: there,
every new row is unlike all rows before it.

Source: Pang, Ting & Albrecht, "LeSiNN: Detecting Anomalies by Identifying Least Similar Nearest
Neighbours", IEEE ICDM Workshops 2015, pp. 623-630. The distance is the sum of the distances by
column (Manhattan), so that the score is the sum of the columns' parts.

Thresholds come from rows that a model has not seen: each half of the batches is scored by a model
of the other half (cross-conformal prediction: Vovk, Annals of Mathematics and Artificial
Intelligence 74, 2015, pp. 9-28). A batch has its own ways, so the number of rows beyond varies more
than by chance alone; the limit is that of a beta-binomial distribution of the accepted batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.beta_binomial import BetaBinomial, learn, share_limit
from dqsql.decisions.magnitudes import finite_values
from dqsql.errors import DecisionError
from dqsql.model.by_key import by_key

# A column: numbers with NaN for nulls, or texts with None for them.
Column = FloatArray | Sequence[str | None]

NUMBER, RARITY, LENGTH = "number", "rarity", "length"
# Infinite numbers are no news in a column of which so large a part is.
_INFINITE, _OFTEN = "infinite", 0.001
# Texts of more values, by the share of rows or in all, are told by their length.
_MANY_SHARE, _MANY = 0.2, 1_000
# Share of a batch's rows that lie beyond all rows before it, from which on a column moves.
_MOVING = 0.2
# Share of rows at each end that does not count for the spread of a column.
_TRIMMED = 0.005
# What a value other than the one that all training rows have counts for, in deviations; likewise
# the most that one column can count for a value that is always near others.
_CONSTANT_STEP = 10.0


@dataclass(frozen=True)
class RowFeature:
    """How a column becomes a number, learned from rows without labels.

    `kind` is number, rarity or length. `centre` stands for nulls; `scale` is the spread, 0 of a
    column that never varied. `shares` are the shares of values by text, `unseen` that of any other;
    of numbers, `shares` is empty unless good rows often have infinite ones, which are as nulls.
    """

    column: str
    kind: str
    centre: float
    scale: float
    usual: str
    shares: Mapping[str, float]
    unseen: float

    def numbers(self, values: Column) -> FloatArray:
        """The column as numbers in units of the spread; NaN for nulls."""
        raw = self._raw(values)
        if self.scale > 0:
            return np.asarray((raw - self.centre) / self.scale, dtype=float)
        other = np.where(raw == self.centre, 0.0, _CONSTANT_STEP)
        numbers: FloatArray = np.where(np.isnan(raw), np.nan, other)
        return numbers

    def _raw(self, values: Column) -> FloatArray:
        if self.kind == NUMBER:
            numbers = np.asarray(values, dtype=float)
            if self.shares:
                return np.where(np.isfinite(numbers), numbers, np.nan)
            # Differences of the largest doubles would overflow.
            return np.asarray(np.clip(numbers, -1e300, 1e300), dtype=float)
        if self.kind == LENGTH:
            return _lengths(values)
        return np.array([_rarity(v, self.shares, self.unseen) for v in values])


def _rarity(value: str | None, shares: Mapping[str, float], unseen: float) -> float:
    return np.nan if value is None else float(-np.log(shares.get(value, unseen)))


def learn_feature(name: str, values: Column, batches: npt.NDArray[np.int64]) -> RowFeature | str:
    """Learn how to read a column of mostly good rows; a text that says why it is left out.

    `batches` are the places of the rows' batches in time, from 0.
    """
    if isinstance(values, np.ndarray):
        return _number(name, NUMBER, np.asarray(values, dtype=float), batches)
    return _text(name, values, batches)


def _number(
    name: str, kind: str, values: FloatArray, batches: npt.NDArray[np.int64]
) -> RowFeature | str:
    finite = finite_values(values)
    if not finite.size:
        return "it has no values"
    if _moves(np.where(np.isfinite(values), values, np.nan), batches):
        return "its values keep moving from batch to batch"
    centre = float(np.median(finite))
    infinite = float(np.mean(np.isinf(values)))
    shares = {_INFINITE: infinite} if infinite >= _OFTEN else {}
    usual = f"{centre:.6g}" if kind == NUMBER else f"{centre:.0f} characters"
    return RowFeature(name, kind, centre, _spread(finite), usual, shares, 0.0)


def _lengths(values: Column) -> FloatArray:
    return np.array([np.nan if v is None else float(len(v)) for v in values])


def _text(
    name: str, values: Sequence[str | None], batches: npt.NDArray[np.int64]
) -> RowFeature | str:
    counts = Counter(v for v in values if v is not None)
    rows = sum(counts.values())
    if len(counts) > max(_MANY_SHARE * rows, 2) or len(counts) > _MANY:
        return _number(name, LENGTH, _lengths(values), batches)
    if not rows:
        return "it has no values"
    if _news(values, batches) > _MOVING:
        return "its values change from batch to batch"
    total = rows + len(counts) + 1
    shares = {value: (count + 1) / total for value, count in counts.items()}
    unseen = 1 / total
    numbers = np.array([-np.log(shares[v]) for v in values if v is not None])
    common = counts.most_common(1)[0][0]
    centre = float(np.median(numbers))
    # A column with one value has no spread; another value is then as odd as can be.
    return RowFeature(name, RARITY, centre, _spread(numbers), common, shares, unseen)


def _spread(values: FloatArray) -> float:
    """The standard deviation of the values between the outermost, else of all of them."""
    low, high = np.quantile(values, [_TRIMMED, 1 - _TRIMMED])
    inner = float(np.std(np.clip(values, low, high)))
    spread = inner if inner > 0 else float(np.std(values))
    smallest = 1e-9 * float(np.max(np.abs(values)))
    return spread if spread > smallest else 0.0


def _moves(values: FloatArray, batches: npt.NDArray[np.int64]) -> bool:
    """Whether most new batches have many values beyond all values before them."""
    low = high = np.nan
    beyond: list[float] = []
    for batch in np.unique(batches):
        mine = values[(batches == batch) & ~np.isnan(values)]
        if not mine.size:
            continue
        if not np.isnan(low):
            beyond.append(float(np.mean((mine < low) | (mine > high))))
        low, high = np.fmin(low, mine.min()), np.fmax(high, mine.max())
    return bool(beyond) and float(np.median(beyond)) > _MOVING


def _news(values: Sequence[str | None], batches: npt.NDArray[np.int64]) -> float:
    """The median share of a batch's rows whose value no batch before had."""
    seen: set[str] = set()
    shares: list[float] = []
    pairs = zip(batches.tolist(), values, strict=True)
    for _, own in sorted(by_key((batch, v) for batch, v in pairs if v is not None).items()):
        if seen:
            shares.append(float(np.mean([v not in seen for v in own])))
        seen.update(own)
    return float(np.median(shares)) if shares else 0.0


SUBSAMPLES, SUBSAMPLE = 50, 64
# What a null counts for in a column, in deviations: more the rarer nulls are.
_MOST_FOR_NULL = _CONSTANT_STEP
_CHUNK = 512
# Rows that say how much of a score is usual for each column, and which shares are told.
_USUAL_ROWS = 500
_LEAST_SHARE, _MOST_REASONS = 0.05, 5
_SEED = 0

_Columns = Mapping[str, Column]


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

    def scores(self, columns: _Columns) -> FloatArray:
        """How unlike good rows each row is, >= 0, in deviations summed over columns."""
        numbers, missing = _numbers(self.features, columns)
        groups = len(self.points) // self.size
        distances = [
            scipy.spatial.distance.cdist(part, self.points, "cityblock")
            .reshape(len(part), groups, self.size)
            .min(axis=2)
            .mean(axis=1)
            for part in [numbers[i : i + _CHUNK] for i in range(0, len(numbers), _CHUNK)]
        ]
        near = np.concatenate(distances) if distances else np.zeros(0)
        return near + missing @ self.nulls

    def parts(self, columns: _Columns) -> FloatArray:
        """The part of each column (feature) in each row's score: rows x features."""
        numbers, missing = _numbers(self.features, columns)
        groups = len(self.points) // self.size
        parts = missing * self.nulls
        for group in range(groups):
            points = self.points[group * self.size : (group + 1) * self.size]
            nearest = points[
                scipy.spatial.distance.cdist(numbers, points, "cityblock").argmin(axis=1)
            ]
            parts = parts + np.abs(numbers - nearest) / groups
        return parts


def _numbers(features: Sequence[RowFeature], columns: _Columns) -> tuple[FloatArray, FloatArray]:
    """The rows as numbers, nulls at the centre, and where the nulls are."""
    raw = np.column_stack([f.numbers(columns[f.column]) for f in features])
    missing = np.isnan(raw)
    return np.where(missing, 0.0, raw), missing.astype(float)


def fit_rows(
    features: Sequence[RowFeature], columns: _Columns, places: npt.NDArray[np.intp]
) -> RowModel:
    """Learn from good rows, which are at some `places` of the `columns`."""
    rows, missing = (part[places] for part in _numbers(features, columns))
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
    usual: FloatArray

    def reasons(self, columns: _Columns) -> list[list[dict[str, Any]]]:
        """Why rows are odd: for each its columns by their share in what is unusual of its score.

        A reason has the column, its share in (0, 1], the row's value and a usual one.
        """
        parts = np.maximum(self.model.parts(columns) - self.usual, 0.0)
        return [self._reasons(columns, row, own) for row, own in enumerate(parts)]

    def _reasons(self, columns: _Columns, row: int, parts: FloatArray) -> list[dict[str, Any]]:
        total = float(parts.sum())
        reasons = []
        for place in np.argsort(-parts, kind="stable")[:_MOST_REASONS]:
            feature, share = self.model.features[place], float(parts[place]) / max(total, 1e-300)
            if share < _LEAST_SHARE:
                break
            value = columns[feature.column][row]
            shown = None if value is None or value != value else value  # noqa: PLR0124
            reasons.append(
                {
                    "column": feature.column,
                    "share": round(share, 3),
                    "value": shown if isinstance(shown, str | None) else float(shown),
                    "usual": feature.usual,
                }
            )
        return reasons

    def limit(self, rows: int) -> float | None:
        """The largest share of odd rows of a good batch of so many rows; None: any."""
        return None if self.odd is None else share_limit(self.odd, rows, self.rate)


def learn_rows(
    columns: _Columns, batches: npt.NDArray[np.int64], contamination: float, rate: float
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
            unseen[mine] = fit_rows(features, columns, others).scores(rows_at(columns, mine))
    threshold = _quantile(unseen, contamination)
    names = np.unique(batches)
    counts = [int((unseen[batches == b] > threshold).sum()) for b in names]
    sizes = [int((batches == b).sum()) for b in names]
    model = fit_rows(features, columns, np.arange(len(batches)))
    some = np.linspace(0, len(batches) - 1, min(len(batches), _USUAL_ROWS)).astype(int)
    usual = model.parts(rows_at(columns, some)).mean(axis=0)
    share_model = learn(counts, sizes, rate)
    return RowDetector(model, threshold, share_model, rate, left_out, usual)


def rows_at(columns: _Columns, places: npt.NDArray[np.int64]) -> dict[str, Column]:
    """The values of some rows, column by column."""
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

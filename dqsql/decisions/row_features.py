"""Columns of rows as numbers that can be compared: what a row is like, column by column.

Numbers stay as they are, values of few texts become how rare they are, texts of many values how
long they are. What moves on from batch to batch (ids, counters) is left out: there, every new row
is unlike all rows before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import FloatArray

# A column: numbers with NaN for nulls, or texts with None for them.
Column = FloatArray | Sequence[str | None]

NUMBER, RARITY, LENGTH = "number", "rarity", "length"
# Texts of more values, by the share of rows or in all, are told by their length.
_MANY_SHARE, _MANY = 0.2, 1_000
# Share of a batch's rows that lie beyond all rows before it, from which on a column moves.
_MOVING = 0.2
# Share of rows at each end that does not count for the spread of a column.
_TRIMMED = 0.005
# What a value other than the one that all training rows have counts for, in deviations; likewise
# the most that one column can count for a value that is always near others.
CONSTANT_STEP = 10.0


@dataclass(frozen=True)
class RowFeature:
    """How a column becomes a number, learned from rows without labels.

    `kind` is number, rarity or length. `centre` stands for nulls; `scale` is the spread, 0 of a
    column that never varied. `shares` are the shares of values by text, `unseen` that of any other.
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
        other = np.where(raw == self.centre, 0.0, CONSTANT_STEP)
        found: FloatArray = np.where(np.isnan(raw), np.nan, other)
        return found

    def _raw(self, values: Column) -> FloatArray:
        if self.kind == NUMBER:
            # Differences of the largest doubles would overflow.
            return np.asarray(np.clip(np.asarray(values, dtype=float), -1e300, 1e300), dtype=float)
        if self.kind == LENGTH:
            return np.array([np.nan if v is None else float(len(v)) for v in values])
        return np.array([_rarity(v, self.shares, self.unseen) for v in values])


def _rarity(value: str | None, shares: Mapping[str, float], unseen: float) -> float:
    return np.nan if value is None else float(-np.log(shares.get(value, unseen)))


def learn_feature(name: str, values: Column, batches: npt.NDArray[np.int64]) -> RowFeature | str:
    """Learn how to read a column; a text that says why it is left out.

    Args:
        name: the column.
        values: its values in rows that are mostly good.
        batches: the place of each row's batch in time, from 0.
    """
    if isinstance(values, np.ndarray):
        return _number(name, np.asarray(values, dtype=float), batches)
    return _text(name, list(values), batches)


def _number(name: str, values: FloatArray, batches: npt.NDArray[np.int64]) -> RowFeature | str:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "it has no values"
    if _moves(np.where(np.isfinite(values), values, np.nan), batches):
        return "its values keep moving from batch to batch"
    centre = float(np.median(finite))
    return RowFeature(name, NUMBER, centre, _spread(finite), f"{centre:.6g}", {}, 0.0)


def _text(
    name: str, values: Sequence[str | None], batches: npt.NDArray[np.int64]
) -> RowFeature | str:
    counts = Counter(v for v in values if v is not None)
    rows = sum(counts.values())
    if not rows:
        return "it has no values"
    if len(counts) > max(_MANY_SHARE * rows, 2) or len(counts) > _MANY:
        lengths = np.array([np.nan if v is None else float(len(v)) for v in values])
        if _moves(lengths, batches):
            return "its values keep moving from batch to batch"
        finite = lengths[np.isfinite(lengths)]
        centre = float(np.median(finite))
        usual = f"{centre:.0f} characters"
        return RowFeature(name, LENGTH, centre, _spread(finite), usual, {}, 0.0)
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
    places: dict[int, list[str]] = {}
    for value, batch in zip(values, batches, strict=True):
        if value is not None:
            places.setdefault(int(batch), []).append(value)
    for batch in sorted(places):
        if seen:
            shares.append(float(np.mean([v not in seen for v in places[batch]])))
        seen.update(places[batch])
    return float(np.median(shares)) if shares else 0.0

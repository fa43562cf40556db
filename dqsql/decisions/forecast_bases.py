"""Bases of forecasts: what is expected of each value by those before it alone.

Pure functions of arrays, as in `forecasts`, which corrects them and chooses one.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dqsql.decisions.arrays import BoolArray, FloatArray, IntArray

NO_SLOT = -1
# A series is still where more than so large a share of its values is one and the same.
_STILL = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class ForecastBase:
    """What one base expected of S series: S x (K + 1), the last column of the next value.

    Attributes:
        name: of the season in it, empty for none.
        trend: whether there is a line in it.
        price: how much less simple it is than a mean.
        expected: S x (K + 1).
        leverage: variance that its own uncertainty adds to an error, over that of one value.
    """

    name: str
    trend: bool
    price: int
    expected: FloatArray
    leverage: FloatArray


def bases_of(values: FloatArray, slots: Mapping[str, IntArray]) -> list[ForecastBase]:
    """All bases of some series, the simplest first; `slots` as for `forecasts.choose`."""
    level, leverage = _running_mean(values)
    line, of_line = _line(values)
    bases = [ForecastBase("", False, 0, level, leverage)]
    still = is_still(values)
    if still.any():
        middle = _running_median(values, still)
        # One level that holds: nothing is added for its uncertainty.
        bases.append(ForecastBase("", False, 0, middle, np.where(np.isnan(middle), np.inf, 0.0)))
    for name, places in slots.items():
        mean, uncertain = _running_slots(values, places)
        bases.append(ForecastBase(name, False, 1, mean, uncertain))
    bases.append(ForecastBase("", True, 1, line, of_line))
    for name, places in slots.items():
        mean, uncertain = _running_slots(values - line[:, :-1], places)
        bases.append(ForecastBase(name, True, 2, line + mean, of_line + uncertain))
    return bases


def _running_mean(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the values before each, and 1 / their number; S x (K + 1)."""
    known = ~np.isnan(values)
    counts = _sums_before(known)
    # About the first value known, for sums of large numbers lose the small ones.
    start = _first(values)
    sums = _sums_before(np.where(known, values - start[:, None], 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: FloatArray = sums / counts + start[:, None]
        leverage: FloatArray = np.divide(1.0, counts)
    return np.asarray(np.where(counts >= 1, mean, np.nan), dtype=float), leverage


def _sums_before(terms: FloatArray | BoolArray) -> FloatArray:
    """Sum of the terms before each, and of all of them; S x (K + 1)."""
    return np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)


def is_still(values: FloatArray) -> BoolArray:
    """Series of whose known values most, but not all, are one and the same, S."""
    ranked = np.sort(values, axis=1)
    counts = (~np.isnan(ranked)).sum(axis=1)
    half = counts // 2
    rows = np.arange(len(values))
    middle = ranked[rows, np.minimum(half, max(values.shape[1] - 1, 0))]
    same = (values == middle[:, None]).sum(axis=1)
    return np.asarray((same > _STILL * counts) & (same < counts))


def _running_median(values: FloatArray, still: BoolArray) -> FloatArray:
    """Median of the values before each; S x (K + 1), NaN where a series is not asked for.

    A series that hardly ever varies is back at its level after an exception: its mean and its last
    value are off for long, or once more.
    """
    medians = np.full((len(values), values.shape[1] + 1), np.nan)
    for row in np.flatnonzero(still):
        ranked: list[float] = []
        for place, value in enumerate(values[row].tolist(), start=1):
            if not math.isnan(value):
                insort(ranked, value)
            if ranked:
                low, high = (len(ranked) - 1) // 2, len(ranked) // 2
                medians[row, place] = (ranked[low] + ranked[high]) / 2
    return medians


def _first(values: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    start = values[np.arange(len(values)), known.argmax(axis=1)]
    return np.asarray(np.nan_to_num(start), dtype=float)


def _running_slots(values: FloatArray, slots: IntArray) -> tuple[FloatArray, FloatArray]:
    """As `_running_mean`, of the values of the same slot."""
    size, length = slots.shape
    # Series of one model have the same batches: then one order serves all.
    same = size > 0 and bool((slots == slots[:1]).all())
    if same:
        slots = slots[:1]
    order = np.argsort(slots, axis=1, kind="stable")
    ranked = np.take_along_axis(slots, order, axis=1)
    begins = np.concatenate(
        [np.ones((len(ranked), 1), dtype=bool), ranked[:, 1:] != ranked[:, :-1]], axis=1
    )
    first = np.maximum.accumulate(np.where(begins, np.arange(length), 0), axis=1)
    back = np.argsort(order, axis=1, kind="stable")

    def take(terms: FloatArray, places: IntArray) -> FloatArray:
        taken = terms[:, places[0]] if same else np.take_along_axis(terms, places, axis=1)
        return np.asarray(taken, dtype=float)

    def before(terms: FloatArray) -> FloatArray:
        """Sum of the terms before each one in its group; groups stand together."""
        sums = np.cumsum(terms, axis=1) - terms
        return sums - take(sums, first)

    start = _first(values)[:, None]
    padded = take(np.concatenate([values - start, np.full((size, 1), np.nan)], axis=1), order)
    unknown = np.isnan(padded)
    sums = before(np.where(unknown, 0.0, padded))
    counts = before((~unknown).astype(float))
    usable = (counts > 0) & (ranked != NO_SLOT)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(usable, sums / counts + start, np.nan)
        leverage = np.where(usable, 1 / counts, np.inf)
    return take(means, back), take(leverage, back)


def _line(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A straight line through the values before each, by least squares; S x (K + 1)."""
    known = ~np.isnan(values)
    length = values.shape[1]
    start = _first(values)
    y = np.where(known, values - start[:, None], 0.0)
    t = np.arange(length + 1, dtype=float) - length / 2
    past = np.where(known, t[:-1], 0.0)
    n, st, sy = (_sums_before(terms) for terms in (known, past, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        stt = _sums_before(past * past) - st * st / n
        sty = _sums_before(past * y) - st * sy / n
        away = t - st / n
        expected = start[:, None] + sy / n + sty / stt * away
        leverage = 1 / n + away * away / stt
    enough = (n >= 4) & (stt > 0)
    return np.where(enough, expected, np.nan), np.where(enough, leverage, np.inf)

"""From the histories of columns to the series that bounds are put on, many at a time.

Of each metric of each column that can be learned from: which transforms make it stationary enough,
and its values and those of the injected issues under each. All is done for series of one length at
once, so that a column costs little more than its share of the arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dqsql.decisions import bounds as fpr_bounds
from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.candidates import CandidateSeries
from dqsql.decisions.magnitudes import finite_values, packed, usable, without_outliers_each
from dqsql.decisions.program import ROWS, of_usual_rows
from dqsql.decisions.stationarity import Transform, choose_transforms, drifting
from dqsql.model.metric_traits import (
    CATEGORICAL_DISTANCES,
    COMPLETENESS_METRICS,
    COUNT_METRICS,
    DISTANCE_METRICS,
    LENGTH_METRICS,
    OWN_METRICS,
    PATTERN_DISTANCES,
    PATTERN_PREFIX,
    QUARTILES,
    SIGNED_METRICS,
)

if TYPE_CHECKING:
    from dqsql.decisions.avh import AvhConfig, ColumnHistory


# The ends of a column of times.
ENDS = ("days_to_min", "days_to_max")
# A season must be seen this often, and its differences must vary this much less.
_SEASON_REPEATS = 3
_SEASON_GAIN = 0.5
# In how many of the batches patterns are to be those of the batch before.
_MOSTLY = 0.9
# Of so few different values a batch has, quartiles are steps.
_FEW_VALUES = 10.5
# Numbers of distinct values are estimates, which are up to so much too small.
_UNIQUE, _OF_KEYS = "unique_ratio", 0.9
# Batches that have hardly a shape in common: the distance is 2 where they have none.
_SHAPES_APART, _UNLIKE = f"{PATTERN_PREFIX}l_1", 1.9


@dataclass(frozen=True, slots=True, eq=False)
class Usable:
    """Metrics of a column that can be learned from, n of P values each; NaN where there is none.

    Attributes:
        positions: which metrics.
        values: n x P.
        null_rates: how likely each has no value, see `Clause.null_rate`.
        distances: which of them compare two batches.
        steady: which of them never changed, see `never_changed`.
    """

    positions: tuple[int, ...]
    values: FloatArray
    null_rates: tuple[float, ...]
    distances: BoolArray
    steady: tuple[bool, ...]


def usable_of(history: ColumnHistory, config: AvhConfig) -> Usable:
    """Return the metrics with enough values, and one in the batch that issues were injected into.

    The first batch of all has nothing to be compared with: that its distances are unknown says
    nothing.
    """
    rows = history.rows
    paper = config.bounds == "paper"
    distance = np.array([m in DISTANCE_METRICS for m in history.metrics], dtype=bool)
    left_out = np.array([m in OWN_METRICS for m in history.metrics], dtype=bool) & paper
    if not config.two_distribution:
        left_out |= distance
    elif not paper:
        known = dict(zip(history.metrics, history.values[rows].T, strict=True))
        left_out |= _follow_digits(known) | _of_few_values(known) | _of_keys(known)
    raw = np.ascontiguousarray(np.asarray(history.values, dtype=float).T)
    first = distance & np.isnan(raw[:, rows[0]])
    values = np.where(usable(raw), raw, np.nan)
    sizes = rows.size - first
    # What is infinite is no missing value, and nothing to learn from.
    missing = np.isnan(raw[:, rows]).sum(axis=1) - first
    enough = np.isfinite(raw[:, rows]).sum(axis=1) >= np.minimum(config.min_history, sizes)
    there = np.isfinite(values[:, changed_row(history)])
    chosen = np.flatnonzero(~left_out & enough & there)
    chosen_values = values[chosen]
    steady = tuple(never_changed(history.metrics[i], values[i]) for i in chosen)
    if not paper:
        if ROWS in history.metrics:
            counts = values[history.metrics.index(ROWS)]
            names = [history.metrics[i] for i in chosen]
            chosen_values = np.array(
                [of_usual_rows(m, v, counts) for m, v in zip(names, chosen_values, strict=True)]
            ).reshape(chosen_values.shape)
        chosen_values = without_outliers_each(chosen_values, distance[chosen])
    rates = tuple(_null_rate(int(missing[i]), int(sizes[i])) for i in chosen)
    return Usable(tuple(chosen.tolist()), chosen_values, rates, distance[chosen], steady)


def never_changed(metric: str, values: FloatArray) -> bool:
    """Whether a number or a length of values has been the same in all batches, learned from or not.

    Others are made of single values or of two batches: that they were the same says little of how
    far the next may be, and a bound on a median must not be cheaper than one on an extreme.
    """
    return metric in COUNT_METRICS | LENGTH_METRICS and is_constant(values[usable(values)])


def _follow_digits(known: Mapping[str, FloatArray]) -> BoolArray:
    """Return which metrics move by themselves once a running number gains a digit.

    Where patterns do not change from batch to batch, their distances see every change of a length
    but for these digits. Of upper and lower case one is left, unless both occur.
    """
    patterns, digits = finite_values(known.get("pat_l_1", ())), known.get("digit_len", np.zeros(0))
    steady = patterns.size and np.mean(patterns < fpr_bounds.EQUALITY_TOLERANCE) >= _MOSTLY
    if not steady or not np.nanmax(digits, initial=0.0) > 0:
        return np.zeros(len(known), dtype=bool)
    cases = [
        m for m in ("upper_ratio", "lower_ratio") if np.nanmax(known.get(m, 0.0), initial=0.0) > 0
    ]
    dropped = {"str_len", "digit_len", *(cases if len(cases) == 1 else [])}
    return np.array([m in dropped for m in known], dtype=bool)


def _of_few_values(known: Mapping[str, FloatArray]) -> BoolArray:
    """Return which metrics go from one value of the column to the next by a single row.

    The median of 0, 4.9 and 7.9 is one of them, whichever has half of the rows: it has been the
    same in all batches, until it is not. The mean and distances see what moves.
    """
    values = finite_values(known.get("unique_ratio", np.nan) * known.get("count", np.nan))
    few = bool(values.size and np.median(values) <= _FEW_VALUES)
    return np.array([few and m in QUARTILES for m in known], dtype=bool)


def _of_keys(known: Mapping[str, FloatArray]) -> BoolArray:
    """Return which metrics say no more than how many rows there are.

    Where each text has one row, the shares of all of them change with each row that is added; so do
    those of shapes, where each text has one of its own. Codes that are mostly the same are compared
    all the same.
    """
    ratios, apart = (finite_values(known.get(name, ())) for name in (_UNIQUE, _SHAPES_APART))
    is_key = bool(ratios.size and ratios.min() >= _OF_KEYS) and "mean" not in known
    unlike = bool(apart.size) and bool(np.median(apart) >= _UNLIKE)
    of_keys = (*CATEGORICAL_DISTANCES, *(PATTERN_DISTANCES if unlike else ()))
    return np.array([is_key and m in of_keys and _moves(v) for m, v in known.items()], dtype=bool)


def _moves(distances: FloatArray) -> bool:
    """Whether batches are unlike the ones before, more than now and then."""
    distances = finite_values(distances)
    return bool(distances.size and np.mean(distances > fpr_bounds.EQUALITY_TOLERANCE) > 1 - _MOSTLY)


def changed_row(history: ColumnHistory) -> int:
    """The row of the batch that the injected issues are of."""
    return int(history.rows[-1]) if history.changed is None else history.changed


def _null_rate(missing: int, size: int) -> float:
    """Return the probability that the next batch has no value, by the rule of succession.

    0 where all had one: then the first that has none is a finding at every rate.
    """
    return (missing + 1) / (size + 2) if missing else 0.0


_Offers = list[tuple[Transform, ...]]


def transforms_of(
    histories: Sequence[ColumnHistory], columns: Sequence[Usable], config: AvhConfig
) -> list[_Offers]:
    """Return per column and usable metric the transforms to make candidates of."""
    offers: list[_Offers] = [[()] * len(column.positions) for column in columns]
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, column in enumerate(columns):
        if column.positions:
            length = column.values.shape[1]
            places[length] += [(number, i) for i in range(len(column.positions))]
    for alike in places.values():
        numbers = dict.fromkeys(number for number, _ in alike)
        values = np.concatenate([columns[number].values for number in numbers])
        chosen: Sequence[Transform | None] = [Transform()] * len(values)
        if config.stationarity:
            chosen = choose_transforms(values)
        if config.bounds == "calibrated":
            logarithms = np.concatenate([_logarithms(histories[n], columns[n]) for n in numbers])
            distance = np.concatenate([columns[n].distances for n in numbers])
            group_offers = _offers(values, chosen, distance, logarithms)
        else:
            group_offers = [() if transform is None else (transform,) for transform in chosen]
        for (number, i), offer in zip(alike, group_offers, strict=True):
            offers[number][i] = offer
    return offers


def _offers(
    values: FloatArray,
    chosen: Sequence[Transform | None],
    distance: BoolArray,
    logarithms: BoolArray,
) -> _Offers:
    """Offer, beside the chosen transform, identity, seasonal differences, and all of them in log.

    Sums and distances are skewed to the right, and volumes vary by the day of the week. The greedy
    search pays for whatever it takes. A distance compares two batches already, so its seasonal
    difference would hang on four; it is not offered.

    With 30 batches the ADF test has little power: it fails to reject a unit root for many a
    series that goes nowhere. Only a drifting one is refused as it is.
    """
    known = np.isfinite(values)
    drifts = np.zeros(len(values), dtype=bool)
    for rows, dense in packed(values, known):
        drifts[rows] = drifting(dense.T)
    plain = ~drifts | np.array([t == Transform() for t in chosen], dtype=bool)
    lags = np.zeros(len(values), dtype=int)
    seasonal = np.flatnonzero(plain & ~distance)
    lags[seasonal] = _seasons(values[seasonal])
    all_offers: _Offers = []
    for transform, also, lag, logs in zip(chosen, plain, lags.tolist(), logarithms, strict=True):
        offers = [] if transform is None else [transform]
        if also:
            offers.append(Transform())
        if lag:
            offers.append(Transform(lag=lag))
        if logs:
            offers += [Transform(log=True, lag=offer.lag) for offer in offers if not offer.log]
        all_offers.append(tuple(dict.fromkeys(offers)))
    return all_offers


def _logarithms(history: ColumnHistory, column: Usable) -> BoolArray:
    """Return whether the logarithm of each metric makes sense: it cannot fall to zero or below.

    A mean of delays that was above zero for a month falls below it one day, and that is no infinite
    distance. So metrics in the column's unit need a column without negative values.
    """
    positive = np.nanmin(column.values, axis=1, initial=np.inf) > 0
    # Of a constant the logarithm says nothing more, and all of six values may be missing.
    names = [history.metrics[i] for i in column.positions]
    positive &= ~np.array(_constant(column.values), dtype=np.bool_)
    positive &= ~np.array([name in COMPLETENESS_METRICS for name in names], dtype=np.bool_)
    if "min" in history.metrics:
        least = finite_values(history.values[:, history.metrics.index("min")])
        if least.size and least.min() >= 0:
            return np.asarray(positive, dtype=np.bool_)
    signed = np.array([name in SIGNED_METRICS for name in names], dtype=bool)
    return np.asarray(positive & ~signed, dtype=np.bool_)


def _seasons(values: FloatArray) -> npt.NDArray[np.int64]:
    """Return, per series, the lag whose differences vary clearly less than the values, or 0."""
    best = np.zeros(len(values), dtype=np.int64)
    spreads = np.zeros(len(values))
    known = np.isfinite(values)
    for rows, dense in packed(values, known):
        spreads[rows] = dense.std(axis=1)
    least = np.full(len(values), np.inf)
    whole = known.all(axis=1)
    for lag in range(2, values.shape[-1] // _SEASON_REPEATS + 1):
        transform = Transform(lag=lag)
        differences = transform.series(values)
        there = np.isfinite(differences)
        able = (there.sum(axis=1) >= (_SEASON_REPEATS - 1) * lag) & transform.reaches(values)
        able = np.flatnonzero((whole | able) & (spreads > 0))
        for rows, dense in packed(differences[able], there[able]):
            spread = dense.std(axis=1)
            better = spread < least[able[rows]]
            least[able[rows[better]]] = spread[better]
            best[able[rows[better]]] = lag
    return np.where(least < _SEASON_GAIN * spreads, best, 0)


def series_of(
    histories: Sequence[ColumnHistory],
    columns: Sequence[Usable],
    transforms: Sequence[_Offers],
    config: AvhConfig,
) -> list[list[CandidateSeries]]:
    """Return per column its metrics under their transforms, by metric, then by transform."""
    return [
        list(_column_series(history, column, offers, config))
        for history, column, offers in zip(histories, columns, transforms, strict=True)
    ]


def _column_series(
    history: ColumnHistory, column: Usable, transforms: _Offers, config: AvhConfig
) -> Iterator[CandidateSeries]:
    place = changed_row(history)
    issues = np.ascontiguousarray(np.asarray(history.issue_values, dtype=float).T)
    calibrated = config.bounds == "calibrated"
    levels = _levels(column.values) if calibrated else []
    constant = _constant(column.values) if calibrated else []
    widths = _widths(_ranges(history))
    made: dict[tuple[int, Transform], tuple[FloatArray, FloatArray]] = {}
    wanted: dict[Transform, list[int]] = defaultdict(list)
    for number, offers in enumerate(transforms):
        for transform in offers:
            wanted[transform].append(number)
    for transform, numbers in wanted.items():
        before = column.values[numbers, :place]
        # What came before the batch that the variants are of is their history.
        reached = np.flatnonzero(transform.reaches(before))
        rows = [numbers[i] for i in reached]
        if not rows:
            continue
        metrics = [column.positions[number] for number in rows]
        series = transform.series(column.values[rows])
        changed = transform.apply(before[reached][:, None, :], issues[metrics])
        for number, values, variants in zip(rows, series, changed, strict=True):
            made[number, transform] = (values, variants)
    for number, offers in enumerate(transforms):
        metric = history.metrics[column.positions[number]]
        for transform in offers:
            if (number, transform) not in made:
                continue
            values, variants = made[number, transform]
            floor = 0.0
            if calibrated:
                level, same = levels[number], constant[number]
                floor = fpr_bounds.spread_floor(
                    metric, level, transform.log, *widths, constant=same
                )
            null_rate, steady = column.null_rates[number], column.steady[number]
            known = finite_values(values)
            yield CandidateSeries(metric, transform, known, variants, floor, null_rate, steady)


def _ranges(history: ColumnHistory) -> FloatArray:
    """Largest less smallest value of a column in each batch, of times in days; empty for texts."""
    columns = dict(zip(history.metrics, history.values.T, strict=True))
    ranges = columns.get("range", np.array([]))
    if columns.keys() >= set(ENDS):
        ranges = columns[ENDS[1]] - columns[ENDS[0]]
    return np.asarray(ranges, dtype=float)


def resolution(
    metric: str, transform: Transform, values: FloatArray, ranges: npt.ArrayLike
) -> float:
    """Return the resolution that `calibrated` adds to the spread of a transformed history.

    The `values` are not transformed; `ranges` are max - min of the column in each batch, of times
    in days, and empty for texts. What is not finite is left out.
    """
    series = np.asarray(values, dtype=float)[None]
    level, same = _levels(series)[0], _constant(series)[0]
    return fpr_bounds.spread_floor(metric, level, transform.log, *_widths(ranges), constant=same)


def _levels(values: FloatArray) -> list[float]:
    """Return per series the median size of its values."""
    levels = np.zeros(len(values))
    for rows, dense in packed(np.abs(values), usable(values)):
        levels[rows] = np.median(dense, axis=1)
    return [float(level) for level in levels]


def _constant(values: FloatArray) -> list[bool]:
    """Return per series whether its usable values are equal, up to rounding."""
    return [is_constant(row[there]) for row, there in zip(values, usable(values), strict=True)]


def is_constant(values: FloatArray) -> bool:
    """Return whether there are values, and all are equal up to rounding."""
    return bool(values.size and fpr_bounds.all_equal(values))


def _widths(ranges: npt.ArrayLike) -> tuple[float, float]:
    """The median and the largest of the ranges of batches; 0 where there is none."""
    widths = np.asarray(ranges, dtype=float)
    widths = widths[usable(widths)]
    return (float(np.median(widths)), float(widths.max())) if widths.size else (0.0, 0.0)

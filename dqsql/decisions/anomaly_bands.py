"""Bands of `@anomaly` that keep a false-positive rate, from past errors of a strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.bounds import EQUALITY_TOLERANCE, RELATIVE_RESOLUTION
from dqsql.decisions.forecasts import median_of
from dqsql.decisions.magnitudes import for_zero, is_counted, is_volume
from dqsql.decisions.seasonal import batches_a_day
from dqsql.decisions.stationarity import RECURS
from dqsql.decisions.strategies import Prediction, Series
from dqsql.decisions.tails import PRIOR, PRIOR_OF_RATES, fit_tails

# Values of which so large a share is one and the same are as good as constant: other ones may come.
_CONSTANT = 0.5
# Between values with gaps, an error is known to this share of a gap (a uniform error's deviation).
_SHARE_OF_GAP = 0.29
_STILL = 1e-6
# Whole numbers that are not always the same differ by one for no reason.
_HALF = 0.5
# With several batches a day a forecast is missed often that nobody wants to hear of. There a value
# is an anomaly if so rare a miss also lies so many standard deviations from the mean of all values,
# or if the miss alone is rarer still. Of counts a day may have as many false alarms as one batch a
# day would.
_LOOSE_RATE = 0.01
_FAR = 5.0
_RATE_ALONE = 1e-5
# Where so many errors are known, the number of rows is not taken to have heavier tails beyond the
# largest of them than a Student's t of so many degrees of freedom. By the heavy tails that some
# promotions and holidays are, among the errors of a quiet table, all of its rows might be missing.
_MANY, _FALL = 30, 6.0
# The largest error is one of the newest so many. Where enough are known to have seen most events,
# it counts as no more than so many times the third largest; those so near to a larger one are of
# the same event. One feast, or one doubled load, would let all of them pass for two years. Where
# the third largest is hardly more than the resolution, it says nothing.
_NEWEST, _ENOUGH = 180, 120
_ALONE, _NEAR, _SMALL = 1.5, 14, 3.0
# A batch with so small a share of the fewest rows so far is none that a short history allows, where
# there were so many, and where that is so many standard deviations (of logarithms) below the mean.
_LEAST_ROWS, _MANY_ROWS, _FAR_BELOW = 0.2, 20, 6.0
# Of several batches a day so many of its time say that, and this share of so many rows.
_OF_ITS_TIME, _LEAST_OF_ITS_TIME, _MANY_OF_ITS_TIME = 7, 0.1, 10
# What was unusual on the same days a year ago may come again, so many times as far: a feast grows.
_AGAIN = 1.25
# So many batches a day are several.
_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class Band:
    """Values that are fine at a false-positive rate, and the p-value of the newest.

    `as_a_year_ago` says that they are more because of the same days a year ago.
    """

    lower: float
    upper: float
    p_value: float
    as_a_year_ago: bool = False


def bands_of(
    predictions: Sequence[Prediction],
    many: Sequence[Series],
    rate: float,
    settings: AnomalySettings,
    by_day: bool = False,
) -> list[Band]:
    """The bands around what is expected, for a rate per decision in (0, 0.5].

    Args:
        predictions: predictions that learn, each with at least two errors.
        many: their histories.
        rate: of both sides together, or of the one that is looked at.
        settings: which sides are looked at.
        by_day: whether series with several batches a day have the band of `_LOOSE_RATE` instead.
    """
    single_rates = [_rate_alone(series, rate) if by_day else None for series in many]
    bands: dict[int, Band] = {}
    for alike in set(single_rates):
        places = [i for i, other in enumerate(single_rates) if other == alike]
        group = [predictions[i] for i in places], [many[i] for i in places]
        bands.update(zip(places, _bands_alike(*group, rate, settings, alike), strict=True))
    return [bands[i] for i in range(len(predictions))]


def _rate_alone(series: Series, rate: float) -> float | None:
    """How rare a miss is an anomaly by itself; None where a day has one batch."""
    number = batches_a_day(series)
    if number < _SEVERAL:
        return None
    counted = is_counted(series.known, series.new)
    return max(_RATE_ALONE, rate / number) if counted else _RATE_ALONE


def _bands_alike(
    predictions: Sequence[Prediction],
    many: Sequence[Series],
    rate: float,
    settings: AnomalySettings,
    single_rate: float | None,
) -> list[Band]:
    errors = np.full((len(predictions), max(p.errors.size for p in predictions)), np.nan)
    for row, prediction in enumerate(predictions):
        errors[row, : prediction.errors.size] = prediction.errors
    floor = np.array([_resolution(p, s) for p, s in zip(predictions, many, strict=True)])
    # Bands of a day do not stand for a rate, and were chosen with the usual prior.
    tails = fit_tails(errors, floor, prior_weights=PRIOR_OF_RATES if single_rate is None else PRIOR)
    factor = np.sqrt([1 + p.leverage for p in predictions])
    sides = 2 if settings.direction == "both" else 1
    # Of errors that are all none there is no tail to learn; one of heavy tails would be too wide.
    still = np.nanmax(np.abs(errors), axis=1) <= _STILL * floor

    volumes = np.array([single_rate is None and is_volume(s.known, s.new) for s in many])

    # A drop is taken to be able to be as large as a spike was: a feast comes once a year.
    ends = [_Ends.of(kind(errors), floor, volumes & ~still) for kind in (np.abs, np.positive)]

    def reaches(one: float) -> FloatArray:
        normal = floor * scipy.special.ndtri(1 - one / sides)
        pairs = zip(tails.reach(one / sides), ends, strict=True)
        learned = [np.minimum(side, end.reach(one / sides)) for side, end in pairs]
        return np.where(still, normal, learned)

    reach = reaches(rate)
    least = [_least_rows(s, p.expected) for s, p in zip(many, predictions, strict=True)]
    # Of several batches a day two bands are made one first.
    wider = _wider(predictions, reach, factor, [-math.inf if single_rate else n for n in least])

    def intervals(reach: FloatArray) -> list[tuple[float, float]]:
        below, above = reach * wider * factor
        return [
            _interval(p, s, low, high)
            for p, s, low, high in zip(
                predictions, many, below.tolist(), above.tolist(), strict=True
            )
        ]

    kept = intervals(reach)
    if single_rate is not None:
        loose_and_rare = (intervals(reaches(one)) for one in (_LOOSE_RATE, single_rate))
        pairs = zip(*loose_and_rare, many, strict=True)
        kept = [_of_the_day(loose, rare, series) for loose, rare, series in pairs]
        kept = [(max(low, rows), high) for (low, high), rows in zip(kept, least, strict=True)]
    away = np.array([distance(_positive(s, p), p) for p, s in zip(predictions, many, strict=True)])
    away /= factor
    size = np.minimum(np.abs(away) / np.where(away > 0, wider[1], wider[0]), 1e300)
    rare = np.where(away > 0, ends[1].beyond(size), ends[0].beyond(size))
    p_values = np.minimum(tails.beyond(size, away > 0), rare) * sides
    one_sided = {"spike": away > 0, "drop": away < 0}.get(settings.direction)
    if one_sided is not None:
        p_values = np.where(one_sided, p_values, 1.0)
    if single_rate is not None:
        below = np.array([s.new < rows for s, rows in zip(many, least, strict=True)])
        p_values = np.where(below, np.minimum(p_values, single_rate), p_values)
    again = np.any(wider > 1, axis=0)
    columns = zip(kept, np.minimum(p_values, 1.0).tolist(), again.tolist(), strict=True)
    return [Band(*interval, p_value, as_before) for interval, p_value, as_before in columns]


def _wider(
    predictions: Sequence[Prediction], reach: FloatArray, factor: FloatArray, least: Sequence[float]
) -> FloatArray:
    """How many times as far as by the errors alone the bands go below and above, 2 x S, > 0.

    Further by the same days a year ago, and less far below where it would be hardly any rows: less
    than `least`.
    """
    year_ago = np.array([p.year_ago for p in predictions]).T / reach
    wider = np.where(year_ago > 1, _AGAIN * year_ago, 1.0)
    rows = [-distance(one, p) for one, p in zip(least, predictions, strict=True)]
    end = np.array(rows) / (reach[0] * factor)
    wider[0] = np.where(end > 0, np.minimum(wider[0], end), wider[0])
    return wider


def _least_rows(series: Series, expected: float) -> float:
    """The fewest rows that a history of numbers of rows may allow; -inf where it says nothing.

    Of several batches a day those of its time of day, of which weekends may have fewer.
    """
    known = series.known
    if not is_counted(known, series.new) or known.min() < 0:
        return -math.inf
    groups, share, enough = [known], _LEAST_ROWS, _MANY_ROWS
    if batches_a_day(series) >= _SEVERAL:
        groups, share, enough = _of_its_time(series), _LEAST_OF_ITS_TIME, _MANY_OF_ITS_TIME
    fewest = min((float(group.min()) for group in groups), default=0.0)
    if fewest < enough:
        return -math.inf
    groups = [np.log(group) for group in groups]
    logs = np.concatenate(groups)
    spread = math.sqrt(sum(g.size * float(g.var()) for g in groups) / logs.size)
    lowest = min(float(g.mean()) for g in groups)
    far = math.log(share * fewest) < lowest - _FAR_BELOW * spread
    return share * fewest if far and share * fewest < expected else -math.inf


def _of_its_time(series: Series) -> list[FloatArray]:
    """The values of the same time of day, of weekends and of other days; none if these are few."""
    if series.times is None or series.time is None:
        return []
    times = series.times[~np.isnan(series.values)]
    days = times.astype("datetime64[D]")
    alike = times - days == series.time - series.time.astype("datetime64[D]")
    if np.count_nonzero(alike) < _OF_ITS_TIME:
        return []
    weekend = ~np.is_busday(days)
    return [series.known[p] for p in (alike & weekend, alike & ~weekend) if p.any()]


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """How far errors may reach on one side, by the largest of them; see `_FALL`.

    Attributes:
        most: S, the largest, as far as it is not alone; infinite where it does not count.
        size: S, how many errors there are, and the next one.
    """

    most: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, errors: FloatArray, floor: FloatArray, volumes: BoolArray) -> _Ends:
        """By errors of S series, those on this side being positive, and which count rows."""
        size = np.count_nonzero(~np.isnan(errors), axis=1)
        number = np.minimum(size, _NEWEST)
        if not volumes.any():
            return cls(np.full(len(size), np.inf), number + 1.0)
        place = np.arange(errors.shape[1])
        known = ~np.isnan(errors) & (place >= (size - number)[:, None])
        others = np.where(known, errors, -np.inf)
        largest = others.max(axis=1)
        for _ in range(RECURS - 1):
            apart = np.abs(place - others.argmax(axis=1)[:, None]) > _NEAR
            others = np.where(apart, others, -np.inf)
        usual = others.max(axis=1)
        alone = (number >= _ENOUGH) & (usual > _SMALL * floor)
        most = np.maximum(np.where(alone, np.minimum(largest, _ALONE * usual), largest), floor)
        return cls(np.where(volumes & (size >= _MANY), most, np.inf), number + 1.0)

    def reach(self, rate: float) -> FloatArray:
        """The end at a rate of this side."""
        further = np.maximum(1 / (self.size * rate), 1.0) ** (1 / _FALL)
        return np.asarray(self.most * further, dtype=float)

    def beyond(self, away: FloatArray) -> FloatArray:
        """The rate of which a distance is the end; 1 where it is not beyond the largest error."""
        times = np.maximum(away / self.most, 1.0)
        return np.where(times > 1, times**-_FALL / self.size, 1.0)


def _of_the_day(
    loose: tuple[float, float], single_band: tuple[float, float], series: Series
) -> tuple[float, float]:
    """The band of a series with several batches a day; see `_LOOSE_RATE`."""
    known = series.known
    away = _FAR * float(known.std(ddof=1)) if known.size > 1 else 0.0
    middle = float(known.mean())
    return (
        max(min(loose[0], middle - away), single_band[0]),
        min(max(loose[1], middle + away), single_band[1]),
    )


def distance(value: float, prediction: Prediction) -> float:
    """How far a value is off, in the unit of the errors; infinite for no ratio."""
    if not prediction.ratios:
        return value - prediction.expected
    return math.log(value / prediction.expected) if value > 0 else -math.inf


def _positive(series: Series, prediction: Prediction) -> float:
    """The new value; where there are ratios, what a 0 counts as."""
    if not prediction.ratios or series.new != 0:
        return series.new
    return float(for_zero(series.known[None])[0])


def _interval(
    prediction: Prediction, series: Series, below: float, above: float
) -> tuple[float, float]:
    if not prediction.ratios:
        return prediction.expected - below, prediction.expected + above
    lower = prediction.expected * math.exp(-below)
    if series.new == 0 and _positive(series, prediction) >= lower:
        lower = 0.0
    return lower, prediction.expected * math.exp(min(above, 700.0))


def _resolution(prediction: Prediction, series: Series) -> float:
    """Size below which an error of a metric says nothing, in the unit of the errors, > 0."""
    known = series.known
    floor = float(resolutions_of(known[None])[0][0]) if known.size else EQUALITY_TOLERANCE**2
    if is_counted(known, series.new):
        floor = max(floor, _HALF)
    level = float(np.median(np.abs(known))) if known.size else 0.0
    return floor / level if prediction.ratios and level > 0 else floor


def resolutions_of(many: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Sizes below which a change of a metric says nothing, > 0, and which hardly vary.

    Of values that hardly vary (more than half are one and the same) 1 % of their level: that they
    were constant so far is no promise. Of few distinct values a share of the gap between them;
    else only rounding. The past values, S x K, are all known.
    """
    size = many.shape[1]
    level = np.median(np.abs(many), axis=1)
    floor = EQUALITY_TOLERANCE * np.maximum(level, EQUALITY_TOLERANCE)
    gaps = np.diff(np.sort(many, axis=1), axis=1)
    apart = gaps > 0
    distinct = 1 + apart.sum(axis=1)
    places = np.arange(1, size)
    begins = np.maximum.accumulate(np.where(apart, places, 0), axis=1)
    longest = 1 + (places - begins).max(axis=1, initial=0)
    still = longest > _CONSTANT * size
    steps = median_of(np.where(apart, gaps, np.nan)) if size > 1 else np.zeros(len(many))
    few = ~still & (distinct <= size / 2)
    floor = np.where(few, np.maximum(floor, _SHARE_OF_GAP * np.nan_to_num(steps)), floor)
    floor = np.where(still, np.maximum(floor, RELATIVE_RESOLUTION * level), floor)
    return floor, np.asarray(still, dtype=np.bool_)

"""Seasons by the clock, and strategies of `@anomaly` for them: calendar baselines, STL residuals.

Sources: baselines by day of week and the like are common practice in monitoring; STL: Cleveland,
Cleveland, McRae & Terpenning, "STL: A Seasonal-Trend Decomposition Procedure Based on Loess",
Journal of Official Statistics 6 (1990), by statsmodels.
"""

from __future__ import annotations

import calendar
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions import strategies
from dqsql.decisions.arrays import FloatArray, IntArray
from dqsql.decisions.forecast_bases import NO_SLOT
from dqsql.decisions.forecasts import median_of
from dqsql.model.settings import Reader, as_bool, at_least, one_of

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
# Seasons by the shortest and the longest distance between batches that they are tried for, and the
# time from which on they are tried. Of two Tuesdays, an odd one would make the next, usual one odd:
# weekdays ask for three. A second weekend that is like the first is nothing to tell of.
_SEASONS = {
    "weekday": (0.0, 1.5 * _DAY, 20 * _DAY),
    "weekend": (0.0, 1.5 * _DAY, 8 * _DAY),
    "hour": (0.0, 0.5 * _DAY, 2 * _DAY),
    "hour and weekend": (0.0, 0.5 * _DAY, 14 * _DAY),
    "hour of the week": (0.0, 0.5 * _DAY, 14 * _DAY),
    "month": (6.0 * _DAY, 32.0 * _DAY, 730 * _DAY),
}


def seasons_of(many: Sequence[strategies.Series], length: int) -> dict[str, IntArray]:
    """Slots by season, S x (length + 1): of the newest values and, last, of the one to decide on.

    A series without times, or whose batches are too far apart or too few for a season, has no
    slots of it; a season that no series has is left out.
    """
    times = np.full((len(many), length + 1), np.datetime64("NaT", "us"))
    for row, series in enumerate(many):
        if series.times is None or series.time is None:
            continue
        newest = series.times[-length:]
        times[row, length - newest.size : -1] = newest
        times[row, -1] = series.time
    return _slots(times)


def seasons_at(times: strategies.TimeArray, series: int) -> dict[str, IntArray]:
    """As `seasons_of`, of so many series that have the same times; the last is the newest."""
    seasons = _slots(times[None])
    return {name: np.repeat(slots, series, axis=0) for name, slots in seasons.items()}


def batches_a_day(series: strategies.Series) -> int:
    """How many batches fit a day, by the median distance between them; 1 for fewer as well."""
    if series.times is None or series.times.size < 2:
        return 1
    return max(1, int(_DAY / max(float(_apart(series.times[None])[0]), 1.0)))


def _slots(times: strategies.TimeArray) -> dict[str, IntArray]:
    apart = _apart(times)
    known = ~np.isnat(times)
    hours = times.astype("datetime64[h]").astype(np.int64)
    days = times.astype("datetime64[D]").astype(np.int64)
    months = times.astype("datetime64[M]").astype(np.int64)
    # 1970-01-01 was a Thursday.
    weekday, hour = (days + 3) % 7, hours % 24
    weekend = (weekday >= 5).astype(np.int64)
    slots = {
        "weekday": weekday,
        "weekend": weekend,
        "hour": hour,
        "hour and weekend": hour + 24 * weekend,
        "hour of the week": hour + 24 * weekday,
        "month": months % 12,
    }
    # Of series without times, the distance is infinite.
    span = known.sum(axis=1) * np.where(np.isinf(apart), 0.0, apart)
    seasons = {}
    for name, (shortest, longest, least) in _SEASONS.items():
        able = (apart >= shortest) & (apart <= longest) & (span >= least)
        if able.any():
            seasons[name] = np.where(known & able[:, None], slots[name], NO_SLOT)
    return seasons


def _apart(times: strategies.TimeArray) -> npt.NDArray[np.float64]:
    """Median distance between neighbouring times, in microseconds; infinite where unknown."""
    steps = np.diff(times, axis=1).astype("timedelta64[us]").astype(float)
    steps[np.isnat(np.diff(times, axis=1))] = np.nan
    none = np.isnan(steps).all(axis=1)
    steps[none] = np.inf
    return median_of(steps)


_SPREADS = ("auto", "slot", "pooled")
# From so many values on a slot's own spread is worth more than that of all slots together.
_OWN_SPREAD = 8
# Level of the test of whether it is another one.
_SPREADS_DIFFER = 0.1
_MONDAY_OF_EPOCH = 3  # 1970-01-01 was a Thursday
_LEAST_SEASONS = 3
_MOST_SEASONS = 12
_PROBES = 64
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class SeasonalBaseline(strategies.LearnedStrategy):
    """Base of baselines by the calendar: mean of past values of the same slot.

    Attributes:
        min_per_slot: fewest past values of the slot, >= 2.
        spread: 'slot' for the standard deviation of the slot's values, 'pooled' for that of all
            values from the mean of their own slot, 'auto' (default) for pooled, or from 8 values on
            the slot's if it differs.

    Class attributes: `cycle` is the unit of time that a slot lasts, and how many of them the epoch
    lies behind slot 0; `names` are the slots in words, plural.
    """

    min_per_slot: int = 3
    spread: str = "auto"
    cycle: ClassVar[tuple[str, int]] = ("D", 0)
    names: ClassVar[tuple[str, ...]] = ()
    readers: ClassVar[dict[str, Reader]] = strategies.LearnedStrategy.readers | {
        "min_per_slot": at_least(2),
        "spread": one_of(*_SPREADS),
    }

    def slots(self, times: strategies.TimeArray) -> npt.NDArray[np.int64]:
        """Number of the slot of each time; -1 for none."""
        unit, start = self.cycle
        units = times.astype(f"datetime64[{unit}]").astype(np.int64)
        return np.where(np.isnat(times), NO_SLOT, (units + start) % len(self.names))

    def predict(self, series: strategies.Series) -> strategies.Prediction:
        """Mean of the slot's values, and the spread chosen."""
        if series.times is None or series.time is None or np.isnat(series.time):
            raise strategies.Undecidable(f"{self.name} needs batches with a time")
        known = ~np.isnan(series.values)
        values, slots = series.values[known], self.slots(series.times[known])
        slot = int(self.slots(np.array([series.time]))[0])
        mine = values[slots == slot]
        name = self.names[slot]
        if mine.size < self.min_per_slot:
            raise strategies.TooLittleHistoryError(
                f"{mine.size} earlier {name}, {self.min_per_slot} are needed"
            )
        mean = float(mine.mean())
        use_own = self.spread == "slot"
        if self.spread == "auto" and mine.size >= _OWN_SPREAD:
            use_own = _varies_by_slot(values, slots, slot)
        if use_own:
            away, degrees, errors = mine - mean, mine.size - 1, strategies.recursive_residuals(mine)
        else:
            away, degrees, errors = _pooled(values, slots)
        spread = float(np.sqrt(np.dot(away, away) / max(degrees, 1)))
        basis, size = f"mean of {mine.size} {name}", int(mine.size)
        return strategies.Prediction(mean, basis, size, (), spread, errors, 1 / size)


def _varies_by_slot(values: FloatArray, slots: npt.NDArray[np.int64], slot: int) -> bool:
    """Whether a slot's spread is another than that of all others (Brown & Forsythe 1974, JASA 69).

    By the mean distance from the median of the own slot.
    """
    away = np.empty(values.size)
    for one in np.unique(slots):
        mine = slots == one
        away[mine] = np.abs(values[mine] - np.median(values[mine]))
    mine = slots == slot
    own, other = away[mine], away[~mine]
    if not other.size:
        return True
    degrees = away.size - 2
    squares = np.square(own - own.mean()).sum() + np.square(other - other.mean()).sum()
    noise = float(squares) / degrees * (1 / own.size + 1 / other.size)
    statistic = float(own.mean() - other.mean())
    edge = float(scipy.special.stdtrit(degrees, 1 - _SPREADS_DIFFER / 2))
    return bool(statistic**2 > edge**2 * noise)


def _pooled(values: FloatArray, slots: npt.NDArray[np.int64]) -> tuple[FloatArray, int, FloatArray]:
    """Differences of all values from their slot's mean, degrees of freedom, past errors."""
    order = np.argsort(slots, kind="stable")
    by_slot = np.split(values[order], np.flatnonzero(np.diff(slots[order])) + 1)
    away = np.concatenate([v - v.mean() for v in by_slot])
    errors = np.concatenate([strategies.recursive_residuals(v) for v in by_slot])
    return away, values.size - len(by_slot), errors


@dataclass(frozen=True, slots=True)
class DayOfWeek(SeasonalBaseline):
    """Mondays against Mondays; slot 0 is Monday."""

    name: ClassVar[str] = "day_of_week"
    cycle: ClassVar[tuple[str, int]] = ("D", _MONDAY_OF_EPOCH)
    names: ClassVar[tuple[str, ...]] = tuple(f"{day}s" for day in calendar.day_name)


@dataclass(frozen=True, slots=True)
class HourOfDay(SeasonalBaseline):
    """Nine o'clock against nine o'clock, whatever the day."""

    name: ClassVar[str] = "hour_of_day"
    cycle: ClassVar[tuple[str, int]] = ("h", 0)
    names: ClassVar[tuple[str, ...]] = tuple(f"batches of {hour:02d}:00" for hour in range(24))


@dataclass(frozen=True, slots=True)
class HourOfWeek(SeasonalBaseline):
    """Monday at nine against Mondays at nine; slot 0 is Monday 00:00."""

    name: ClassVar[str] = "hour_of_week"
    cycle: ClassVar[tuple[str, int]] = ("h", 24 * _MONDAY_OF_EPOCH)
    names: ClassVar[tuple[str, ...]] = tuple(
        f"{day}s {hour:02d}:00" for day in calendar.day_name for hour in range(24)
    )


@dataclass(frozen=True, slots=True)
class Month(SeasonalBaseline):
    """Batches of January against those of January."""

    name: ClassVar[str] = "month"
    cycle: ClassVar[tuple[str, int]] = ("M", 0)
    names: ClassVar[tuple[str, ...]] = tuple(f"batches of {m}" for m in calendar.month_name[1:])


def filled(values: FloatArray, period: int) -> FloatArray:
    """Fill gaps (NaN) by the value a period before, else one after, else by interpolation.

    With the usual change over a period added: a growing value has grown meanwhile. At least one
    value is known; `period` counts batches.
    """
    out = values.copy()
    changes = values[period:] - values[:-period]
    changes = changes[~np.isnan(changes)]
    growth = float(np.median(changes)) if changes.size else 0.0
    for position in np.flatnonzero(np.isnan(out)):
        if position >= period:
            out[position] = out[position - period] + growth
    for position in np.flatnonzero(np.isnan(out))[::-1]:
        if position + period < out.size:
            out[position] = out[position + period] - growth
    gaps = np.isnan(out)
    if gaps.any():
        places = np.arange(out.size)
        out[gaps] = np.interp(places[gaps], places[~gaps], out[~gaps])
    return out


@dataclass(frozen=True, slots=True)
class Stl(strategies.LearnedStrategy):
    """Trend of the newest batches, carried on, plus the season of a period before, by STL.

    Decomposition follows the noise of the values that it sees, so its residuals are smaller than
    the errors of what it expects of a value that it has not seen. The spread is the root mean
    square of the residuals times how much larger those errors are for independent noise. At most
    the newest 12 seasons are looked at. `period` counts batches; gaps keep their place.

    Attributes:
        period: length of the season in batches, >= 2.
        robust: whether earlier outliers get less weight (slower).
    """

    period: int = 0
    robust: bool = False
    name: ClassVar[str] = "stl"
    counts_batches: ClassVar[bool] = True
    positional: ClassVar[tuple[str, ...]] = ("period",)
    readers: ClassVar[dict[str, Reader]] = strategies.LearnedStrategy.readers | {
        "period": at_least(2),
        "robust": as_bool,
    }

    @property
    def min_history(self) -> int:
        """Three seasons, for one residual per place in the season to be more than none."""
        return max(strategies.DEFAULT_MIN_HISTORY, _LEAST_SEASONS * self.period)

    @property
    def reach(self) -> int | None:
        """The newest twelve seasons."""
        return _MOST_SEASONS * self.period

    def predict(self, series: strategies.Series) -> strategies.Prediction:
        """Decompose, and carry trend and season on by one batch."""
        given = series.values[-_MOST_SEASONS * self.period :]
        measured = ~np.isnan(given)
        known, least = int(np.count_nonzero(measured)), _LEAST_SEASONS * self.period
        strategies.TooLittleHistoryError.unless(known, least, " (three seasons)")
        values = filled(given, self.period)
        expected, residuals = decompose(values, self.period, self.robust)
        # By whole seasons: it hardly changes within one, and 64 decompositions are dear.
        whole = values.size // self.period * self.period
        errors = residuals[measured] * inflation(whole, self.period)
        # What is left of a series without noise is rounding.
        errors[np.abs(errors) < _ROUNDING * np.abs(values).max()] = 0.0
        spread = float(np.sqrt(np.mean(np.square(errors))))
        basis = f"trend and season of {self.period} batches, over {known} batches"
        # The inflation counts the uncertainty of what is expected.
        return strategies.Prediction(expected, basis, known, (), spread, errors)


def decompose(values: FloatArray, period: int, robust: bool = False) -> tuple[float, FloatArray]:
    """Return what STL lets one expect of the value after the last, and its residuals.

    There are no gaps, and at least two periods. If `robust`, outliers get less weight.
    """
    # Takes a second, which commands that need no STL do not spend.
    from statsmodels.tsa.seasonal import STL

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = STL(values, period=period, robust=robust).fit()
    # The trend goes on as it went in the last season.
    slope = (parts.trend[-1] - parts.trend[-1 - period]) / period
    expected = float(parts.trend[-1] + slope + parts.seasonal[-period])
    return expected, np.asarray(parts.resid, dtype=float)


@lru_cache(maxsize=1024)
def inflation(size: int, period: int) -> float:
    """How much larger than a residual the error of `decompose` on an unseen value is, >= 1.

    For independent noise, estimated from 64 series of it. Exact for no particular series: STL
    without robustness is linear, so the ratio does not depend on trend and season.
    """
    rng = np.random.default_rng(size * 1_000 + period)
    ahead, within = 0.0, 0.0
    for _ in range(_PROBES):
        expected, residuals = decompose(rng.standard_normal(size), period)
        ahead += 1.0 + expected**2
        within += float(np.mean(np.square(residuals)))
    return max(1.0, float(np.sqrt(ahead / within)))

"""The strategy of `@anomaly(metric)` without a name: it finds out what the metric is like.

Season (weekday, weekend, hour, month), trend, memory and scale (differences or ratios) are those
whose forecasts missed the past least, each past value forecast from those before it (see
`dqsql.decisions.forecasts`). The band is as wide as the past misses of that forecast ask for, at a
false-positive rate (see `dqsql.decisions.tails`). A step to a new level is an anomaly for
`relearn_after` batches; then the new level is what is normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dqsql.decisions import strategies
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.forecasts import Chosen, Forecasts, forecast
from dqsql.decisions.magnitudes import is_volume
from dqsql.decisions.seasonal import batches_a_day, seasons_of
from dqsql.model.settings import Reader, at_least
from dqsql.model.wording import plural

_MOST_BATCHES = 730
_CHUNK = 250
_LEAST = 3
# As how many errors of an hour those of all hours count.
_WEIGHT = 8.0
# So many days after a feast is the next one, by its date (in leap years, too) or day of the week.
_YEAR = (364, 365, 366, 371)
# A day with a smaller share of the usual rows was none, but a load that failed.
_LEAST_OF_FEAST = 0.1


@dataclass(frozen=True, slots=True)
class Auto(strategies.LearnedStrategy):
    """Season, trend, memory and scale by back-testing.

    Attributes:
        relearn_after: after so many batches on one side of the band, all about as far, their level
            is the normal one, >= 2.
    """

    relearn_after: int = strategies.DEFAULT_RELEARN_AFTER
    name: ClassVar[str] = "auto"
    counts_batches: ClassVar[bool] = True
    readers: ClassVar[dict[str, Reader]] = strategies.LearnedStrategy.readers | {
        "relearn_after": at_least(2)
    }

    def check(self, series: strategies.Series) -> None:
        """Three values are needed."""
        strategies.TooLittleHistoryError.unless(series.known.size, _LEAST)

    @property
    def reach(self) -> int | None:
        """The newest 730."""
        return _MOST_BATCHES

    def predict(self, series: strategies.Series) -> strategies.Prediction:
        """As `predict_many` for one."""
        self.check(series)
        return self.predict_many([series])[0]

    def predict_many(self, many: Sequence[strategies.Series]) -> list[strategies.Prediction]:
        """Forecast the next value of each series; those of like length together."""
        many = [_newest(series) for series in many]
        predictions: dict[int, strategies.Prediction] = {}
        order = sorted(range(len(many)), key=lambda i: many[i].values.size)
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            for i, one in zip(chunk, self._together([many[i] for i in chunk]), strict=True):
                predictions[i] = one
        return [predictions[i] for i in range(len(many))]

    def _together(self, many: Sequence[strategies.Series]) -> list[strategies.Prediction]:
        length = max(s.values.size for s in many)
        values = np.full((len(many), length), np.nan)
        for row, series in enumerate(many):
            if series.values.size:
                values[row, -series.values.size :] = series.values
        slots = seasons_of(many, length)
        # Changes of either sign have no ratios.
        ratios = np.array([not (self.order or s.new < 0) for s in many])
        forecasts = forecast(values, slots, self.relearn_after, ratios)
        # Bands of a day do not stand for a rate, and were chosen with the errors of all hours.
        by_hour = not self.default_bounds
        return [
            _prediction(forecasts, row, values[row], series, by_hour=by_hour)
            for row, series in enumerate(many)
        ]


def _newest(series: strategies.Series) -> strategies.Series:
    """The series from its 730th newest value on; batches without one, between, do not count."""
    known = np.flatnonzero(~np.isnan(series.values))[-_MOST_BATCHES:]
    start = int(known[0]) if known.size else 0
    times = None if series.times is None else series.times[start:]
    return strategies.Series(series.values[start:], times, series.new, series.time)


def _prediction(
    forecasts: Forecasts, row: int, values: FloatArray, series: strategies.Series, *, by_hour: bool
) -> strategies.Prediction:
    """The forecast of a series; `by_hour` with the errors of its hour, if it counts rows."""
    chosen, ratios = forecasts.chosen, bool(forecasts.ratios[row])
    known = ~np.isnan(chosen.errors[row])
    errors = chosen.errors[row][known]
    year_ago = 0.0, 0.0
    volume = is_volume(series.known, series.new)
    if volume and series.times is not None and series.time is not None:
        times = series.times[known[values.size - series.times.size :]]
        if batches_a_day(series) == 1:
            # Of lone ones `errors` do not tell how far they were off.
            year_ago = _of_a_year_ago(chosen.raw[row][known], values[known], times, series.time)
        elif by_hour:
            errors = _of_the_hour(errors, times, series.time)
    size = int(np.count_nonzero(~np.isnan(values)))
    spread = float(np.sqrt(np.mean(np.square(errors)))) if errors.size else 0.0
    return strategies.Prediction(
        expected=float(np.exp(chosen.expected[row]) if ratios else chosen.expected[row]),
        basis=_basis(chosen, row, size, int(forecasts.steps[row]), ratios),
        size=size,
        spread=spread,
        errors=errors,
        leverage=float(chosen.factor[row] ** 2 - 1),
        ratios=ratios,
        year_ago=year_ago,
    )


def _of_a_year_ago(
    errors: FloatArray, rows: FloatArray, times: strategies.TimeArray, time: np.datetime64
) -> tuple[float, float]:
    """The largest errors below and above of the days of `_YEAR`; each 0 where there is none."""
    days = (time.astype("datetime64[D]") - times.astype("datetime64[D]")).astype(np.int64)
    found = errors[np.isin(days, _YEAR) & (rows > _LEAST_OF_FEAST * np.median(rows))]
    return max(0.0, -float(found.min(initial=0.0))), float(found.max(initial=0.0))


def _of_the_hour(
    errors: FloatArray, times: strategies.TimeArray, time: np.datetime64
) -> FloatArray:
    """Errors as large as they are at one time of day, of batches that come at several.

    Where ten rows come at night and a thousand at noon, a night's share of rows says nothing of
    noon. The size of the errors of an hour is that of its own and of `_WEIGHT` as large as all, and
    two of its standard errors more: of an hour few are known, and a rate is promised.
    """
    hours = times.astype("datetime64[h]").astype(np.int64) % 24
    if not errors.size or np.ptp(hours) == 0:
        return errors
    now = int(time.astype("datetime64[h]").astype(np.int64) % 24)
    squares = np.square(errors)
    counts = np.bincount(hours, minlength=24) + _WEIGHT
    sums = np.bincount(hours, squares, minlength=24) + _WEIGHT * float(squares.mean())
    sizes = np.sqrt(sums / counts)
    here = sizes[now] * (1 + 2 / np.sqrt(2 * counts[now]))
    return np.asarray(errors * here / np.maximum(sizes[hours], 1e-300), dtype=float)


def _basis(chosen: Chosen, row: int, size: int, steps: int, ratios: bool) -> str:
    """In words: what was found."""
    season, (kind, weight) = chosen.base[row], chosen.correction[row]
    parts = [f"season by {season}"] if season else []
    parts += ["trend"] if chosen.trend[row] else []
    if kind == "last" and not parts:
        text = "the value before"
    else:
        text = " and ".join(parts) or "mean"
        if kind == "share":
            text += f", {weight:.0%} of the last miss"
        elif kind == "mean":
            text += f", recent level (weight {weight:g})"
        elif kind == "last":
            text += ", since the last value"
    text += f" of {plural(size, 'batch')}" if text == "mean" else f", {plural(size, 'batch')}"
    text += ", as ratios" if ratios else ""
    if steps:
        text += f", {plural(steps, 'step')} to a new level taken out"
    return text

"""Holt-Winters: level, trend and season by exponential smoothing.

Source: Hyndman & Athanasopoulos, "Forecasting: Principles and Practice", chapter on exponential
smoothing; Deequ's HoltWinters is its additive form. The model is that of
`statsmodels.tsa.holtwinters.ExponentialSmoothing`, which fits it by default. A fit takes it about
half a second for a year of days; `fit => 'fast'` runs the same recurrences for many series at once,
with simple starting states and a search for the smoothing parameters, some 1,000 times faster.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dqsql.decisions import strategies
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.seasonal import filled
from dqsql.errors import DecisionError
from dqsql.model.settings import Reader, as_bool, at_least, one_of

KINDS = ("additive", "multiplicative")
_TRENDS = (*KINDS, "none")
_FITS = ("statsmodels", "fast")
_SHORT = {"add": "additive", "mul": "multiplicative"}
# statsmodels estimates starting states from ten values and two seasons on.
_LEAST = 10
_GRID = tuple(
    (a, b, c) for a in (0.05, 0.2, 0.5, 0.9) for b in (0.001, 0.05, 0.2) for c in (0.01, 0.1, 0.4)
)
_STEPS = ((0.12, 0.05, 0.12), (0.06, 0.03, 0.06), (0.03, 0.015, 0.03), (0.015, 0.008, 0.015))
_ROUNDS = 2
_CHUNK = 2_000
_STARTING_SEASONS = 5
_LOW, _HIGH = 1e-4, 0.9999


def _one_of(*kinds: str) -> Reader:
    """A reader of kinds of components, also by statsmodels' short names."""
    read = one_of(*kinds)
    return lambda value: read(_SHORT.get(str(value), value))


@dataclass(frozen=True, slots=True)
class HoltWinters(strategies.LearnedStrategy):
    """Expected is the forecast one step ahead; the spread is that of the errors one step ahead.

    `period` counts batches; a batch without a value keeps its place and is filled by the value of
    a period before.

    Attributes:
        period: length of the season in batches, >= 2.
        trend: 'additive' (default), 'multiplicative' or 'none'.
        seasonal: 'additive' (default) or 'multiplicative'.
        damped: whether the trend levels off.
        fit: 'statsmodels' (default) or 'fast' (trend additive or none, not damped).
    """

    period: int = 0
    trend: str = "additive"
    seasonal: str = "additive"
    damped: bool = False
    fit: str = "statsmodels"
    name: ClassVar[str] = "holt_winters"
    counts_batches: ClassVar[bool] = True
    positional: ClassVar[tuple[str, ...]] = ("period",)
    readers: ClassVar[dict[str, Reader]] = strategies.LearnedStrategy.readers | {
        "period": at_least(2),
        "trend": _one_of(*_TRENDS),
        "seasonal": _one_of(*KINDS),
        "damped": as_bool,
        "fit": one_of(*_FITS),
    }

    def __post_init__(self) -> None:
        strategies.LearnedStrategy.__post_init__(self)
        if self.damped and self.trend == "none":
            raise DecisionError(f"{self.name}: there is no trend to damp")
        if self.fit == "fast" and (self.damped or self.trend == "multiplicative"):
            raise DecisionError(
                f"{self.name}: fit 'fast' has no damped and no multiplicative trend",
                hint="leave fit out: statsmodels fits it",
            )

    @property
    def min_history(self) -> int:
        """Two seasons, at least ten values."""
        return max(_LEAST, 2 * self.period)

    def predict(self, series: strategies.Series) -> strategies.Prediction:
        """Fit and forecast one step."""
        return self.predict_many([series])[0]

    def predict_many(self, many: Sequence[strategies.Series]) -> list[strategies.Prediction]:
        """As `predict` for many series; `fast` fits those of equal length together.

        Raises:
            TooLittleHistoryError: one of the histories is too short.
            Undecidable: one of them cannot be modelled.
        """
        for series in many:
            self.check(series)
        values = [self._filled(series) for series in many]
        if self.fit != "fast":
            fitted = (self._by_statsmodels(v) for v in values)
            return [self._prediction(s, *fit) for s, fit in zip(many, fitted, strict=True)]
        predictions: dict[int, strategies.Prediction] = {}
        lengths = np.array([v.size for v in values])
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            for start in range(0, rows.size, _CHUNK):
                chunk = rows[start : start + _CHUNK]
                expected, errors = self.fast(np.stack([values[i] for i in chunk]))
                for i, forecast, error in zip(chunk, expected, errors, strict=True):
                    predictions[i] = self._prediction(many[i], float(forecast), error)
        return [predictions[i] for i in range(len(many))]

    def check(self, series: strategies.Series) -> None:
        """Two seasons are needed, and values above 0 for factors."""
        known = series.known
        strategies.TooLittleHistoryError.unless(known.size, self.min_history, " (two seasons)")
        if self._by_factors and known.min() <= 0:
            raise strategies.Undecidable(
                "multiplicative Holt-Winters needs values above 0, the least in the history is"
                f" {known.min():g}"
            )

    @property
    def _by_factors(self) -> bool:
        return "multiplicative" in (self.trend, self.seasonal)

    def _filled(self, series: strategies.Series) -> FloatArray:
        if self._by_factors:
            # A sum might be below 0.
            by_factors = np.exp(filled(np.log(series.values), self.period))
            return np.where(np.isnan(series.values), by_factors, series.values)
        return filled(series.values, self.period)

    def _prediction(
        self, series: strategies.Series, forecast: float, errors: FloatArray
    ) -> strategies.Prediction:
        errors = errors[~np.isnan(series.values)]
        # Starting states and smoothing parameters were fitted to the same errors.
        fitted = self.period + (3 if self.trend == "none" else 5) - 1
        left = max(errors.size - fitted, 1)
        spread = float(np.sqrt(np.dot(errors, errors) / left))
        size = int(errors.size)
        basis = f"Holt-Winters forecast, season of {self.period} batches, over {size} batches"
        # How uncertain both are is taken to be as if each place in the season had a mean, and all a
        # trend: simulations of tests/decisions bear it out.
        own = errors * math.sqrt(size / left)
        return strategies.Prediction(forecast, basis, size, (), spread, own, self.period / size)

    def _by_statsmodels(self, values: FloatArray) -> tuple[float, FloatArray]:
        if np.ptp(values) == 0:
            # Nothing to fit; the optimiser would divide by zero.
            return float(values[0]), np.zeros(values.size)
        # Imported for the strategies that need it; see `seasonal`.
        from statsmodels.tsa.holtwinters import ExponentialSmoothing

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # Whether the optimiser converged is of no interest: its errors say how good it is.
            warnings.simplefilter("ignore")
            model = ExponentialSmoothing(
                values,
                trend=None if self.trend == "none" else self.trend,
                seasonal=self.seasonal,
                damped_trend=self.damped,
                seasonal_periods=self.period,
            )
            fitted = model.fit()
            forecast = float(fitted.forecast(1)[0])
        errors = np.asarray(fitted.resid, dtype=float)
        if not np.isfinite(forecast) or not np.isfinite(errors).all():
            raise strategies.Undecidable("Holt-Winters could not be fitted to the history")
        return forecast, errors

    def fast(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fit S series of T finite values: forecasts (S) and errors (S x T) one step ahead."""
        y = np.ascontiguousarray(values.T)
        grid = np.array(_GRID).T[:, :, None]
        best, least = self._best(y, np.broadcast_to(grid, (3, len(_GRID), y.shape[1])))
        for steps in _STEPS:
            for _ in range(_ROUNDS):
                trial = np.repeat(best[:, None, :], 6, axis=1)
                for axis, step in enumerate(steps):
                    trial[axis, 2 * axis] += step
                    trial[axis, 2 * axis + 1] -= step
                np.clip(trial, _LOW, _HIGH, out=trial)
                parameters, sse = self._best(y, trial)
                better = sse < least
                best = np.where(better, parameters, best)
                least = np.where(better, sse, least)
        forecast, errors, _ = self.smooth(y, best[:, None, :], keep=True)
        return forecast[0], errors[:, 0].T

    def _best(self, y: FloatArray, trial: FloatArray) -> tuple[FloatArray, FloatArray]:
        sse = self.smooth(y, trial)[2]
        pick = np.argmin(np.where(np.isfinite(sse), sse, np.inf), axis=0)
        columns = np.arange(y.shape[1])
        return trial[:, pick, columns], sse[pick, columns]

    def starting_states(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Level, trend and season before the first value, of T x S values.

        A line through the means of the first seasons (at most five), and for each place in the
        season the mean of what is above it.
        """
        m, cycles = self.period, min(_STARTING_SEASONS, len(y) // self.period)
        first = y[: cycles * m].reshape(cycles, m, -1)
        means = first.mean(axis=1)
        slope = np.zeros(y.shape[1])
        if self.trend != "none":
            slope = (means[-1] - means[0]) / (m * (cycles - 1))
        places = np.arange(cycles * m).reshape(cycles, m, 1) - (cycles * m - 1) / 2
        line = means.mean(axis=0) + slope * places
        above = first / line if self.seasonal == "multiplicative" else first - line
        return line[0, 0] - slope, slope, above.mean(axis=0)

    def smooth(
        self, y: FloatArray, parameters: FloatArray, keep: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Run the recurrences.

        Args:
            y: T x S values.
            parameters: 3 x C x S smoothing parameters of level, trend and season.
            keep: whether to return the errors.

        Returns:
            Forecasts after the last value (C x S), errors (T x C x S, empty unless kept), sums of
            squared errors (C x S).
        """
        alpha, beta, gamma = parameters
        level0, slope0, season0 = self.starting_states(y)
        shape = alpha.shape
        level, slope = np.broadcast_to(level0, shape), np.broadcast_to(slope0, shape)
        season = [np.broadcast_to(s, shape) for s in season0]
        times = self.seasonal == "multiplicative"
        errors = np.empty((len(y) if keep else 0, *shape))
        sse = np.zeros(shape)
        with np.errstate(all="ignore"):
            for t, value in enumerate(y):
                place = t % self.period
                base, old = level + slope, season[place]
                error = value - (base * old if times else base + old)
                sse += error * error
                if keep:
                    errors[t] = error
                # In error form: l = base + alpha e, s = old + gamma e; b follows the level.
                gain = alpha * (error / old if times else error)
                season[place] = old + gamma * (error / base if times else error)
                level = base + gain
                if self.trend != "none":
                    slope = slope + beta * gain
            base, old = level + slope, season[len(y) % self.period]
        return (base * old if times else base + old), errors, sse

"""Anomalies: whether the newest value of a metric is one that its history lets one expect.

`strategy(name, ..)` makes a strategy of the parameters that a person wrote; `evaluate` decides on
one value, `evaluate_many` on many. The value under test is never in its own history. Pure functions
of arrays. See `dqsql.decisions.strategies` for the strategies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from dqsql.decisions import strategies_limits
from dqsql.decisions.anomaly_bands import Band, bands_of, distance
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.bounds import EQUALITY_TOLERANCE, score
from dqsql.decisions.magnitudes import finite, usable
from dqsql.decisions.seasonal import DayOfWeek, HourOfDay, HourOfWeek, Month, Stl
from dqsql.decisions.strategies import (
    BatchNormal,
    LearnedStrategy,
    Limits,
    OnlineNormal,
    Prediction,
    Series,
    Strategy,
    TimeArray,
    TooLittleHistoryError,
    Undecidable,
    parameter_names,
    reach_of,
)
from dqsql.decisions.strategies_auto import Auto
from dqsql.decisions.strategies_holt_winters import HoltWinters
from dqsql.decisions.strategies_models import model_strategy, models
from dqsql.decisions.strategies_parameters import bind
from dqsql.errors import DecisionError, nearest
from dqsql.model.wording import number_text, range_words

_T = TypeVar("_T")
Status = Literal["ok", "anomalous", "too_little_history", "no_value", "excluded", "undecidable"]

_NAN = "NaN, no number: some values are NaN or infinite, or there is nothing to divide by"

STRATEGIES: Mapping[str, type[Strategy]] = {
    kind.name: kind
    for kind in (
        Auto,
        strategies_limits.Threshold,
        strategies_limits.AbsoluteChange,
        strategies_limits.RateOfChange,
        strategies_limits.RelativeRateOfChange,
        OnlineNormal,
        BatchNormal,
        HoltWinters,
        DayOfWeek,
        HourOfDay,
        HourOfWeek,
        Month,
        Stl,
    )
}


@dataclass(frozen=True, slots=True)
class AnomalyInput:
    """A value to decide on, and the history before it.

    Attributes:
        values: metrics of accepted batches, oldest first, without the one under test; None or NaN
            where nothing was measured.
        times: their times (datetime, date, datetime64 or ISO text); None if batches have none.
        value: the metric of the batch under test.
        time: its time.
        exclude: per past batch, whether `exclude_where` holds for it; None for nowhere.
        excluded: whether it holds for the batch under test.
        absent: per past batch, whether it is no accepted one, so that its value is left out and it
            does not count in a window, but keeps its place for a strategy that counts batches;
            None for nowhere.
        is_nan: whether NaN was measured on the batch under test, which good batches do not have.
    """

    values: npt.ArrayLike | Sequence[float | None]
    times: npt.ArrayLike | Sequence[datetime] | None
    value: float | None
    time: Any = None
    exclude: npt.ArrayLike | None = None
    excluded: bool = False
    absent: npt.ArrayLike | None = None
    is_nan: bool = False


@dataclass(frozen=True, slots=True)
class AnomalyDecision:
    """What is said of one value.

    Attributes:
        status: ok, anomalous, too_little_history, no_value (nothing measured), excluded (by
            `exclude_where`), or undecidable (the strategy cannot model this history).
        severity: of an anomaly: 'warn' or 'error' if the strategy has bounds for either, else None
            for the annotation's own.
        value: the value decided on; NaN if none.
        expected: what was expected; NaN if the strategy expects nothing in particular.
        lower: least value that is fine; -inf for none; NaN if undecided.
        upper: largest value that is fine; inf for none.
        error_lower: as `lower` for an error, where a strategy has two pairs of bounds; else None.
        error_upper: as `upper` for an error.
        deviations: signed distance from the expected value in spreads; None without a spread.
        score: distance from the expected value (or, without one, from the middle of two limits) /
            that of the nearest bound on its side; above 1 is anomalous; None if there is none.
        p_value: probability of a value at least as far away in a good batch, in the direction
            looked at (see `dqsql.decisions.tails`); None for fixed limits.
        history_size: number of past values that the decision rests on.
        explanation: in words.
    """

    status: Status
    severity: str | None
    value: float
    expected: float
    lower: float
    upper: float
    error_lower: float | None
    error_upper: float | None
    deviations: float | None
    score: float | None
    p_value: float | None
    history_size: int
    explanation: str

    @property
    def anomalous(self) -> bool:
        """Whether it is a finding."""
        return self.status == "anomalous"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form; NaN and infinities are None."""
        return {name: finite(getattr(self, name)) for name in self.__slots__}


def strategy(name: str, *positional: object, **named: object) -> Strategy:
    """A strategy by its name and parameters, as in `holt_winters(period => 7)`.

    Raises:
        DecisionError: no such strategy, or a parameter that does not exist or is out of range.
    """
    kind = STRATEGIES.get(name.lower())
    if kind is None:
        model = model_strategy(name, positional, named)
        if model is not None:
            return model
        known = [*STRATEGIES, *models()]
        raise DecisionError(
            f"no anomaly strategy is called {name!r}",
            hint=nearest(name, known) or f"one of {', '.join(known)}",
        )
    given = bind(
        kind.name,
        parameter_names(kind),
        positional,
        named,
        kind.aliases,
        by_position=len(kind.positional),
    )
    return kind(**given)


def evaluate_many(
    chosen: Strategy, inputs: Iterable[AnomalyInput], settings: AnomalySettings | None = None
) -> list[AnomalyDecision]:
    """Decide on many values by one strategy, in the order given.

    `auto` forecasts all together, and Holt-Winters with `fit => 'fast'` those of one length.

    Raises:
        DecisionError: arrays that do not fit.
    """
    settings = settings or AnomalySettings()
    decided: list[AnomalyDecision | None] = []
    waiting: list[tuple[int, Series]] = []
    for position, given in enumerate(inputs):
        series = _series(given, settings, closed=_closes_gaps(chosen))
        decision = _before_predicting(chosen, given, series, settings)
        decided.append(decision)
        if decision is None:
            waiting.append((position, series))
    predictions = _predict(chosen, [series for _, series in waiting])
    bands = _bands(chosen, [series for _, series in waiting], predictions, settings)
    for (position, series), prediction, band in zip(waiting, predictions, bands, strict=True):
        if isinstance(prediction, Prediction):
            decided[position] = _decide(chosen, series, prediction, band, settings)
        else:
            late = isinstance(prediction, TooLittleHistoryError)
            status: Status = "too_little_history" if late else "undecidable"
            decided[position] = _undecided(status, str(prediction), series)
    return [d for d in decided if d is not None]


def _predict(chosen: Strategy, many: Sequence[Series]) -> list[Prediction | Exception]:
    together = isinstance(chosen, Auto) or (
        isinstance(chosen, HoltWinters) and chosen.fit == "fast"
    )
    if together and len(many) > 1 and not chosen.order:  # type: ignore[attr-defined]
        return _predict_together(chosen, many)  # type: ignore[arg-type]
    predict = chosen.predict
    if isinstance(chosen, LearnedStrategy):
        predict = chosen.predict_differenced
    return [_outcome(predict, series) for series in many]


def _outcome(ask: Callable[[Series], _T], series: Series) -> _T | Exception:
    try:
        return ask(series)
    except (TooLittleHistoryError, Undecidable) as reason:
        return reason


def _predict_together(
    chosen: Auto | HoltWinters, many: Sequence[Series]
) -> list[Prediction | Exception]:
    """All that can be modelled in one call, the others with their reasons."""
    reasons = [_outcome(chosen.check, series) for series in many]
    able = [s for s, reason in zip(many, reasons, strict=True) if reason is None]
    predictions = iter(chosen.predict_many(able))
    return [next(predictions) if reason is None else reason for reason in reasons]


# --- input -------------------------------------------------------------------------------------


def _closes_gaps(chosen: Strategy) -> bool:
    """Whether excluded batches take no place: changes, where no season counts batches."""
    by_changes = isinstance(chosen, LearnedStrategy) and chosen.order > 0
    return by_changes and not isinstance(chosen, HoltWinters | Stl)


def _series(given: AnomalyInput, settings: AnomalySettings, *, closed: bool) -> Series:
    values = np.array(given.values, dtype=float, ndmin=1)
    if values.ndim != 1:
        raise DecisionError(f"a history is a list of numbers, not of shape {values.shape}")
    # An infinite metric has no place in a mean; what it says it said on its own day.
    values[~usable(values)] = np.nan
    times = None if given.times is None else _times(given.times)
    if times is not None and times.shape != values.shape:
        raise DecisionError(f"{values.size} values need as many times, not {times.size}")
    absent, excluded = (_marks(m, values.size) for m in (given.absent, given.exclude))
    values[absent | excluded] = np.nan
    taken = ~excluded if closed else np.ones(values.size, dtype=bool)
    if settings.window is not None:
        counted = np.flatnonzero(~absent)[-settings.window :]
        taken &= np.arange(values.size) >= (counted[0] if counted.size else values.size)
    values, times = values[taken], None if times is None else times[taken]
    new = math.nan if given.value is None else float(given.value)
    time = None if given.time is None else _times([given.time])[0]
    return Series(values, times, new, time)


def _marks(given: npt.ArrayLike | None, size: int) -> npt.NDArray[np.bool_]:
    if given is None:
        return np.zeros(size, dtype=bool)
    marks = np.asarray(given, dtype=bool)
    if marks.shape != (size,):
        raise DecisionError(f"{size} values need as many marks, not {marks.size}")
    return marks


def _times(times: npt.ArrayLike | Sequence[Any]) -> TimeArray:
    """Local wall-clock times: what the clock on the wall of their own time zone showed."""
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return times.astype("datetime64[us]", copy=False)
    plain = [
        t.replace(tzinfo=None) if isinstance(t, datetime) and t.tzinfo is not None else t
        for t in np.asarray(times, dtype=object).ravel()
    ]
    try:
        return np.array(plain, dtype="datetime64[us]")
    except (ValueError, TypeError) as error:
        raise DecisionError(f"not all batches have a time: {error}") from error


def _before_predicting(
    chosen: Strategy, given: AnomalyInput, series: Series, settings: AnomalySettings
) -> AnomalyDecision | None:
    """The decision where none has to be predicted."""
    least = chosen.min_history if settings.min_history is None else settings.min_history
    known = int(np.count_nonzero(~np.isnan(series.values)))
    if given.excluded:
        return _undecided("excluded", "left out by exclude_where", series)
    if given.is_nan and known >= least:
        return _undecided("anomalous", _NAN, series)
    if math.isnan(series.new):
        return _undecided("no_value", "nothing was measured", series)
    if known < least:
        why = f"{known} earlier values, {least} are needed"
        return _undecided("too_little_history", why, series)
    return None


def _undecided(status: Status, why: str, series: Series) -> AnomalyDecision:
    nan = math.nan
    size = int(np.count_nonzero(~np.isnan(series.values)))
    return AnomalyDecision(
        status, None, series.new, nan, nan, nan, None, None, None, None, None, size, why
    )


# --- the verdict -------------------------------------------------------------------------------


def _decide(
    chosen: Strategy,
    series: Series,
    prediction: Prediction,
    band: Band | None,
    settings: AnomalySettings,
) -> AnomalyDecision:
    learned = chosen if isinstance(chosen, LearnedStrategy) and not prediction.limits else None
    limits = prediction.limits if learned is None else _learned_limits(learned, prediction, band)
    value = series.new
    limits = tuple(_adjusted(limit, prediction.expected, settings) for limit in limits)
    limits = tuple(_reached(limit, value, prediction.expected) for limit in limits)
    broken = [limit for limit in limits if not limit.lower <= value <= limit.upper]
    narrow, wide = limits[0], limits[-1]
    two = len(limits) > 1
    deviations = _deviations(value, prediction) if learned is not None else None
    decision = AnomalyDecision(
        status="anomalous" if broken else "ok",
        severity=broken[-1].severity if broken else None,
        value=value,
        expected=prediction.expected,
        lower=narrow.lower,
        upper=narrow.upper,
        error_lower=wide.lower if two else None,
        error_upper=wide.upper if two else None,
        deviations=deviations,
        score=_score(value, prediction.expected, narrow),
        p_value=None if band is None else band.p_value,
        history_size=prediction.size,
        explanation="",
    )
    basis = prediction.basis
    if band is not None and band.as_a_year_ago:
        basis += ", and the same days a year ago"
    return replace(decision, explanation=explain(decision, basis))


def _learned_limits(
    chosen: LearnedStrategy, prediction: Prediction, band: Band | None
) -> tuple[Limits, ...]:
    expected, spread = prediction.expected, prediction.spread
    slack = EQUALITY_TOLERANCE * abs(expected)
    # A history without spread is taken as it is, but for rounding, if a strategy is named.
    constant = chosen.default_bounds and not isinstance(chosen, Auto) and spread <= slack
    # What was left out of it has shown that it is none.
    constant = constant and bool((np.abs(prediction.errors) <= slack).all())
    if chosen.rate is not None and band is not None and not constant:
        return (Limits(band.lower, band.upper),)

    def moved(by: float) -> float:
        if not prediction.ratios:
            return expected + by
        return float(np.exp(np.log(expected) + by))

    return tuple(
        Limits(
            min(moved(-reach_of(low, spread)), expected - slack),
            max(moved(reach_of(high, spread)), expected + slack),
            severity,
        )
        for low, high, severity in chosen.widths()
    )


def _adjusted(limit: Limits, expected: float, settings: AnomalySettings) -> Limits:
    """Apply `ignore_small_changes` and `direction`."""
    lower, upper = limit.lower, limit.upper
    if math.isfinite(expected):
        small = settings.small_change(expected)
        # Fixed limits may leave the expected value out: `absolute_change(lower => 1)`.
        if small > 0:
            lower, upper = min(lower, expected - small), max(upper, expected + small)
    if settings.direction == "spike":
        lower = -math.inf
    if settings.direction == "drop":
        upper = math.inf
    return Limits(lower, upper, limit.severity)


def _reached(limit: Limits, value: float, expected: float) -> Limits:
    """Limits that are the value where rounding alone puts it beyond: 0.7 + 0.1 is below 0.8."""
    if not math.isfinite(value):
        return limit
    slack = EQUALITY_TOLERANCE * max(abs(value), abs(expected) if math.isfinite(expected) else 0.0)
    lower, upper = limit.lower, limit.upper
    lower = value if 0 < lower - value <= slack else lower
    upper = value if 0 < value - upper <= slack else upper
    return Limits(lower, upper, limit.severity)


def _deviations(value: float, prediction: Prediction) -> float:
    delta = distance(value, prediction)
    if abs(value - prediction.expected) <= EQUALITY_TOLERANCE * abs(prediction.expected):
        return 0.0
    return delta / prediction.spread if prediction.spread > 0 else math.copysign(math.inf, delta)


def _score(value: float, expected: float, limit: Limits) -> float | None:
    if math.isnan(expected):
        expected = (limit.lower + limit.upper) / 2
    if not math.isfinite(expected):
        return None
    if not limit.lower <= expected <= limit.upper:
        nearest = limit.lower if expected < limit.lower else limit.upper
        beyond = max(limit.lower - value, value - limit.upper, 0.0)
        return 1.0 + beyond / abs(nearest - expected) if beyond else 0.0
    return score(value, expected, limit.lower, limit.upper)


def _bands(
    chosen: Strategy,
    many: Sequence[Series],
    outcomes: Sequence[Prediction | Exception],
    settings: AnomalySettings,
) -> list[Band | None]:
    """The bands of those predictions that are learned."""
    places = [i for i, p in enumerate(outcomes) if isinstance(p, Prediction) and p.errors.size > 1]
    bands: list[Band | None] = [None] * len(outcomes)
    if not isinstance(chosen, LearnedStrategy) or not places:
        return bands
    rate = chosen.default_rate if chosen.rate is None else chosen.rate
    predictions = [p for i in places if isinstance(p := outcomes[i], Prediction)]
    histories = [many[i] for i in places]
    by_day = isinstance(chosen, Auto) and chosen.default_bounds and not chosen.order
    found_bands = bands_of(predictions, histories, rate, settings, by_day)
    for i, band in zip(places, found_bands, strict=True):
        bands[i] = band
    return bands


def explain(decision: AnomalyDecision, basis: str) -> str:
    """One line: the value, how far off it is from what, and what would have been fine."""
    sides = decision.lower, decision.upper
    apart = [decision.upper - decision.lower, *(abs(decision.value - side) for side in sides)]
    apart = [size for size in apart if 0 < size < math.inf]

    def told(value: float) -> str:
        return number_text(value, min(apart, default=None))

    seen = told(decision.value)
    bounds = range_words(decision.lower, decision.upper, told, "only {}")
    allowed = f"allowed {bounds or 'anything'}"
    if math.isnan(decision.expected):
        return f"{seen}, {allowed}"
    expected = f"{told(decision.expected)} ({basis})"
    delta = decision.value - decision.expected
    inside = decision.lower <= decision.value <= decision.upper
    if inside:
        return f"{seen}, expected {expected}, {allowed}"
    if not decision.lower <= decision.expected <= decision.upper:
        side = "low" if decision.value < decision.lower else "high"
        return f"{seen} is too {side}, compared with {expected}, {allowed}"
    side = "above" if delta > 0 else "below"
    off = decision.deviations
    if off is None or math.isinf(off):
        return f"{seen} is {side} the expected {expected}, {allowed}"
    return f"{seen} is {abs(off):.1f} standard deviations {side} the expected {expected}, {allowed}"

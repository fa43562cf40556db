"""Anomalies: whether the newest value of a metric is one that its history lets one expect.

`strategy(name, ..)` makes a strategy of the parameters that a person wrote; `evaluate` decides on
one value, `evaluate_many` on many. The value under test is never in its own history. Pure functions
of arrays. See `dqsql.decisions.strategies` for the strategies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from dqsql.decisions import bounds as fpr_bounds
from dqsql.decisions import strategies_parameters as check
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.anomaly_words import explain
from dqsql.decisions.magnitudes import usable
from dqsql.decisions.seasonal import DayOfWeek, HourOfDay, HourOfWeek, Month, Stl
from dqsql.decisions.strategies import (
    BatchNormal,
    FloatArray,
    Learned,
    Limits,
    OnlineNormal,
    Prediction,
    Series,
    Strategy,
    TimeArray,
    TooLittleHistoryError,
    Undecidable,
    default_width,
    parameter_names,
)
from dqsql.decisions.strategies_holt_winters import HoltWinters
from dqsql.decisions.strategies_limits import (
    AbsoluteChange,
    RateOfChange,
    RelativeRateOfChange,
    Threshold,
)
from dqsql.errors import DecisionError, nearest

Status = Literal["ok", "anomalous", "too_little_history", "no_value", "excluded", "undecidable"]

STRATEGIES: Mapping[str, type[Strategy]] = {
    kind.name: kind
    for kind in (
        Threshold,
        AbsoluteChange,
        RateOfChange,
        RelativeRateOfChange,
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
    """

    values: npt.ArrayLike | Sequence[float | None]
    times: npt.ArrayLike | Sequence[datetime] | None
    value: float | None
    time: Any = None
    exclude: npt.ArrayLike | None = None
    excluded: bool = False
    absent: npt.ArrayLike | None = None


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
        p_value: calibrated probability of a value at least as far away in a good batch, in the
            direction looked at (see `dqsql.decisions.bounds`); None for fixed limits.
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
        data = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: None if isinstance(v, float) and not math.isfinite(v) else v
            for name, v in data.items()
        }


def strategy(name: str, *positional: object, **named: object) -> Strategy:
    """A strategy by its name and parameters, as in `holt_winters(period => 7)`.

    Raises:
        DecisionError: no such strategy, or a parameter that does not exist or is out of range.
    """
    kind = STRATEGIES.get(name.lower())
    if kind is None:
        raise DecisionError(
            f"no anomaly strategy is called {name!r}",
            hint=nearest(name, STRATEGIES) or f"there are {', '.join(STRATEGIES)}",
        )
    given = check.bind(
        kind.name,
        parameter_names(kind),
        positional,
        named,
        kind.aliases,
        by_position=len(kind.positional),
    )
    return kind(**given)


def evaluate(
    chosen: Strategy,
    history_values: npt.ArrayLike | Sequence[float | None],
    history_times: npt.ArrayLike | Sequence[datetime] | None,
    value: float | None,
    time: Any = None,
    *,
    settings: AnomalySettings | None = None,
    exclude: npt.ArrayLike | None = None,
    excluded: bool = False,
) -> AnomalyDecision:
    """Decide on one value; see `AnomalyInput` for the arguments.

    Raises:
        DecisionError: arrays that do not fit.
    """
    given = AnomalyInput(history_values, history_times, value, time, exclude, excluded)
    return evaluate_many(chosen, [given], settings)[0]


def evaluate_many(
    chosen: Strategy, inputs: Iterable[AnomalyInput], settings: AnomalySettings | None = None
) -> list[AnomalyDecision]:
    """Decide on many values by one strategy, in the order given; as `evaluate` for each.

    Holt-Winters with `fit => 'fast'` fits all histories of one length together.

    Raises:
        DecisionError: arrays that do not fit.
    """
    settings = settings or AnomalySettings()
    decided: list[AnomalyDecision | None] = []
    waiting: list[tuple[int, Series]] = []
    for position, given in enumerate(inputs):
        series = _series(given, settings)
        decision = _before_predicting(chosen, given, series, settings)
        decided.append(decision)
        if decision is None:
            waiting.append((position, series))
    predictions = _predict(chosen, [series for _, series in waiting])
    for (position, series), found in zip(waiting, predictions, strict=True):
        if isinstance(found, Prediction):
            decided[position] = _decide(chosen, series, found, settings)
        else:
            late = isinstance(found, TooLittleHistoryError)
            status: Status = "too_little_history" if late else "undecidable"
            decided[position] = _undecided(status, str(found), series)
    return [d for d in decided if d is not None]


def _predict(chosen: Strategy, many: Sequence[Series]) -> list[Prediction | Exception]:
    if isinstance(chosen, HoltWinters) and chosen.fit == "fast" and len(many) > 1:
        return _predict_together(chosen, many)
    return [_predict_one(chosen, series) for series in many]


def _predict_one(chosen: Strategy, series: Series) -> Prediction | Exception:
    try:
        return chosen.predict(series)
    except (TooLittleHistoryError, Undecidable) as reason:
        return reason


def _predict_together(chosen: HoltWinters, many: Sequence[Series]) -> list[Prediction | Exception]:
    """All that can be modelled in one call, the others with their reasons."""
    reasons: list[Prediction | Exception | None] = [chosen.obstacle(series) for series in many]
    good = [i for i, reason in enumerate(reasons) if reason is None]
    for i, prediction in zip(good, chosen.predict_many([many[i] for i in good]), strict=True):
        reasons[i] = prediction
    return [r for r in reasons if r is not None]


# --- input -------------------------------------------------------------------------------------


def _series(given: AnomalyInput, settings: AnomalySettings) -> Series:
    values = np.array(given.values, dtype=float, ndmin=1)
    if values.ndim != 1:
        raise DecisionError(f"a history is a list of numbers, not of shape {values.shape}")
    # An infinite metric has no place in a mean; what it says it said on its own day.
    values[~usable(values)] = np.nan
    times = None if given.times is None else _times(given.times)
    if times is not None and times.shape != values.shape:
        raise DecisionError(f"{values.size} values need as many times, not {times.size}")
    absent = _marks(given.absent, values.size)
    values[absent | _marks(given.exclude, values.size)] = np.nan
    if settings.window is not None:
        counted = np.flatnonzero(~absent)[-settings.window :]
        start = counted[0] if counted.size else values.size
        values = values[start:]
        times = None if times is None else times[start:]
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
    if math.isnan(series.new):
        return _undecided("no_value", "nothing was measured", series)
    if given.excluded:
        return _undecided("excluded", "left out by exclude_where", series)
    least = chosen.min_history if settings.min_history is None else settings.min_history
    known = int(np.count_nonzero(~np.isnan(series.values)))
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
    chosen: Strategy, series: Series, found: Prediction, settings: AnomalySettings
) -> AnomalyDecision:
    learned = isinstance(chosen, Learned)
    limits = _learned_limits(chosen, series, found, settings) if learned else found.limits  # type: ignore[arg-type]
    limits = tuple(_adjusted(limit, found.expected, settings) for limit in limits)
    value = series.new
    broken = [limit for limit in limits if not limit.lower <= value <= limit.upper]
    narrow, wide = limits[0], limits[-1]
    two = len(limits) > 1
    deviations = _deviations(value, found) if learned else None
    decision = AnomalyDecision(
        status="anomalous" if broken else "ok",
        severity=broken[-1].severity if broken else None,
        value=value,
        expected=found.expected,
        lower=narrow.lower,
        upper=narrow.upper,
        error_lower=wide.lower if two else None,
        error_upper=wide.upper if two else None,
        deviations=deviations,
        score=_score(value, found.expected, narrow),
        p_value=_p_value(series, found, settings) if learned else None,
        history_size=found.size,
        explanation="",
    )
    return replace(decision, explanation=explain(decision, found.basis))


def _learned_limits(
    chosen: Learned, series: Series, found: Prediction, settings: AnomalySettings
) -> tuple[Limits, ...]:
    expected, spread = found.expected, found.spread
    if chosen.fpr is not None:
        low, high = _reach_of_rate(chosen.fpr, series, found, settings)
        return (Limits(expected - low, expected + high),)
    # A history without spread is taken as it is, but for rounding.
    slack = fpr_bounds.EQUALITY_TOLERANCE * abs(expected)
    widths = chosen.widths()
    if chosen.default_bounds:
        width = default_width(found.degrees, found.leverage)
        widths = [(width, width, None)]
    return tuple(
        Limits(
            expected - max(_reach(low, spread), slack),
            expected + max(_reach(high, spread), slack),
            severity,
        )
        for low, high, severity in widths
    )


def _reach(width: float, spread: float) -> float:
    return math.inf if math.isinf(width) else width * spread


def _adjusted(limit: Limits, expected: float, settings: AnomalySettings) -> Limits:
    """Apply `ignore_small_changes` and `direction`."""
    lower, upper = limit.lower, limit.upper
    if math.isfinite(expected):
        small = settings.small_change(expected)
        lower, upper = min(lower, expected - small), max(upper, expected + small)
    if settings.direction == "spike":
        lower = -math.inf
    if settings.direction == "drop":
        upper = math.inf
    return Limits(lower, upper, limit.severity)


def _deviations(value: float, found: Prediction) -> float:
    delta = value - found.expected
    if abs(delta) <= fpr_bounds.EQUALITY_TOLERANCE * abs(found.expected):
        return 0.0
    return delta / found.spread if found.spread > 0 else math.copysign(math.inf, delta)


def _score(value: float, expected: float, limit: Limits) -> float | None:
    if math.isnan(expected):
        expected = (limit.lower + limit.upper) / 2
    if not math.isfinite(expected):
        return None
    bound = limit.upper if value >= expected else limit.lower
    width, distance = abs(bound - expected), abs(value - expected)
    if distance == 0.0 or math.isinf(width):
        return 0.0
    return distance / width if width > 0 else math.inf


# --- calibrated rates --------------------------------------------------------------------------


def _resolved_spread(series: Series, found: Prediction) -> float:
    """The spread plus a resolution of 1 % of the metric's level; a constant is a sample fact."""
    level = float(np.median(np.abs(series.known))) if series.known.size else 0.0
    floor = max(fpr_bounds.RELATIVE_RESOLUTION * level, fpr_bounds.EQUALITY_TOLERANCE)
    return math.hypot(found.spread, floor)


def _leverage(found: Prediction) -> float:
    """How uncertain the expected value is: at least as the mean of all values."""
    return max(found.leverage, 1 / max(found.errors.size, 2))


def _sides(settings: AnomalySettings) -> int:
    return 2 if settings.direction == "both" else 1


def _reach_of_rate(
    fpr: float, series: Series, found: Prediction, settings: AnomalySettings
) -> tuple[float, float]:
    """How far the bounds below and above are away for a false-positive rate."""
    spread, size = _resolved_spread(series, found), max(found.errors.size, 2)
    rate = fpr / _sides(settings)
    dof = fpr_bounds.tail_dof(size)
    width = spread * math.sqrt(1 + _leverage(found)) * float(special.stdtrit(dof, 1 - rate))
    if rate >= 1 / (size + 1):
        return width, width
    # No threshold inside the range that was seen can promise so small a rate.
    low, high = _extremes(found.errors)
    return max(width, low), max(width, high)


def _p_value(series: Series, found: Prediction, settings: AnomalySettings) -> float:
    delta = series.new - found.expected
    if (settings.direction == "spike" and delta < 0) or (
        settings.direction == "drop" and delta > 0
    ):
        return 1.0
    if math.isinf(delta):
        return 0.0
    spread, size = _resolved_spread(series, found), max(found.errors.size, 2)
    low, high = _extremes(found.errors)
    extreme = (high if delta > 0 else low) / spread
    # The rate counts the uncertainty of a mean of all errors already.
    width = abs(delta) / spread * math.sqrt((1 + 1 / size) / (1 + _leverage(found)))
    rate = float(fpr_bounds.calibrated_fpr(width, size, extreme)) if width > 0 else 0.5
    return min(1.0, rate * _sides(settings))


def _extremes(errors: FloatArray) -> tuple[float, float]:
    if not errors.size:
        return 0.0, 0.0
    return max(0.0, -float(errors.min())), max(0.0, float(errors.max()))

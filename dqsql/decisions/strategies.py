"""Strategies of `@anomaly`: from the history of a metric, what its next value is expected to be.

A strategy is a frozen object made of checked parameters; `predict` returns a `Prediction`, and
`dqsql.decisions.anomaly` makes a decision of it. Two families:

- Strategies with fixed limits (`dqsql.decisions.strategies_limits`): the limits are given, `error`
  and optionally a narrower `warn` pair.
- Strategies that learn (`online_normal` and `batch_normal` here, seasonal baselines and `stl` in
  `seasonal`, `holt_winters` in `strategies_holt_winters`): an expected value and the spread of the
  errors that expecting it made in the past. Bounds are so many spreads away, or as far as a
  false-positive rate asks for.

Sources: Schelter et al., "Automating Large-Scale Data Quality Verification", VLDB 2018, section
3.4, and the strategies of its implementation, Deequ.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.strategies_parameters import check_fields, upper_limit
from dqsql.errors import DecisionError
from dqsql.model.settings import Reader, as_bool, at_least, number_within
from dqsql.model.wording import plural

TimeArray = npt.NDArray[np.datetime64]

DEFAULT_DEVIATIONS = 3.0
DEFAULT_MIN_HISTORY = 8
DEFAULT_RELEARN_AFTER = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """An interval in the metric's unit, for one severity (None: the annotation's own)."""

    lower: float
    upper: float
    severity: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a strategy expects of the next value.

    Attributes:
        expected: the expected value; NaN if the strategy has none (threshold).
        basis: where it comes from, in words ('mean of 30 batches').
        size: number of past values that it rests on.
        limits: of strategies with fixed limits, widest last, and of models of other libraries;
            empty for others that learn.
        spread: of strategies that learn, typical size of the error, >= 0, in the metric's unit.
        errors: of strategies that learn, past values less what was expected of them, each divided
            by what it owes to the uncertainty of the expected value.
        leverage: variance of the expected value / that of a single value, >= 0.
        ratios: whether errors are those of logarithms, so that bounds are factors.
        year_ago: how far below and above what was expected, >= 0, the values of the same days a
            year ago were, in the unit of `errors`; 0 where none is known.
    """

    expected: float
    basis: str
    size: int
    limits: tuple[Limits, ...] = ()
    spread: float = 0.0
    errors: FloatArray = field(default_factory=lambda: np.empty(0))
    leverage: float = 0.0
    ratios: bool = False
    year_ago: tuple[float, float] = (0.0, 0.0)


class TooLittleHistoryError(Exception):
    """Too few past values; the message says how many are needed. Caught in `anomaly`."""

    @classmethod
    def unless(cls, there: int, needed: int, what: str = "") -> None:
        """Raise it unless there are so many values as are needed."""
        if there < needed:
            raise cls(f"{needed} values are needed{what}, there are {there}")


class Undecidable(Exception):
    """The history cannot be modelled by the strategy; the message says why. Caught in `anomaly`."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The history of a metric, oldest first, and the value to decide on.

    `values` may have NaN (nothing measured, or left out on purpose); never infinities. `times` are
    of the same length, local wall-clock times as datetime64, or None if batches have no time.
    """

    values: FloatArray
    times: TimeArray | None
    new: float
    time: np.datetime64 | None

    @property
    def known(self) -> FloatArray:
        """Values without the gaps."""
        return self.values[~np.isnan(self.values)]

    @property
    def newest(self) -> tuple[float, int]:
        """The newest known value, and how many batches after it the new one comes."""
        place = int(np.flatnonzero(~np.isnan(self.values))[-1])
        return float(self.values[place]), self.values.size - place

    def differenced(self) -> Series:
        """Changes by batch since the value before, in the place of the later one; not the first.

        Raises:
            TooLittleHistoryError: there are fewer than two values.
        """
        known = np.flatnonzero(~np.isnan(self.values))
        TooLittleHistoryError.unless(known.size, 2)
        changes = np.full(self.values.shape, np.nan)
        changes[known[1:]] = np.diff(self.values[known]) / np.diff(known)
        last, batches = self.newest
        return Series(changes, self.times, (self.new - last) / batches, self.time)


@dataclass(frozen=True, slots=True)
class Strategy:
    """Base of all strategies; its fields are its parameters.

    Class attributes: `name`; `aliases`, other names of parameters; `positional`, the parameters
    that may be given without a name; `counts_batches`, see `keeps_places`; `readers`, what the
    parameters may be.
    """

    name: ClassVar[str] = ""
    counts_batches: ClassVar[bool] = False
    aliases: ClassVar[dict[str, str]] = {}
    positional: ClassVar[tuple[str, ...]] = ()
    readers: ClassVar[dict[str, Reader]] = {}

    def __post_init__(self) -> None:
        check_fields(self.name, self)

    @property
    def min_history(self) -> int:
        """Fewest past values that the strategy decides with by default."""
        return 0

    @property
    def reach(self) -> int | None:
        """How many of the newest accepted batches it looks at; None for all."""
        return None

    @property
    def keeps_places(self) -> bool:
        """Whether the place of a value matters, so that batches not accepted must keep theirs."""
        return self.counts_batches

    def predict(self, series: Series) -> Prediction:
        """What is expected of `series.new`, which takes no part in it.

        Raises:
            TooLittleHistoryError: the history is too short.
            Undecidable: it cannot be modelled.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form, which `strategy(**d)` reads."""
        return {"name": self.name} | asdict(self)


# --- learned bounds ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LearnedStrategy(Strategy):
    """Base of strategies that learn.

    Attributes:
        sd: how many spreads the value may be away. If none of sd, warn, error, fpr is given, so
            many as past errors ask for at `default_rate`; see `dqsql.decisions.tails`.
        warn: as `sd`, for a warning.
        error: as `sd`, for an error.
        fpr: instead of them, false-positive rate per decision, in (0, 0.5].
        lower_sd: as `sd`, below the expected value only.
        upper_sd: as `sd`, above the expected value only.
        order: how often differences are taken first: 1 for a forecast of the change since the
            value before, 2 for that of its change, 0 (default) for the value itself.
    """

    sd: float | None = None
    warn: float | None = None
    error: float | None = None
    fpr: float | None = None
    lower_sd: float | None = None
    upper_sd: float | None = None
    order: int = 0
    default_rate: ClassVar[float] = 0.0027
    positional: ClassVar[tuple[str, ...]] = ("sd",)
    aliases: ClassVar[dict[str, str]] = {
        "lower_deviation_factor": "lower_sd",
        "upper_deviation_factor": "upper_sd",
    }

    readers: ClassVar[dict[str, Reader]] = {
        **dict.fromkeys(("sd", "warn", "error", "lower_sd", "upper_sd"), number_within(0)),
        "fpr": number_within(0, 0.5, open_low=True),
        "order": at_least(0),
    }

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        ways = {
            "sd": self.sd is not None,
            "warn and error": self.warn is not None or self.error is not None,
            "fpr": self.fpr is not None,
            "lower_sd and upper_sd": self.lower_sd is not None or self.upper_sd is not None,
        }
        given = [name for name, used in ways.items() if used]
        if len(given) > 1:
            raise DecisionError(
                f"{self.name}: {given[0]} and {given[1]} both set the bounds", hint="give one"
            )
        if self.warn is not None and self.error is not None and self.warn > self.error:
            raise DecisionError(
                f"{self.name}: warn {self.warn:g} is above error {self.error:g}",
                hint="a warning comes before an error: warn => 3, error => 4",
            )

    @property
    def min_history(self) -> int:
        """Fewest past values that the strategy decides with by default."""
        return DEFAULT_MIN_HISTORY + self.order

    @property
    def keeps_places(self) -> bool:
        """Whether places matter, as they do for changes from one batch to the next."""
        return self.counts_batches or self.order > 0

    @property
    def rate(self) -> float | None:
        """The false-positive rate that bounds keep; None where they are a number of spreads."""
        # Deequ's arithmetic has Deequ's three deviations.
        default = None if getattr(self, "include_new", False) else self.default_rate
        return default if self.default_bounds else self.fpr

    def predict_differenced(self, series: Series) -> Prediction:
        """As `predict`, after differences were taken `order` times.

        Raises:
            TooLittleHistoryError: the history is too short.
            Undecidable: it cannot be modelled.
        """
        many = [series]
        for _ in range(self.order):
            many.append(many[-1].differenced())
        prediction = self.predict(many[-1])
        if not self.order:
            return prediction
        times = "" if self.order == 1 else f" taken {self.order} times"
        prediction = replace(prediction, basis=f"{prediction.basis}, of differences{times}")
        for before in reversed(many[:-1]):
            last, batches = before.newest
            # Over several batches a change is so many times as large, and its error the root of it.
            wider = math.sqrt(batches)
            prediction = replace(
                prediction,
                expected=last + batches * prediction.expected,
                spread=wider * prediction.spread,
                errors=wider * prediction.errors,
                limits=tuple(
                    replace(m, lower=last + batches * m.lower, upper=last + batches * m.upper)
                    for m in prediction.limits
                ),
            )
        return prediction

    def with_rate(self, fpr: float) -> Self:
        """The same with a false-positive rate, unless the user set bounds; itself then."""
        return replace(self, fpr=fpr) if self.default_bounds else self

    @property
    def default_bounds(self) -> bool:
        """Whether the user said nothing about the bounds."""
        ways = (self.sd, self.warn, self.error, self.fpr, self.lower_sd, self.upper_sd)
        return all(way is None for way in ways)

    def widths(self) -> list[tuple[float, float, str | None]]:
        """Numbers of spreads below and above and the severity, the narrower pair first.

        Empty if the bounds follow from `fpr`; 3 if nothing is given.
        """
        if self.fpr is not None:
            return []
        if self.lower_sd is not None or self.upper_sd is not None:
            return [(upper_limit(self.lower_sd), upper_limit(self.upper_sd), None)]
        if self.warn is None and self.error is None:
            width = DEFAULT_DEVIATIONS if self.sd is None else self.sd
            return [(width, width, None)]
        pairs = (("warn", self.warn), ("error", self.error))
        return [(w, w, severity) for severity, w in pairs if w is not None]


@dataclass(frozen=True, slots=True)
class BatchNormal(LearnedStrategy):
    """Mean and standard deviation (n - 1) of the whole history (Deequ: BatchNormalStrategy).

    Attributes:
        include_new: whether the value under test takes part in them (Deequ: includeInterval).
            Off by default: a value ought not to excuse itself.
    """

    include_new: bool = False
    name: ClassVar[str] = "batch_normal"
    aliases: ClassVar[dict[str, str]] = LearnedStrategy.aliases | {
        "include_interval": "include_new"
    }
    readers: ClassVar[dict[str, Reader]] = LearnedStrategy.readers | {"include_new": as_bool}

    def predict(self, series: Series) -> Prediction:
        """Mean and standard deviation."""
        values = series.known
        if self.include_new and math.isfinite(series.new):
            values = np.append(values, series.new)
        TooLittleHistoryError.unless(values.size, 2)
        mean, size = float(values.mean()), values.size
        away = values - mean
        spread = float(np.sqrt(np.dot(away, away) / (size - 1)))
        errors = recursive_residuals(values)
        return Prediction(mean, _mean_of(size), size, (), spread, errors, 1 / size)


def recursive_residuals(values: FloatArray) -> FloatArray:
    """Each value less the mean of those before it, over sqrt(1 + 1 / their number).

    Of independent normal values they are independent and have the values' own deviation (Brown,
    Durbin & Evans, "Techniques for Testing the Constancy of Regression Relationships over Time",
    Journal of the Royal Statistical Society B 37, 1975).
    """
    number = np.arange(1, values.size)
    # About the first value, for sums of large numbers lose the small ones.
    before = values[:1] + np.cumsum(values - values[:1])[:-1] / number
    return np.asarray((values[1:] - before) / np.sqrt(1 + 1 / number), dtype=float)


@dataclass(frozen=True, slots=True)
class OnlineNormal(LearnedStrategy):
    """Running mean and standard deviation from which earlier anomalies are left out.

    A value is left out if it lies further than the narrowest bounds from the mean of those taken
    before it. After `relearn_after` values in a row that would be left out on one side, these are
    what is normal, and those before them no more: a new level is learned. `include_new` is Deequ's
    OnlineNormalStrategy as it is used on the newest value: the value itself is taken into mean and
    deviation before it is looked at, nothing is left out, for only the newest value is searched,
    and n stands for n - 1.

    Attributes:
        ignore_start: share of the values at the start that are never left out, in [0, 1]; None for
            a tenth, and at least 8 values, or half of fewer than 16.
        ignore_anomalies: whether earlier anomalies are left out.
        include_new: Deequ's arithmetic.
        relearn_after: how many in a row are a new level, >= 2.
    """

    ignore_start: float | None = None
    ignore_anomalies: bool = True
    include_new: bool = False
    relearn_after: int = DEFAULT_RELEARN_AFTER
    name: ClassVar[str] = "online_normal"
    aliases: ClassVar[dict[str, str]] = LearnedStrategy.aliases | {
        "ignore_start_percentage": "ignore_start",
        "include_interval": "include_new",
    }
    readers: ClassVar[dict[str, Reader]] = LearnedStrategy.readers | {
        "ignore_start": number_within(0, 1),
        "ignore_anomalies": as_bool,
        "include_new": as_bool,
        "relearn_after": at_least(2),
    }

    def predict(self, series: Series) -> Prediction:
        """Mean and deviation after the last value that was taken."""
        values = series.known
        if self.include_new:
            return self._as_deequ(values, series.new)
        low, high, _ = (self.widths() or [(DEFAULT_DEVIATIONS, DEFAULT_DEVIATIONS, None)])[0]
        mean, spread, taken, errors = self._online(values.tolist(), low, high)
        TooLittleHistoryError.unless(taken, 2)
        left_out = values.size - taken
        basis = f"running {_mean_of(taken)}"
        if left_out:
            basis += f", {left_out} earlier {'anomaly' if left_out == 1 else 'anomalies'} left out"
        return Prediction(mean, basis, taken, (), spread, errors, 1 / taken)

    def _online(
        self, values: list[float], low: float, high: float
    ) -> tuple[float, float, int, FloatArray]:
        """Welford's recurrence over the values that are no anomalies, and the errors of all."""
        size = len(values)
        # A deviation estimated from fewer than 8 says nothing about the next value.
        few = min(DEFAULT_MIN_HISTORY, size // 2) if self.ignore_start is None else 0
        start = max(_or_a_tenth(self.ignore_start) * (size + 1), few)
        mean, squares, count = 0.0, 0.0, 0
        errors: list[float] = []
        run: list[float] = []
        adapted = _mean_widths(size + 1) if self.default_bounds else None
        for position, value in enumerate(values):
            if count:
                errors.append((value - mean) / math.sqrt(1 + 1 / count))
            if self.ignore_anomalies and position >= start and count >= 2:
                spread = math.sqrt(squares / (count - 1))
                if adapted is not None:
                    low = high = adapted[count]
                slack = 1e-9 * abs(mean)
                delta = value - mean
                if delta < -reach_of(low, spread) - slack or delta > reach_of(high, spread) + slack:
                    same_side = not run or (run[-1] > mean) == (value > mean)
                    run = [*run, value] if same_side else [value]
                    if len(run) < self.relearn_after:
                        continue
                    # The misses that told of the new level are none of it.
                    del errors[-len(run) :]
                    mean = sum(run) / len(run)
                    squares = sum((v - mean) ** 2 for v in run)
                    count, run = len(run), []
                    continue
            run = []
            count += 1
            delta = value - mean
            mean += delta / count
            squares += delta * (value - mean)
        spread = math.sqrt(squares / (count - 1)) if count > 1 else 0.0
        return mean, spread, count, np.array(errors)

    def _as_deequ(self, values: FloatArray, new: float) -> Prediction:
        """Mean and deviation (n) of all values and the new one; no bounds at the start."""
        every = np.append(values, new) if math.isfinite(new) else values
        TooLittleHistoryError.unless(every.size, 2)
        mean, spread = float(every.mean()), float(every.std())
        if every.size - 1 < every.size * _or_a_tenth(self.ignore_start):
            spread = math.inf
        return Prediction(mean, _mean_of(every.size), every.size, (), spread, every - mean)


def _or_a_tenth(share: float | None) -> float:
    return 0.1 if share is None else share


def default_width(degrees: float, leverage: float) -> float:
    """Return how many spreads a value may be away where the user does not say, >= 3.

    Half the width of Student's prediction interval for one more value (Hahn & Meeker, "Statistical
    Intervals", 1991, 4.7) with the rate of 3 standard deviations of a normal distribution, 0.27 %.
    Exact for independent normal values; 3 for a long history, 4.8 for the mean of 8 batches.

    Args:
        degrees: degrees of freedom of the spread, > 0.
        leverage: variance of the expected value / that of a single value, >= 0.
    """
    if math.isinf(degrees):
        quantile = DEFAULT_DEVIATIONS
    else:
        quantile = float(scipy.special.stdtrit(degrees, scipy.special.ndtr(DEFAULT_DEVIATIONS)))
    return quantile * math.sqrt(1 + leverage)


@lru_cache(maxsize=16)
def _mean_widths(most: int) -> list[float]:
    """`default_width` for means of 0, 1, .. `most` values; infinite below two."""
    return [math.inf, math.inf, *(default_width(n - 1, 1 / n) for n in range(2, most + 1))]


def reach_of(width: float, spread: float) -> float:
    """How far a number of spreads is; infinite without bounds, also where the spread is 0."""
    return width if width == math.inf else width * spread


def _mean_of(size: int) -> str:
    return f"mean of {plural(size, 'batch')}"


def parameter_names(kind: type[Strategy]) -> list[str]:
    """The parameters of a strategy, those that may be given by position first."""
    others = [f.name for f in fields(kind) if f.name not in kind.positional]
    return [*kind.positional, *others]

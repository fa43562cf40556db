"""Strategies of `@anomaly` whose limits the user gives: threshold and changes.

Source: Schelter et al., "Automating Large-Scale Data Quality Verification", VLDB 2018, section 3.4,
and Deequ's SimpleThresholdStrategy, AbsoluteChangeStrategy and RelativeRateOfChangeStrategy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dqsql.decisions.strategies import Limits, Prediction, Series, Strategy, TooLittleHistoryError
from dqsql.decisions.strategies_parameters import lower_limit, upper_limit
from dqsql.errors import DecisionError
from dqsql.model.settings import Reader, at_least, number_within


@dataclass(frozen=True, slots=True)
class FixedLimits(Strategy):
    """Base of strategies whose limits the user gives.

    Attributes:
        lower: least value (or change) that is fine; None for no limit.
        upper: largest that is fine; None for no limit.
        warn_lower: as `lower`, for a warning; with it `lower` and `upper` are errors.
        warn_upper: as `upper`, for a warning.
    """

    lower: float | None = None
    upper: float | None = None
    warn_lower: float | None = None
    warn_upper: float | None = None
    positional: ClassVar[tuple[str, ...]] = ("lower", "upper")
    readers: ClassVar[dict[str, Reader]] = dict.fromkeys(
        ("lower", "upper", "warn_lower", "warn_upper"), number_within()
    )

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        if all(getattr(self, n) is None for n in ("lower", "upper", "warn_lower", "warn_upper")):
            raise DecisionError(
                f"{self.name} needs a lower or an upper limit",
                hint=f"for example: {self.name}(lower => 0.9)",
            )
        for low, high in (("lower", "upper"), ("warn_lower", "warn_upper")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise DecisionError(
                    f"{self.name}: {low} {least:g} is above {high} {most:g}", hint="swap them"
                )
        for inner, outer, sign in (("warn_lower", "lower", 1), ("warn_upper", "upper", -1)):
            warn, error = getattr(self, inner), getattr(self, outer)
            if warn is not None and error is not None and sign * (warn - error) < 0:
                raise DecisionError(
                    f"{self.name}: {inner} {warn:g} lies beyond {outer} {error:g}",
                    hint="a warning comes before an error",
                )

    def limits(self) -> list[Limits]:
        """Lower and upper limit and severity, the narrower pair first."""
        whole = (lower_limit(self.lower), upper_limit(self.upper))
        if self.warn_lower is None and self.warn_upper is None:
            return [Limits(*whole)]
        warn = (
            max(lower_limit(self.warn_lower), whole[0]),
            min(upper_limit(self.warn_upper), whole[1]),
        )
        if self.lower is None and self.upper is None:
            return [Limits(*warn, "warn")]
        return [Limits(*warn, "warn"), Limits(*whole, "error")]


@dataclass(frozen=True, slots=True)
class Threshold(FixedLimits):
    """The value lies between fixed limits (Deequ: SimpleThresholdStrategy)."""

    name: ClassVar[str] = "threshold"

    @property
    def reach(self) -> int | None:
        """None of the history: the limits are given."""
        return 0

    def predict(self, series: Series) -> Prediction:
        """Limits as given; nothing is expected in particular."""
        return Prediction(math.nan, "fixed limits", series.known.size, tuple(self.limits()))


@dataclass(frozen=True, slots=True)
class AbsoluteChange(FixedLimits):
    """The change since the batch before lies between fixed limits (Deequ: AbsoluteChangeStrategy).

    Attributes:
        order: how often differences are taken: 1 for new - old, 2 for the change of the change, 0
            for the value itself.
    """

    order: int = 1
    name: ClassVar[str] = "absolute_change"
    aliases: ClassVar[dict[str, str]] = {"max_rate_decrease": "lower", "max_rate_increase": "upper"}
    readers: ClassVar[dict[str, Reader]] = FixedLimits.readers | {"order": at_least(0)}

    @property
    def min_history(self) -> int:
        """As many values as differences are taken."""
        return self.order

    def predict(self, series: Series) -> Prediction:
        """The d-th difference is the new value plus a sum of old ones with binomial weights."""
        known = series.known
        if self.order == 0:
            return Prediction(math.nan, "fixed limits", known.size, tuple(self.limits()))
        TooLittleHistoryError.unless(known.size, self.order)
        old = known[::-1][: self.order]
        weights = [(-1) ** i * math.comb(self.order, i) for i in range(1, self.order + 1)]
        expected = -float(np.dot(weights, old))
        limits = tuple(
            Limits(expected + m.lower, expected + m.upper, m.severity) for m in self.limits()
        )
        values = "value" if self.order == 1 else f"{self.order} values"
        return Prediction(expected, f"the last accepted {values}", self.order, limits)


@dataclass(frozen=True, slots=True)
class RateOfChange(AbsoluteChange):
    """Deequ's former name of absolute_change (RateOfChangeStrategy, deprecated there)."""

    name: ClassVar[str] = "rate_of_change"


@dataclass(frozen=True, slots=True)
class RelativeRateOfChange(AbsoluteChange):
    """New value / old value lies between fixed limits (Deequ: RelativeRateOfChangeStrategy).

    Attributes:
        order: how many batches back the old value is, >= 1.
    """

    name: ClassVar[str] = "relative_rate_of_change"
    readers: ClassVar[dict[str, Reader]] = FixedLimits.readers | {"order": at_least(1)}

    def predict(self, series: Series) -> Prediction:
        """Limits times the old value; a change from 0 is infinite, but for one from 0 to 0."""
        known = series.known
        TooLittleHistoryError.unless(known.size, self.order)
        old = float(known[-self.order])
        limits = tuple(_times(old, limit) for limit in self.limits())
        basis = f"the accepted value {self.order} batches before"
        if self.order == 1:
            basis = "the last accepted value"
        return Prediction(old, basis, self.order, limits)


def _times(old: float, limit: Limits) -> Limits:
    """The values whose ratio to `old` lies between the limits."""
    low, high = limit.lower, limit.upper
    if old == 0:
        # A ratio to 0 is plus or minus infinity, within an open limit only.
        ends = (-math.inf if math.isinf(low) else 0.0, math.inf if math.isinf(high) else 0.0)
    else:
        ends = (low * old, high * old) if old > 0 else (high * old, low * old)
    return Limits(*ends, limit.severity)

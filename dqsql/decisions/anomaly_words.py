"""Decisions on anomalies in words."""

from __future__ import annotations

import math
from typing import Protocol

from dqsql.decisions.constraints import number_text


class Decided(Protocol):
    """What the words are about; see `dqsql.decisions.anomaly.AnomalyDecision`."""

    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def expected(self) -> float: ...  # noqa: D102
    @property
    def lower(self) -> float: ...  # noqa: D102
    @property
    def upper(self) -> float: ...  # noqa: D102
    @property
    def deviations(self) -> float | None: ...  # noqa: D102


def explain(decision: Decided, basis: str) -> str:
    """One line: the value, how far off it is from what, and what would have been fine."""
    seen = number_text(decision.value)
    allowed = f"allowed {interval(decision.lower, decision.upper)}"
    if math.isnan(decision.expected):
        return f"{seen}, {allowed}"
    expected = f"{number_text(decision.expected)} ({basis})"
    delta = decision.value - decision.expected
    inside = decision.lower <= decision.value <= decision.upper
    if inside:
        return f"{seen}, expected {expected}, {allowed}"
    side = "above" if delta > 0 else "below"
    off = decision.deviations
    if off is None or math.isinf(off):
        return f"{seen} is {side} the expected {expected}, {allowed}"
    return f"{seen} is {abs(off):.1f} standard deviations {side} the expected {expected}, {allowed}"


def interval(lower: float, upper: float) -> str:
    """An interval in words."""
    if math.isinf(lower) and math.isinf(upper):
        return "anything"
    if math.isinf(lower):
        return f"at most {number_text(upper)}"
    if math.isinf(upper):
        return f"at least {number_text(lower)}"
    if lower == upper:
        return f"only {number_text(lower)}"
    return f"{number_text(lower)} to {number_text(upper)}"

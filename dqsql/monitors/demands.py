"""What an annotation demands of a number that a detector computes: `< 0.25`, `between 1 and 2`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dqsql.compiler.comparisons import COMPARISONS, bounds_of, reads_as_number
from dqsql.dialect import parse_expression
from dqsql.errors import AnnotationError, SqlSyntaxError
from dqsql.model.plan import Monitor
from dqsql.model.project import NoData, Severity
from dqsql.model.results import Status

_MEASURED = "dqsql_measured"
_EXAMPLE = "< 0.25"


@dataclass(frozen=True)
class Demand:
    """An interval that a number must lie in; `strict` where the bounds themselves do not pass."""

    text: str
    lower: float | None
    upper: float | None
    strict: bool = False

    def met(self, value: float) -> bool:
        """Whether a number lies in it; NaN does not."""
        if math.isnan(value):
            return False
        if self.strict and value in (self.lower, self.upper):
            return False
        above = self.lower is None or value >= self.lower
        return above and (self.upper is None or value <= self.upper)

    def within(self, other: Demand) -> bool:
        """Whether all that meets this one meets the other, too."""
        low = other.lower is None or (self.lower is not None and self.lower >= other.lower)
        high = other.upper is None or (self.upper is not None and self.upper <= other.upper)
        looser = (self.lower, self.upper) != (other.lower, other.upper)
        return low and high and (looser or self.strict >= other.strict)


@dataclass(frozen=True)
class Demands:
    """What must be met so that a check does not fail, and so that it does not warn."""

    fails: Demand
    warns: Demand | None = None

    def status(self, value: float, severity: Severity) -> tuple[Status, str]:
        """The verdict on a number, and which demand it breaks, in words."""
        if not self.fails.met(value):
            failed = severity is Severity.ERROR
            verb = "fails" if failed else "warns"
            told = f", which {verb}" if self.warns is not None else ""
            return (Status.FAIL if failed else Status.WARN), (
                f"{told}: expected {self.fails.text}" if told else f", expected {self.fails.text}"
            )
        if self.warns is not None and not self.warns.met(value):
            return Status.WARN, f", which warns: expected {self.warns.text}"
        return Status.PASS, ""

    def shown(self, severity: Severity) -> Mapping[str, str]:
        """Both for people, by what happens where they are not met."""
        first = {"fails" if severity is Severity.ERROR else "warns": self.fails.text}
        return first if self.warns is None else {**first, "warns": self.warns.text}


def demands_of(monitor: Monitor) -> Demands:
    """What is demanded of a monitor's number, by its comparison and its setting `warn`.

    Raises AnnotationError: it is no comparison with numbers, or the warning is never told.
    """
    fails = _demand(monitor, monitor.demand or _EXAMPLE)
    given = monitor.settings.options.get("warn")
    if given is None:
        return Demands(fails)
    if monitor.severity is Severity.WARN:
        raise AnnotationError(
            "with severity warn both thresholds would warn",
            span=monitor.span,
            hint="remove one of the two",
        )
    text = str(given).strip()
    operator = fails.text.partition(" ")[0]
    warns = _demand(monitor, text if not reads_as_number(text) else f"{operator} {text}")
    if fails.within(warns):
        raise AnnotationError(
            "the warning would never appear: the check fails first",
            span=monitor.span,
            hint="the threshold that warns must be the stricter one",
        )
    return Demands(fails, warns)


def _demand(monitor: Monitor, text: str) -> Demand:
    wrong = AnnotationError(
        f"@{monitor.kind} is compared with numbers, not {text!r}",
        span=monitor.span,
        hint=f"for example {_EXAMPLE}",
    )
    try:
        ast = parse_expression(f"{_MEASURED} {text}", monitor.span).unnest()
    except SqlSyntaxError as error:
        raise wrong from error
    bounds = bounds_of(ast) if isinstance(ast, COMPARISONS) else None
    if bounds is None:
        raise wrong
    return Demand(text, bounds.lower, bounds.upper, text[:1] in "<>" and text[1:2] != "=")


def missing_status(monitor: Monitor, default: NoData | None) -> Status:
    """The verdict where there is nothing to measure, by the setting `no_data`."""
    wanted = monitor.settings.no_data or default or NoData.WARN
    known = {NoData.ERROR: Status.FAIL, NoData.WARN: Status.NO_DATA, NoData.IGNORE: Status.SKIPPED}
    return known[wanted]

"""What an annotation demands of a number that a detector computes: `< 0.25`, `between 1 and 2`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dqsql.compiler.comparisons import COMPARISONS, bounds_of, reads_as_number
from dqsql.decisions.constraints import NOTHING_MEASURED
from dqsql.dialect import parse_expression
from dqsql.errors import AnnotationError, SqlSyntaxError
from dqsql.model.plan import Bounds, Monitor
from dqsql.model.project import NoData, Severity
from dqsql.model.results import Status
from dqsql.monitors.context import failed_status

_MEASURED = "dqsql_measured"
_EXAMPLE = "< 0.25"


@dataclass(frozen=True)
class Demand:
    """An interval that a number must lie in, and its text: `< 0.25`."""

    text: str
    bounds: Bounds

    @property
    def strict(self) -> bool:
        """Whether the bounds themselves do not pass."""
        return self.text[:1] in "<>" and self.text[1:2] != "="

    def met(self, value: float) -> bool:
        """Whether a number lies in it; NaN does not."""
        lower, upper = self.bounds.lower, self.bounds.upper
        if math.isnan(value) or (self.strict and value in (lower, upper)):
            return False
        return (lower is None or value >= lower) and (upper is None or value <= upper)

    def within(self, other: Demand) -> bool:
        """Whether all that meets this one meets the other, too."""
        looser = self.bounds != other.bounds or self.strict >= other.strict
        return self.bounds.within(other.bounds) and looser


@dataclass(frozen=True)
class Demands:
    """What must be met so that a check does not fail, and so that it does not warn."""

    fails: Demand
    warns: Demand | None = None

    def status(self, value: float, severity: Severity) -> tuple[Status, str]:
        """The verdict on a number, and which demand it breaks, in words."""
        if not self.fails.met(value):
            status = failed_status(severity)
            which = "," if self.warns is None else f", which {status.value}s:"
            return status, f"{which} expected {self.fails.text}"
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
    return Demand(text, bounds)


def missing_status(monitor: Monitor, default: NoData | None) -> Status:
    """The verdict where there is nothing to measure, by the setting `no_data`."""
    return NOTHING_MEASURED[monitor.settings.no_data or default or NoData.WARN]

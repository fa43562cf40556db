"""`@has_type('decimal(10,2)')`: a column has the type that is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from dqsql.decisions.contract import WIDENED, change_of_type
from dqsql.errors import AnnotationError
from dqsql.model.contract import LOGICAL, is_logical, spark_type
from dqsql.model.monitors import MonitorSpec, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.types import type_of
from dqsql.monitors.context import MonitorByMonitor, failed_status, result_of
from dqsql.monitors.kind import MonitorKind
from dqsql.monitors.settings import literal_value, read_settings

_NAME = "has_type"
_HINT = "@has_type('decimal(10,2)'), or '<number>', '<integer>' .. for any of these types"


class TypeDetector(MonitorByMonitor):
    """Decides on all `@has_type` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        columns = self.context.columns(monitor, batch)
        if columns is None:
            message = self.context.unmeasured(monitor, "the columns of the model are not known")
            return result_of(monitor, batch, Status.ERROR, message)
        promised, now = type_promised(monitor), type_of(monitor.column or "", columns)
        if not now:
            status, message = failed_status(monitor.severity), f"{monitor.column} is gone"
        elif change := change_of_type(promised, now):
            mild = change == WIDENED
            status = Status.WARN if mild else failed_status(monitor.severity)
            message = f"{monitor.column} is {change}: {promised} -> {now}"
        else:
            status, message = Status.PASS, ""
        return replace(result_of(monitor, batch, status, message), observed_text=now or None)


def type_promised(monitor: Monitor) -> str:
    """The type that the annotation names. Raises AnnotationError."""
    read_settings(monitor, {}, positional=True)
    texts = monitor.positional
    text = literal_value(texts[0]) if len(texts) == 1 else None
    kind = None
    if isinstance(text, str):
        known = is_logical(text) and text.strip("<>") in LOGICAL
        kind = text if known else spark_type(text)
    if kind is None:
        given = f", not {text!r}" if isinstance(text, str) else ""
        raise AnnotationError(
            f"@has_type takes one type of Spark{given}", span=monitor.span, hint=_HINT
        )
    return kind


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings={},
        watches=lambda use: [WatchedMetric(Family.ANY, "schema", "schema()", None)],
        about_column=True,
        configurable=False,
        symptom="types and patterns",
    ),
    detector=TypeDetector,
    order=12,
    read=type_promised,
)

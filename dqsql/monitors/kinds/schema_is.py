"""`@schema_is('id bigint, amount decimal(10,2)')`: the columns and types that are promised."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import ClassVar

from dqsql.decisions.contract import decide_columns
from dqsql.errors import AnnotationError
from dqsql.model.contract import ColumnListError, column_list
from dqsql.model.monitors import MonitorSpec, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.settings import as_bool
from dqsql.monitors.context import MonitorByMonitor, result_of
from dqsql.monitors.kind import MonitorKind
from dqsql.monitors.settings import literal_value, read_settings

_NAME = "schema_is"
_HINT = "@schema_is('id bigint, amount decimal(10,2)')"


class ColumnsDetector(MonitorByMonitor):
    """Decides on all `@schema_is` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        columns = self.context.columns(monitor, batch)
        if columns is None:
            message = self.context.unmeasured(monitor, "the columns of the model are not known")
            return result_of(monitor, batch, Status.ERROR, message)
        promised, closed = promise_of(monitor)
        verdict = decide_columns(promised, columns, closed=closed, severity=monitor.severity)
        result = result_of(monitor, batch, verdict.status, verdict.message)
        changes = [asdict(c) for c in verdict.changes]
        details = {**result.details, "promised": promised, "changes": changes}
        return replace(result, observed=float(len(columns)), details=details)


def promise_of(monitor: Monitor) -> tuple[dict[str, str], bool]:
    """The promised columns, and whether others break the promise. Raises AnnotationError."""
    given = read_settings(monitor, KIND.spec.settings, positional=True)
    texts = monitor.positional
    text = literal_value(texts[0]) if len(texts) == 1 else None
    if not isinstance(text, str) or text == (texts[0] if texts else None):
        raise AnnotationError(
            "@schema_is takes one text: columns with their types", span=monitor.span, hint=_HINT
        )
    try:
        return column_list(text), bool(given.get("closed", False))
    except ColumnListError as error:
        raise AnnotationError(f"@schema_is: {error}", span=monitor.span, hint=_HINT) from error


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings={"closed": as_bool},
        watches=lambda use: [
            WatchedMetric(Family.ANY, "schema", "schema()", use.annotation.column)
        ],
        configurable=False,
        several=True,
        symptom="schema",
    ),
    detector=ColumnsDetector,
    order=11,
    read=promise_of,
)

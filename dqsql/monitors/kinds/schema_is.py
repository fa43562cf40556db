"""`@schema_is('id bigint, amount decimal(10,2)')`: the columns and types that are promised."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from dqsql.decisions.contract import decide_columns
from dqsql.errors import AnnotationError
from dqsql.model.contract import ColumnListError, column_list
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.monitors.context import MonitorContext, Workplace, result_of
from dqsql.monitors.history import key_of
from dqsql.monitors.kind import MonitorKind
from dqsql.monitors.settings import a_flag, literal_value, read_settings

_NAME, _METRIC = "schema_is", "schema"
_HINT = "@schema_is('id bigint, amount decimal(10,2)')"


@dataclass(frozen=True)
class ColumnsDetector:
    """Decides on all `@schema_is` of one model."""

    context: MonitorContext

    def prepare(self, batches: Sequence[str]) -> None:
        """Nothing is learned."""

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        return [self._verdict(m, batch) for m in KIND.of(self.context.plan)]

    def _verdict(self, monitor: Monitor, batch: str) -> Result:
        metric = self.context.metric(monitor, _METRIC)
        text = None if metric is None else self.context.history.text(key_of(metric), batch)
        if text is None:
            message = self.context.unmeasured(monitor, "the columns of the model are not known")
            return result_of(monitor, batch, Status.ERROR, message)
        now: dict[str, str] = json.loads(text)
        promised, closed = promise_of(monitor)
        verdict = decide_columns(promised, now, closed=closed, severity=monitor.severity)
        found = result_of(monitor, batch, verdict.status, verdict.message)
        changes = [asdict(c) for c in verdict.changes]
        details = {**found.details, "promised": promised, "changes": changes}
        return replace(found, observed=float(len(now)), details=details)


def promise_of(monitor: Monitor) -> tuple[dict[str, str], bool]:
    """The promised columns, and whether others break the promise. Raises AnnotationError."""
    given = read_settings(monitor, KIND.spec.settings, positional=True)
    texts = [t for name, t in monitor.arguments.items() if name.isdigit()]
    text = literal_value(texts[0]) if len(texts) == 1 else None
    if not isinstance(text, str) or text == (texts[0] if texts else None):
        raise AnnotationError(
            "@schema_is takes one text: columns with their types", span=monitor.span, hint=_HINT
        )
    try:
        return column_list(text), bool(given.get("closed", False))
    except ColumnListError as error:
        raise AnnotationError(f"@schema_is: {error}", span=monitor.span, hint=_HINT) from error


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    return [WatchedMetric(Family.ANY, _METRIC, "schema()", use.annotation.column)]


def _detector(place: Workplace, context: MonitorContext) -> ColumnsDetector:
    return ColumnsDetector(context)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings={"closed": a_flag},
        watches=_watches,
        configurable=False,
        several=True,
        symptom="schema",
    ),
    detector=_detector,
    order=11,
    read=promise_of,
)

"""`@expected_segments`: segments without rows, listed ones or those that were always there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from dqsql.decisions.silence import Absence, absences, listed
from dqsql.errors import AnnotationError, CompileError
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.settings import as_rate, at_least
from dqsql.model.wording import plural
from dqsql.monitors.context import MonitorByMonitor, failed_status, result_of
from dqsql.monitors.history import key_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import literal_value, read_settings

_NAME, _METRIC = "expected_segments", "row_count"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "window": at_least(2)}
_WINDOW = 60


class SegmentsDetector(MonitorByMonitor):
    """Decides on all `@expected_segments` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        names, given = segments_named(monitor)
        now = self._present(monitor, batch)
        if names:
            missing = [n for n in names if not _is_there(n, now)]
            text = f"{plural(len(missing), 'segment')} without rows: {', '.join(missing)}"
            return self._told(monitor, batch, text, missing)
        window = given.get("window", _WINDOW)
        usual = self.context.usual(monitor, batch, window)
        before = [self._present(monitor, b) for b in usual]
        need = given.get("min_history", 7)
        if len(before) < need:
            text = f"still learning: {len(before)} of {need} accepted batches"
            return result_of(monitor, batch, Status.SKIPPED, text)
        fpr = given.get("fpr") or self.context.fpr(monitor)
        found: list[Absence] = absences(before, now, fpr, need)
        text = f"{plural(len(found), 'segment')} without rows: {listed(found)}"
        return self._told(monitor, batch, text, [a.name for a in found])

    def _told(self, monitor: Monitor, batch: str, text: str, missing: list[str]) -> Result:
        status = failed_status(monitor.severity) if missing else Status.PASS
        found = result_of(monitor, batch, status, text if missing else "")
        details = {**found.details, "missing": missing}
        return replace(found, observed=float(len(missing)), details=details)

    def _present(self, monitor: Monitor, batch: str) -> frozenset[str]:
        metric, history = self.context.metric(monitor, _METRIC), self.context.history
        if metric is None:
            return frozenset()
        return frozenset(
            s for s in history.segments(batch) if history.value(key_of(metric, s), batch) > 0
        )


def _is_there(name: str, present: frozenset[str]) -> bool:
    """Whether a segment has rows, by its name (`origin=EWR`) or its value alone (`EWR`)."""
    return any(s == name or s.partition("=")[2] == name for s in present)


def segments_named(monitor: Monitor) -> tuple[list[str], dict[str, Any]]:
    """The segments that an annotation lists, and its settings. Raises AnnotationError."""
    given = read_settings(monitor, _SETTINGS, positional=True)
    values = [literal_value(t) for name, t in monitor.arguments.items() if name.isdigit()]
    if not all(isinstance(v, str | int) for v in values):
        raise AnnotationError(
            "@expected_segments lists values of segment_by",
            span=monitor.span,
            hint="@expected_segments('DE', 'FR'), or without any: those that were always there",
        )
    return [str(v) for v in values], given


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    if not use.model.config.segment_by:
        raise CompileError(
            "@expected_segments is about segments, and this model has none",
            span=use.annotation.span,
            hint="config(segment_by = ['country'])",
        )
    return [WatchedMetric(Family.ANY, _METRIC, "row_count()", None)]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    names, given = segments_named(monitor)
    return Reach(0 if names else given.get("window", _WINDOW), segments=True)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        configurable=False,
        several=True,
        symptom="volume",
    ),
    detector=SegmentsDetector,
    order=30,
    reach=_reach,
    read=segments_named,
)

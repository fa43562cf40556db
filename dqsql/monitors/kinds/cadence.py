"""`@cadence`: batches that should be there and are not, between others or after the newest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dqsql.decisions.cadence import (
    Cadence,
    CadenceError,
    Gap,
    Lateness,
    gap_before,
    lateness,
    learn_cadence,
    live_delays,
    read_cadence,
)
from dqsql.errors import AnnotationError, CompileError
from dqsql.model.batches import batch_order, wall_time_of
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor, Plan
from dqsql.model.project import Severity
from dqsql.model.results import BatchRecord, Result, Status
from dqsql.model.settings import as_rate, as_text, at_least
from dqsql.monitors.context import MonitorByMonitor, failed_status, result_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import literal_value, read_settings

_NAME = "cadence"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "grace": as_text, "cadence": as_text}
# Older batches say nothing of the rhythm of now.
_WINDOW = 200


@dataclass(frozen=True)
class _Rules:
    """What one `@cadence` says."""

    declared: Cadence | None
    fpr: float | None
    min_history: int
    grace: dt.timedelta | None


class CadenceDetector(MonitorByMonitor):
    """Decides on all `@cadence` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        rules, start = rules_of(monitor), wall_time_of(batch)
        if start is None:
            text = f"batches are not named by a time: {batch!r}"
            return result_of(monitor, batch, Status.SKIPPED, text)
        known = [b for b in self.context.history.known if batch_order(b) < batch_order(batch)]
        past = [t for b in known[-_WINDOW:] if (t := wall_time_of(b)) is not None]
        gap = gap_before(
            past, start, rules.fpr or self.context.fpr(monitor), rules.declared, rules.min_history
        )
        late = self._late(rules, batch, [*past, start])
        if late is not None and late.late:
            return _told(monitor, batch, _late_words(late, start), missing=late.missing)
        if gap is None:
            text = f"still learning: {len(past)} of {rules.min_history} batches in a rhythm"
            return result_of(monitor, batch, Status.SKIPPED, text)
        if gap.alarm:
            rhythm = rules.declared or learn_cadence(past)
            return _told(
                monitor, batch, _gap_words(gap, rhythm, rules.declared), missing=gap.missing
            )
        return result_of(monitor, batch, Status.PASS, "")

    def _late(self, rules: _Rules, batch: str, times: Sequence[dt.datetime]) -> Lateness | None:
        """Whether a batch is missing behind the newest one."""
        if self.context.history.known and batch != self.context.history.known[-1]:
            return None
        return _lateness(rules, times, self.place.ledger, self.context.now)


def _gap_words(gap: Gap, rhythm: Cadence | None, declared: Cadence | None) -> str:
    one = len(gap.missing) == 1
    number = "1 batch is" if one else f"{len(gap.missing):,} batches are"
    words = rhythm.words if rhythm is not None else ""
    basis = "as declared" if declared is not None else f"as of {gap.history:,} expected ones before"
    return f"{number} missing before this one: {gap.words}; there is one {words}, {basis}"


def _late_words(late: Lateness, newest: dt.datetime) -> str:
    return (
        f"no batch has come since {newest:%Y-%m-%d %H:%M}: {late.words} should be there;"
        f" the first was due by {late.due:%Y-%m-%d %H:%M} UTC"
    )


def _told(monitor: Monitor, batch: str, message: str, missing: Sequence[dt.datetime]) -> Result:
    """A finding that only warns unless its annotation says more: the batch itself is fine."""
    asked = monitor.settings.severity is Severity.ERROR
    status = failed_status(monitor.severity) if asked else Status.WARN
    found = result_of(monitor, batch, status, message)
    details = {**found.details, "missing": [m.isoformat(" ") for m in missing]}
    severity = monitor.severity if asked else Severity.WARN
    return replace(found, observed=float(len(missing)), severity=severity, details=details)


def rules_of(monitor: Monitor) -> _Rules:
    """What the annotation says. Raises AnnotationError."""
    given = read_settings(monitor, _SETTINGS, positional=True)
    texts = [literal_value(t) for name, t in monitor.arguments.items() if name.isdigit()]
    said = [*texts, given.get("cadence")]
    found = [s for s in said if s is not None]
    try:
        declared = read_cadence(str(found[0])) if found else None
        grace = read_cadence(given["grace"]).step if "grace" in given else None
    except CadenceError as error:
        raise AnnotationError(
            f"@cadence takes {error}", span=monitor.span, hint="@cadence('daily')"
        ) from error
    return _Rules(declared, given.get("fpr"), given.get("min_history", 7), grace)


def _lateness(
    rules: _Rules,
    times: Sequence[dt.datetime],
    ledger: Mapping[str, BatchRecord],
    now: dt.datetime,
) -> Lateness | None:
    rhythm = rules.declared or learn_cadence(times)
    if rhythm is None or not times:
        return None
    step = rhythm.after(times[-1]) - times[-1]
    known = sorted(ledger.values(), key=lambda r: batch_order(r.batch))
    checked = [
        (_plain(r.end), _plain(r.checked_at))
        for r in known
        if r.end is not None and r.checked_at is not None
    ]
    delays = live_delays(checked, step)
    return lateness(times, delays, _plain(now), rules.declared, rules.grace)


def _plain(moment: dt.datetime) -> dt.datetime:
    """A moment in UTC, as the names of batches are read."""
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def _is_due(plan: Plan, ledger: Mapping[str, BatchRecord], now: dt.datetime) -> bool:
    """Whether a batch is late: the newest one is then decided on again."""
    times = [t for b in sorted(ledger, key=batch_order) if (t := wall_time_of(b)) is not None]
    if len(times) < len(ledger):
        return False
    try:
        found = [_lateness(rules_of(m), times[-_WINDOW:], ledger, now) for m in KIND.of(plan)]
    except AnnotationError:
        # Told where the model is checked.
        return False
    return any(late is not None and late.late for late in found)


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    if use.model.config.batch_by is None:
        raise CompileError(
            "@cadence is about batches, and this model has none",
            span=use.annotation.span,
            hint="config(batch_by = 'day')",
        )
    return [WatchedMetric(Family.ANY, "row_count", "row_count()", None)]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    return Reach(0)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        configurable=False,
        symptom="freshness",
    ),
    detector=CadenceDetector,
    order=20,
    reach=_reach,
    read=rules_of,
    is_due=_is_due,
)

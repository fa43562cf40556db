"""`@schema`: the model's columns now, against those of the last accepted batch's run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dqsql.decisions.contract import CHANGES, decide_schema
from dqsql.engine.history import stored_rows
from dqsql.engine.rows import result_of_row
from dqsql.model.batches import batch_order
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.project import Severity
from dqsql.model.results import BatchRecord, BatchStatus, Result, Status
from dqsql.model.settings import as_given
from dqsql.model.tables import METRICS, RESULTS
from dqsql.monitors.context import MonitorByMonitor, result_of
from dqsql.monitors.kind import MonitorKind

_NAME = _METRIC = "schema"


@dataclass
class SchemaDetector(MonitorByMonitor):
    """Decides on all `@schema` of one model.

    A new batch is compared with what was measured last. A batch that is checked again and has the
    columns that it had keeps its verdict, and one that has others passes if that is told elsewhere:
    by a new batch of this run, or by an earlier run. If `batch_by` is of another type than ever
    before, that is a change of a column, too: the newest batch is compared with those that were
    retired by it.
    """

    kind: ClassVar[str] = _NAME
    _stored: Sequence[Mapping[str, Any]] = field(default_factory=list, init=False)
    _compared: Collection[str] = field(default=(), init=False)
    _former: Mapping[tuple[str, str], Result] = field(default_factory=dict, init=False)

    def prepare(self, batches: Sequence[str]) -> None:
        """Read the columns of earlier batches."""
        again, ledger = set(batches), self.place.ledger
        rows = self.place.store.select(
            METRICS,
            ("batch", "value_text", "computed_at"),
            {"model": [self.context.plan.model.name], "metric": [_METRIC], "segment": None},
        )
        rows = [r for r in rows if r["value_text"] is not None]
        accepted = {b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED}
        retired = [] if ledger else self._passed(ledger, rows)
        self._stored = [r for r in rows if r["batch"] in accepted] or retired
        new, newest = again.difference(ledger), max(batches, key=batch_order)
        self._compared = {newest} if self._stored is retired or not new else new
        known = again.intersection(ledger)
        if known:
            found = stored_rows(self.place.store, RESULTS, self.context.plan.model.name, known)
            self._former = {
                (r["check_id"], r["batch"]): result_of_row(r)
                for r in found
                if r["detector"] == _NAME
            }

    def _passed(
        self, ledger: Mapping[str, BatchRecord], rows: Iterable[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Those of batches that are not in the ledger any more, and on which no check failed."""
        failed = self.place.store.select(
            RESULTS,
            ("batch",),
            {"model": [self.context.plan.model.name], "status": [Status.FAIL.value]},
        )
        out = {r["batch"] for r in failed}
        return [r for r in rows if r["batch"] not in ledger and r["batch"] not in out]

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        columns = self.context.columns(monitor, batch)
        own = next((r for r in self._stored if r["batch"] == batch), None)
        former = self._former.get((monitor.id, batch))
        if former is not None and own is not None and columns == json.loads(own["value_text"]):
            return _as_before(monitor, batch, former)
        return _result(monitor, batch, columns, self._before(batch, columns))

    def _before(
        self, batch: str, now: Mapping[str, str] | None
    ) -> tuple[str, dict[str, str]] | None:
        """What was measured last, and its columns with types; None where a change is not told."""
        if not self._stored:
            return None
        last = max(self._stored, key=lambda r: (r["computed_at"], batch_order(r["batch"])))
        columns: dict[str, str] = json.loads(last["value_text"])
        return (last["batch"], columns) if batch in self._compared or columns == now else None


def _as_before(monitor: Monitor, batch: str, former: Result) -> Result:
    """The verdict on a batch whose columns are those of its former verdict, by today's settings."""
    changed = {kind for kind in CHANGES if former.details.get(kind)}
    failing = Status.FAIL if monitor.severity is Severity.ERROR else Status.WARN
    status = failing if changed.difference(_allowed(monitor)) else Status.PASS
    return replace(
        result_of(monitor, batch, status, former.message),
        column=None,
        observed=former.observed,
        details={**former.details, "expression": monitor.expression},
    )


def _result(
    monitor: Monitor,
    batch: str,
    columns: Mapping[str, str] | None,
    before: tuple[str, dict[str, str]] | None,
) -> Result:
    if columns is None:
        message = f"{monitor.span}: the columns of the model are not known"
        return replace(result_of(monitor, batch, Status.ERROR, message), column=None, details={})
    verdict = decide_schema(
        columns, before[1] if before else None, allow=_allowed(monitor), severity=monitor.severity
    )
    changes = {k: list(verdict.changes.of(k)) for k in CHANGES} if verdict.changes else {}
    return replace(
        result_of(monitor, batch, verdict.status, verdict.message),
        column=None,
        observed=float(len(columns)),
        details={
            "expression": monitor.expression,
            "compared_with": {"against": before[0]} if before else {},
            "reordered": verdict.changes.reordered if verdict.changes else False,
            **changes,
        },
    )


def _allowed(monitor: Monitor) -> tuple[str, ...]:
    """The kinds of change that pass: `{allow: [added]}`."""
    given = monitor.settings.options.get("allow", ())
    return (given,) if isinstance(given, str) else tuple(given)


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    return [WatchedMetric(Family.ANY, _METRIC, "schema()", use.annotation.column)]


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings={"allow": as_given},
        watches=_watches,
        configurable=False,
        listed={"allow": CHANGES},
        symptom="schema",
    ),
    detector=SchemaDetector,
    order=10,
)

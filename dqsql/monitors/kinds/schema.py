"""`@schema`: the model's columns now, against those of the last accepted batch's run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dqsql.decisions.contract import CHANGES, decide_schema
from dqsql.engine.rows import RESULT_COLUMNS, result_of_row
from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.monitors import MonitorSpec, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import BatchRecord, BatchStatus, Result, Status
from dqsql.model.settings import as_given
from dqsql.model.tables import METRICS, RESULTS
from dqsql.monitors.context import MonitorByMonitor, failed_status, result_of
from dqsql.monitors.kind import MonitorKind

_NAME = _METRIC = "schema"
# In the details of a verdict: the columns of a batch before a change that is told of another one.
_BEFORE = "columns_before"


@dataclass
class SchemaDetector(MonitorByMonitor):
    """Decides on all `@schema` of one model.

    A new batch is compared with the newest accepted one, by what was measured last. A change that
    only warns is told of the first new batch of a run, as in runs of one batch each. A batch that
    is checked again and has the columns that it had keeps its verdict; one that has others passes
    where a new batch tells that, and is nothing that later ones are compared with. If `batch_by` is
    of another type than ever before, that is a change of a column, too: the newest batch is
    compared with those that were retired by it.
    """

    kind: ClassVar[str] = _NAME
    _columns: Mapping[str, dict[str, str]] = field(default_factory=dict, init=False)
    _last: tuple[str, dict[str, str]] | None = field(default=None, init=False)
    _new: Sequence[str] = field(default=(), init=False)
    _former: Mapping[tuple[str, str], Result] = field(default_factory=dict, init=False)

    def prepare(self, batches: Sequence[str]) -> None:
        """Read the columns of earlier batches."""
        ledger = self.place.ledger
        rows = self.place.store.select(
            METRICS,
            ("batch", "value_text", "computed_at"),
            {"model": [self.context.plan.model.name], "metric": [_METRIC], "segment": None},
        )
        rows = [r for r in rows if r["value_text"] is not None]
        self._columns = {r["batch"]: json.loads(r["value_text"]) for r in rows}
        accepted = {b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED}
        retired = [] if ledger else self._passed(ledger, rows)
        self._last = self._baseline([r for r in rows if r["batch"] in accepted] or retired)
        new = sorted({*batches}.difference(ledger), key=batch_order)
        self._new = new if new and not retired else [max(batches, key=batch_order)]
        self._former = {
            (r.check_id, r.batch or ""): r for r in self._results({*batches} & ledger.keys())
        }

    def _results(self, batches: Collection[str]) -> list[Result]:
        """The former verdicts of `@schema` on some batches."""
        if not batches:
            return []
        where = {"model": [self.context.plan.model.name], "batch": batches, "detector": [_NAME]}
        return list(map(result_of_row, self.place.store.select(RESULTS, RESULT_COLUMNS, where)))

    def _baseline(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, str]] | None:
        """The batch that was measured last, and its columns, but for those that tell no change.

        Where there are no others, it is such a batch with the columns that it had before.
        """
        by_run = by_key((row["computed_at"], row["batch"]) for row in rows)
        untold: tuple[str, dict[str, str]] | None = None
        for _, measured in sorted(by_run.items(), reverse=True):
            columns_before = {
                r.batch: r.details[_BEFORE] for r in self._results(measured) if _BEFORE in r.details
            }
            told = [b for b in measured if b not in columns_before]
            if told:
                newest = max(told, key=batch_order)
                return newest, self._columns[newest]
            newest = max(measured, key=batch_order)
            untold = untold or (newest, columns_before[newest])
        return untold

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
        own = self._columns.get(batch)
        former = self._former.get((monitor.id, batch))
        if former is not None and columns is not None and own == columns:
            return _as_before(monitor, batch, former)
        if batch not in self._new:
            # The columns are those of now, which the newest batch has, too.
            alike = self._last is not None and self._last[1] == columns
            return _result(monitor, batch, columns, self._last if alike else None, own)
        told = _result(monitor, batch, columns, self._last)
        place = self._new.index(batch)
        if not place or columns is None or told.status is Status.FAIL:
            return told
        return _result(monitor, batch, columns, (self._new[place - 1], dict(columns)))


def _as_before(monitor: Monitor, batch: str, former: Result) -> Result:
    """The verdict on a batch whose columns are those of its former verdict, by today's settings."""
    changed = {kind for kind in CHANGES if former.details.get(kind)}
    refused = changed.difference(_allowed(monitor))
    status = failed_status(monitor.severity) if refused else Status.PASS
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
    own: Mapping[str, str] | None = None,
) -> Result:
    """The verdict on columns against those `before`; a batch's `own` were others, without these."""
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
            **({_BEFORE: dict(own)} if own is not None and before is None else {}),
        },
    )


def _allowed(monitor: Monitor) -> tuple[str, ...]:
    """The kinds of change that pass: `{allow: [added]}`."""
    given = monitor.settings.options.get("allow", ())
    return (given,) if isinstance(given, str) else tuple(given)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings={"allow": as_given},
        watches=lambda use: [WatchedMetric(Family.ANY, _METRIC, "schema()", use.annotation.column)],
        configurable=False,
        listed={"allow": CHANGES},
        symptom="schema",
    ),
    detector=SchemaDetector,
    order=10,
)

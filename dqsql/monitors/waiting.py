"""Monitors that need a whole batch: asked of one that is not over, they wait, or say so."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dqsql.engine.open_batches import full_later, is_open
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord, Result, Status
from dqsql.monitors.context import Detector, result_of
from dqsql.monitors.kind import MonitorKind


@dataclass(frozen=True)
class Waiting:
    """The batches of a run that are not over: `later` says from when on those are judged that wait.

    `unfinished` are all that are not over by their names.
    """

    later: Mapping[str, dt.datetime]
    unfinished: frozenset[str]

    @classmethod
    def of(
        cls,
        plan: Plan,
        ledger: Mapping[str, BatchRecord],
        batches: Sequence[str],
        rows: Mapping[str, int],
        now: dt.datetime,
        *,
        finds_new: bool,
    ) -> Waiting:
        """Those of some batches, with so many rows, of a run that began `now`.

        None waits unless runs look for what is new: one that names it may be the last to do so.
        """
        batch_by = plan.model.config.batch_by
        return cls(
            full_later(batches, ledger, rows, batch_by, now) if finds_new else {},
            frozenset(b for b in batches if is_open(b, batch_by, now)),
        )

    def asked(
        self, kind: MonitorKind, plan: Plan, detector: Detector, batch: str
    ) -> Sequence[Result]:
        """The verdicts of the monitors of a kind on one batch."""
        if not kind.awaits_rows:
            return detector.judge(batch)
        if batch in self.later:
            text = f"{batch} is likely to get more rows, as batches before it did after their first"
            text += f" check: judged from {self.later[batch]:%Y-%m-%d %H:%M} UTC on"
            return [result_of(m, batch, Status.SKIPPED, text) for m in kind.of(plan)]
        verdicts = detector.judge(batch)
        return (
            [self._marked_unfinished(r) for r in verdicts] if batch in self.unfinished else verdicts
        )

    @staticmethod
    def _marked_unfinished(result: Result) -> Result:
        if result.status not in (Status.WARN, Status.FAIL):
            return result
        return replace(result, message=f"{result.message} ({result.batch} is not over)")

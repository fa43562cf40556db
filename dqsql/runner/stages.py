"""What the stages of a model's run hand on: the batches under test, then the verdicts on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dqsql.compiler.aggregates.facts import checks_about_now
from dqsql.compiler.counts import counted_states
from dqsql.compiler.scan import scan_groups
from dqsql.decisions.lifecycle import batch_statuses, flagged_last
from dqsql.engine.batches import BatchChoice
from dqsql.engine.execution import ModelExecution
from dqsql.engine.feasible import Feasible, Measurement
from dqsql.engine.totals import CumulativeRun
from dqsql.model.batches import batch_order
from dqsql.model.plan import Plan
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, BatchStatus, Result
from dqsql.monitors.context import Workplace
from dqsql.monitors.judging import Judged, stored_book
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.registry import is_due

_REFUSED = (BatchStatus.FLAGGED, BatchStatus.REJECTED)


@dataclass(frozen=True)
class TestedBatches:
    """The batches under test, oldest first, and what Spark can compute of them.

    `before` is the ledger of before the run. `part` shrinks as Spark refuses more of it. `plan` is
    the plan as it was before it was fitted to the data.
    """

    batches: tuple[str, ...]
    choice: BatchChoice
    batch_type: str
    execution: ModelExecution
    part: Feasible
    before: Mapping[str, BatchRecord]
    plan: Plan

    @property
    def cumulates(self) -> bool:
        """Whether earlier batches are looked at, too."""
        return any(m.scope is Scope.CUMULATIVE for m in self.part.metrics)

    @property
    def asked_in_vain(self) -> frozenset[str]:
        """The batches without rows; without `batch_by` there is but one, which is as it is."""
        batched = self.execution.plan.model.config.batch_by is not None
        return frozenset(self.choice.empty if batched else ())

    def mistyped(
        self, statuses: Mapping[str, BatchStatus], reviews: Mapping[str, str]
    ) -> list[str]:
        """The batches of which nothing is kept: without rows, now and ever, or without a failure.

        Their names may be mistyped, or they are yet to come: with rows, they are new.
        """
        return [
            b
            for b in self.asked_in_vain
            if b not in self.before or (statuses[b] is BatchStatus.ACCEPTED and b not in reviews)
        ]

    @property
    def scans(self) -> int:
        """How often scanning the batches, and counting their values, reads the source."""
        part, scan = self.part, self.execution.scan
        counted = counted_states(part.states, part.metrics)
        return self.execution.source_scans(part) + len(scan_groups(counted, {}, scan.columns))

    @property
    def waiting(self) -> tuple[str, ...]:
        """The flagged batches that wait for a review, where nothing is new but the time."""
        flagged = flagged_last(self.before) if self.choice.aged else ()
        return tuple(b for b in flagged if b not in self.batches)


@dataclass(frozen=True)
class ModelVerdicts:
    """What was measured of the batches of a run, and what checks and monitors say of it."""

    measured: Measurement
    results: Sequence[Result]
    judged: Judged
    cumulative: CumulativeRun | None

    @property
    def all(self) -> list[Result]:
        """The verdicts of checks and monitors."""
        return [*self.results, *self.judged.results]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the cumulative metrics."""
        return () if self.cumulative is None else self.cumulative.notes

    def rejected(self, batches: Sequence[str], reviews: Mapping[str, str]) -> frozenset[str]:
        """The batches that a person rejected, and that are not repaired."""
        statuses = batch_statuses(self.all, batches, reviews)
        return frozenset(b for b, status in statuses.items() if status is BatchStatus.REJECTED)


def before_scan(place: Workplace, batches: Sequence[str], accepted: Collection[str]) -> BeforeScan:
    """What monitors may learn from before batches are scanned.

    `accepted` are those that a person accepted. Raises EngineError.
    """
    again, ledger = set(batches), place.ledger
    sound = (b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED and b not in again)
    return BeforeScan(
        stored_book(place.store, place.plan.model.name),
        sorted(sound, key=batch_order),
        batches,
        accepted,
        {b for b, r in ledger.items() if r.status in _REFUSED},
        place.project.settings,
    )


def newest_again(
    choice: BatchChoice, plan: Plan, ledger: Mapping[str, BatchRecord], now: dt.datetime
) -> BatchChoice:
    """The choice; where nothing is new, the newest batch if its age is checked or one is late."""
    if choice.batches or choice.newest is None:
        return choice
    due = is_due(plan, ledger, now)
    if not due and not checks_about_now(plan):
        return choice
    why = "because another should have come by now" if due else "because its age is checked"
    note = f"nothing new: {choice.newest} is checked again, {why}"
    notes = (*choice.notes, note)
    owed = tuple(b for b in choice.owed if b != choice.newest)
    return BatchChoice((choice.newest,), (), notes, sizes=choice.sizes, aged=True, owed=owed)

"""What the stages of a model's run hand on: the batches under test, then the verdicts on them."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dqsql.compiler.aggregates.facts import (
    asks_for_now,
    checks_about_now,
    is_of_rows,
    metrics_about_now,
)
from dqsql.compiler.counts import counted_states
from dqsql.compiler.keys import check_batch_by
from dqsql.compiler.pruning import null_without_batch
from dqsql.compiler.scan import scan_groups
from dqsql.decisions.constraints import constraint_results
from dqsql.decisions.lifecycle import batch_statuses
from dqsql.decisions.reviews import changed_batches, flagged_last
from dqsql.decisions.unbatched import about_unbatched, with_unbatched
from dqsql.engine.batches import BatchChoice, outdated_note, unlike_before_note
from dqsql.engine.execution import ModelExecution
from dqsql.engine.feasible import Feasible
from dqsql.engine.history import stored_rows
from dqsql.engine.measurement import Measurement
from dqsql.engine.open_batches import growth, judged_from
from dqsql.engine.totals import CumulativeRun
from dqsql.errors import EngineError, Span
from dqsql.loading.scanner import blank, scan
from dqsql.model.batches import batch_order, batch_times, has_begun, has_place
from dqsql.model.plan import Check, Plan
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, BatchStatus, CheckOutcome, Result, StoredRows
from dqsql.model.table import Table
from dqsql.model.tables import METRICS, RESULTS
from dqsql.model.wording import first_of, plural
from dqsql.monitors.context import Workplace
from dqsql.monitors.judging import Judged, stored_book
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.registry import is_due, looks_back
from dqsql.monitors.uncomputed import errors_by_batch

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

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
    def without_rows(self) -> frozenset[str]:
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
            for b in self.without_rows
            if b not in self.before or (statuses[b] is BatchStatus.ACCEPTED and b not in reviews)
        ]

    def refuse_lost(self, measured: Measurement) -> None:
        """Raise EngineError if a batch has no rows though it was found: it would pass unseen."""
        model = self.execution.plan.model
        named = model.config.batch_by is not None
        lost = [b for b in self.batches if b not in measured.rows and b not in self.choice.empty]
        if named and lost:
            raise EngineError(
                f"rows of {first_of(lost, 3)} of {model.name} were found, and not when they were"
                " read again",
                span=Span(model.path),
                hint=f"batch_by, {model.config.batch_by}, must be the same whenever it is read,"
                " which current_timestamp() or rand() is not; or run again if the source has"
                " changed meanwhile",
            )

    def scan(self, on_step: Callable[[str], None]) -> None:
        """Compute states, and the counts of values that cumulative metrics merge."""
        part, cumulates = self.part, self.cumulates
        on_step(f"scanning {plural(len(self.batches), 'batch')}")
        self.execution.scan_states(part, self.batches)
        if cumulates:
            # Merging reads them where all states are.
            self.execution.store_states(self.batches)
            if counted_states(part.states, part.metrics):
                on_step("counting values")
                self.execution.store_counts(part, self.batches)

    def unchanged(self, store: Store, on_step: Callable[[str], None]) -> frozenset[str]:
        """The batches whose metrics are those that are stored. Raises DqsqlError.

        Only metrics count that are about the batch's rows alone: not the time, the schema, other
        relations. Where the SELECT itself asks what time it is, numbers of rows have to do.
        """
        part, model = self.part.of_scope(Scope.DELTA), self.execution.plan.model
        # Annotations may compare with the time: they are not of the SELECT.
        if asks_for_now(blank(model.sql, scan(model.sql, jinja=False).comments)):
            return frozenset(self.batches)
        on_step(f"looking at {plural(len(self.batches), 'reviewed batch', 'reviewed batches')}")
        self.execution.scan_states(part, self.batches)
        measured = self.execution.measure_batches(part, self.batches)
        states, columns = self.execution.plan.states, self.execution.scan.columns
        of_rows = {s.name for s in states if is_of_rows(s, columns)}
        names = {m.name for m in part.metrics if of_rows.issuperset(m.states)}
        stored = stored_rows(store, METRICS, model.name, self.batches)
        changed = changed_batches([v for v in measured.values if v.metric in names], stored)
        return frozenset(self.batches) - changed

    def later_note(
        self, sound: Collection[str], ledger: Mapping[str, BatchRecord], others: Collection[str]
    ) -> tuple[str, ...]:
        """A note when stored values or verdicts of later batches are of before these batches.

        Those that are `sound` count in the cumulative metrics of later ones. `ledger` is that of
        now; the run checks `others`, too.
        """
        others = {*others, *self.choice.lost}
        if self.cumulates:
            return outdated_note(self.before, sound, self.batches, others)
        if not looks_back(self.execution.plan):
            return ()
        return unlike_before_note(self.before, ledger, self.batches, others)

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
        """What to know of the cumulative metrics, and of batches that monitors wait for."""
        waiting = tuple(
            f"{batch} is likely to get more rows: monitors judge it from {when:%Y-%m-%d %H:%M} UTC"
            " on"
            for batch, when in self.judged.later.items()
        )
        return waiting if self.cumulative is None else (*self.cumulative.notes, *waiting)

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


def with_known(
    choice: BatchChoice,
    plan: Plan,
    ledger: Mapping[str, BatchRecord],
    now: dt.datetime,
    types: Mapping[str, str],
    reviewed: Collection[str] = (),
) -> BatchChoice:
    """The choice, with known batches that have a reason to be checked again.

    Monitors have not judged them, and they should be full by now; or a batch before them has come
    late, unless a person has `reviewed` them. The newest batch is, if its age is checked; where
    nothing is new, also if another is late, or if rows without a batch are to fail a check.
    """
    if choice.newest is not None:
        choice = _with_begun(choice, choice.newest, ledger, now)
        choice = _with_full(choice, ledger, now)
        if plan.monitors:
            choice = _with_followers(choice, ledger, reviewed)
    has_age = bool(checks_about_now(plan))
    if choice.batches and has_age:
        return _with_newest(choice, ledger)
    if choice.batches or choice.newest is None:
        return choice
    if is_due(plan, ledger, now):
        why = "because another should have come by now"
    elif has_age:
        why = "because its age is checked"
    elif choice.unbatched and checks_of_unbatched(plan, types):
        why = "because rows have no batch"
    else:
        return choice
    note = f"nothing new: {choice.newest} is checked again, {why}"
    return replace(_with(choice, (choice.newest,), note), aged=True)


def _with(choice: BatchChoice, again: Sequence[str], note: str) -> BatchChoice:
    """The choice with known batches that are checked again for what the note says."""
    owed = tuple(b for b in choice.owed if b not in again)
    batches, notes = (*choice.batches, *again), (*choice.notes, note)
    return replace(choice, batches=batches, notes=notes, owed=owed)


def _with_begun(
    choice: BatchChoice, newest: str, ledger: Mapping[str, BatchRecord], now: dt.datetime
) -> BatchChoice:
    """The choice with the newest batch of those that have begun, where there is one."""
    if has_begun(newest, now):
        return choice
    found = {*choice.batches, *ledger}.intersection(choice.sizes)
    begun = (b for b in found if has_begun(b, now))
    return replace(choice, newest=max(begun, key=batch_order, default=newest))


def _with_newest(choice: BatchChoice, ledger: Mapping[str, BatchRecord]) -> BatchChoice:
    """The choice with the newest batch, whose age is checked in every run, where that is known."""
    newest = choice.newest
    if newest is None or newest in choice.batches or newest not in ledger:
        return choice
    return _with(choice, (newest,), f"{newest} is checked again, because its age is checked")


def _with_full(
    choice: BatchChoice, ledger: Mapping[str, BatchRecord], now: dt.datetime
) -> BatchChoice:
    """The choice with batches that monitors wait to judge, as far as they need not wait longer."""
    full = [b for b in choice.unjudged if b not in choice.batches and judged_from(ledger[b]) <= now]
    if not full:
        return choice
    its, it = ("its", "it") if len(full) == 1 else ("their", "them")
    named = first_of(sorted(full, key=batch_order), 1)
    note = f"{named} should have all of {its} rows: monitors judge {it} now"
    return _with(choice, full, note)


def _with_followers(
    choice: BatchChoice, ledger: Mapping[str, BatchRecord], reviewed: Collection[str]
) -> BatchChoice:
    """The choice with the known batch behind each one that comes late: its gap may be closed."""
    places = sorted((batch_order(b), b) for b, r in ledger.items() if r.rows)
    # Other names say nothing of what comes first.
    late = (b for b in choice.batches if has_place(b) and b not in ledger)
    at = {bisect_right(places, (batch_order(b), b)) for b in late}
    left_out = {*choice.batches, *choice.lost, *reviewed}
    behind = [places[i][1] for i in sorted(at) if i < len(places)]
    again = tuple(b for b in behind if b not in left_out)
    if not again:
        return choice
    are, why = "is", "the batch before it"
    if len(again) > 1:
        are, why = "are", "batches before them"
    note = f"{first_of(again, 1)} {are} checked again: {why} came late"
    return _with(choice, again, note)


def checks_of_unbatched(plan: Plan, types: Mapping[str, str]) -> Sequence[Check]:
    """The checks that rows without a batch fail. `types` are those of columns."""
    batch_by = check_batch_by(plan.model)
    column = None if batch_by is None else null_without_batch(batch_by, types)
    return [] if column is None else about_unbatched(plan.checks, plan.metrics, column)


def batch_records(
    tested: TestedBatches,
    verdicts: ModelVerdicts,
    results: Sequence[Result],
    statuses: Mapping[str, BatchStatus],
    rows: Mapping[Table, Sequence[Mapping[str, Any]]],
    run_id: str,
    now: dt.datetime,
    fingerprint: str,
    sound: Collection[str],
) -> dict[str, BatchRecord]:
    """What the ledger keeps of the batches that have a status.

    `rows` are what is stored of them, by table; `now` is when the run began, and `fingerprint` what
    the model means now. Those that are `sound` count in the cumulative metrics of later ones.
    """
    model = tested.plan.model
    sizes = {table: Counter(row["batch"] for row in mine) for table, mine in rows.items()}
    measured, errors = verdicts.measured, errors_by_batch(results)
    # Of what another meaning of the model selects, numbers of rows say nothing.
    known = {b: r for b, r in tested.before.items() if r.fingerprint == fingerprint}
    return {
        batch: BatchRecord(
            model.name,
            batch,
            status,
            measured.rows.get(batch, 0),
            run_id,
            fingerprint,
            batch in sound,
            tested.before[batch].checked_at if tested.choice.aged else now,
            StoredRows(sizes[METRICS][batch], sizes[RESULTS][batch], measured.states.get(batch, 0)),
            *batch_times(batch, model.config.batch_by),
            uncomputed=errors[batch],
            **_growth(known.get(batch), measured.rows.get(batch, 0), now),
            judged_from=verdicts.judged.later.get(batch),
        )
        for batch, status in statuses.items()
    }


def _growth(before: BatchRecord | None, rows: int, now: dt.datetime) -> dict[str, Any]:
    names = ("grown_at", "grown_rows", "lacked_at")
    return dict(zip(names, growth(before, rows, now), strict=True))


def constraints(
    measured: Measurement,
    plan: Plan,
    choice: BatchChoice | None,
    checked: Iterable[str],
    types: Mapping[str, str],
) -> Iterator[Result]:
    """The verdicts of constraints on what was measured; `checked` are the batches that are known.

    Rows that have no batch are told with the newest one that is checked; how old a batch is, with
    the newest one that has rows.
    """
    outcomes: Iterable[CheckOutcome] = measured.outcomes
    if choice is not None and choice.unbatched and choice.batches:
        about, newest = checks_of_unbatched(plan, types), max(choice.batches, key=batch_order)
        outcomes = with_unbatched(outcomes, about, newest, measured.rows, choice.unbatched)
    there = with_rows(checked, choice)
    return constraint_results(plan, [*outcomes], there, metrics_about_now(plan), types)


def with_rows(batches: Iterable[str], choice: BatchChoice | None) -> list[str]:
    """The batches without those that have no rows, as far as that is known."""
    if choice is None or choice.newest is None:
        return [*batches]
    newest = batch_order(choice.newest)
    return [b for b in batches if b not in choice.empty and batch_order(b) <= newest]

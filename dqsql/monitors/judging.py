"""Lets all monitors of a model decide on the batches of a run, one batch after the other.

What monitors find decides whether a batch belongs to the history of the next, so the batches of a
backfill are judged in order, each as if it had been run on its own day.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dqsql.decisions.cadence import misses_next
from dqsql.engine.history import stored_metrics, stored_of_model, stored_rows
from dqsql.engine.ledger import unlike_segmented
from dqsql.errors import DqsqlError
from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.monitors import Rates
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import CheckModel, Severity
from dqsql.model.results import BatchRecord, BatchStatus, MetricValue, Result, Status
from dqsql.model.tables import DISTRIBUTIONS, PROGRAMS, RESULTS
from dqsql.model.wording import plural
from dqsql.monitors.context import MonitorContext, Workplace, defaults_of
from dqsql.monitors.history import NEXT, History, place_of, spelled_as
from dqsql.monitors.in_a_row import streaks_of
from dqsql.monitors.kind import BeforeScan, MonitorKind, Reach
from dqsql.monitors.programs import ProgramBook
from dqsql.monitors.registry import find, kinds_of, learn_before_scan
from dqsql.monitors.waiting import Waiting

if TYPE_CHECKING:
    from dqsql.engine.row_scores import OddRows
    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class Judged:
    """What monitors found, measured and learned (rows of dq_programs), and odd rows.

    `failures` are rows of dq_failures but for the run, `odd` finds all odd rows. `rest` are the
    batches that were not judged, since before them monitors learned what was not counted of them:
    then all else is empty. `later` says of batches that lack rows from when on they are judged.
    """

    results: tuple[Result, ...] = ()
    values: tuple[MetricValue, ...] = ()
    programs: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    odd: tuple[OddRows, ...] = ()
    rest: tuple[str, ...] = ()
    later: Mapping[str, dt.datetime] = field(default_factory=dict)


@dataclass
class MonitorRun:
    """The monitors of one model at work.

    The place's ledger is that of before the run; `accepted_by_review` and `rejected_by_review` are
    batches that a person accepted or rejected; `before` is what monitors learned from before the
    scan. `replayed` is how many of the newest stored batches will be decided on again. A run that
    `holds` rows back does not learn from batches of which checks could not be computed; none learns
    from `empty` ones, without rows. `finds_new` says that the run looks for what is new, before its
    `end`. `on_step` is told what is being done.
    """

    place: Workplace
    run_id: str
    now: dt.datetime
    rates: Rates
    failed: Mapping[str, DqsqlError] = field(default_factory=dict)
    accepted_by_review: frozenset[str] = frozenset()
    rejected_by_review: frozenset[str] = frozenset()
    before: BeforeScan | None = None
    replayed: int = 0
    store_failures: bool = False
    holds: bool = False
    empty: frozenset[str] = frozenset()
    finds_new: bool = False
    end: str | None = None
    on_step: Callable[[str], None] = lambda text: None

    def judge(
        self,
        batches: Sequence[str],
        values: Iterable[MetricValue],
        rows: Mapping[str, int],
        results: Iterable[Result],
    ) -> Judged:
        """The verdicts of all monitors on the batches of a run.

        `values` are what the run measured, `results` the verdicts of all other checks.
        Raises DqsqlError.
        """
        self.on_step("asking the monitors")
        ordered, values = sorted(batches, key=batch_order), list(values)
        kinds = list(kinds_of(self.place.plan))
        plan, known = self.place.plan, self.place.ledger
        streaks = streaks_of(plan, plan.monitors, self.place.store, known, ordered)
        first = self._judge_first(kinds, ordered, values)
        judged_results = streaks.judged(first.results)
        if all(kind.reach is None for kind in kinds):
            return replace(first, results=tuple(judged_results))
        by_batch = by_key((r.batch, r) for r in (*results, *judged_results))
        before = self._before_scan.after_scan()
        context = self._context(ordered, rows, before)
        context.history.add(values)
        detectors = [(k, k.detector(self.place, context)) for k in kinds if k.reach is not None]
        sound = [b for b in ordered if self._sound(b, by_batch.get(b, ()))]
        for _, detector in detectors:
            detector.prepare(sound)
        open_ones = Waiting.of(plan, known, ordered, rows, self.now, finds_new=self.finds_new)
        told = _tenths(len(ordered))
        for index, batch in enumerate(ordered):
            if index in told:
                self.on_step(f"asking the monitors, {index} of {len(ordered)} batches done")
            if index and learn_before_scan(self.place, replace(before, batches=(batch,))):
                return Judged(rest=tuple(ordered[index:]))
            new = streaks.judged(
                result
                for kind, detector in detectors
                for result in open_ones.asked(kind, plan, detector, batch)
            )
            self._note_warned(context.history, new)
            judged_results += new
            verdicts = [*by_batch.get(batch, ()), *new]
            if self._sound(batch, verdicts):
                context.history.accept(batch)
                before.add(batch, accepted=True)
            elif any(r.status is Status.FAIL for r in verdicts):
                before.add(batch, accepted=False)
        ids = [m.id for m in plan.monitors]
        programs = context.programs.rows(plan.model.name, ids, self.run_id, self.now)
        return Judged(
            tuple(judged_results),
            (*first.values, *context.derived),
            tuple(programs),
            (*first.failures, *context.failures),
            tuple(context.odd),
            later=open_ones.later,
        )

    def after_all(self) -> MonitorContext:
        """What monitors know after all batches that were checked. Raises StorageError."""
        return self._context([NEXT], {}, self._before_scan)

    @property
    def _before_scan(self) -> BeforeScan:
        return self.before or BeforeScan(stored_book(self.place.store, self.place.plan.model.name))

    def _note_warned(self, history: History, results: Iterable[Result]) -> None:
        """Tell the history of which batches of this run monitors warned, as later runs are told."""
        for result in results:
            if result.status is Status.WARN and result.batch is not None:
                self._warn(history, result.check_id, result.batch, result.score)

    def _warn(self, history: History, check_id: str, batch: str, score: float | None) -> None:
        if check_id in self._mild and batch not in self.accepted_by_review:
            history.warn(check_id, batch, score)

    @cached_property
    def _mild(self) -> frozenset[str]:
        """The monitors that may warn of a batch that is accepted all the same."""
        return frozenset(m.id for m in self.place.plan.monitors if _warns(m))

    def _sound(self, batch: str, results: Iterable[Result]) -> bool:
        if batch in self.accepted_by_review:
            return True
        keeps_out = {Status.FAIL}
        if self.holds:
            keeps_out.add(Status.ERROR)
        if batch in self.rejected_by_review:
            keeps_out.add(Status.WARN)
        about = (r for r in results if not misses_next(r, holds=self.holds))
        return batch not in self.empty and not any(r.status in keeps_out for r in about)

    def _context(
        self, batches: Sequence[str], rows: Mapping[str, int], before: BeforeScan
    ) -> MonitorContext:
        plan, settings = self.place.plan, self.place.project.settings
        model = plan.model.name
        stored = sum(r.status is BatchStatus.ACCEPTED for r in self.place.ledger.values())
        needs = needs_of(plan, settings, stored, self.replayed)
        depths = [need.depth for need in needs]
        furthest = None if None in depths else max((d for d in depths if d), default=0)
        history = History(
            accepted_before(self.place.ledger, batches, furthest),
            lambda batch: stored_rows(self.place.store, DISTRIBUTIONS, model, [batch]),
            known=(*self.place.ledger, *batches),
            refused=before.refused,
            same=spelled_as(plan.metrics),
        )
        unlike = unlike_segmented(self.place.ledger, plan.model)
        again = self._of_their_times(history, batches, max(need.alike for need in needs))
        for batch in again:
            history.accept(batch)
        for need in needs:
            accepted = accepted_before(self.place.ledger, batches, need.depth)
            accepted = sorted({*accepted, *again}, key=batch_order) if need.alike else accepted
            metric_rows = stored_metrics(
                self.place.store,
                model,
                accepted,
                need.metrics,
                segments=need.segments,
                unlike=unlike,
            )
            history.add_metrics(metric_rows)
        self._add_warned(history, history.before(NEXT))
        return self._context_of(history, before.book, rows)

    def _context_of(
        self, history: History, programs: ProgramBook, rows: Mapping[str, int]
    ) -> MonitorContext:
        return MonitorContext(
            plan=self.place.plan,
            history=history,
            programs=programs,
            now=self.now,
            run_id=self.run_id,
            rates=self.rates,
            failed=self.failed,
            rows=rows,
            settings=self.place.project.settings,
            accepted_by_review=self.accepted_by_review,
            store_failures=self.store_failures,
            end=self.end,
            matching=self.place.matching,
        )

    def _add_warned(self, history: History, accepted: Sequence[str]) -> None:
        """Tell the history of which accepted batches of earlier runs monitors warned."""
        if not self._mild:
            return
        store, model = self.place.store, self.place.plan.model.name
        # Details are long, and nothing in them is asked for.
        columns = ("check_id", "batch", "status", "score")
        for row in stored_rows(store, RESULTS, model, accepted, columns):
            if row["status"] == Status.WARN.value:
                self._warn(history, row["check_id"], row["batch"], row["score"])

    def _of_their_times(
        self, history: History, batches: Sequence[str], depth: int
    ) -> Collection[str]:
        """The accepted batches of the same times of day as those of a run, so many of each."""
        times = {batch: history.time_of(batch) for batch in batches if depth}
        if not any(times.values()):
            return ()
        accepted = accepted_before(self.place.ledger, batches, None)
        if self.replayed:
            return accepted
        same_time_batches: set[str] = set()
        for batch in (b for b, time in times.items() if time):
            earlier = accepted[: place_of(batch, accepted)]
            same_time_batches.update(history.of_its_time(batch, earlier)[-depth:])
        return same_time_batches

    def _judge_first(
        self, kinds: Iterable[MonitorKind], batches: Sequence[str], values: Iterable[MetricValue]
    ) -> Judged:
        """The verdicts of what needs no history: the others learn from batches without findings."""
        first = [kind for kind in kinds if kind.reach is None]
        if not first:
            return Judged()
        history = History(())
        history.add(values)
        context = self._context_of(history, ProgramBook(), {})
        detectors = [kind.detector(self.place, context) for kind in first]
        for detector in detectors:
            detector.prepare(batches)
        verdicts = (r for detector in detectors for batch in batches for r in detector.judge(batch))
        return Judged(tuple(verdicts), tuple(context.derived), (), tuple(context.failures))


def _tenths(count: int) -> frozenset[int]:
    """How many of so many batches are done when that is told: for each would be long logs."""
    return frozenset(count * part // 10 for part in range(1, 10)) - {0}


def _warns(monitor: Monitor) -> bool:
    """Whether it may tell of a batch that is accepted all the same."""
    return monitor.severity is not Severity.ERROR or "after" in monitor.settings.options


def stored_book(store: Store, model: str) -> ProgramBook:
    """What the monitors of a model learned so far. Raises EngineError."""
    return ProgramBook(stored_of_model(store, PROGRAMS, model))


# --- how far back the monitors of a model look -------------------------------------------------
# A monitor is given neither more nor fewer accepted batches than it looks at, however many a run
# checks at once: so a backfill and day-by-day runs decide alike.


@dataclass(frozen=True)
class Needs:
    """The stored metrics that some monitors look at.

    Attributes:
        depth: how many accepted batches before each batch that is decided on; None for all.
        metrics: their names.
        segments: whether those of segments are among them.
        alike: how many of the same time of day, where several batches come a day.
    """

    depth: int | None
    metrics: frozenset[str]
    segments: bool
    alike: int = 0

    def and_of(self, reach: Reach, metrics: frozenset[str]) -> Needs:
        """These, and others of as many batches or more."""
        further = self.depth is None or reach.depth is None
        depth = None if further else max(self.depth or 0, reach.depth or 0)
        segments = self.segments or reach.segments
        return Needs(depth, self.metrics | metrics, segments, max(self.alike, reach.alike))


def needs_of(
    plan: Plan, settings: Mapping[str, Any], stored: int, replayed: int = 0
) -> list[Needs]:
    """What the monitors of a model need: of those that look so far back, and of those without end.

    They are one where no more is `stored`, in accepted batches, than the former need. `replayed` is
    how many stored batches will be decided on again. Raises AnnotationError.
    """
    some, whole = Needs(0, frozenset(), False), Needs(None, frozenset(), False)
    names = {metric.alias: metric.name for metric in plan.metrics}
    for monitor in plan.monitors:
        kind = find(monitor.kind)
        if kind is None or kind.reach is None:
            continue
        reach = kind.reach(monitor, defaults_of(kind.name, settings, plan))
        watched = kind.derived.union(names[alias] for alias in monitor.metrics)
        if reach.depth is None:
            whole = whole.and_of(reach, watched)
        else:
            some = some.and_of(reach._replace(depth=reach.depth + replayed), watched)
    if not whole.metrics:
        return [some]
    if not some.metrics or (some.depth or 0) >= stored:
        return [whole.and_of(Reach(None, some.segments), some.metrics)]
    # What is read of all batches need not be read of some of them.
    return [
        replace(some, metrics=some.metrics - whole.metrics),
        replace(whole, segments=some.segments or whole.segments),
    ]


def accepted_before(
    ledger: Mapping[str, BatchRecord], batches: Sequence[str], depth: int | None
) -> list[str]:
    """The accepted batches of before a run that its batches look at, oldest first.

    The `batches` of the run are no history until they are checked. Each looks at `depth` batches
    before it, or at all for None.
    """
    again = set(batches)
    accepted = sorted(
        (b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED and b not in again),
        key=batch_order,
    )
    ends = [place_of(batch, accepted) for batch in batches]
    if depth is None:
        return accepted[: max(ends, default=0)]
    seen: set[int] = set()
    for end in set(ends):
        seen.update(range(max(0, end - depth), end))
    return [accepted[place] for place in sorted(seen)]


# Fewer batches than this are no history yet, whatever was found in them.
_HISTORY = 8


def held_back_note(
    model: CheckModel, store: Store, ledger: Mapping[str, BatchRecord], results: Iterable[Result]
) -> tuple[str, ...]:
    """A note when at least half of a model's batches wait for a review, else nothing.

    Its monitors then stay at `still learning` for a reason that their verdicts do not tell. The
    `ledger` has all batches, those of the run included; the `results` are those of the run. Raises
    StorageError.
    """
    flagged = [b for b, record in ledger.items() if record.status is BatchStatus.FLAGGED]
    if len(ledger) < _HISTORY or 2 * len(flagged) < len(ledger):
        return ()
    decided = list(results)
    earlier = set(flagged).difference(r.batch for r in decided)
    columns = ("check_id", "segment", "status")
    failed = [(r.check_id, r.segment) for r in decided if r.status is Status.FAIL]
    failed += [
        (row["check_id"], row["segment"])
        for row in stored_rows(store, RESULTS, model.name, earlier, columns)
        if row["status"] == Status.FAIL.value
    ]
    named, setting = "", "{severity: warn}"
    if failed:
        often = Counter(check for check, _ in failed).most_common(1)[0][0]
        named = f", mostly of {often}"
        if all(segment is not None for check, segment in failed if check == often):
            named, setting = f"{named} on segments", "{segments: false}"
    listed = f"; or see `dqsql review list --select {shlex.quote(model.name)}`"
    if model.config.batch_by is not None:
        listed = f", and run with --full-refresh{listed}"
    elif model.reads_all_rows:
        # What waits is not listed once a later run was accepted.
        listed = ""
    return (
        f"monitors do not learn from {len(flagged):,} of {plural(len(ledger), 'batch')}, because"
        f" they have findings of severity error{named}: correct that check or give it {setting}"
        f"{listed}",
    )

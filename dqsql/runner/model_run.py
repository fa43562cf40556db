"""Checks one model: discover, scan, measure, decide, store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dqsql.compiler.counts import scanned_states
from dqsql.compiler.impact import with_impact
from dqsql.compiler.keys import model_view
from dqsql.compiler.meaning import Meaning, with_meaning
from dqsql.compiler.monitors import for_types
from dqsql.compiler.privacy import pii_columns, require_private
from dqsql.compiler.scan import BatchFilter, Scan
from dqsql.decisions.constraints import sound_batches, unevaluated
from dqsql.decisions.lifecycle import batch_statuses, updated_findings
from dqsql.decisions.reviews import flagged_last, of_same_failures
from dqsql.decisions.streaks import Streaks
from dqsql.engine.batches import BatchChoice, BatchRequest, batch_of_run
from dqsql.engine.discovery import Discovery, FoundBatches
from dqsql.engine.execution import ModelExecution
from dqsql.engine.failing_rows import FailureSampler, Samples, returned_rows
from dqsql.engine.failures import hiding_values
from dqsql.engine.history import stored_of_model, stored_rows
from dqsql.engine.journal import Journal, Work
from dqsql.engine.ledger import (
    batch_record,
    ledger_rows,
    retired_note,
    take_renamed,
    unchecked_note,
)
from dqsql.engine.measurement import Measurement
from dqsql.engine.preparation import prepare
from dqsql.engine.project_key import project_key
from dqsql.engine.quarantine import RowSplitter, Split, outdated_split_note
from dqsql.engine.relations import column_types
from dqsql.engine.rows import Row, model_rows
from dqsql.engine.storage import BatchPart
from dqsql.engine.totals import CumulativeRun, meaning_notes
from dqsql.engine.vanished import with_vanished
from dqsql.engine.verdicts import StoredVerdicts, replaced_rows
from dqsql.errors import error_of
from dqsql.model.batches import batch_order
from dqsql.model.events import COMPILE, DECIDE, DISCOVERY, SCAN, Phases
from dqsql.model.limits import Quarantine, RunLimits
from dqsql.model.plan import Plan
from dqsql.model.project import Project, Scope
from dqsql.model.results import BatchRecord, BatchStatus, ModelResult, Result
from dqsql.model.tables import BATCHES, RESULTS
from dqsql.model.wording import plural
from dqsql.monitors.context import Workplace
from dqsql.monitors.grouping import grouped, joined_results
from dqsql.monitors.in_a_row import miscounted_note, streaks_of
from dqsql.monitors.judging import Judged, MonitorRun, held_back_note
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.notes import learning_note, untimed_note
from dqsql.monitors.rates import ProjectRates
from dqsql.monitors.registry import learn_before_scan, learns_before_scan, with_learned
from dqsql.monitors.uncomputed import UncomputedChecks
from dqsql.runner.stages import (
    ModelVerdicts,
    TestedBatches,
    batch_records,
    before_scan,
    constraints,
    with_known,
    with_rows,
)
from dqsql.runner.warnings import nothing_new_note

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store


@dataclass
class ModelRun:
    """One run of one model. The model's view must be registered.

    What it finds goes to the `journal`. `on_step` is given the model's name and what is being done.
    `ledger` has no batches that are `retired`. With `only_new`, flagged batches of an earlier run
    are no failure of this one. `label` names the batch of a model without `batch_by`; without it,
    the run does. `good` are the rows that were not quarantined, once known, `tested` the batches,
    once it has begun. Runs of models that read the same rows share what they have `discovered`. See
    `prepare` for what is `missing`.
    """

    plan: Plan
    project: Project
    spark: SparkSession
    store: Store
    ledger: dict[str, BatchRecord]
    request: BatchRequest
    run_id: str
    now: dt.datetime
    on_step: Callable[[str, str], None]
    journal: Journal
    retired: Mapping[str, BatchRecord] = field(default_factory=dict)
    limits: RunLimits = field(default_factory=RunLimits)
    rates: ProjectRates = field(default_factory=ProjectRates)
    reviews: Mapping[str, str] = field(default_factory=dict)
    only_new: bool = False
    quarantine: Quarantine | None = None
    label: str | None = None
    good: DataFrame | None = None
    findings: Sequence[Mapping[str, Any]] = ()
    phases: Phases = field(default_factory=Phases)
    discovered: dict[str, FoundBatches] = field(default_factory=dict)
    missing: Collection[str] = ()
    tested: TestedBatches | None = None
    _choice: BatchChoice | None = None
    _batch_type: str = ""
    _looks: int = 0
    _own_batch: str = field(init=False)
    _columns: dict[str, str] = field(default_factory=dict)
    _before: BeforeScan | None = None
    _meaning: Meaning = field(default_factory=Meaning)
    _to_come: frozenset[str] = frozenset()
    _streaks: Streaks = field(default_factory=lambda: Streaks({}, ()))

    def __post_init__(self) -> None:
        # The ledger changes as the run goes on.
        self._own_batch = self.label or batch_of_run(self.now, self.ledger)

    def execute(self) -> ModelResult:
        """Check the model's batches. Raises DqsqlError."""
        with hiding_values(pii_columns(self.plan.model)):
            return self._execute()

    def begin(self) -> BatchChoice:
        """Find the batches to check, and what of them Spark can compute. Raises DqsqlError."""
        with hiding_values(pii_columns(self.plan.model)):
            self.phases.enter(DISCOVERY)
            self._choice, self._batch_type = self._choose()
            if reviewed := self._choice.reviewed:
                plan, again = self.plan, BatchChoice(reviewed, sizes=self._choice.sizes)
                settled = self._analysed(again, learns=False).unchanged(self.store, self._step)
                self.plan, self._choice = plan, self._choice.parted(settled)[0]
            self.phases.enter(COMPILE)
            if self._choice.batches:
                self.tested = self._analysed(self._choice)
            self.phases.until_now()
            return self._choice

    def _execute(self) -> ModelResult:
        choice = self._choice or self.begin()
        self.phases.resume()
        tested = self.tested
        plan = self.plan if tested is None else tested.plan
        owed = [b for b in choice.owed if b not in self._reviewed]
        uncomputed = UncomputedChecks.of(plan, self.store, owed)
        store = self._write if owed else self.journal.add
        self._to_come = frozenset((*owed, *(() if tested is None else tested.batches)))

        def again(part: tuple[str, ...]) -> ModelResult:
            self.plan, self._before = plan, None
            owing = self._analysed(BatchChoice(part, sizes=choice.sizes))
            return self._checked(owing, self._write)

        done = uncomputed.checked_again(() if tested is None else tested.part.errors, again)
        if tested is not None:
            if done is not None:
                self.plan, self._before = plan, None
                tested = self._analysed(tested.choice)
            new = self._checked(tested, store)
            uncomputed.note(new.results)
            done = new if done is None else joined_results(done, new)
        done = done or self._nothing(choice)
        return done if self.only_new else uncomputed.with_unchecked(done)

    def _nothing(self, choice: BatchChoice) -> ModelResult:
        """The result where no batch is to be checked."""
        waiting = () if self.only_new else flagged_last(self.ledger)
        notes = (*choice.notes, *unchecked_note(self.plan, self.store, self.ledger))
        looks, why = self._looks, nothing_new_note(choice, self.request)
        return self._result(notes, skipped=why, scans=looks, waiting=waiting, gone=choice.gone)

    def _checked(self, tested: TestedBatches, store: Callable[[Work], None]) -> ModelResult:
        """Check batches; in parts where monitors learn midway what is to be counted of the rest."""
        replaced, known = self._reopen(tested.batches), (self.store, self.ledger, tested.batches)
        self._streaks = streaks_of(self.plan, self.plan.checks, *known, self._streaks)
        self.phases.enter(SCAN)
        tested.scan(self._step)
        verdicts, sound = self._decided(tested)
        if verdicts.judged.rest:
            first, rest = tested.choice.parted(verdicts.judged.rest)
            self.plan = tested.plan
            done = self._checked(self._analysed(first), self._write)
            self.plan, self._before = tested.plan, None
            return joined_results(done, self._checked(self._analysed(rest), store))
        samples = FailureSampler(
            self.plan, self.spark, self.store, self.limits, self.run_id, self.now
        ).sample(verdicts.all, tested.batch_type, self._columns, self._own_batch)
        of_batches = partial(BatchFilter, spark_type=tested.batch_type, types=self._columns)
        returned = returned_rows(self.plan, self.spark, samples.results, of_batches)
        split = self._split(tested, verdicts)
        store(replace(self._work(tested, verdicts, samples, sound, split), replaced=replaced))
        notes = (*self.plan.notes, *self._notes(tested, verdicts, samples, sound))
        return self._result(
            (*notes, *samples.notes, *returned.notes, *split.notes),
            batches=tested.batches,
            results=tuple(samples.results),
            metrics=len(verdicts.measured.values) + len(verdicts.judged.values),
            scans=self._looks + tested.scans + samples.scans + returned.scans + split.scans,
            returned=returned.rows,
            rows=sum(verdicts.measured.rows.values()),
            waiting=() if self.only_new else tested.waiting,
            empty=tuple(b for b in tested.batches if b not in self.ledger),
        )

    def _split(self, tested: TestedBatches, verdicts: ModelVerdicts) -> Split:
        """Write good and quarantined rows, where that is wanted; before the ledger, always."""
        if self.quarantine is None:
            return Split(notes=outdated_split_note(self.plan.model, tested.before, tested.batches))
        self._step("splitting rows")
        where = self.plan, tested.part.states, self.spark, self.project, self.quarantine
        split = RowSplitter(*where, self.run_id, self.now, verdicts.judged.odd).split(
            verdicts.all,
            BatchFilter(tested.batches, tested.batch_type, self._columns),
            self._own_batch,
            whole=self.plan.model.config.batch_by is None and self.label is None,
            rows=sum(verdicts.measured.rows.values()),
            accepted=self._reviewed,
            # Their rows are among those of the new batches.
            retired=() if tested.before else tuple(self.retired),
        )
        self.good = split.good
        return split

    def _analysed(self, choice: BatchChoice, *, learns: bool = True) -> TestedBatches:
        """What there is to scan, as far as Spark can do it."""
        batches, kind = tuple(sorted(choice.batches, key=batch_order)), self._batch_type
        compiled = self.plan
        self.plan = with_meaning(for_types(self.plan, self._columns), self._columns)
        self._meaning = Meaning.of(self.plan, self._columns, kind, self.project.models)
        if learns:
            self._learn_before_scan(batches)
        self._step(f"analysing {plural(len(self.plan.states), 'aggregate')}")
        prepared = prepare(self.plan, self.spark, self.now, self._columns, self.missing, batches)
        execution = self._execution(choice, kind)
        part = execution.analyse(prepared.states, prepared.broken)
        scanned = {s.name for s in scanned_states(part.states, part.metrics)}
        part.unscanned = frozenset(s.name for s in part.states if s.name not in scanned)
        return TestedBatches(batches, choice, kind, execution, part, dict(self.ledger), compiled)

    def _notes(
        self, tested: TestedBatches, made: ModelVerdicts, samples: Samples, sound: Collection[str]
    ) -> tuple[str, ...]:
        """What a person should know; the ledger has the verdicts."""
        model, results = self.plan.model, samples.results
        notes = (*tested.choice.notes, *meaning_notes(self._meaning, tested.before, tested.batches))
        notes += retired_note(model, self.retired, tested.before, self._meaning, tested.batches)
        notes += (*made.notes, *learning_note(results), *untimed_note(results))
        notes += tested.later_note(sound, self.ledger, self._to_come)
        notes += miscounted_note(self.plan, self.store, self.ledger, results)
        if self.plan.monitors:
            notes += held_back_note(model, self.store, self.ledger, results)
        return notes

    def _learn_before_scan(self, batches: Sequence[str]) -> None:
        """Let monitors learn what is to be counted in the scan."""
        if not learns_before_scan(self.plan):
            return
        if self._before is None:
            self._step("learning patterns")
            self._before = before_scan(self._place(self.ledger), batches, self._reviewed)
            learn_before_scan(self._place(self.ledger), self._before)
        self.plan = with_learned(self.plan, self._before.book)

    def _place(self, ledger: Mapping[str, BatchRecord]) -> Workplace:
        return Workplace(
            spark=self.spark,
            store=self.store,
            project=self.project,
            plan=self.plan,
            ledger=ledger,
            types=self._columns,
            batch_type=self._batch_type,
            label=self._own_batch,
            failures_limit=self.limits.failures_limit,
        )

    def _step(self, text: str) -> None:
        self.on_step(self.plan.model.name, text)

    # --- batches -------------------------------------------------------------------------------

    def _choose(self) -> tuple[BatchChoice, str]:
        model = self.plan.model
        view = model_view(model)
        self._columns = column_types(self.spark, view, model.name)
        require_private(model, tuple(self._columns))
        kind = "string"
        if model.config.batch_by is not None:
            kind = self._execution(BatchChoice(()), kind).batch_type(model.config.batch_by, view)
            self._step("looking for new batches")
        discovered, known = self.discovered, len(self.discovered)
        columns, limits = self._columns, self.limits
        discovery = Discovery(self.spark, self.project, model, limits, kind, columns, discovered)

        def retire(batches: Iterable[str | None]) -> None:
            renamed = take_renamed(self.ledger, Meaning(batch_type=kind), batches)
            self.retired = {**self.retired, **renamed}

        choice = discovery.choose(self.request, self.ledger, self._own_batch, retire)
        self._looks = len(discovered) - known
        how = self.ledger, self.now, columns, limits.reviewed
        return with_known(choice, self.plan, *how), kind

    def _reopen(self, batches: Sequence[str]) -> list[Row]:
        """Mark batches that were checked before as incomplete in the ledger.

        Should the run die half-way, the next one checks them again. Returns their verdicts, and
        those of retired batches of the same names, which new ones will replace.
        """
        again = [b for b in batches if b in self.ledger]
        if again:
            self.ledger.update({batch: self.ledger[batch].reopened for batch in again})
            self.journal.reopen(ledger_rows({**self.retired, **self.ledger}))
        known = [b for b in batches if b in self.ledger or b in self.retired]
        verdicts = stored_rows(self.store, RESULTS, self.plan.model.name, known) if known else []
        return replaced_rows(self.plan, verdicts, self.now)

    # --- statements ----------------------------------------------------------------------------

    def _execution(self, choice: BatchChoice, batch_type: str) -> ModelExecution:
        wanted = tuple(b for b in choice.batches if b not in choice.empty)
        rows = BatchFilter(wanted, batch_type, self._columns)
        known = self._own_batch, choice.empty, self._columns, choice.sizes
        scan = Scan(self.plan.model, (), rows, *known)
        key = partial(project_key, self.project.root)
        return ModelExecution(self.spark, self.store, self.plan, scan, key)

    # --- verdicts and storing ------------------------------------------------------------------

    def _decided(self, tested: TestedBatches) -> tuple[ModelVerdicts, frozenset[str]]:
        """The verdicts, and the batches that count in the cumulative metrics of later ones."""
        self._step("measuring")
        batches = tested.batches
        delta = tested.execution.measure_batches(tested.part.of_scope(Scope.DELTA), batches)
        tested.refuse_lost(delta)
        delta = with_vanished(delta, self.plan, self.store, tested.before, batches, self._reviewed)
        passed = sound_batches(self._constraints(delta, tested), batches, holds=self._holds)
        sound = passed | self._reviewed
        verdicts = self._verdicts(tested, delta, sound)
        stored = partial(stored_rows, self.store, RESULTS, self.plan.model.name)
        kept = of_same_failures(self.reviews, verdicts.all, stored)
        if len(kept) < len(self.reviews):
            self.reviews = kept
            sound = passed | self._reviewed
            verdicts = self._verdicts(tested, delta, sound)
        if verdicts.cumulative is not None:
            rejected = verdicts.rejected(batches, self.reviews)
            if rejected & sound:
                # What is still wrong with a rejected batch was told by monitors, after measuring.
                verdicts = self._verdicts(tested, delta, sound - rejected)
        return verdicts, sound

    def _verdicts(
        self, tested: TestedBatches, delta: Measurement, counting: Collection[str]
    ) -> ModelVerdicts:
        """Decide on batches by `delta`; `counting` of them belong to the totals of later ones."""
        self.phases.enter(SCAN)
        measured, cumulative = delta, None
        if tested.cumulates:
            self._step("merging with earlier batches")
            cumulative = CumulativeRun(
                tested.execution, tested.part, self.ledger, tested.batches, self._meaning
            )
            measured = delta.joined(cumulative.measure(counting))
        self.phases.enter(DECIDE)
        results = self._constraints(measured, tested)
        return ModelVerdicts(measured, results, self._judge(tested, measured, results), cumulative)

    @property
    def _reviewed(self) -> frozenset[str]:
        """The batches that a person accepted."""
        return frozenset(b for b, verdict in self.reviews.items() if verdict == "accept")

    def _judge(
        self, tested: TestedBatches, measured: Measurement, results: Sequence[Result]
    ) -> Judged:
        """Let the monitors learn and decide."""
        if not self.plan.monitors:
            return Judged()
        run = MonitorRun(
            place=self._place(tested.before),
            run_id=self.run_id,
            now=self.now,
            rates=self.rates.rates(self.plan.model.name, tested.batches),
            failed=tested.part.metric_errors,
            accepted_by_review=self._reviewed,
            rejected_by_review=frozenset(b for b, v in self.reviews.items() if v == "reject"),
            before=self._before,
            store_failures=self.limits.store_failures,
            holds=self._holds,
            empty=tested.without_rows,
            finds_new=(self._choice or tested.choice).newest is not None,
            end=self.request.end,
            on_step=self._step,
        )
        return run.judge(tested.batches, measured.values, measured.rows, results)

    @property
    def _holds(self) -> bool:
        """Whether rows are handed on by what is found of their batch."""
        return self.quarantine is not None or self.label is not None

    def _constraints(self, measured: Measurement, tested: TestedBatches) -> list[Result]:
        known = {*self.ledger, *self._to_come}
        results = constraints(measured, self.plan, self._choice, known, self._columns)
        failed = unevaluated(self.plan, tested.part.errors, tested.batches, self._columns)
        return self._streaks.judged([*results, *failed])

    def _write(self, work: Work) -> None:
        """Store what batches leave at once: the next ones of this run look at it."""
        self.journal.write_now(work)
        self.findings = work.findings or self.findings
        records = map(batch_record, stored_of_model(self.store, BATCHES, work.model))
        self.ledger.update({r.batch: r for r in records if r.status is not BatchStatus.RETIRED})

    def _work(
        self,
        tested: TestedBatches,
        made: ModelVerdicts,
        samples: Samples,
        sound: Collection[str],
        split: Split,
    ) -> Work:
        """What is to be stored; the ledger has it from now on.

        `sound` are the batches that count in the cumulative metrics of later ones.
        """
        batches, measured, judged = tested.batches, made.measured, made.judged
        statuses = batch_statuses(samples.results, batches, self.reviews, holds=self._holds)
        for batch in tested.mistyped(statuses, self.reviews):
            del statuses[batch]
            self.ledger.pop(batch, None)
        results = [r for r in samples.results if r.batch in statuses]
        rows = model_rows(measured, judged, samples, self.run_id, self.now, statuses)
        model = self.plan.model.name
        records = batch_records(
            tested, made, results, statuses, rows, self.run_id, self.now, self._meaning.text, sound
        )
        if self.quarantine is not None:
            records = {
                b: replace(r, quarantined=split.counts.get(b, 0)) for b, r in records.items()
            }
        self.ledger.update(records)
        if made.cumulative is not None:
            made.cumulative.store_total()
        store_states = partial(tested.execution.store_states, batches, [*statuses])
        return Work(
            model,
            batches,
            {table: BatchPart(model, mine, batches) for table, mine in rows.items()},
            judged.programs,
            ledger_rows({**self.retired, **self.ledger}),
            self._findings_after(results, batches, {*batches}.difference(statuses)),
            state=store_states if statuses and tested.execution.holds_states else None,
        )

    def _findings_after(
        self, results: Sequence[Result], batches: Sequence[str], dropped: Collection[str]
    ) -> Sequence[Row]:
        ledger = {b: self.ledger[b] for b in with_rows(self.ledger, self._choice)}
        stored = StoredVerdicts(self.store, self.plan.model.name, ledger, batches)
        checks = self.project.known_checks(self.plan.declared_ids, self.findings)
        about = (self.now, checks, self.retired, stored.after, stored.of)
        unaccepted = self.limits.reviewed.difference(self.reviews)
        rows = updated_findings(self.findings, results, *about, dropped, unaccepted) or ()
        readers = self.project.readers
        return with_impact(rows, self.plan.model, readers, self._columns) if readers else rows

    def _result(
        self, notes: tuple[str, ...], results: tuple[Result, ...] = (), **found: Any
    ) -> ModelResult:
        """What was `found`, with what is known of the model at the end of its run."""
        phases, choice = self.phases.until_now(), self._choice or BatchChoice(())
        return ModelResult(
            self.plan.model.name,
            self.plan.model.path,
            results=results,
            groups=grouped(results),
            checks=len(self.plan.declared),
            seconds=sum(phases.values()),
            columns=self._columns,
            phases=phases,
            notes=notes,
            error=error_of(self.plan.rejected) if self.plan.rejected else None,
            unbatched=choice.unbatched,
            unfinished=choice.unfinished,
            no_data=self.plan.model.config.no_data or self.project.no_data,
            **found,
        )

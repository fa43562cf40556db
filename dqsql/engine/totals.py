"""Which batches cumulative metrics are about, and when a running total may stand for them.

Which batches count is said in `BatchRecord.counts`. A total carries a fingerprint of the ledger's
entries of the batches that it is made of. So no crash, late batch, repeated or rejected batch needs
a protocol of its own: whenever the ledger says otherwise than the total, the total is built again
from the rows of the state table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dqsql.compiler.counts import (
    COUNT_TYPES,
    counted_states,
    marks_query,
    tables_of,
    total_counts,
    with_counted,
)
from dqsql.compiler.cumulative import (
    BATCHES,
    batches_without,
    cumulative_states,
    missing_query,
    prefix_query,
    total_query,
)
from dqsql.compiler.meaning import Meaning
from dqsql.dialect import to_sql
from dqsql.engine.cumulative import Kept, StateHistory, total_type
from dqsql.engine.execution import ModelExecution
from dqsql.engine.feasible import Feasible, Measurement
from dqsql.engine.layout import COUNTS, STATES, TableFamily
from dqsql.engine.values import survives_arrow
from dqsql.model.batches import batch_order
from dqsql.model.plan import StateColumn
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, Result, Status
from dqsql.model.wording import plural

# Part of every fingerprint: a change of what totals hold makes the old ones void.
_FORMAT = "1"


@dataclass
class CumulativeRun:
    """The cumulative metrics of one run of a model; `batches` are under test.

    `ledger` is the run's own, which changes as the run goes on. Batches that another `batch_by`
    made do not count, by `meaning`. `notes` are for people.
    """

    execution: ModelExecution
    part: Feasible
    ledger: Mapping[str, BatchRecord]
    batches: tuple[str, ...]
    meaning: Meaning = field(default_factory=Meaning)
    notes: tuple[str, ...] = ()
    _passed: frozenset[str] = frozenset()

    def measure(self, passed: Collection[str]) -> Measurement:
        """The cumulative metrics of the batches under test, of which `passed` count."""
        self._passed = good = frozenset(passed).intersection(self.batches)
        history = self._history(self._parts)
        states = self._states()
        if not states.use(history, good):
            self._note_left_out(self._never_computed(states, history), "these were not measured")
        query = prefix_query(self._merged, len(self.batches), states.view)
        if self._counted:
            counts, of_counts = self._counts(), self._history(self._tables)
            if not counts.use(of_counts, good):
                missing = self._never_counted(counts, of_counts)
                self._note_left_out(missing, "these values were not counted")
            segmented = bool(self.execution.plan.model.config.segment_by)
            query = with_counted(
                query, self._counted, self.batches, counts.view, segmented=segmented
            )
        prefixes = states.query(query)
        return self.execution.measure_rows(self.part.of_scope(Scope.CUMULATIVE), prefixes)

    def store_total(self) -> None:
        """Store the totals of all that counts by the ledger, which has the verdicts of `batches`.

        `measure` must have been called before. Where other batches have come to count since, the
        next run builds the totals.
        """
        counted = self._counting(self.ledger.values())
        names = [r.batch for r in counted]
        if not counted or self._passed != frozenset(names).intersection(self.batches):
            return
        states = self._states()
        total = total_query(self._merged, states.view)
        states.store_total(total, names, fingerprint(counted, self._parts))
        if self._counted:
            counts = self._counts()
            made_of = fingerprint(counted, self._tables)
            counts.store_total(total_counts(counts.view), names, made_of)

    @property
    def _merged(self) -> tuple[StateColumn, ...]:
        return cumulative_states(self.part.states, self.part.metrics)

    @property
    def _counted(self) -> tuple[StateColumn, ...]:
        return counted_states(self.part.states, self.part.metrics)

    @property
    def _parts(self) -> list[str]:
        """What a total of states is made of, besides the batches."""
        ordered = sorted(self._merged, key=lambda s: s.name)
        return [f"{s.name}={to_sql(s.scan)}" for s in ordered]

    @property
    def _tables(self) -> list[str]:
        """What a total of counts is made of, besides the batches."""
        return sorted(tables_of(self._counted))

    def _states(self) -> Kept:
        types = {s.name: total_type(self.part.types[s.name]) for s in self._merged}
        return self._kept(STATES, "history", types)

    def _counts(self) -> Kept:
        return self._kept(COUNTS, "counts of values", COUNT_TYPES)

    def _kept(self, family: TableFamily, view: str, columns: Mapping[str, str]) -> Kept:
        model = self.execution.plan.model.name
        name = f"dqsql__{model}: {view}"
        segmented = bool(self.execution.plan.model.config.segment_by)
        few = not family.large and not segmented and all(map(survives_arrow, columns.values()))
        return Kept(self.execution.spark, self.execution.store, model, family, name, columns, few)

    def _history(self, parts: Iterable[str]) -> StateHistory:
        tested = set(self.batches)
        counted = self._counting(r for r in self.ledger.values() if r.batch not in tested)
        names = tuple(r.batch for r in counted)
        return StateHistory(names, self.batches, fingerprint(counted, parts))

    def _counting(self, records: Iterable[BatchRecord]) -> list[BatchRecord]:
        """The batches that count, in order."""
        same = (r for r in records if r.counts and self.meaning.same_batches(r.fingerprint))
        return sorted(same, key=lambda r: batch_order(r.batch))

    def _never_computed(self, states: Kept, history: StateHistory) -> int:
        """Of how many counted batches a state is missing, or all that was stored of them."""
        if not history.counted:
            return 0
        rows = states.query(missing_query(self._merged, states.view)).toArrow().to_pylist()
        gone = len(history.counted) - int(rows[0][BATCHES])
        return gone + batches_without(rows[0], self._merged)

    def _never_counted(self, counts: Kept, history: StateHistory) -> int:
        """Of how many batches a table of values is missing; each counted batch has its mark."""
        marks = counts.query(marks_query(counts.view)).toArrow()
        have = dict(zip(marks["counted"].to_pylist(), marks["batches"].to_pylist(), strict=True))
        wanted = len(history.counted)
        return max((wanted - have.get(table, 0) for table in self._tables), default=0)

    def _note_left_out(self, batches: int, why: str) -> None:
        """Say that checks came later than batches which their metrics are about."""
        if batches > 0:
            earlier = plural(batches, "earlier batch")
            self.notes += (
                f"cumulative metrics leave out {earlier}, in which {why} yet;"
                " --full-refresh checks all batches again",
            )


def sound_batches(results: Iterable[Result], batches: Sequence[str]) -> frozenset[str]:
    """The batches on which no check failed.

    `results` are those of checks of scope `delta` alone: see `BatchRecord.counts`.
    """
    failed = {r.batch for r in results if r.status is Status.FAIL}
    return frozenset(b for b in batches if b not in failed)


def fingerprint(counted: Iterable[BatchRecord], parts: Iterable[str]) -> str:
    """What a total is made of: the batches, the run that computed each, and `parts` of these."""
    digest = hashlib.sha256(_FORMAT.encode())
    for record in sorted(counted, key=lambda r: batch_order(r.batch)):
        digest.update(f"\n{record.batch}\t{record.run_id}".encode())
    for part in parts:
        digest.update(f"\n{part}".encode())
    return digest.hexdigest()


def meaning_notes(
    meaning: Meaning, before: Mapping[str, BatchRecord], batches: Collection[str]
) -> tuple[str, ...]:
    """What a model's batches and columns are made of otherwise than the newest batch before.

    `before` is the ledger of before the run, `batches` are those that are checked again.
    """
    earlier = [r for b, r in before.items() if b not in set(batches) and r.fingerprint]
    if not earlier:
        return ()
    last = max(earlier, key=lambda r: batch_order(r.batch))
    return tuple(
        f"{change}: cumulative metrics leave out earlier batches of it;"
        " --full-refresh checks all batches again"
        for change in meaning.changes(last.fingerprint)
    )


def outdated_note(
    before: Mapping[str, BatchRecord], sound: Collection[str], batches: Sequence[str]
) -> tuple[str, ...]:
    """Say when stored cumulative values of later batches were measured without these batches.

    `before` is the ledger before the run that checked `batches`.
    """
    changed = [b for b in batches if b in sound or (b in before and before[b].counts)]
    if not changed:
        return ()
    first = min(changed, key=batch_order)
    tested = set(batches)
    # Without rows, none is found by its time.
    known = [b for b, record in before.items() if record.rows and b not in tested]
    later = [b for b in known if batch_order(b) > batch_order(first)]
    if not later:
        return ()
    those = plural(len(later), "later batch", "later batches")
    return (
        f"the cumulative metrics of {those} were measured before this run;"
        f" measure them again with --event-time-start '{first}'",
    )

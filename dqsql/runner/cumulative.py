"""Which batches cumulative metrics are about, and when a running total may stand for them.

Which batches count is said in `BatchRecord.counts`. A total carries a fingerprint of the ledger's
entries of the batches that it is made of. So no crash, late batch, repeated or rejected batch needs
a protocol of its own: whenever the ledger says otherwise than the total, the total is built again
from the rows of the state table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dqsql.compiler.cumulative import cumulative_states, prefix_query, total_query
from dqsql.dialect import to_sql
from dqsql.engine.cumulative import CumulativeExecution, History
from dqsql.engine.execution import Feasible, Measurement, ModelExecution
from dqsql.engine.layout import batch_order
from dqsql.model.plan import StateColumn
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, Result, Status

# Part of every fingerprint: a change of what totals hold makes the old ones void.
_FORMAT = "1"


@dataclass
class CumulativeRun:
    """The cumulative metrics of one run of a model; `batches` are under test.

    `ledger` is the run's own, which changes as the run goes on.
    """

    execution: ModelExecution
    part: Feasible
    ledger: Mapping[str, BatchRecord]
    batches: tuple[str, ...]

    def measure(self, passed: Collection[str]) -> Measurement:
        """The cumulative metrics of the batches under test, of which `passed` count."""
        history = self._history()
        merging = self._merging()
        merging.use(history, frozenset(passed))
        prefixes = merging.prefix_states(history)
        return self.execution.measure_rows(self.part.of_scope(Scope.CUMULATIVE), prefixes)

    def store_total(self) -> None:
        """Store the total of all that counts by the ledger, which has the verdicts of `batches`.

        `measure` must have been called before.
        """
        counted = _counted(self.ledger.values())
        if counted:
            names = [r.batch for r in counted]
            self._merging().store_total(names, fingerprint(counted, self._states))

    @property
    def _states(self) -> tuple[StateColumn, ...]:
        return cumulative_states(self.part.states, self.part.metrics)

    def _merging(self) -> CumulativeExecution:
        return CumulativeExecution(
            spark=self.execution.spark,
            store=self.execution.store,
            model=self.execution.plan.model.name,
            states=self._states,
            types=self.part.types,
            view=f"dqsql__{self.execution.plan.model.name}: history",
            prefixes=prefix_query,
            total=total_query,
        )

    def _history(self) -> History:
        tested = set(self.batches)
        counted = _counted(r for r in self.ledger.values() if r.batch not in tested)
        names = tuple(r.batch for r in counted)
        return History(names, self.batches, fingerprint(counted, self._states))


def sound_batches(results: Iterable[Result], batches: Sequence[str]) -> frozenset[str]:
    """The batches on which no check failed.

    `results` are those of checks of scope `delta` alone: see `BatchRecord.counts`.
    """
    failed = {r.batch for r in results if r.status is Status.FAIL}
    return frozenset(b for b in batches if b not in failed)


def fingerprint(counted: Iterable[BatchRecord], states: Iterable[StateColumn]) -> str:
    """What a total is made of: the batches, the run that computed each, and the states."""
    digest = hashlib.sha256(_FORMAT.encode())
    for record in sorted(counted, key=lambda r: batch_order(r.batch)):
        digest.update(f"\n{record.batch}\t{record.run_id}".encode())
    for state in sorted(states, key=lambda s: s.name):
        digest.update(f"\n{state.name}={to_sql(state.scan)}".encode())
    return digest.hexdigest()


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
    later = [b for b in before if b not in tested and batch_order(b) > batch_order(first)]
    if not later:
        return ()
    return (
        f"the cumulative metrics of {len(later):,} later batches were measured before this run;"
        f" measure them again with --event-time-start '{first}'",
    )


def _counted(records: Iterable[BatchRecord]) -> list[BatchRecord]:
    return sorted((r for r in records if r.counts), key=lambda r: batch_order(r.batch))

"""What the stages of a model's run hand on: the batches under test, then the verdicts on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dqsql.engine.execution import Feasible, Measurement, ModelExecution
from dqsql.engine.totals import CumulativeRun
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, BatchStatus, Result
from dqsql.monitors.judging import Judged
from dqsql.runner.batches import BatchChoice
from dqsql.runner.verdicts import batch_statuses


@dataclass(frozen=True)
class TestedBatches:
    """The batches under test, oldest first, and what Spark can compute of them.

    `before` is the ledger of before the run. `part` shrinks as Spark refuses more of it.
    """

    batches: tuple[str, ...]
    choice: BatchChoice
    batch_type: str
    execution: ModelExecution
    part: Feasible
    before: Mapping[str, BatchRecord]

    @property
    def cumulates(self) -> bool:
        """Whether earlier batches are looked at, too."""
        return any(m.scope is Scope.CUMULATIVE for m in self.part.metrics)


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

"""The monitors of a project outside a run: with everything that is stored, and no data scanned."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from dqsql.compiler.keys import model_view
from dqsql.compiler.monitors import for_types
from dqsql.engine.ledger import read_ledgers
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchRecord
from dqsql.monitors.context import MonitorContext, Workplace
from dqsql.monitors.judging import MonitorRun, stored_book
from dqsql.monitors.registry import with_learned
from dqsql.monitors.replay import Replayer
from dqsql.runner.rates import project_fpr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


L = TypeVar("L", bound=Replayer)


@dataclass(frozen=True)
class Learners(Generic[L]):
    """The learners of one model by kind of monitor, and what they know."""

    plan: Plan
    context: MonitorContext
    by_kind: Mapping[str, L]


@dataclass(frozen=True)
class Stored:
    """What is stored of a project's models: their ledgers, and the rate of monitors without one."""

    project: Project
    spark: SparkSession
    store: Store
    ledgers: Mapping[str, Mapping[str, BatchRecord]]
    fpr: float

    @classmethod
    def read(
        cls, project: Project, plans: Sequence[Plan], spark: SparkSession, store: Store
    ) -> Stored:
        """Read the ledgers. Raises DqsqlError."""
        ledgers = read_ledgers(store)
        return cls(project, spark, store, ledgers, project_fpr(project, plans, ledgers))

    def ledger(self, plan: Plan) -> Mapping[str, BatchRecord]:
        """The batches of a model that were checked."""
        return self.ledgers.get(plan.model.name, {})

    def learners(
        self,
        plan: Plan,
        run_id: str,
        now: dt.datetime,
        makers: Mapping[str, Callable[[Workplace, MonitorContext], L]],
        replayed: int = 0,
    ) -> Learners[L]:
        """The learners of a model, whose history ends behind its newest accepted batch.

        `makers` make them, by kind of monitor. `replayed` is how many of the newest batches they
        will decide on.
        Spark looks at the model's columns, not at its rows. Raises DqsqlError.
        """
        types, batch_type = self._types(plan)
        book = stored_book(self.store, plan.model.name)
        typed = for_types(plan, types)
        run = MonitorRun(
            place=Workplace(
                spark=self.spark,
                store=self.store,
                project=self.project,
                plan=with_learned(typed, book),
                ledger=self.ledger(plan),
                types=types,
                batch_type=batch_type,
            ),
            run_id=run_id,
            now=now,
            fpr=self.fpr,
            book=book,
            replayed=replayed,
        )
        context = run.after_all()
        kinds = {m.kind for m in plan.monitors}
        by_kind = {k: make(run.place, context) for k, make in makers.items() if k in kinds}
        return Learners(run.place.plan, context, by_kind)

    def _types(self, plan: Plan) -> tuple[Mapping[str, str], str]:
        """The Spark types of the model's columns, and of its batches."""
        from dqsql.engine.relations import column_types, expression_types, register_model

        model = plan.model
        register_model(self.spark, self.project, model)
        view = model_view(model)
        types = column_types(self.spark, view, model.name)
        if model.config.batch_by is None:
            return types, "string"
        return types, expression_types(self.spark, view, [model.config.batch_by], model.name)[0]


def learnable(plans: Sequence[Plan], kinds: Collection[str]) -> Iterator[Plan]:
    """The plans with monitors of some kinds: those that learn."""
    return (p for p in plans if any(m.kind in kinds for m in p.monitors))

"""Monitors outside a run, with all that is stored: learning anew from all accepted batches."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, TypeVar, Unpack

from dqsql.compiler.keys import model_view
from dqsql.compiler.monitors import for_types
from dqsql.engine.exclusive import locked
from dqsql.engine.ledger import read_ledgers
from dqsql.errors import DqsqlError
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchRecord
from dqsql.model.tables import PROGRAMS
from dqsql.monitors.context import MonitorContext, Workplace
from dqsql.monitors.judging import MonitorRun, stored_book
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.rates import ProjectRates, project_rates
from dqsql.monitors.registry import learners, with_learned
from dqsql.monitors.replay import Learned, Replayer
from dqsql.runner.warehouse import Access, Step, open_tables, open_warehouse, opened
from dqsql.selection.choosing import chosen_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


L = TypeVar("L", bound=Replayer)


@dataclass(frozen=True)
class Stored:
    """What is stored of a project's models: their ledgers; the rates of monitors without any."""

    project: Project
    spark: SparkSession
    store: Store
    ledgers: Mapping[str, Mapping[str, BatchRecord]]
    rates: ProjectRates

    @classmethod
    def read(
        cls, project: Project, plans: Sequence[Plan], spark: SparkSession, store: Store
    ) -> Stored:
        """Read the ledgers. Raises DqsqlError."""
        ledgers = read_ledgers(store)
        return cls(project, spark, store, ledgers, project_rates(project, plans, ledgers))

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
    ) -> tuple[MonitorContext, Mapping[str, L]]:
        """What is known behind the newest accepted batch of a model, and its learners by kind.

        `makers` make these. `replayed` is how many of the newest batches they will decide on.
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
            rates=self.rates.rates(plan.model.name),
            before=BeforeScan(book),
            replayed=replayed,
        )
        context = run.after_all()
        kinds = {m.kind for m in plan.monitors}
        return context, {k: make(run.place, context) for k, make in makers.items() if k in kinds}

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


@dataclass(frozen=True)
class ModelFit:
    """What the monitors of one model have learned; `error` says what of it could not be tried."""

    model: str
    learned: tuple[Learned, ...] = ()
    error: DqsqlError | None = None


def fit(
    project_dir: str | PathLike[str] = ".",
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    dbt_tests: bool | None = None,
    show: bool = False,
    **at: Unpack[Access],
) -> tuple[ModelFit, ...]:
    """Learn the bounds of all monitors that learn, and store them in `dq_programs`.

    Learns from what runs have stored about accepted batches. Of the data, it only reads a sample of
    the newest accepted batch, to inject issues into. Every run learns; this renews the injected
    issues, and shows the bounds that the next batch will be compared with.

    Args:
        project_dir: folder of the project.
        select: models, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        **at: `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and `step`
            (called with what is being done).
        dbt_tests: adopt the generic tests of a dbt project; None: as in its settings.
        show: do not learn, but return what is stored; only reads the tables.

    Returns:
        The selected models that have such monitors.

    Raises:
        DqsqlError: the project is wrong, a run of one of the models is active, or Spark cannot be
            started.
    """
    where, spark, step = opened({**at, "project_dir": project_dir})
    compiled = where.compile(select=select, exclude=exclude, dbt_tests=dbt_tests)
    compiled.raise_unless_sound()
    chosen_names(compiled.project, select, exclude)
    plans = [
        p for p in compiled.plans if p.rejected or any(m.kind in learners() for m in p.monitors)
    ]
    if not plans:
        return ()
    if show:
        with open_tables(compiled.project, spark, step) as store:
            return tuple(_shown(store, plan) for plan in plans)
    names = [plan.model.name for plan in plans]
    with (
        locked(compiled.project.target, names),
        open_warehouse(compiled.project, spark, step, (), writes=True) as (session, store),
    ):
        stored = Stored.read(compiled.project, compiled.plans, session, store)
        now, run_id = dt.datetime.now(dt.UTC), str(uuid.uuid4())
        return tuple(_fit_model(stored, plan, run_id, now, step) for plan in plans)


def _shown(store: Store, plan: Plan) -> ModelFit:
    """What runs have learned for one model."""
    book = stored_book(store, plan.model.name)
    monitors = [m for m in plan.monitors if m.kind in learners()]
    learned = tuple(Learned(m, book.current(m.id)) for m in monitors)
    return ModelFit(plan.model.name, learned, plan.error)


def _fit_model(stored: Stored, plan: Plan, run_id: str, now: dt.datetime, step: Step) -> ModelFit:
    """Learn the programs of one model; what goes wrong with it does not stop the others."""
    name = plan.model.name
    if plan.blocked:
        return ModelFit(name, error=plan.error)
    step(f"{name}: learning")
    try:
        context, by_kind = stored.learners(plan, run_id, now, learners())
        learned = [one for learner in by_kind.values() for one in learner.learn()]
        known = [m.id for m in plan.monitors]
        rows = context.programs.rows(name, known, run_id, now)
        if rows:
            stored.store.replace_partition(PROGRAMS, rows)
    except DqsqlError as error:
        return ModelFit(name, error=error)
    return ModelFit(name, tuple(learned), plan.error)

"""Learns the programs of monitors from all accepted batches, outside a run."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from dqsql.engine.exclusive import locked
from dqsql.errors import DqsqlError
from dqsql.model.plan import Plan
from dqsql.model.tables import PROGRAMS
from dqsql.monitors.judging import stored_book
from dqsql.monitors.registry import learners
from dqsql.monitors.replay import Learned
from dqsql.runner.compilation import Place
from dqsql.runner.learners import Stored, learnable
from dqsql.runner.warehouse import Step, open_tables, open_warehouse, silent
from dqsql.runner.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class ModelFit:
    """What the monitors of one model have learned; `error` is set when it could not be tried."""

    model: str
    learned: tuple[Learned, ...] = ()
    error: DqsqlError | None = None


def fit(
    project_dir: str | PathLike[str] = ".",
    *,
    spark: SparkSession | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    dbt_tests: bool | None = None,
    show: bool = False,
    step: Step = silent,
    **place: Unpack[Place],
) -> tuple[ModelFit, ...]:
    """Learn the programs of all monitors that learn, and store them in `dq_programs`.

    History is what runs have stored of accepted batches. Only a sample of the newest of them is
    read, to inject issues into. Runs learn by themselves; this renews the injected issues, and
    shows what the next batch will be held against.

    Args:
        project_dir: folder of the project.
        spark: an existing session to use.
        select: models, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        **place: target, profile and variables, as in `Place`.
        dbt_tests: adopt the generic tests of a dbt project; None: as its settings say.
        show: learn nothing and return what is stored; reads the tables only.
        step: is told what is being done.

    Returns:
        The selected models that have such monitors.

    Raises:
        DqsqlError: the project is wrong, a run of one of the models is at work, or Spark cannot be
            started.
    """
    where = Where(project_dir, **place)
    compiled = where.compile(select=select, exclude=exclude, dbt_tests=dbt_tests)
    compiled.raise_errors()
    plans = list(learnable(compiled.plans, learners()))
    if not plans:
        return ()
    if show:
        with open_tables(compiled.project, spark, step) as store:
            return tuple(_shown(store, plan) for plan in plans)
    names = [plan.model.name for plan in plans]
    with (
        locked(compiled.project.target, names),
        open_warehouse(compiled.project, spark, step) as (session, store),
    ):
        stored = Stored.read(compiled.project, compiled.plans, session, store)
        now, run_id = dt.datetime.now(dt.UTC), str(uuid.uuid4())
        return tuple(_fit_model(stored, plan, run_id, now, step) for plan in plans)


def _shown(store: Store, plan: Plan) -> ModelFit:
    """What runs have learned for one model."""
    book = stored_book(store, plan.model.name)
    monitors = [m for m in plan.monitors if m.kind in learners()]
    return ModelFit(plan.model.name, tuple(Learned(m, book.current(m.id)) for m in monitors))


def _fit_model(stored: Stored, plan: Plan, run_id: str, now: dt.datetime, step: Step) -> ModelFit:
    """Learn the programs of one model; what goes wrong with it does not stop the others."""
    name = plan.model.name
    step(f"{name}: learning")
    try:
        work = stored.learners(plan, run_id, now, learners())
        learned = [one for learner in work.by_kind.values() for one in learner.learn()]
        known = [m.id for m in plan.monitors]
        rows = work.context.programs.rows(name, known, run_id, now)
        if rows:
            stored.store.replace_partition(PROGRAMS, rows)
    except DqsqlError as error:
        return ModelFit(name, error=error)
    return ModelFit(name, tuple(learned))

"""Replays monitors over what is stored: how often they would have fired, and what they catch."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Unpack

from dqsql.engine.history import stored_metrics, stored_rows
from dqsql.errors import DqsqlError, UsageError
from dqsql.model.batches import batch_order
from dqsql.model.plan import Plan
from dqsql.model.results import BatchStatus
from dqsql.model.tables import RESULTS
from dqsql.monitors.rates import cadence
from dqsql.monitors.registry import replayers
from dqsql.monitors.replay import Replayed, as_decided, replays_of
from dqsql.runner.fit import Stored
from dqsql.runner.warehouse import Access, Step, open_warehouse, opened
from dqsql.selection.choosing import chosen_names

NEWEST = 90
_DAYS_PER_MONTH = 365.25 / 12
# Batches that were not checked whole say nothing of monitors.
_REPLAYED = (BatchStatus.ACCEPTED, BatchStatus.FLAGGED, BatchStatus.REJECTED)


@dataclass(frozen=True)
class ModelBacktest:
    """The monitors of one model, replayed.

    Attributes:
        model: its name.
        first: oldest batch decided on, None without any.
        last: newest batch decided on.
        batches_per_month: how often batches come.
        fpr: the rate at which monitors of columns run that name none.
        replayed: every monitor at every rate.
        rejected: the batches that a person rejected: what a monitor has to find.
        metrics: number of metrics that the monitors watch, computed for every batch.
        seconds: processor time of the replay for each monitor, rate and batch.
        error: what could not be tried of it, and why.
    """

    model: str
    first: str | None = None
    last: str | None = None
    batches_per_month: float | None = None
    fpr: float | None = None
    replayed: tuple[Replayed, ...] = ()
    rejected: frozenset[str] = frozenset()
    metrics: int = 0
    seconds: float | None = None
    error: DqsqlError | None = None

    def alarms_per_month(self, replayed: Replayed) -> float | None:
        """Expected alarms of a monitor a month on accepted batches; None without any."""
        rate = replayed.alarm_rate
        if rate is None or self.batches_per_month is None:
            return None
        return rate * self.batches_per_month

    def rejected_by(self, replayed: Replayed) -> tuple[int, int]:
        """Of the batches that a person rejected: how many a monitor flags, and decided on."""
        flagged, all_of = (self.rejected.intersection(b) for b in (replayed.found, replayed.others))
        return len(flagged), len(all_of)


def backtest(
    project_dir: str | PathLike[str] = ".",
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    rates: Sequence[float] | None = None,
    newest: int = NEWEST,
    dbt_tests: bool | None = None,
    **at: Unpack[Access],
) -> tuple[ModelBacktest, ...]:
    """Replay monitors over stored batches, each learning from the accepted ones before it.

    Reads only stored metrics and stored injected issues. Batches with findings that nobody has
    reviewed, and rejected ones, are judged, but monitors do not learn from them, and alarms on them
    do not count as false.

    Args:
        project_dir: folder of the project.
        select: models, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        rates: false-positive rates to try, each in (0, 1); None: 0.001, 0.01 and 0.05, and the one
            that each monitor decides by in runs.
        newest: how many of the newest batches to judge.
        **at: `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and `step`
            (called with what is being done).
        dbt_tests: adopt the generic tests of a dbt project; None: as in its settings.

    Returns:
        The selected models that have monitors. For monitors that cannot be replayed, what runs
        decided.

    Raises:
        DqsqlError: the project or an argument is wrong, or Spark cannot be started.
    """
    for rate in rates or ():
        if not 0 < rate < 1:
            raise UsageError(f"a false-positive rate is between 0 and 1, not {rate!r}")
    if (rates is not None and not rates) or newest < 1:
        raise UsageError("a backtest needs a rate and a batch")
    where, spark, step = opened({**at, "project_dir": project_dir})
    compiled = where.compile(select=select, exclude=exclude, dbt_tests=dbt_tests)
    compiled.raise_unless_sound()
    chosen_names(compiled.project, select, exclude)
    plans = [plan for plan in compiled.plans if plan.monitors or plan.rejected]
    if not plans:
        return ()
    with open_warehouse(compiled.project, spark, step, ()) as (session, store):
        stored = Stored.read(compiled.project, compiled.plans, session, store)
        asked = None if rates is None else tuple(dict.fromkeys(rates))
        work = _Backtest(stored, asked, newest, step)
        return tuple(work.model(plan) for plan in plans)


@dataclass(frozen=True)
class _Backtest:
    stored: Stored
    rates: tuple[float, ...] | None
    newest: int
    step: Step

    def model(self, plan: Plan) -> ModelBacktest:
        """Replay one model; what goes wrong with it does not stop the others."""
        if plan.blocked:
            return ModelBacktest(plan.model.name, error=plan.error)
        self.step(f"{plan.model.name}: replaying")
        try:
            return self._model(plan)
        except DqsqlError as error:
            return ModelBacktest(plan.model.name, error=error)

    def _model(self, plan: Plan) -> ModelBacktest:
        name = plan.model.name
        ledger = self.stored.ledger(plan)
        batches = sorted((b for b, r in ledger.items() if r.status in _REPLAYED), key=batch_order)[
            -self.newest :
        ]
        rejected = {b for b in batches if ledger[b].status is BatchStatus.REJECTED}
        flagged = rejected | {b for b in batches if ledger[b].status is BatchStatus.FLAGGED}
        now = dt.datetime.now(dt.UTC)
        context, learners = self.stored.learners(plan, "", now, replayers(), self.newest)
        # They are no part of the learners' history.
        measured = stored_metrics(self.stored.store, name, sorted(flagged))
        context.history.add_metrics(measured)
        start = time.process_time()
        replayed = [
            one
            for learner in learners.values()
            for one in replays_of(learner, batches, flagged, self.rates)
        ]
        seconds = time.process_time() - start
        others = [m for m in context.plan.monitors if m.kind not in learners]
        results = stored_rows(self.stored.store, RESULTS, name, batches if others else ())
        decided = sum(r.accepted + r.flagged for r in replayed)
        watched = {a for m in context.plan.monitors for a in m.metrics}
        return ModelBacktest(
            model=name,
            first=batches[0] if batches else None,
            last=batches[-1] if batches else None,
            batches_per_month=cadence(ledger) * _DAYS_PER_MONTH,
            fpr=self.stored.rates.rates(name).of_columns,
            replayed=(*replayed, *as_decided(others, results, batches, flagged)),
            rejected=frozenset(rejected),
            metrics=len(watched),
            seconds=seconds / decided if decided else None,
            error=plan.error,
        )

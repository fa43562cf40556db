"""One run of a project: its models one after the other, or several at a time, then the tables."""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dqsql.compiler.auto import lacks_columns
from dqsql.compiler.keys import model_view
from dqsql.decisions.reviews import flagged_last
from dqsql.engine.batches import BatchRequest
from dqsql.engine.exclusive import locked
from dqsql.engine.head_start import remember
from dqsql.engine.inputs import forget_inputs, store_inputs, stored_inputs
from dqsql.engine.journal import Journal
from dqsql.engine.lazy_session import LazySession
from dqsql.engine.ledger import (
    read_ledgers,
    refuse_unsound,
    take_retired,
    unreported_failures,
    versions_after,
)
from dqsql.engine.registered import Registered
from dqsql.engine.rows import Row, model_run_row, run_row, store_dimensions
from dqsql.engine.small import Scale
from dqsql.engine.storage import open_store
from dqsql.errors import ConnectionLostError, DqsqlError, error_of
from dqsql.loading.dbt.rebuilds import reopen_rebuilt
from dqsql.model.events import START, WRITE, Phases, RunListener
from dqsql.model.limits import Quarantine, limits_of, quarantine_of, refuse_shared_tables
from dqsql.model.monitors import COLUMN_TYPES
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel, Project
from dqsql.model.results import (
    CONNECTION_LOST,
    FAIL_FAST,
    INTERRUPTED,
    BatchRecord,
    ModelResult,
    RunResult,
    Status,
)
from dqsql.model.routes import SETTING, read_routes
from dqsql.model.tables import ALL_TABLES, MODEL_RUNS, RUNS
from dqsql.monitors.auto import is_open, keep_columns, with_columns, with_columns_of_spark
from dqsql.monitors.rates import ProjectRates, project_rates
from dqsql.report.openlineage import send_lineage
from dqsql.runner.changes import ChangeFinder, Changes
from dqsql.runner.compilation import CompileResult, git_sha, recompiled
from dqsql.runner.concurrency import InOrder
from dqsql.runner.notify import AfterRun, notify_due
from dqsql.runner.request import RunRequest
from dqsql.runner.review import heed_people, resolve_gone
from dqsql.runner.tables import gone_names
from dqsql.runner.warehouse import ensure_target, refuse_foreign_method
from dqsql.runner.warnings import gone_warnings, model_warnings, project_warnings
from dqsql.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage_base import Store
    from dqsql.runner.model_run import ModelRun
    from dqsql.runner.together import Together


# More models at a time than this only wait for each other, on however many cores.
_MOST_THREADS = 4


def run_project(
    request: RunRequest,
    spark: SparkSession | None,
    listener: RunListener,
    compiled: CompileResult | None = None,
) -> RunResult:
    """Check the new batches of a project; see `dqsql.run`. Raises DqsqlError."""
    request.check()
    compiled = compiled or request.compiled()
    request.check_models(compiled.project)
    if request.fail_fast:
        compiled.raise_errors()
    compiled.raise_unless_sound()
    if spark is None:
        refuse_foreign_method(compiled.project.target)
    models = [p.model for p in compiled.plans]
    refuse_shared_tables(models, compiled.project, request.quarantine)
    read_routes(compiled.project.settings.get(SETTING))
    ensure_target(compiled.project)
    arguments = request.arguments(compiled.project)
    return ProjectRun(compiled, request, listener, arguments).execute(spark)


@dataclass
class ProjectRun:
    """One run of a compiled project.

    Afterwards `ledgers` are those of all models, and `good` the rows that were not quarantined, by
    model.
    """

    compiled: CompileResult
    request: RunRequest
    listener: RunListener
    arguments: Mapping[str, Any]
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    ledgers: dict[str, dict[str, BatchRecord]] = field(default_factory=dict, init=False)
    good: dict[str, DataFrame] = field(default_factory=dict, init=False)
    _reviews: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    _findings: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    _retired: Mapping[str, Mapping[str, BatchRecord]] = field(default_factory=dict)
    _rates: ProjectRates = field(default_factory=ProjectRates)
    _changes: Changes = field(default_factory=Changes)
    _unreported: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _registered: Registered = field(default_factory=Registered, init=False)
    _by_columns_of_now: dict[str, Plan] = field(default_factory=dict, init=False)
    _together: Mapping[str, Together] = field(default_factory=dict, init=False)

    @property
    def _project(self) -> Project:
        return self.compiled.project

    def _threads(self, small: bool) -> int:
        """How many models are checked at a time: of little data, twice as many as there are cores.

        Python and Spark wait for each other. What is told does not depend on it, but what is not
        begun any more after a failure would.
        """
        if self.request.fail_fast:
            return 1
        asked = self.request.threads or self._project.target.threads
        return asked or (min(2 * (os.cpu_count() or 1), _MOST_THREADS) if small else 1)

    def execute(self, spark: SparkSession | None) -> RunResult:
        """Run it. Raises DqsqlError."""
        plans = self.compiled.plans
        checks = sum(len(p.declared) for p in plans)
        self.listener.run_started(self.run_id, len(plans), checks, self._project.target.name)
        if not plans:
            warnings = (
                *project_warnings(self._project),
                "nothing to do: no model with checks is selected",
            )
            result = self._result((), {}, warnings)
            self.listener.run_finished(result)
            return result
        log_dir = self._project.log_dir
        with (
            locked(self._project.target, [p.model.name for p in plans]),
            LazySession(
                self._project.target,
                log_dir,
                spark,
                self.listener.session_starting,
                self.listener.tasks_done,
            ) as session,
        ):
            result = self._run_models(session)
        if spark is None:
            remember(vars(self.request.where), self._changes.watched)
        problems = send_lineage(self._project, plans, result)
        result = replace(result, warnings=(*result.warnings, *problems))
        self.listener.run_finished(result)
        return result

    def _tell_begun(self) -> None:
        """Tell, once, what the run leaves should it die from now on."""
        begun, self.listener.begun = self.listener.begun, None
        if begun is not None:
            models = [p.model for p in self.compiled.plans]
            left = (ModelResult(m.name, m.path, skipped=INTERRUPTED) for m in models)
            begun(self._result(tuple(left), {}, ()))

    def _run_models(self, session: LazySession) -> RunResult:
        self._learn_columns(session)
        store = open_store(session, self._project.target)
        journal = Journal(store)
        known = self._read_history(store)
        before = stored_inputs(store)
        self._changes = ChangeFinder(
            self.compiled, self.request, self.ledgers, self._reviews, before, self.started
        ).find()
        session.scale = self._changes.scale
        self.listener.inputs_found(self._changes.sizes)
        models = self._checked(session, journal)
        versions = {"dqsql": VERSION}
        if session.version is not None:
            versions["spark"] = session.version
        of_files = self._registered.notes if any(m.batches for m in models) else ()
        warnings = (*project_warnings(self._project), *model_warnings(models), *of_files)
        result = self._result(models, versions, warnings)
        if any(m.error is None or m.results for m in models):
            result = self._kept(result, session, journal, known)
        elif known:
            with suppress(DqsqlError):
                store.append(MODEL_RUNS, self._model_run_rows(result, session, journal))
        store.tidy()
        return replace(result, phases={START: session.seconds, WRITE: journal.seconds})

    def _read_history(self, store: Store) -> set[str]:
        """Read what earlier runs and people have left; returns the models that have batches."""
        names = [p.model.name for p in self.compiled.plans]
        self.ledgers = ledgers = read_ledgers(store)
        if not self.request.full_refresh:
            refuse_unsound(store, ledgers, names, self._project.name)
        reviews, self._findings = heed_people(store, ledgers, names, self.started)
        self._reviews = {
            model: {batch: row["verdict"] for batch, row in rows.items()}
            for model, rows in reviews.items()
        }
        self._retired = {
            p.model.name: take_retired(ledgers.setdefault(p.model.name, {}), p.model)
            for p in self.compiled.plans
        }
        self._rates = project_rates(self._project, self.compiled.plans, ledgers)
        self._unreported = unreported_failures(store, {n: ledgers[n] for n in names})
        return {model for model, ledger in ledgers.items() if ledger}

    def _checked(self, session: LazySession, journal: Journal) -> tuple[ModelResult, ...]:
        """Check the models, and store what is found."""
        plans = self.compiled.plans
        models: list[ModelResult] = []
        lost: list[str] = []
        order = InOrder(self.listener, self._threads(session.scale is not Scale.ANY))
        self._together = self._sharing()

        def work(plan: Plan) -> ModelResult:
            if plan.blocked and not is_open(plan.model):
                return ModelResult(plan.model.name, plan.model.path, error=error_of(plan.rejected))
            not_begun = ModelResult(plan.model.name, plan.model.path, skipped=CONNECTION_LOST)
            if lost:
                return not_begun
            if self.request.fail_fast and any(
                m.status in (Status.FAIL, Status.ERROR) for m in models
            ):
                return ModelResult(plan.model.name, plan.model.path, skipped=FAIL_FAST)
            ledger = self.ledgers.setdefault(plan.model.name, {})
            if plan.model.name in self._changes.unchanged:
                return self._nothing_new(plan, ledger)
            spark = session()
            self._tell_begun()
            result = self._run_model(plan, spark, journal, order.step)
            if not isinstance(result.error, ConnectionLostError):
                return result
            # One error says it for all models that were at work.
            lost.append(plan.model.name)
            return result if lost[0] == plan.model.name or result.results else not_begun

        with journal.writing_in_time():
            for model in order.run(plans, work):
                models.append(model)
                if journal.failed:
                    self._report_unstored(models, len(plans), journal.failed)
        self.listener.model_step(models[-1].model, "storing")
        journal.write()
        self._report_unstored(models, len(plans), journal.failed)
        return tuple(models)

    def _sharing(self) -> dict[str, Together]:
        """The models that are scanned together, by their names."""
        new = (p for p in self.compiled.plans if p.model.name not in self._changes.unchanged)
        plans = [p for p in new if not p.blocked]
        # With `fail_fast`, the first failure may be that of the one that is begun first.
        if self.request.fail_fast or len(plans) < 2:
            return {}
        from dqsql.compiler.sharing import shared_rows
        from dqsql.runner.together import Together

        groups = [Together(s, self._registered) for s in shared_rows(plans)]
        return {plan.model.name: group for group in groups for plan in group.shared.plans}

    def _kept(
        self, result: RunResult, session: LazySession, journal: Journal, known: Collection[str]
    ) -> RunResult:
        """Store what the run was and what it described, and tell people what it found."""
        store, models = journal.store, result.models
        worked = {m.model for m in models if not m.left_out and (m.error is None or m.results)}
        plans = [self._by_columns_of_now.get(p.model.name, p) for p in self.compiled.plans]
        described = [p for p in plans if p.model.name in worked - self._changes.unchanged]
        types = {m.model: m.columns for m in models}
        gone = gone_names(self._project, store, self.ledgers)
        begun = [p.model for p in described if p.model.name not in known]
        # The file of one that is disabled is there.
        fileless = {*gone}.difference(m.name for m in self._project.models)
        told = gone_warnings(store, fileless, self.ledgers, self._findings, begun)
        result = replace(result, warnings=(*result.warnings, *told))
        forget_inputs(store, gone)
        checked = {m.model for m in models if m.batches}
        left = [p for p in plans if p.model.name in worked - checked and not lacks_columns(p.model)]
        ids = {p.model.name: declared for p in left if (declared := p.declared_ids) is not None}
        ids |= dict.fromkeys(gone, frozenset())
        resolve_gone(store, self._project, self._findings, self.ledgers, ids, self.started)
        store_dimensions(store, described, types, self.started, gone, self._project)
        # That a model has no rows is told by every run.
        lasting = worked.difference(m.model for m in models if m.gone is not None)
        changed = self._changes.changed
        new = {n: i for n, i in changed.items() if n in lasting and self._asks_for_all(n)}
        # Last: after a crash in between, the next run brings the dimensions up to date.
        store_inputs(store, new, self.run_id, self.started)
        keep_columns(self._project, types)
        store.append(MODEL_RUNS, self._model_run_rows(result, session, journal))
        versions = versions_after(store, self.ledgers)
        # A first run that was killed has not made them all.
        lacking = (t for t in ALL_TABLES if versions and t.name not in versions)
        if unmade := [*lacking] if known else ALL_TABLES:
            for table in unmade:
                store.make(table)
            versions = versions_after(store, self.ledgers)
        sha = git_sha(self._project.root)
        store.append(RUNS, [run_row(result, self._project.target.ansi, sha, versions)])
        after = AfterRun(self.started, known)
        sent = notify_due(store, self._project, sorted({*worked, *gone}), after=after)
        return replace(result, warnings=(*result.warnings, *sent.problems))

    @staticmethod
    def _model_run_rows(result: RunResult, session: LazySession, journal: Journal) -> list[Row]:
        seconds = {"start_seconds": session.seconds, "write_seconds": journal.seconds}
        return [model_run_row(m, result, **seconds) for m in result.models]

    def _learn_columns(self, session: LazySession) -> None:
        """Ask Spark for the columns of what is watched automatically, where nothing names them."""
        names = {p.model.name for p in self.compiled.plans if lacks_columns(p.model)}
        if names:
            project = with_columns_of_spark(self._project, names, session())
            self.compiled = recompiled(self.compiled, project, names)

    def _with_columns_of_now(self, plan: Plan, spark: SparkSession) -> Plan:
        """The plan of a registered model, by the columns that Spark tells now.

        It was compiled by those of the run before, where the text does not name them.
        """
        from dqsql.engine.relations import column_types

        model = plan.model
        if not is_open(model):
            return plan
        columns = column_types(spark, model_view(model), model.name)
        if columns == model.config.extra.get(COLUMN_TYPES):
            return plan
        now = with_columns(model, columns)
        models = tuple(now if m.name == model.name else m for m in self._project.models)
        compiled = recompiled(self.compiled, replace(self._project, models=models), [model.name])
        plan = compiled.plan(model.name)
        self._by_columns_of_now[model.name] = plan
        return plan

    def _report_unstored(
        self, models: list[ModelResult], total: int, failed: Mapping[str, DqsqlError]
    ) -> None:
        """Put models whose results could not be stored among those that could not be checked."""
        for index, model in enumerate(models, start=1):
            error = failed.get(model.model)
            if error is not None and model.error is not error:
                models[index - 1] = ModelResult(
                    model.model, model.path, seconds=model.seconds, error=error
                )
                self.listener.model_finished(index, total, models[index - 1])

    def _with_unreported(self, result: ModelResult) -> ModelResult:
        """The result with the failures of a run that was killed, which nobody has heard of."""
        if self.request.only_new:
            return result
        known = {*result.waiting, *result.batches}
        left = [b for b in self._unreported.get(result.model, ()) if b not in known]
        return replace(result, waiting=(*left, *result.waiting))

    def _asks_for_all(self, model: str) -> bool:
        """Whether no batch of what the model reads is left to a later run."""
        request = self.request.batches_for(model)
        return request == BatchRequest(full_refresh=request.full_refresh)

    def _nothing_new(self, plan: Plan, ledger: Mapping[str, BatchRecord]) -> ModelResult:
        return ModelResult(
            plan.model.name,
            plan.model.path,
            checks=len(plan.declared),
            skipped="nothing new",
            bytes_read=0,
            waiting=() if self.request.only_new else flagged_last(ledger),
        )

    def _run_model(
        self, plan: Plan, spark: SparkSession, journal: Journal, on_step: Callable[[str, str], None]
    ) -> ModelResult:
        """Check one model; what goes wrong with it does not stop the others."""
        from dqsql.engine.consumption import counting_bytes
        from dqsql.engine.failures import reporting_loss

        model = plan.model
        start = time.monotonic()
        together = self._together.get(model.name)
        prepare = partial(self._prepared, spark=spark, journal=journal, on_step=on_step)
        try:
            with reporting_loss(f"cannot check {model.name}"):
                if together is None:
                    work = prepare(plan)
                with counting_bytes(spark) as bytes_read:
                    if together is not None:
                        work = together.run_of(plan, prepare)
                    result = work.execute()
                    result = replace(result, bytes_read=bytes_read())
            if work.good is not None:
                self.good[model.name] = work.good
            return self._with_unreported(result)
        except DqsqlError as error:
            seconds = time.monotonic() - start
            plan = self._by_columns_of_now.get(model.name, plan)
            # What is wrong with single annotations is told all the same.
            failure = error_of((*plan.rejected, error)) if plan.rejected else error
            return ModelResult(model.name, model.path, seconds=seconds, error=failure)

    def _prepared(
        self, plan: Plan, spark: SparkSession, journal: Journal, on_step: Callable[[str, str], None]
    ) -> ModelRun:
        """The run of a model whose view is registered. Raises DqsqlError."""
        from dqsql.engine import relations
        from dqsql.engine.preparation import relation_ids
        from dqsql.runner.model_run import ModelRun

        model, phases = plan.model, Phases()
        own = model.depends_on if model.relation is None else ()
        needed = (*own, *relation_ids(plan.relations))
        reader = replace(model, depends_on=needed, relation=None)
        relations.refresh_tables(
            spark, (f"select * from {r.sql}" for r in plan.relations), self._registered
        )
        relations.register_dependencies(spark, self._project, reader, self._registered)
        relations.register_model(spark, self._project, model, self._registered)
        plan = self._with_columns_of_now(plan, spark)
        model = plan.model
        if plan.blocked:
            raise error_of(plan.rejected)
        ledger = self.ledgers.setdefault(model.name, {})
        reopen_rebuilt(model, ledger, lambda: journal.store.rows(RUNS))
        limits = limits_of(model, self._project, store_failures=self.request.store_failures)
        return ModelRun(
            plan=plan,
            project=self._project,
            spark=spark,
            store=journal.store,
            journal=journal,
            ledger=ledger,
            retired=self._retired.get(model.name, {}),
            request=self.request.batches_for(model.name),
            run_id=self.run_id,
            now=self.started,
            on_step=on_step,
            limits=replace(
                limits,
                restated=model.name in self._changes.changed,
                rewritten=model.name in self._changes.rewritten,
                reviewed=frozenset(self._reviews.get(model.name, ())),
                now=self.started,
            ),
            rates=self._rates,
            reviews=self._reviews.get(model.name, {}),
            only_new=self.request.only_new,
            quarantine=self._quarantine(model),
            label=self.request.labels.get(model.name),
            findings=self._findings.get(model.name, ()),
            phases=phases,
            missing=relations.missing_columns(self._project, model, self._registered),
        )

    def _quarantine(self, model: CheckModel) -> Quarantine | None:
        quarantine = quarantine_of(model, self._project, self.request.quarantine)
        if quarantine is None or model.name not in self.request.labels:
            return quarantine
        # What a stream hands on must have passed as a whole.
        return replace(quarantine, whole_batches=True)

    def _result(
        self,
        models: tuple[ModelResult, ...],
        versions: Mapping[str, str],
        warnings: tuple[str, ...],
    ) -> RunResult:
        return RunResult(
            run_id=self.run_id,
            project=self._project.name,
            target=self._project.target.name,
            started_at=self.started,
            finished_at=dt.datetime.now(dt.UTC),
            models=models,
            versions=versions,
            arguments=self.arguments,
            warnings=warnings,
        )

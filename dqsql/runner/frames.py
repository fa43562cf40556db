"""`dqsql.check`: annotations on a DataFrame, without a project; nothing is stored."""

from __future__ import annotations

import datetime as dt
import re
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import dqsql.monitors.registry  # noqa: F401 - what is a monitor is told by it
from dqsql.compiler.plan import compile_model
from dqsql.engine.batches import BatchRequest
from dqsql.engine.journal import Journal
from dqsql.errors import AnnotationError, DqsqlError, Span, UsageError, error_of
from dqsql.loading import shipped_macros
from dqsql.loading.annotations import read_annotations
from dqsql.loading.models import known_names
from dqsql.model.monitors import monitor_specs
from dqsql.model.plan import Plan
from dqsql.model.project import (
    Annotation,
    CheckModel,
    ModelConfig,
    Project,
    Projection,
    Scope,
    Severity,
    Target,
    view_name,
)
from dqsql.model.results import ModelResult, RunResult
from dqsql.monitors.catalog import catalog_of
from dqsql.version import VERSION

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

_NAME = "dataframe"
_WORD = re.compile(r"\w+")
# Two checks of one session would take each other's view.
_ONE_AT_A_TIME = threading.Lock()


def check(
    data: DataFrame | pandas.DataFrame,
    checks: Sequence[str],
    *,
    batch_by: str | None = None,
    segment_by: Sequence[str] = (),
    severity: str = "error",
    spark: SparkSession | None = None,
) -> RunResult:
    """Check a DataFrame by annotations: `dqsql.check(df, ["@not_null(id)", "@mean(price) < 9"])`.

    Nothing is stored and no project is needed. Monitors, which learn from earlier batches, and
    cumulative checks are for projects.

    Args:
        data: a DataFrame of Spark, or one of pandas, which goes to the active session.
        checks: annotations that name their columns, as in a check model.
        batch_by: SQL expression whose values are judged one by one, for example a day.
        segment_by: columns whose values are judged one by one inside of a batch.
        severity: what a check means that names no severity: `error` or `warn`.
        spark: the session for a DataFrame of pandas.

    Returns:
        The verdicts; failed checks do not raise, `raise_for_status()` of the result does.

    Raises:
        DqsqlError: an annotation is wrong (`checks[1]:1:2` is its place), or the DataFrame cannot
            be read.
    """
    if isinstance(checks, str):
        checks = [checks]
    if not checks:
        raise UsageError("there is no check", hint='dqsql.check(df, ["@not_null(id)"])')
    if severity not in [s.value for s in Severity]:
        raise UsageError(f"severity is {severity!r}", hint="error or warn")
    from dqsql.engine.frames import as_frame

    frame = as_frame(data, spark)
    config = ModelConfig(
        batch_by=batch_by, segment_by=tuple(segment_by), severity=Severity(severity)
    )
    with TemporaryDirectory(prefix="dqsql-") as folder:
        project = _project(Path(folder), tuple(frame.columns), config)
        plan = _plan(project, checks)
        return _result(plan, project, frame, len(checks))


def _project(root: Path, columns: Sequence[str], config: ModelConfig) -> Project:
    """A project of one model, whose SELECT is the DataFrame."""
    projections = tuple(Projection(name, Span(_NAME, text=name)) for name in columns)
    sql = f"select * from {_NAME}"
    model = CheckModel(_NAME, _NAME, sql, sql, config, projections, (), (1,))
    target = Target(name=_NAME, profile=_NAME)
    return Project(_NAME, root, target, (model,), (), shipped_macros())


def _plan(project: Project, checks: Sequence[str]) -> Plan:
    """The compiled checks. Raises what is wrong with them."""
    catalog = catalog_of(project)
    annotations = read_annotations(checks, known_names(catalog.library))
    for annotation in annotations:
        name = _WORD.match(annotation.expression)
        # A pattern that is given is a check like others.
        if (
            name is not None
            and name.group().lower() in monitor_specs()
            and "'" not in annotation.expression
        ):
            raise _needs_history(annotation, f"@{name.group()}")
        if annotation.settings.scope is Scope.CUMULATIVE:
            raise _needs_history(annotation, "a cumulative check")
    (model,) = project.models
    plan = compile_model(replace(model, annotations=annotations), project, catalog)
    if plan.rejected:
        raise error_of(plan.rejected)
    for monitor in plan.monitors:
        raise _needs_history(annotations[0], f"@{monitor.kind}")
    return plan


def _needs_history(annotation: Annotation, what: str) -> DqsqlError:
    return AnnotationError(
        f"{what} is about earlier batches, and a DataFrame has none",
        span=annotation.span,
        hint="write it into a check model of a project: `dqsql init`",
    )


def _result(plan: Plan, project: Project, frame: DataFrame, checks: int) -> RunResult:
    from dqsql.engine.execution import states_view
    from dqsql.engine.frames import as_view
    from dqsql.engine.session import configured, runtime_conf

    started = dt.datetime.now(dt.UTC)
    spark, run_id = frame.sparkSession, str(uuid.uuid4())
    view = view_name(plan.model)
    with (
        _ONE_AT_A_TIME,
        configured(spark, runtime_conf(project.target)),
        as_view(frame, view, [states_view(_NAME)]),
    ):
        model = _model_result(plan, project, spark, run_id, started)
    return RunResult(
        run_id=run_id,
        project=_NAME,
        target=_NAME,
        started_at=started,
        finished_at=dt.datetime.now(dt.UTC),
        models=(model,),
        versions={"dqsql": VERSION, "spark": str(spark.version)},
        arguments={"checks": checks},
    )


def _model_result(
    plan: Plan, project: Project, spark: SparkSession, run_id: str, now: dt.datetime
) -> ModelResult:
    from dqsql.engine.frames import MemoryStore
    from dqsql.engine.relations import register_dependencies
    from dqsql.runner.model_run import ModelRun

    def silent(*_: Any) -> None:
        """There is nobody to tell."""

    store = MemoryStore(spark)
    register_dependencies(spark, project, plan.model)
    run = ModelRun(
        plan=plan,
        project=project,
        spark=spark,
        store=store,
        ledger={},
        request=BatchRequest(),
        run_id=run_id,
        now=now,
        tell=silent,
        # What it gathers is never written.
        journal=Journal(store),
    )
    return run.execute()

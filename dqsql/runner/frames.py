"""`dqsql.check`: annotations on a DataFrame, without a project; nothing is stored."""

from __future__ import annotations

import datetime as dt
import os
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dqsql.compiler.catalog import LISTED
from dqsql.compiler.output_columns import CASE_SENSITIVE
from dqsql.compiler.plan import compile_model
from dqsql.engine.batches import BatchRequest
from dqsql.engine.journal import Journal
from dqsql.errors import AnnotationError, DqsqlError, NoBatchError, Span, UsageError, error_of
from dqsql.loading.annotations import read_annotations
from dqsql.loading.config import macro_files
from dqsql.loading.models import known_names
from dqsql.loading.settings import read_model_settings
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import (
    Annotation,
    CheckModel,
    MacroFile,
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
from dqsql.monitors.registry import find
from dqsql.runner.warnings import unbatched_warnings
from dqsql.version import VERSION

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

_NAME = "dataframe"
_OF_NAN = re.compile(r"\b(isnan|is_nan|nan_ratio)(?=\s*\()", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_IN_A_COLUMN = (
    "`dqsql docs annotations` lists all of them, macro_paths=['macros'] adds your own; what a"
    " function of your own gives belongs in a column of the DataFrame"
)
_IN_A_PROJECT = "write it into a check model of a project: `dqsql init`"


def check(
    data: DataFrame | pandas.DataFrame,
    checks: Sequence[str],
    *,
    batch_by: str | None = None,
    segment_by: Sequence[str] | str = (),
    severity: str = "error",
    macro_paths: Sequence[str | Path] | str | Path = (),
    spark: SparkSession | None = None,
) -> RunResult:
    """Check a DataFrame by annotations: `dqsql.check(df, ["@not_null(id)", "@mean(price) < 9"])`.

    Nothing is stored and no project is needed. Monitors, which learn from earlier batches, and
    cumulative checks are for projects.

    Args:
        data: a Spark DataFrame, or a pandas DataFrame, which is sent to the active session.
        checks: annotations that name their columns, as in a check model.
        batch_by: SQL expression whose values are judged one by one, for example a day.
        segment_by: columns that divide a batch into segments, each of which is judged by itself.
        severity: the severity of checks that set none: `error` or `warn`.
        macro_paths: folders with macros of your own, metrics and checks, as a project has them.
        spark: the session for a pandas DataFrame.

    Returns:
        The verdicts; failed checks do not raise, `raise_for_status()` of the result does.

    Raises:
        DqsqlError: an annotation is wrong (`checks[1]:1:2` is its place), or the DataFrame cannot
            be read.
    """
    if not isinstance(checks, Iterable | None):
        raise UsageError(f"checks is a list of texts, not a {type(checks).__name__}")
    wanted = [checks] if isinstance(checks, str) else list(checks or ())
    if not wanted:
        raise UsageError("no checks were given", hint='dqsql.check(df, ["@not_null(id)"])')
    if severity not in [s.value for s in Severity]:
        raise UsageError(f"severity is {severity!r}", hint="error or warn")
    config = _config(batch_by, segment_by, Severity(severity))
    macros = _macros([macro_paths] if isinstance(macro_paths, str | Path) else macro_paths or ())
    from dqsql.engine.failures import translated
    from dqsql.engine.frames import as_frame

    frame = as_frame(data, spark)
    with translated("the DataFrame cannot be read"):
        # A client of Spark Connect asks for them only now.
        columns = tuple(frame.columns)
    started, run_id = dt.datetime.now(dt.UTC), str(uuid.uuid4())
    with TemporaryDirectory(prefix="dqsql-") as folder:
        target = _target(frame)
        project = _project(Path(folder), columns, config, target, macros)
        plan = _plan(project, wanted, batch_by, of_pandas=_is_of_pandas(data))
        warnings: list[str] = []
        try:
            model = _checked(frame, plan, project, run_id, started)
        except NoBatchError as error:
            model = ModelResult(plan.model.name, plan.model.path)
            warnings.append(error.message)
        if not model.batches and batch_by is not None:
            # No row has a batch: that must not pass because there is nothing to judge.
            unbatched = replace(config, batch_by=None)
            whole = _project(Path(folder), columns, unbatched, target, macros)
            plan = _plan(whole, wanted, batch_by)
            judged = _checked(frame.limit(0), plan, whole, run_id, started)
            model = replace(judged, notes=(*model.notes, *judged.notes))
    return RunResult(
        run_id=run_id,
        project=_NAME,
        target=_NAME,
        started_at=started,
        finished_at=dt.datetime.now(dt.UTC),
        models=(model,),
        versions={"dqsql": VERSION, "spark": str(frame.sparkSession.version)},
        arguments={"checks": len(wanted)},
        warnings=(*warnings, *unbatched_warnings((model,))),
    )


def _config(batch_by: object, segment_by: object, severity: Severity) -> ModelConfig:
    """The settings that the arguments ask for. Raises UsageError."""
    read, problems = read_model_settings({"batch_by": batch_by, "segment_by": segment_by or ()})
    for problem in problems:
        raise UsageError(problem.message, hint=problem.hint)
    return ModelConfig(**read, severity=severity)


def _is_of_pandas(data: DataFrame | pandas.DataFrame) -> bool:
    """Whether NaN and what is missing are one in the rows; not in those with types of Arrow."""
    kinds = [str(kind) for kind in getattr(data, "dtypes", ())]
    return not hasattr(data, "sparkSession") and not any(k.endswith("[pyarrow]") for k in kinds)


def _macros(folders: Iterable[str | Path]) -> tuple[MacroFile, ...]:
    """The shipped macros and those in folders. Raises DqsqlError."""
    paths = [os.path.relpath(folder) for folder in folders]
    for path in paths:
        if not Path(path).is_dir():
            what = "is a file" if Path(path).exists() else "does not exist"
            raise UsageError(f"macro_paths names folders of macros, and {path!r} {what}")
    errors: list[DqsqlError] = []
    files = macro_files(Path(), paths, errors)
    if errors:
        raise error_of(errors)
    return files


def _project(
    root: Path,
    columns: Sequence[str],
    config: ModelConfig,
    target: Target,
    macros: tuple[MacroFile, ...],
) -> Project:
    """A project of one model, whose SELECT is the DataFrame."""
    projections = tuple(Projection(name, Span(_NAME, text=name)) for name in columns)
    sql = f"select * from {_NAME}"
    model = CheckModel(_NAME, _NAME, sql, sql, config, projections, (), (1,))
    return Project(_NAME, root, target, (model,), (), macros)


def _target(frame: DataFrame) -> Target:
    """What of the session decides which columns there are."""
    matters = str(frame.sparkSession.conf.get(CASE_SENSITIVE, "false"))
    return Target(name=_NAME, profile=_NAME, spark_conf={CASE_SENSITIVE: matters})


def _plan(
    project: Project, checks: Sequence[str], batch_by: str | None, *, of_pandas: bool = False
) -> Plan:
    """The compiled checks. Raises what is wrong with them, where `batch_by` is what was asked."""
    (model,) = project.models
    catalog = catalog_of(project)
    annotations = read_annotations(checks, known_names(catalog.library))
    for annotation in annotations:
        _refuse_learning(annotation)
        _refuse_settings(annotation, batch_by)
        if of_pandas and (name := _OF_NAN.search(annotation.expression)):
            raise AnnotationError(
                f"pandas has one value for NaN and for what is missing, so {name.group()} of its"
                " rows finds nothing: both are null",
                span=annotation.span,
                hint="write @not_null or @completeness, or check a DataFrame of Spark",
            )
    # It is compared with other relations, also with a view that is called as it is.
    others = replace(project, models=())
    plan = compile_model(replace(model, annotations=annotations), others, catalog)
    if plan.rejected:
        error = error_of(plan.rejected)
        error.hint = _IN_A_COLUMN if error.hint == LISTED else error.hint
        raise error
    for monitor in plan.monitors:
        if _needs_history(monitor):
            raise _no_history(f"@{monitor.kind}", monitor.span)
    return plan


def _needs_history(monitor: Monitor) -> bool:
    kind = find(monitor.kind)
    reach = None if kind is None else kind.reach
    return reach is not None and reach(monitor, {}).depth != 0


def _refuse_learning(annotation: Annotation) -> None:
    """Raise AnnotationError for what learns about one column, which takes no column by name.

    A pattern that is given is a check like others.
    """
    name = _WORD.match(annotation.expression)
    kind = None if name is None else find(name.group().lower())
    if kind is not None and kind.spec.name == "schema":
        raise _no_history("@schema", annotation.span)
    if kind is None or kind.reach is None or kind.spec.compared or not kind.spec.about_column:
        return
    if "'" not in annotation.expression:
        raise _no_history(f"@{kind.name}", annotation.span)


def _refuse_settings(annotation: Annotation, batch_by: str | None) -> None:
    """Raise AnnotationError for a setting that a DataFrame could not follow."""
    settings = annotation.settings
    if settings.scope is Scope.CUMULATIVE:
        raise _no_history("a cumulative check", annotation.span)
    if "after" in settings.options and batch_by is None:
        raise _no_history("'after'", annotation.span)
    for name in ("store_failures", "quarantine"):
        if settings.options.get(name):
            raise AnnotationError(
                f"{name!r} stores rows in a table, and nothing is stored for a DataFrame",
                span=annotation.span,
                hint=_IN_A_PROJECT,
            )


def _no_history(what: str, span: Span) -> DqsqlError:
    text = f"{what} is about earlier batches, and a DataFrame has none"
    return AnnotationError(text, span=span, hint=_IN_A_PROJECT)


def _checked(
    frame: DataFrame, plan: Plan, project: Project, run_id: str, now: dt.datetime
) -> ModelResult:
    """What the checks say of the rows of a frame."""
    from dqsql.engine.frames import ONE_AT_A_TIME, MemoryStore, as_view
    from dqsql.engine.relations import register_dependencies
    from dqsql.engine.session import runtime_conf
    from dqsql.engine.session_settings import configured
    from dqsql.engine.session_use import using_session
    from dqsql.runner.model_run import ModelRun

    def silent(*_: Any) -> None:
        """There is nobody to tell."""

    spark = frame.sparkSession
    store = MemoryStore(spark)
    run = ModelRun(
        plan=plan,
        project=project,
        spark=spark,
        store=store,
        ledger={},
        request=BatchRequest(),
        run_id=run_id,
        now=now,
        on_step=silent,
        # What it gathers is never written.
        journal=Journal(store),
    )
    view = as_view(frame, view_name(plan.model))
    with (
        using_session(spark, None),
        ONE_AT_A_TIME,
        view,
        configured(spark, runtime_conf(project.target)),
    ):
        register_dependencies(spark, project, plan.model)
        return run.execute()

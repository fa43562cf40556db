"""The Python API of dqsql: what the command line and notebooks call."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from dqsql.engine.storage import open_store
from dqsql.errors import DqsqlError, UsageError
from dqsql.model.events import RunListener
from dqsql.model.project import Project
from dqsql.model.results import RunResult
from dqsql.model.tables import BATCHES
from dqsql.model.wording import plural, texts_of
from dqsql.report.artefacts import ensure_writable
from dqsql.runner.compilation import CompileResult, Place, Where, compile_project
from dqsql.runner.project_run import run_project
from dqsql.runner.request import RunRequest
from dqsql.runner.warehouse import ensure_warehouse
from dqsql.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["CompileResult", "compile_project", "debug", "run"]

# What was tried, whether it worked, and details.
Step = tuple[str, bool, str]


def run(
    project_dir: str | PathLike[str] = ".",
    *,
    spark: SparkSession | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    full_refresh: bool = False,
    fail_fast: bool = False,
    batches: Sequence[str | dt.date] | dt.date = (),
    event_time_start: str | dt.date | None = None,
    event_time_end: str | dt.date | None = None,
    store_failures: bool = False,
    quarantine: bool | None = None,
    only_new: bool = False,
    dbt_tests: bool | None = None,
    state: str | PathLike[str] | None = None,
    selector: str | None = None,
    threads: int | None = None,
    batches_of: Mapping[str, Sequence[str]] | None = None,
    listener: RunListener | None = None,
    compiled: CompileResult | None = None,
    **place: Unpack[Place],
) -> RunResult:
    """Check the new batches of a project's check models and store metrics and verdicts.

    Args:
        project_dir: folder of `dqsql_project.yml`, or of a dbt project.
        spark: an existing session to use; by default the one that this process has, if the target
            needs no other, else the profile's is started, and stopped at the end.
        select: models to check, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        **place: target, profile and variables, as in `Place`.
        full_refresh: check all batches, including those checked before.
        fail_fast: stop after the first model with a failed check or an error.
        batches: check exactly these batches, new or not.
        event_time_start: check the batches from this time or number on, new or not; UTC where it
            has no time zone.
        event_time_end: check the batches before this time or number, new or not; UTC.
        store_failures: keep samples of the rows that fail checks about rows in `dq_failures`.
        quarantine: split the rows of checked batches into good and quarantined tables; None: as
            the project says.
        only_new: do not fail if nothing is new but batches that an earlier run flagged still
            wait for a review.
        dbt_tests: adopt the generic tests of a dbt project; None: as in its settings.
        state: folder of earlier artefacts that `state:` and `result:` compare with.
        selector: the name of a selection in `selectors.yml`, instead of `select` and `exclude`.
        threads: how many models are checked at a time; None: as the profile says, else 1, or one
            per core if there is little to read. With `fail_fast` it is one.
        batches_of: batches by model, checked instead of its new ones.
        listener: receives the progress.
        compiled: what `compile_project` returned for the same arguments, to save compiling.

    Returns:
        The verdicts of the run; failed checks do not raise.

    Raises:
        DqsqlError: the project is wrong, or all of its models are; an argument cannot be used, a
            folder cannot be written, another process is working on the same models, or Spark
            cannot be started. In these cases nothing was written. If only some models are wrong,
            the `error` of their results says so, and the others are checked.
    """
    if spark is not None and not hasattr(spark, "sql"):
        raise UsageError(f"spark takes a SparkSession, not a {type(spark).__name__}")
    for name, texts in {"select": select, "exclude": exclude, "batches": batches}.items():
        if not isinstance(texts, Iterable | dt.date):
            raise UsageError(f"{name} is {texts!r}, and must be a list of texts")
    where = Where(project_dir, **place)
    request = RunRequest(
        where,
        select=texts_of(select),
        exclude=texts_of(exclude),
        full_refresh=full_refresh,
        fail_fast=fail_fast,
        batches=tuple(map(str, [batches] if isinstance(batches, str | dt.date) else batches)),
        event_time_start=_moment(event_time_start),
        event_time_end=_moment(event_time_end),
        store_failures=store_failures,
        quarantine=quarantine,
        only_new=only_new,
        dbt_tests=dbt_tests,
        state=state,
        selector=selector,
        threads=threads,
        batches_of=batches_of or {},
    )
    return run_project(request, spark, listener or RunListener(), compiled)


def _moment(value: object) -> str | None:
    """A bound as the command line has it: that of a date or time, such as Airflow hands over."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if value is None else str(value)


def debug(project_dir: str | PathLike[str] = ".", **place: Unpack[Place]) -> Iterator[Step]:
    """Check the set-up step by step: yields what was tried, whether it worked, and details.

    Stops where going on is idle.
    """
    yield "dqsql", True, VERSION
    yield "python", True, platform.python_version()
    yield "pyspark", True, metadata.version("pyspark")
    try:
        compiled = Where(project_dir, **place).compile()
    except DqsqlError as error:
        yield "project", False, str(error)
        return
    project = compiled.project
    models = plural(len(compiled.plans), "check model")
    yield "project", True, f"{project.name} at {project.root}: {models}"
    for problem in compiled.errors:
        yield "checks", False, str(problem)
    chosen = project.target
    yield "target", True, f"{chosen.profile}.{chosen.name}, method {chosen.method}"
    if chosen.method == "session":
        yield from _java()
    yield from _connection(project)


def _java() -> Iterator[Step]:
    from dqsql.engine.archive import archive_state
    from dqsql.engine.java import find_java

    try:
        java = find_java()
    except DqsqlError as error:
        yield "java", False, str(error)
        return
    yield "java", True, f"{java.major} at {java.path}"
    state, usable = archive_state(java)
    yield "class archive", usable, state


def _warehouse(project: Project, known: int) -> Step:
    """Whether the warehouse can be written; one that is no folder here is not tried."""
    root = f"{project.target.warehouse}/{project.target.schema}"
    try:
        tried = ensure_warehouse(project.target)
    except DqsqlError as error:
        return "warehouse", False, str(error)
    how = "can be written" if tried else "writing was not tried"
    return "warehouse", True, f"{root}: {how}, {plural(known, 'batch')} checked so far"


def _connection(project: Project) -> Iterator[Step]:
    from dqsql.engine.session import open_session

    target = project.target
    try:
        ensure_writable(project.target_dir)
        with open_session(target, project.log_dir) as spark:
            yield "connection", True, f"Spark {spark.version}"
            known = len(open_store(spark, target).rows(BATCHES))
            yield _warehouse(project, known)
    except DqsqlError as error:
        yield "connection", False, str(error)

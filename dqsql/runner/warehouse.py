"""The warehouse tables of a project, for commands that look at what runs have stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.engine import storage
from dqsql.errors import ConfigError, ProfileError
from dqsql.model.project import METHODS, Project, Target, local_folder
from dqsql.model.tables import RUNS
from dqsql.report.artefacts import ensure_writable, try_writing
from dqsql.runner.compilation import Place, Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


def ensure_target(project: Project) -> None:
    """Try to write to the target folder and the warehouse. Raises ConfigError."""
    ensure_writable(project.target_dir)
    ensure_warehouse(project.target)


def ensure_warehouse(target: Target) -> bool:
    """Try to write to the warehouse where it is a folder of this machine; whether it is one.

    Raises ConfigError.
    """
    folder = local_folder(target)
    if folder is None:
        return False
    try:
        try_writing(folder)
    except OSError as error:
        raise ConfigError(
            f"the warehouse {folder} cannot be written: {error.strerror or error}",
            hint="set `warehouse` in dqsql_project.yml or profiles.yml to a folder that you may"
            " write",
        ) from error
    return True


# Is told what is being done, for a person who waits.
Step = Callable[[str], None]


def silent(text: str) -> None:
    """Ignore the progress."""


class Access(Place, total=False):
    """The target of a project, and how its tables are opened."""

    spark: SparkSession | None
    """An existing session to use."""
    step: Step
    """Called with a description of what is being done."""


class Opening(Access, total=False):
    """A project, its target, and how its tables are opened."""

    project_dir: str | PathLike[str]
    """Folder of the project; by default the current one."""


def opened(at: Opening) -> tuple[Where, SparkSession | None, Step]:
    """The project that is meant, the session that is handed in, and who hears of the progress."""
    place: dict[str, Any] = {**at}
    if unknown := sorted(place.keys() - Opening.__optional_keys__):
        known = ", ".join(sorted(Opening.__optional_keys__))
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}: there are {known}")
    spark, step = place.pop("spark", None), place.pop("step", silent)
    return Where(**place), spark, step


def refuse_foreign_method(target: Target) -> None:
    """Raise ProfileError for a method of dbt's that dqsql cannot start a session with."""
    if target.method in METHODS:
        return
    raise ProfileError(
        f"dqsql cannot reach Spark by the method {target.method!r} of the target {target.name!r}",
        hint="add `dqsql: {method: connect, url: 'sc://host:15002'}` to the target,"
        " or hand a session over: dqsql.run(spark=spark)",
    )


@contextmanager
def open_spark(
    project: Project,
    spark: SparkSession | None,
    step: Step = silent,
    files: Sequence[Path] | None = None,
) -> Iterator[SparkSession]:
    """A session of the project's target, for as long as the context lasts.

    `spark` is an existing session to use; by default one is made and stopped at the end. `files`
    are what may be read beside the project's sources, None where that is not known: a session for
    few megabytes starts and plans faster. Raises DqsqlError.
    """
    if spark is None:
        refuse_foreign_method(project.target)
        step("Starting Spark")
    # Imported here because it starts with pyspark, which takes half a second.
    from dqsql.engine.launching import scale_of_sources
    from dqsql.engine.session import open_session
    from dqsql.engine.small import Scale

    scale = Scale.ANY
    if spark is None and files is not None:
        scale = scale_of_sources(project, files) or scale
    with open_session(project.target, project.log_dir, spark, scale) as session:
        yield session


@contextmanager
def open_tables(
    project: Project, spark: SparkSession | None, step: Step = silent, *, writes: bool = False
) -> Iterator[Store]:
    """The tables of the project's target, for commands that look at no data and no states.

    Spark is started only where the tables are those of a catalog. Who only reads them need not be
    allowed to write. Raises DqsqlError.
    """
    if spark is None and not storage.needs_session(project.target):
        if writes:
            ensure_target(project)
        yield storage.open_tables(project.target)
        return
    with open_warehouse(project, spark, step, writes=writes) as (_, store):
        yield store


def unused_place(project_dir: str | PathLike[str] = ".", **place: Unpack[Place]) -> str | None:
    """Where the tables of a project would be, if no run has been there; else None.

    Not known of tables for which Spark has to be asked. Raises DqsqlError.
    """
    project = Where(project_dir, **place).stored_project()
    if storage.needs_session(project.target):
        return None
    store = storage.open_tables(project.target)
    return None if store.has(RUNS.name) else store.location


@contextmanager
def open_warehouse(
    project: Project,
    spark: SparkSession | None,
    step: Step = silent,
    files: Sequence[Path] | None = None,
    *,
    writes: bool = False,
) -> Iterator[tuple[SparkSession, Store]]:
    """A session and the tables of the project's target, for as long as the context lasts.

    See `open_spark`. Nothing is started where the folder of Spark's log cannot be written, nor
    where the warehouse cannot, if something is written there.
    """
    if spark is None:
        refuse_foreign_method(project.target)
    ensure_writable(project.target_dir)
    if writes:
        ensure_warehouse(project.target)
    with open_spark(project, spark, step, files) as session:
        yield session, storage.open_store(session, project.target)

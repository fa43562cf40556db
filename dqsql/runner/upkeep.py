"""`dqsql doctor`, `dqsql clean --older-than`, `dqsql export`: tables examined, cleaned, copied."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Unpack

from dqsql.engine.doctor import Cleaned, Doctor, Examination, cleaned, moment_before
from dqsql.engine.exclusive import locked
from dqsql.engine.storage import open_tables
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.engine.upkeep import Upkeep, export_tables
from dqsql.errors import ConfigError, UsageError
from dqsql.model.project import Project
from dqsql.model.tables import ALL_TABLES, RUNS
from dqsql.report.views import described_views
from dqsql.runner.compilation import Place, Where
from dqsql.runner.warehouse import ensure_warehouse


def doctor(
    project_dir: str | PathLike[str] = ".", *, repair: bool = False, **place: Unpack[Place]
) -> Examination:
    """Compare the ledger with every table, and the tables' logs with their files.

    With `repair`, mend what can be: see `Ailment.remedy`. Raises DqsqlError as `upkeep_of` does.
    """
    project = Where(project_dir, **place).project()
    with upkeep_of(project) as upkeep:
        if repair:
            ensure_warehouse(project.target)
        return Doctor(upkeep, repair).examine()


def clean_tables(
    project_dir: str | PathLike[str] = ".", *, older_than: str, **place: Unpack[Place]
) -> tuple[Cleaned, ...]:
    """Delete verdicts, samples and runs of some age (`400d`, `8w`), and tidy the tables' files.

    Metrics, states and programs stay: detectors learn from them. So do reviews and the ledger, so
    that nothing is checked again. Raises DqsqlError.
    """
    before = moment_before(dt.datetime.now(dt.UTC), older_than)
    project = Where(project_dir, **place).project()
    with upkeep_of(project) as upkeep:
        ensure_warehouse(project.target)
        return tuple(cleaned(upkeep, before))


def export(
    destination: str | PathLike[str], project_dir: str | PathLike[str] = ".", **place: Unpack[Place]
) -> tuple[str, ...]:
    """Copy the tables that people look at into a `.duckdb` file, or a folder of Parquet files.

    The DuckDB file has the views over them, too, and what each column is as a comment. Returns the
    names of the tables. Raises DqsqlError: DuckDB is not installed, or nothing is stored.
    """
    project = Where(project_dir, **place).project()
    with upkeep_of(project) as upkeep:
        if not upkeep.store.has(RUNS.name):
            raise UsageError(
                f"there is nothing to copy: no run has stored anything in {upkeep.store.location}",
                hint="run `dqsql run` first",
            )
        for table in ALL_TABLES:
            upkeep.store.make(table)
        names = tuple(table.name for table in ALL_TABLES)
        export_tables(upkeep, Path(destination), names, tuple(described_views()))
        return names


@contextmanager
def upkeep_of(project: Project) -> Iterator[Upkeep]:
    """The tables of a project, with no run of this machine at work on them. Raises DqsqlError."""
    if project.target.warehouse is None:
        raise UsageError(
            f"the tables of the target {project.target.name!r} are those of a catalog",
            hint="use the catalog's own means to examine, clean and copy them",
        )
    store = open_tables(project.target)
    assert isinstance(store, DeltaFolderStore)
    for folder in () if store.folder is None else (store.folder, *store.folder.parents):
        if folder.is_file():
            raise ConfigError(
                f"the warehouse {store.folder} cannot be a folder: {folder} is a file",
                hint="set `warehouse` in dqsql_project.yml or profiles.yml to a folder",
            )
    with locked(project.target, [m.name for m in project.models]):
        yield Upkeep(store)

"""`dqsql clean --older-than` and `dqsql export`: what is deleted of the tables, or copied."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dqsql.errors import UsageError
from dqsql.model.tables import (
    ALL_TABLES,
    BATCHES,
    FAILURES,
    MODEL_RUNS,
    RESULT_HISTORY,
    RESULTS,
    RUNS,
    failures_table_name,
)
from dqsql.runner.compilation import Place
from dqsql.runner.doctor import upkeep_of
from dqsql.runner.ledger import ledger_rows, read_ledgers
from dqsql.runner.where import Where

if TYPE_CHECKING:
    from dqsql.engine.upkeep import Upkeep

_CAPTURED = "captured_at"
# What is kept for people and not for detectors, with the column that tells its age.
_AGING = (
    (RESULTS.name, "evaluated_at"),
    (RESULT_HISTORY.name, "replaced_at"),
    (FAILURES.name, _CAPTURED),
    (RUNS.name, "started_at"),
    (MODEL_RUNS.name, "started_at"),
)
_AGE = re.compile(r"(\d{1,9})\s*(d|days?|w|weeks?)?")


@dataclass(frozen=True)
class Cleaned:
    """What went of one table: rows that were too old, and files that nothing needs any more."""

    table: str
    rows: int
    files: int


def clean_tables(
    project_dir: str | PathLike[str] = ".",
    *,
    older_than: str,
    **place: Unpack[Place],
) -> tuple[Cleaned, ...]:
    """Delete old verdicts, samples and runs, and put the files of all tables in order.

    Metrics, states and programs stay: detectors learn from them. So do reviews and the ledger, so
    that nothing is checked again.

    Args:
        project_dir: folder of the project.
        older_than: the age, in days (`400d`) or weeks (`8w`).
        **place: target, profile and variables, as in `Place`.

    Raises:
        DqsqlError: the age cannot be read, the tables are those of a catalog or cannot be written,
            or a run is at work on them.
    """
    before = dt.datetime.now(dt.UTC) - age_of(older_than)
    project = Where(project_dir, **place).project()
    with upkeep_of(project) as upkeep:
        return tuple(_cleaned(upkeep, before))


def age_of(text: str) -> dt.timedelta:
    """The length of time that a text such as `400d` or `8w` names. Raises UsageError."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no age", hint="write a number of days: 400d")
    number = int(found[1]) * (7 if (found[2] or "d").startswith("w") else 1)
    try:
        return dt.timedelta(days=number)
    except OverflowError as error:
        raise UsageError(
            f"{text!r} is too long ago", hint="write a number of days: 400d"
        ) from error


def _cleaned(upkeep: Upkeep, before: dt.datetime) -> Iterator[Cleaned]:
    ledgers = read_ledgers(upkeep.store)
    columns = dict(_AGING)
    columns.update((failures_table_name(model), _CAPTURED) for model in ledgers)
    _vouch_for_less(upkeep, before)
    for name in upkeep.tables(ledgers):
        rows = upkeep.delete_before(name, columns[name], before) if name in columns else 0
        yield Cleaned(name, rows, upkeep.compact(name))


def _vouch_for_less(upkeep: Upkeep, before: dt.datetime) -> None:
    """Take the verdicts that go out of the ledger first: more than it says is never missed."""
    store = upkeep.store
    stored = store.select(RESULTS, ("model", "batch", "evaluated_at"))
    gone: dict[tuple[str, str], int] = {}
    for row in stored:
        if row["evaluated_at"] is not None and row["evaluated_at"] < before:
            key = (row["model"], row["batch"])
            gone[key] = gone.get(key, 0) + 1
    for model, ledger in read_ledgers(store).items():
        changed = {
            batch: replace(
                record,
                stored=replace(
                    record.stored, results=max(0, record.stored.results - gone[model, batch])
                ),
            )
            for batch, record in ledger.items()
            if record.stored is not None and (model, batch) in gone
        }
        if changed:
            store.replace_partition(BATCHES, ledger_rows({**ledger, **changed}))


def export(
    destination: str | PathLike[str],
    project_dir: str | PathLike[str] = ".",
    **place: Unpack[Place],
) -> tuple[str, ...]:
    """Copy the tables that people look at into a DuckDB file, or a folder of Parquet files.

    Args:
        destination: a file whose name ends with `.duckdb`, or a folder.
        project_dir: folder of the project.
        **place: target, profile and variables, as in `Place`.

    Returns:
        The names of the tables.

    Raises:
        DqsqlError: the tables are those of a catalog or cannot be read, the destination cannot be
            written, or DuckDB is not installed.
    """
    from dqsql.engine.upkeep import export_tables

    project = Where(project_dir, **place).project()
    with upkeep_of(project) as upkeep:
        there = set(upkeep.tables(()))
        names = tuple(table.name for table in ALL_TABLES if table.name in there)
        export_tables(upkeep, Path(destination), names)
        return names

"""Examination and upkeep of Delta tables in folders: what is damaged, left over, or old.

For `dqsql doctor`, `dqsql clean` and `dqsql export`. Nothing here needs Spark.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dqsql.engine.delta_log import (
    FAILURES,
    LoggedFile,
    among,
    logged_files,
    removals,
    rows_of,
    sentence,
)
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import ConfigError, StorageError, UsageError
from dqsql.model.tables import (
    ALL_TABLES,
    failures_table_name,
    frequency_table_name,
    frequency_total_table_name,
    state_table_name,
    total_table_name,
)
from dqsql.model.wording import first_of, plural

if TYPE_CHECKING:
    import duckdb

# Files that no log knows may be those of a run that is at work; a day later they are not.
_GRACE_HOURS = 24
_LOG = "_delta_log"
_OF_MODELS = (
    state_table_name,
    total_table_name,
    frequency_table_name,
    frequency_total_table_name,
    failures_table_name,
)


@dataclass(frozen=True)
class BrokenFile:
    """A file that the log of a table names and that is gone or cut short."""

    file: LoggedFile
    why: str


@dataclass(frozen=True)
class Upkeep:
    """Looks after the tables of a store."""

    store: DeltaFolderStore

    def tables(self, models: Iterable[str]) -> list[str]:
        """The names of the tables that there are, readable or not; `models` are those known."""
        if self.store.folder is not None:
            folders = sorted(self.store.folder.iterdir()) if self.store.folder.exists() else []
            return [
                f.name
                for f in folders
                if f.name.startswith("dq_") and ((f / _LOG).is_dir() or f.is_file())
            ]
        names = [table.name for table in ALL_TABLES]
        names += [name(model) for model in models for name in _OF_MODELS]
        return [n for n in names if self.unreadable(n) or self.store.table(n) is not None]

    def unreadable(self, name: str) -> str | None:
        """Why the log of a table cannot be read; None where it can."""
        if self.store.folder is not None and (self.store.folder / name).is_file():
            return "it is a file"
        try:
            table = self.store.table(name)
        except FAILURES as error:
            return sentence(error)
        folder = self.store.folder
        # A write that died before its commit leaves files, but no entry: at most `0..0.json#1`.
        if table is None and folder is not None:
            log = folder / name / _LOG
            if any(any(log.glob(entry)) for entry in ("0*.json", "0*.parquet")):
                return "its first entries are gone"
        return None

    def broken_files(self, name: str) -> list[BrokenFile]:
        """The files of a table that are not as its log says. Their rows are lost."""
        table = self._table(name)
        if table is None:
            return []
        files = pa_fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
        return [
            BrokenFile(file, why)
            for file in logged_files(table)
            if (why := _broken(files, file)) is not None
        ]

    def drop_files(self, name: str, broken: Sequence[BrokenFile]) -> None:
        """Take files out of a table, so that the rest of it can be read."""
        table = self._table(name)
        if table is None:
            return
        gone: list[AddAction | RemoveAction] = [*removals(b.file for b in broken)]
        table.create_write_transaction(gone, "append", table.schema())

    def set_aside(self, name: str) -> str:
        """Give a table that cannot be read another name, and return that.

        Raises StorageError: the tables are not in a folder of this machine.
        """
        if self.store.folder is None:
            raise StorageError(
                f"the log of {name} in {self.store.location} cannot be read",
                hint="delete the table in its object store, then repair again",
            )
        other = f"damaged_{name}_{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}"
        (self.store.folder / name).rename(self.store.folder / other)
        return other

    def rows_by_batch(self, name: str) -> Mapping[tuple[str, str], int]:
        """The numbers of rows by model and batch; the model of a table of one model is ''.

        The table must be readable; one that is not there has none.
        """
        table = self._table(name)
        if table is None:
            return {}
        has_model = any(field.name == "model" for field in table.schema().fields)
        keys = ["model", "batch"] if has_model else ["batch"]
        with self.store.reporting(f"cannot read {name}"):
            rows = rows_of(table).to_table(columns=keys)
        models = rows["model"].to_pylist() if has_model else [""] * rows.num_rows
        return Counter(zip(models, rows["batch"].to_pylist(), strict=True))

    def delete_batches(self, name: str, model: str, batches: Collection[str]) -> int:
        """Delete the rows of batches of a model; returns how many there were."""
        table = self._table(name)
        if table is None or not batches:
            return 0
        condition = among("batch", batches)
        if any(field.name == "model" for field in table.schema().fields):
            condition = f"{among('model', [model])} and {condition}"
        return self._delete(name, table, condition)

    def delete_before(
        self, name: str, column: str, moment: dt.datetime, kept: Iterable[str] = ()
    ) -> int:
        """Delete the rows whose `column`, a timestamp, is before a moment; returns how many.

        Those that meet one of the conditions `kept` stay.
        """
        table = self._table(name)
        if table is None:
            return 0
        conditions = [f"\"{column}\" < '{moment:%Y-%m-%dT%H:%M:%SZ}'"]
        conditions += [f"not ({condition})" for condition in kept]
        return self._delete(name, table, " and ".join(conditions))

    def left_over(self, name: str) -> list[str]:
        """Files in the folder of a table that its log does not know, a day old or more."""
        table = self._table(name)
        if table is None:
            return []
        listed: list[str] = table.vacuum(
            retention_hours=_GRACE_HOURS, enforce_retention_duration=False, full=True
        )
        return listed

    def compact(self, name: str) -> int:
        """Put small files together, delete what is no longer needed; returns the files deleted."""
        table = self._table(name)
        if table is None:
            return 0
        table.optimize.compact()
        deleted = table.vacuum(
            retention_hours=_GRACE_HOURS, dry_run=False, enforce_retention_duration=False, full=True
        )
        table.create_checkpoint()
        table.cleanup_metadata()
        return len(deleted)

    def reader(self, name: str) -> pa.RecordBatchReader:
        """All rows of a table that is there, a piece at a time."""
        table = self._table(name)
        assert table is not None, name
        return rows_of(table).scanner().to_reader()

    def _table(self, name: str) -> DeltaTable | None:
        with self.store.reporting(f"cannot read {name}"):
            return self.store.table(name)

    def _delete(self, name: str, table: DeltaTable, condition: str) -> int:
        before = sum(file.rows for file in logged_files(table))
        # Not by delta-rs's DELETE, which writes texts as views that Arrow cannot filter.
        nothing = rows_of(table).schema.empty_table()
        with self.store.reporting(f"cannot write {name}"):
            write_deltalake(table, nothing, mode="overwrite", predicate=condition)
        table.update_incremental()
        return before - sum(file.rows for file in logged_files(table))


# What somebody may take for a file of one table, or of another database.
_OTHER_FILES = (".csv", ".db", ".json", ".parquet", ".sqlite", ".txt", ".xlsx")


def export_tables(
    upkeep: Upkeep, path: Path, names: Sequence[str], statements: Sequence[str] = ()
) -> None:
    """Write tables into a DuckDB file where `path` ends with `.duckdb`, else as Parquet files.

    `statements` are what DuckDB does behind the tables.

    Raises ConfigError and StorageError; UsageError where DuckDB is not installed, or for another
    kind of file.
    """
    if path.suffix in _OTHER_FILES and not path.is_dir():
        raise UsageError(
            f"{path} is no place for several tables",
            hint="name a file that ends with .duckdb, or a folder",
        )
    try:
        if path.suffix == ".duckdb":
            _export_duckdb(upkeep, path, names, statements)
        else:
            _export_parquet(upkeep, path, names)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _export_parquet(upkeep: Upkeep, folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        rows = upkeep.reader(name)
        with pq.ParquetWriter(folder / f"{name}.parquet", rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)


def _export_duckdb(
    upkeep: Upkeep, path: Path, names: Sequence[str], statements: Sequence[str]
) -> None:
    """Write tables into a new DuckDB file, which takes the place of the old one when it is done."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(
            "DuckDB is not installed", hint="pip install duckdb, or name a folder for Parquet files"
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(unfinished)) as database:
            for name in names:
                rows = upkeep.reader(name)
                database.register("rows_of_table", rows)
                database.execute(f'create table "{name}" as select * from rows_of_table')
                database.unregister("rows_of_table")
            for statement in statements:
                database.execute(statement)
            own = _names_in(database)
        _refuse_foreign(path, own)
        unfinished.replace(path)
    except duckdb.Error as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _names_in(database: duckdb.DuckDBPyConnection) -> set[str]:
    rows = database.execute("select table_name from information_schema.tables").fetchall()
    return {name for (name,) in rows}


def _refuse_foreign(path: Path, own: Collection[str]) -> None:
    """Refuse to replace a file that holds more than an earlier export. Raises ConfigError."""
    import duckdb

    if not path.exists() or not path.stat().st_size:
        return
    hint = "name a file of its own for the tables of dqsql"
    try:
        with duckdb.connect(str(path), read_only=True) as database:
            names = _names_in(database)
    except duckdb.Error as error:
        if "lock" in str(error):
            raise ConfigError(
                f"{path} is in use by another program", hint="close it there, or name another file"
            ) from error
        raise ConfigError(f"{path} is there, and is no DuckDB file", hint=hint) from error
    if foreign := sorted(n for n in names.difference(own) if not n.startswith("dq_")):
        raise ConfigError(f"{path} has what dqsql did not write: {first_of(foreign, 3)}", hint=hint)


def _broken(files: pa_fs.FileSystem, file: LoggedFile) -> str | None:
    """Why a file cannot be what the log says; all of its rows are read."""
    # The log has it as part of an URL.
    path = unquote(file.path)
    (file_info,) = files.get_file_info([path])
    if file_info.type is pa_fs.FileType.NotFound:
        return "is gone"
    if file_info.size != file.size:
        return f"has {file_info.size:,} bytes instead of {file.size:,}"
    try:
        with pq.ParquetFile(path, filesystem=files, page_checksum_verification=True) as opened:
            rows = sum(batch.num_rows for batch in opened.iter_batches())
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read: {sentence(error)}"
    return None if rows == file.rows else f"has {plural(rows, 'row')} instead of {file.rows:,}"

"""Delta tables in folders under a path, which this process reads and writes itself (delta-rs).

A write is one commit: a file of the table's log, which is there or not. Spark takes part only in
what is large: it reads the files that the log lists, and writes files that a commit then adds. So
Spark needs no jar, and the tables that people look at need no Spark.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dqsql.engine import delta_log, storage_base
from dqsql.engine.delta_log import StorageFailures, among
from dqsql.engine.paths import escaped, refuse_unreadable
from dqsql.engine.selects import fetched, is_remote
from dqsql.engine.storage_base import (
    BatchPart,
    Row,
    Session,
    Store,
    TableFamily,
    Where,
    as_arrow,
    no_rows,
)
from dqsql.errors import ConfigError, StorageError
from dqsql.model.project import local_path
from dqsql.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dqsql.engine.row_files import RowFiles

# Another process committed in between: each of the two is right by itself, so it is tried again.
_ATTEMPTS = 10
_PAUSE = 0.05
# delta-rs ends the process over them.
_REFUSED = frozenset("[]^|\\%")
_CONFIGURATION = {
    "delta.checkpointInterval": "20",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.logRetentionDuration": "interval 7 days",
}
_BOTH = "the warehouse must be a place that Spark and this process both reach"
# Spark's files come with statistics of this column alone. Readers by delta-rs take others for null
# unless the table says so, and find no rows by them.
_STATISTICS = "delta.dataSkippingStatsColumns"


class DeltaFolderStore(Store):
    """Delta tables that are folders under `root`: of this machine, or of an object store."""

    def __init__(self, session: Session, root: str) -> None:
        """Raises ConfigError: the folder cannot be read, or delta-rs can keep no tables in it."""
        super().__init__(session, root.rstrip("/"))
        folder = local_path(self.location)
        self.folder = folder
        refused = sorted(_REFUSED.intersection(str(folder or "")))
        if refused:
            raise ConfigError(
                f"Delta tables cannot be kept in {folder}: its name contains {refused[0]!r}",
                hint="set `warehouse` to a folder without any of [ ] ^ | % and \\",
            )
        if folder is not None:
            refuse_unreadable(folder)
        self._written: set[str] = set()
        self._opened: dict[str, DeltaTable] = {}  # to be read
        self._batched_by: dict[str, str] = {}  # of tables of users' rows

    # --- tables --------------------------------------------------------------------------------

    def select_arrow(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> pa.Table:
        """See `Store.select_arrow`."""
        wanted = list(columns or table.column_names)
        with self.reporting(f"cannot read {table.name}"):
            delta_table = self._to_read(table.name)
            if delta_table is None:
                return no_rows(table, wanted)
            rows = delta_log.selected(delta_table, table, wanted, where or {})
        absent = [name for name in wanted if name not in rows.column_names]
        for name in absent:
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
        return rows.select(wanted)

    def make(self, table: Table) -> None:
        """See `Store.make`."""

        def write() -> None:
            if self._version(table.name) is None:
                self._create(table.name, as_arrow(table, []), table.partitions)

        self._commit(table.name, write)

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """See `Store.replace_batches`."""
        rows = as_arrow(table, [row for part in parts for row in part.rows])
        wanted = (
            f"({among('model', [part.model])} and {among('batch', part.batches)})"
            for part in parts
            if part.batches
        )
        condition = " or ".join(wanted)
        if condition:
            self._overwrite(table.name, rows, condition, table.partitions)

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Store.replace_partition`."""
        if not rows:
            return
        has_models = "model" in table.column_names
        condition = among("model", {row["model"] for row in rows}) if has_models else None
        self._overwrite(table.name, as_arrow(table, rows), condition, table.partitions)

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Store.append`."""
        name, added = table.name, as_arrow(table, rows)

        def write() -> None:
            present = self.table(name)
            if present is None:
                self._create(name, added, table.partitions)
                return
            delta_log.settle_columns(name, present, Schema.from_arrow(added.schema))
            write_deltalake(present, added, mode="append", schema_mode="merge")

        self._commit(name, write)

    # --- states --------------------------------------------------------------------------------

    def _read_states(self, name: str, batches: Collection[str] | None) -> DataFrame | None:
        with self.reporting(f"cannot read {name}"):
            table = self._to_read(name)
            if table is None:
                return None
            frame = self._read(table, _with_batches(table, batches))
        return frame if batches is None else frame.where(storage_base.among("`batch`", batches))

    def _replace_states(
        self,
        name: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str] | None,
        family: TableFamily,
    ) -> None:
        if isinstance(rows, pa.Table):
            self._replace_rows(name, delta_log.nullable(rows), batches)
        else:
            self._exchange(name, rows, batches, large=family.large)

    # --- users' rows ---------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """See `Store.has`."""
        with self.reporting(f"cannot read {name}"):
            return self._to_read(name) is not None

    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """See `Store.replace_rows`."""
        from dqsql.engine import row_files

        def write() -> None:
            table = self.table(name)
            if table is None:
                table = self._create_empty(name, rows, by)
            given = row_files.spelt_as_in(table, rows)
            hint = f"rename or delete {name}, and run again with --full-refresh"
            delta_log.refuse_other_types(name, table, _schema(given), hint)
            table = self._widened(name, table, given, by)
            if self._is_out_of_reach:
                condition = None if batches is None else among(by, batches)
                held = delta_log.nullable(fetched(given))
                write_deltalake(
                    table, held, mode="overwrite", schema_mode="merge", predicate=condition
                )
            elif actions := self._row_files(name, table, by).replaced(given, batches):
                table.create_write_transaction(actions, "append", table.schema())

        self._commit(name, write)
        self._batched_by[name] = by

    def _row_files(self, name: str, table: DeltaTable, by: str) -> RowFiles:
        from dqsql.engine.row_files import RowFiles

        write = partial(self._spark_files, table, name, by=by)
        return RowFiles(table, self._uri(name), by, partial(self._read, table), write)

    # --- what there is ---------------------------------------------------------------------------

    def versions(self, names: Iterable[str]) -> dict[str, int]:
        """See `Store.versions`."""
        versions = {}
        for name in names:
            with self.reporting(f"cannot read {name}"):
                versions[name] = self._version(name)
        return {name: version for name, version in versions.items() if version is not None}

    def _version(self, name: str) -> int | None:
        if self.folder is not None:
            return delta_log.version_of(self.folder / name)
        table = self.table(name)
        return None if table is None else table.version()

    def sizes(self, name: str) -> Mapping[str, int] | None:
        """See `Store.sizes`."""
        with self.reporting(f"cannot read {name}"):
            table = self._to_read(name)
            if table is None:
                return None
            files = delta_log.logged_files(table)
        row_counts: Counter[str] = Counter()
        for file in files:
            row_counts[file.model or ""] += file.rows
        return row_counts

    # --- upkeep --------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Compact what this store has written where it has many files; delete what no one reads.

        What fails is left to the next run: another process may be at work on the same table.
        """
        for name in sorted(self._written):
            try:
                with self.reporting(f"could not compact {name}"):
                    table = self.table(name)
                    if table is not None:
                        self._compact(name, table)
                        delta_log.delete_unread(table)
            except StorageError as error:
                logging.getLogger(__name__).info(error.message)
        self._written.clear()

    def _compact(self, name: str, table: DeltaTable) -> None:
        by = self._batched_by.get(name)
        if by is None or self._is_out_of_reach:
            delta_log.compact(table)
        elif actions := self._row_files(name, table, by).compacted():
            # What replaces a batch meanwhile takes out a file, too: the later commit fails.
            table.create_write_transaction(actions, "append", table.schema())
            table.update_incremental()

    # --- commits -------------------------------------------------------------------------------

    def _uri(self, name: str) -> str:
        if self.folder is None:
            return f"{self.location}/{name}"
        return str(self.folder / name)

    def table(self, name: str) -> DeltaTable | None:
        """A table as it is now, or None when there is none. delta-rs's exceptions pass through."""
        try:
            return DeltaTable(self._uri(name))
        except TableNotFoundError:
            return None

    def _to_read(self, name: str) -> DeltaTable | None:
        """As `table`, opened again only if something was written since: opening takes longest."""
        known = self._opened.get(name)
        if known is None or self.folder is None or known.version() != self._version(name):
            known = self.table(name)
            if known is not None:
                self._opened[name] = known
        return known

    def _overwrite(
        self, name: str, rows: pa.Table, condition: str | None, partitions: Sequence[str]
    ) -> None:
        """Replace the rows that meet a condition (all without one) by others, in one commit."""

        def write() -> None:
            table = self.table(name)
            if table is None:
                if rows.num_rows:
                    self._create(name, rows, partitions)
                return
            delta_log.settle_columns(name, table, Schema.from_arrow(rows.schema))
            write_deltalake(table, rows, mode="overwrite", schema_mode="merge", predicate=condition)

        self._commit(name, write)

    def _replace_rows(self, name: str, rows: pa.Table, batches: Collection[str] | None) -> None:
        """Replace the state rows of some batches, or all, by few others, in one commit.

        Where a column has another type than before, since that of the source has, other batches
        have no value of this type: it is null for them, as of a check that came later.
        """

        def write() -> None:
            table = self.table(name)
            if table is None:
                if rows.num_rows:
                    self._create(name, rows, ())
                return
            if batches is None:
                write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")
                return
            names = delta_log.spelling(table, rows.column_names)
            given = rows.rename_columns(names)
            changed = delta_log.other_types(table, Schema.from_arrow(given.schema))
            if not changed:
                condition = among("batch", batches)
                write_deltalake(
                    table, given, mode="overwrite", schema_mode="merge", predicate=condition
                )
                return
            kept = delta_log.rows_of(table).to_table(
                filter=~pc.field("batch").isin(sorted(batches))
            )
            whole = pa.concat_tables([kept.drop_columns(changed), given], promote_options="default")
            write_deltalake(table, whole, mode="overwrite", schema_mode="overwrite")

        self._commit(name, write)

    def _create(self, name: str, rows: pa.Table, partitions: Sequence[str]) -> None:
        """Make a table with its first rows; one that another process made meanwhile is an error."""
        write_deltalake(
            self._uri(name),
            rows,
            mode="error",
            partition_by=list(partitions) or None,
            configuration=_CONFIGURATION,
        )

    def _commit(self, name: str, write: Callable[[], None]) -> None:
        """Do a write; again where another process was faster, as it may be done twice."""
        with self.reporting(f"cannot write {name}"):
            for left in reversed(range(_ATTEMPTS)):
                try:
                    write()
                except DeltaError as error:
                    if not left or not delta_log.was_slower(error):
                        raise
                    time.sleep(_PAUSE)
                else:
                    break
        self._written.add(name)
        self._opened.pop(name, None)

    def reporting(self, doing: str) -> StorageFailures:
        """Turns failures of delta-rs and Arrow into StorageErrors."""
        return StorageFailures(doing, self.location)

    # --- what Spark reads and writes -----------------------------------------------------------

    def _read(self, table: DeltaTable, files: Sequence[delta_log.LoggedFile]) -> DataFrame:
        """Files of a table as Spark reads them, with all columns of the table."""
        from dqsql.engine.failures import SPARK_FAILURES

        schema = delta_log.spark_schema(table.schema().to_json())
        if self._is_out_of_reach:
            # A server may be on another machine: it gets the rows instead of the files.
            return self._sent(table, files, schema)
        root = table.table_uri.rstrip("/") if self.folder is None else self._uri_of(table)
        paths = [escaped(f"{root}/{file.path}") for file in files]
        if not paths:
            return self._spark.createDataFrame([], schema)
        try:
            return self._spark.read.schema(schema).parquet(*paths)
        except SPARK_FAILURES as error:
            raise StorageError(f"Spark cannot read the files of {root}", hint=_BOTH) from error

    def _uri_of(self, table: DeltaTable) -> str:
        # delta-rs writes spaces and letters beyond ASCII as %20 and the like.
        name = unquote(table.table_uri.rstrip("/").rpartition("/")[2])
        return f"{self.folder}/{name}"

    @property
    def _is_out_of_reach(self) -> bool:
        """Whether the tables are in a folder of this machine and Spark may be on another."""
        return self.folder is not None and is_remote(self._spark)

    def _sent(
        self, table: DeltaTable, files: Sequence[delta_log.LoggedFile], schema: Any
    ) -> DataFrame:
        handler = pa_fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
        parts = [pq.read_table(file.path, filesystem=handler) for file in files]
        rows = pa.concat_tables(parts, promote_options="default") if parts else None
        if rows is None or not rows.num_rows:
            return self._spark.createDataFrame([], schema)
        for field in schema.fields:
            if field.name not in rows.column_names:
                rows = rows.append_column(field.name, pa.nulls(rows.num_rows))
        return self._spark.createDataFrame(rows.select(schema.names), schema)

    def _exchange(
        self, name: str, rows: DataFrame, batches: Collection[str] | None, *, large: bool
    ) -> None:
        """Replace the rows of some batches, or all, by files that Spark writes, in one commit.

        Files that hold other batches as well are written again without the replaced ones.
        """
        from dqsql.engine import row_files

        if self._is_out_of_reach:
            self._replace_rows(name, delta_log.nullable(fetched(rows)), batches)
            return
        with self.reporting(f"cannot read {name}"):
            present = self.table(name)
        if present is not None:
            rows = row_files.spelt_as_in(present, rows)
            if delta_log.other_types(present, _schema(rows)):
                self._replace_rows(name, delta_log.nullable(fetched(rows)), batches)
                return

        def write() -> None:
            table = self.table(name)
            if table is None:
                table = self._create_empty(name, rows)
            else:
                table = self._widened(name, table, rows)
            old = _with_batches(table, batches)
            whole = rows
            if batches is not None and old:
                kept = self._read(table, old).where(f"not {storage_base.among('`batch`', batches)}")
                whole = kept.unionByName(rows, allowMissingColumns=True)
            if not large:
                whole = whole.coalesce(1)
            elif batches is not None:
                # Rows of a batch in as few files as Spark finds good.
                whole = whole.hint("rebalance", "batch")
            added = self._spark_files(table, name, whole)
            actions: list[AddAction | RemoveAction] = [*added, *delta_log.removals(old)]
            table.create_write_transaction(actions, "append", table.schema())

        self._commit(name, write)

    def _create_empty(self, name: str, rows: DataFrame, by: str = "batch") -> DeltaTable:
        configuration = {**_CONFIGURATION, _STATISTICS: by}
        return DeltaTable.create(self._uri(name), _schema(rows), configuration=configuration)

    def _widened(
        self, name: str, table: DeltaTable, rows: DataFrame, by: str = "batch"
    ) -> DeltaTable:
        """The table with the columns that some rows have and it has not, which says what is known.

        `by` is the column that files have statistics of.
        """
        if table.metadata().configuration.get(_STATISTICS) != by:
            table.alter.set_table_properties({_STATISTICS: by})
        present = {field.name for field in table.schema().fields}
        added = [field for field in _schema(rows).fields if field.name not in present]
        if not added:
            return table
        table.alter.add_columns(added)
        return DeltaTable(self._uri(name))

    def _spark_files(
        self, table: DeltaTable, name: str, rows: DataFrame, by: str = "batch"
    ) -> list[AddAction]:
        """Let Spark write rows as files beside the table's; what adds them to it."""
        from dqsql.engine.row_files import written_files

        files, written = written_files(table, self._uri(name), rows.write)
        added = [delta_log.add_action(files, file.path, file.size, by) for file in written]
        if not added:
            raise StorageError(
                f"the files that Spark wrote for {name} cannot be seen in {self.location}",
                hint=_BOTH,
            )
        return added


def _schema(rows: DataFrame) -> Schema:
    """The columns of rows as the log of a table has them."""
    return Schema.from_json(delta_log.delta_fields(rows.schema))


def _with_batches(table: DeltaTable, batches: Collection[str] | None) -> list[delta_log.LoggedFile]:
    """The files of a table that may have rows of some batches; None: all files."""
    files = delta_log.logged_files(table)
    return files if batches is None else [f for f in files if f.may_have(batches)]

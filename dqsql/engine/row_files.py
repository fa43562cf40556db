"""Tables of users' rows in folders: exchanged batch by batch in one commit, and compacted.

A new batch has files of its own, which are taken out unread when it is replaced. Small files of
neighbouring batches are put together later; of such a file, the other batches are written again.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dqsql.dialect import literal, quoted, to_sql
from dqsql.engine.delta_log import (
    LARGE_FILE,
    LoggedFile,
    logged_files,
    removals,
    spelling,
    stats_of,
)
from dqsql.engine.failures import SPARK_FAILURES, translate
from dqsql.engine.selects import fetched
from dqsql.engine.storage_base import among
from dqsql.errors import StorageError
from dqsql.model.batches import batch_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

# Folders of Spark's are numbered: what batches are called may be no name of a folder.
_PART = "dqsql_part"
_FOLDER = re.compile(rf"/{_PART}=(\d+)/")
# So many files smaller than this are put together.
_MOST_SMALL = 16
Actions = list[AddAction | RemoveAction]


def spelt_as_in(table: DeltaTable, rows: DataFrame) -> DataFrame:
    """Rows with columns named as in a table."""
    names = spelling(table, rows.columns)
    return rows if names == rows.columns else rows.toDF(*names)


@dataclass(frozen=True)
class RowFiles:
    """The files of a table of users' rows, as its log has them now.

    Attributes:
        table: the table.
        uri: where it is.
        by: the column that names a row's batch.
        read: gives the rows of some files.
        write: lets Spark write rows beside the table's files, and gives what adds them.
    """

    table: DeltaTable
    uri: str
    by: str
    read: Callable[[Sequence[LoggedFile]], DataFrame]
    write: Callable[[DataFrame], list[AddAction]]

    def replaced(self, rows: DataFrame, batches: Collection[str] | None) -> Actions:
        """What exchanges the rows of some batches, or all. Raises StorageError."""
        present = logged_files(self.table, self.by)
        if batches is None:
            named = fetched(rows.select(self.by).distinct())[self.by].to_pylist()
            return [*self._additions(rows, sorted(named)), *removals(present)]
        whole = [f for f in present if f.first == f.last and f.first in batches]
        mixed = self._holding(batches, [f for f in present if f not in whole])
        kept: list[AddAction] = []
        if mixed:
            others = self.read(mixed).where(f"not {among(quoted(self.by), batches)}")
            kept = self.write(others)
        added = self._additions(rows, [*batches])
        return [*added, *kept, *removals([*whole, *mixed])]

    def compacted(self) -> Actions:
        """What puts small files together, where there are many. Raises StorageError."""
        small = [f for f in logged_files(self.table, self.by) if f.size < LARGE_FILE]
        if len(small) <= _MOST_SMALL:
            return []
        actions: Actions = []
        for files in _neighbours(small):
            actions += self.write(self.read(files).coalesce(1))
            actions += removals(files)
        return actions

    def _holding(
        self, batches: Collection[str], files: Sequence[LoggedFile]
    ) -> Sequence[LoggedFile]:
        """The files that have rows of some batches."""
        possible = [f for f in files if f.may_have(batches)]
        if not possible:
            return []
        held = self.read(possible).where(among(quoted(self.by), batches))
        try:
            rows = fetched(held.selectExpr("_metadata.file_name as name").distinct())
        except SPARK_FAILURES as error:
            failure = translate(error, f"cannot read {self.uri.rpartition('/')[2]}")
            raise StorageError(failure.message, hint=failure.hint) from error
        names = set(rows["name"].to_pylist())
        return [f for f in possible if f.path.rpartition("/")[2] in names]

    def _additions(self, rows: DataFrame, batches: Sequence[str]) -> list[AddAction]:
        """Let Spark write rows of `batches`, each into files of its own; what adds them."""
        listed = ", ".join(to_sql(literal(b)) for b in batches)
        place = f"int(array_position(array({listed}), {quoted(self.by)})) as {_PART}"
        writer = rows.selectExpr("*", place).write.partitionBy(_PART)
        files, written = written_files(self.table, self.uri, writer)
        return [self._addition(files, file.path, file.size, batches) for file in written]

    def _addition(
        self, files: pa_fs.FileSystem, path: str, size: int, batches: Sequence[str]
    ) -> AddAction:
        place = _FOLDER.search(path)
        if place is None:
            raise StorageError(f"Spark wrote rows of no batch to {path}")
        batch = batches[int(place.group(1)) - 1]
        rows = pq.read_metadata(path, filesystem=files).num_rows
        stats = stats_of(rows, self.by, batch, batch)
        return AddAction(path, size, {}, int(time.time() * 1000), True, stats)


def written_files(
    table: DeltaTable, uri: str, writer: DataFrameWriter
) -> tuple[pa_fs.FileSystem, list[pa_fs.FileInfo]]:
    """Let Spark write Parquet files into a folder of their own beside a table's, and list them.

    Their paths are those of the table's file system. Raises StorageError.
    """
    folder = f"spark-{uuid.uuid4().hex}"
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    try:
        writer.parquet(f"{uri}/{folder}")
    except SPARK_FAILURES as error:
        failure = translate(error, f"cannot write {uri.rpartition('/')[2]}")
        raise StorageError(failure.message, hint=failure.hint) from error
    files = pa_fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    selector = pa_fs.FileSelector(folder, allow_not_found=True, recursive=True)
    return files, [
        file
        for file in files.get_file_info(selector)
        if file.base_name.endswith(".parquet") and not file.base_name.startswith((".", "_"))
    ]


def _neighbours(files: Sequence[LoggedFile]) -> Iterator[list[LoggedFile]]:
    """Files to be put together, those of batches near to each other."""
    ordered = sorted(files, key=lambda f: batch_order(f.first or ""))
    group: list[LoggedFile] = []
    for file in ordered:
        group.append(file)
        if sum(f.size for f in group) >= LARGE_FILE:
            yield group
            group = []
    if len(group) > 1:
        yield group

"""Tables of users' rows in folders: laid out by batch, exchanged batch by batch in one commit."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dqsql.dialect import quoted
from dqsql.engine.delta_log import other_types
from dqsql.engine.failures import SPARK_FAILURES, translate
from dqsql.engine.storage_sql import text_literal
from dqsql.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Folders of Spark's are numbered: what batches are called may be no name of a folder.
_PART = "dqsql_part"
_FOLDER = re.compile(rf"/{_PART}=(\d+)/")


def removals(table: DeltaTable, by: str, batches: Collection[str] | None) -> list[RemoveAction]:
    """What takes the files of some batches, or all, out of a table that is laid out `by` them."""
    now = int(time.time() * 1000)
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    name = f"partition.{by}"
    return [
        RemoveAction(action["path"], True, now, action["size_bytes"], {by: action[name]})
        for action in found
        if batches is None or (action[name] or "") in batches
    ]


def refuse_other_rows(name: str, table: DeltaTable, wanted: Schema) -> None:
    """Raise StorageError where a column would change its type."""
    if changed := other_types(table, wanted):
        raise StorageError(
            f"cannot write {name}: the column {changed[0]} has another type in the table",
            hint=f"rename or delete {name}, and run again with --full-refresh",
        )


def batches_of(rows: DataFrame, by: str) -> list[str]:
    """The batches that rows are of."""
    found = rows.select(by).distinct().toArrow()
    return sorted(found[by].to_pylist())


def additions(
    table: DeltaTable, uri: str, rows: DataFrame, by: str, batches: Sequence[str]
) -> list[AddAction]:
    """Let Spark write rows of `batches` beside a table's files; what adds them to it.

    Raises StorageError.
    """
    folder = f"spark-{uuid.uuid4().hex}"
    listed = ", ".join(text_literal(b) for b in batches)
    place = f"int(array_position(array({listed}), {quoted(by)})) as {_PART}"
    numbered = rows.selectExpr("*", place).drop(by)
    writer = numbered.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    try:
        writer.partitionBy(_PART).parquet(f"{uri}/{folder}")
    except SPARK_FAILURES as error:
        told = translate(error, f"cannot write {uri.rpartition('/')[2]}")
        raise StorageError(told.message, hint=told.hint) from error
    files = pa_fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    selector = pa_fs.FileSelector(folder, allow_not_found=True, recursive=True)
    return [
        _addition(files, found.path, found.size, by, batches)
        for found in files.get_file_info(selector)
        if found.base_name.endswith(".parquet") and not found.base_name.startswith((".", "_"))
    ]


def _addition(
    files: pa_fs.FileSystem, path: str, size: int, by: str, batches: Sequence[str]
) -> AddAction:
    place = _FOLDER.search(path)
    if place is None:
        raise StorageError(f"Spark wrote rows of no batch to {path}")
    batch = batches[int(place.group(1)) - 1]
    rows = pq.read_metadata(path, filesystem=files).num_rows
    now = int(time.time() * 1000)
    stats = f'{{"numRecords": {rows}}}'
    # To Delta an empty text is null here.
    return AddAction(path, size, {by: batch or None}, now, True, stats)

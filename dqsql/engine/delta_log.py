"""What the log of a Delta table says, and statements about its rows in delta-rs's words.

A few types of Spark's are none of Delta's. Their columns are stored as the numbers that Spark
writes into Parquet files for them, and the log keeps Spark's type beside: so Spark reads back what
it wrote.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from dqsql.engine.storage_base import Where
from dqsql.errors import StorageError
from dqsql.model.by_key import by_key
from dqsql.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


FAILURES = (DeltaError, OSError, pa.ArrowException)
# A table is compacted when it has this many files, and as many more for each partition.
_MOST_FILES = 16
_MOST_PER_PARTITION = 8
# Files of this size, in bytes, are not put together.
LARGE_FILE = 64 * 1024 * 1024
# Old files are deleted, and the log is cleared, every so many commits.
_UPKEEP = 10
# What delta-rs says to terminals, whoever reads it.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Commits and checkpoints of a log, by their versions.
_COMMITTED = re.compile(r"\d{20}\.(json|checkpoint\b.*\.parquet)")


@dataclass(frozen=True)
class LoggedFile:
    """A file of a table by the log, with the smallest and the largest batch in it if known.

    `path` is as the log has it; `model` is that of all rows in a table laid out by models.
    """

    path: str
    size: int
    rows: int
    model: str | None
    first: str | None
    last: str | None

    def may_have(self, batches: Collection[str]) -> bool:
        """Whether rows of some of the batches may be in it."""
        if self.first is None or self.last is None:
            return True
        first, last = self.first, self.last
        return any(first <= batch <= last for batch in batches)


def selected(
    delta_table: DeltaTable, table: Table, wanted: Sequence[str], where: Where
) -> pa.Table:
    """The rows that meet all conditions, with those of the wanted columns that there are."""
    present = {field.name for field in delta_table.schema().fields}
    pruning = [
        (name, "in", sorted(values))
        for name, values in where.items()
        if values is not None and name in table.partitions
    ]
    conditions = []
    for name, values in where.items():
        if name not in present:
            # A column that came later is null in all rows.
            conditions.append(pc.scalar(values is None))
        elif values is None:
            conditions.append(pc.field(name).is_null())
        else:
            conditions.append(pc.field(name).isin(sorted(values)))
    data = rows_of(delta_table, pruning)
    condition = reduce(lambda a, b: a & b, conditions) if conditions else None
    columns = [name for name in wanted if name in present]
    try:
        return data.to_table(columns=columns, filter=condition)
    except pa.ArrowNotImplementedError:
        # delta-rs's DELETE and UPDATE write texts as views, which Arrow does not compare with
        # statistics of texts. dqsql writes no such files, other tools may.
        return data.to_table().filter(condition).select(columns)


def rows_of(table: DeltaTable, pruning: Sequence[tuple[str, str, list[str]]] = ()) -> ds.Dataset:
    """The rows of a table, without files that `pruning` by the columns of its layout rules out."""
    return table.to_pyarrow_dataset(
        filesystem=_local_files(table), file_pruning_predicate=list(pruning) or None
    )


def _local_files(table: DeltaTable) -> pa_fs.FileSystem | None:
    """The file system of a table in a folder of this machine, else None.

    That of delta-rs calls Python from Arrow's threads, one of which may still read ahead when the
    interpreter ends: that aborts the process.
    """
    url = urlparse(table.table_uri)
    if url.scheme not in ("", "file"):
        return None
    root = unquote(url.path) if url.scheme else table.table_uri
    return pa_fs.SubTreeFileSystem(root, pa_fs.LocalFileSystem())


def version_of(folder: Path) -> int | None:
    """The version of the table in a folder of this machine; None where there is no table.

    It is in the names of the log's files: opening a table reads them, which takes a hundred times
    as long.
    """
    try:
        names = os.listdir(folder / "_delta_log")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return max((int(name[:20]) for name in names if _COMMITTED.fullmatch(name)), default=None)


def compact(table: DeltaTable) -> None:
    """Put small files of a table together, those of a model each, if it has many.

    That is a commit like one that changes data. Of two compactions by delta-rs, which do not, both
    would be taken: then all rows are there twice.
    """
    files = by_key((file.model, file) for file in logged_files(table))
    if sum(map(len, files.values())) <= _MOST_FILES + _MOST_PER_PARTITION * len(files):
        return
    data = rows_of(table)
    fragments = {fragment.path: fragment for fragment in data.get_fragments()}
    layout = table.metadata().partition_columns
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = []
    for model, some in files.items():
        small = [f for f in some if f.size < LARGE_FILE]
        if len(small) < 2:
            continue
        chosen = [fragments[unquote(f.path)] for f in small]
        merged_rows = ds.FileSystemDataset(
            chosen, data.schema, data.format, data.filesystem
        ).to_table()
        path, values = f"part-{uuid.uuid4().hex}.parquet", {"model": model} if layout else {}
        pq.write_table(merged_rows.drop_columns(layout), path, filesystem=data.filesystem)
        size = data.filesystem.get_file_info(path).size
        stats = stats_of(merged_rows.num_rows)
        actions.append(AddAction(path, size, values, now, True, stats))
        actions += removals(small)
    if actions:
        table.create_write_transaction(actions, "append", table.schema(), partition_by=layout)
        table.update_incremental()


def delete_unread(table: DeltaTable) -> None:
    """Now and then, delete what no one reads any more."""
    if table.version() % _UPKEEP == 0:
        table.vacuum(dry_run=False)
        table.cleanup_metadata()


def logged_files(table: DeltaTable, by: str = "batch") -> list[LoggedFile]:
    """The files of a table by its log; `by` names the column of batches."""
    return [
        LoggedFile(
            action["path"],
            action["size_bytes"],
            action["num_records"],
            action.get("partition.model"),
            action.get(f"min.{by}"),
            action.get(f"max.{by}"),
        )
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def add_action(files: pa_fs.FileSystem, path: str, size: int, by: str = "batch") -> AddAction:
    """What adds a Parquet file to a table, with what the log should know of its rows."""
    meta = pq.read_metadata(path, filesystem=files)
    stats = stats_of(meta.num_rows)
    names = [meta.schema.column(i).path for i in range(meta.num_columns)]
    if by in names and meta.num_row_groups:
        place = names.index(by)
        column_stats = [
            meta.row_group(i).column(place).statistics for i in range(meta.num_row_groups)
        ]
        if all(s is not None and s.has_min_max for s in column_stats):
            first, last = min(s.min for s in column_stats), max(s.max for s in column_stats)
            stats = stats_of(meta.num_rows, by, first, last)
    return AddAction(path, size, {}, int(time.time() * 1000), True, stats)


def removals(files: Iterable[LoggedFile]) -> list[RemoveAction]:
    """What takes files out of a table, to the log a change of data: see `compact`."""
    now = int(time.time() * 1000)
    return [
        # delta-rs encodes the path once more.
        RemoveAction(unquote(f.path), True, now, f.size, {"model": f.model} if f.model else {})
        for f in files
    ]


def stats_of(rows: int, by: str | None = None, first: str = "", last: str = "") -> str:
    """What the log says of the rows of a file: how many, from which batch to which."""
    stats: dict[str, Any] = {"numRecords": rows}
    if by is not None:
        stats |= {"minValues": {by: first}, "maxValues": {by: last}}
    return json.dumps(stats)


def other_types(table: DeltaTable, wanted: Schema) -> list[str]:
    """The columns that have another type in a table than is wanted."""
    before = {field.name: field for field in table.schema().fields}
    shared = (field for field in wanted.fields if field.name in before)
    return [field.name for field in shared if _plain(before[field.name]) != _plain(field)]


def refuse_other_types(name: str, table: DeltaTable, wanted: Schema, hint: str) -> None:
    """Raise StorageError where a column would change its type."""
    if changed := other_types(table, wanted):
        raise StorageError(
            f"cannot write {name}: the column {changed[0]} has another type in the table", hint=hint
        )


def settle_columns(name: str, table: DeltaTable, wanted: Schema) -> None:
    """Let a table describe its columns as the rows do that are to be written.

    Another version of dqsql may have described them in other words, which delta-rs takes for
    another schema. Raises StorageError where a column would change its type.
    """
    hint = f"it was written by another version of dqsql: delete {name} and run again"
    refuse_other_types(name, table, wanted, hint)
    described = {field.name: field.metadata for field in table.schema().fields}
    for field in wanted.fields:
        if field.metadata and described.get(field.name, field.metadata) != field.metadata:
            table.alter.set_column_metadata(field.name, field.metadata)


def _plain(field: Any) -> Any:
    """The type of a field, without what does not change how it is stored."""
    text = json.dumps(json.loads(field.to_json())["type"])
    return text.replace('"containsNull": false', '"containsNull": true').replace(
        '"nullable": false', '"nullable": true'
    )


def was_slower(error: Exception) -> bool:
    """Whether a commit failed since another process had committed."""
    return isinstance(error, CommitFailedError) or "already exists" in str(error)


@dataclass(frozen=True)
class StorageFailures(AbstractContextManager[None, None]):
    """Turns failures of delta-rs and Arrow while `doing` something into StorageErrors."""

    doing: str
    location: str

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: object) -> None:
        """Raise StorageError for a failure of theirs."""
        # What Arrow refuses inside delta-rs, such as a cast, is an exception of no other class.
        if kind is not Exception and not isinstance(error, FAILURES):
            return
        if was_slower(error):
            raise StorageError(
                f"{self.doing}: other runs keep writing to the same table",
                hint="this write stored nothing; run again",
            ) from error
        raise StorageError(
            f"{self.doing}: {sentence(error)}",
            hint=f"the warehouse is {self.location}; `dqsql doctor` shows what is damaged",
        ) from error


def sentence(error: Exception) -> str:
    """The first line of what an exception says, and what the operating system said."""
    text = _COLOURS.sub("", str(error)).strip()
    first, *more = text.splitlines() or [type(error).__name__]
    reason = next((line.strip() for line in more if "os error" in line), None)
    return first if reason is None else f"{first}: {reason}"


def among(name: str, values: Collection[str]) -> str:
    """The condition, as delta-rs reads it, that a column has one of some values."""
    listed = ", ".join("'" + value.replace("'", "''") + "'" for value in sorted(set(values)))
    return f'"{name}" in ({listed})' if listed else "false"


def nullable(rows: pa.Table) -> pa.Table:
    """The same rows with columns that may be null: a column that comes later is, in older rows.

    Intervals are the numbers that they are stored as.
    """
    fields = [
        field.with_type(pa.int64()) if pa.types.is_duration(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema([field.with_nullable(True) for field in fields]))


_SPARK_TYPE = "dqsql.spark_type"
# What in the JSON of a type is again one or several.
_INNER = frozenset({"type", "fields", "elementType", "keyType", "valueType"})
_STORED_AS = (
    (re.compile(r"interval (year|month)\b.*"), "integer"),
    (re.compile(r"interval (day|hour|minute|second)\b.*"), "long"),
    (re.compile(r"time\(\d+\)"), "long"),
)


def spelling(table: DeltaTable, names: Iterable[str]) -> list[str]:
    """Names of columns as a table has them: neither Spark nor Delta tells `v` from `V`."""
    known = {field.name.lower(): field.name for field in table.schema().fields}
    return [known.get(name.lower(), name) for name in names]


def delta_fields(schema: StructType) -> str:
    """A schema of Spark's as JSON for the log of a Delta table."""
    fields = []
    for field in schema.jsonValue()["fields"]:
        stored = _stored(field["type"])
        metadata = {} if stored == field["type"] else {_SPARK_TYPE: json.dumps(field["type"])}
        fields.append({**field, "type": stored, "nullable": True, "metadata": metadata})
    return json.dumps({"type": "struct", "fields": fields})


def spark_schema(log: str) -> StructType:
    """The schema with which Spark reads the files of a table, from the JSON in its log."""
    from pyspark.sql.types import StructType

    fields = []
    for field in json.loads(log)["fields"]:
        own = field["metadata"].get(_SPARK_TYPE)
        kind = field["type"] if own is None else json.loads(own)
        fields.append({**field, "type": kind, "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields})


def _stored(kind: Any) -> Any:
    """A type as JSON, with what Delta does not know replaced by how it is stored."""
    if isinstance(kind, dict):
        return {key: _stored(value) if key in _INNER else value for key, value in kind.items()}
    if isinstance(kind, list):
        return [_stored(value) for value in kind]
    if isinstance(kind, str):
        return next(
            (replacement for known, replacement in _STORED_AS if known.fullmatch(kind)), kind
        )
    return kind

"""Tables of a catalog: every write is one MERGE INTO, which happens whole or not at all.

The rows of a write are matched with the table's by key, null equal to null; rows in the replaced
part of the table that the write does not bring are deleted by the same statement.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dqsql.dialect import quoted
from dqsql.engine.failures import SPARK_FAILURES, condition_of, translate
from dqsql.engine.selects import fetched
from dqsql.engine.storage_base import (
    BatchPart,
    Row,
    Session,
    Store,
    TableFamily,
    Where,
    among,
    as_arrow,
    condition_of_where,
    no_rows,
)
from dqsql.engine.values import types_of
from dqsql.errors import StorageError
from dqsql.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from dqsql.engine.formats.base import TableFormat

_Columns = Sequence[tuple[str, str]]
_T_BATCH = "t.`batch`"
_T_MODEL = "t.`model`"
# More values than this are picked in Python: they would make a statement of megabytes.
_MOST_IN_STATEMENT = 1_000
# How Spark says that a table is not there.
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
_UNKNOWN_FORMAT = ("DATA_SOURCE_NOT_FOUND", "CATALOG_NOT_FOUND", "CATALOG_PLUGIN_CLASS_NOT_FOUND")
_DUPLICATES = ("MULTIPLE_SOURCE_ROW", "MERGE_CARDINALITY_VIOLATION")


class MergeStore(Store):
    """Tables of one format in a schema of the session's catalog, written by Spark.

    Tables that several models share are partitioned by `model`, so that runs of different models
    do not get in each other's way.
    """

    def __init__(self, session: Session, schema: str, table_format: TableFormat) -> None:
        super().__init__(session, f"schema {schema}")
        self._schema = schema.split(".")
        self._format = table_format

    # --- tables --------------------------------------------------------------------------------

    def select_arrow(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> pa.Table:
        """See `Store.select_arrow`."""
        wanted = list(columns or table.column_names)
        frame = self._existing(table.name)
        if frame is None:
            return no_rows(table, wanted)
        given = where or {}
        many = {n: frozenset(v) for n, v in given.items() if v and len(v) > _MOST_IN_STATEMENT}
        few = {n: v for n, v in given.items() if n not in many}
        needed = [*wanted, *(n for n in many if n not in wanted)]
        with self._reporting(f"cannot read {table.name}"):
            aligned = _aligned(frame, table.columns).where(condition_of_where(few))
            rows = fetched(aligned.select(*map(quoted, needed)))
        for name, values in many.items():
            rows = rows.filter(pc.is_in(rows[name], pa.array(sorted(values), rows[name].type)))
        return rows.select(wanted)

    def make(self, table: Table) -> None:
        """See `Store.make`."""
        schema = self._framed(table, ()).schema
        with self._reporting(f"cannot make {table.name}"):
            self._prepare(table.name, schema, _partitions(table))

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """See `Store.replace_batches`."""
        rows = [row for part in parts for row in part.rows]
        if not parts or (not rows and self._present(table.name) is None):
            return
        models = among(_T_MODEL, [part.model for part in parts])
        scopes = (
            f"{among(_T_MODEL, [part.model])} and {among(_T_BATCH, part.batches)}" for part in parts
        )
        scope = f"({' or '.join(scopes)})"
        frame = self._framed(table, rows)
        self._merge(table.name, frame, table.keys, _partitions(table), models, scope)

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Store.replace_partition`."""
        if not rows:
            return
        has_models = "model" in table.column_names
        scope = among(_T_MODEL, {row["model"] for row in rows}) if has_models else "true"
        frame = self._framed(table, rows)
        self._merge(table.name, frame, table.keys, _partitions(table), scope, scope)

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Store.append`. The others are not looked at."""
        with self._reporting(f"cannot write {table.name}"):
            frame = self._framed(table, rows)
            columns = self._prepare(table.name, frame.schema, _partitions(table))
            _aligned(frame, columns).coalesce(1).write.insertInto(self._name(table.name))

    # --- states --------------------------------------------------------------------------------

    def _read_states(self, name: str, batches: Collection[str] | None) -> DataFrame | None:
        frame = self._existing(name)
        if frame is None or batches is None:
            return frame
        return frame.where(among("`batch`", batches))

    def _replace_states(
        self,
        name: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str] | None,
        family: TableFamily,
    ) -> None:
        keys, scope = family.total_keys, "true"
        if batches is not None:
            keys, scope = family.keys, among(_T_BATCH, batches)
        self._merge(name, self._sent(rows), keys, (), "true", scope, large=family.large)

    # --- users' rows ---------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """See `Store.has`."""
        return self._existing(name) is not None

    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """See `Store.replace_rows`."""
        # A Delta table has null for an empty text that it is laid out by.
        named = f"coalesce(t.{quoted(by)}, '')"
        scope = "true" if batches is None else among(named, batches)
        self._merge(name, rows, (), (by,), "true", scope, large=True)

    # --- statements ----------------------------------------------------------------------------

    def _existing(self, name: str) -> DataFrame | None:
        """A table, or None when there is nothing to read yet."""
        with self._reporting("cannot read the warehouse"):
            return self._present(name)

    def _present(self, name: str) -> DataFrame | None:
        """A table, or None when there is none. Other exceptions of Spark's pass through."""
        try:
            frame = self._spark.table(self._name(name))
            frame.schema  # noqa: B018 - Spark Connect looks at the table only when asked
        except SPARK_FAILURES as error:
            if condition_of(error).startswith(_MISSING):
                return None
            raise
        return frame

    def _name(self, table: str) -> str:
        """The SQL identifier of a table."""
        return quoted(*self._schema, table_word(table))

    def _prepare(self, name: str, schema: StructType, partitions: Sequence[str]) -> _Columns:
        """Make a table or add what it lacks; return its columns with types, in order.

        Spark's exceptions pass through. Raises StorageError: a column has another type.
        """
        wanted = [*types_of(schema).items()]
        known = self._present(name)
        if known is None:
            self._create(name, wanted, partitions)
        else:
            present = [*types_of(known.schema).items()]
            added = _added(name, present, wanted)
            if not added:
                return present
            self._spark.sql(f"alter table {self._name(name)} add columns ({_listed(added)})")
        return [*types_of(self._spark.table(self._name(name)).schema).items()]

    def _create(self, name: str, columns: _Columns, partitions: Sequence[str]) -> None:
        """Make a table, and its schema where that is missing."""
        schema = quoted(*self._schema)
        if not self._spark.catalog.databaseExists(schema):
            self._spark.sql(f"create schema if not exists {schema}")
        statement = f"create table if not exists {self._name(name)} ({_listed(columns)})"
        statement += f" using {self._format.name}"
        if partitions:
            statement += f" partitioned by ({', '.join(map(quoted, partitions))})"
        self._spark.sql(statement)

    def _framed(self, table: Table, rows: Sequence[Row]) -> DataFrame:
        """Rows as a frame with the columns of a table."""
        if rows:
            return self._sent(as_arrow(table, rows))
        # Spark Connect takes no empty Arrow table.
        return self._spark.createDataFrame([], table.ddl)

    def _sent(self, rows: DataFrame | pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows

    def _merge(
        self,
        name: str,
        rows: DataFrame,
        keys: Sequence[str],
        partitions: Sequence[str],
        part: str,
        scope: str,
        *,
        large: bool = False,
    ) -> None:
        """Merge rows into the `part` of a table; rows in `scope` that are not among them go."""
        source = f"dqsql__source_{uuid.uuid4().hex}"
        with self._reporting(f"cannot write {name}"):
            fresh = _aligned(rows, self._prepare(name, rows.schema, partitions))
            fresh = fresh if large else fresh.coalesce(1)
            fresh = fresh.persist() if self._format.caches else fresh
            fresh.createOrReplaceTempView(source)
            try:
                self._spark.sql(_merge_sql(self._name(name), source, keys, part, scope))
            finally:
                self._spark.catalog.dropTempView(source)
                if self._format.caches:
                    fresh.unpersist()

    @contextmanager
    def _reporting(self, doing: str) -> Iterator[None]:
        """Turn Spark's exceptions inside the block into StorageErrors."""
        try:
            yield
        except SPARK_FAILURES as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: Exception) -> StorageError:
        """The StorageError for one of Spark's exceptions: what happened, and what helps."""
        text = f"{condition_of(error)} {error}"
        if _mentions(text, self._format.conflicts):
            return StorageError(
                f"{doing}: another run wrote to the same table at the same time",
                hint="this write stored nothing; run again",
            )
        hint = f"the warehouse is {self.location}"
        if _mentions(text, _UNKNOWN_FORMAT):
            hint = "the session lacks the table format's jars or settings, see docs/storage.md"
        elif _mentions(text, _DUPLICATES):
            hint = "several rows have the same key, which is a bug in dqsql: please report it"
        return StorageError(translate(error, doing).message, hint=hint)


def _mentions(text: str, words: Collection[str]) -> bool:
    return any(word in text for word in words)


def _partitions(table: Table) -> tuple[str, ...]:
    return ("model",) if "model" in table.column_names else ()


def _merge_sql(target: str, source: str, keys: Sequence[str], part: str, scope: str) -> str:
    # Rows without a key are not matched: the old ones go, the new ones come.
    matched = " and ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys) or "false"
    return (
        f"merge into {target} as t using {quoted(source)} as s"
        f" on {part} and {matched}"
        " when matched then update set *"
        " when not matched then insert *"
        f" when not matched by source and {scope} then delete"
    )


def table_word(name: str) -> str:
    """The name of a table in a catalog: those of Hive's kind take letters, digits and _ alone.

    Names that differ in other characters stay apart by a hash.
    """
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word == name else f"{word}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _aligned(frame: DataFrame, columns: _Columns) -> DataFrame:
    """A frame with exactly these columns in this order; null for those that it lacks."""
    present = {name.lower() for name in frame.columns}
    return frame.selectExpr(
        *(
            quoted(name) if name.lower() in present else f"cast(null as {kind}) as {quoted(name)}"
            for name, kind in columns
        )
    )


def _listed(columns: _Columns) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)


def _added(table: str, present: _Columns, wanted: _Columns) -> list[tuple[str, str]]:
    """The wanted columns that are not there yet."""
    types = {name.lower(): kind for name, kind in present}
    for name, kind in wanted:
        before = types.get(name.lower(), kind)
        if before != kind:
            raise StorageError(
                f"cannot write {table}: column {name} is {before} in the table and now {kind}",
                hint=f"drop {table} and run again with --full-refresh",
            )
    return [(name, kind) for name, kind in wanted if name.lower() not in types]

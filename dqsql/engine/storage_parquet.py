"""Parquet tables: works with nothing but Spark, by path or in a catalog.

Every write replaces a part of a table (some batches of a model, a model's ledger, one run), so
that writing the same thing twice leaves the same table. Spark replaces whole chunks; the other
batches of a chunk are read and written along. A part is staged and moved into place by Spark when
it is complete, and the ledger (`dq_batches`) is written last: a batch that is not in the ledger
has not been checked, whatever else is stored of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from dqsql.dialect import quoted
from dqsql.engine.failures import SPARK_FAILURES
from dqsql.engine.layout import STATES, Family, chunk_of
from dqsql.engine.paths import escaped
from dqsql.engine.session import configured
from dqsql.engine.storage_base import (
    BaseStore,
    BatchPart,
    Row,
    among,
    is_retyped,
    neighbours,
    text_literal,
)
from dqsql.engine.storage_tables import NamedTables
from dqsql.errors import StorageError
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = "chunk"
# The one chunk of a table of running totals.
_TOTAL = "total"
_DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
# What Hive and Spark escape in the names of partition folders.
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(1, 32)}


class ChunkedStore(BaseStore):
    """Tables whose files are gathered by chunks, which a write replaces whole."""

    def read_state(
        self, model: str, batches: Collection[str], family: Family = STATES
    ) -> DataFrame | None:
        """The state rows of some batches of a model; None when there is none yet.

        A column that was added later is null for the batches before. Raises StorageError.
        """
        if not batches:
            return None
        chunks = {family.chunk(b) for b in batches}
        frame = self._read_chunks(family.rows(model), chunks)
        return None if frame is None else frame.where(among("`batch`", batches))

    def replace_state(
        self,
        model: str,
        rows: DataFrame,
        batches: Collection[str],
        checked: Collection[str],
        family: Family = STATES,
    ) -> None:
        """Replace the state rows of `batches`; keep those of other `checked` batches.

        Raises StorageError: nothing was replaced.
        """
        fresh = rows.selectExpr("*", f"{family.chunk_sql('batch')} as {_CHUNK}")
        old = self.read_state(model, neighbours(batches, checked, family), family)
        if old is not None:
            fresh = old.unionByName(fresh, allowMissingColumns=True)
        self._write(_gathered(fresh, family), family.rows(model), (_CHUNK,))

    def read_total(self, model: str, family: Family = STATES) -> DataFrame | None:
        """The running totals of a model; None when there are none yet. Raises StorageError."""
        return self._read_chunks(family.total(model), [_TOTAL])

    def replace_total(self, model: str, rows: DataFrame, family: Family = STATES) -> None:
        """Replace all running totals of a model. Raises StorageError: nothing was replaced."""
        fresh = rows.selectExpr("*", f"'{_TOTAL}' as {_CHUNK}")
        self._write(_gathered(fresh, family), family.total(model), (_CHUNK,))

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Replace the rows of batches of some models, each named once, in one write.

        The table must be laid out by chunks. Raises StorageError: nothing was replaced, or some
        chunks were (run again).
        """
        rows = [row for part in parts for row in part.rows]
        kept = {p.model: neighbours(p.batches, p.checked) for p in parts}
        bare = {p.model: _bare_chunks(p) for p in parts}
        old = self.read(table) if any(kept.values()) or any(bare.values()) else None
        staying = None
        if old is not None:
            self._empty_chunks(table, old, bare, kept)
            staying = _rows_of_batches(old, kept)
        if not rows and staying is None:
            return
        fresh = self._frame(table, rows, _CHUNK)
        if staying is not None:
            fresh = staying.unionByName(fresh)
        self._write(fresh.coalesce(1), table.name, table.partitions)

    def _empty_chunks(
        self,
        table: Table,
        old: DataFrame,
        bare: Mapping[str, Collection[str]],
        kept: Mapping[str, Collection[str]],
    ) -> None:
        """Clear `bare` chunks that end up without rows, which no overwriting by rows reaches."""
        wanted = [_in_model(m, f"`{_CHUNK}`", chunks) for m, chunks in bare.items() if chunks]
        if not wanted:
            return
        keys = ("model", _CHUNK)
        found = old.where(" or ".join(wanted)).select(*keys).distinct()
        staying = _rows_of_batches(old, kept)
        if staying is not None:
            found = found.exceptAll(staying.select(*keys).distinct())
        try:
            chunks = found.toArrow().to_pylist()
        except SPARK_FAILURES as error:
            raise self._failure(f"cannot read {table.name}", error) from error
        for chunk in chunks:
            self._clear(table, chunk["model"], chunk[_CHUNK])

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Replace the partitions that `rows` lie in by `rows`. Raises StorageError."""
        if rows:
            self._write(self._frame(table, rows).coalesce(1), table.name, table.partitions)

    @abstractmethod
    def _read_chunks(self, name: str, chunks: Collection[str]) -> DataFrame | None:
        """The rows of some chunks of a state table."""

    @abstractmethod
    def _write(self, frame: DataFrame, name: str, partitions: Sequence[str]) -> None:
        """Replace the partitions that the rows of a frame lie in."""

    @abstractmethod
    def _clear(self, table: Table, model: str, chunk: str) -> None:
        """Take all rows out of one partition of a table by model and chunk."""


class ParquetStore(ChunkedStore):
    """Path-based Parquet tables under `root`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        super().__init__(spark, root.rstrip("/"))

    def path(self, table: str) -> str:
        """Where a table's files lie."""
        return f"{self.location}/{table}"

    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet. Raises StorageError."""
        ddl = table.ddl if _CHUNK not in table.partitions else f"{table.ddl}, `{_CHUNK}` string"
        path = escaped(self.path(table.name))
        return self._existing(lambda: self._spark.read.schema(ddl).parquet(path))

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet. Raises StorageError."""
        writer = self._frame(table, rows).coalesce(1).write.mode("append")
        path = self.path(table.name)
        self._attempt(f"cannot write {table.name}", lambda: writer.parquet(path))

    def _read_chunks(self, name: str, chunks: Collection[str]) -> DataFrame | None:
        # A pattern, because a path that is not there would be an error. Files written before a
        # check was added have fewer columns, so that one file's schema is not the table's.
        root = self.path(name)
        reader = self._spark.read.option("basePath", root).option("mergeSchema", "true")

        def read(*some: str) -> DataFrame:
            return reader.parquet(f"{escaped(root)}/{_CHUNK}={{{','.join(sorted(some))}}}")

        try:
            return self._existing(lambda: read(*chunks))
        except StorageError as error:
            if error.__cause__ is None or not is_retyped(error.__cause__):
                raise
        # Chunks of before and after a column changed its type; a chunk by itself has one type.
        found = [self._existing(partial(read, chunk)) for chunk in sorted(chunks)]
        frames = [frame for frame in found if frame is not None]
        return self._existing(lambda: reduce(_union, frames))

    def _write(self, frame: DataFrame, name: str, partitions: Sequence[str]) -> None:
        writer = frame.write.mode("overwrite")
        writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(*partitions)
        self._attempt(f"cannot write {name}", lambda: writer.parquet(self.path(name)))

    def _clear(self, table: Table, model: str, chunk: str) -> None:
        values = {"model": model, _CHUNK: chunk}
        folders = "/".join(f"{name}={_escaped(values[name])}" for name in table.partitions)
        rest = self._frame(table, ()).drop(*table.partitions).coalesce(1)
        path = f"{self.path(table.name)}/{folders}"
        self._attempt(
            f"cannot write {table.name}", lambda: rest.write.mode("overwrite").parquet(path)
        )


class CatalogParquetStore(ChunkedStore):
    """Parquet tables in a schema of the session's catalog, written by INSERT OVERWRITE."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        super().__init__(spark, f"schema {schema}")
        parts = schema.split(".")
        self._tables = NamedTables(
            spark, "parquet", lambda name: quoted(*parts, name), schema=quoted(*parts)
        )

    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet. Raises StorageError."""
        frame = self._existing(lambda: self._tables.frame(table.name))
        extra = [(_CHUNK, "string")] if _CHUNK in table.partitions else []
        return None if frame is None else self._tables.aligned(frame, [*table.columns, *extra])

    def _forget(self, table: Table) -> None:
        self._spark.catalog.refreshTable(self._tables.name(table.name))

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet. Raises StorageError."""
        frame = self._frame(table, rows).coalesce(1)
        self._insert(frame, table.name, table.partitions, overwrite=False)

    def _read_chunks(self, name: str, chunks: Collection[str]) -> DataFrame | None:
        frame = self._existing(lambda: self._tables.frame(name))
        return None if frame is None else frame.where(among(f"`{_CHUNK}`", chunks))

    def _write(self, frame: DataFrame, name: str, partitions: Sequence[str]) -> None:
        self._insert(frame, name, partitions, overwrite=True)

    def _insert(
        self, frame: DataFrame, name: str, partitions: Sequence[str], *, overwrite: bool
    ) -> None:
        def insert() -> None:
            columns = self._tables.prepare(name, frame.schema, partitions)
            rows = self._tables.aligned(frame, columns)
            with configured(self._spark, _DYNAMIC):
                rows.write.insertInto(self._tables.name(name), overwrite=overwrite)

        self._attempt(f"cannot write {name}", insert)

    def _clear(self, table: Table, model: str, chunk: str) -> None:
        name = self._tables.name(table.name)
        part = f"`model` = {text_literal(model)}, `{_CHUNK}` = {text_literal(chunk)}"
        statement = f"alter table {name} drop if exists partition ({part})"
        self._attempt(f"cannot write {table.name}", lambda: self._spark.sql(statement))


def _union(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.unionByName(second, allowMissingColumns=True)


def _gathered(frame: DataFrame, family: Family) -> DataFrame:
    """The rows in as many partitions as there are to be files: one, or what Spark finds good."""
    return frame.hint("rebalance", _CHUNK) if family.large else frame.coalesce(1)


def _bare_chunks(part: BatchPart) -> set[str]:
    """The chunks of a part's batches that get no row from it."""
    return {chunk_of(b) for b in part.batches} - {chunk_of(row["batch"]) for row in part.rows}


def _rows_of_batches(old: DataFrame, kept: Mapping[str, Collection[str]]) -> DataFrame | None:
    """The stored rows of some batches of each model; None where none is named."""
    chunks = {m: {chunk_of(b) for b in batches} for m, batches in kept.items() if batches}
    if not chunks:
        return None
    # The condition on partitions comes first, so that Spark reads no other files.
    wanted = (
        f"({_in_model(m, f'`{_CHUNK}`', found)} and {among('`batch`', kept[m])})"
        for m, found in chunks.items()
    )
    return old.where(" or ".join(wanted))


def _in_model(model: str, column: str, values: Collection[str]) -> str:
    return f"({among('`model`', [model])} and {among(column, values)})"


def _escaped(value: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)

"""Delta and Iceberg tables: every write is one MERGE INTO, which happens whole or not at all.

The rows of a write are matched with the table's by key, null equal to null; rows in the replaced
part of the table that the write does not bring are deleted by the same statement. The part is the
same as with Parquet (the chunks of the batches, less the other checked batches), so that what an
interrupted run left behind goes in the same way, and tables pass through the same states whatever
their format.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dqsql.dialect import quoted
from dqsql.engine.formats import ICEBERG_CATALOG, iceberg_catalog_conf
from dqsql.engine.layout import STATES, Family
from dqsql.engine.storage_base import BaseStore, BatchPart, Row, among, neighbours
from dqsql.engine.storage_tables import NamedTables
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T_BATCH = "t.`batch`"
_T_MODEL = "t.`model`"


class MergeStore(BaseStore):
    """Tables of a format that knows MERGE INTO.

    Tables that several models share are partitioned by `model`, so that runs of different models
    do not get in each other's way; there is no partition by chunk.
    """

    def __init__(self, spark: SparkSession, location: str, tables: NamedTables) -> None:
        super().__init__(spark, location)
        self._tables = tables

    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet. Raises StorageError."""
        frame = self._existing(lambda: self._tables.frame(table.name))
        return None if frame is None else self._tables.aligned(frame, table.columns)

    def read_state(
        self, model: str, batches: Collection[str], family: Family = STATES
    ) -> DataFrame | None:
        """The state rows of some batches of a model; None when there is none yet.

        A column that was added later is null for the batches before. Raises StorageError.
        """
        if not batches:
            return None
        frame = self._existing(lambda: self._tables.frame(family.rows(model)))
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
        scope = _scope(batches, checked, family)
        name = family.rows(model)
        self._merge(name, rows, family.keys, (), "true", scope, large=family.large)

    def read_total(self, model: str, family: Family = STATES) -> DataFrame | None:
        """The running totals of a model; None when there are none yet. Raises StorageError."""
        return self._existing(lambda: self._tables.frame(family.total(model)))

    def replace_total(self, model: str, rows: DataFrame, family: Family = STATES) -> None:
        """Replace all running totals of a model. Raises StorageError: nothing was replaced."""
        name = family.total(model)
        self._merge(name, rows, family.total_keys, (), "true", "true", large=family.large)

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Replace the rows of batches of some models, each named once, in one write.

        Raises StorageError: nothing was replaced.
        """
        rows = [row for part in parts for row in part.rows]
        if not parts or (not rows and not self._tables.exists(table.name)):
            return
        models = among(_T_MODEL, [part.model for part in parts])
        scopes = (
            f"{among(_T_MODEL, [part.model])} and {_scope(part.batches, part.checked)}"
            for part in parts
        )
        scope = f"({' or '.join(scopes)})"
        frame = self._frame(table, rows)
        self._merge(table.name, frame, table.keys, _partitions(table), models, scope)

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Replace the partitions that `rows` lie in by `rows`. Raises StorageError."""
        if not rows:
            return
        parts = [among(f"t.{quoted(p)}", {row[p] for row in rows}) for p in table.partitions]
        scope = " and ".join(parts) or "true"
        frame = self._frame(table, rows)
        self._merge(table.name, frame, table.keys, _partitions(table), scope, scope)

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet, without looking at the others. Raises StorageError."""

        def insert() -> None:
            frame = self._frame(table, rows)
            columns = self._tables.prepare(table.name, frame.schema, _partitions(table))
            fresh = self._tables.aligned(frame, columns).coalesce(1)
            fresh.write.insertInto(self._tables.name(table.name))

        self._attempt(f"cannot write {table.name}", insert)

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

        def merge() -> None:
            columns = self._tables.prepare(name, rows.schema, partitions)
            fresh = self._tables.aligned(rows, columns)
            fresh = self._source(fresh if large else fresh.coalesce(1))
            fresh.createOrReplaceTempView(source)
            try:
                self._spark.sql(_merge_sql(self._tables.name(name), source, keys, part, scope))
            finally:
                self._spark.catalog.dropTempView(source)
                self._release(fresh)

        self._attempt(f"cannot write {name}", merge)

    def _source(self, rows: DataFrame) -> DataFrame:
        """The rows of a write, such that they are computed once."""
        return rows

    def _release(self, rows: DataFrame) -> None:
        """Give back what `_source` took."""


class DeltaStore(MergeStore):
    """Delta tables, by path under `root` or in a schema of the session's catalog."""

    @classmethod
    def by_path(cls, spark: SparkSession, root: str) -> DeltaStore:
        """Tables that are folders under `root`."""
        root = root.rstrip("/")
        tables = NamedTables(spark, "delta", lambda name: quoted("delta", f"{root}/{name}"))
        return cls(spark, root, tables)

    @classmethod
    def in_schema(cls, spark: SparkSession, schema: str) -> DeltaStore:
        """Managed tables of a schema."""
        parts = schema.split(".")
        tables = NamedTables(
            spark, "delta", lambda name: quoted(*parts, name), schema=quoted(*parts)
        )
        return cls(spark, f"schema {schema}", tables)


class IcebergStore(MergeStore):
    """Iceberg tables, in a catalog of folders under a path or in a schema of a catalog."""

    @classmethod
    def by_path(cls, spark: SparkSession, warehouse: str, schema: str) -> IcebergStore:
        """Tables in `<warehouse>/<schema>`, by Iceberg's catalog of type `hadoop`."""
        catalog = _iceberg_catalog(spark, warehouse)
        return cls._named(spark, f"{warehouse}/{schema}", [catalog, schema])

    @classmethod
    def in_schema(cls, spark: SparkSession, schema: str) -> IcebergStore:
        """Tables of a schema, whose catalog must be one of Iceberg's."""
        return cls._named(spark, f"schema {schema}", schema.split("."))

    @classmethod
    def _named(cls, spark: SparkSession, location: str, parts: Sequence[str]) -> IcebergStore:
        tables = NamedTables(
            spark, "iceberg", lambda name: quoted(*parts, name), schema=quoted(*parts)
        )
        return cls(spark, location, tables)

    def _source(self, rows: DataFrame) -> DataFrame:
        # Spark plans the source of a MERGE twice for Iceberg; Delta keeps it by itself.
        return rows.persist()

    def _release(self, rows: DataFrame) -> None:
        rows.unpersist()


def _iceberg_catalog(spark: SparkSession, warehouse: str) -> str:
    """The catalog over a warehouse, which is set up when the session has none.

    A session loads a catalog once and keeps it: another warehouse needs another name.
    """
    name = ICEBERG_CATALOG
    taken = spark.conf.get(f"spark.sql.catalog.{name}.warehouse", None)
    if taken == warehouse:
        return name
    if taken is not None:
        name = f"{name}_{zlib.crc32(warehouse.encode()):08x}"
    for key, value in iceberg_catalog_conf(warehouse, name).items():
        spark.conf.set(key, value)
    return name


def _partitions(table: Table) -> tuple[str, ...]:
    return tuple(p for p in table.partitions if p == "model")


def _scope(batches: Collection[str], checked: Collection[str], family: Family = STATES) -> str:
    """The condition on rows `t` that a write of `batches` replaces."""
    if not batches:
        return "false"
    condition = among(family.chunk_sql(_T_BATCH), {family.chunk(b) for b in batches})
    kept = neighbours(batches, checked, family)
    return f"{condition} and not {among(_T_BATCH, kept)}" if kept else condition


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

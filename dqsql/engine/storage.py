"""The warehouse tables as folders of Parquet files: works with nothing but Spark.

Every write replaces a part of a table (some batches of a model, a model's ledger, one run), so
that writing the same thing twice leaves the same table. Spark replaces whole chunks; the other
batches of a chunk are read and written along. A part is staged and moved into place by Spark when
it is complete, and the ledger (`dq_batches`) is written last: a batch that is not in the ledger
has not been checked, whatever else is stored of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.failures import SPARK_FAILURES, condition_of, translate
from dqsql.engine.layout import chunk_of, chunk_sql
from dqsql.errors import StorageError
from dqsql.model.tables import Table, state_table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "double": pa.float64(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
}
Row = Mapping[str, Any]


class ParquetStore:
    """Path-based Parquet tables under `root`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root.rstrip("/")

    def path(self, table: str) -> str:
        """Where a table's files lie."""
        return f"{self._root}/{table}"

    # --- reading -------------------------------------------------------------------------------

    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet."""
        ddl = table.ddl if "chunk" not in table.partitions else f"{table.ddl}, `chunk` string"
        return self._existing(lambda: self._spark.read.schema(ddl).parquet(self.path(table.name)))

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The whole of a small table as dictionaries."""
        frame = self.read(table)
        if frame is None:
            return []
        try:
            found: list[dict[str, Any]] = frame.select(*table.column_names).toArrow().to_pylist()
        except SPARK_FAILURES as error:
            raise self._failure(f"cannot read {table.name}", error) from error
        return found

    def read_state(self, model: str, batches: Collection[str]) -> DataFrame | None:
        """The state rows of some batches of a model."""
        root = self.path(state_table_name(model))
        chunks = sorted({chunk_of(b) for b in batches})
        paths = [f"{root}/chunk={c}" for c in chunks]
        frame = self._existing(lambda: self._spark.read.option("basePath", root).parquet(*paths))
        return None if frame is None else frame.where(_among("batch", batches))

    def _existing(self, read: Any) -> DataFrame | None:
        try:
            frame: DataFrame = read()
            frame.schema  # noqa: B018 - Spark Connect looks at the path only when asked
        except SPARK_FAILURES as error:
            if condition_of(error).startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
                return None
            raise self._failure("cannot read the warehouse", error) from error
        return frame

    # --- writing -------------------------------------------------------------------------------

    def replace_state(
        self, model: str, rows: DataFrame, batches: Collection[str], checked: Collection[str]
    ) -> None:
        """Replace the state rows of `batches`; keep those of other `checked` batches."""
        kept = _neighbours(batches, checked)
        fresh = rows.selectExpr("*", f"{chunk_sql('batch')} as chunk")
        old = self.read_state(model, kept) if kept else None
        if old is not None:
            fresh = old.unionByName(fresh, allowMissingColumns=True)
        self._write(fresh, state_table_name(model), ("chunk",))

    def replace_batches(
        self,
        table: Table,
        model: str,
        rows: Sequence[Row],
        batches: Collection[str],
        checked: Collection[str],
    ) -> None:
        """Replace the rows of `batches` of a model in a table that is laid out by chunks."""
        fresh = self._frame(table, rows).selectExpr("*", f"{chunk_sql('batch')} as chunk")
        kept = _neighbours(batches, checked)
        old = self.read(table) if kept else None
        if old is not None:
            chunks = {chunk_of(b) for b in kept}
            old = old.where(_among("model", [model])).where(_among("chunk", chunks))
            fresh = old.where(_among("batch", kept)).unionByName(fresh)
        self._write(fresh, table.name, table.partitions)

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Replace the partitions that `rows` lie in by `rows`."""
        self._write(self._frame(table, rows), table.name, table.partitions)

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""
        writer = self._frame(table, rows).coalesce(1).write.mode("append")
        self._save(lambda: writer.parquet(self.path(table.name)), table.name)

    def _frame(self, table: Table, rows: Sequence[Row]) -> DataFrame:
        columns = {
            name: pa.array([row.get(name) for row in rows], type=_ARROW_TYPES[kind])
            for name, kind in table.columns
        }
        frame: DataFrame = self._spark.createDataFrame(pa.table(columns))
        return frame

    def _write(self, frame: DataFrame, name: str, partitions: Iterable[str]) -> None:
        writer = frame.coalesce(1).write.mode("overwrite")
        writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(*partitions)
        self._save(lambda: writer.parquet(self.path(name)), name)

    def _save(self, save: Any, name: str) -> None:
        try:
            save()
        except SPARK_FAILURES as error:
            raise self._failure(f"cannot write {name}", error) from error

    def _failure(self, doing: str, error: Exception) -> StorageError:
        cause = translate(error, doing)
        return StorageError(cause.message, hint=f"the warehouse is {self._root}")


def _neighbours(batches: Collection[str], checked: Collection[str]) -> list[str]:
    """Checked batches that share a chunk with `batches` and are not among them."""
    chunks = {chunk_of(b) for b in batches}
    replaced = set(batches)
    return sorted(b for b in checked if b not in replaced and chunk_of(b) in chunks)


def _among(name: str, values: Collection[str]) -> str:
    quoted = ", ".join("'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'" for v in values)
    return f"`{name}` in ({quoted})"

"""The warehouse tables behind one interface, whatever format they have and wherever they live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dqsql.engine.formats import check_format
from dqsql.engine.layout import STATES, Family
from dqsql.engine.storage_base import BatchPart, Row
from dqsql.engine.storage_merge import DeltaStore, IcebergStore
from dqsql.engine.storage_parquet import CatalogParquetStore, ParquetStore
from dqsql.model.project import Target
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BatchPart", "ParquetStore", "Row", "Store", "open_store"]


class Store(Protocol):
    """Reads and writes the warehouse tables.

    Every write replaces a part of one table; the same write twice leaves the same table, and so
    does any order of formats: a sequence of writes gives equal tables in every store. All methods
    raise StorageError for what Spark cannot do.
    """

    location: str
    """Where the tables live, for people."""

    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet."""

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The whole of a small table as dictionaries; empty when it does not exist yet."""

    def collect(
        self, table: Table, wanted: Callable[[DataFrame], DataFrame]
    ) -> list[dict[str, Any]]:
        """What is `wanted` of a table, as dictionaries; empty when it does not exist yet."""

    def read_state(
        self, model: str, batches: Collection[str], family: Family = STATES
    ) -> DataFrame | None:
        """The state rows of some batches of a model; None when there is none yet.

        A column that was added later is null for the batches before.
        """

    def replace_state(
        self,
        model: str,
        rows: DataFrame,
        batches: Collection[str],
        checked: Collection[str],
        family: Family = STATES,
    ) -> None:
        """Replace the state rows of `batches`, of which each has one; keep those of others.

        What is stored of batches that are not among the `checked` may go.
        """

    def read_total(self, model: str, family: Family = STATES) -> DataFrame | None:
        """The running totals of a model; None when there are none yet."""

    def replace_total(self, model: str, rows: DataFrame, family: Family = STATES) -> None:
        """Replace all running totals of a model by some (at least one).

        `rows` may be computed from the old ones.
        """

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Replace the rows of batches of some models, each named once, in one write."""

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Replace the partitions that `rows` lie in by `rows`."""

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""


def open_store(spark: SparkSession, target: Target) -> Store:
    """The store of a target: by path under `warehouse`, or in the session's catalog without one.

    Raises ConfigError: the target's table format is unknown.
    """
    check_format(target.table_format)
    if target.warehouse is None:
        return _catalog_store(spark, target)
    warehouse = target.warehouse.rstrip("/")
    if target.table_format == "delta":
        return DeltaStore.by_path(spark, f"{warehouse}/{target.schema}")
    if target.table_format == "iceberg":
        return IcebergStore.by_path(spark, warehouse, target.schema)
    return ParquetStore(spark, f"{warehouse}/{target.schema}")


def _catalog_store(spark: SparkSession, target: Target) -> Store:
    if target.table_format == "delta":
        return DeltaStore.in_schema(spark, target.schema)
    if target.table_format == "iceberg":
        return IcebergStore.in_schema(spark, target.schema)
    return CatalogParquetStore(spark, target.schema)

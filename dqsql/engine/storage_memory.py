"""A store that forgets: for checks of a DataFrame, of which nothing is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.layout import STATES, TableFamily
from dqsql.engine.storage_base import BatchPart, Row, Store, Where
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MemoryStore(Store):
    """Holds the states of the run in memory and has no tables."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(lambda: spark, "memory")
        self._states: dict[TableFamily, DataFrame] = {}

    def select(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> list[dict[str, Any]]:
        """Nothing: there is no history."""
        return []

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Keep nothing."""

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def read_state(
        self, model: str, batches: Collection[str], family: TableFamily = STATES
    ) -> DataFrame | None:
        """The rows that were put here last."""
        return self._states.get(family)

    def replace_state(
        self,
        model: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str],
        family: TableFamily = STATES,
    ) -> None:
        """Hold the rows, computed once."""
        found = rows if isinstance(rows, pa.Table) else rows.toArrow()
        schema = None if isinstance(rows, pa.Table) else rows.schema
        # Spark Connect takes no empty Arrow table.
        held: Any = found if found.num_rows or schema is None else []
        self._states[family] = self._spark.createDataFrame(held, schema)

    def read_total(self, model: str, family: TableFamily = STATES) -> DataFrame | None:
        """None: there are no earlier batches."""
        return None

    def replace_total(
        self, model: str, rows: DataFrame | pa.Table, family: TableFamily = STATES
    ) -> None:
        """Keep nothing."""

    def has(self, name: str) -> bool:
        """No table is there."""
        return False

    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """Keep nothing."""

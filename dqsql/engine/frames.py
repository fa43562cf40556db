"""Checks of a DataFrame: the view that the check model reads, and a store that keeps nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dqsql.dialect import quoted
from dqsql.engine.failures import translated
from dqsql.engine.layout import TableFamily
from dqsql.engine.storage_base import BatchPart, Row, Store, Where
from dqsql.errors import UsageError
from dqsql.model.table import Table


def as_frame(data: object, spark: SparkSession | None) -> DataFrame:
    """A DataFrame of Spark's with the rows of one, or of one of pandas.

    That of pandas goes to `spark`, else to the active session, else to one that is started here and
    stays for the process. Raises UsageError for anything else.
    """
    if isinstance(data, DataFrame):
        return data
    if not isinstance(data, pandas.DataFrame):
        kind = type(data).__name__
        raise UsageError(
            f"dqsql.check takes a DataFrame of Spark or pandas, not a {kind}",
            hint="spark.table('name') makes one of a table, spark.createDataFrame(..) of rows",
        )
    session = spark or SparkSession.getActiveSession()
    if session is None:
        session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    with translated("the pandas DataFrame cannot be given to Spark"):
        return session.createDataFrame(data)


@contextmanager
def as_view(frame: DataFrame, view: str, others: Sequence[str] = ()) -> Iterator[None]:
    """The frame as a temporary view; it and `others` are dropped at the end."""
    with translated("the DataFrame cannot be read"):
        frame.createOrReplaceTempView(quoted(view))
    try:
        yield
    finally:
        for name in (view, *others):
            frame.sparkSession.catalog.dropTempView(name)


class MemoryStore(Store):
    """Holds the states of the run in memory and has no tables."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(lambda: spark, "memory")
        self._states: dict[str, DataFrame] = {}

    def select(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> list[dict[str, Any]]:
        """Nothing: there is no history."""
        return []

    def make(self, table: Table) -> None:
        """Make nothing."""

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Keep nothing."""

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def _read_states(self, name: str, batches: Collection[str] | None) -> DataFrame | None:
        return self._states.get(name)

    def _replace_states(
        self,
        name: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str] | None,
        family: TableFamily,
    ) -> None:
        """Hold the rows, computed once."""
        found = rows if isinstance(rows, pa.Table) else rows.toArrow()
        schema = None if isinstance(rows, pa.Table) else rows.schema
        # Spark Connect takes no empty Arrow table.
        held: Any = found if found.num_rows or schema is None else []
        self._states[name] = self._spark.createDataFrame(held, schema)

    def has(self, name: str) -> bool:
        """No table is there."""
        return False

    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """Keep nothing."""

"""What earlier runs stored of a model: what monitors learn from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.failures import translated
from dqsql.engine.layout import chunk_of
from dqsql.engine.storage_base import among, text_literal
from dqsql.model.tables import METRICS, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

# What identifies a stored metric and its value.
_METRIC = ("batch", "segment", "column_name", "metric", "parameters", "scope", "value")
# More batches than this are picked in Python: they would make a statement of megabytes.
_MOST_IN_STATEMENT = 1_000


def stored_rows(
    store: Store,
    table: Table,
    model: str,
    batches: Collection[str],
    metrics: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The rows of some batches of a model in a table laid out by batch; of some metrics, if given.

    Raises EngineError.
    """
    if not batches:
        return []

    def wanted(frame: DataFrame) -> DataFrame:
        found = _of_batches(frame, model, batches).where(among("batch", batches))
        if metrics:
            found = found.where(among("metric", metrics))
        return found.select(*(c for c in table.column_names if c in found.columns))

    return store.collect(table, wanted)


def stored_metrics(
    store: Store, model: str, batches: Collection[str], metrics: Collection[str], segments: bool
) -> list[dict[str, Any]]:
    """What identifies metrics of some batches of a model, by their names, and their values.

    Those of segments are read only where `segments` asks for it. Raises EngineError.
    """
    if not batches or not metrics:
        return []

    def wanted(frame: DataFrame) -> DataFrame:
        found = _of_batches(frame, model, batches).where(among("metric", metrics))
        if not segments:
            found = found.where("segment is null")
        if len(batches) <= _MOST_IN_STATEMENT:
            found = found.where(among("batch", batches))
        return found.select(*_METRIC)

    known = frozenset(batches)
    return [row for row in store.collect(METRICS, wanted) if row["batch"] in known]


def _of_batches(frame: DataFrame, model: str, batches: Collection[str]) -> DataFrame:
    """The rows of a model in the parts of a table that hold some batches, and maybe others."""
    found = frame.where(f"model = {text_literal(model)}")
    if "chunk" in found.columns:
        found = found.where(among("chunk", {chunk_of(b) for b in batches}))
    return found


def stored_of_model(store: Store, table: Table, model: str) -> list[dict[str, Any]]:
    """All rows of a model in a small table. Raises EngineError."""
    mine = f"model = {text_literal(model)}"
    return store.collect(table, lambda frame: frame.where(mine).select(*table.column_names))


def batches_where(spark: SparkSession, batches: Collection[str], condition: str) -> frozenset[str]:
    """The batches that meet a SQL condition on `batch`, their names. Raises EngineError."""
    if not batches:
        return frozenset()
    with translated(f"the condition {condition!r} on batches does not work"):
        names = pa.table({"batch": sorted(batches)})
        found = spark.createDataFrame(names).where(condition).toArrow()
    return frozenset(found["batch"].to_pylist())

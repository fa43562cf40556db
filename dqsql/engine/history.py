"""What earlier runs stored of a model: what monitors learn from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.failures import translated
from dqsql.engine.layout import chunk_of
from dqsql.engine.storage_base import among, text_literal
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


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
    frame = store.read(table) if batches else None
    if frame is None:
        return []
    with translated(f"cannot read what {table.name} has of {model}"):
        found = frame.where(f"model = {text_literal(model)}")
        if "chunk" in found.columns:
            found = found.where(among("chunk", {chunk_of(b) for b in batches}))
        found = found.where(among("batch", batches))
        if metrics:
            found = found.where(among("metric", metrics))
        columns = [c for c in table.column_names if c in found.columns]
        rows: list[dict[str, Any]] = found.select(*columns).toArrow().to_pylist()
    return rows


def stored_of_model(store: Store, table: Table, model: str) -> list[dict[str, Any]]:
    """All rows of a model in a small table. Raises EngineError."""
    frame = store.read(table)
    if frame is None:
        return []
    with translated(f"cannot read what {table.name} has of {model}"):
        found = frame.where(f"model = {text_literal(model)}")
        rows: list[dict[str, Any]] = found.select(*table.column_names).toArrow().to_pylist()
    return rows


def batches_where(spark: SparkSession, batches: Collection[str], condition: str) -> frozenset[str]:
    """The batches that meet a SQL condition on `batch`, their names. Raises EngineError."""
    if not batches:
        return frozenset()
    with translated(f"the condition {condition!r} on batches does not work"):
        names = pa.table({"batch": sorted(batches)})
        found = spark.createDataFrame(names).where(condition).toArrow()
    return frozenset(found["batch"].to_pylist())

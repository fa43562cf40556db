"""What earlier runs stored of a model: what monitors learn from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.selects import fetched
from dqsql.engine.storage_base import no_rows
from dqsql.model.table import Table
from dqsql.model.tables import METRICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

# What identifies a stored metric and its value.
_METRIC = ("batch", "segment", "column_name", "metric", "parameters", "scope", "value")


def stored_rows(
    store: Store, table: Table, model: str, batches: Collection[str], columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The rows of some batches of a model in a table of rows by batch.

    Of `columns`, or all. Raises StorageError.
    """
    if not batches:
        return []
    return store.select(table, columns, {"model": [model], "batch": batches})


def stored_metrics(
    store: Store,
    model: str,
    batches: Collection[str],
    metrics: Collection[str] | None = None,
    *,
    segments: bool = True,
    unlike: Collection[str] = (),
) -> pa.Table:
    """What identifies metrics of some batches of a model, and their values.

    Of all metrics, or of some by their names. Those of segments are read only where `segments` asks
    for it, and not of the batches in `unlike`, which had other segments. Raises StorageError.
    """
    others = [b for b in batches if b in unlike] if segments else []
    if others:
        alike = [b for b in batches if b not in unlike]
        whole = stored_metrics(store, model, others, metrics, segments=False)
        return pa.concat_tables([whole, stored_metrics(store, model, alike, metrics)])
    if not batches or (metrics is not None and not metrics):
        return no_rows(METRICS, _METRIC)
    where: dict[str, Collection[str] | None] = {"model": [model], "batch": batches}
    if metrics is not None:
        where["metric"] = metrics
    return store.select_arrow(METRICS, _METRIC, where if segments else {**where, "segment": None})


def stored_of_model(store: Store, table: Table, model: str) -> list[dict[str, Any]]:
    """All rows of a model in a small table. Raises StorageError."""
    return store.select(table, where={"model": [model]})


def batches_where(spark: SparkSession, batches: Collection[str], condition: str) -> frozenset[str]:
    """The batches that meet a SQL condition on `batch`, their names. Raises EngineError."""
    from dqsql.engine.failures import translated

    if not batches:
        return frozenset()
    with translated(f"the condition {condition!r} on batches does not work"):
        names = pa.table({"batch": sorted(batches)})
        rows = fetched(spark.createDataFrame(names).where(condition))
    return frozenset(rows["batch"].to_pylist())

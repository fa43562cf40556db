"""Writes of the Parquet store replace parts of tables and keep the rest."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dqsql.engine.history import stored_of_model
from dqsql.engine.session import configured, runtime_conf
from dqsql.engine.storage import BatchPart, CatalogParquetStore, ParquetStore
from dqsql.model.project import Target
from dqsql.model.tables import METRICS, MODELS, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
# Two months and an odd name, so that some share a chunk and some do not.
BATCHES = ("2024-01-01", "2024-01-02", "2024-02-01", "it's \\ odd")


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[ParquetStore]:
    with configured(spark, runtime_conf(Target("local", "test"))):
        # Spark takes what it reads for a pattern.
        yield ParquetStore(spark, str(tmp_path / "ware [house] {1}?*" / "dq"))


def states(spark: SparkSession, rows: dict[str, int], more: str = "") -> DataFrame:
    listed = ", ".join(f"({_quoted(b)}, {n})" for b, n in rows.items())
    return spark.sql(
        f"select batch, cast(null as string) as segment, cast(n as bigint) as rows{more}"
        f" from values {listed} as t(batch, n)"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def stored(store: ParquetStore, column: str = "rows") -> dict[str, Any]:
    frame = store.read_state("m", BATCHES)
    assert frame is not None
    rows = frame.select("batch", column).collect()
    assert len(rows) == len({r[0] for r in rows})
    return {r[0]: r[1] for r in rows}


def test_states_are_replaced_by_batch(spark: SparkSession, store: ParquetStore) -> None:
    assert store.read_state("m", BATCHES) is None
    first = dict.fromkeys(BATCHES, 1)
    store.replace_state("m", states(spark, first), BATCHES, ())
    assert stored(store) == first
    store.replace_state("m", states(spark, first), BATCHES, BATCHES)
    assert stored(store) == first
    for batch in BATCHES:
        store.replace_state("m", states(spark, {batch: 2}), [batch], BATCHES)
        first[batch] = 2
        assert stored(store) == first


def test_a_state_column_added_later_is_null_for_batches_before(
    spark: SparkSession, store: ParquetStore
) -> None:
    old = dict.fromkeys(BATCHES, 1)
    store.replace_state("m", states(spark, old), BATCHES, ())
    new = states(spark, {"2024-01-02": 5}, ", 7.5D as x__sum, array(1) as extra")
    store.replace_state("m", new, ["2024-01-02"], BATCHES)
    assert stored(store) == {**old, "2024-01-02": 5}
    assert stored(store, "x__sum") == {**dict.fromkeys(BATCHES), "2024-01-02": 7.5}
    # And one that goes again is kept for those that have it.
    store.replace_state("m", states(spark, {"2024-01-01": 6}), ["2024-01-01"], BATCHES)
    assert stored(store, "x__sum")["2024-01-02"] == 7.5


def test_a_column_that_changed_its_type_is_read_in_both(
    spark: SparkSession, store: ParquetStore
) -> None:
    """As in the segments of a model whose column was retyped, months (chunks) ago."""
    first, second = {"2024-01-01": 1, "2024-01-02": 2}, {"2024-02-01": 3}
    store.replace_state("m", states(spark, first, ", int(n) as g"), list(first), ())
    store.replace_state("m", states(spark, second, ", 'de' as g, 1 as x"), list(second), first)
    assert stored(store) == {**first, **second}
    assert stored(store, "g") == {"2024-01-01": "1", "2024-01-02": "2", "2024-02-01": "de"}
    assert stored(store, "x") == {"2024-01-01": None, "2024-01-02": None, "2024-02-01": 1}


def test_rows_of_tables_are_replaced_by_model_and_batch(
    spark: SparkSession, store: ParquetStore
) -> None:
    def metric(model: str, batch: str, value: float, name: str = "mean") -> dict[str, Any]:
        return {
            "model": model,
            "batch": batch,
            "metric": name,
            "scope": "delta",
            "value": value,
            "computed_at": NOW,
        }

    def rows_of(model: str) -> list[dict[str, Any]]:
        return [metric(model, b, 1.0, name) for b in BATCHES for name in ("mean", "sum")]

    models = ("m", "other")
    store.replace_batches(METRICS, [BatchPart(m, rows_of(m), BATCHES, ()) for m in models])
    fresh = [metric("m", "2024-01-01", 2.0)]
    store.replace_batches(METRICS, [BatchPart("m", fresh, ["2024-01-01"], BATCHES)])
    found = {(r["model"], r["batch"], r["metric"]): r["value"] for r in store.rows(METRICS)}
    wanted = {(m, b, n): 1.0 for m in ("m", "other") for b in BATCHES for n in ("mean", "sum")}
    wanted["m", "2024-01-01", "mean"] = 2.0
    del wanted["m", "2024-01-01", "sum"]
    assert found == wanted
    # A batch that ends up without rows has none, also where it has a chunk for itself.
    store.replace_batches(METRICS, [BatchPart("m", [], ["2024-02-01"], BATCHES)])
    assert ("m", "2024-02-01") not in {(r["model"], r["batch"]) for r in store.rows(METRICS)}
    assert len(store.rows(METRICS)) == len(wanted) - 2
    # Of several models in one write, each keeps and loses its own.
    parts = [
        BatchPart("m", [], ["2024-01-01"], BATCHES),
        BatchPart("other", [metric("other", "2024-02-01", 3.0)], ["2024-02-01"], BATCHES),
    ]
    store.replace_batches(METRICS, parts)
    del wanted["m", "2024-01-01", "mean"], wanted["m", "2024-02-01", "mean"]
    del wanted["m", "2024-02-01", "sum"], wanted["other", "2024-02-01", "sum"]
    wanted["other", "2024-02-01", "mean"] = 3.0
    found = {(r["model"], r["batch"], r["metric"]): r["value"] for r in store.rows(METRICS)}
    assert found == wanted


def test_rows_that_are_replaced_while_they_are_read(
    store: ParquetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"model": name, "valid_from": NOW} for name in ("a", "b")]
    store.replace_partition(MODELS, rows)
    read, writes = store.read, [{**row, "description": "new"} for row in rows]

    def then_another_process_writes(table: Table) -> DataFrame | None:
        frame = read(table)
        if writes:
            store.replace_partition(MODELS, [writes.pop()])
        return frame

    monkeypatch.setattr(store, "read", then_another_process_writes)
    found = {row["model"]: row["description"] for row in store.rows(MODELS)}
    assert found == {"a": "new", "b": "new"} and not writes
    writes.append({**rows[0], "description": "newer"})
    assert stored_of_model(store, MODELS, "a")[0]["description"] == "newer" and not writes


def test_files_that_another_process_replaced_in_a_catalog(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"create schema replaced location '{tmp_path / 'replaced'}'")
    try:
        store = CatalogParquetStore(spark, "replaced")
        store.replace_partition(MODELS, [{"model": "a", "valid_from": NOW}])
        before = store.rows(MODELS)
        (file,) = (tmp_path / "replaced").rglob("*.parquet")
        file.rename(file.with_name("other.parquet"))
        assert store.rows(MODELS) == before != []
    finally:
        spark.sql("drop schema replaced cascade")

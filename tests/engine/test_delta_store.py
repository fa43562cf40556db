"""Writes of Delta tables in folders replace parts of tables and keep the rest."""

from __future__ import annotations

import datetime as dt
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from dqsql.engine import delta_log
from dqsql.engine.history import stored_metrics, stored_of_model, stored_rows
from dqsql.engine.session import runtime_conf
from dqsql.engine.session_settings import configured
from dqsql.engine.storage import BatchPart, Store, open_store, open_tables
from dqsql.engine.storage_base import COUNTS
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import ConfigError, StorageError
from dqsql.model.project import Target
from dqsql.model.tables import METRICS, MODELS, RUNS
from tests.tables import table_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
BATCHES = ("2024-01-01", "2024-01-02", "2024-02-01", "it's \\ odd")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    # Spark takes what it reads for a pattern.
    return tmp_path / "ware house {1}?*"


@pytest.fixture
def store(spark: SparkSession, warehouse: Path) -> Iterator[Store]:
    target = Target("local", "test", warehouse=str(warehouse))
    with configured(spark, runtime_conf(target)):
        yield open_store(spark, target)


def test_columns_are_described_in_the_newest_words(store: Store) -> None:
    older = replace(
        RUNS, fields=tuple(replace(f, description=f"old: {f.name}") for f in RUNS.fields)
    )
    rows = [{"run_id": str(n), "started_at": NOW, "exit_code": 0} for n in range(4)]
    store.append(older, rows[:1])
    store.append(RUNS, rows[1:2])
    store.append(older, rows[2:3])
    store.replace_partition(RUNS, rows[2:])
    assert len(store.select(RUNS)) == 2
    opened = DeltaTable(str(Path(store.location) / RUNS.name))
    told = {f.name: f.metadata["comment"] for f in opened.schema().fields}
    assert told == {f.name: f.description for f in RUNS.fields}


def test_versions_are_those_of_the_tables(store: Store) -> None:
    folder = Path(store.location) / RUNS.name
    assert store.versions([METRICS.name, RUNS.name]) == {}
    for number in range(45):
        store.append(RUNS, [{"run_id": str(number), "started_at": NOW, "exit_code": 0}])
        opened = DeltaTable(str(folder))
        assert store.versions([METRICS.name, RUNS.name]) == {RUNS.name: opened.version()}
        if number == 20:
            opened.optimize.compact()
            opened.create_checkpoint()
            opened.cleanup_metadata()
    log = folder / "_delta_log"
    (log / f"{opened.version() + 1:020}.json.tmp").touch()
    (log / f"{opened.version() + 1:020}.json#1").touch()
    assert store.versions([RUNS.name]) == {RUNS.name: opened.version()}


def tables_of(warehouse: Path) -> Store:
    return open_tables(Target("local", "test", warehouse=str(warehouse)))


def states(spark: SparkSession, rows: dict[str, int], more: str = "") -> DataFrame:
    listed = ", ".join(f"({_quoted(b)}, {n})" for b, n in rows.items())
    return spark.sql(
        f"select batch, cast(null as string) as segment, cast(n as bigint) as rows{more}"
        f" from values {listed} as t(batch, n)"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def stored(store: Store, column: str = "rows") -> dict[str, Any]:
    frame = store.read_state("m", BATCHES)
    assert frame is not None
    rows = frame.select("batch", column).collect()
    assert len(rows) == len({r[0] for r in rows})
    return {r[0]: r[1] for r in rows}


@pytest.mark.parametrize("few", [True, False])
def test_states_are_replaced_by_batch(spark: SparkSession, store: Store, few: bool) -> None:
    def replace(rows: dict[str, int]) -> None:
        frame = states(spark, rows)
        store.replace_state("m", frame.toArrow() if few else frame, list(rows))

    assert store.read_state("m", BATCHES) is None
    first = dict.fromkeys(BATCHES, 1)
    for _ in range(2):
        replace(first)
        assert stored(store) == first
    for batch in BATCHES:
        replace({batch: 2})
        first[batch] = 2
        assert stored(store) == first


@pytest.mark.parametrize("few", [True, False])
def test_a_state_column_added_later_is_null_for_batches_before(
    spark: SparkSession, store: Store, few: bool
) -> None:
    def replace(rows: dict[str, int], more: str = "") -> None:
        frame = states(spark, rows, more)
        store.replace_state("m", frame.toArrow() if few else frame, list(rows))

    old = dict.fromkeys(BATCHES, 1)
    replace(old)
    replace({"2024-01-02": 5}, ", 7.5D as x__sum, array(1) as extra")
    assert stored(store) == {**old, "2024-01-02": 5}
    assert stored(store, "x__sum") == {**dict.fromkeys(BATCHES), "2024-01-02": 7.5}
    # And one that goes again is kept for those that have it.
    replace({"2024-01-01": 6})
    assert stored(store, "x__sum")["2024-01-02"] == 7.5


def test_what_spark_writes_it_reads_back(spark: SparkSession, store: Store) -> None:
    """Also what Delta has no type for."""
    more = (
        ", interval '1 02:03:04.5' day to second as i, interval '1-2' year to month as y"
        ", array(named_struct('value', 1.5D, 'n', interval 5 hour)) as a, map('k', 1) as m"
        ", timestamp'2024-01-01 00:00:00.123456' as t, timestamp_ntz'2024-01-01' as z"
        ", cast(1.5 as decimal(38, 10)) as d, X'00ff' as b"
    )
    frame = states(spark, {"2024-01-01": 1}, more)
    store.replace_state("m", frame, ["2024-01-01"])
    store.replace_state("m", states(spark, {"2024-01-02": 2}, more), ["2024-01-02"])
    read = store.read_state("m", ["2024-01-01"])
    assert read is not None
    assert dict(read.dtypes) == dict(frame.dtypes)
    # As texts: PySpark has no values for intervals of months.
    texts = [f"cast({name} as string) as {name}" for name in frame.columns]
    assert read.selectExpr(*texts).collect() == frame.selectExpr(*texts).collect()


@pytest.mark.usefixtures("compiled_plans")
def test_counts_of_batches_share_files(spark: SparkSession, store: Store, warehouse: Path) -> None:
    """Files that hold other batches are written again without those that are replaced.

    Spark puts the rows of a batch together where it plans adaptively.
    """

    def counts(values: dict[str, int]) -> DataFrame:
        return states(spark, values, ", 'x' as counted, cast(n as string) as value")

    store.replace_state("m", counts(dict.fromkeys(BATCHES, 1)), BATCHES, COUNTS)
    store.replace_state("m", counts({"2024-01-02": 2}), ["2024-01-02"], COUNTS)
    store.replace_state("m", counts({"2025-01-02": 3}), ["2025-01-02"], COUNTS)
    found = {r["batch"]: r["rows"] for r in table_rows(warehouse / "dq", "dq_frequency__m")}
    assert found == {**dict.fromkeys(BATCHES, 1), "2024-01-02": 2, "2025-01-02": 3}
    one = store.read_state("m", ["2025-01-02"], COUNTS)
    assert one is not None
    # Only the file that may have the batch.
    assert len(one.inputFiles()) == 1
    assert one.count() == 1


def test_totals_are_replaced_by_what_is_computed_from_them(
    spark: SparkSession, store: Store
) -> None:
    assert store.read_total("m") is None
    store.replace_total("m", states(spark, {"1": 1, "2": 2}).toArrow())
    before = store.read_total("m")
    assert before is not None
    store.replace_total("m", before.selectExpr("batch", "segment", "rows + 1 as rows"))
    after = store.read_total("m")
    assert after is not None
    assert sorted(r["rows"] for r in after.collect()) == [2, 3]


@pytest.mark.parametrize("few", [True, False])
def test_a_column_of_another_type_is_null_for_other_batches(
    spark: SparkSession, store: Store, few: bool
) -> None:
    """Never a cast of what was measured of another type."""
    old = {"2024-01-01": 1, "2024-01-02": 2}
    store.replace_state("m", states(spark, old, ", 1 as g, 2 as h").toArrow(), list(old))
    new = {"2024-01-02": 3}
    for more, value in ((", 'de' as g", "de"), (", 2L as g", 2), (", 7 as g", 7)):
        frame = states(spark, new, more)
        store.replace_state("m", frame.toArrow() if few else frame, list(new))
        assert stored(store, "g") == {"2024-01-01": None, "2024-01-02": value}
    assert stored(store) == {"2024-01-01": 1, "2024-01-02": 3}
    assert stored(store, "h") == {"2024-01-01": 2, "2024-01-02": None}
    total = states(spark, {"1": 1}, ", 'x' as g").toArrow()
    for rows in (states(spark, {"1": 1}, ", 1 as g").toArrow(), total):
        store.replace_total("m", rows)
    found = store.read_total("m")
    assert found is not None and [r["g"] for r in found.collect()] == ["x"]


def metric(model: str, batch: str, value: float, name: str = "mean") -> dict[str, Any]:
    return {
        "model": model,
        "batch": batch,
        "metric": name,
        "scope": "delta",
        "value": value,
        "computed_at": NOW,
    }


def test_rows_of_tables_are_replaced_by_model_and_batch(warehouse: Path) -> None:
    store = tables_of(warehouse)

    def rows_of(model: str) -> list[dict[str, Any]]:
        return [metric(model, b, 1.0, name) for b in BATCHES for name in ("mean", "sum")]

    def found() -> dict[Any, float]:
        return {(r["model"], r["batch"], r["metric"]): r["value"] for r in store.rows(METRICS)}

    odd = "it's / %20 ö"
    models = ("m", odd)
    assert store.rows(METRICS) == []
    store.replace_batches(METRICS, [BatchPart("m", [], BATCHES)])
    store.replace_batches(METRICS, [BatchPart(m, rows_of(m), BATCHES) for m in models])
    fresh = [metric("m", "2024-01-01", 2.0)]
    store.replace_batches(METRICS, [BatchPart("m", fresh, ["2024-01-01"])])
    wanted = {(m, b, n): 1.0 for m in models for b in BATCHES for n in ("mean", "sum")}
    wanted["m", "2024-01-01", "mean"] = 2.0
    del wanted["m", "2024-01-01", "sum"]
    assert found() == wanted
    # Of several models in one write, each keeps and loses its own.
    parts = [
        BatchPart("m", [], ["2024-01-01"]),
        BatchPart(odd, [metric(odd, "2024-02-01", 3.0)], ["2024-02-01"]),
    ]
    store.replace_batches(METRICS, parts)
    del wanted["m", "2024-01-01", "mean"], wanted[odd, "2024-02-01", "sum"]
    wanted[odd, "2024-02-01", "mean"] = 3.0
    assert found() == wanted
    assert {r["value"] for r in stored_rows(store, METRICS, odd, ["2024-02-01"])} == {3.0}
    sums = {"model": ["m"], "batch": BATCHES, "metric": ["sum"]}
    assert len(store.select(METRICS, where=sums)) == 3
    assert stored_metrics(store, "m", BATCHES, ["sum", "mean"], segments=False).num_rows == 6
    assert stored_metrics(store, "m", BATCHES, []).num_rows == 0
    assert len(stored_of_model(store, METRICS, odd)) == 7
    assert stored_rows(store, METRICS, odd, []) == []


def test_what_arrow_refuses_within_delta_rs_is_told(tmp_path: Path) -> None:
    """delta-rs raises it as an exception of no class of its own."""
    store = open_tables(Target("local", "test", warehouse=str(tmp_path)))
    assert isinstance(store, DeltaFolderStore)
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": [1.0]}))
    with (
        pytest.raises(StorageError, match="cannot write t: Cast error"),
        store.reporting("cannot write t"),
    ):
        write_deltalake(path, pa.table({"v": ["x"]}), mode="append")
    with pytest.raises(KeyError), store.reporting("cannot write t"):
        {}["defects pass through"]


def test_a_table_of_an_older_version_has_null_in_new_columns(warehouse: Path) -> None:
    from deltalake import write_deltalake

    folder = warehouse / "dq" / "dq_models"
    folder.parent.mkdir(parents=True)
    write_deltalake(str(folder), pa.table({"model": ["a"], "path": ["checks/a.sql"]}))
    store = tables_of(warehouse)
    assert store.rows(MODELS)[0]["owner"] is None
    assert store.select(MODELS, ("model",), {"owner": ["x"]}) == []
    assert store.select(MODELS, ("model",), {"owner": None}) == [{"model": "a"}]
    store.replace_partition(MODELS, [{"model": "b", "valid_from": NOW, "tags": ["x"]}])
    assert {r["model"]: r["tags"] for r in store.rows(MODELS)} == {"a": None, "b": ["x"]}


def test_many_writers_of_one_table(warehouse: Path) -> None:
    """Each is told nothing and loses nothing: the table is made once, and commits are retried."""

    def write(number: int) -> None:
        store = tables_of(warehouse)
        store.append(RUNS, [{"run_id": f"r{number}"}])
        store.replace_partition(MODELS, [{"model": f"m{number}", "valid_from": NOW}])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = tables_of(warehouse)
    assert sorted(r["run_id"] for r in store.rows(RUNS)) == [f"r{n}" for n in range(6)]
    assert sorted(r["model"] for r in store.rows(MODELS)) == [f"m{n}" for n in range(6)]


def test_files_and_log_stay_few(warehouse: Path) -> None:
    for number in range(60):
        store = tables_of(warehouse)
        store.append(RUNS, [{"run_id": f"r{number}"}])
        store.tidy()
    table = DeltaTable(warehouse / "dq" / "dq_runs")
    assert len(table.file_uris()) <= 25
    assert len(store.rows(RUNS)) == 60


def test_rows_that_another_tool_deleted(warehouse: Path) -> None:
    store = tables_of(warehouse)
    store.append(RUNS, [{"run_id": f"r{number}", "target": "t"} for number in range(9)])
    DeltaTable(warehouse / "dq" / "dq_runs").delete("run_id = 'r8'")
    found = store.select(RUNS, ("run_id",), {"run_id": ["r1", "r2", "r8"]})
    assert sorted(r["run_id"] for r in found) == ["r1", "r2"]


def test_damage_is_one_error(warehouse: Path) -> None:
    store = tables_of(warehouse)
    store.append(RUNS, [{"run_id": "r1"}])
    (file,) = (warehouse / "dq" / "dq_runs").glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:100])
    with pytest.raises(StorageError, match="cannot read dq_runs: ") as told:
        store.rows(RUNS)
    assert told.value.hint is not None and "dqsql doctor" in told.value.hint
    file.unlink()
    with pytest.raises(StorageError, match="cannot read dq_runs: "):
        store.rows(RUNS)
    (log,) = (warehouse / "dq" / "dq_runs" / "_delta_log").glob("*.json")
    log.write_text(json.dumps({"nonsense": {}}))
    with pytest.raises(StorageError, match="cannot read dq_runs: "):
        store.rows(RUNS)


def test_names_of_folders_that_delta_rs_cannot_keep_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"its name contains '\['"):
        tables_of(tmp_path / "ware[house]")


def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `chmod 000`, which does not keep root from reading."""
    target = Target("local", "p", warehouse=str(tmp_path), schema="dq")
    assert open_tables(target).rows(MODELS) == []

    def refused(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refused)
    with pytest.raises(ConfigError, match="dq cannot be read: Permission denied"):
        open_tables(target)


def test_two_compactions_at_once_keep_each_row_once(store: Store) -> None:
    assert isinstance(store, DeltaFolderStore)
    names = ["it's one", "a/b ü", "", "m"]
    for number in range(13):
        parts = [
            BatchPart(name, [metric(name, f"b{number}", float(number))], [f"b{number}"])
            for name in names
        ]
        for part in parts:
            store.replace_batches(METRICS, [part])

    def found() -> list[tuple[str, str, float]]:
        return sorted((r["model"] or "", r["batch"], r["value"]) for r in store.rows(METRICS))

    before = found()
    assert len(before) == 52
    first, second = store.table(METRICS.name), store.table(METRICS.name)
    assert first is not None
    assert second is not None
    delta_log.compact(first)
    assert len(first.file_uris()) == len(names)
    with pytest.raises(DeltaError):
        delta_log.compact(second)
    assert found() == before
    store.replace_batches(METRICS, [BatchPart(names[1], [], ["b3"])])
    assert found() == [row for row in before if row[:2] != (names[1], "b3")]

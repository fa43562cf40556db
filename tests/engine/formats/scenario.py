"""One history of writes against a store of some format, as a program that prints JSON.

A process has one JVM, and the extensions of a table format must be there when it starts: so the
tests run this as `python -m tests.engine.formats.scenario FOLDER STORE..` and compare what it
prints.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from dqsql.engine.formats import format_conf
from dqsql.engine.storage import BatchPart, Store, open_store
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import StorageError
from dqsql.model.project import Target
from dqsql.model.table import Table
from dqsql.model.tables import BATCHES, CHECKS, METRICS, MODELS, PATTERN_INDEX, RESULTS, RUNS
from dqsql.monitors.lake_index import index_size, relations_with, write_index
from dqsql.patterns.contributions import IndexSettings

from .projects import ProjectRuns

NOW = dt.datetime(2024, 3, 1, 6, tzinfo=dt.UTC)
WRITTEN = (BATCHES, METRICS, RESULTS)
TABLES = (RUNS, MODELS, CHECKS, *WRITTEN)
FOLDER = "folder"
# What the names of schemas begin with.
CATALOGS = {"delta": "delta_", "iceberg": "ice.iceberg_"}
FIRST = ("2024-01-30", "2024-01-31", "2024-02-01")
SECOND = ("2024-01-31", "2024-02-02")


class Killed(Exception):
    """The process died here."""


# --- the history ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run of a model: which batches it checks, and what it computes."""

    model: str
    batches: tuple[str, ...]
    checked: tuple[str, ...] = ()
    value: float = 1.0
    columns: tuple[str, ...] = ("price__sum", "price__hll")
    checks: tuple[str, ...] = ("not_null", "unique")

    def write(self, spark: SparkSession, store: Store) -> None:
        """All that a run writes, in the order of a run."""
        known = sorted({*self.checked, *self.batches})
        if self.checked:
            self._ledger(store, self.checked, "incomplete")
        store.replace_state(self.model, self._state(spark), self.batches)
        for table, rows in ((METRICS, self._metrics()), (RESULTS, self._results())):
            store.replace_batches(table, [BatchPart(self.model, rows, self.batches)])
        self._ledger(store, known, "")

    def _ledger(self, store: Store, batches: Sequence[str], again: str) -> None:
        rows = [
            {
                "model": self.model,
                "batch": batch,
                "status": (batch in self.batches and again) or "pass",
                "rows": 10,
                "run_id": f"r{self.value}",
                "checked_at": NOW,
            }
            for batch in batches
        ]
        store.replace_partition(BATCHES, rows)

    def _state(self, spark: SparkSession) -> DataFrame:
        values = {
            "price__sum": f"cast({self.value} as double)",
            "price__hll": f"cast('sketch {self.value}' as binary)",
            "qty__max": f"cast({self.value} * 100 as bigint)",
        }
        columns = ", ".join(f"{values[c]} as `{c}`" for c in self.columns)
        listed = ", ".join(f"'{b}'" for b in self.batches)
        return spark.sql(
            f"select batch, segment, {columns} from values (cast(null as string)), ('EWR')"
            f" as s(segment) lateral view explode(array({listed})) as batch"
        )

    def _metrics(self) -> list[dict[str, Any]]:
        return [
            {
                "model": self.model,
                "batch": batch,
                "segment": segment,
                "column_name": column,
                "metric": metric,
                "scope": "delta",
                "value": value,
                "run_id": f"r{self.value}",
                "computed_at": NOW,
            }
            for batch in self.batches
            for segment in (None, "EWR")
            for column, metric, value in (
                (None, "row_count", self.value),
                ("it's", "mean", float("nan")),
            )
        ]

    def _results(self) -> list[dict[str, Any]]:
        return [
            {
                "check_id": f"{self.model}.{check}",
                "model": self.model,
                "batch": batch,
                "segment": None,
                "observed": self.value,
                "status": "pass",
                "run_id": f"r{self.value}",
                "evaluated_at": NOW,
            }
            for batch in self.batches
            for check in self.checks
        ]


FLIGHTS = Run("flights", FIRST)
OTHER = Run("it's other", ("1", "2", "150"), value=7.0)
AGAIN = Run("flights", SECOND, FIRST, 2.0, (*FLIGHTS.columns, "qty__max"), ("not_null",))
NONE = Run("flights", FIRST, (*FIRST, "2024-02-02"), 4.0, ("price__sum",), ())


def dimensions(store: Store) -> None:
    """The dimension tables and the list of runs."""
    rows = [{"model": m, "tags": ["a", m], "valid_from": NOW} for m in ("flights", "it's other")]
    store.replace_partition(MODELS, rows)
    store.replace_partition(MODELS, [{**rows[0], "tags": [], "owner": "me"}])
    store.replace_partition(MODELS, [])
    store.append(RUNS, [{"run_id": "r1", "ansi": True, "started_at": NOW}])
    store.append(RUNS, [{"run_id": "r2", "models": 2}])


# --- looking at it -------------------------------------------------------------------------------


def dump(
    store: Store, tables: Sequence[Table] = TABLES, runs: Sequence[Run] = (AGAIN, OTHER)
) -> dict[str, Any]:
    """The tables and the states of models, with their rows in a fixed order."""
    found: dict[str, Any] = {}
    for table in tables:
        found[table.name] = _plain(store.rows(table), table)
    for run in runs:
        batches = sorted({*run.batches, *FIRST, "not there", "2031-01-01"})
        frame = store.read_state(run.model, batches)
        rows = [] if frame is None else frame.toArrow().to_pylist()
        found[f"state of {run.model}"] = _plain(rows, None)
    return found


def _of_one_run(store: Store) -> dict[str, Any]:
    return dump(store, WRITTEN, (AGAIN,))


def _plain(rows: Sequence[dict[str, Any]], table: Table | None) -> list[str]:
    names = table.column_names if table else sorted({n for row in rows for n in row})
    return sorted(
        json.dumps([row.get(n) for n in names] + list(names), default=str) for row in rows
    )


# --- dying ---------------------------------------------------------------------------------------


class Counter:
    """Counts what is committed, and dies before commit number `limit`."""

    def __init__(self) -> None:
        self.count = 0
        self.limit: int | None = None

    def tick(self) -> None:
        """One more commit is about to happen."""
        if self.limit is not None and self.count >= self.limit:
            raise Killed
        self.count += 1

    def start(self, limit: int | None = None) -> None:
        """Count from 0."""
        self.count, self.limit = 0, limit


@contextmanager
def counted_commits(counter: Counter) -> Iterator[None]:
    """Tell `counter` before each statement or write that changes a table."""
    sql, insert, commit = SparkSession.sql, DataFrameWriter.insertInto, DeltaFolderStore._commit

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(self: Any, *args: Any, **kwargs: Any) -> Any:
            if work is not sql or args[0].startswith(("create", "alter", "merge")):
                counter.tick()
            return work(self, *args, **kwargs)

        return attempt

    SparkSession.sql = counted(sql)  # type: ignore[method-assign]
    DeltaFolderStore._commit = counted(commit)  # type: ignore[method-assign]
    DataFrameWriter.insertInto = counted(insert)  # type: ignore[method-assign]
    try:
        yield
    finally:
        SparkSession.sql = sql  # type: ignore[method-assign]
        DeltaFolderStore._commit = commit  # type: ignore[method-assign]
        DataFrameWriter.insertInto = insert  # type: ignore[method-assign]


# --- the program ---------------------------------------------------------------------------------


@dataclass
class Scenario:
    """The history against one kind of store: tables in a folder, or of a format in a catalog."""

    spark: SparkSession
    folder: Path
    kind: str

    def target(self, name: str) -> Target:
        """A warehouse of its own."""
        if self.kind == FOLDER:
            return Target("t", "p", warehouse=str(self.folder / name))
        return Target("t", "p", schema=f"{CATALOGS[self.kind]}{name}", table_format=self.kind)

    def store(self, name: str) -> Store:
        """The store of such a warehouse."""
        return open_store(self.spark, self.target(name))

    def history(self) -> list[dict[str, Any]]:
        """What the tables hold as time goes by."""
        store = self.store("clean")
        found = [dump(store)]
        for run in (FLIGHTS, OTHER, AGAIN):
            run.write(self.spark, store)
        found.append(dump(store))
        AGAIN.write(self.spark, store)
        dimensions(store)
        found.append(dump(store))
        NONE.write(self.spark, store)
        found.append(dump(store))
        return found

    def runs(self) -> list[dict[str, list[str]]]:
        """What the tables of a project hold after each of its runs."""
        target = self.target("project")
        project = ProjectRuns(self.spark, self.folder / "files", target)
        return project.history(open_store(self.spark, target))

    def killed(self) -> dict[str, Any]:
        """For each place to die in: whether running again gives the tables of a clean run."""
        counter = Counter()
        with counted_commits(counter):
            found = self._killed_runs(counter)
        return {"places": len(found), "same": found}

    def _killed_runs(self, counter: Counter) -> list[bool]:
        self._base("whole")
        counter.start()
        clean = self._again("whole")
        places = counter.count
        found: list[bool] = []
        for place in range(places):
            counter.start()
            self._base(f"killed_{place}")
            counter.start(place)
            try:
                self._again(f"killed_{place}")
            except Killed:
                counter.start()
                AGAIN.write(self.spark, self.store(f"killed_{place}"))
                found.append(_of_one_run(self.store(f"killed_{place}")) == clean)
        return found

    def _base(self, name: str) -> None:
        """A warehouse in which one run is stored."""
        FLIGHTS.write(self.spark, self.store(name))

    def _again(self, name: str) -> dict[str, Any]:
        store = self.store(name)
        AGAIN.write(self.spark, store)
        return _of_one_run(store)

    def user_rows(self) -> list[list[Any]]:
        """What a table of users' rows holds of which one batch was replaced and one is new."""
        store, by = self.store("rows"), "dqsql_batch"
        first = self.spark.sql("select id, string(id % 2) as dqsql_batch from range(6)")
        store.replace_rows("t", first, by, ["0", "1"])
        # A name that is none of a folder, and a column that came later.
        second = "select 7L as id, 'x' as note, explode(array('1', 'a/b=%', '')) as dqsql_batch"
        for _ in range(2):
            store.replace_rows("t", self.spark.sql(second), by, ["1", "a/b=%", ""])
        store.replace_rows("t", first.where("false"), by, ["gone"])
        if isinstance(store, DeltaFolderStore):
            table = store.table("t")
            assert table is not None
            rows = table.to_pyarrow_table().to_pylist()
        else:
            name = ".".join(f"`{part}`" for part in self.target("rows").schema.split("."))
            rows = self.spark.table(f"{name}.t").toArrow().to_pylist()
        return sorted([r["dqsql_batch"] or "", r["id"], r["note"] or ""] for r in rows)

    def pattern_index(self) -> list[str]:
        """The index of a lake's patterns after it was built, and one of its tables was replaced."""
        store = self.store("index")
        one, two, more = (
            self.spark.sql(f"select concat('{word}', id) as c, id from range(20)").coalesce(1)
            for word in ("it''s ", "x-", "y ")
        )
        write_index(self.spark, store, {"s.one": one, "it's": two}, IndexSettings(tau=5))
        write_index(self.spark, store, {"s.one": more})
        rows = _plain(store.rows(PATTERN_INDEX), PATTERN_INDEX)
        return [*rows, str(relations_with(store, "y <digit>+")), str(index_size(store))]

    def conflict(self) -> str:
        """What the slower of two runs is told, that replace the same batches."""
        store = self.store("conflict")
        FLIGHTS.write(self.spark, store)
        begun, go_on = self.folder / "begun", self.folder / "go_on"
        for flag in (begun, go_on):
            flag.unlink(missing_ok=True)
        rows = FLIGHTS._state(self.spark)
        slow = rows.mapInArrow(_held(begun, go_on), rows.schema)
        said: list[str] = []

        def write() -> None:
            try:
                store.replace_state("flights", slow, FIRST)
            except StorageError as error:
                said.append(str(error))

        thread = threading.Thread(target=write)
        thread.start()
        while thread.is_alive() and not begun.exists():
            time.sleep(0.05)
        try:
            store.replace_state("flights", rows, FIRST)
        finally:
            go_on.touch()
            thread.join()
        return "".join(said)

    def retyped(self) -> str:
        """What is said of a column that changes its type."""
        frame = FLIGHTS._state(self.spark).withColumnRenamed("price__hll", "x")
        frame = frame.drop("price__sum").withColumnRenamed("x", "price__sum")
        try:
            self.store("clean").replace_state("flights", frame, FIRST)
        except StorageError as error:
            return str(error)
        return ""


def _held(begun: Path, go_on: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes rows on, but not before the file `go_on` is there; says by `begun` that it waits."""

    def held(batches: Iterator[Any]) -> Iterator[Any]:
        begun.touch()
        while not go_on.exists():
            time.sleep(0.05)
        yield from batches

    return held


def start(folder: Path, formats: set[str]) -> SparkSession:
    """A small session for some table formats."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Hundreds of tiny statements: what Spark and the JVM optimise for long ones costs time.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}"
        " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name in sorted(formats - {FOLDER}):
        conf |= format_conf(Target("t", "p", table_format=name, spark_conf=conf))
    catalog = "spark.sql.catalog.ice"
    if "iceberg" in formats:
        conf |= {catalog: "org.apache.iceberg.spark.SparkCatalog"}
        conf |= {f"{catalog}.type": "hadoop", f"{catalog}.warehouse": str(folder / "ice")}
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def main(folder: Path, names: Sequence[str]) -> None:
    """Run the history for some kinds of stores; print one JSON document."""
    clock = time.monotonic()
    spark = start(folder, set(names))
    found: dict[str, Any] = {"seconds": {"start": time.monotonic() - clock}}

    def step(name: str, part: str, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        found[name][part] = work()
        found["seconds"][f"{name} {part}"] = round(time.monotonic() - begun, 1)
        print(name, part, found["seconds"][f"{name} {part}"], file=sys.stderr, flush=True)

    for name in names:
        found[name] = {}
        scenario = Scenario(spark, folder / name, name)
        step(name, "history", scenario.history)
        step(name, "runs", scenario.runs)
        step(name, "killed", scenario.killed)
        step(name, "user_rows", scenario.user_rows)
        step(name, "pattern_index", scenario.pattern_index)
        if name != FOLDER:
            step(name, "retyped", scenario.retyped)
            step(name, "conflict", scenario.conflict)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Runs statements that have few rows, and makes temporary views of others.

Whether Spark sends one side of a join to all tasks is decided by the bytes that its files have,
which say little of the rows in them: five million keys may be ten megabytes of Parquet, and too
many for the driver's memory. Such a statement is run again with joins that sort.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from dqsql.dialect import quoted, to_spark
from dqsql.engine.failures import SPARK_FAILURES, translated
from dqsql.engine.selects import fetched, select
from dqsql.engine.session_settings import configured
from dqsql.engine.session_use import drop_view, put_view
from dqsql.engine.values import types_of
from dqsql.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Found = TypeVar("_Found")

_NO_BROADCASTS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
# No memory for it, over the limit of bytes or rows, not ready in time.
_TOO_LARGE = (
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
    "Could not execute broadcast",
)
# The settings are the session's: one thread at a time changes them and puts them back.
_LOCK = threading.Lock()


def sorting_if_too_large(spark: SparkSession, attempt: Callable[[], _Found]) -> _Found:
    """What `attempt` returns; it is called once more where a broadcast of its was too large.

    Raises what the last call raises.
    """
    try:
        return attempt()
    except EngineError as error:
        if not any(words in str(error.__cause__) for words in _TOO_LARGE):
            raise
    with _LOCK, configured(spark, _NO_BROADCASTS):
        return attempt()


# Whole-stage code of hundreds of aggregates costs more to make than it saves: 341 of them over
# 100,000 rows took 26 s with it, 12 s without (busy machine); over a million rows, 45 to 61 and 43.
_MANY = 100
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"


def many_aggregates(spark: SparkSession, count: int) -> AbstractContextManager[None]:
    """Let Spark run statements of `count` aggregates in the way that is fast for so many."""
    return configured(spark, {_WHOLE_STAGE: "false"}) if count > _MANY else nullcontext()


def rows_of(
    spark: SparkSession, query: exp.Expr, doing: str, aggregates: int = 1
) -> list[dict[str, Any]]:
    """The rows of a statement that has few of them. Raises EngineError."""

    def run() -> list[dict[str, Any]]:
        with translated(doing), many_aggregates(spark, aggregates):
            rows: list[dict[str, Any]] = fetched(select(spark, to_spark(query))).to_pylist()
        return rows

    return sorting_if_too_large(spark, run)


def computed_once(spark: SparkSession, text: str, doing: str) -> DataFrame:
    """The rows of a statement, computed and kept by Spark. Raises EngineError."""

    def run() -> DataFrame:
        with translated(doing):
            return spark.sql(text).localCheckpoint()

    return sorting_if_too_large(spark, run)


def register(frame: DataFrame, view: str) -> dict[str, str]:
    """Make a frame a temporary view and return its columns with their Spark types."""
    with translated(f"cannot read {view}"):
        put_view(frame, view)
        return types_of(frame.schema)


def register_query(spark: SparkSession, query: exp.Expr, view: str) -> dict[str, str]:
    """Make a statement a temporary view and return its columns with their Spark types."""
    with translated(f"cannot read {view}"):
        frame = select(spark, to_spark(query))
    return register(frame, view)


def keep_in_memory(spark: SparkSession, view: str) -> None:
    """Read a view once and keep its rows (on disk where memory is short) until it is dropped."""
    with translated(f"cannot read {view}"):
        spark.catalog.cacheTable(quoted(view))


def tables_in(spark: SparkSession, schema: str | None = None) -> dict[str, bool]:
    """The tables of a schema, else the current one, and the temporary views: whether it is one.

    Spark's `listTables` fails where plans are interpreted.
    """
    where = "" if schema is None else f" in {quoted(schema)}"
    rows = fetched(spark.sql(f"show tables{where}")).to_pylist()
    return {row["tableName"]: row["isTemporary"] for row in rows}


def drop_views(spark: SparkSession, views: Sequence[str]) -> None:
    """Forget temporary views."""
    for view in views:
        with translated(f"cannot forget {view}"):
            drop_view(spark, view)


def union_sizes(spark: SparkSession, pairs: Sequence[tuple[bytes, bytes]]) -> list[float]:
    """About how many distinct values two sketches have together, for each pair; reads no data.

    Raises EngineError.
    """
    # A sketch is estimated in one way as it was made and in another once it was merged with one
    # like it: merged with themselves, all are estimated in the same way.
    merged = "hll_union(hll_union(a, b), hll_union(a, b))"
    if not pairs:
        return []
    table = pa.table(
        {
            "i": pa.array(range(len(pairs)), type=pa.int32()),
            "a": pa.array([a for a, _ in pairs], type=pa.binary()),
            "b": pa.array([b for _, b in pairs], type=pa.binary()),
        }
    )
    with translated("cannot merge sketches of columns"):
        frame = spark.createDataFrame(table).selectExpr("i", f"hll_sketch_estimate({merged}) as n")
        rows = fetched(frame).to_pylist()
    return [float(row["n"]) for row in sorted(rows, key=lambda r: r["i"])]


@contextmanager
def view_of_rows(spark: SparkSession, view: str, rows: list[dict[str, Any]]) -> Iterator[None]:
    """Rows of text and numbers, of which there is at least one, as a temporary view."""
    frame = spark.createDataFrame(pa.Table.from_pylist(rows))
    frame.createOrReplaceTempView(quoted(view))
    try:
        yield
    finally:
        drop_view(spark, view)


@contextmanager
def kept_view(spark: SparkSession, view: str, query: exp.Expr, doing: str) -> Iterator[None]:
    """A statement as a temporary view whose rows are computed once, while it is used."""
    with translated(doing):
        frame = select(spark, to_spark(query))
        try:
            frame.persist()
            kept = True
        except SPARK_FAILURES:
            kept = False  # not every Spark allows it
        try:
            frame.createOrReplaceTempView(quoted(view))
            yield
        finally:
            drop_view(spark, view)
            if kept:
                frame.unpersist()

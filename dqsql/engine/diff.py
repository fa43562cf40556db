"""Runs the statements that compare the rows of two relations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from dqsql.dialect import quoted, to_sql
from dqsql.engine.broadcasts import sorting_if_too_large
from dqsql.engine.failures import translated
from dqsql.engine.injection import keep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def collected(spark: SparkSession, query: exp.Expr, doing: str) -> list[dict[str, Any]]:
    """The rows of a statement that has few of them. Raises EngineError."""

    def run() -> list[dict[str, Any]]:
        with translated(doing):
            found: list[dict[str, Any]] = spark.sql(to_sql(query)).toArrow().to_pylist()
        return found

    return sorting_if_too_large(spark, run)


def register_rows(spark: SparkSession, view: str, rows: list[dict[str, Any]]) -> None:
    """Make rows of text and numbers, of which there is at least one, a temporary view."""
    frame = spark.createDataFrame(pa.Table.from_pylist(rows))
    frame.createOrReplaceTempView(quoted(view))


@contextmanager
def kept_view(spark: SparkSession, view: str, query: exp.Expr, doing: str) -> Iterator[None]:
    """A statement as a temporary view whose rows are computed once, while it is used."""
    with translated(doing):
        frame = spark.sql(to_sql(query))
        kept = keep(frame)
        try:
            frame.createOrReplaceTempView(quoted(view))
            yield
        finally:
            if kept:
                frame.unpersist()

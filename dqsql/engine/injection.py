"""Runs the statement that measures injected issues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dqsql.dialect import quoted, to_sql
from dqsql.engine.failures import SPARK_FAILURES, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def measured_variants(
    spark: SparkSession, view: str, variants: exp.Expr, measure: exp.Expr
) -> list[dict[str, Any]]:
    """Make the variants a temporary view and return what `measure` says of it, one row each.

    Raises EngineError.
    """
    with translated("cannot measure injected issues"):
        frame = spark.sql(to_sql(variants))
        kept = keep(frame)
        try:
            frame.createOrReplaceTempView(quoted(view))
            rows: list[dict[str, Any]] = spark.sql(to_sql(measure)).toArrow().to_pylist()
        finally:
            if kept:
                frame.unpersist()
    return rows


def keep(frame: DataFrame) -> bool:
    """Keep the rows for the groups of aggregates that read them; not every Spark allows it."""
    try:
        frame.persist()
    except SPARK_FAILURES:
        return False
    return True

"""Which batches and segments there are, and samples of rows: small questions to a model's view."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from dqsql.dialect import column, to_sql
from dqsql.engine.broadcasts import sorting_if_too_large
from dqsql.engine.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FoundBatches:
    """Batches with their numbers of rows and segments; the key None is for rows without batch."""

    rows: Mapping[str | None, int]
    segments: Mapping[str | None, int] = field(default_factory=dict)
    sketches: Mapping[str | None, bytes] = field(default_factory=dict)


def find_batches(spark: SparkSession, model: str, query: exp.Expr) -> FoundBatches:
    """Run the query of batches. Raises EngineError."""
    rows = _collect(spark, query, f"cannot list the batches of {model}")
    if not rows or "segments" not in rows[0]:
        return FoundBatches({r["batch"]: r["rows"] for r in rows})
    return FoundBatches(
        {r["batch"]: r["rows"] for r in rows},
        {r["batch"]: r["segments"] for r in rows},
        {r["batch"]: r["sketch"] for r in rows},
    )


def names_of_batches(
    spark: SparkSession, model: str, texts: Sequence[str], spark_type: str
) -> list[str | None]:
    """What batches are called whose `batch_by` of a Spark type reads as these texts.

    None where a text is no value of the type. Raises EngineError.
    """
    value = exp.TryCast(
        this=column("text"), to=exp.DataType.build(spark_type, dialect="spark"), safe=True
    )
    name = exp.Cast(this=value, to=exp.DataType.build("string"))
    with translated(f"cannot read the names of batches of {model}"):
        frame = spark.createDataFrame(pa.table({"text": list(texts)}))
        found = frame.selectExpr("text", f"{to_sql(name)} as name").toArrow().to_pylist()
    by_text = {row["text"]: row["name"] for row in found}
    return [by_text[text] for text in texts]


def estimate_union(spark: SparkSession, sketches: Collection[bytes]) -> int:
    """About how many segments sketches have together; reads no data. Raises EngineError."""
    table = pa.table({"sketch": pa.array(list(sketches), type=pa.binary())})
    with translated("cannot merge sketches of segments"):
        frame = spark.createDataFrame(table).selectExpr(
            "hll_sketch_estimate(hll_union_agg(sketch)) as n"
        )
        return int(frame.toArrow()["n"][0].as_py())


def count_segments(spark: SparkSession, model: str, query: exp.Expr) -> int:
    """Run a query of one number. Raises EngineError."""
    return int(_collect(spark, query, f"cannot count the segments of {model}")[0]["segments"])


def sample_rows(spark: SparkSession, model: str, query: exp.Expr) -> list[dict[str, Any]]:
    """Run the query of failing rows. Raises EngineError."""
    return _collect(spark, query, f"cannot sample failing rows of {model}")


def count_values(spark: SparkSession, model: str, query: exp.Expr) -> list[dict[str, Any]]:
    """Run the query of the values that tests of dbt report. Raises EngineError."""
    return _collect(spark, query, f"cannot count the failing values of {model}")


def _collect(spark: SparkSession, query: exp.Expr, doing: str) -> list[dict[str, Any]]:
    def collected() -> list[dict[str, Any]]:
        with translated(doing):
            found: list[dict[str, Any]] = spark.sql(to_sql(query)).toArrow().to_pylist()
        return found

    return sorting_if_too_large(spark, collected)

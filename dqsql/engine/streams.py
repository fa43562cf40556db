"""What Spark knows of a streaming query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dqsql.engine.failures import SPARK_FAILURES
from dqsql.engine.paths import escaped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id that a query keeps as long as it has its checkpoint; None where it cannot be read."""
    try:
        lines = spark.read.text(escaped(f"{checkpoint}/metadata")).collect()
    except SPARK_FAILURES:
        return None
    return str(json.loads(lines[0].value)["id"]) if lines else None

"""Iceberg tables of a catalog, which must be one of Iceberg's, by its runtime for Spark."""

from __future__ import annotations

from dqsql.engine.formats.base import TableFormat

FORMAT = TableFormat(
    name="iceberg",
    word="iceberg-spark-runtime",
    extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    packages={"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"},
    note="its newest runtime is for Spark 4.1 and does not load in 4.2",
    conflicts=("CommitFailedException", "Found conflicting files", "Found new conflicting"),
    caches=True,
)

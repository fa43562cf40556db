"""Delta tables of a catalog, by Delta's jar for Spark."""

from __future__ import annotations

from dqsql.engine.formats.base import TableFormat

FORMAT = TableFormat(
    name="delta",
    word="delta-spark",
    extension="io.delta.sql.DeltaSparkSessionExtension",
    packages={
        "4.1": "io.delta:delta-spark_4.1_2.13:4.3.1",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    # Clients of Unity Catalog and the kernel's readers. They bring libraries that Spark has in
    # other versions, and Ivy cannot resolve them from a local repository alone.
    excludes="io.delta:delta-kernel-*,io.unitycatalog:*,com.fasterxml.jackson*:*",
    settings={
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta reads its log with 50 tasks unless told otherwise, whose overhead is all one sees.
        "spark.databricks.delta.snapshotPartitions": "2",
    },
    conflicts=("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
)

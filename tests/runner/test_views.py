"""The views in Spark, over the tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.model.tables import ALL_TABLES
from dqsql.report.views import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_reads_every_view(spark: SparkSession) -> None:
    names = [table.name for table in ALL_TABLES]
    try:
        for table in ALL_TABLES:
            spark.createDataFrame([], table.ddl).createOrReplaceTempView(table.name)
        for view in views():
            spark.sql(view.select).createOrReplaceTempView(view.name)
            names.append(view.name)
            assert spark.table(view.name).collect() == []
    finally:
        for name in names:
            spark.catalog.dropTempView(name)

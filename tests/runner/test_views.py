"""The views in Spark and DuckDB, over the tables of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dqsql.model.tables import ALL_TABLES
from dqsql.report.views import views
from dqsql.runner.upkeep import export
from tests.report.test_views import QUESTIONS
from tests.tables import table_names

from .conftest import NewProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    x -- @max < 2
from {{ source('raw', 't') }}
"""
DATA = "select date '2024-01-01' + cast(id as int) as day, id as x from range(3)"


def test_spark_reads_every_view_and_question(spark: SparkSession) -> None:
    names = [table.name for table in ALL_TABLES]
    try:
        for table in ALL_TABLES:
            spark.createDataFrame([], table.ddl).createOrReplaceTempView(table.name)
        for view in views():
            spark.sql(view.select).createOrReplaceTempView(view.name)
            names.append(view.name)
            assert spark.table(view.name).collect() == []
        for _, question in QUESTIONS:
            assert spark.sql(question).collect() == []
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def test_the_first_run_makes_all_tables_that_views_are_about(
    new_project: NewProject, tmp_path: Path
) -> None:
    project = new_project(MODEL, DATA)
    project.run()
    warehouse = project.root / "warehouse" / "dq"
    assert {t.name for t in ALL_TABLES} <= set(table_names(warehouse))
    file = tmp_path / "quality.duckdb"
    export(file, project.root)
    with duckdb.connect(str(file)) as database:
        found = {
            view.name: database.execute(f"select * from {view.name}").fetchall() for view in views()
        }
        said = "select comment from duckdb_columns() where table_name = 'dq_results'"
        comments = [row[0] for row in database.execute(said).fetchall()]
    assert all(comments)
    assert len(found["dq_open_findings"]) == 1
    assert len(found["dq_latest_results"]) == 1
    assert found["dq_attempts"] is not None

"""`dqsql run --auto` on tables as analysts find them: empty, wide, nested, oddly named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dqsql.model.results import Status
from dqsql.runner.tables import compile_tables

from .conftest import NewProject, Project

# Twelve days; on the last one all numbers are null and one text is everywhere.
DAYS = """
select date_add(date '2024-01-01', cast(id div 50 as int)) as day,
    if(id div 50 = 11, null, id % 7) as `a.b`,
    if(id div 50 = 11, 'x', string(id % 5)) as `c ``d`,
    cast(null as string) as `nothing at all`,
    cast(null as double) as `NULL`,
    date_format(date_add(date '2024-01-01', cast(id as int)), 'dd.MM.yyyy') as `day as text`,
    named_struct('x', id, 'y z', array(id)) as `select`,
    map('k', id) as `map`, array(id) as list, parse_json('[1]') as semi, x'00ff' as bytes,
    timestamp_ntz '2024-01-01 00:00:00' as `größe`, id as `user id`, true as flag,
    cast(id as decimal(38, 10)) as amount, make_dt_interval(1) as wait
from range(600)
"""
WIDE = ", ".join(f"id * {n} as `column {n}`" for n in range(200))
TABLES = {
    "days": DAYS,
    "empty": f"select * from ({DAYS}) where false",
    "one_row": f"select * from ({DAYS}) limit 1",
    "wide": f"select {WIDE} from range(30)",
    "no_values": "select cast(null as int) as a, cast(null as string) as `b.c` from range(9)",
}


@pytest.fixture
def tables(new_project: NewProject) -> Iterator[Project]:
    project = new_project()
    spark = project.spark
    spark.sql("create database odd_tables")
    try:
        for name, query in TABLES.items():
            layout = "partitioned by (day)" if "day" in query and name != "one_row" else ""
            spark.sql(f"create table odd_tables.{name} using parquet {layout} as {query}")
        yield project
    finally:
        spark.sql("drop database odd_tables cascade")


@pytest.mark.slow
def test_whatever_tables_hold_they_are_watched(tables: Project) -> None:
    for _ in range(2):
        compiled = compile_tables(tables.root, ["odd_tables.*"], tables.spark)
        result = tables.attempt(compiled=compiled)
        assert {m.model: str(m.error) for m in result.models if m.error is not None} == {}
        wrong = {(r.check_id, r.message) for r in result.results if r.status is Status.ERROR}
        assert wrong == set()
        assert result.exit_code == 0
    models = {m.model.removeprefix("odd_tables__"): m for m in result.models}
    assert set(models) == set(TABLES)
    rows = tables.rows("dq_results")
    found = {
        (r["column_name"], r["detector"])
        for r in rows
        if (r["model"], r["batch"]) == ("odd_tables__days", "2024-01-12")
        and r["status"] in ("fail", "warn")
    }
    assert {("a.b", "alive"), ("c `d", "alive")} <= found
    # Of the constant and the empty columns nothing is told that was not so before.
    quiet = {"nothing at all", "NULL", "flag", "größe"}
    assert not [c for c, _ in found if c in quiet], found
    watched = {r["column_name"] for r in rows if r["model"] == "odd_tables__wide"}
    assert len(watched) == 151


def test_tables_without_a_file_are_not_gone_when_others_are_watched(
    new_project: NewProject,
) -> None:
    project = new_project()
    spark = project.spark
    spark.sql("create database watched_tables")
    try:
        for name in ("one", "two"):
            spark.sql(f"create table watched_tables.{name} using parquet as select 1 as x")
        for name in ("one", "two", "one"):
            compiled = compile_tables(project.root, [f"watched_tables.{name}"], spark)
            project.attempt(compiled=compiled)
        valid = {r["model"] for r in project.rows("dq_models") if r["valid_to"] is None}
        assert valid == {"watched_tables__one", "watched_tables__two"}
    finally:
        spark.sql("drop database watched_tables cascade")

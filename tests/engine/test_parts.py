"""Wide statements in parts: the same rows, and what Spark refuses is refused."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from sqlglot import exp

from dqsql.compiler.scan import as_part
from dqsql.dialect import parse_expression, to_sql
from dqsql.engine.parts import over_views


def part(column: str, alias: str) -> exp.Subquery:
    text = f"sum({column})"
    query = exp.select(exp.alias_(parse_expression(text), f"total of {column}", quoted=True))
    return as_part(query.from_("(select 1 as a, 2 as `b.c`) as t", dialect="spark"), alias)


def statement(*columns: str) -> exp.Select:
    query = exp.select("*").from_(part(columns[0], "g0"))
    for number, column in enumerate(columns[1:], start=1):
        query = query.join(part(column, f"g{number}"), join_type="cross", copy=False)
    return exp.select("states.*").from_(as_part(query, "states"))


def test_parts_are_views_that_give_the_same_rows(spark: SparkSession) -> None:
    query = statement("a", "`b.c`")
    expected = spark.sql(to_sql(query)).collect()
    found = over_views(spark, query, to_sql)
    names = [table.name for table in found.find_all(exp.Table)]
    # All that is left is the view of the outermost part.
    assert len(names) == 1 and names[0].startswith("dqsql__part_")
    assert spark.sql(to_sql(found)).collect() == expected == [(1, 2)]
    # Another statement has views of its own.
    assert over_views(spark, statement("a", "a"), to_sql).find(exp.Table).name not in names


def test_a_statement_of_one_part_stays_as_it_is(spark: SparkSession) -> None:
    query = exp.select("*").from_(part("a", "g0"))
    assert over_views(spark, query, to_sql) is query
    assert query.find(exp.Table) is None


def test_what_spark_refuses_of_a_part_is_raised(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="nowhere"):
        over_views(spark, statement("a", "nowhere"), to_sql)

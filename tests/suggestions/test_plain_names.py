"""Names of columns stand in backticks only where Spark, or dqsql, would misread them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dqsql.model.plain_names import plain_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "name", ["day", "Country", "visit_id", "_x", "date", "count", "n", "value", "x1", "status"]
)
def test_plain(name: str) -> None:
    assert plain_name(name) == name


@pytest.mark.parametrize(
    "name", ["order", "select", "a b", "1st", "a`b", "a.b", "\u00fcnter", "", "left", "case", "a-b"]
)
def test_quoted(name: str) -> None:
    assert plain_name(name) == "`" + name.replace("`", "``") + "`"


def test_spark_reads_its_keywords_where_they_are_plain(spark: SparkSession) -> None:
    words = [r.keyword.lower() for r in spark.sql("select keyword from sql_keywords()").collect()]
    plain = [w for w in words if plain_name(w) == w]
    assert len(words) > 300 and len(plain) > 100
    columns = ", ".join(f"1 as `{w}`" for w in plain)
    largest = ", ".join(f"max({w} is null or {w} >= 0 and {w} in (1)) as `{w}`" for w in plain)
    for uses in (", ".join(plain), largest):
        assert spark.sql(f"select {uses} from (select {columns})").columns == plain

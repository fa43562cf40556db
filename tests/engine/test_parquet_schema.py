"""The schema that is read from a file's footer, against what Spark infers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dqsql.engine.relations import schema_of
from tests.conftest import EXAMPLE

NOW = dt.datetime(2026, 1, 2, 3, 4, 5)
PLAIN = {
    "truth": pa.array([True, None]),
    "tiny": pa.array([1, None], pa.int8()),
    "small": pa.array([1, None], pa.int16()),
    "whole": pa.array([1, None], pa.int32()),
    "big": pa.array([1, None], pa.int64()),
    "single": pa.array([1.5, None], pa.float32()),
    "double": pa.array([1.5, None], pa.float64()),
    "text": pa.array(["x", None]),
    "listed": pa.array(["x", None]).dictionary_encode(),
    "large": pa.array(["x", None], pa.large_string()),
    "day": pa.array([NOW.date(), None]),
    "moment": pa.array([NOW, None], pa.timestamp("us", "UTC")),
    "in_berlin": pa.array([NOW, None], pa.timestamp("ms", "Europe/Berlin")),
    "price": pa.array([Decimal("1.20"), None], pa.decimal128(5, 2)),
    "long_price": pa.array([Decimal("1.20"), None], pa.decimal128(18, 2)),
    "longest_price": pa.array([Decimal("1.20"), None], pa.decimal128(38, 10)),
    'odd.name `of` a "column"': pa.array([1, None]),
    "ünïcode": pa.array([1, None]),
}
LEFT_TO_SPARK = {
    "unsigned": pa.array([1], pa.uint32()),
    "bytes": pa.array([b"x"]),
    "local": pa.array([NOW], pa.timestamp("us")),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "nothing": pa.nulls(1),
}


def inferred(spark: SparkSession, path: Path) -> StructType:
    return spark.read.parquet(str(path)).schema


def read(spark: SparkSession, path: Path) -> StructType:
    known = schema_of(str(path))
    assert known is not None
    return spark.read.schema(known).parquet(str(path)).schema


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_what_spark_infers(version: str, tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "all.parquet"
    options = {"store_schema": False, "store_decimal_as_integer": True}
    for more in ({}, options):
        pq.write_table(pa.table(PLAIN), path, version=version, **more)
        assert read(spark, path) == inferred(spark, path)
        rows = spark.read.schema(schema_of(str(path))).parquet(str(path))
        assert rows.collect() == spark.read.parquet(str(path)).collect()


@pytest.mark.parametrize("name", LEFT_TO_SPARK)
def test_unusual_types_are_left_to_spark(name: str, tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"id": pa.array([1]), name: LEFT_TO_SPARK[name]}), path)
    assert schema_of(str(path)) is None


def test_what_spark_wrote(tmp_path: Path, spark: SparkSession) -> None:
    query = """
        select 1 as a, 'x' as b, array(1) as c, named_struct('d', 1, 'e', date'2026-01-01') as f,
            timestamp_ntz'2026-01-01 00:00:00' as g, map('a', 1.5D) as h, cast(null as binary) as i
    """
    spark.sql(query).coalesce(1).write.parquet(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.parquet")
    assert read(spark, path) == inferred(spark, path)


def test_the_example(spark: SparkSession) -> None:
    for path in sorted((EXAMPLE / "data").glob("*.parquet")):
        assert read(spark, path) == inferred(spark, path)


def test_what_cannot_be_read_is_left_to_spark(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"no Parquet")
    assert schema_of(str(path)) is None
    assert schema_of(str(tmp_path / "missing.parquet")) is None
    pq.write_table(pa.table({"a": [1], "A": [1]}), path)
    assert schema_of(str(path)) is None

"""Sessions that are the user's: what they keep, what is set in them, and who else works there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql
from dqsql.engine.session import runtime_conf
from dqsql.engine.session_settings import configured
from dqsql.engine.session_use import using_session
from dqsql.errors import SessionError, UnknownNameError, UsageError
from dqsql.model.project import Target
from tests.conftest import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_A_TABLE = """\
{{ config(batch_by = 'day') }}
select day,
  v -- @sum < 100 @references(known_values, v)
from RELATION
"""


@pytest.mark.parametrize("relation", ["some_values", "view_of_values", "default.some_values"])
def test_a_session_that_lasts_sees_new_files_of_its_tables(
    spark: SparkSession, make_project: Callable[..., Path], tmp_path: Path, relation: str
) -> None:
    def put(name: str, value: int) -> None:
        for folder in ("some_values", "known_values"):
            (tmp_path / folder).mkdir(exist_ok=True)
            rows = pa.table({"day": [name], "v": [value]})
            pq.write_table(rows, tmp_path / folder / f"{name}.parquet")

    put("2026-01-01", 1)
    root = make_project({"checks/m.sql": OF_A_TABLE.replace("RELATION", relation)})
    try:
        for name in ("some_values", "known_values"):
            place = tmp_path / name
            spark.sql(
                f"create table {name} (day string, v bigint) using parquet location '{place}'"
            )
        spark.sql("create temporary view view_of_values as select * from some_values")
        assert dqsql.run(root, spark=spark).models[0].batches == ("2026-01-01",)
        put("2026-01-02", 2)
        result = dqsql.run(root, spark=spark)
        assert {(r.batch, r.status.value) for r in result.results} == {("2026-01-02", "pass")}
        (tmp_path / "some_values" / "2026-01-01.parquet").unlink()
        put("2026-01-03", 3)
        result = dqsql.run(root, spark=spark)
        assert {(r.batch, r.status.value) for r in result.results} == {("2026-01-03", "pass")}
        spark.catalog.cacheTable("some_values")
        put("2026-01-04", 3)
        assert dqsql.run(root, spark=spark).models[0].skipped == "nothing new"
        assert spark.catalog.isCached("some_values")
    finally:
        spark.sql("drop view if exists view_of_values")
        for name in ("some_values", "known_values"):
            spark.sql(f"drop table if exists {name}")


def test_a_quoted_name_is_one_column_in_a_session_of_hive(spark: SparkSession) -> None:
    session = spark.newSession()
    setting = "spark.sql.parser.quotedRegexColumnNames"
    session.conf.set(setting, "true")
    rows = session.createDataFrame([(1, None), (2, 3)], "`unit.price` int, unit_price int")
    (found,) = dqsql.check(rows, "@not_null(`unit.price`)").results
    assert found.status.value == "pass"
    assert session.conf.get(setting) == "true"


def test_a_check_beside_a_run_in_another_thread(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    file = tmp_path / "a.csv"
    file.write_text("ts\n2025-01-01 23:30:00\n", encoding="utf-8")
    late = session.read.csv(str(file), header=True, schema="ts timestamp")
    late = late.selectExpr("hour(ts) as h")
    numbers = session.range(3)

    def found(rows: DataFrame, check: str) -> list[str]:
        # As a pool of threads, for which the run waits.
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(dqsql.check, rows, check).result(timeout=60)
        return [r.status.value for r in result.results]

    with using_session(session, tmp_path), configured(session, runtime_conf(Target("t", "t"))):
        assert found(numbers, "@not_null(id)") == ["pass"]
        with pytest.raises(SessionError, match="have times in UTC and not in America/New_York"):
            found(late, "@accepted_values(h, 23)")
    assert found(late, "@accepted_values(h, 23)") == ["pass"]


def test_no_view_is_left_of_many_batches(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = session.range(3000).selectExpr("id", "concat('b', id % 1500) as day")
    checks = ["@row_count = 2", "@unique(id)"]
    assert len(dqsql.check(rows, checks, batch_by="day").results) == 3000
    left = session.sql("show views").collect()
    assert not [row for row in left if row["viewName"].startswith("dqsql")]


@pytest.fixture(scope="module")
def told_by_a_process() -> list[str]:
    """What a process prints that checks a frame, and works on when its session is stopped."""
    program = """\
import pandas
import dqsql
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
found = dqsql.check(pandas.DataFrame({"id": [1, None]}), ["@not_null(id)"], spark=spark)
print(found.results[0].status.value)
frame = spark.range(3)
spark.stop()
for work in (
    lambda: dqsql.check(frame, "@not_null(id)"),
    lambda: dqsql.run(PROJECT, spark=spark),
):
    try:
        work()
    except dqsql.DqsqlError as error:
        print(error.message)
"""
    project = str(Path(__file__).parents[2] / "example_project")
    done = subprocess.run(
        [sys.executable, "-c", program.replace("PROJECT", repr(project))],
        env={**os.environ, **QUICK_START},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_check_of_a_frame_is_the_first_thing_that_a_process_does(
    told_by_a_process: list[str],
) -> None:
    assert told_by_a_process[0] == "fail"


def test_what_a_stopped_session_is_told(told_by_a_process: list[str]) -> None:
    assert told_by_a_process[1:] == ["the Spark session has been stopped"] * 2


def test_nanoseconds_of_pandas_are_refused(spark: SparkSession) -> None:
    times = pandas.to_datetime([1_735_689_600_000_000_000, 1_735_689_600_000_000_001])
    with pytest.raises(UsageError, match="'t' of the pandas DataFrame has nanoseconds") as refused:
        dqsql.check(pandas.DataFrame({"t": times}), "@unique(t)", spark=spark)
    assert refused.value.hint == "df['t'].dt.floor('us') leaves the rest out"
    whole = pandas.DataFrame({"t": times.floor("us"), "took": times - times[0].floor("us")})
    whole["took"] = whole["took"].dt.floor("us")
    found = dqsql.check(whole, ["@unique(t)", "@not_null(took)"], spark=spark).results
    assert [r.status.value for r in found] == ["fail", "pass"]


def test_columns_of_pandas_that_read_alike(spark: SparkSession) -> None:
    rows = pandas.DataFrame([[1, 2, 3]], columns=[1, "1", "b"])
    (found,) = dqsql.check(rows, "@not_null(b)", spark=spark).results
    assert found.status.value == "pass"


def test_a_function_of_ones_own_is_told_where_it_belongs(spark: SparkSession) -> None:
    with pytest.raises(UnknownNameError) as refused:
        dqsql.check(spark.range(3), "@satisfies(my_own_udf(id) > 0)")
    assert refused.value.hint is not None
    assert "in a column of the DataFrame" in refused.value.hint.replace("belongs ", "")

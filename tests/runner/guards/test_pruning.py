"""Range conditions below `batch_by`: seen in the physical plan, and never losing a row."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dqsql.compiler.pruning import batch_moment, batches_condition, interval_condition
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import parse_expression, to_sql
from dqsql.engine.measuring import made_up_model
from dqsql.engine.session_settings import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {"ts": "timestamp", "ntz": "timestamp_ntz", "d": "date", "s": "string", "n": "int"}
EXPRESSIONS = [
    *(f"date_trunc('{u}', {c})" for u in ("year", "quarter", "MM", "week", "day") for c in ("ts",)),
    *(f"date_trunc('{u}', {c})" for u in ("hour", "minute", "week") for c in ("ts", "ntz", "d")),
    "to_date(ts)",
    "date(ntz)",
    "cast(ts as date)",
    "cast(date_trunc('hour', ntz) as date)",
    "date_trunc('month', to_date(ts))",
    "to_date(cast(ts as string))",
    "cast(to_date(ts) as string)",
    "trunc(d, 'quarter')",
    "trunc(ts, 'MM')",
    "year(ts)",
    "date_format(ts, 'yyyy-MM-dd')",
    "date_format(ntz, 'yyyyMM')",
    "date_format(d, 'yyyyMMddHH')",
    "substr(s, 1, 4)",
    "left(s, 2)",
    "(date_trunc('DAY', (ts)))",
]
UNKNOWN = [
    "ts",
    "date_add(to_date(ts), 1)",
    "date_trunc('day', s)",
    "to_date(s)",
    "to_date(ts, 'yyyy')",
    "to_timestamp(year(ts))",
    "cast(n as timestamp)",
    "date_format(ts, 'dd-MM-yyyy')",
    "month(ts)",
    "substr(s, 2, 4)",
    "left(n, 2)",
    "from_unixtime(n)",
    "date_trunc('day', struct.ts)",
    "to_date(date_format(ts, 'yyyy-MM'))",
]

moments = st.datetimes(dt.datetime(2019, 12, 20), dt.datetime(2021, 1, 15)) | st.sampled_from(
    [
        dt.datetime(2020, 2, 29, 23, 59, 59, 999999),
        dt.datetime(2020, 3, 1),
        dt.datetime(2020, 12, 31, 23, 59, 59, 999999),
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59),
        dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
        dt.datetime(1582, 10, 4, 12),
    ]
)
texts = st.text(st.sampled_from("ab\uffff\U0010ffff\ud7ff0-"), max_size=6)
rows = st.lists(st.tuples(moments, texts), min_size=8, max_size=40)


@pytest.mark.parametrize("text", UNKNOWN)
def test_nothing_is_added_to_what_is_not_known(text: str) -> None:
    batches = ["2020-02-03", "2020"]
    assert batches_condition(parse_expression(text), batches, TYPES) is None


def test_a_value_that_cannot_be_read_gives_no_range() -> None:
    day = parse_expression("to_date(ts)")
    assert batches_condition(day, ["2020-02-03", "+10000-01-01"], TYPES) is None
    assert batches_condition(day, [], TYPES) is None
    assert batches_condition(parse_expression("year(ts)"), ["9999"], TYPES) is None


def test_the_range_reaches_to_the_end_of_the_last_unit() -> None:
    condition = batches_condition(
        parse_expression("date_trunc('month', ts)"), ["2020-12-01 00:00:00"], TYPES
    )
    assert condition is not None
    assert to_sql(condition) == (
        "ts >= CAST('2020-12-01 00:00:00+00:00' AS TIMESTAMP)"
        " AND ts < CAST('2021-01-01 00:00:00+00:00' AS TIMESTAMP)"
    )


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=rows, chosen=st.data())
def test_no_row_is_lost(
    spark: SparkSession, data: list[tuple[dt.datetime, str]], chosen: st.DataObject
) -> None:
    """For random rows, each row of a chosen batch meets the conditions that are added."""
    values = ", ".join(
        f"('{moment.isoformat(sep=' ')}', {_literal(text)})" for moment, text in data
    )
    spark.sql(
        "select cast(t as timestamp) ts, cast(t as timestamp_ntz) ntz, cast(t as date) d, s"
        f" from values {values} as v(t, s)"
    ).createOrReplaceTempView("guard_rows")
    names = [f"e{i}" for i in range(len(EXPRESSIONS))]
    listed = ", ".join(f"{e} as e{i}" for i, e in enumerate(EXPRESSIONS))
    found = spark.sql(f"select {listed} from guard_rows")
    kinds = {f.name: f.dataType.simpleString() for f in found.schema.fields}
    texts_of = found.selectExpr(*(f"cast({n} as string) {n}" for n in names)).toArrow()
    wrong = []
    start, end = sorted((chosen.draw(moments), chosen.draw(moments)))
    for name, text in zip(names, EXPRESSIONS, strict=True):
        batches = texts_of[name].to_pylist()
        picked = chosen.draw(st.sets(st.sampled_from(batches), min_size=1, max_size=4))
        ast = parse_expression(text)
        condition = batches_condition(ast, picked, TYPES)
        if condition is not None:
            listed = ", ".join(_literal(b) for b in picked)
            wrong.append(
                f"count_if(cast({text} as string) in ({listed})"
                f" and not coalesce({to_sql(condition)}, false)) as `{text}`"
            )
        between = interval_condition(ast, start, end, kinds[name], TYPES)
        inside = [
            b for b in batches if (m := batch_moment(ast, b)) is not None and start <= m < end
        ]
        if between is not None and inside:
            listed = ", ".join(_literal(b) for b in inside)
            wrong.append(
                f"count_if(cast({text} as string) in ({listed})"
                f" and not coalesce({to_sql(between)}, false)) as `between {text}`"
            )
    lost = spark.sql(f"select {', '.join(wrong)} from guard_rows").toArrow().to_pylist()[0]
    assert {k: v for k, v in lost.items() if v} == {}


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_every_known_expression_gives_a_range(text: str) -> None:
    batch = {
        "year(ts)": "2020",
        "date_format(ntz, 'yyyyMM')": "202002",
        "date_format(d, 'yyyyMMddHH')": "2020020310",
        "substr(s, 1, 4)": "abcd",
        "left(s, 2)": "ab",
    }.get(text, "2020-02-03")
    assert batches_condition(parse_expression(text), [batch], TYPES) is not None


@pytest.mark.parametrize(
    ("batch_by", "batch", "where"),
    [
        ("to_date(ts)", "2020-02-03", "PushedFilters"),
        ("date_trunc('day', ts)", "2020-02-03 00:00:00", "PushedFilters"),
        ("date_format(day, 'yyyy-MM')", "2020-02", "PartitionFilters"),
        ("date_trunc('week', day)", "2020-02-03 00:00:00", "PartitionFilters"),
    ],
)
def test_the_physical_plan_skips_files(
    spark: SparkSession, tmp_path: Path, batch_by: str, batch: str, where: str
) -> None:
    path = str(tmp_path / "events")
    spark.sql(
        "select timestamp'2020-01-30 12:00:00' + make_dt_interval(id) as ts,"
        " date'2020-01-30' + cast(id as int) as day, id from range(10)"
    ).write.partitionBy("day").parquet(path)
    spark.read.schema("ts timestamp, id bigint, day date").parquet(path).createOrReplaceTempView(
        "guard_events"
    )
    condition = batches_condition(
        parse_expression(batch_by), [batch], {"ts": "timestamp", "day": "date"}
    )
    assert condition is not None
    frame = spark.sql(
        f"select count(*) n from guard_events where {to_sql(condition)}"
        f" and cast({batch_by} as string) = '{batch}'"
    )
    plan = frame._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )
    line = next(line for line in plan.splitlines() if line.startswith(where))
    column = "day" if where == "PartitionFilters" else "ts"
    assert f"{column}" in line
    assert "GreaterThanOrEqual" in line or ">=" in line
    plain = spark.sql(
        f"select count(*) n from guard_events where cast({batch_by} as string) = '{batch}'"
    )
    assert frame.toArrow().to_pylist() == plain.toArrow().to_pylist()


def test_a_batch_that_is_no_value_of_the_type_has_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Monitors look at batches of the past, when batch_by may have been of another type."""
    path = str(tmp_path / "days")
    spark.sql(
        "select date'2020-01-30' + cast(id as int) as day, id from range(3)"
    ).write.partitionBy("day").parquet(path)
    spark.read.schema("id bigint, day date").parquet(path).createOrReplaceTempView("guard_days")
    model = made_up_model("guard_days", {}, batch_by="day")
    condition = BatchFilter(("day one", "2020-01-31"), "date", {"day": "date"}).condition(model)
    assert condition is not None
    with configured(spark, {"spark.sql.ansi.enabled": "true"}):
        frame = spark.sql(f"select id from guard_days where {to_sql(condition)}")
        assert frame.toArrow().to_pylist() == [{"id": 1}]
        plan = frame._jdf.queryExecution().toString()
    (scan,) = (line for line in plan.splitlines() if "FileScan" in line)
    assert "day#" in scan.partition("PartitionFilters")[2].partition("]")[0]
    assert "cast" not in scan

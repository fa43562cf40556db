"""`dqsql.check`: annotations on a DataFrame, as in a notebook or a test; nothing is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pandas
import pytest

import dqsql
from dqsql.engine.selects import fetched
from dqsql.engine.statements import tables_in
from dqsql.errors import AnnotationError, CheckFailedError, DqsqlError, QueryError, UsageError
from dqsql.model.results import Status

from .conftest import NewProject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = """select * from values (1, 5.0, 'a', date '2024-01-01'), (2, 6.0, 'b', date '2024-01-01'),
(null, 70.0, 'b', date '2024-01-02') as t(id, price, kind, day)"""


@pytest.fixture
def frame(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DataFrame]:
    """Some rows; afterwards no view and no file is left."""
    monkeypatch.chdir(tmp_path)
    before = {name for name, is_temporary in tables_in(spark).items() if is_temporary}
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield spark.sql(ROWS)
    assert {name for name, is_temporary in tables_in(spark).items() if is_temporary} == before
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert not list(tmp_path.iterdir())


def test_units_of_time_are_no_columns(frame: DataFrame) -> None:
    checks = [
        "@expect(max(datediff(day, day, date '2024-01-04')) = 3)",
        "@compliance(dateadd(MONTH, 1, day) >= date '2024-02-01') = 1",
        "@row_count = 1 {where: \"timestampdiff(hour, day, timestamp '2024-01-03') < 36\"}",
    ]
    result = dqsql.check(frame, checks)
    assert [r.status.value for r in result.results] == ["pass"] * 3
    # A column of this name is one where the function takes two arguments.
    (found,) = dqsql.check(frame, ["@max(datediff(date '2024-01-04', day)) = 3"]).results
    assert found.status.value == "pass"


def test_an_argument_that_a_function_of_a_project_does_not_take() -> None:
    for function in (dqsql.fit, dqsql.waiting, dqsql.notify):
        with pytest.raises(TypeError, match=r"'sprak': there are .*spark, step, target, vars"):
            function(".", sprak=None)  # type: ignore[operator]


def test_macros_of_your_own(frame: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("shared") / "macros"
    folder.mkdir()
    (folder / "own.sql").write_text(
        "{% macro metric_spread(c) %} max({{ c }}) - min({{ c }}) {% endmacro %}\n"
        "{% macro check_known(c, of) %} every({{ c }} in ({{ of | join(', ') }})) {% endmacro %}"
        "{% macro check_wrong(c) %} nothing_of({{ c }}) > 1 {% endmacro %}"
    )
    checks = ["@spread(price) < 9", "@known(kind, ['a', 'b'])", "@known(kind, 'a')"]
    for given in (folder, [str(folder)]):
        result = dqsql.check(frame, checks, macro_paths=given)
        assert [r.status.value for r in result.results] == ["fail", "pass", "fail"]
        assert result.results[0].observed == 65.0
    with pytest.raises(DqsqlError, match=r"macro_paths=\['macros'\] adds your own"):
        dqsql.check(frame, ["@spread(price) < 9"])
    with pytest.raises(
        DqsqlError, match=r"(?s)nothing_of.*this is in the macro wrong, .*own.sql:2"
    ):
        dqsql.check(frame, ["@wrong(id)"], macro_paths=folder)
    with pytest.raises(UsageError, match="and 'none' does not exist"):
        dqsql.check(frame, checks, macro_paths="none")


def statuses(spark: SparkSession, sql: str, checks: Sequence[str]) -> list[str]:
    return [r.status.value for r in dqsql.check(spark.sql(sql), checks).results]


def test_means_of_decimals_are_exact(spark: SparkSession) -> None:
    sql = "select cast(0.1 as decimal(10, 2)) d, cast(0.1 as decimal(38, 2)) w from range(3)"
    checks = ["@mean(d) <= 0.1", "@mean(d) = 0.1", "@expect(avg(d) = 0.1)", "@mean(w) < 0.11"]
    assert statuses(spark, sql, checks) == ["pass"] * 4


def test_tuples_of_columns_with_nulls(spark: SparkSession) -> None:
    rows = "(1, 1, 'x'), (null, 2, 'x'), (null, 2, 'y'), (null, null, 'z')"
    sql = f"select * from values {rows} t(a, b, c)"
    passing = [
        "@unique((a, c))",
        "@functional_dependency(c, (a, b))",
        "@count_distinct((a, b)) = 2",
    ]
    failing = ["@primary_key((a, b))", "@unique((a, b))", "@unique_value_ratio([a, b]) = 1"]
    assert statuses(spark, sql, passing) == ["pass"] * 3
    assert statuses(spark, sql, failing) == ["fail"] * 3


def test_only_demanding_a_value_is_met_by_nan(spark: SparkSession) -> None:
    sql = "select cast('NaN' as double) as n from range(3)"
    assert statuses(spark, sql, ["@expect(mean(n) is not null)", "@mean(n) > 1"]) == [
        "pass",
        "fail",
    ]


def test_a_date_is_no_number(spark: SparkSession) -> None:
    sql = "select date '2024-01-05' d, 1 a from range(3)"
    checks = ["mean(d) > 0", "median(d) > 0", "kll_quantile(d, 0.5) > 0", "corr(d, a) > 0"]
    found = dqsql.check(spark.sql(sql), [f"@{c}" for c in checks]).results
    assert [r.status.value for r in found] == ["error"] * 4
    assert all("takes numbers, and d is a date" in r.message for r in found)


def test_numbers_of_dates_are_numbers(new_project: NewProject) -> None:
    project = new_project(
        "select date'2024-01-05' as d, -- @mean(datediff(d, e)) = 4 @sum(n * 2) >= 4\n"
        "  date'2024-01-01' as e, -- @mean(year(e)) = 2024 @median(e) > 0\n"
        "  2 as n -- @sum(n * 2) >= 4 @mean(datediff(d, e)) = 4\n"
        "from {{ source('raw', 't') }}",
        "select 1 as one",
    )
    found = {(r.column, r.check_name): r.status.value for r in project.run().results}
    assert found.pop(("e", "median(e) > 0")) == "error"
    assert len(found) == 5
    assert set(found.values()) == {"pass"}


def test_an_aggregate_of_an_expression_has_its_value(new_project: NewProject) -> None:
    project = new_project(
        "select 'abc' as name, -- @avg(length(name)) = 3 @avg(a + 1) = 3\n"
        "2 as a, -- @count_if(a > 3) = 0 @percentile(0.5) = 2 @corr(b) is null\n"
        "id as b from range(3)"
    )
    result = project.run()
    assert {r.check_name: r.status.value for r in result.results} == dict.fromkeys(
        (r.check_name for r in result.results), "pass"
    )
    assert len(result.results) == 5


@pytest.mark.parametrize(
    ("rows", "check", "status"),
    [
        ("where false", "@primary_key(k) {warn_if: '> 0', error_if: '> 9'}", "no_data"),
        ("where false", "@histogram_values(k, 'a')", "no_data"),
        ("", "@primary_key(k) {warn_if: '> 0', error_if: '> 9'}", "warn"),
        ("", "@histogram_values(nothing, 'a')", "pass"),
        ("", "@histogram_values(tiny, 0, 1)", "fail"),
        ("", "@data_type(padded) = 'integral'", "pass"),
        # Arrow has no such interval.
        ("", "@max(months) < interval '2-0' year to month", "pass"),
        ("", "@max(months) < interval '1-0' year to month", "fail"),
    ],
)
def test_odd_columns(spark: SparkSession, rows: str, check: str, status: str) -> None:
    sql = (
        "select 'a' k, string(null) nothing, cast(1e-11 as decimal(20, 12)) tiny, ' 5' padded,"
        " interval '1-2' year to month months"
        f" from range(3) {rows}"
    )
    assert statuses(spark, sql, [check]) == [status]


def test_verdicts(frame: DataFrame) -> None:
    checks = [
        "@not_null(id)",
        "@mean(price) between 5 and 9 {severity: warn}",
        "accepted_values(kind, 'a', 'b')",
        "@unique(id)  @expect(sum(price) = 81)",
        "@max(price) < 9 {where: \"kind = 'a'\", name: cheap}",
    ]
    result = dqsql.check(frame, checks)
    assert {r.check_name: r.status.value for r in result.results} == {
        "not_null(id)": "fail",
        "mean(price) between 5 and 9": "warn",
        "accepted_values(kind, 'a', 'b')": "pass",
        "unique(id)": "pass",
        "expect(sum(price) = 81)": "pass",
        "cheap": "pass",
    }
    assert repr(result) == "RunResult(fail: 1 model, 1 batch, 6 verdicts, 1 fail, 1 warn)"
    assert "<td>not_null(id)</td>" in result._repr_html_()
    table = result.to_pandas()
    assert list(table[table.status == "warn"].observed) == [27.0]
    with pytest.raises(CheckFailedError, match=r"not_null\(id\)|not_null_id") as caught:
        result.raise_for_status()
    assert caught.value.findings == result.findings != ()
    dqsql.check(frame, checks, severity="warn").raise_for_status()


def test_a_view_called_as_the_frame_is_another_relation(spark: SparkSession) -> None:
    spark.sql("select 1 as q union all select 2").createOrReplaceTempView("dataframe")
    checks = ["@equal_row_count(dataframe)", "@references(id, dataframe, q)"]
    found = dqsql.check(spark.range(4).toDF("id"), checks).results
    spark.catalog.dropTempView("dataframe")
    assert [r.status.value for r in found] == ["fail", "fail"]


def test_what_only_compares_with_earlier_runs_is_refused(frame: DataFrame) -> None:
    with pytest.raises(dqsql.DqsqlError, match="@schema is about earlier batches"):
        dqsql.check(frame, ["@schema"])


def test_batches_of_a_frame_and_rows_of_pandas(frame: DataFrame, spark: SparkSession) -> None:
    by_day = dqsql.check(frame, ["@not_null(id)"], batch_by="day", segment_by=["kind"])
    found = {(r.batch, r.segment): r.status.value for r in by_day.results}
    assert found["2024-01-01", None] == "pass"
    assert found["2024-01-02", "kind=b"] == "fail"
    rows = pandas.DataFrame({"id": [1, 2, 2]})
    (verdict,) = dqsql.check(rows, "@unique(id)", spark=spark).results
    assert verdict.status.value == "fail"
    empty = dqsql.check(frame.limit(0), ["@not_null(id)", "@row_count > 0"])
    assert [r.status.value for r in empty.results] == ["no_data", "fail"]


@pytest.mark.parametrize(
    ("checks", "message", "hint", "place"),
    [
        (["@not_nul(id)"], "not_nul", "not_null", "checks[0]:1:2"),
        (["@not_null(id)", "@mean(prize) < 3"], "prize", "price", "checks[1]:1:7"),
        (["@not_null(id)", "@mean(price) <"], "", "", "checks[1]:1:2"),
        (["@not_null(id) {severty: warn}"], "severty", "severity", "checks[0]:1:16"),
        (["@avh(price)"], "@avh is about earlier batches", "project", "checks[0]:1:1"),
        (["@mean(price) > 0 {scope: cumulative}"], "earlier batches", "", "checks[0]:1:1"),
        (["@matches(kind, '(')"], "'('", "", "checks[0]:1:1"),
        (["?"], "", "", "checks[0]:1:1"),
    ],
)
def test_errors_name_the_annotation(
    frame: DataFrame, checks: list[str], message: str, hint: str, place: str
) -> None:
    with pytest.raises(DqsqlError) as caught:
        dqsql.check(frame, checks)
    assert message in str(caught.value)
    assert hint in str(caught.value.hint)
    assert str(caught.value.span) == place


def test_what_spark_refuses_is_an_error_of_its_check(frame: DataFrame) -> None:
    result = dqsql.check(frame, ["@expect(max(sqrt(day)) > 0)", "@not_null(kind)"])
    assert {r.status.value for r in result.results} == {"error", "pass"}
    assert result.exit_code == 2
    with pytest.raises(CheckFailedError, match="sqrt"):
        result.raise_for_status()


def test_arguments(frame: DataFrame) -> None:
    with pytest.raises(UsageError, match="takes a DataFrame of Spark or pandas, not a list"):
        dqsql.check([1, 2], ["@not_null(id)"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no checks were given"):
        dqsql.check(frame, [])
    with pytest.raises(UsageError, match="severity is 'fatal'"):
        dqsql.check(frame, ["@not_null(id)"], severity="fatal")


def test_wrong_arguments_are_errors_of_dqsql(frame: DataFrame, spark: SparkSession) -> None:
    rows = pandas.DataFrame({"id": [1]})
    stream = spark.readStream.format("rate").load()
    for call, message in [
        (lambda: dqsql.check(frame, 5), "checks is a list of texts, not a int"),
        (lambda: dqsql.check(frame, "@row_count > 0", batch_by=["day"]), "'batch_by' must be text"),
        (lambda: dqsql.check(frame, "@row_count > 0", segment_by=3), "'segment_by' must be text"),
        (lambda: dqsql.check(rows, "@row_count > 0", spark="local"), "takes a SparkSession"),
        (lambda: dqsql.check(stream, "@row_count > 0"), "the DataFrame is a stream"),
        (lambda: dqsql.check(pandas.DataFrame(), "@row_count > 0"), "has no columns"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(AnnotationError, match="nan_ratio of its rows finds nothing"):
        dqsql.check(rows, "@nan_ratio(id) = 0")
    found = dqsql.check(frame, (c for c in ["@not_null(kind)"]), segment_by="kind")
    assert {r.segment for r in found.results} == {None, "kind=a", "kind=b"}


@pytest.mark.parametrize("arrow", ["true", "false"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_rows_of_pandas_are_the_same_in_every_session(
    spark: SparkSession, arrow: str, zone: str
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", arrow)
    session.conf.set("spark.sql.session.timeZone", zone)
    rows = pandas.DataFrame(
        {
            "a": [1.0, None],
            "big": pandas.array([2**63, 1], dtype="uint64"),
            "half": pandas.array([0.5, 0.5], dtype="float16"),
            "at": pandas.to_datetime(["2024-01-01 01:00", "2024-01-01 23:00"]),
        }
    )
    checks = [
        "@not_null(a)",
        "@not_null(big)",
        "@max(at) = '2024-01-01 23:00:00'",
        "@sum(half) = 1",
    ]
    found = dqsql.check(rows, checks, batch_by="date(at)", spark=session)
    assert [(r.batch, r.status.value, r.observed) for r in found.results[:2]] == [
        ("2024-01-01", "fail", 0.5),
        ("2024-01-01", "pass", 1.0),
    ]
    assert [r.status.value for r in found.results[2:]] == ["pass", "pass"]
    # A map of a Parquet file, as pandas reads it.
    maps = pandas.DataFrame({"m": [[("a", 1.5), ("b", 2.0)], None, []]})
    (kept,) = dqsql.check(maps, "@expect(sum(m['b']) = 2 and count(m) = 2)", spark=session).results
    assert kept.status is Status.PASS, kept.message
    mixed = pandas.DataFrame({"a": [1, None], "b": ["x", 3]})
    with pytest.raises(UsageError, match="column b"):
        dqsql.check(mixed, "@not_null(a)", spark=session)
    empty = dqsql.check(rows.head(0), ["@not_null(a)", "@row_count > 0"], spark=session)
    assert [r.status.value for r in empty.results] == ["no_data", "fail"]
    assert session.conf.get("spark.sql.session.timeZone") == zone


def test_types_of_pandas_that_spark_lacks(spark: SparkSession) -> None:
    small = numpy.array([1, 255], dtype="uint8")
    rows = pandas.DataFrame(
        {
            **{f"u{bits}": pandas.Series([1, 2], dtype=f"uint{bits}") for bits in (8, 16, 32)},
            "nulls": pandas.array([7, None], dtype="UInt32"),
            "many": [small, small],
            "fields": [{"x": numpy.uint16(3)}, {"x": numpy.uint16(4)}],
            "few": pandas.arrays.SparseArray([0, 5]),
            "kinds": pandas.Series(small).astype("category"),
        }
    )
    sums = {
        "kinds": 256,
        "u8": 3,
        "u16": 3,
        "u32": 3,
        "nulls": 7,
        "many[1]": 510,
        "fields.x": 7,
        "few": 5,
    }
    checks = [f"@expect(sum({text}) = {value})" for text, value in sums.items()]
    found = dqsql.check(rows, checks, spark=spark)
    assert {r.status for r in found.results} == {Status.PASS}
    for values, told in (
        ([2**70, 1], "too large"),
        (pandas.period_range("2024-01", periods=2, freq="M"), "'0' .* its type is period"),
        (pandas.cut(pandas.Series([1, 9]), [0, 5, 10]), "'0' .* its type is category"),
    ):
        with pytest.raises(UsageError, match=told):
            dqsql.check(pandas.DataFrame({0: values}), "@row_count > 0", spark=spark)


def test_times_are_those_that_the_session_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first python3 on PATH need not have pandas.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    (tmp_path / "a.csv").write_text("at\n2024-01-01 23:00:00\n2024-01-02 01:00:00\n")
    read = session.read.schema("at timestamp").option("header", "true").csv(str(tmp_path))
    hours = read.limit(1).mapInPandas(
        lambda parts: (pandas.DataFrame({"h": p["at"].dt.hour}) for p in parts), "h int"
    )
    kept = read.cache()
    for frame, check in (
        (read, "@max(at) = timestamp'2024-01-02 06:00:00'"),
        (hours, "@max(h) = 23"),
        (kept, "@expect(unix_timestamp(max(at)) = 1704175200)"),
    ):
        (found,) = dqsql.check(frame, check).results
        assert found.status is Status.PASS, found.message
    # What is computed first fills the cache: it must not hold other times than without the checks.
    assert kept.filter("unix_timestamp(at) = 1704175200").count() == 1
    kept.unpersist()


def test_what_a_user_keeps_stays_cached(spark: SparkSession) -> None:
    spark.sql("select id from range(5)").createOrReplaceTempView("kept_by_the_user")
    spark.catalog.cacheTable("kept_by_the_user")
    frame = spark.range(7).toDF("n").cache()
    assert frame.count() == 7
    dqsql.check(spark.table("kept_by_the_user"), ["@row_count = 5", "@unique(id)"])
    dqsql.check(frame, ["@row_count = 7", "@unique(n)"])
    assert spark.catalog.isCached("kept_by_the_user")
    assert "InMemoryTableScan" in fetched(plan_of(spark, frame)).to_pylist()[0]["plan"]
    frame.unpersist()
    spark.sql("drop view kept_by_the_user")


def plan_of(spark: SparkSession, frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("some_frame")
    try:
        return spark.sql("explain select * from some_frame")
    finally:
        spark.sql("drop view some_frame")


def test_files_that_are_gone_are_an_error_of_dqsql(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(5).write.parquet(str(tmp_path / "rows"))
    frame = spark.read.parquet(str(tmp_path / "rows"))
    for file in (tmp_path / "rows").iterdir():
        file.unlink()
    with pytest.raises(QueryError, match="a file was replaced or removed"):
        dqsql.check(frame, ["@row_count = 5"])


def test_no_batch_is_no_pass(frame: DataFrame) -> None:
    checks = ["@row_count > 0 {after: 2}", "@not_null(id)"]
    for empty in (frame.limit(0), frame.selectExpr("id", "cast(null as date) as day")):
        found = dqsql.check(empty, [*checks[1:], "@row_count > 0"], batch_by="day")
        assert [r.status.value for r in found.results] == ["no_data", "fail"]
    assert "batch_by is null in" in found.warnings[0]
    (late, _) = dqsql.check(frame.limit(0), checks, batch_by="day").results
    assert late.status.value == "warn"
    some = frame.unionByName(frame.selectExpr("id", "cast(null as date) as day"), True)
    found = dqsql.check(some, "@not_null(day)", batch_by="day")
    assert found.results[-1].status.value == "fail"
    assert "belong to no batch" in found.warnings[0]


def test_settings_that_a_frame_cannot_follow_are_refused(frame: DataFrame) -> None:
    for check, message in [
        ("@not_null(id) {store_failures: true}", "nothing is stored for a DataFrame"),
        ("@not_null(id) {quarantine: true}", "nothing is stored for a DataFrame"),
        ("@mean(price) > 900 {after: 2}", "'after' is about earlier batches"),
        ("@drift(price) < 0.3", "@drift is about earlier batches"),
    ]:
        with pytest.raises(DqsqlError, match=message):
            dqsql.check(frame, check)
    days = dqsql.check(frame, "@mean(price) > 900 {after: 2}", batch_by="day").results
    assert [r.status.value for r in days] == ["warn", "fail"]


def test_what_needs_no_history_is_checked(frame: DataFrame, spark: SparkSession) -> None:
    spark.sql("select 1 as id, 5.5 as price").createOrReplaceTempView("frames_ledger")
    try:
        checks = ["@matches_relation(frames_ledger, keys => id, columns => price)"]
        checks += ["@drift(price, ks, against => frames_ledger) < 0.3"]
        first, second = dqsql.check(frame, checks).results
        kinds = {"missing": 0, "extra": 2, "changed": 1}
        assert (first.status.value, first.details["differences"]) == ("fail", kinds)
        assert second.status.value == "fail"
    finally:
        spark.catalog.dropTempView("frames_ledger")
    (seen,) = dqsql.check(frame, "@expected_segments(['a', 'c'])", segment_by="kind").results
    assert (seen.status.value, seen.message) == ("fail", "1 segment without rows: c")


def test_failures_of_reading_are_errors_of_their_checks(
    frame: DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    checks = ["@expect(count_if(element_at(array(1), id - 1) is null) > 9)", "@unique(kind)"]
    checks += ["@not_null(id)", "@expect(max(sqrt(day)) > 0)"]
    for segments in ((), ("kind",)):
        found = dqsql.check(frame, checks, segment_by=segments)
        whole = {r.check_name: r.status.value for r in found.results if r.segment is None}
        assert list(whole.values()).count("error") == 2
        assert whole["not_null(id)"] == "fail"
    assert "SQLQueryContextLogger" not in "".join(capfd.readouterr())


def test_literals_mean_the_same_in_a_session_with_those_of_hive(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    rows = session.createDataFrame([("A-1",)], "code string")
    (found,) = dqsql.check(rows, r"@matches(code, r'^A-\d$')").results
    assert found.status.value == "pass"
    assert session.conf.get("spark.sql.parser.escapedStringLiterals") == "true"


def test_columns_of_a_session_that_tells_them_apart_by_case(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = session.createDataFrame([(1, None)], "Name int, other int")
    session.conf.set("spark.sql.caseSensitive", "true")
    both = rows.withColumnRenamed("other", "NAME")
    found = dqsql.check(both, ["@not_null(Name)", "@not_null(NAME)"]).results
    assert [r.status.value for r in found] == ["pass", "fail"]


def test_decimals_of_different_scales_are_compared_without_loss(spark: SparkSession) -> None:
    large = "99999999999999999999999999999"
    ours = spark.sql(
        f"select * from values (1, {large}BD, 0.1BD), (2, 1BD, 0.000000000001BD) t(id, a, b)"
    )
    theirs = f"select * from values (1, {large}.5BD, 0.10BD), (2, 1.0BD, 0.0000000000010BD)"
    spark.sql(f"{theirs} t(id, a, b)").createOrReplaceTempView("decimals_elsewhere")
    try:
        (found,) = dqsql.check(ours, "@matches_relation(decimals_elsewhere, keys => id)").results
    finally:
        spark.catalog.dropTempView("decimals_elsewhere")
    assert found.details["changed"] == {"a": 1}
    nearly = "select 1 as id, 1BD as a, 0.0000000000011BD as b"
    spark.sql(nearly).createOrReplaceTempView("decimals_elsewhere")
    try:
        check = "@matches_relation(decimals_elsewhere, keys => id)"
        one = spark.sql("select 1 as id, 1BD as a, 0.000000000001BD as b")
        (found,) = dqsql.check(one, check).results
    finally:
        spark.catalog.dropTempView("decimals_elsewhere")
    assert found.details["changed"] == {"b": 1}


def test_numbers_written_as_texts_are_counted_as_spark_counts_them(spark: SparkSession) -> None:
    values = "('1.5', 1, '2'), ('1,5', 2, 'x'), ('n/a', 3, '4'), ('3.5', null, null)"
    frame = spark.sql(f"select * from values {values} t(a, n, s)")
    # As Spark says in a session without ANSI mode.
    expected = {"avg(a)": 2.5, "stddev(a)": 2**0.5, "var_pop(a)": 1.0, "avg(s)": 3.0, "avg(n)": 2.0}
    expected |= {"covar_samp(n, s)": 2.0, "corr(n, s)": 1.0, "corr(n, n)": 1.0}
    found = dqsql.check(frame, [f"@expect({call} = 0.123)" for call in expected]).results
    assert [r.observed for r in found] == pytest.approx([*expected.values()])

"""`dqsql.check`: annotations on a DataFrame, as in a notebook or a test; nothing is stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import pytest

import dqsql
from dqsql.errors import CheckFailedError, DqsqlError, UsageError

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
    before = {t.name for t in spark.catalog.listTables() if t.isTemporary}
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield spark.sql(ROWS)
    assert {t.name for t in spark.catalog.listTables() if t.isTemporary} == before
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert not list(tmp_path.iterdir())


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
    with pytest.raises(CheckFailedError, match=r"not_null\(id\)|not_null_id"):
        result.raise_for_status()
    dqsql.check(frame, checks, severity="warn").raise_for_status()


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
    with pytest.raises(UsageError, match="there is no check"):
        dqsql.check(frame, [])
    with pytest.raises(UsageError, match="severity is 'fatal'"):
        dqsql.check(frame, ["@not_null(id)"], severity="fatal")


def test_it_is_the_first_thing_that_a_process_does() -> None:
    program = """\
import pandas
import dqsql
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
found = dqsql.check(pandas.DataFrame({"id": [1, None]}), ["@not_null(id)"], spark=spark)
print(found.results[0].status.value)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "fail"

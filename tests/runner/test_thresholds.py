"""Two thresholds: `warn`, `warn_if`, `error_if`, `mostly`; `after`, batches in a row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import dqsql
from dqsql.cli.main import cli
from dqsql.errors import DqsqlError
from dqsql.model.results import Status
from dqsql.runner.compilation import compile_project

from .conftest import NewProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "thresholds.md"
# Day 1 is good. Day 2: 1 customer of 20 is missing, 2 emails, 1 country is odd. Day 3: 5 emails,
# 5 odd countries. Days 4 and 5 have large amounts, day 6 has no amounts, day 7 again large ones.
ROWS = """
select date_add(date'2024-01-01', d) as day,
  if(d = 1 and n = 0, null, n) as customer,
  case when n < 16 and d = 4 then null when n < (case d when 1 then 1 when 2 then 5 when 4 then 2
    else 0 end) + if(d = 4, 16, 0) then 'XX' else 'DE' end as country,
  if(n < (case d when 1 then 2 when 2 then 5 else 0 end), null, 'a@b') as email,
  cast(case when d in (3, 4, 6) then 60 when d = 5 then null when d = 1 then 8 else 20 end
    as double) as amount
from (select explode(sequence(0, 6)) as d) cross join (select explode(sequence(0, 19)) as n)
"""


def documented() -> str:
    """The check model of the documentation."""
    found = re.search(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


def day(number: int) -> str:
    return f"2024-01-0{number}"


def test_the_example_of_the_documentation(new_project: NewProject) -> None:
    project = new_project(documented(), ROWS)
    found = {(r.column, r.batch): r for r in project.run(store_failures=True).results}
    statuses = {
        column: [found[column, day(n)].status.value for n in range(1, 8)]
        for column in ("customer", "country", "email", "amount")
    }
    assert statuses == {
        "customer": ["pass", "warn", "pass", "pass", "pass", "pass", "pass"],
        # Day 5: of 20 rows 18 are fine or null, of the 4 with a value only 2.
        "country": ["pass", "pass", "fail", "pass", "fail", "pass", "pass"],
        "email": ["pass", "warn", "fail", "pass", "pass", "pass", "pass"],
        # A day without amounts neither ends the row nor adds to it.
        "amount": ["pass", "warn", "pass", "warn", "fail", "no_data", "fail"],
    }
    assert found["customer", day(2)].message.startswith(
        "completeness(customer) is 0.95 (1 of 20 rows null), which warns: expected >= 0.99; 1"
    )
    assert found["email", day(2)].message.startswith(
        "2 of 20 rows do not meet not_null, which warns: warn_if: > 0; 2 failing rows are in"
    )
    assert found["email", day(3)].message.startswith(
        "5 of 20 rows do not meet not_null, which fails: error_if: > 3; 5 failing rows are in"
    )
    assert found["country", day(3)].message.startswith(
        "75% of rows meet accepted_values('DE', 'FR'), which fails: expected mostly: 0.8; 5"
    )
    assert found["country", day(5)].observed == 0.5
    assert (
        found["amount", day(2)].message
        == "mean(amount) is 8, which warns: expected between 10 and 40"
    )
    assert found["amount", day(4)].message == (
        "mean(amount) is 60, which fails: expected mean between 5 and 50;"
        " batch 1 in a row that fails (after: 2), so far a warning"
    )
    assert found["amount", day(5)].message.endswith("; batch 2 in a row that fails (after: 2)")
    stored = {(r["column_name"], r["batch"]): r for r in project.rows("dq_results")}
    explained = CliRunner().invoke(
        cli, ["explain", f"m.email.not_null@{day(3)}", "--project-dir", str(project.root)]
    )
    assert "  fails      error_if: > 3\n  warns      warn_if: > 0\n" in explained.output
    row = stored["amount", day(1)]
    bounds = ("lower_bound", "upper_bound", "warn_lower_bound", "warn_upper_bound")
    assert [row[b] for b in bounds] == [5, 50, 10, 40]
    assert json.loads(stored["email", day(1)]["details"])["thresholds"] == {
        "fails": "error_if: > 3",
        "warns": "warn_if: > 0",
    }
    assert stored["email", day(3)]["observed"] == 5
    assert project.metrics()[day(3), None, "email", "failing_rows(completeness(email))"] == 5
    # One batch after the other, and a day again in between: the same verdicts.
    other = new_project(documented(), ROWS, name="daily")
    for numbers in ((1, 2, 3), (4,), (4,), (5,), (6,), (7,)):
        other.run(batches=[day(n) for n in numbers], store_failures=True)
    for table in ("dq_results", "dq_metrics", "dq_batches"):
        assert other.tables()[table] == project.tables()[table]


def test_a_late_batch_says_that_later_ones_have_not_counted_it(new_project: NewProject) -> None:
    project = new_project(
        """
        {{ config(batch_by = 'd') }}
        select d,
          v  -- @not_null {after: 3, name: a}
        from {{ source('raw', 't') }}
        """,
        "select * from values (1, null), (2, null), (3, null), (4, 1), (5, null) t(d, v)",
    )
    project.run(batches=["1"])
    (early,) = project.run(batches=["3", "4", "5"]).models
    assert early.notes == ()
    (late,) = project.run(batches=["2"]).models
    assert late.notes == (
        "`after` counted the failing batches before 3 later batches without this run; count again"
        " with --event-time-start 3",
    )
    (again,) = project.run(event_time_start="3").models
    assert again.notes == ()
    found = {r["batch"]: (r["status"], r["message"]) for r in project.rows("dq_results")}
    assert [found[b][0] for b in "12345"] == ["warn", "warn", "fail", "pass", "warn"]
    assert found["3"][1].endswith("batch 3 in a row that fails (after: 3)")


def test_by_segment_with_where_and_over_all_batches(new_project: NewProject) -> None:
    project = new_project(
        """
        {{ config(batch_by = 'd', segment_by = ['s']) }}
        select d, s,
          v,  -- @not_null {mostly: 0.7, severity: warn, where: k > 0, name: m}
              -- @not_null(v) {after: 2, name: a}
              -- @sum(k) < 9 {warn: "< 5", scope: cumulative, name: c}
          k   -- @unique {error_if: "> 1", name: u}
        from {{ source('raw', 't') }}
        """,
        "select * from values (1, 'a', 1, 1), (1, 'a', null, 1), (1, 'b', 1, 2), (1, 'b', 1, -1),"
        " (2, 'a', null, 1), (2, 'b', 1, 1), (2, 'b', 1, 2),"
        " (3, 'b', null, null), (3, 'b', null, -9), (3, 'a', 1, null) t(d, s, v, k)",
    )
    found = {(r.check_name, r.batch, r.segment): r.status.value for r in project.run().results}
    assert [found["m", b, s] for b in "123" for s in (None, "s=a", "s=b")] == [
        *("warn", "warn", "pass"),
        *("warn", "warn", "pass"),
        *("no_data", "no_data", "no_data"),
    ]
    assert [found["a", b, s] for b in "123" for s in (None, "s=a", "s=b")] == [
        *("warn", "warn", "pass"),
        *("fail", "fail", "pass"),
        *("fail", "pass", "warn"),
    ]
    assert [found["u", b, None] for b in "123"] == ["warn", "warn", "pass"]
    assert [found["c", b, None] for b in "123"] == ["pass", "warn", "pass"]


@pytest.mark.parametrize(
    ("annotation", "message", "text"),
    [
        ('@not_null {warn_if: "> 10"}', "the check fails at the first failing row", "warn_if"),
        ("@row_count > 3 {mostly: 0.5}", "mostly is about rows that pass or fail", "mostly"),
        ('@completeness > 0.9 {warn: "> 0.5"}', "the warning would never appear", "warn"),
        (
            '@not_null {warn_if: "> 9", error_if: "> 3"}',
            "the warning would never appear",
            "warn_if",
        ),
        ('@not_null {warn: "> 3"}', "warn is a second bound for a comparison", "warn"),
        ('@mean > 3 {severity: warn, warn: "> 4"}', "both thresholds would warn", "warn"),
        ("@mean > 3 {severity: warn, after: 3}", "`after` has no effect", "after"),
        ('@not_null {severity: warn, error_if: "> 3"}', "error_if has no effect", "error_if"),
        ('@not_null {warn_if: some, error_if: "> 3"}', "warn_if is not a comparison", "warn_if"),
        ("@not_null {mostly: 95}", "'mostly' must be a share of rows", "mostly"),
        ("@not_null {after: 1}", "'after' must be a whole number of at least 2", "after"),
        ('@not_null {mostly: 0.9, error_if: "> 3"}', "cannot be used together", "mostly"),
        ("@primary_key {mostly: 0.9}", "has several conditions", "mostly"),
        ("@avh {mostly: 0.9}", "mostly", "@avh"),
    ],
)
def test_what_makes_no_sense(
    new_project: NewProject, annotation: str, message: str, text: str
) -> None:
    project = new_project(f"select a -- {annotation}\nfrom t")
    (error,) = compile_problems(project.root)
    assert message in str(error)
    assert error.hint
    assert error.span is not None
    assert f"select a -- {annotation}"[error.span.column - 1 :].startswith(text)


def compile_problems(root: Path) -> list[DqsqlError]:
    """What is wrong with the annotations of a project of one model."""
    (plan,) = compile_project(root).plans
    return list(plan.rejected)


def test_a_warning_flags_no_batch(new_project: NewProject) -> None:
    project = new_project(
        '{{ config(batch_by = "d") }} select d,\nv -- @max < 9 {warn: "< 5"}\nfrom'
        " {{ source('raw', 't') }}",
        "select * from values (1, 7), (2, 10) t(d, v)",
    )
    assert [r.status for r in project.run().results] == [Status.WARN, Status.FAIL]
    assert {r["batch"]: r["status"] for r in project.rows("dq_batches")} == {
        "1": "accepted",
        "2": "flagged",
    }


def test_monitors_wait_for_batches_in_a_row(new_project: NewProject) -> None:
    """`after` of a monitor, by segment too: a backfill and day-by-day runs agree."""
    model = """
        {{ config(batch_by = 'd', segment_by = ['s']) }}
        select d, s,
          v,  -- @anomaly(sum, threshold(0, 10)) {after: 2, segments: true}
          w   -- @anomaly(sum, rate_of_change(upper => 5)) {after: 3, direction: up, min_change: 1}
        from {{ source('raw', 't') }}
    """
    data = (
        "select * from values (1, 'a', 5, 1), (2, 'a', 20, 2), (3, 'a', 20, 20), (3, 'b', 1, 0),"
        " (4, 'a', 2, 80), (4, 'b', 20, 0), (5, 'a', 2, 200), (5, 'b', 20, 0), (6, 'a', 20, 400)"
        " t(d, s, v, w)"
    )
    project = new_project(model, data)
    found = {(r.column, r.segment, r.batch): r for r in project.run().results}

    def statuses(column: str, segment: str | None, batches: str) -> list[str]:
        return [found[column, segment, b].status.value for b in batches]

    assert statuses("v", None, "123456") == ["pass", "warn", "fail", "fail", "fail", "fail"]
    assert statuses("v", "s=a", "123456") == ["pass", "warn", "fail", "pass", "pass", "warn"]
    assert statuses("v", "s=b", "345") == ["pass", "warn", "fail"]
    assert statuses("w", None, "23456") == ["pass", "warn", "warn", "fail", "fail"]
    assert "so far a warning" in found["v", None, "2"].message
    daily = new_project(model, data, name="daily")
    for batches in ("12", "3", "4", "56"):
        daily.run(batches=[*batches])
    assert daily.tables()["dq_results"] == project.tables()["dq_results"]


def test_a_share_that_is_met_exactly_passes(spark: SparkSession) -> None:
    rows = spark.range(100)
    checks = [f"@satisfies(id < {k}) {{mostly: {k / 100}}}" for k in range(1, 100)]
    missed = [f"@satisfies(id < {k}) {{mostly: {(k + 1) / 100}}}" for k in range(1, 99)]
    assert {r.status.value for r in dqsql.check(rows, checks).results} == {"pass"}
    assert {r.status.value for r in dqsql.check(rows, missed).results} == {"fail"}


DIGITS = {
    # Ten times 0.1 is a little less than 1 in this order, and 1 in another one.
    "@sum(x) = 1": Status.PASS,
    "@sum(x) >= 1": Status.PASS,
    "@sum(x) < 1": Status.FAIL,
    "@expect(sum(x) between 1 and 2)": Status.PASS,
    "@expect(1 <= sum(x) and sum(x) < 2)": Status.PASS,
    "@sum(x) > 1.001 {warn: '< 1'}": Status.FAIL,
    "@expect(1 - compliance(id < 7) <= 0.3)": Status.PASS,
    "@expect(sum(x) / 3 = 0.3333333333333333)": Status.PASS,
    "@expect(sum(x) = sum(y))": Status.PASS,
    "@expect(sum(y) <= sum(x) and sum(x) < 2)": Status.PASS,
    "@expect(sum(y) > sum(x))": Status.FAIL,
    "@expect(sum(x) <> sum(y))": Status.FAIL,
    "@expect(max(n) = 9007199254740992e0 and sum(x) > 0)": Status.PASS,
    "@expect(avg(n - id) <= max(n))": Status.PASS,
    "@expect(avg(n - id) < min(n))": Status.PASS,
    # Of a decimal and a float, both are floats.
    "@expect(sum(d) = sum(x))": Status.PASS,
    "@expect(sum(x) <> sum(d) or sum(x) > 2)": Status.PASS,
    "@expect(sum(d) <= sum(x) and max(n) = 9007199254740993)": Status.PASS,
    "@expect(max(n) = 9007199254740992 and sum(x) > 0)": Status.FAIL,
    # Whole numbers and decimals are exact.
    "@max(n) = 9007199254740993": Status.PASS,
    "@max(n) = 9007199254740992": Status.FAIL,
    "@sum(d) = 1.00000000000000001": Status.PASS,
    "@sum(d) = 1": Status.FAIL,
}


def test_digits_that_hang_on_the_order_of_rows_decide_nothing(spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr(
        "id",
        "0.1D as x",
        "if(id = 0, 1D, 0D) as y",
        "9007199254740993 as n",
        "if(id = 0, 1.00000000000000001, 0.00000000000000000) as d",
    )
    results = dqsql.check(frame.coalesce(1), list(DIGITS)).results
    found = {f"@{r.check_name}": r for r in results}
    for check, status in DIGITS.items():
        result = found[re.sub(r" \{.*", "", check)]
        assert result.status is status, result.message


def test_a_batch_that_could_not_be_checked_does_not_end_a_row(new_project: NewProject) -> None:
    broken = "if(day = date'2024-01-02', cast(raise_error('no') as double), v)"
    project = new_project(
        "{{ config(batch_by = 'day') }}\nselect day, v from {{ source('raw', 't') }}\n"
        f"-- @expect(max({broken}) < 0) {{after: 2, name: low}}",
        "select date_add(date'2024-01-01', cast(id as int)) as day, 1.0 as v from range(3)",
    )
    found = {}
    for number in (1, 2, 3):
        result = project.attempt(batches=[day(number)])
        found |= {r.batch: r.status for r in result.results}
    assert found == {day(1): Status.WARN, day(2): Status.ERROR, day(3): Status.FAIL}


SHARES = (
    # Two of the four rows that have a value repeat one.
    ("@unique(a, b) {mostly: 0.9}", Status.FAIL, 0.5),
    ("@unique(a, b) {mostly: 0.5}", Status.PASS, 0.5),
    # Rows that do not meet the premise are none that meet the condition.
    ("@satisfies_if(a = 2, b is not null) {mostly: 0.8}", Status.FAIL, 0.0),
    ("@satisfies_if(a in (1, 2), b is not null) {mostly: 0.5}", Status.PASS, 0.5),
    ("@satisfies_if(a = 3, b is not null) {mostly: 0.8}", Status.PASS, 1.0),
)


def test_rows_that_say_nothing_are_in_no_share(spark: SparkSession) -> None:
    rows = [(1, 1)] * 2 + [(2, None)] * 2 + [(None, None)] * 16
    frame = spark.createDataFrame(rows, "a int, b int")
    results = dqsql.check(frame, [check for check, _, _ in SHARES]).results
    wanted = [(status, observed) for _, status, observed in SHARES]
    assert [(r.status, r.observed) for r in results] == wanted


def test_which_rows_a_share_is_about(new_project: NewProject) -> None:
    project = new_project(
        """
        select a, b from {{ source('raw', 't') }}
        -- @satisfies(b is null or a < 5) {mostly: 0.8, name: own}
        -- @less_than(a, b) {mostly: 0.3, name: pairs}
        -- @histogram(b) > 0 {store_failures: true, name: values}
        """,
        "select * from values (1.0D, 5.0D), (2.0D, null), (9.0D, null), (double('NaN'), null),"
        " (7.0D, 3.0D), (0.0D, 0.0D) as t(a, b)",
    )
    found = {r.check_name: r for r in project.run(quarantine=True).results}
    # A row without b passes what says so itself; of pairs it says nothing.
    assert found["own"].observed == pytest.approx(5 / 6)
    assert found["pairs"].observed == pytest.approx(1 / 3)
    assert {name: r.status.value for name, r in found.items()} == dict.fromkeys(found, "pass")

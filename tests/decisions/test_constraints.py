"""The words of verdicts on constraints."""

from __future__ import annotations

import pytest

from dqsql.decisions.constraints import Observation, decide
from dqsql.model.plan import Bounds
from dqsql.model.project import NoData, Severity


def message(
    observation: Observation,
    expression: str,
    bounds: Bounds | None = None,
    *,
    holds: bool | None = True,
) -> str:
    return decide(
        holds,
        [observation],
        expression=expression,
        bounds=bounds,
        severity=Severity.ERROR,
        no_data=NoData.WARN,
    ).message


def test_of_a_long_text_the_beginning_is_told() -> None:
    short, long = "x" * 200, "x" * 40_000
    assert message(Observation("max(t)", "max", None, short), "max < 'y'") == f"max(t) is {short}"
    told = message(Observation("max(t)", "max", None, long), "max < 'y'")
    assert told == f"max(t) is {short}... (39,800 more characters)"


def test_one_row_and_many() -> None:
    def met(rows: int) -> str:
        seen = Observation("compliance(x > 0)", "compliance", 1.0, rows=rows)
        return message(seen, "positive", Bounds(1.0, 1.0))

    assert met(1) == "the only row meets positive"
    assert met(2000) == "all 2,000 rows meet positive"

    def failing(share: float) -> str:
        seen = Observation("compliance(x > 0)", "compliance", share, rows=100)
        return message(seen, "positive", Bounds(1.0, 1.0))

    assert failing(0.99) == "1 of 100 rows does not meet positive"
    assert failing(0.98) == "2 of 100 rows do not meet positive"

    def lacking(rows: float) -> str:
        seen = Observation("orphan_count(a, t, b)", "x", rows, rows=100, counts="no match for a")
        return message(seen, "references(t, b)", Bounds(0.0, 0.0))

    assert lacking(1).startswith("1 of 100 rows has no match for a")
    assert lacking(2).startswith("2 of 100 rows have no match for a")


def test_a_division_may_be_why_there_is_no_value() -> None:
    def told(text: str) -> str:
        return message(Observation(text, "expect", None, rows=8), "expect(..)", holds=None)

    assert told("sum(a) / count(b)").endswith(" is null: no values to measure, or a division by 0")
    assert told("mean(a)") == "mean(a) is null: no values to measure"


@pytest.mark.parametrize(
    ("expression", "demand"),
    [
        ("expect(min(a) > 0)", "min(a) > 0"),
        ("expect(min(a) > 0) and (max(b) > 1)", "expect(min(a) > 0) and (max(b) > 1)"),
        ("expect(count_if(a = ')') = 0)", "count_if(a = ')') = 0"),
        ("row_count > 0", "row_count > 0"),
    ],
)
def test_what_an_expectation_demands(expression: str, demand: str) -> None:
    seen = Observation("min(a)", "min", 0.0)
    assert message(seen, expression, holds=False).endswith(f"expected {demand}")


def test_a_comparison_that_is_null_is_told() -> None:
    told = message(Observation("min(s)", "min", None, "de"), "min > 3", holds=None)
    assert told == "min(s) is de, for which min > 3 is null: neither true nor false"


def test_an_age_has_a_unit() -> None:
    assert message(Observation("freshness(ts)", "freshness", 30.5), "freshness < 24") == (
        "freshness(ts) is 30.5 hours"
    )


def test_rows_are_counted_where_the_check_is_about_all_of_them() -> None:
    def seen(text: str) -> str:
        return message(Observation(text, "completeness", 0.5, rows=8), "completeness > 0.1")

    assert seen("completeness(whereabouts)").endswith(" is 0.5 (4 of 8 rows null)")
    assert seen("completeness(x) where y > 1") == "completeness(x) where y > 1 is 0.5"


def test_of_a_macro_that_compares_the_bound_is_told() -> None:
    share = Observation("count_if(x <= 15) / count(x)", "expect", 0.317897)

    def told(expression: str, *bounds: float | None, seen: Observation = share) -> str:
        text = message(seen, expression, Bounds(*bounds), holds=False)
        return text.partition(", expected ")[2]

    assert told("on_time(15, 0.5)", 0.5) == "at least 0.5"
    assert told("late(15, 0.1)", None, 0.1) == "at most 0.1"
    # The macro compares by > and <: the limit itself is not good enough.
    assert told("on_time(15, 0.317897)", 0.317897) == "more than 0.317897"
    assert told("late(15, 0.317897)", None, 0.317897) == "less than 0.317897"
    assert told("x between 0 and 2", 0.0) == "x between 0 and 2"
    assert told("completeness >= 0.9", 0.9) == "completeness >= 0.9"
    age = Observation("freshness(ts)", "freshness", 30.5)
    assert told("fresh(ts, 24)", None, 24.0, seen=age) == "at most 24 hours"


def test_a_value_that_is_its_limit_is_told_in_full() -> None:
    limit = 25123456789.12
    observed = [Observation("max(x)", "max", limit)]
    found = decide(
        False,
        observed,
        expression="max < 25123456789.12",
        bounds=Bounds(None, limit),
        severity=Severity.ERROR,
        no_data=NoData.ERROR,
    )
    assert found.message == "max(x) is 25,123,456,789.12, expected max < 25123456789.12"


def test_a_value_that_looks_like_its_limit_is_told_in_full() -> None:
    def told(value: float, bounds: Bounds, expression: str) -> str:
        return message(Observation("mean(x)", "mean", value), expression, bounds, holds=False)

    assert told(99.9999999, Bounds(100.0), "mean >= 100") == (
        "mean(x) is 99.9999999, expected mean >= 100"
    )
    assert told(99.5, Bounds(100.0), "mean >= 100") == ("mean(x) is 99.5, expected mean >= 100")
    # Both are the same float, which Spark has compared as whole numbers.
    large = 2.0**63
    assert told(large, Bounds(large, large), "max = 9223372036854775806") == (
        "mean(x) is 9.22337e+18, expected max = 9223372036854775806"
    )


def test_two_metrics_that_must_agree_are_told_by_digits_that_differ() -> None:
    parts = {"sum(a)": 19993.7, "sum(b)": 19993.75, "abs(sum(a) - sum(b))": 0.05}
    found = [Observation(text, "expression", value) for text, value in parts.items()]
    verdict = decide(
        False,
        found,
        expression="reconciles(sum(a), sum(b))",
        bounds=None,
        severity=Severity.ERROR,
        no_data=NoData.WARN,
    )
    assert verdict.message == (
        "sum(a) is 19,993.7; sum(b) is 19,993.75, expected reconciles(sum(a), sum(b))"
    )

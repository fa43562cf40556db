"""The words of verdicts on constraints."""

from __future__ import annotations

from dqsql.decisions.constraints import Observation, decide
from dqsql.model.plan import Bounds
from dqsql.model.project import NoData, Severity


def message(observation: Observation, expression: str, bounds: Bounds | None = None) -> str:
    return decide(
        True,
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
        return message(seen, "positive", Bounds("m0", 1.0, 1.0))

    assert met(1) == "the only row meets positive"
    assert met(2000) == "all 2,000 rows meet positive"


def test_an_age_has_a_unit() -> None:
    assert message(Observation("freshness(ts)", "freshness", 30.5), "freshness < 24") == (
        "freshness(ts) is 30.5 hours"
    )


def test_rows_are_counted_where_the_check_is_about_all_of_them() -> None:
    def seen(text: str) -> str:
        return message(Observation(text, "completeness", 0.5, rows=8), "completeness > 0.1")

    assert seen("completeness(whereabouts)").endswith(" is 0.5 (4 of 8 rows null)")
    assert seen("completeness(x) where y > 1") == "completeness(x) where y > 1 is 0.5"

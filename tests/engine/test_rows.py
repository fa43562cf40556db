"""Verdicts, as rows of tables and back."""

from __future__ import annotations

import datetime as dt

from dqsql.engine.rows import result_of_row, result_row
from dqsql.model.project import Severity
from dqsql.model.results import Result, Status


def test_a_verdict_is_the_same_after_it_was_stored() -> None:
    result = Result(
        check_id="orders.amount.mean",
        model="orders",
        batch="2025-03-01",
        segment="EU",
        column="amount",
        check_name="mean between 5 and 50",
        detector="constraint",
        status=Status.WARN,
        severity=Severity.ERROR,
        message="mean(amount) is 45",
        observed=45.0,
        observed_text="45",
        lower=5.0,
        upper=50.0,
        score=1.5,
        details={"expression": "mean between 5 and 50"},
        warn_lower=10.0,
        warn_upper=40.0,
    )
    row = result_row(result, "run-1", dt.datetime(2025, 3, 2, tzinfo=dt.UTC))
    assert result_of_row(row) == result

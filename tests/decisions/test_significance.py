"""The false-alarm budget and the selection of decisions that stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from dqsql.decisions.significance import (
    Budget,
    batches_per_day,
    discoveries,
    least_history,
    parse_budget,
    rate_of_decisions,
    rate_per_decision,
)
from dqsql.errors import DecisionError


@pytest.mark.parametrize(
    ("text", "alarms", "days"),
    [
        ("1 per week", 1, 7),
        ("  3 per Month ", 3, 365.25 / 12),
        ("0.5 a day", 0.5, 1),
        ("one per week", 1, 7),
        ("2/year", 2, 365.25),
        ("1 every 2 weeks", 1, 14),
        ("1 / 10 days", 1, 10),
        (".25 per hour", 0.25, 1 / 24),
        ("2 per weeks", 2, 7),
    ],
)
def test_budgets_as_people_write_them(text: str, alarms: float, days: float) -> None:
    assert parse_budget(text) == Budget(pytest.approx(alarms), pytest.approx(days))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("weekly", "cannot read the false-alarm budget 'weekly'.*for example: '1 per week'"),
        ("", "cannot read"),
        ("1 per fortnight", "'fortnight' is no length of time.*there are hour, day"),
        ("1 per wek", "'wek' is no length of time.*did you mean 'week'"),
        ("many per week", "'many' is no number"),
        ("0 per week", "allows no false alarm at all"),
        ("-1 per week", "cannot read"),
        ("1 per 0 days", "allows no false alarm at all"),
    ],
)
def test_budgets_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(DecisionError, match=f"(?s){words}"):
        parse_budget(text)


def test_rate_by_hand() -> None:
    # 1 a week over 100 monitors, a batch a day each: 700 decisions a week.
    week = parse_budget("1 per week")
    assert rate_per_decision(week, 100, 1) == pytest.approx(1 / 700)
    assert rate_per_decision(week, 100, 24, segments=5) == pytest.approx(1 / 700 / 24 / 5)
    assert rate_per_decision(week, 1, 1) == 0.05
    assert rate_of_decisions(week, 100) == pytest.approx(1 / 700)


@given(st.floats(0.01, 100), st.integers(1, 10_000), st.floats(0.01, 100), st.integers(1, 50))
def test_the_budget_is_kept(alarms: float, monitors: int, batches: float, segments: int) -> None:
    budget = Budget(alarms, 7.0)
    rate = rate_per_decision(budget, monitors, batches, segments)
    assert 0 < rate <= 0.05
    assert rate * monitors * batches * segments * 7 <= alarms * (1 + 1e-9)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_wrong_numbers(wrong: float) -> None:
    with pytest.raises(DecisionError, match="must be above 0"):
        rate_per_decision(Budget(1, 7), 1, wrong)
    with pytest.raises(DecisionError, match="must be above 0"):
        rate_of_decisions(Budget(1, 7), wrong)


def test_batches_per_day() -> None:
    assert batches_per_day([0, 1, 2, 5, 6]) == 1.0
    assert batches_per_day([0, 0.5, 1.0]) == 2.0
    assert batches_per_day([7, 0, 14]) == pytest.approx(1 / 7)
    assert batches_per_day([3.0]) == 1.0
    assert batches_per_day([]) == 1.0


def test_least_history() -> None:
    assert least_history(0.01) == 199
    assert least_history(0.01, two_sided=False) == 99


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.sampled_from([True, False]))
def test_discoveries_are_those_of_statsmodels(p_values: list[float], dependent: bool) -> None:
    method = "fdr_by" if dependent else "fdr_bh"
    wanted = multipletests(p_values, alpha=0.1, method=method)[0]
    assert discoveries(p_values, 0.1, dependent).tolist() == wanted.tolist()


def test_decisions_without_a_p_value_never_stand() -> None:
    found = discoveries([np.nan, 1e-9, np.nan, 0.9], 0.05)
    assert found.tolist() == [False, True, False, False]
    assert not discoveries([np.nan], 0.05).any()
    assert discoveries([], 0.05).size == 0

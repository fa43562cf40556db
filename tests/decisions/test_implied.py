"""Rules of contracts that imply others."""

from __future__ import annotations

import pytest

from dqsql.decisions.implied import implies
from dqsql.dialect import parse_expression


@pytest.mark.parametrize(
    ("stricter", "rule"),
    [
        ("row_count > 10", "row_count > 0"),
        ("row_count > 0", "row_count >= 0"),
        ("min(x) >= -1", "min(x) >= -5"),
        ("satisfies(x is null or x >= 5)", "satisfies(x is null or x >= 0)"),
        ("satisfies(x in ('a'))", "satisfies(x in ('a', 'b'))"),
        ("satisfies(x >= 5 and x < 7)", "satisfies(x >= 0 and x <= 7)"),
        ("accepted_values('a')", "accepted_values('a', 'b')"),
        ("row_count between 10 and 90", "row_count between 5 and 100"),
        ("min >= cast('2024-02-01' as date)", "min >= cast('2024-01-01' as date)"),
        ("min >= 10000000000000001", "min >= 10000000000000000"),
        ("expect(count_if(not x in ('a')) < 1)", "expect(count_if(not x in ('a', 'b')) < 1)"),
        (
            "count_if(not x in ('a')) * 100.0 / nullif(count(*), 0) < 0.5",
            "count_if(not x in ('a', 'b')) * 100.0 / nullif(count(*), 0) < 1",
        ),
    ],
)
def test_stricter_rules_imply_wider_ones(stricter: str, rule: str) -> None:
    one, other = parse_expression(stricter), parse_expression(rule)
    assert implies(one, other)
    assert implies(one, one.copy())
    assert not implies(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row_count > 10", "row_count < 20"),
        ("min(x) > 1", "max(x) > 1"),
        ("x in ('a')", "y in ('a', 'b')"),
        ("x in ('a', 'c')", "x in ('a', 'b')"),
        # More rows counted from one side, a wider bound from the other.
        ("count_if(x < 6) < 3", "count_if(x < 5) < 2"),
        ("count_if(x < 5) * -1 < 3", "count_if(x < 6) * -1 < 3"),
        ("count_if(x < 5) * '-2' < 3", "count_if(x < 4) * '-2' < 3"),
        ("min >= cast('2024-1-01' as date)", "min >= cast('2024-01-01' as date)"),
        ("a between 1 and 5", "a between 2 and 7"),
        ("expect(a > 1)", "satisfies(a > 0)"),
        ("a > b", "a > 1"),
    ],
)
def test_what_is_not_known_to_imply(one: str, other: str) -> None:
    first, second = parse_expression(one), parse_expression(other)
    assert not implies(first, second)
    assert not implies(second, first)

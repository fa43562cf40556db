"""Learned patterns with what all values have in common spelt out."""

from __future__ import annotations

import pytest

from dqsql.patterns.infer import specified
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches


@pytest.mark.parametrize(
    ("pattern", "values", "narrow"),
    [
        ("<letter>{1}-<digit>+", [f"V-{n:05d}" for n in range(50)], "V-<digit>{5}"),
        ("<letter>+-<digit>+", [f"ORD-{n:04d}" for n in range(50)], "ORD-<digit>{4}"),
        ("<lower>+<digit>+", [f"user{n}" for n in range(50)], "user<digit>+"),
        # Numbers that count up get more digits one day.
        ("<letter>{1}-<digit>+", [f"V-{n}" for n in range(1000, 1050)], "V-<digit>+"),
        ("<upper>+-<digit>+", ["AB-0123", "CX-4567"] * 20, "<upper>+-<digit>{4}"),
        # What a month or a weekday says is not what the next one says.
        ("<letter>{3} <digit>{2}", [f"Mar {n:02d}" for n in range(1, 32)], None),
        ("<letter>+, <digit>+", ["Monday, 5"] * 40, None),
        ("<digit>+-<letter>+", [f"{n}-V" for n in range(40)], None),
        ("<letter>{1}-<digit>+", ["V-00001"] * 5, None),
        ("<letter>{1}-<digit>+", ["V-00001", "V-x"] * 20, None),
        ("a<digit>+<|>b<digit>+", ["a01"] * 40, None),
        ("<letter>+<(>-<digit>+<)?>", ["V-01"] * 40, None),
        ("<num>", [str(n) for n in range(40)], None),
        (
            "<letter>+<digit>+",
            [f"\u00e9t\u00e9{n:03d}" for n in range(40)],
            "\u00e9t\u00e9<digit>{3}",
        ),
    ],
)
def test_specified(pattern: str, values: list[str], narrow: str | None) -> None:
    found = specified(parse_pattern(pattern), values)
    assert found == parse_pattern(narrow or pattern)
    assert all(matches(found, v) for v in values if matches(parse_pattern(pattern), v))

from __future__ import annotations

import pytest

from dqsql.model.wording import plural
from dqsql.report.text import display_width, duration, number, padded, printable, shorten


def test_printable_keeps_unicode_and_drops_what_steers_a_terminal() -> None:
    assert printable("größe 価格") == "größe 価格"
    assert printable("a\x1b[31mb\x07") == "a?[31mb?"
    assert printable("one\n  two\tthree") == "one two three"
    assert printable("  a (kind=x\ny)") == "  a (kind=x y)"
    assert printable("abc\u202edef") == "abc?def"
    assert printable("a\u2028b\U000e0041c") == "a?b?c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (82.1, "82.1"),
        (14.0, "14"),
        (1234567.0, "1,234,567"),
        (0.00123, "0.00123"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1e300, "1e+300"),
        (2_500_000.25, "2,500,000.2"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (6.14, "6.1s"), (59.99, "1m 00s"), (125, "2m 05s"), (3720, "1h 02m")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plural() -> None:
    assert plural(1, "batch") == "1 batch"
    assert plural(1200, "batch") == "1,200 batches"
    assert plural(0, "check") == "0 checks"


def test_width_and_shortening() -> None:
    assert display_width("価格") == 4
    assert display_width("e\u0301") == 1
    assert [padded(text, 5, ".") for text in ("ab", "価格", "e\u0301", "too long")] == [
        *("ab...", "価格.", "e\u0301....", "too long")
    ]
    assert shorten("abcdefgh", 6) == "abc..."
    assert shorten("abc", 6) == "abc"

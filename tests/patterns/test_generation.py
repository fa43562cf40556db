"""P(v), H(C), tokens, and values that mean harm."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dqsql.patterns.contributions import IndexSettings, column_patterns
from dqsql.patterns.generation import column_sample, hypotheses, pattern_masks
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches
from tests.patterns.strategies import is_trivial, texts


def test_patterns_of_nine_oh_seven_as_in_section_2_1() -> None:
    found = hypotheses(column_sample(["9:07"]), tau=8)
    expected = {
        "<digit>{1}:<digit>{2}",
        "<digit>+:<digit>{2}",
        "<digit>{1}:<digit>+",
        "<num>:<digit>+",
        "9:<digit>{2}",
    }
    assert expected <= set(found)


def test_hypotheses_are_the_patterns_of_all_values() -> None:
    values = ["9:07", "10:15"]
    common = set(hypotheses(column_sample(values), tau=8))
    assert "<digit>+:<digit>{2}" in common
    assert "<digit>{1}:<digit>{2}" not in common
    assert common <= set(hypotheses(column_sample(values[:1]), tau=8))


def test_a_number_may_have_sign_and_decimals() -> None:
    found = hypotheses(column_sample(["-0.5", "3", "2.25", "1e-05"]), tau=8)
    assert set(found) == {"<num>"}


def test_letters_keep_their_case_where_it_is_regular() -> None:
    found = hypotheses(column_sample(["Mar", "Apr"]), tau=8)
    assert {"<upper>{1}<lower>{2}", "<upper>{1}<lower>+", "<letter>{3}", "<letter>+"} <= set(found)
    assert "<upper>+" not in found


def test_values_wider_than_tau_are_left_out() -> None:
    assert hypotheses(column_sample(["1-2-3-4-5"]), tau=8) == {}
    assert hypotheses(column_sample(["1-2-3-4-5"]), tau=9) != {}


# Each example tries 60 patterns on all of its values.
@settings(deadline=None, max_examples=40)
@given(st.lists(texts(), min_size=1, max_size=8))
@example(["é1", "É2", "ǅ3"])
@example(["a\nb", "a\r\nb", "\u202eabc"])
def test_generated_patterns_are_readable_linear_and_match_their_rows(values: list[str]) -> None:
    sample = column_sample(values)
    masks = pattern_masks(sample, tau=8, min_rows=1)
    assert "<all>" not in masks
    for text, mask in list(masks.items())[:60]:
        pattern = parse_pattern(text)
        assert not is_trivial(pattern)
        for value, rows in sample.masks.items():
            if mask & rows:
                assert matches(pattern, value), (text, value)


@pytest.mark.parametrize(
    "values",
    [
        ["x" * 1_000_000, "1" * 1_000_000],
        ["-" * 1_000_000],
        ["\U0001f600" * 1_000],
        ["", "", ""],
        ["a1" * 200],
        ["1-" * 250],
        [f"{i:x}{'-' * (i % 50)}{i * 7919:x}" for i in range(1_000)],
        ["\0", "\n", "\r\n", "\u2028", "\ufeff"],
        [" ".join("ab" * (i % 9 + 1) for i in range(j % 7)) for j in range(1_000)],
    ],
)
def test_hostile_columns_are_bounded(values: list[str]) -> None:
    patterns = column_patterns(values, IndexSettings())
    assert len(patterns) <= 6_000


def test_sample_keeps_the_order_of_rows() -> None:
    sample = column_sample(["a", None, "b", "a"] + ["c"] * 100)
    assert sample.rows == 103
    assert sample.masks["a"] == 0b101
    assert sample.masks["b"] == 0b010
    assert sample.masks["c"] == ((1 << 100) - 1) << 3


def test_patterns_of_words_are_counted_exactly_whatever_the_variety_of_values() -> None:
    random = Random(1)

    def hexadecimal(length: int) -> str:
        return "".join(random.choices("0123456789abcdef", k=length))

    for rows, form, pattern in (
        (60, (8, 4), "<alphanum>{8}-<alphanum>{4}"),
        (1_000, (7,), "<alphanum>{7}"),
        (1_000, (8, 4, 4), "<alphanum>{8}-<alphanum>{4}-<alphanum>{4}"),
        (1_000, (3, 6, 5, 2), "<alphanum>+-<alphanum>+-<alphanum>+-<alphanum>+"),
    ):
        values = ["-".join(map(hexadecimal, form)) for _ in range(rows)]
        masks = pattern_masks(column_sample(values), tau=8, min_rows=max(1, rows // 100))
        assert masks[pattern].bit_count() == rows, pattern

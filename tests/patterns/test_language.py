"""The pattern language: printable form, parser, translation, linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.errors import PatternError
from dqsql.patterns.language import Pattern, Token, pattern_of
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches, spark_regex
from tests.patterns.strategies import patterns, values_near


@settings(deadline=None)
@given(patterns())
def test_printable_form_reads_back(pattern: Pattern) -> None:
    assert parse_pattern(pattern.text) == pattern


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_any_constant_reads_back_and_matches_only_itself(text: str) -> None:
    pattern = pattern_of(Token("const", text))
    assert parse_pattern(pattern.text) == pattern
    assert matches(pattern, text)
    assert not matches(pattern, text + "\n")
    assert not matches(pattern, "x" + text)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("<letter>{3} <digit>{2} <digit>{4}", ["Mar 01 2019", "Apr 01 2019"], ["Mar 1 2019", ""]),
        ("<digit>+:<digit>{2}", ["9:07", "10:15"], ["9:7", "9:07\n", "\n9:07", "9:07 "]),
        ("<num>", ["1", "-1.5", "+2", "1e-05", "٣"], ["", "1.", ".5", "1e5", "1,5", "--1"]),
        ("<upper>{1}<lower>+", ["Ångström", "Über"], ["abc", "ABC", "A"]),
        ("<alphanum>{2}", ["a1", "é9", "नम"], ["a_", "a", "abc", "a\n"]),
        ("a<all>", ["a", "a\nb\r\u2028c", "a" + "x" * 10_000], ["b", ""]),
        ("<letter>+<(> <letter>+<)?>", ["Bob", "Ann Lee"], ["Ann Lee Poe", "Ann "]),
        ("<digit>+<|>N/A", ["12", "N/A"], ["12N/A", "n/a"]),
        (r"1\+\{\<\\", ["1+{<\\"], ["1", "11"]),
        (r"a\nb\u{1f600}", ["a\nb\U0001f600"], ["a b"]),
    ],
)
def test_matching(text: str, yes: list[str], no: list[str]) -> None:
    pattern = parse_pattern(text)
    assert [value for value in yes if not matches(pattern, value)] == []
    assert [value for value in no if matches(pattern, value)] == []


def test_a_class_without_count_is_one_character() -> None:
    assert parse_pattern("<digit>") == parse_pattern("<digit>{1}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<digit",
        "<word>",
        "<digit>{0}",
        "<digit>{99999}",
        "<digit>{2,}",
        "<digit>{2, 4}",
        "<[>abc<]>{,4}",
        "<letter>+{2}",
        "<(>a",
        "<(><)?>",
        "<(>a<(>b<)?><)?>",
        "a<|>",
        "<|>a",
        "a\\",
        r"\u{110000}",
        r"\u{d800}",
        "x" * 20_000,
    ],
)
def test_unreadable_patterns_are_errors(text: str) -> None:
    with pytest.raises(PatternError):
        parse_pattern(text)


def test_a_brace_in_a_set_is_one_of_its_signs() -> None:
    (branch,) = parse_pattern("<[><digit>{<]>").branches
    assert str(branch[0]) == str(parse_pattern("<[>{<digit><]>").branches[0][0])


@pytest.mark.parametrize(
    "text",
    [
        "<letter>+<alphanum>+",
        "<digit>+<digit>+",
        "<letter>+a<letter>+",
        "<all>a<all>",
        "<all><letter>+",
        "<letter>+<all>",
        "<num><digit>+",
        "<digit>+<num>",
        "<letter>+<(>-<)?><letter>+",
        "-".join(["<num>"] * 12),
    ],
)
def test_patterns_that_could_backtrack_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        parse_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "<letter>+<digit>+<letter>+",
        "<num>-<num>.<num>",
        "<all> <letter>+",
        "<letter>+ <all>x",
        "<alphanum>+-<alphanum>+-<alphanum>+",
    ],
)
def test_accepted_patterns_stay_linear_on_long_hostile_values(text: str) -> None:
    pattern = parse_pattern(text)
    for value in ("a" * 300_000 + "!", "1" * 300_000 + "!", "1.-" * 100_000, "a1" * 100_000 + "\n"):
        assert not matches(pattern, value)


@settings(deadline=None)
@given(st.data())
def test_python_regex_of_spark_is_the_same_on_ascii(data: st.DataObject) -> None:
    pattern = data.draw(patterns(ascii_only=True))
    value = data.draw(values_near(pattern, ascii_only=True))
    java = spark_regex(pattern)
    assert java.isascii()
    python = java.replace(r"\p{Nd}", "[0-9]").replace(r"[\p{L}\p{M}]", "[A-Za-z]")
    python = python.replace(r"\p{Lu}", "[A-Z]").replace(r"\p{Ll}", "[a-z]")
    python = python.replace(r"[\p{L}\p{M}[0-9]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), python)
    assert (re.search(python, value) is not None) == matches(pattern, value)

"""Tagging by example."""

from __future__ import annotations

import pytest

from dqsql.errors import PatternError
from dqsql.patterns.general import general_index
from dqsql.patterns.infer import NoPattern, TagPattern, tag_pattern

DATES = [f"2019-03-{day:02d}" for day in range(1, 29)]


def test_tag_is_the_most_restrictive_pattern_of_the_domain() -> None:
    tag = tag_pattern(DATES, general_index())
    assert isinstance(tag, TagPattern)
    assert tag.false_negative_rate <= 0.1
    wide = general_index().lookup(["<alphanum>+-<alphanum>+-<alphanum>+"]).coverage[0]
    assert tag.coverage < wide


def test_unknown_domains_have_no_tag() -> None:
    assert isinstance(tag_pattern(["§1!", "§2!"], general_index()), NoPattern)
    assert isinstance(tag_pattern([], general_index()), NoPattern)
    with pytest.raises(PatternError):
        tag_pattern(DATES, general_index(), max_false_negatives=1.0)

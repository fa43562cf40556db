"""The scanner: cases and properties."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqsql.loading.scanner import blank, scan


@pytest.mark.parametrize(
    ("text", "comments"),
    [
        ("a -- b\nc", ["-- b"]),
        ("a -- b \\\nc\nd", ["-- b \\\nc"]),
        ("a -- b\r\nc", ["-- b"]),
        ("/* a /* b */ c */ d", ["/* a /* b */ c */"]),
        ("/* a /*+ b */ c */", ["/* a /*+ b */"]),
        ("select /*+ x */ a", []),
        ("'--' \"/*\" `--` -- x", ["-- x"]),
        ("'it''s --' 'a\\'--' -- x", ["-- x"]),
        ("r'\\' -- x", ["-- x"]),
        ('R"\\" -- x', ["-- x"]),
        ("br'\\' -- x'", []),
        ("`a``--` -- x", ["-- x"]),
        ("{{ '--' }} {% set x = '/*' %} {# -- #} -- x", ["-- x"]),
        ("'{{ f('--') }}' -- x", ["-- x"]),
        ("-- a {{ f(\n'b') }} c\nd", ["-- a {{ f(\n'b') }} c"]),
        ("{{ {'a': {'b': '}}'}} }} -- x", ["-- x"]),
        ("{% raw %}'{{' -- x{% endraw %}", ["-- x{% endraw %}"]),
        ("{% raw %}'{{'{% endraw %} {{ '--' }}", []),
        ("a - -b /**/", ["/**/"]),
    ],
)
def test_comments(text: str, comments: list[str]) -> None:
    assert [text[c.start : c.end] for c in scan(text).comments] == comments


def test_braces_are_text_when_jinja_is_off() -> None:
    assert [c.start for c in scan("'{{' -- x", jinja=False).comments] == [5]


def test_unclosed() -> None:
    assert scan("select 'a").unclosed_quote == 7
    assert not scan("/* a /* b */").comments[0].closed


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "'",
        '"',
        "`",
        "\\",
        "--",
        "/*",
        "*/",
        "/*+",
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{% raw %}",
        "{% endraw %}",
        "r'",
        "@x",
        "{",
        "}",
    ]
)
TEXT = st.lists(PIECES, max_size=40).map("".join)


@given(TEXT, st.booleans())
def test_segments_are_ordered_and_inside_the_text(text: str, jinja: bool) -> None:
    position = 0
    for segment in scan(text, jinja=jinja).segments:
        assert position <= segment.start < segment.end <= len(text)
        assert segment.body_start <= segment.body_end <= segment.end or not segment.closed
        position = segment.end


@given(TEXT)
def test_blanking_comments_leaves_none_and_moves_nothing(text: str) -> None:
    found = scan(text, jinja=False)
    rest = blank(text, found.segments)
    assert len(rest) == len(text)
    assert rest.count("\n") == text.count("\n")
    assert not scan(rest, jinja=False).segments


@given(TEXT)
def test_a_comment_in_front_changes_nothing_behind(text: str) -> None:
    shift = len("/* x */ ")
    before, after = scan(text).comments, scan("/* x */ " + text).comments[1:]
    assert [(c.start + shift, c.end + shift) for c in before] == [(c.start, c.end) for c in after]


@pytest.mark.parametrize(
    "piece", ["{{ { ", "/*", "'a' -- b\n", "{{ '", "{% raw %}", "{{ {'a': 1}}} "]
)
def test_linear_time(piece: str) -> None:
    def seconds(count: int) -> float:
        # Of this process: how busy the machine is must not matter.
        start = time.process_time()
        scan(piece * count)
        return time.process_time() - start

    seconds(1000)
    # Quadratic time would be a factor of 64.
    assert min(seconds(40_000) for _ in range(3)) < 30 * min(seconds(5000) for _ in range(3)) + 0.05

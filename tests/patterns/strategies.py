"""Hypothesis strategies: patterns, and values that match them or nearly do."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from dqsql.errors import PatternError
from dqsql.patterns.language import Pattern, Token, TokenGroup, pattern_of
from dqsql.patterns.parsing import parse_pattern

HOSTILE = "\n\r\t\0\x0b\x1b\x7f \\<>{}[]()+*?.^$|#&-~'\"/,;:_%"
EXOTIC = "éÅßπЖשלום٣४你好\u0301\u2028\u200f\u202e\U0001f600\U0001d7d8ǅªⅧ²"


def characters(ascii_only: bool = False) -> st.SearchStrategy[str]:
    """One character, often a hostile one."""
    plain = st.sampled_from(string.ascii_letters + string.digits)
    hostile = st.sampled_from(HOSTILE)
    if ascii_only:
        return st.one_of(plain, hostile)
    return st.one_of(plain, hostile, st.sampled_from(EXOTIC))


def texts(ascii_only: bool = False, max_size: int = 8) -> st.SearchStrategy[str]:
    """Short texts of hostile characters."""
    return st.text(characters(ascii_only), max_size=max_size)


@st.composite
def tokens(draw: st.DrawFn, ascii_only: bool = False) -> Token:
    """One token of any kind but <all>."""
    kind = draw(st.sampled_from(("const", "digit", "upper", "lower", "letter", "alphanum", "num")))
    if kind == "const":
        return Token("const", draw(st.text(characters(ascii_only), min_size=1, max_size=4)))
    if kind == "num":
        return Token("num")
    count = draw(st.one_of(st.none(), st.integers(1, 4)))
    return Token(kind, count=count)  # type: ignore[arg-type]


@st.composite
def patterns(draw: st.DrawFn, ascii_only: bool = False) -> Pattern:
    """A valid pattern: linear, at most two branches, perhaps with an optional part."""
    branches = []
    for _ in range(draw(st.integers(1, 2))):
        elements: list[Token | TokenGroup] = list(
            draw(st.lists(tokens(ascii_only), min_size=1, max_size=4))
        )
        if draw(st.booleans()):
            text = draw(st.text(characters(ascii_only), min_size=1, max_size=3))
            elements.append(TokenGroup((Token("const", text),)))
        pattern = pattern_of(*elements)
        branches.append(pattern.branches[0] if _valid(pattern) else (Token("digit", count=2),))
    return Pattern(tuple(branches))


def _valid(pattern: Pattern) -> bool:
    try:
        parse_pattern(pattern.text)
    except PatternError:
        return False
    return True


_EXAMPLES = {
    "digit": "0123456789",
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "letter": string.ascii_letters,
    "alphanum": string.ascii_letters + string.digits,
}


@st.composite
def values_near(draw: st.DrawFn, pattern: Pattern, ascii_only: bool = False) -> str:
    """A value that matches the pattern, perhaps with a mutation."""
    branch = draw(st.sampled_from(pattern.branches))
    parts = []
    for element in branch:
        for token in element.tokens if isinstance(element, TokenGroup) else (element,):
            if token.kind == "const":
                parts.append(token.text)
            elif token.kind == "num":
                parts.append(draw(st.sampled_from(["0", "-1.5", "+12", "3e-05", "7.25e+10"])))
            else:
                n = token.count or draw(st.integers(1, 3))
                parts.append(
                    "".join(draw(st.sampled_from(_EXAMPLES[token.kind])) for _ in range(n))
                )
    value = "".join(parts)
    mutation = draw(st.integers(0, 3))
    place = draw(st.integers(0, len(value)))
    if mutation == 1:
        return value[:place] + draw(characters(ascii_only)) + value[place:]
    if mutation == 2:
        return value[:place] + value[place + 1 :]
    if mutation == 3:
        return value + draw(st.sampled_from(["\n", "\r\n", " ", "\0"]))
    return value


def is_trivial(pattern: Pattern) -> bool:
    """Whether some branch admits every value."""
    return any(
        all((isinstance(e, TokenGroup) and not e.repeated) or e == Token("all") for e in branch)
        and any(isinstance(e, Token) for e in branch)
        for branch in pattern.branches
    )

"""Makes a learned pattern as narrow as a person would: `V-<digit>{5}`, not `<letter>{1}-<digit>+`.

What is learned has to hold for values that nobody has seen, and is wide. A pattern that a person
looks at before it is used may spell out what all values have in common, where that is what codes
have: letters in front, and numbers that are filled up with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dqsql.patterns.characters import unicode_classes
from dqsql.patterns.language import Element, Pattern, Token, pattern_of
from dqsql.patterns.regex import token_regex

_LETTERS = ("letter", "upper", "lower")
# Fewer values may agree by chance.
_ENOUGH = 30
# Letters that all values of a week or month begin with, and those of the next one do not.
_CALENDAR = frozenset(
    {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
    | {"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
)


def specified(pattern: Pattern, values: Sequence[str]) -> Pattern:
    """The pattern with the letters that all values begin with, and with the length of numbers.

    Numbers have a length where all have as many digits and some begin with zero: others grow.
    Returns the pattern itself where it has several branches, or where nothing is in common.
    """
    branch = pattern.branches[0]
    tokens = [e for e in branch if isinstance(e, Token)]
    if len(pattern.branches) > 1 or len(tokens) < len(branch) or len(values) < _ENOUGH:
        return pattern
    expression = re.compile("".join(f"({token_regex(t, unicode_classes())})" for t in tokens))
    found = [expression.fullmatch(v) for v in values]
    parts = [m.groups() for m in found if m is not None]
    if len(parts) < len(values):
        return pattern
    columns = zip(tokens, zip(*parts, strict=True), strict=True)
    narrow: list[Element] = [
        _narrowed(token, texts, first=place == 0) for place, (token, texts) in enumerate(columns)
    ]
    return pattern_of(*narrow)


def _narrowed(token: Token, texts: Sequence[str], *, first: bool) -> Token:
    if token.kind in _LETTERS and first and len(set(texts)) == 1:
        return token if texts[0][:3].lower() in _CALENDAR else Token("const", texts[0])
    lengths = {len(t) for t in texts}
    padded = any(t.startswith("0") for t in texts)
    if token.kind == "digit" and token.unbounded and padded and len(lengths) == 1:
        return Token("digit", count=lengths.pop())
    return token

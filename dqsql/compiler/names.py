"""Names of checks that are made of their expressions."""

from __future__ import annotations

import re
import unicodedata
from itertools import takewhile


def slug(text: str) -> str:
    """A short form of an expression, of letters, digits and underscores."""
    words = {">=": "ge", "<=": "le", "<>": "ne", "!=": "ne", ">": "gt", "<": "lt", "=": "eq"}
    for symbol, word in words.items():
        text = text.replace(symbol, f" {word} ")
    short = re.sub(r"\W+", _between_words, text).strip("_").lower()
    return short[:80] or "check"


def _between_words(found: re.Match[str]) -> str:
    """What stands for a stretch without letters: vowel signs and accents are parts of words."""
    text = found.group()
    marks = "".join(takewhile(lambda c: unicodedata.category(c) in ("Mn", "Mc"), text))
    if not found.string[: found.start()][-1:].isalpha():
        return "_"
    return marks if len(marks) == len(text) else f"{marks}_"

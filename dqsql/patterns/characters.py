"""Character classes of the pattern language, and the shape of a value.

The leaves of the generalisation hierarchy (Auto-Validate, section 2.1, Figure 4) are characters.
Each belongs to exactly one leaf class here: decimal digit, upper-case letter, lower-case letter,
other letter (scripts without case, title case, combining marks), or symbol (anything else,
white space and control characters included). Classes follow Unicode general categories, so that
text in any script is generalised like English.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache
from types import MappingProxyType

#: Codes that stand for a leaf class in a shape string. Symbols stand for themselves.
DIGIT, UPPER, LOWER, OTHER_LETTER = "0", "A", "a", "x"

#: Java (and hence Spark) regex of one character of each class.
#: Combining marks count as letters: without them no word of Hindi or of decomposed French is one.
JAVA_CLASSES = MappingProxyType(
    {
        "digit": r"\p{Nd}",
        "letter": r"[\p{L}\p{M}]",
        "upper": r"\p{Lu}",
        "lower": r"\p{Ll}",
        "alphanum": r"[\p{L}\p{M}\p{Nd}]",
    }
)

#: The leaf classes that each of them has, by their codes.
LEAF_CLASSES = MappingProxyType(
    {
        "digit": DIGIT,
        "letter": UPPER + LOWER + OTHER_LETTER,
        "upper": UPPER,
        "lower": LOWER,
        "alphanum": UPPER + LOWER + OTHER_LETTER + DIGIT,
    }
)

# The table of shapes caches characters as they are met; hostile text must not make it grow
# without bound.
_MAX_CACHED_CHARACTERS = 65_536


def leaf_class(character: str) -> str:
    """Return the shape code of one character: a class code, or the character itself (symbols)."""
    category = unicodedata.category(character)
    if category == "Nd":
        return DIGIT
    if category == "Lu":
        return UPPER
    if category == "Ll":
        return LOWER
    if category[0] in "LM":
        return OTHER_LETTER
    return character


class _ShapeTable(dict[int, str]):
    """Translation table for `str.translate`, filled as characters are met."""

    def __missing__(self, code_point: int) -> str:
        code = leaf_class(chr(code_point))
        if len(self) < _MAX_CACHED_CHARACTERS:
            self[code_point] = code
        return code


_SHAPES = _ShapeTable({code_point: leaf_class(chr(code_point)) for code_point in range(128)})


def shape(value: str) -> str:
    """Return the value with every letter and digit replaced by the code of its leaf class.

    >>> shape("Mar 01")
    'Aaa 00'
    """
    return value.translate(_SHAPES)


@lru_cache
def python_classes(*, ascii_only: bool) -> dict[str, str]:
    r"""Return Python regex character classes, one for each class name.

    Python's `re` knows no `\p{..}`, so the classes are spelt out as ranges. Those over all of
    Unicode are computed at the first value that is not ASCII (about 0.3 s), then kept. Those of
    `ascii_only` are exact for values for which `str.isascii` holds.
    """
    points: dict[str, list[int]] = {code: [] for code in LEAF_CLASSES["alphanum"]}
    for point in range(128 if ascii_only else sys.maxunicode + 1):
        code = leaf_class(chr(point))
        if code in points:
            points[code].append(point)
    return {
        name: f"[{_ranges(sorted(p for code in codes for p in points[code]))}]"
        for name, codes in LEAF_CLASSES.items()
    }


def _ranges(code_points: list[int]) -> str:
    """Return regex ranges that cover exactly the given sorted code points."""
    parts: list[str] = []
    start = previous = code_points[0]
    for code_point in [*code_points[1:], -1]:
        if code_point != previous + 1:
            parts.append(f"\\U{start:08x}-\\U{previous:08x}")
            start = code_point
        previous = code_point
    return "".join(parts)

r"""The pattern language: tokens, patterns, and their printable form.

A pattern is a sequence of tokens (Auto-Validate, section 2.1):

    Mar                 constant text
    <digit>{2}          two digits                      <digit>+      one or more
    <letter>{3}         three letters                   <letter>+     one or more
    <upper>, <lower>    letters of one case, with {k} or +
    <alphanum>{8}       eight letters or digits         <alphanum>+   one or more
    <num>               a number, with optional sign, decimals, and signed exponent
    <all>               any text, also none; at most one in a pattern

What follows goes beyond the paper, whose error analysis (section 5.3) names its absence as the
main cause of failures:

    <letter>{2,9}       two to nine characters of a class
    <[><upper>-<]>+     characters of a set: classes, and symbols that stand for themselves;
                        with {k}, {a,b} or +
    <(>..<)?>           a part that may be missing
    <(>..<)+>           a part that comes once or more often
    a<|>b               alternative patterns

In constants, the characters `\`, `<`, `{` and `+` are written with a backslash before them, and
characters that cannot be printed as `\n`, `\r`, `\t` or `\u{hex}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

TokenKind = Literal["const", "digit", "upper", "lower", "letter", "alphanum", "set", "num", "all"]

CLASS_KINDS = ("digit", "upper", "lower", "letter", "alphanum")
_COUNTED_KINDS = (*CLASS_KINDS, "set")

# How much more general one token is than another: a constant admits one text, <all> every text.
# Used only to order patterns of equal false-positive rate and coverage.
_GENERALITY = {
    "const": 0,
    "digit": 2,
    "upper": 2,
    "lower": 2,
    "letter": 3,
    "num": 5,
    "alphanum": 6,
    "set": 8,
    "all": 50,
}
_GENERALITY_OF_PLUS = 2
_GENERALITY_OF_OPTION = 4


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a pattern.

    Attributes:
        kind: constant, character class, set of characters, number, or any text.
        text: the constant's text, or the symbols of a set; empty for all other kinds.
        count: least number of characters of a class or set, at least 1; None means one or more.
            Of no meaning for constants, <num> and <all>.
        most: largest number of characters where it is not `count`; more than `count`.
        classes: the character classes of a set.
    """

    kind: TokenKind
    text: str = ""
    count: int | None = None
    most: int | None = None
    classes: tuple[TokenKind, ...] = ()

    def __str__(self) -> str:
        if self.kind == "const":
            return escape_constant(self.text)
        if self.kind in ("num", "all"):
            return f"<{self.kind}>"
        characters = f"<{self.kind}>"
        if self.kind == "set":
            classes = "".join(f"<{name}>" for name in self.classes)
            characters = f"<[>{classes}{escape_constant(self.text)}<]>"
        return characters + self.quantifier

    @property
    def quantifier(self) -> str:
        """How many characters of a class or set: `+`, `{k}` or `{a,b}`, as in a regex."""
        if self.count is None:
            return "+"
        return f"{{{self.count}}}" if self.most is None else f"{{{self.count},{self.most}}}"

    @property
    def unbounded(self) -> bool:
        """Whether the token matches texts of more than one length."""
        open_ended = self.count is None or self.most is not None
        return self.kind in ("num", "all") or (self.kind != "const" and open_ended)

    @property
    def generality(self) -> int:
        """A rank in [0, 50]: the larger, the more texts the token admits."""
        rank = _GENERALITY[self.kind]
        return (
            rank + _GENERALITY_OF_PLUS if self.unbounded and self.kind in _COUNTED_KINDS else rank
        )


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """Tokens that belong together: a part that may be missing, or that may be repeated.

    Attributes:
        tokens: at least one.
        repeated: there once or more often; otherwise there once or not at all.
    """

    tokens: tuple[Token, ...]
    repeated: bool = False

    def __str__(self) -> str:
        return f"<(>{''.join(map(str, self.tokens))}<){'+' if self.repeated else '?'}>"

    @property
    def generality(self) -> int:
        """A rank, at least 4: the larger, the more texts the group admits."""
        return _GENERALITY_OF_OPTION + sum(token.generality for token in self.tokens)


Element = Token | TokenGroup
Branch = tuple[Element, ...]


@dataclass(frozen=True)
class Pattern:
    """A validation pattern: one branch, or several of which a value must match at least one.

    Attributes:
        branches: sequences of elements, at least one, none empty.
    """

    branches: tuple[Branch, ...]

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """The printable form; `parse_pattern` reads it back."""
        return "<|>".join("".join(map(str, branch)) for branch in self.branches)

    @cached_property
    def generality(self) -> int:
        """A rank, at least 0: the larger, the more values the pattern admits."""
        return sum(element.generality for branch in self.branches for element in branch)


def pattern_of(*elements: Element) -> Pattern:
    """Return the pattern of one branch with neighbouring constants joined."""
    joined: list[Element] = []
    for element in elements:
        append(joined, element)
    return Pattern((tuple(joined),))


def append(target: list[Element] | list[Token], element: Any) -> None:
    """Append an element, or a constant to the constant before it."""
    last = target[-1] if target else None
    if (
        isinstance(last, Token)
        and isinstance(element, Token)
        and element.kind == last.kind == "const"
    ):
        target[-1] = Token("const", last.text + element.text)
    else:
        target.append(element)


_SPECIAL = re.compile(r"[\\<{+]|[^ -~]")
_NAMED_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape_constant(text: str) -> str:
    """Return constant text in printable form."""
    return _SPECIAL.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    character = match.group()
    if character in "\\<{+":
        return "\\" + character
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"

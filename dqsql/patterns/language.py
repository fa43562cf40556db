r"""The pattern language: tokens, patterns, their printable form, and its parser.

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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dqsql.errors import PatternError

TokenKind = Literal["const", "digit", "upper", "lower", "letter", "alphanum", "set", "num", "all"]

_CLASS_KINDS = ("digit", "upper", "lower", "letter", "alphanum")
_COUNTED_KINDS = (*_CLASS_KINDS, "set")
_MAX_PATTERN_LENGTH = 10_000
_MAX_COUNT = 10_000
_MAX_OPTIONAL_GROUPS = 4
_MAX_REPEATED_GROUPS = 4

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

    @property
    def trivial(self) -> bool:
        """Whether some branch admits every value."""
        return any(
            all((isinstance(e, TokenGroup) and not e.repeated) or e == Token("all") for e in branch)
            and any(isinstance(e, Token) for e in branch)
            for branch in self.branches
        )


def pattern_of(*elements: Element) -> Pattern:
    """Return the pattern of one branch with neighbouring constants joined."""
    joined: list[Element] = []
    for element in elements:
        last = joined[-1] if joined else None
        if (
            isinstance(element, Token)
            and isinstance(last, Token)
            and element.kind == last.kind == "const"
        ):
            joined[-1] = Token("const", last.text + element.text)
        else:
            joined.append(element)
    return Pattern((tuple(joined),))


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


_QUANTIFIER = r"\{(?P<count>[0-9]{1,6})(?:,(?P<most>[0-9]{1,6}))?\}|(?P<plus>\+)"
_LEXER = re.compile(
    rf"(?P<cls><(?P<kind>digit|upper|lower|letter|alphanum)>(?:{_QUANTIFIER})?)"
    r"|(?P<free><(?:num|all)>)"
    rf"|(?P<set><\[>(?P<members>(?:\\.|[^\\])*?)<\]>(?:{_QUANTIFIER.replace('P<', 'P<set_')})?)"
    r"|(?P<open><\(>)|(?P<close><\)(?P<times>[?+])>)|(?P<or><\|>)"
    r"|\\u\{(?P<hex>[0-9a-fA-F]{1,6})\}"
    r"|\\(?P<esc>[\\<{+nrt])"
    r"|(?P<plain>[^\\<]+)",
    re.DOTALL,
)
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def parse_pattern(text: str) -> Pattern:
    """Read a pattern in printable form.

    `<digit>` without a count means exactly one. Inside plain text `{` and `+` may stand unescaped
    where they do not follow a class token.

    Raises:
        PatternError: the text is empty, unreadable, or describes a pattern that cannot be matched
            in linear time (see `dqsql.patterns.regex.check_linear`).
    """
    from dqsql.patterns.regex import check_linear

    if len(text) > _MAX_PATTERN_LENGTH:
        raise PatternError(f"pattern of {len(text)} characters; at most {_MAX_PATTERN_LENGTH}")
    branches: list[list[Element]] = [[]]
    group: list[Token] | None = None
    for match in _matches(text):
        if match["open"]:
            if group is not None:
                raise PatternError("<(> inside <(>", hint="close the first with <)?> or <)+>")
            group = []
        elif match["close"]:
            if not group:
                raise PatternError(f"{match['close']} without tokens between <(> and it")
            branches[-1].append(TokenGroup(tuple(group), repeated=match["times"] == "+"))
            group = None
        elif match["or"]:
            if group is not None or not branches[-1]:
                raise PatternError("<|> needs a complete pattern on both sides")
            branches.append([])
        else:
            _append(branches[-1] if group is None else group, _token(match))
    if group is not None:
        raise PatternError("<(> is never closed", hint="close it with <)?> or <)+>")
    if not branches[-1]:
        raise PatternError("empty pattern")
    pattern = Pattern(tuple(tuple(branch) for branch in branches))
    for branch in pattern.branches:
        repeated = [element.repeated for element in branch if isinstance(element, TokenGroup)]
        if repeated.count(False) > _MAX_OPTIONAL_GROUPS:
            raise PatternError(f"more than {_MAX_OPTIONAL_GROUPS} optional parts in a pattern")
        if repeated.count(True) > _MAX_REPEATED_GROUPS:
            raise PatternError(f"more than {_MAX_REPEATED_GROUPS} repeated parts in a pattern")
    check_linear(pattern)
    return pattern


def _matches(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        match = _LEXER.match(text, position)
        if match is None:
            rest = text[position : position + 20]
            raise PatternError(
                f"cannot read pattern at character {position + 1}: {rest!r}",
                hint=r"tokens are <digit>, <letter>, <upper>, <lower>, <alphanum> with {k}, {a,b} "
                r"or +, <num> and <all>; write a literal < as \< and a literal backslash as \\",
            )
        yield match
        position = match.end()


def _token(match: re.Match[str]) -> Token:
    if match["cls"]:
        return Token(_kind(match["kind"]), "", *_counts(match, ""))
    if match["set"]:
        return _set(match)
    if match["free"]:
        return Token(_kind(match["free"][1:-1]))
    if match["hex"]:
        code_point = int(match["hex"], 16)
        if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
            raise PatternError(f"\\u{{{match['hex']}}} is no character")
        return Token("const", chr(code_point))
    if match["esc"]:
        return Token("const", _UNESCAPED.get(match["esc"], match["esc"]))
    return Token("const", match["plain"])


def _counts(match: re.Match[str], prefix: str) -> tuple[int | None, int | None]:
    """Return the least and the largest count; the latter None where it is no other."""
    if match[f"{prefix}plus"]:
        return None, None
    count, most = int(match[f"{prefix}count"] or 1), match[f"{prefix}most"]
    least_and_most = (count, count if most is None else int(most))
    if not 1 <= least_and_most[0] <= least_and_most[1] <= _MAX_COUNT:
        raise PatternError(f"the count in {match.group()} is not in 1..{_MAX_COUNT}, ascending")
    return count, None if least_and_most[1] == count else least_and_most[1]


def _set(match: re.Match[str]) -> Token:
    classes: set[TokenKind] = set()
    symbols: set[str] = set()
    for member in map(_token, _matches(match["members"])) if match["members"] else ():
        if member.kind == "const":
            symbols.update(member.text)
        elif member.kind in _CLASS_KINDS and member.count == 1 and member.most is None:
            classes.add(member.kind)
        else:
            raise PatternError(f"{member} cannot stand in a set", hint="sets hold classes and text")
    if not classes and not symbols:
        raise PatternError("<[><]> is a set without characters")
    text = "".join(sorted(symbols))
    return Token("set", text, *_counts(match, "set_"), tuple(sorted(classes)))


def _kind(name: str) -> TokenKind:
    for kind in ("digit", "upper", "lower", "letter", "alphanum", "num", "all"):
        if kind == name:
            return kind
    raise PatternError(f"unknown token <{name}>")


def _append(target: list[Element] | list[Token], token: Token) -> None:
    last = target[-1] if target else None
    if isinstance(last, Token) and last.kind == token.kind == "const":
        target[-1] = Token("const", last.text + token.text)
    else:
        target.append(token)

"""Reads patterns in printable form; `dqsql.patterns.language` describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from dqsql.errors import PatternError
from dqsql.patterns.language import (
    CLASS_KINDS,
    Element,
    Pattern,
    Token,
    TokenGroup,
    TokenKind,
    append,
)
from dqsql.patterns.regex import check_linear

_MAX_PATTERN_LENGTH = 10_000
_MAX_COUNT = 10_000
_MAX_OPTIONAL_GROUPS = 4
_MAX_REPEATED_GROUPS = 4

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

    >>> parse_pattern("<digit>:<digit>{2}") == parse_pattern("<digit>{1}:<digit>{2}")
    True

    Inside plain text `{` and `+` may stand unescaped
    where they do not follow a class token.

    Raises:
        PatternError: the text is empty, unreadable, or describes a pattern that cannot be matched
            in linear time (see `dqsql.patterns.regex.check_linear`).
    """
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
            append(branches[-1] if group is None else group, _token(match))
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


def _matches(text: str, *, in_set: bool = False) -> Iterator[re.Match[str]]:
    position, behind = 0, False
    while position < len(text):
        match = _LEXER.match(text, position)
        if behind and not in_set and text[position] == "{":
            raise PatternError(
                f"{text[position : position + 12]!r} is no number of characters",
                hint=r"write {k} or {a,b} with a of at least 1, + for one or more, <(>..<)?> for"
                r" what may be missing, and \{ for a brace",
            )
        if match is None:
            rest = text[position : position + 20]
            raise PatternError(
                f"cannot read pattern at character {position + 1}: {rest!r}",
                hint=r"tokens are <digit>, <letter>, <upper>, <lower>, <alphanum> with {k}, {a,b} "
                r"or +, <num> and <all>; write a literal < as \< and a literal backslash as \\",
            )
        yield match
        position, behind = match.end(), bool(match["cls"] or match["set"])


def _token(match: re.Match[str]) -> Token:
    if match["cls"]:
        return Token(cast("TokenKind", match["kind"]), "", *_counts(match, ""))
    if match["set"]:
        return _set(match)
    if match["free"]:
        return Token(cast("TokenKind", match["free"][1:-1]))
    if match["hex"]:
        code_point = int(match["hex"], 16)
        if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
            raise PatternError(f"\\u{{{match['hex']}}} is not a character")
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
    for member in map(_token, _matches(match["members"], in_set=True)) if match["members"] else ():
        if member.kind == "const":
            symbols.update(member.text)
        elif member.kind in CLASS_KINDS and member.count == 1 and member.most is None:
            classes.add(member.kind)
        else:
            raise PatternError(f"{member} cannot stand in a set", hint="sets hold classes and text")
    if not classes and not symbols:
        raise PatternError("<[><]> is a set without characters")
    text = "".join(sorted(symbols))
    return Token("set", text, *_counts(match, "set_"), tuple(sorted(classes)))

r"""From patterns to regular expressions: Spark's (Java) and an equivalent matcher in Python.

Both are anchored with absolute anchors (`\A`, `\z`; Java's `$` also matches before a final
newline), use no dot, and escape every constant, so that they agree on every text. The one
difference left is the age of the Unicode tables: Java 17 knows Unicode 13, Python 3.11 Unicode 14,
and characters newer than either are symbols for it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from dqsql.errors import PatternError
from dqsql.patterns import characters
from dqsql.patterns.language import Branch, Pattern, Token, TokenGroup, pattern_of

# Which leaf classes (see `characters`) each token's characters can have, and which symbols.
_MEMBERS = {kind: frozenset(codes) for kind, codes in characters.LEAF_CLASSES.items()}
_MEMBERS["num"] = frozenset("Aa0+-.")
_STARTS = {"num": frozenset("0+-"), "all": frozenset(characters.DIGIT)}

# Each number can end at up to three places: the number of readings grows with their number.
_MAX_NUMBERS = 7


def spark_regex(pattern: Pattern) -> str:
    r"""Return the pattern as an anchored Java regular expression for Spark's `rlike`.

    The expression holds ASCII characters only. As a SQL literal its backslashes need escaping,
    unless `spark.sql.parser.escapedStringLiterals` is set or a raw literal (`r'..'`) is used.

    >>> from dqsql.patterns.parsing import parse_pattern
    >>> print(spark_regex(parse_pattern("<upper>{2}-<digit>+")))
    \A(?:\p{Lu}{2}\-\p{Nd}+)\z
    """
    body = _alternatives(pattern, characters.JAVA_CLASSES, _java_constant)
    return rf"\A(?:{body})\z"


def matches(pattern: Pattern, value: str) -> bool:
    """Whether the whole value matches the pattern, exactly as Spark's `rlike` would say.

    >>> from dqsql.patterns.parsing import parse_pattern
    >>> matches(parse_pattern("<upper>{2}-<digit>+"), "AB-12")
    True
    """
    return _compiled(pattern, ascii_only=value.isascii()).fullmatch(value) is not None


def token_regex(token: Token, classes: Mapping[str, str]) -> str:
    """A token as a regular expression of Python; `classes` are those of characters."""
    return _element(token, classes, re.escape)


@lru_cache(maxsize=4096)
def _compiled(pattern: Pattern, *, ascii_only: bool) -> re.Pattern[str]:
    classes = characters.python_classes(ascii_only=ascii_only)
    return re.compile(_alternatives(pattern, classes, re.escape))


def _alternatives(
    pattern: Pattern, classes: Mapping[str, str], constant: Callable[[str], str]
) -> str:
    return "|".join(
        "".join(_element(element, classes, constant) for element in branch)
        for branch in pattern.branches
    )


def _element(
    element: Token | TokenGroup, classes: Mapping[str, str], constant: Callable[[str], str]
) -> str:
    if isinstance(element, TokenGroup):
        inner = "".join(_element(token, classes, constant) for token in element.tokens)
        return f"(?:{inner}){'+' if element.repeated else '?'}"
    if element.kind == "const":
        return constant(element.text)
    if element.kind == "all":
        return r"[\s\S]*"
    if element.kind == "num":
        digits = classes["digit"]
        return rf"[+\-]?{digits}+(?:\.{digits}+)?(?:[eE][+\-]{digits}+)?"
    if element.kind == "set":
        inner = "".join(
            classes[name].removeprefix("[").removesuffix("]") for name in element.classes
        )
        return f"[{inner}{''.join(map(constant, element.text))}]{element.quantifier}"
    return classes[element.kind] + element.quantifier


def _java_constant(text: str) -> str:
    return "".join(map(_java_character, text))


def _java_character(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in " _"):
        return character
    if character.isascii() and character.isprintable():
        return "\\" + character
    return f"\\x{{{ord(character):x}}}"


def check_linear(pattern: Pattern) -> None:
    """Refuse a pattern whose regular expression could take more than linear time.

    Backtracking engines are slow where two unbounded tokens compete for the same characters, as in
    `<letter>+<alphanum>+` or `<all>a<all>`. Allowed are patterns with at most one `<all>` in which
    every other unbounded token ends at a place that the characters determine: something before
    (or at the start of) the next unbounded token cannot be part of it. Generated patterns hold
    this by construction; the check is for patterns written by people.

    Raises:
        PatternError: with the two tokens that compete.
    """
    for branch in pattern.branches:
        for left, right in itertools.pairwise(branch):
            if isinstance(left, TokenGroup) and left.repeated and isinstance(right, TokenGroup):
                _check_neighbours(left, right)
        for tokens in _unfolded(branch):
            _check_tokens(tokens)


def _check_neighbours(repeated: TokenGroup, group: TokenGroup) -> None:
    """Refuse a repeated part whose end the next part blurs: `<(>-a<)+><(>-b<)+>`."""
    first, second = (next(_memberships(g.tokens[0]), frozenset()) for g in (repeated, group))
    if not first or not second or first & second:
        raise PatternError(
            f"{repeated} and {group} begin with the same characters",
            hint="put a separator between them",
        )


def _unfolded(branch: Branch) -> Iterator[list[Token]]:
    """Yield the branch with optional parts there or not, and repeated ones once or twice."""
    choices = [
        (element.tokens if element.repeated else (), element.tokens * (1 + element.repeated))
        if isinstance(element, TokenGroup)
        else ((element,),)
        for element in branch
    ]
    for combination in itertools.product(*choices):
        yield [token for part in combination for token in part]


def _check_tokens(tokens: list[Token]) -> None:
    unbounded = [index for index, token in enumerate(tokens) if token.unbounded]
    kinds = [token.kind for token in tokens]
    if kinds.count("all") > 1 or kinds.count("num") > _MAX_NUMBERS:
        raise PatternError(
            f"a pattern can hold <all> once and <num> {_MAX_NUMBERS} times",
            hint="use @matches('regex') for a free regex",
        )
    for left, right in itertools.pairwise(unbounded):
        if not _separated(tokens[left], tokens[left + 1 : right], tokens[right]):
            raise PatternError(
                f"{tokens[left]} and {tokens[right]} compete for the same characters in "
                f"{pattern_of(*tokens).text}",
                hint="fix the length of one of them with {k}, or put a separator between them",
            )


def _separated(first: Token, between: list[Token], second: Token) -> bool:
    """Whether the characters leave a bounded number of places at which `first` can end."""
    places = [place for token in between for place in _memberships(token)]
    start = _STARTS.get(second.kind) or _members(second)
    if first.kind == "num":
        # A number has one place to end after each of its three parts, unless digits follow.
        return characters.DIGIT not in (places[0] if places else start)
    if first.kind == "all":
        return any(place.isdisjoint(_members(second)) for place in places)
    if second.kind == "all":
        return any(place.isdisjoint(_members(first)) for place in places)
    return any(place.isdisjoint(_members(first)) for place in [*places, start])


def _members(token: Token) -> frozenset[str]:
    """Return the leaf classes and symbols that a class, a set or a number can hold."""
    if token.kind != "set":
        return _MEMBERS[token.kind]
    classes = (_MEMBERS[name] for name in token.classes)
    return frozenset(map(characters.leaf_class, token.text)).union(*classes)


def _memberships(token: Token) -> Iterator[frozenset[str]]:
    """Yield, for each position of a bounded token, the leaf classes or symbols it can hold."""
    if token.kind == "const":
        yield from (frozenset(characters.leaf_class(character)) for character in token.text)
    elif token.kind != "all":
        yield _members(token)

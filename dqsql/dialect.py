"""How dqsql reads and writes SQL expressions with sqlglot, without changing what they mean.

sqlglot's Spark dialect knows hundreds of functions and, when it writes them again, translates some
of them (`percentile_cont` becomes approximate, `listagg` gains a separator). dqsql must not: the
dialect here parses every function call as an opaque name with arguments, so that what Spark gets
is what the user wrote. What cannot survive the round trip is refused by `check_fidelity`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from dqsql.errors import DqsqlError, Span, SqlSyntaxError, UnsupportedExpressionError
from dqsql.spark_grammar import OpaqueSpark, OpaqueSpark41, usable
from dqsql.version import SPARK

_DIALECT = usable(OpaqueSpark())
_OLDER = usable(OpaqueSpark41())
_CONTENT = frozenset(
    {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.RAW_STRING,
        TokenType.NUMBER,
        # The type, which sqlglot takes for a timestamp.
        TokenType.TIME,
    }
)
# What a dot and a name may follow.
_HAS_MEMBERS = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}
)
# What Python's stack holds, with a margin: sqlglot's grammar takes twenty calls a parenthesis.
_MAX_BRACKETS = 25
_MAX_DEPTH = 100
_NESTING = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.CASE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.END: -1,
}
_SHOWN = 300
# Words that only spell a cast or a typed literal: `x::int`, `date '2020-01-01'`.
_CAST_WORDS = frozenset({"cast", "date", "timestamp", "timestamp_ntz", "timestamp_ltz"})


def tokenize(text: str) -> list[Token]:
    """Split SQL text into sqlglot tokens (comments dropped). Raises SqlSyntaxError."""
    try:
        return list(_DIALECT.tokenize(text))
    except TokenError as error:
        raise SqlSyntaxError(f"cannot read the SQL text {shortened(text)!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An expression, the offset in the text behind its last character, and all tokens of it."""

    ast: exp.Expr
    end: int
    tokens: tuple[Token, ...]


def parse_prefix(text: str, span: Span | None = None) -> exp.Expr:
    """Parse the longest expression at the start of `text`, whatever follows.

    Raises SqlSyntaxError when no expression stands there.
    """
    with _about(span):
        return _prefix(text).ast.copy()


def prefix_end(text: str) -> int:
    """The offset behind the longest expression at the start of `text`.

    Raises SqlSyntaxError when no expression stands there.
    """
    # Without what surrounds it, so that the expression by itself is found parsed later.
    return len(text) - len(text.lstrip()) + _prefix(text.strip()).end


@contextmanager
def _about(span: Span | None) -> Iterator[None]:
    """Say of an error where the text stands."""
    try:
        yield
    except DqsqlError as error:
        error.span = span
        raise


@lru_cache(maxsize=4096)
def _prefix(text: str) -> _Parsed:
    tokens = tokenize(text)
    _refuse_deep(tokens)
    parser = OpaqueSpark.Parser(dialect=_DIALECT)
    try:
        # sqlglot takes `;` for the end of a statement and the rest for another one.
        ends = (i for i, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON)
        ast, consumed = _parse_tokens(parser, tokens[: next(ends, len(tokens))], text)
    except SqlglotError as error:
        raise SqlSyntaxError(
            f"cannot parse the expression {shortened(text)!r}: {_first_line(error)}"
        ) from None
    except RecursionError:
        raise _too_deep() from None
    if ast is None or consumed == 0:
        raise SqlSyntaxError(f"expected a SQL expression, found {shortened(text)!r}")
    if _is_deep(ast):
        raise _too_deep()
    return _Parsed(_without_places(ast), tokens[consumed - 1].end + 1, tuple(tokens))


def _refuse_deep(tokens: Sequence[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += _NESTING.get(token.token_type, 0)
        if depth > _MAX_BRACKETS:
            raise _too_deep()


def _is_deep(ast: exp.Expr) -> bool:
    """Whether a tree has more than `_MAX_DEPTH` levels; `a and b and c` has three."""
    level = [ast]
    for _ in range(_MAX_DEPTH):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True


def _too_deep() -> SqlSyntaxError:
    return SqlSyntaxError(
        f"the expression is nested deeper than {_MAX_BRACKETS} parentheses or"
        f" {_MAX_DEPTH} operators",
        hint="compute it as a column of the SELECT, which runs as you wrote it, and check that"
        " column",
    )


def shortened(text: str) -> str:
    """The text for a message: stripped, and cut where it is long."""
    text = text.strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."


def _parse_tokens(
    parser: SparkParser, tokens: list[Token], text: str
) -> tuple[exp.Expr | None, int]:
    """Run sqlglot's expression rule on `tokens` and tell how many of them it consumed."""
    consumed = 0

    def rule(p: Parser) -> exp.Expr | None:
        nonlocal consumed
        ast: exp.Expr | None = p._parse_assignment()
        consumed = p._index
        # sqlglot insists that a rule eats every token; the rest is the caller's business.
        p._advance(len(tokens) - p._index)
        return ast

    statements = parser._parse(rule, tokens, text)
    return (statements[0] if statements else None), consumed


def parse_expression(text: str, span: Span | None = None) -> exp.Expr:
    """Parse `text` as exactly one expression and make sure that it survives being written again.

    Raises SqlSyntaxError or UnsupportedExpressionError.
    """
    with _about(span):
        shape, names = _shape(text)
        template = _parse_shape(shape, len(names)) if names else None
        return _parse_whole(text).copy() if template is None else _named(template, names)


# Macros give the same text for one column after the other. It is parsed, and its fidelity checked,
# for places of names; an expression is then a copy of the tree with the names in their places.
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`(?P<name>[^`]*)`", re.DOTALL)
_PLAIN_NAME = re.compile(r"[\w ]+")
_PLACE = "name#"


def _shape(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with what look like quoted names replaced by places, and these names."""
    names = tuple(m["name"] for m in _QUOTED.finditer(text) if m["name"] is not None)
    if not names or not all(map(_PLAIN_NAME.fullmatch, names)):
        return text, ()
    places = (f"`{_PLACE}{number}`" for number in count())
    return _QUOTED.sub(lambda m: m[0] if m["name"] is None else next(places), text), names


@lru_cache(maxsize=1024)
def _parse_shape(shape: str, names: int) -> exp.Expr | None:
    """The tree of a text with places for `names` names; None where not each is a name in it."""
    try:
        template = _parse_whole(shape)
    except DqsqlError:
        # The text itself is then parsed, for an error that shows it.
        return None
    placeholders = [i.name for i in template.find_all(exp.Identifier) if i.name.startswith(_PLACE)]
    return (
        template if sorted(placeholders) == sorted(f"{_PLACE}{i}" for i in range(names)) else None
    )


def _named(template: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """A copy of the tree of a shape with names in the places."""

    def named(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Identifier) and node.name.startswith(_PLACE):
            return identifier(names[int(node.name.removeprefix(_PLACE))])
        return None

    return _rebuilt(template, named)


def _rebuilt(node: exp.Expr, replacement: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy of a tree without meta data, where `replacement` of a node stands for the node."""
    replaced = replacement(node)
    if replaced is not None:
        return replaced
    args = dict(node.args)
    for key, value in args.items():
        if isinstance(value, exp.Expr):
            args[key] = _rebuilt(value, replacement)
        elif isinstance(value, list):
            args[key] = [_rebuilt(v, replacement) if isinstance(v, exp.Expr) else v for v in value]
    return type(node)(**args)


@lru_cache(maxsize=4096)
def _parse_whole(text: str) -> exp.Expr:
    parsed = _prefix(text)
    if rest := text[parsed.end :].strip():
        raise SqlSyntaxError(
            f"unexpected {shortened(rest)!r} after {shortened(text[: parsed.end])!r}"
        )
    check_fidelity(text, parsed.tokens, parsed.ast)
    return parsed.ast


def _without_places(ast: exp.Expr) -> exp.Expr:
    """The tree without where its tokens stood, of which every copy would take most of its time."""
    for node in ast.walk():
        if isinstance(node, exp.Anonymous):
            _keep_unit(node)
        node.pop_comments()
        node.meta.clear()
        node._meta = None
    return ast


_OF_UNITS = re.compile("(?:date|timestamp|time)_?(?:diff|add)", re.IGNORECASE)
_UNIT = re.compile(
    "year|quarter|month|week|day|dayofyear|hour|minute|second|millisecond|microsecond",
    re.IGNORECASE,
)


def _keep_unit(node: exp.Anonymous) -> None:
    """Read `day` in `datediff(day, a, b)` as a word, which it is there, and not as a column."""
    if len(node.expressions) != 3 or not _OF_UNITS.fullmatch(str(node.this)):
        return
    unit = node.expressions[0]
    is_name = isinstance(unit, exp.Column) and len(unit.parts) == 1 and not unit.this.quoted
    if is_name and _UNIT.fullmatch(unit.name):
        node.set("expressions", [exp.Var(this=unit.name), *node.expressions[1:]])


def _writer_for(version: str) -> Spark:
    first, second = (int(number) for number in re.findall(r"\d+", version)[:2])
    return _DIALECT if (first, second) >= (4, 2) else _OLDER


class _Writing:
    """What `to_spark` writes by: for the Spark installed, then for the session in use."""

    dialect = _writer_for(SPARK)


def write_for(version: str) -> None:
    """Let `to_spark` write for a version of Spark, such as `4.1.2`, from now on."""
    _Writing.dialect = _writer_for(version)


def to_spark(ast: exp.Expr) -> str:
    """Write a statement for the Spark that runs it; names and hashes are made of `to_sql`."""
    return _written(ast, _Writing.dialect)


def to_sql(ast: exp.Expr, *, pretty: bool = False) -> str:
    """Write an AST as Spark SQL."""
    return _written(ast, _DIALECT, pretty=pretty)


def _written(ast: exp.Expr, dialect: Spark, *, pretty: bool = False) -> str:
    # Not of a copy, which takes longer than the writing: what is written is changed by rewriting of
    # queries only, which `OpaqueSpark` leaves out.
    return ast.sql(
        dialect=dialect, normalize_functions=False, pretty=pretty, comments=False, copy=False
    )


def check_fidelity(text: str, tokens: Sequence[Token], ast: exp.Expr) -> None:
    """Refuse an expression whose names, literals or numbers change when it is written again.

    `tokens` are those of `text`. Operators and keywords may be respelled (`!=` as `<>`), content
    may not. Raises UnsupportedExpressionError.
    """
    before, after = _content(tokens), _content(tokenize(to_sql(ast)))
    if before != after:
        lost, gained = before - after, after - before
        changed_words = ", ".join(repr(word) for word in (lost or gained))
        raise UnsupportedExpressionError(
            f"the expression {shortened(text)!r} would change its meaning when rewritten"
            f" (at {changed_words})",
            hint=_hint_on_change(tokens),
        )


def _hint_on_change(tokens: Sequence[Token]) -> str:
    elsewhere = (
        "compute it as a column of the SELECT, which runs as you wrote it, and check that column"
    )
    kinds = [token.token_type for token in tokens]
    if any(a is b is TokenType.STRING for a, b in pairwise(kinds)):
        return f"is a comma missing between two texts? Or {elsewhere}"
    return elsewhere


def _content(tokens: Sequence[Token]) -> Counter[str]:
    places = (i for i, token in enumerate(tokens) if token.token_type in _CONTENT)
    words = (_canonical(tokens, i) for i in places)
    return Counter(word for word in words if word not in _CAST_WORDS)


def _canonical(tokens: Sequence[Token], place: int) -> str:
    token = tokens[place]
    if token.token_type is TokenType.VAR:
        return token.text.lower()
    dot = place > 0 and tokens[place - 1].token_type is TokenType.DOT
    if dot and token.token_type is TokenType.NUMBER:
        member = place > 1 and tokens[place - 2].token_type in _HAS_MEMBERS
        # `.5` is written as `0.5`.
        return token.text if member else f"0.{token.text}"
    return token.text


# Of the expression, which is no line of the user's file.
_POSITION = re.compile(r"\.? Line \d+, Col: \d+\.?$")
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+'>")


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0].split("\x1b")[0].strip()
    # sqlglot names its classes, which says nothing to a user.
    return _MISSING.sub("something is missing", _POSITION.sub("", text))


@lru_cache(maxsize=64)
def parse_query(text: str) -> exp.Select:
    """A query of dqsql's own SQL text, never of a user's. The tree is shared: change a copy."""
    query = _DIALECT.parse(text)[0]
    assert isinstance(query, exp.Select)
    _without_places(query)
    return query


def parse_statement(text: str) -> exp.Expr | None:
    """A statement of a user's as a tree to look at; None where sqlglot does not read it."""
    try:
        return _DIALECT.parse(text)[0]
    except SqlglotError:
        return None


def tables_read(query: exp.Expr) -> Iterator[exp.Table]:
    """The tables of a statement, without those that stand for a query of its WITH."""
    return (table for table in query.find_all(exp.Table) if not _is_of_with(table))


def _is_of_with(table: exp.Table) -> bool:
    inner: exp.Expr = table
    while len(table.parts) == 1 and inner.parent is not None:
        outer = inner.parent
        if isinstance(outer, exp.With):
            # A query of a WITH knows those before it: in `with t as (select .. from t)`, the
            # second t is a table.
            place = next(i for i, cte in enumerate(outer.expressions) if cte is inner)
            known = outer.expressions[: place + bool(outer.args.get("recursive"))]
        else:
            with_ = outer.args.get("with_")
            known = [] if with_ is None or with_ is inner else with_.expressions
        if any(cte.alias.lower() == table.name.lower() for cte in known):
            return True
        inner = outer
    return False


def identifier(name: str) -> exp.Identifier:
    """A quoted identifier, safe for any name."""
    return exp.to_identifier(name, quoted=True)


def quoted(*parts: str) -> str:
    """A name of one or several parts as SQL text in backticks, safe for any name.

    >>> quoted("sales", "order`s")
    '`sales`.`order``s`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def unquoted(text: str) -> str:
    """The name that a piece of SQL text is, in backticks or not."""
    if len(text) > 2 and text[0] == text[-1] == "`":
        return text[1:-1].replace("``", "`")
    return text


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column reference, safe for any name."""
    return exp.Column(this=identifier(name), table=identifier(table) if table is not None else None)


def call(name: str, *args: exp.Expr | int | float | str) -> exp.Anonymous:
    """A call of the Spark function `name`; Python values become literals."""
    return exp.Anonymous(this=name, expressions=[literal(a) for a in args])


def as_type(value: exp.Expr, spark_type: str) -> exp.Cast:
    """`CAST(value AS spark_type)`."""
    return exp.Cast(this=value, to=exp.DataType.build(spark_type, dialect="spark"))


def aliased(value: exp.Expr, name: str) -> exp.Expr:
    """`value AS name`, safe for any name."""
    return exp.alias_(value, name, quoted=True)


def literal(value: exp.Expr | int | float | str) -> exp.Expr:
    """Python values as SQL literals; expressions pass through."""
    return value if isinstance(value, exp.Expr) else exp.convert(value)


_OPERAND = "operand#"


def operand(index: int) -> exp.Column:
    """The place of operand number `index` in an expression that `fill` completes."""
    return column(f"{_OPERAND}{index}")


def fill(template: exp.Expr, *operands: exp.Expr) -> exp.Expr:
    """A copy of a template with the operands in their places."""

    def operand_at(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and node.name.startswith(_OPERAND):
            return operands[int(node.name.removeprefix(_OPERAND))].copy()
        return None

    return _rebuilt(template, operand_at)


def formula(text: str, *operands: exp.Expr) -> exp.Expr:
    """Build an expression from dqsql's own SQL text, whose `{0}`, `{1}`, .. stand for operands.

    The text is parsed once; it is not checked for fidelity, so it must not come from a user.
    """
    return fill(_template(text, len(operands)), *operands)


@lru_cache(maxsize=1024)
def _template(text: str, operands: int) -> exp.Expr:
    text = text.format(*(to_sql(operand(i)) for i in range(operands)))
    return _prefix(text).ast

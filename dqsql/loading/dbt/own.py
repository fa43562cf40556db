"""Tests that a project wrote itself: which rows of one relation their query returns.

A singular test, or a generic test of the project or of a package that dqsql does not know, is
adopted if its query only filters rows: SELECTs, CTEs and subqueries of one relation with WHERE, and
nothing that joins or numbers rows. A row then fails by itself. The only groups that are known are
those of several rows, `group by a, b having count(*) > 1`. The text of conditions is the user's;
columns that an inner SELECT renames or computes are put in for their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dqsql.dialect import parse_expression, to_sql, tokenize
from dqsql.errors import DqsqlError
from dqsql.loading.dbt.failing import Arguments, Failing, Unadoptable, rows, tuples
from dqsql.loading.dbt.text import closing, ctes
from dqsql.loading.layout import Item, LayoutProblem, read_layout
from dqsql.loading.scanner import blank, scan
from dqsql.model.functions import AGGREGATES, GENERATORS, RANDOM, SCALARS
from dqsql.model.project import MacroFile
from dqsql.templating import MacroLibrary

# What the tested relation is called while a query is read.
MODEL = "dqsql_tested_relation"
_TEST = re.compile(r"(\{%[-+]?\s*)test(\s+)(\w+)")
_END = re.compile(r"(\{%[-+]?\s*)endtest(\s*[-+]?%\})")
# Functions that may make several rows of one.
_GENERATORS = GENERATORS | {"window", "session_window"}
_OPEN = TokenType.L_PAREN
_OTHER_GROUPS = re.compile(r"(?:all|rollup|cube|grouping)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"count\s*\(\s*[*1]\s*\)\s*(?:>\s*1|>=\s*2)", re.IGNORECASE)
_LIMITS = (TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.PIPE_GT)
_NO_FILTER = "its query does more than filter the rows of one relation"


def generic_query(
    name: str, path: str, text: str, arguments: Mapping[str, Any], context: Mapping[str, object]
) -> str:
    """The query of a generic test whose macro has this text. Raises Unadoptable."""
    macro = _END.sub(r"\1endmacro\2", _TEST.sub(r"\1macro\2test_\3", text))
    try:
        library = MacroLibrary((MacroFile(path, macro),), context)
        return library.call(f"test_{name}", (), {**arguments, "model": MODEL})
    except DqsqlError as error:
        raise Unadoptable(f"only dbt can render it: {error.message}") from error


def failing_rows(query: str) -> Failing:
    """The failing rows of a query that filters the rows of `MODEL`. Raises Unadoptable."""
    text = blank(query, scan(query, jinja=False).comments).strip().removesuffix(";")
    selected_rows = _read(text.strip(), {})
    if selected_rows.keys:
        where = " and ".join(f"({c})" for c in selected_rows.conditions) or None
        return tuples(Arguments({"keys": list(selected_rows.keys)}), "keys", False, where)
    return rows(" and ".join(f"({c})" for c in selected_rows.conditions) or "true")


@dataclass(frozen=True)
class _SelectedRows:
    """Some rows of the relation, with columns of it or made of them.

    `columns` has the texts of named ones, over `source`, which is called `alias`; None is the
    relation itself. With `keys` there is one row for each group of several rows.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    has_star: bool = True
    conditions: tuple[str, ...] = ()
    source: _SelectedRows | None = None
    alias: str = MODEL
    keys: tuple[str, ...] = ()

    def column(self, name: str) -> str | None:
        """What a column is, over the relation; None for a column of the relation's own."""
        if name in self.columns:
            assert self.source is not None
            self._refuse_lateral(name)
            return _resolved(self.columns[name], self.source, self.alias)
        if not self.has_star:
            raise Unadoptable(f"its query uses a column {name!r} that it does not have")
        return self.source.column(name) if self.source else None

    def _refuse_lateral(self, name: str) -> None:
        """Refuse a column that may be made of another one of its own SELECT."""
        words = {t.text.lower() for t in tokenize(self.columns[name])}
        for other, text in self.columns.items():
            if other == name:
                return
            if other in words and text.lower() != other:
                raise Unadoptable(f"it is not clear which column {other!r} of its query is")


def _read(text: str, known: Mapping[str, _SelectedRows]) -> _SelectedRows:
    for cte in ctes(text):
        if cte.has_columns:
            raise Unadoptable(f"its CTE {cte.name} names its columns in a list")
        known = {**known, cte.name.lower(): _read(text[cte.start : cte.end], known)}
    try:
        layout = read_layout(text)
    except (LayoutProblem, DqsqlError) as problem:
        raise Unadoptable(f"its query is not understood: {problem.message}") from problem
    if len(layout.branches) != 1:
        raise Unadoptable(_NO_FILTER)
    (branch,) = layout.branches
    if [t.text.lower() for t in tokenize(text[branch.select : branch.items[0].start])] != [
        "select"
    ]:
        raise Unadoptable(_NO_FILTER)
    rest, grouping = _grouping(text[branch.list_end :])
    source, alias, condition = _source(rest, known)
    if source.keys and condition is not None:
        raise Unadoptable(_NO_FILTER)
    own_conditions = () if condition is None else (_resolved(condition, source, alias),)
    conditions = (*source.conditions, *own_conditions)
    if grouping is not None:
        keys = _keys(grouping, branch.items, text)
        resolved = tuple(_resolved(key, source, alias) for key in keys)
        if source.keys or not resolved:
            raise Unadoptable(_NO_FILTER)
        return _SelectedRows({}, False, conditions, source, alias, resolved)
    for item in branch.items:
        _refuse_other_rows(item.tokens)
    stars = [_is_star(item, alias) for item in branch.items]
    return _SelectedRows(
        {i.name.lower(): _text_of(i, text) for i in branch.items if i.name and not i.is_star},
        any(stars),
        conditions,
        source,
        alias,
        source.keys,
    )


def _grouping(text: str) -> tuple[str, str | None]:
    """A FROM clause up to GROUP BY, and the list behind that; None where nothing is grouped.

    Only groups of several rows are known.
    """
    tokens = list(tokenize(text))
    top = list(_outside(tokens))
    group = next((t for t in top if t.token_type is TokenType.GROUP_BY), None)
    if group is None:
        return text, None
    having = next((t for t in top if t.token_type is TokenType.HAVING), None)
    end = _order(tokens, len(text))
    if having is None or not _SEVERAL.fullmatch(text[having.end + 1 : end].strip()):
        raise Unadoptable(_NO_FILTER)
    return text[: group.start], text[group.end + 1 : having.start]


def _keys(listed: str, items: tuple[Item, ...], text: str) -> list[str]:
    """The expressions of a GROUP BY, where a number is the position of a projection."""
    keys: list[str] = []
    tokens = tuple(tokenize(listed))
    commas = [t for t in _outside(tokens) if t.token_type is TokenType.COMMA]
    starts = [0, *(t.end + 1 for t in commas)]
    for start, end in zip(starts, [*(t.start for t in commas), len(listed)], strict=True):
        key = listed[start:end].strip()
        if _OTHER_GROUPS.match(key):
            raise Unadoptable(_NO_FILTER)
        if key.isdigit() and 0 < int(key) <= len(items):
            key = _text_of(items[int(key) - 1], text)
        elif any(i.name and i.name.lower() == key.lower() != _text_of(i, text) for i in items):
            raise Unadoptable(f"it is not clear which column {key!r} of its query is")
        _refuse_other_rows(tuple(tokenize(key)))
        keys.append(key)
    for item in items:
        calls = zip(item.tokens, item.tokens[1:], strict=False)
        if any(t.text.lower() in _GENERATORS and n.token_type is _OPEN for t, n in calls):
            raise Unadoptable(_NO_FILTER)
    return keys


def _outside(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens in no parentheses."""
    index = 0
    while index < len(tokens):
        if tokens[index].token_type is _OPEN:
            index = closing(tokens, index) + 1
            continue
        yield tokens[index]
        index += 1


def _refuse_other_rows(tokens: tuple[Token, ...]) -> None:
    """Refuse what makes other rows of those that are read, or looks at several of them."""
    for token, following in zip(tokens, (*tokens[1:], None), strict=True):
        is_call = following is not None and following.token_type is TokenType.L_PAREN
        word = token.text.lower()
        # A function that is not known may be an aggregate.
        is_unknown = token.token_type is TokenType.VAR and word not in SCALARS
        if token.token_type in (TokenType.SELECT, TokenType.OVER, TokenType.FILTER) or (
            is_call and (word in AGGREGATES or word in _GENERATORS or is_unknown)
        ):
            raise Unadoptable(_NO_FILTER)


def _is_star(item: Item, alias: str) -> bool:
    words = [t.text.lower() for t in item.tokens]
    if item.is_star and words not in (["*"], [alias, ".", "*"]):
        raise Unadoptable("its query lists columns by a star that dqsql does not know")
    return item.is_star


def _text_of(item: Item, text: str) -> str:
    """The expression of a projection, without its alias."""
    tokens = item.tokens
    if item.name and len(tokens) > 1 and tokens[-2].token_type is not TokenType.DOT:
        tokens = tokens[: -2 if tokens[-2].token_type is TokenType.ALIAS else -1]
    return text[tokens[0].start : tokens[-1].end + 1]


def _source(text: str, known: Mapping[str, _SelectedRows]) -> tuple[_SelectedRows, str, str | None]:
    """What a FROM clause reads, how it is called, and the text of the condition behind it."""
    tokens = list(tokenize(text))
    if len(tokens) < 2 or tokens[0].token_type is not TokenType.FROM:
        raise Unadoptable(_NO_FILTER)
    name, end = tokens[1].text.lower(), 2
    if tokens[1].token_type is TokenType.L_PAREN:
        end = closing(tokens, 1) + 1
        source = _read(text[tokens[1].end + 1 : tokens[end - 1].start], known)
        name = ""
    elif name in known:
        source = known[name]
    elif name == MODEL:
        source = _SelectedRows()
    else:
        raise Unadoptable(f"its query reads {tokens[1].text}")
    rest = tokens[end:]
    if rest and rest[0].token_type is TokenType.ALIAS:
        rest = rest[1:]
    if rest and rest[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        name, rest = rest[0].text.lower(), rest[1:]
    end = _order(rest, len(text))
    if not rest or rest[0].start == end:
        return source, name, None
    if rest[0].token_type is not TokenType.WHERE:
        raise Unadoptable(_NO_FILTER)
    return source, name, text[rest[0].end + 1 : end].strip()


def _order(tokens: list[Token], end: int) -> int:
    """Where the ORDER BY of a query begins; `end` where there is none, or where it limits rows."""
    if any(t.token_type in _LIMITS for t in tokens):
        return end
    orders = (t.start for t in _outside(tokens) if t.token_type is TokenType.ORDER_BY)
    return next(orders, end)


def _resolved(text: str, source: _SelectedRows, alias: str) -> str:
    """An expression over the columns of a source as one over those of the relation.

    It is one expression: a clause behind a condition is refused.
    """
    try:
        tree = parse_expression(text)
    except DqsqlError as error:
        raise Unadoptable(f"{_NO_FILTER}: {error.message}") from error
    if tree.find(exp.Query, exp.Window, exp.Lambda) is not None:
        raise Unadoptable(_NO_FILTER)
    _refuse_random(text)
    changed = False
    for column in list(tree.find_all(exp.Column)):
        parts = [p for p in column.parts if isinstance(p, exp.Identifier)]
        own = parts[1:] if len(parts) > 1 and parts[0].name.lower() == alias else parts
        made = source.column(own[0].name.lower())
        if made is not None and len(own) > 1:
            raise Unadoptable(f"its query reads a field of {own[0].name!r}, which it computes")
        if made is None and len(own) == len(parts):
            continue
        changed = True
        new = exp.column(*reversed(own)) if made is None else exp.Paren(this=parse_expression(made))
        if column is tree:
            tree = new
        else:
            column.replace(new)
    return to_sql(tree) if changed else text


def plainly_named(text: str, names: Collection[str]) -> str:
    """SQL over one relation whose columns have none of these `names` before them.

    Raises Unadoptable: it gives something else each time.
    """
    _refuse_random(text)
    tokens = tokenize(text)
    if not any(
        a.text.lower() in names and b.token_type is TokenType.DOT for a, b in pairwise(tokens)
    ):
        return text

    def plain(node: exp.Expr) -> exp.Expr:
        parts = node.parts if isinstance(node, exp.Column) else []
        named = [p for p in parts if isinstance(p, exp.Identifier)]
        is_qualified = len(named) > 1 and named[0].name.lower() in names
        return exp.column(*reversed(named[1:])) if is_qualified else node

    return to_sql(parse_expression(text).transform(plain))


def _refuse_random(text: str) -> None:
    for called, bracket in pairwise(tokenize(text)):
        name = called.text.lower()
        if bracket.token_type is _OPEN and name in (*RANDOM, "monotonically_increasing_id"):
            raise Unadoptable(f"{name}() gives something else each time")

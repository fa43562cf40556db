"""Reads the text of dbt models, as far as annotations need it.

What runs is a query of the relation that dbt built; of the text, only comments and the names of
columns are read. A model whose Jinja needs nothing but `config`, `ref`, `source`, `var`, `env_var`,
`target`, `this` and `is_incremental` is rendered. In any other one each `{{ .. }}` is replaced by a
stand-in word of the same length and each `{% .. %}` by spaces, which leaves columns and comments
where they are; a column whose name contains a stand-in cannot be annotated there.

dbt models often end with `select * from renamed`: the columns stand in a CTE. A column is followed
through stars and plain references (also renamed ones) from the CTE to the final SELECT. Set
operations, `* except (..)` and CTEs with column lists end the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot.tokenizer_core import Token, TokenType

from dqsql.dialect import tokenize
from dqsql.errors import JinjaError
from dqsql.loading.binding import Binder, Binding, BindingProblem
from dqsql.loading.layout import Branch, Item, Layout, LayoutProblem, read_layout
from dqsql.loading.rendering import RenderedComment, Rendering, render_model
from dqsql.loading.scanner import Segment, blank, scan
from dqsql.templating import MacroLibrary

_YAML_HINT = "put it under the column's config.meta.dqsql in a YAML file"
_OPEN, _CLOSE = TokenType.L_PAREN, TokenType.R_PAREN
_BEFORE_RELATION = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
_ENDS_FROM = (
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY),
    *(TokenType.WINDOW, TokenType.QUALIFY),
)
_NO_ALIAS = """
    on using join left right inner outer full cross semi anti natural where group having order limit
    lateral union except intersect qualify window tablesample pivot unpivot sort cluster distribute
    offset
"""
_KEYWORDS = frozenset(_NO_ALIAS.split())


class _Uncertain(Exception):
    """The way of a column cannot be told; the message says why."""


@dataclass(frozen=True)
class Cte:
    """`name as (..)`: the text between its parentheses is `sql[start:end]`."""

    name: str
    start: int
    end: int
    has_columns: bool


@dataclass(frozen=True)
class _Query:
    """A SELECT, and the relations that it reads by alias."""

    layout: Layout
    relations: dict[str, str]

    @property
    def branch(self) -> Branch:
        if len(self.layout.branches) != 1:
            raise _Uncertain("there is a set operation in between")
        return self.layout.branches[0]


class DbtBinder(Binder):
    """Binds comments of a dbt model's text, also those inside its CTEs."""

    def __init__(self, sql: str, layout: Layout) -> None:
        super().__init__(sql, layout)
        self._text = blank(sql, scan(sql, jinja=False).hidden)
        self._sql = sql
        self._ctes = {c.name.lower(): c for c in ctes(self._text)}

    def bind(self, comment: Segment) -> Binding:
        """The binding of a comment, or a BindingProblem."""
        cte = next((c for c in self._ctes.values() if c.start <= comment.start < c.end), None)
        if cte is None:
            return _known(super().bind(comment))
        shifted = replace(comment, start=comment.start - cte.start, end=comment.end - cte.start)
        text = self._sql[cte.start : cte.end]
        inner = Binder(text, read_layout(text)).bind(shifted)
        if inner.unbound is not None:
            raise BindingProblem(*inner.unbound)
        if inner.column is None:
            raise BindingProblem(
                f"the annotation in the CTE {cte.name} is not about one of its columns",
                "write a check of the model after the FROM clause of the final SELECT",
            )
        return _known(Binding(self._way_out(cte, inner.column)))

    def _way_out(self, cte: Cte, column: str) -> str:
        where = f"the column {column} of the CTE {cte.name}"
        try:
            final = _query(self._layout, self._text)
            columns = sorted(self._carried(final, cte, column, set()))
        except _Uncertain as problem:
            raise BindingProblem(
                f"it is not clear where {where} ends up in the model: {problem}",
                f"annotate the final SELECT, or {_YAML_HINT}",
            ) from problem
        if not columns:
            raise BindingProblem(
                f"{where} is not a column of the model", "annotate the final SELECT"
            )
        if len(columns) > 1:
            raise BindingProblem(
                f"{where} is several columns of the model: {', '.join(columns)}",
                "annotate the final SELECT",
            )
        return columns[0]

    def _carried(self, query: _Query, cte: Cte, column: str, seen: set[str]) -> set[str]:
        """The output columns of a query that carry a column of a CTE unchanged."""
        inside = {
            alias: self._of_relation(relation, cte, column, seen)
            for alias, relation in query.relations.items()
        }
        if not any(inside.values()):
            return set()
        names: set[str] = set()
        for item in query.branch.items:
            names |= _through(item, inside)
        return names

    def _of_relation(self, relation: str, cte: Cte, column: str, seen: set[str]) -> set[str]:
        relation_cte = self._ctes.get(relation)
        if relation_cte is None or relation in seen:
            return set()
        if relation_cte.has_columns:
            raise _Uncertain(f"the CTE {relation_cte.name} names its columns in a list")
        if relation_cte is cte:
            return {column}
        text = self._text[relation_cte.start : relation_cte.end]
        try:
            layout = read_layout(text)
        except LayoutProblem as problem:
            raise _Uncertain(problem.message) from problem
        return self._carried(_query(layout, text), cte, column, {*seen, relation})


def _query(layout: Layout, text: str) -> _Query:
    return _Query(layout, _relations(text[layout.branches[0].list_end :]))


def _known(binding: Binding) -> Binding:
    if any(_STAND_IN in name for name in (binding.column or "", *binding.candidates)):
        raise BindingProblem(
            "the name of the annotated column comes from Jinja that only dbt can render", _YAML_HINT
        )
    return binding


def _through(item: Item, inside: dict[str, set[str]]) -> set[str]:
    """The names under which a projection carries columns on; `inside` by alias of relation."""
    words = item.tokens
    if item.is_star:
        if words[-1].token_type is not TokenType.STAR:
            raise _Uncertain("a star leaves columns out")
        if len(words) == 1:
            return set().union(*inside.values())
        return set(inside.get(words[-3].text.lower(), set()))
    path = _path(words)
    if path is None or item.name is None:
        return set()
    *qualifier, name = path
    sources = [inside.get(qualifier[-1].lower(), set())] if qualifier else list(inside.values())
    carried = {c.lower() for columns in sources for c in columns}
    return {item.name} if name.lower() in carried else set()


def _path(tokens: Sequence[Token]) -> list[str] | None:
    """The parts of a plain reference, `a`, `t.a` or `t.a as b`; None for anything else."""
    end = next((i for i, t in enumerate(tokens) if t.token_type is TokenType.ALIAS), len(tokens))
    parts = tokens[:end]
    if len(parts) % 2 == 0:
        # `t.a b`: the alias without AS.
        parts = parts[:-1]
    dots = all(t.token_type is TokenType.DOT for t in parts[1::2])
    plain = all(_is_name(t) for t in parts[0::2])
    return [t.text for t in parts[0::2]] if parts and dots and plain else None


def _is_name(token: Token) -> bool:
    literal = (TokenType.STRING, TokenType.NUMBER, TokenType.STAR)
    return token.token_type not in literal and token.text.replace("_", "a").isalnum()


def ctes(text: str) -> Iterator[Cte]:
    """The CTEs of the outermost WITH."""
    tokens = list(tokenize(text))
    if not tokens or tokens[0].token_type is not TokenType.WITH:
        return
    index = 1
    while index < len(tokens):
        name, listed = tokens[index].text, False
        index += 1
        if index < len(tokens) and tokens[index].token_type is _OPEN:
            listed, index = True, closing(tokens, index) + 1
        if index + 1 >= len(tokens) or tokens[index].token_type is not TokenType.ALIAS:
            return
        index += 1
        if tokens[index].token_type is not _OPEN:
            return
        close = closing(tokens, index)
        yield Cte(name, tokens[index].end + 1, tokens[close].start, listed)
        index = close + 1
        if index >= len(tokens) or tokens[index].token_type is not TokenType.COMMA:
            return
        index += 1


def closing(tokens: Sequence[Token], index: int) -> int:
    """The index of the parenthesis that closes the one at `index`, else the last one."""
    depth = 0
    for i in range(index, len(tokens)):
        depth += (tokens[i].token_type is _OPEN) - (tokens[i].token_type is _CLOSE)
        if depth == 0:
            return i
    return len(tokens) - 1


def _relations(text: str) -> dict[str, str]:
    """The relations of a FROM clause by alias, all in lower case; subqueries are left out."""
    tokens = list(tokenize(text))
    relations: dict[str, str] = {}
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type is _OPEN:
            index = closing(tokens, index) + 1
            continue
        if token.token_type in _ENDS_FROM:
            break
        index += 1
        if token.token_type in _BEFORE_RELATION and index < len(tokens):
            index = _relation(tokens, index, relations)
    return relations


def _relation(tokens: Sequence[Token], index: int, relations: dict[str, str]) -> int:
    """Read `a.b.c [as] alias` at `index`; the index behind it."""
    parts: list[str] = []
    while index < len(tokens) and _is_name(tokens[index]):
        parts.append(tokens[index].text)
        index += 1
        if index >= len(tokens) or tokens[index].token_type is not TokenType.DOT:
            break
        index += 1
    if not parts:
        return index
    alias = parts[-1]
    if index < len(tokens) and tokens[index].token_type is TokenType.ALIAS:
        index += 1
    following = tokens[index].text if index < len(tokens) and _is_name(tokens[index]) else ""
    if following and following.lower() not in _KEYWORDS:
        alias = following
        index += 1
    # A CTE has a name of one part; anything else is a relation outside of the query.
    relations[alias.lower()] = parts[0].lower() if len(parts) == 1 else ".".join(parts).lower()
    return index


# --- rendering -----------------------------------------------------------------------------------

# A letter that no name of a column has.
_STAND_IN = "\ua66e"
_CONFIG = re.compile(r"\{\{-?\s*config\s*\(")
_QUERY = re.compile(r"\b(select|with|from)\b", re.IGNORECASE)


def render_dbt_model(
    raw: str, path: str, library: MacroLibrary, relation_of: Callable[..., str]
) -> Rendering:
    """Render a dbt model, or mask its Jinja. Raises JinjaError for Jinja inside an annotation.

    `relation_of('ref' or 'source', *names)` is the relation that a call renders to.
    """
    context = {
        "config": lambda *_, **__: "",
        "ref": lambda *names, **_: relation_of("ref", *names),
        "source": lambda *names: relation_of("source", *names),
        "this": "this",
        "is_incremental": lambda: False,
        "execute": False,
    }
    render = partial(library.render, path=path, context=context)
    try:
        return render_model(raw, render)
    except JinjaError:
        return _masked(raw, render)


def _masked(raw: str, render: Callable[[str], str]) -> Rendering:
    """The text with stand-ins for Jinja; comments are rendered, since they hold annotations."""
    scanned = scan(raw)
    start = _QUERY.search(blank(blank(raw, scanned.jinja), scanned.comments))
    first = start.start() if start else len(raw)
    parts: list[str] = []
    position = 0
    comments = {c.start: c for c in scanned.comments}
    for segment in sorted([*scanned.jinja, *scanned.comments], key=lambda s: s.start):
        if segment.start < position:
            # Jinja inside a comment, which was rendered whole.
            continue
        parts.append(raw[position : segment.start])
        text = raw[segment.start : segment.end]
        if segment.start in comments:
            parts.append(render(text) if "{" + "{" in text or "{%" in text else text)
        else:
            parts.append(_stand_in(text, hidden=segment.start < first))
        position = segment.end
    sql = "".join([*parts, raw[position:]])
    rendered = scan(sql, jinja=False).comments
    pairs = zip(rendered, scanned.comments, strict=False)
    same = len(rendered) == len(scanned.comments)
    return Rendering(
        raw,
        sql,
        tuple(RenderedComment(r, c if same else None) for r, c in pairs),
        tuple(range(1, sql.count("\n") + 2)),
    )


def _stand_in(block: str, *, hidden: bool) -> str:
    """Something of the same length and lines: a word for an expression, else blanks."""
    blank = re.sub(r"[^\n]", " ", block)
    if hidden or not block.startswith("{{") or _CONFIG.match(block):
        return blank
    width = len(block.split("\n", 1)[0])
    return _STAND_IN * width + blank[width:]

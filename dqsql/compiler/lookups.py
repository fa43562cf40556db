"""How the keys of another relation are looked up from a model's rows.

`is_orphan(..)` of a compiled check is a `Lookup`. A query with lookups reads its rows from a query
below that says of each row whether the keys have a match: `exists(..)`, which Spark runs as a join
that multiplies no row. Keys that are said to be unique are looked up as they are; of others the
distinct ones are taken first, of which there may be few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.keys import not_null, relation_table
from dqsql.compiler.trees import called, calls_of
from dqsql.dialect import aliased, column, identifier, parse_expression, to_sql
from dqsql.model.plan import StateColumn

ORPHAN = "is_orphan"
_AMONG_UNIQUE = "is_orphan_among_unique"
_WORDS = frozenset({ORPHAN, _AMONG_UNIQUE})
_ALIAS = "dqsql_reference"
_ROWS = "dqsql_rows"


@dataclass(frozen=True)
class Lookup:
    """The keys that some columns of a row are looked up among; all are SQL texts.

    `unique` says that few keys of the relation, or none, occur twice.
    """

    relation: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    unique: bool = False

    def call(self) -> exp.Expr:
        """The condition on a row that it has no match, as it stands in compiled states."""
        pairs = zip(self.columns, self.keys, strict=True)
        args = [e for c, k in pairs for e in (parse_expression(c), exp.Literal.string(k))]
        word = _AMONG_UNIQUE if self.unique else ORPHAN
        return exp.Anonymous(this=word, expressions=[exp.Literal.string(self.relation), *args])


def lookups_in(node: exp.Expr) -> Iterator[Lookup]:
    """The lookups of a compiled expression, in order."""
    return (_lookup(call) for call in calls_of(node, _WORDS))


def _lookup(call: exp.Anonymous) -> Lookup:
    relation, *pairs = call.expressions
    return Lookup(
        relation.this,
        tuple(to_sql(c) for c in pairs[0::2]),
        tuple(str(k.this) for k in pairs[1::2]),
        called(call) == _AMONG_UNIQUE,
    )


def lookups_of(state: StateColumn) -> tuple[Lookup, ...]:
    """The lookups that a state needs."""
    return tuple(dict.fromkeys(k for part in state.over_rows for k in lookups_in(part)))


def with_lookups(state: StateColumn, changed: Mapping[Lookup, Lookup]) -> StateColumn:
    """A state with some of its lookups replaced by others."""
    if not changed or not any(k in changed for k in lookups_of(state)):
        return state

    def rewritten(part: exp.Expr) -> exp.Expr:
        root = exp.Paren(this=part.copy())
        for call in list(calls_of(root, _WORDS)):
            if _lookup(call) in changed:
                call.replace(changed[_lookup(call)].call())
        built: exp.Expr = root.this
        built.pop()
        return built

    if state.source is not None:
        return replace(state, source=state.source.rewritten(rewritten))
    return replace(state, scan=rewritten(state.scan))


def with_matches(query: exp.Select) -> exp.Select:
    """Give a query over the model's rows the matches that its lookups need, a column for each.

    Lookups of the same columns among the same keys share one.
    """
    lookups = list(dict.fromkeys(lookups_in(query)))
    if not lookups:
        return query
    query = query.copy()
    # Unqualified names of the model must stay unambiguous: each name has the alias in it.
    aliases = {lookup: f"{_ALIAS}{i}" for i, lookup in enumerate(lookups)}
    for call in list(calls_of(query, _WORDS)):
        call.replace(_no_match(_lookup(call), aliases[_lookup(call)]))
    matches = (
        aliased(exp.Exists(this=_matching(lookup, alias)), alias)
        for lookup, alias in aliases.items()
    )
    rows = exp.select(exp.Star(), *matches)
    rows.set("from_", query.args["from_"])
    return query.from_(rows.subquery(_ROWS), copy=False)


def _no_match(lookup: Lookup, alias: str) -> exp.Expr:
    values = [not_null(parse_expression(c)) for c in lookup.columns]
    return exp.Paren(this=exp.and_(*values, exp.Not(this=column(alias))))


def _matching(lookup: Lookup, alias: str) -> exp.Select:
    names = [f"{alias}_key{i}" for i, _ in enumerate(lookup.keys)]
    same = (
        exp.EQ(this=column(name), expression=exp.Paren(this=parse_expression(c)))
        for name, c in zip(names, lookup.columns, strict=True)
    )
    keys = _keys(lookup, names).subquery(identifier(alias))
    return exp.select("1").from_(keys).where(*same)


def _keys(lookup: Lookup, names: list[str]) -> exp.Select:
    """The keys of the relation, without rows in which one of them is null."""
    keys = [parse_expression(k) for k in lookup.keys]
    named = (aliased(k, name) for k, name in zip(keys, names, strict=True))
    query = exp.select(*named).from_(relation_table(lookup.relation))
    query = query.where(*(not_null(k.copy()) for k in keys))
    return query if lookup.unique else query.distinct()

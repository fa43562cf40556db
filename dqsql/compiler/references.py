"""Other relations that checks compare a model with: foreign keys and numbers of rows.

Two words of dqsql's own stand for them in the SQL of macros:

- `is_orphan(column, relation, key)`: whether the row's value has no match among the relation's
  keys; a row in which a column is null is no orphan. The columns and keys may be tuples.
- `relation_rows(relation)`: an aggregate, the number of rows of the relation; of the same batch,
  where both the model and the relation have batches.

A relation is a check model, a source, or any table that Spark knows. `RelationNames` replaces the
names by what Spark reads when a check is compiled; `join_lookups` gives a scan's FROM one join for
each set of keys that its aggregates look up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.keys import check_batch_by, not_null, view_name
from dqsql.dialect import column, identifier, parse_expression, parse_prefix, to_sql
from dqsql.errors import CompileError, Span, nearest
from dqsql.model.plan import Relation, StateColumn
from dqsql.model.project import CheckModel, Source

ORPHAN = "is_orphan"
RELATION_ROWS = "relation_rows"
_ALIAS = "dqsql_reference"


@dataclass(frozen=True)
class Lookup:
    """The keys that some columns of a row are looked up among; all are SQL texts."""

    relation: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]

    def call(self) -> exp.Expr:
        """The condition on a row that it has no match, as it stands in compiled states."""
        pairs = zip(self.columns, self.keys, strict=True)
        args = [e for c, k in pairs for e in (parse_expression(c), exp.Literal.string(k))]
        return exp.Anonymous(this=ORPHAN, expressions=[exp.Literal.string(self.relation), *args])


# --- names in checks ---------------------------------------------------------------------------


@dataclass
class RelationNames:
    """Finds the relations that the checks of `model` name, and remembers those in `used`."""

    model: CheckModel
    models: Mapping[str, CheckModel]
    sources: Sequence[Source]
    used: dict[str, Relation] = field(default_factory=dict)

    def resolve(self, ast: exp.Expr, span: Span) -> None:
        """Replace, in place, names of relations and keys by SQL text in literals.

        Raises CompileError.
        """
        for call in list(ast.find_all(exp.Anonymous)):
            name = str(call.this).lower()
            if name == ORPHAN:
                self._resolve_orphan(call, span)
            elif name == RELATION_ROWS:
                if len(call.expressions) != 1:
                    raise CompileError(f"{RELATION_ROWS} takes one relation", span=span)
                found = self._relation(call.expressions[0], span)
                call.set("expressions", [exp.Literal.string(found.sql)])

    def _resolve_orphan(self, call: exp.Expr, span: Span) -> None:
        if len(call.expressions) != 3:
            raise CompileError(
                "a reference needs a column, a relation and a key",
                span=span,
                hint="for example, beside a column: @references(airports, faa)",
            )
        columns, keys = _parts(call.expressions[0]), _parts(call.expressions[2])
        if len(columns) != len(keys):
            raise CompileError(
                f"{len(columns)} columns cannot refer to {len(keys)} keys", span=span
            )
        found = self._relation(call.expressions[1], span)
        pairs = [e for c, k in zip(columns, keys, strict=True) for e in (c, _key_text(k))]
        call.set("expressions", [exp.Literal.string(found.sql), *pairs])

    def _relation(self, node: exp.Expr, span: Span) -> Relation:
        found = self._find(_unwrapped(node), span)
        return self.used.setdefault(found.sql, found)

    def _find(self, node: exp.Expr, span: Span) -> Relation:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("ref", "source"):
            names = [_name(a) for a in node.expressions]
            if str(node.this).lower() == "ref" and names:
                return self._model(names[-1], span)
            if len(names) == 2:
                return self._source(names[0], names[1], span)
        if isinstance(node, exp.Literal) and node.is_string:
            node = parse_prefix(node.this, span)
        if not isinstance(node, exp.Column):
            raise CompileError(
                f"expected a check model, a source or a table, found {to_sql(node)}",
                span=span,
                hint="for example: airports, nyc.airports or source('nyc', 'airports')",
            )
        names = [part.name for part in node.parts]
        if len(names) == 1 and names[0] in self.models:
            return self._model(names[0], span)
        declared = [s for s in self.sources if s.table == names[-1]]
        if len(names) == 2:
            declared = [s for s in declared if s.name == names[0]]
        if len(names) > 2 or not declared:
            return Relation(".".join(names), ".".join(to_sql(identifier(n)) for n in names))
        if len(declared) > 1:
            shown = " or ".join(f"{s.name}.{s.table}" for s in declared)
            raise CompileError(
                f"several sources have a table {names[0]!r}", span=span, hint=f"write {shown}"
            )
        return _of_source(declared[0])

    def _model(self, name: str, span: Span) -> Relation:
        model = self.models.get(name)
        if model is None:
            raise CompileError(
                f"there is no check model {name!r}", span=span, hint=nearest(name, self.models)
            )
        batch = None if self.model.config.batch_by is None else check_batch_by(model)
        return Relation(name, to_sql(identifier(view_name(model))), model.unique_id, batch)

    def _source(self, name: str, table: str, span: Span) -> Relation:
        for source in self.sources:
            if (source.name, source.table) == (name, table):
                return _of_source(source)
        known = [f"{s.name}.{s.table}" for s in self.sources]
        raise CompileError(
            f"there is no source {name}.{table}",
            span=span,
            hint=nearest(f"{name}.{table}", known) or "declare it under `sources:` in a YAML file",
        )

    def counts(self, metric: exp.Expr) -> str | None:
        """What is wrong with the rows that a metric over one lookup counts, in words."""
        found = list(dict.fromkeys(lookups_in(metric)))
        if len(found) != 1:
            return None
        lookup = found[0]
        columns = [_plain(c) for c in lookup.columns]
        what = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
        relation = self.used[lookup.relation].name
        keys = [_plain(k) for k in lookup.keys]
        among = f"{relation}.{keys[0]}" if len(keys) == 1 else f"{relation} ({', '.join(keys)})"
        return f"have a {what} that is not in {among}"


def _of_source(source: Source) -> Relation:
    return Relation(source.table, source.relation, source.unique_id)


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _parts(node: exp.Expr) -> list[exp.Expr]:
    node = _unwrapped(node)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _key_text(key: exp.Expr) -> exp.Expr:
    """A key as SQL text in a literal: a name, or an expression over the relation's columns."""
    if isinstance(key, exp.Literal) and key.is_string:
        return exp.Literal.string(to_sql(identifier(key.this)))
    key = key.copy()
    for name in key.find_all(exp.Identifier):
        name.set("quoted", True)
    return exp.Literal.string(to_sql(key))


def _name(node: exp.Expr) -> str:
    return str(node.this) if isinstance(node, exp.Literal) else node.name


def _plain(text: str) -> str:
    """An expression for people: simple names without quotes."""
    bare = text.strip("`")
    return bare if bare.isidentifier() else text


# --- lookups in states -------------------------------------------------------------------------


def lookups_in(node: exp.Expr) -> Iterator[Lookup]:
    """The lookups of a compiled expression, in order."""
    for call in node.find_all(exp.Anonymous, bfs=False):
        if str(call.this).lower() == ORPHAN:
            yield _lookup(call)


def _lookup(call: exp.Expr) -> Lookup:
    relation, *pairs = call.expressions
    return Lookup(
        relation.this,
        tuple(to_sql(c) for c in pairs[0::2]),
        tuple(str(k.this) for k in pairs[1::2]),
    )


def state_parts(state: StateColumn) -> list[exp.Expr]:
    """The expressions over the model's rows that a state is made of."""
    table, learned = state.frequency, state.classification
    if learned is not None:
        parts = (learned.target, *learned.features, learned.where)
        return [part for part in parts if part is not None]
    if table is None:
        return [state.scan]
    return [*table.columns, *([table.where] if table.where is not None else [])]


def lookups_of(state: StateColumn) -> tuple[Lookup, ...]:
    """The lookups that a state needs."""
    return tuple(dict.fromkeys(k for part in state_parts(state) for k in lookups_in(part)))


def with_lookups(state: StateColumn, changed: Mapping[Lookup, Lookup]) -> StateColumn:
    """A state with some of its lookups replaced by others."""
    if not changed or not any(k in changed for k in lookups_of(state)):
        return state

    def rewritten(part: exp.Expr) -> exp.Expr:
        root = exp.Paren(this=part.copy())
        for call in list(root.find_all(exp.Anonymous)):
            if str(call.this).lower() == ORPHAN and _lookup(call) in changed:
                call.replace(changed[_lookup(call)].call())
        built: exp.Expr = root.this
        built.pop()
        return built

    table, learned = state.frequency, state.classification
    if learned is not None:
        features = tuple(rewritten(f) for f in learned.features)
        where = rewritten(learned.where) if learned.where is not None else None
        target = rewritten(learned.target)
        learned = replace(learned, target=target, features=features, where=where)
        return replace(state, classification=learned)
    if table is None:
        return replace(state, scan=rewritten(state.scan))
    where = rewritten(table.where) if table.where is not None else None
    columns = tuple(rewritten(c) for c in table.columns)
    return replace(state, frequency=replace(table, columns=columns, where=where))


def join_lookups(query: exp.Select) -> exp.Select:
    """Give a query over the model's rows the joins that its lookups need.

    Each join is with the distinct keys of a relation, so that no row is ever multiplied. Lookups of
    the same columns among the same keys share one.
    """
    found = list(dict.fromkeys(lookups_in(query)))
    if not found:
        return query
    query = query.copy()
    aliases = {lookup: f"{_ALIAS}{i}" for i, lookup in enumerate(found)}
    for call in list(query.find_all(exp.Anonymous)):
        if str(call.this).lower() == ORPHAN:
            call.replace(_no_match(_lookup(call), aliases[_lookup(call)]))
    for lookup, alias in aliases.items():
        query = query.join(
            _distinct_keys(lookup, alias).subquery(identifier(alias)),
            on=exp.and_(
                *(
                    exp.EQ(this=exp.Paren(this=parse_expression(c)), expression=_key(alias, i))
                    for i, c in enumerate(lookup.columns)
                )
            ),
            join_type="left",
        )
    return query


def _key(alias: str, index: int) -> exp.Column:
    # The alias is part of the name: unqualified names of the model must stay unambiguous.
    return column(f"{alias}_key{index}", alias)


def _no_match(lookup: Lookup, alias: str) -> exp.Expr:
    values = [not_null(parse_expression(c)) for c in lookup.columns]
    missing = exp.Is(this=_key(alias, 0), expression=exp.Null())
    return exp.Paren(this=exp.and_(*values, missing))


def _distinct_keys(lookup: Lookup, alias: str) -> exp.Select:
    keys = [parse_expression(k) for k in lookup.keys]
    query = exp.select(
        *(exp.alias_(key, f"{alias}_key{i}", quoted=True) for i, key in enumerate(keys))
    )
    query = query.from_(relation_table(lookup.relation))
    return query.where(*(not_null(k.copy()) for k in keys)).distinct()


def relation_table(sql: str) -> exp.Table:
    """A relation of the compiler's SQL text as a table of a FROM clause."""
    return exp.to_table(sql, dialect="spark")

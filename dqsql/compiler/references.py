"""Other relations that checks compare a model with: foreign keys and numbers of rows.

Two words of dqsql's own stand for them in the SQL of macros:

- `is_orphan(column, relation, key)`: whether the row's value has no match among the relation's
  keys; a row in which a column is null is no orphan. The columns and keys may be tuples.
- `relation_rows(relation)`: an aggregate, the number of rows of the relation; of the same batch,
  where both the model and the relation have batches.

A relation is a check model, a source, or any table that Spark knows. `RelationNames` replaces the
names by what Spark reads when a check is compiled; how keys are looked up is told in `lookups`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from dqsql.compiler.aggregates.registry import find_own
from dqsql.compiler.keys import check_batch_by, model_view
from dqsql.compiler.lookups import ORPHAN, lookups_in
from dqsql.compiler.misuse import locate
from dqsql.compiler.privacy import private_of_relation
from dqsql.compiler.trees import called, parts_of
from dqsql.dialect import parse_prefix, quoted, to_sql, unquoted
from dqsql.errors import CompileError, Span, nearest
from dqsql.model.plan import Relation
from dqsql.model.project import DBT_TEST_NAME, Annotation, CheckModel, Source

# Under this key of their `meta`, calls keep how they were written before names were replaced.
AS_WRITTEN = "as_written"
# A hint names at most so many relations.
_LISTED = 8
# Names only: what is read wrongly here costs time, and nothing else.
_UNIQUE = re.compile(r"(?:unique|primary_key)(?:\(([^()]*)\))?", re.IGNORECASE)


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
            name = called(call)
            own = find_own(call)
            names_relation = own is not None and own.names_relation
            if name == ORPHAN or names_relation:
                call.meta.setdefault(AS_WRITTEN, call.copy())
            if name == ORPHAN:
                self._resolve_orphan(call, span)
            elif names_relation:
                if not call.expressions:
                    raise CompileError(f"{name} takes a relation", span=span)
                relation = self._relation(call.expressions[0], span)
                self._refuse_private(relation, call.expressions[1:], span)
                names = [exp.Literal.string(relation.sql), *call.expressions[1:]]
                call.set("expressions", names)

    def _refuse_private(self, relation: Relation, texts: Sequence[exp.Expr], span: Span) -> None:
        """Metrics of another model's private columns would be stored with this one."""
        private = private_of_relation(self.models.values(), relation.unique_id)
        used = [c.name for t in texts for c in parse_prefix(t.name, span).find_all(exp.Column)]
        for name in used:
            if name.lower() in private:
                raise CompileError(
                    f"{name} is a private column of {relation.name}",
                    span=span,
                    hint="check it in the model that marks it as private",
                )

    def _resolve_orphan(self, call: exp.Expr, span: Span) -> None:
        if len(call.expressions) != 3:
            raise CompileError(
                "a reference needs a column, a relation and a key",
                span=span,
                hint="for example, beside a column: @references(airports, faa)",
            )
        columns, keys = parts_of(call.expressions[0]), parts_of(call.expressions[2])
        if len(columns) != len(keys):
            raise CompileError(
                f"{len(columns)} columns cannot refer to {len(keys)} keys", span=span
            )
        relation = self._relation(call.expressions[1], span)
        pairs = [e for c, k in zip(columns, keys, strict=True) for e in (c, _key_text(k))]
        call.set("expressions", [exp.Literal.string(relation.sql), *pairs])

    def named(self, text: str, span: Span) -> Relation:
        """The relation that an annotation names. Raises CompileError."""
        return self._relation(parse_prefix(text, span), span)

    def _relation(self, node: exp.Expr, span: Span) -> Relation:
        relation = self._find(node.unnest(), span)
        return self.used.setdefault(relation.sql, relation)

    def _find(self, node: exp.Expr, span: Span) -> Relation:
        if called(node) in ("ref", "source"):
            names = [a.name for a in node.expressions]
            if called(node) == "ref" and names:
                return self._model(names[-1], span)
            if len(names) == 2:
                return self._source(names[0], names[1], span)
        if node.is_string:
            # A name with spaces or hyphens is an expression to a parser.
            if node.this in self.models:
                return self._model(node.this, span)
            named = [s for s in self.sources if node.this in (s.full_name, s.table)]
            if len(named) == 1:
                return self._of_source(named[0])
            node = parse_prefix(node.this, span)
        if not isinstance(node, exp.Column):
            raise CompileError(
                f"expected a check model, a source or a table, found {to_sql(node)}",
                span=span,
                hint="for example: airports, nyc.airports, `my-table` or source('nyc', 'airports')",
            )
        names = [part.name for part in node.parts]
        if len(names) == 1 and names[0] in self.models:
            return self._model(names[0], span)
        declared = [s for s in self.sources if s.table == names[-1]]
        if len(names) == 2:
            declared = [s for s in declared if s.name == names[0]]
        if len(names) > 2 or not declared:
            return Relation(".".join(names), quoted(*names))
        if len(declared) > 1:
            shown = " or ".join(s.full_name for s in declared)
            raise CompileError(
                f"several sources have a table {names[0]!r}", span=span, hint=f"write {shown}"
            )
        return self._of_source(declared[0])

    def _model(self, name: str, span: Span) -> Relation:
        model = self.models.get(name)
        if model is None:
            raise CompileError(
                f"there is no check model {name!r}",
                span=locate(span, name),
                hint=self._instead_of(name),
            )
        batch = None if self.model.config.batch_by is None else check_batch_by(model)
        view = model_view(model)
        keys = self._unique_keys(model.relation) or unique_keys(model)
        return Relation(name, view, model.unique_id, batch, keys)

    def _instead_of(self, name: str) -> str:
        """What there is that may be meant by `ref('name')`."""
        near = nearest(name, self.models)
        if near:
            return near
        calls = {s.table.lower(): f"source('{s.name}', '{s.table}')" for s in self.sources}
        if name.lower() in calls:
            return f"it is a source: write {calls[name.lower()]}"
        close = get_close_matches(name.lower(), calls, n=1)
        if close:
            return f"did you mean {calls[close[0]]}?"
        known = [*sorted(self.models), *(s.full_name for s in self.sources)]
        listed = ", ".join(known[:_LISTED]) + (", .." if len(known) > _LISTED else "")
        return f"check models and sources are {listed}; write a table of Spark without ref"

    def _source(self, name: str, table: str, span: Span) -> Relation:
        for source in self.sources:
            if (source.name, source.table) == (name, table):
                return self._of_source(source)
        known = [s.full_name for s in self.sources]
        raise CompileError(
            f"there is no source {name}.{table}",
            span=locate(span, table),
            hint=nearest(f"{name}.{table}", known)
            or nearest(table, self.models, label="did you mean the check model")
            or "declare it under `sources:` in a YAML file",
        )

    def _of_source(self, source: Source) -> Relation:
        keys = self._unique_keys(source.relation)
        return Relation(source.table, source.relation, source.unique_id, unique_keys=keys)

    def _unique_keys(self, relation: str | None) -> tuple[frozenset[str], ...]:
        """What checks of one of dbt's relations want to be unique; it may have two check models."""
        mine = [m for m in self.models.values() if relation is not None and m.relation == relation]
        return tuple(key for model in mine for key in unique_keys(model))

    def counts(self, metric: exp.Expr) -> str | None:
        """What the rows have that a metric over one lookup counts, in words."""
        lookups = list(dict.fromkeys(lookups_in(metric)))
        if len(lookups) != 1:
            return None
        lookup = lookups[0]
        columns = [_plain(c) for c in lookup.columns]
        what = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
        relation = self.used[lookup.relation].name
        keys = [_plain(k) for k in lookup.keys]
        among = f"{relation}.{keys[0]}" if len(keys) == 1 else f"{relation} ({', '.join(keys)})"
        return f"no match for {what} in {among}"


def unique_keys(model: CheckModel) -> tuple[frozenset[str], ...]:
    """The sets of columns that checks of a model want to be unique in all its rows."""
    whole = (a for a in model.annotations if a.settings.enabled and a.settings.where is None)
    keys = (_unique_key(a) for a in whole if model.config.batch_by is None)
    return tuple(dict.fromkeys(key for key in keys if key))


def _unique_key(annotation: Annotation) -> frozenset[str]:
    """The columns of `@unique`, `@unique(a, b)` or dbt's `unique`; none for other checks."""
    column = annotation.column
    if annotation.settings.options.get(DBT_TEST_NAME) == "unique":
        return frozenset() if column is None else frozenset({column.lower()})
    match = _UNIQUE.fullmatch(annotation.expression.strip())
    if match is None:
        return frozenset()
    names = [n.strip(" `").lower() for n in (match.group(1) or "").split(",")]
    return frozenset(n for n in (*names, (column or "").lower()) if n)


def _key_text(key: exp.Expr) -> exp.Expr:
    """A key as SQL text in a literal: a name, or an expression over the relation's columns."""
    if key.is_string:
        # With or without backticks, as names are written elsewhere.
        return exp.Literal.string(quoted(unquoted(key.this)))
    key = key.copy()
    for name in key.find_all(exp.Identifier):
        name.set("quoted", True)
    return exp.Literal.string(to_sql(key))


def _plain(text: str) -> str:
    """An expression for people: simple names and fields without quotes."""
    names = [part.strip("`") for part in text.split("`.`")]
    return ".".join(names) if all(name.isidentifier() for name in names) else text

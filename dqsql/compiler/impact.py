"""What a finding means for others: the models and exposures of dbt that read what it is about.

The SELECTs of dbt's models are only read, with sqlglot's own Databricks dialect: which columns of
other relations the columns and rows of each come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from dqsql.model.project import CheckModel, Reader
from dqsql.model.results import RESOLVED
from dqsql.model.wording import first_of, plural

_DIALECT = "databricks"
STAR = "*"
Relation = tuple[str, ...]
_Leaf = tuple[Relation, str]
_Leaves = frozenset[_Leaf]
_NONE: _Leaves = frozenset()


@dataclass(frozen=True)
class Flow:
    """Where the columns and rows of a SELECT come from.

    `columns` has for each output column the columns that its value is computed of; under STAR are
    relations all of whose columns pass. `rows` are those that decide which rows there are, and how
    they are grouped and joined. `relations` are all that are read.
    """

    columns: Mapping[str, _Leaves]
    rows: _Leaves
    relations: frozenset[Relation]


def relation_key(text: str) -> Relation | None:
    """The parts of a relation's name, in lower case; None where the text is no name."""
    try:
        table = exp.to_table(text, dialect=_DIALECT)
    except SqlglotError:
        return None
    return _key(table)


def flow_of(sql: str, known: Mapping[Relation, Sequence[str]]) -> Flow | None:
    """Where the columns of a SELECT come from; None where that cannot be told.

    `known` are the columns of relations, as far as they are known.
    """
    try:
        tree = parse_one(sql, dialect=_DIALECT)
        relations = _renamed(tree)
        schema: dict[str, object] = {
            name: dict.fromkeys(known[key], "unknown")
            for name, key in relations.items()
            if key in known
        }
        qualified = qualify(
            tree,
            dialect=_DIALECT,
            schema=schema,
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
        root = build_scope(qualified)
        if root is None:
            return None
        reader = _Flows(relations)
        columns, rows = reader.of(root)
    except (SqlglotError, RecursionError):
        return None
    return Flow(columns, rows, frozenset(relations.values()))


def _key(table: exp.Table) -> Relation:
    return tuple(part.name.lower() for part in table.parts)


def _renamed(tree: exp.Expr) -> dict[str, Relation]:
    """Give each relation a name of one part, since schemas of several depths cannot be told."""
    names: dict[Relation, str] = {}
    for table in list(tree.find_all(exp.Table)):
        # A name of one part is a CTE, or cannot be what dbt built.
        if not table.db or not isinstance(table.this, exp.Identifier):
            continue
        key = _key(table)
        name = names.setdefault(key, f"relation_{len(names)}")
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        table.set("this", exp.to_identifier(name))
        table.set("db", None)
        table.set("catalog", None)
    return {name: key for key, name in names.items()}


@dataclass
class _Flows:
    """Follows columns through the scopes of a query. `relations` are its tables by name."""

    relations: Mapping[str, Relation]
    _known: dict[int, tuple[dict[str, _Leaves], _Leaves]] = field(default_factory=dict)

    def of(self, scope: Scope) -> tuple[dict[str, _Leaves], _Leaves]:
        """The output columns of a scope, and what decides on its rows."""
        flow = self._known.get(id(scope))
        if flow is None:
            flow = self._union(scope) if scope.set_operation_scopes else self._select(scope)
            self._known[id(scope)] = flow
        return flow

    def _union(self, scope: Scope) -> tuple[dict[str, _Leaves], _Leaves]:
        """Columns of set operations go together by their places."""
        sides = [self.of(s) for s in scope.set_operation_scopes]
        first = dict(sides[0][0])
        rows = sides[0][1]
        for columns, more in sides[1:]:
            rows |= more
            if STAR in columns or STAR in first or len(columns) != len(first):
                everything = frozenset().union(*first.values(), *columns.values())
                first = dict.fromkeys((*first, *columns), everything)
                continue
            for name, leaves in zip(first, columns.values(), strict=True):
                first[name] |= leaves
        return first, rows

    def _select(self, scope: Scope) -> tuple[dict[str, _Leaves], _Leaves]:
        projections = getattr(scope.expression, "selects", [])
        columns: dict[str, _Leaves] = {}
        inside: set[int] = set()
        for projection in projections:
            mine = list(projection.find_all(exp.Column))
            inside.update(map(id, mine))
            if projection.is_star:
                everything = map(self._columns, scope.sources.values())
                columns[STAR] = columns.get(STAR, _NONE).union(*everything)
                continue
            leaves = [self._leaves(scope, c) for c in mine]
            columns[projection.alias_or_name.lower()] = _NONE.union(*leaves)
        rows = [self._leaves(scope, c) for c in scope.columns if id(c) not in inside]
        rows += [self.of(s)[1] for s in scope.sources.values() if isinstance(s, Scope)]
        for inner in scope.subquery_scopes:
            values, deciding = self.of(inner)
            rows += [deciding, *values.values()]
        return columns, _NONE.union(*rows)

    def _leaves(self, scope: Scope, column: exp.Column) -> _Leaves:
        """What a column in a scope is computed of; of one without a relation, any of them."""
        name = column.name.lower()
        source = scope.sources.get(column.table)
        sources = [source] if source is not None else list(scope.sources.values())
        return _NONE.union(*(self._of_source(s, name) for s in sources))

    def _of_source(self, source: object, name: str) -> _Leaves:
        if isinstance(source, Scope):
            columns, _ = self.of(source)
            passing = columns.get(STAR, _NONE)
            through = frozenset((key, name) for key, one in passing if one == STAR)
            named = frozenset(leaf for leaf in passing if leaf[1] == name)
            return columns.get(name, through | named)
        if isinstance(source, exp.Table):
            key = self.relations.get(source.name)
            return _NONE if key is None else frozenset({(key, name)})
        return _NONE

    def _columns(self, source: object) -> Iterator[_Leaf]:
        """All columns of something that a scope reads."""
        if isinstance(source, Scope):
            for leaves in self.of(source)[0].values():
                yield from leaves
        elif isinstance(source, exp.Table) and source.name in self.relations:
            yield (self.relations[source.name], STAR)


# In the order in which they are named.
_KINDS = ("model", "snapshot", "seed", "exposure")
_NAMED = 5
Row = dict[str, Any]


@dataclass(frozen=True)
class Impact:
    """Who reads a model or one of its columns, directly or through others, nearest first."""

    about: str
    readers: tuple[Reader, ...]

    @property
    def words(self) -> str | None:
        """`3 models and 1 exposure read this column: orders, ..`; None where nobody does."""
        if not self.readers:
            return None
        counts = Counter(r.kind for r in self.readers)
        parts = [plural(counts[k], k) for k in _KINDS if counts[k]]
        who = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
        named = first_of([r.name for r in self.readers], _NAMED)
        return f"{who} {'reads' if len(self.readers) == 1 else 'read'} this {self.about}: {named}"


@dataclass
class Impacts:
    """Tells who reads what. `readers` are all of a project, upstream first."""

    readers: Sequence[Reader]

    def of(self, model: CheckModel, column: str | None, columns: Collection[str]) -> Impact:
        """Who reads a check model's relation, or one of its `columns`."""
        about = "model" if column is None else "column"
        start = model.dbt.get("unique_id")
        root = next((r for r in self.readers if r.unique_id == start), None)
        key = None if root is None or root.relation is None else relation_key(root.relation)
        if root is None or key is None:
            return Impact(about, ())
        hit = frozenset({STAR if column is None else column.lower()})
        spread = _Spread({root.unique_id}, {key: hit}, {key: sorted(columns)})
        affected_readers = [r for r in self.readers if r is not root and spread.reaches(r)]
        # An ephemeral model is no relation; those that read it are.
        shown_readers = [
            r for r in affected_readers if r.kind == "exposure" or r.relation is not None
        ]
        return Impact(about, tuple(sorted(shown_readers, key=lambda r: r.kind == "exposure")))


@dataclass
class _Spread:
    """How far a finding reaches: `nodes`, and of their relations the columns that it is about."""

    nodes: set[str]
    hit: dict[Relation, frozenset[str]]
    columns: dict[Relation, Sequence[str]]

    def reaches(self, reader: Reader) -> bool:
        """Whether it reaches a reader, all of whose parents have been looked at."""
        if not self.nodes.intersection(reader.parents):
            return False
        flow = None if reader.sql is None else flow_of(reader.sql, self.columns)
        key = None if reader.relation is None else relation_key(reader.relation)
        if flow is not None and key is not None and STAR not in flow.columns:
            self.columns[key] = list(flow.columns)
        hit_columns = frozenset({STAR}) if flow is None else self._through(flow)
        if not hit_columns:
            return False
        self.nodes.add(reader.unique_id)
        if key is not None:
            self.hit[key] = hit_columns
        return True

    def _through(self, flow: Flow) -> frozenset[str]:
        """The columns of a SELECT that it reaches; STAR where it may change which rows it has."""
        whole = any(STAR in self.hit.get(r, ()) for r in flow.relations)
        if whole or self._meets(flow.rows):
            return frozenset({STAR})
        hit_columns = {name for name, leaves in flow.columns.items() if self._meets(leaves)}
        if STAR in hit_columns:
            hit_columns |= {name for r, _ in flow.columns[STAR] for name in self.hit.get(r, ())}
            hit_columns.discard(STAR)
        return frozenset(hit_columns)

    def _meets(self, leaves: _Leaves) -> bool:
        return any(
            name in self.hit.get(key, ()) or (name == STAR and key in self.hit)
            for key, name in leaves
        )


def with_impact(
    rows: Sequence[Row], model: CheckModel, readers: Sequence[Reader], columns: Mapping[str, str]
) -> list[Row]:
    """The findings of a model with who reads what they are about; resolved ones as they are."""
    impacts, known = Impacts(readers), dict[str | None, Impact]()
    findings = []
    for row in rows:
        if row["state"] != RESOLVED:
            column = row["column_name"]
            if column not in known:
                known[column] = impacts.of(model, column, columns)
            impact = known[column]
            names = [r.name for r in impact.readers]
            findings.append({**row, "impact": impact.words, "readers": names})
        else:
            findings.append(row)
    return findings

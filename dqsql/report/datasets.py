"""The datasets that a check model reads: the tables and files below its SELECT.

In a catalog of lineage a check is about a table, not about the query that looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dqsql.dialect import parse_statement
from dqsql.model.plan import Relation
from dqsql.model.project import CheckModel, Project, Source, view_name

_FILES = "file"


@dataclass(frozen=True)
class Dataset:
    """A table, or a file; `namespace` is None for that of the warehouse.

    Files are named as OpenLineage does: https://openlineage.io/docs/spec/naming.
    """

    name: str
    namespace: str | None = None

    @classmethod
    def from_source(cls, source: Source) -> Dataset:
        """The dataset behind a source."""
        if source.path is None:
            return cls(_plain(source.relation))
        scheme, found, rest = source.path.partition("://")
        if not found:
            return cls(source.path.removeprefix("file:"), _FILES)
        bucket, _, key = rest.partition("/")
        return cls(key or "/", f"{scheme}://{bucket}")


@dataclass
class Datasets:
    """Finds the datasets of the check models of one project."""

    project: Project
    _found: dict[str, tuple[Dataset, ...]] = field(default_factory=dict)

    def of(self, model: CheckModel) -> tuple[Dataset, ...]:
        """What a model reads; the table behind its outermost FROM, which is checked, comes first.

        Empty where the SELECT cannot be read, or reads no table.
        """
        if model.name not in self._found:
            # A model that leads to itself is refused before it runs.
            self._found[model.name] = ()
            self._found[model.name] = tuple(dict.fromkeys(self._read(model)))
        return self._found[model.name]

    def of_relation(self, relation: Relation) -> tuple[Dataset, ...]:
        """What lies behind a relation that checks compare a model with."""
        for source in self.project.sources:
            if source.unique_id == relation.unique_id:
                return (Dataset.from_source(source),)
        for model in self.project.models:
            if model.unique_id == relation.unique_id:
                return self.of(model)
        return (Dataset(relation.name),)

    def _read(self, model: CheckModel) -> Iterator[Dataset]:
        if model.relation is not None:
            yield Dataset(_plain(model.relation))
            return
        query = parse_statement(model.sql)
        if query is None:
            return
        main, ctes = _main(query), _ctes(query)
        tables = [t for t in query.find_all(exp.Table) if t is not main and _name(t) not in ctes]
        for table in ([main] if main is not None else []) + tables:
            yield from self._behind(".".join(part.name for part in table.parts))

    def _behind(self, name: str) -> Iterator[Dataset]:
        if name in self._views:
            yield from self.of(self._views[name])
        else:
            yield self._sources.get(name) or Dataset(name)

    @property
    def _views(self) -> Mapping[str, CheckModel]:
        return {view_name(m): m for m in self.project.models}

    @property
    def _sources(self) -> Mapping[str, Dataset]:
        return {_plain(s.relation): Dataset.from_source(s) for s in self.project.sources}


def _name(table: exp.Table) -> str:
    return table.name.lower() if len(table.parts) == 1 else ""


def _plain(relation: str) -> str:
    return relation.replace("`", "")


def _ctes(query: exp.Expr) -> dict[str, exp.CTE]:
    return {cte.alias.lower(): cte for cte in query.find_all(exp.CTE)}


def _main(query: exp.Expr) -> exp.Table | None:
    """The table in the FROM of a query, through CTEs, subqueries and unions."""
    ctes, seen = _ctes(query), set[str]()
    node: exp.Expr | None = query
    while node is not None:
        if isinstance(node, exp.Table):
            name = node.name.lower()
            if len(node.parts) > 1 or name not in ctes or name in seen:
                return node
            seen.add(name)
            node = ctes[name].this
        elif isinstance(node, exp.Select):
            found = node.args.get("from") or node.args.get("from_")
            node = found.this if found is not None else None
        else:
            # A parenthesis, or one side of a set operation.
            node = node.this if isinstance(node.this, exp.Expr) else None
    return None

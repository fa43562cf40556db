"""What a SELECT makes its columns and its rows of, as texts that another spelling leaves alike."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from dqsql.compiler.trees import function_name
from dqsql.dialect import parse_statement
from dqsql.model.functions import GENERATORS
from dqsql.model.project import CheckModel

# A day or a month, as text or number, also with a time, or seconds since 1970.
_DAY = re.compile(
    r"(19|20)\d\d[-/.]?[01]\d([-/.]?[0-3]\d)?"
    r"([ T]\d\d:?\d\d(:?\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?|\b1\d{9}(\d{3})?\b"
)


@dataclass
class Definitions:
    """The expressions that stand in the SELECT of a model under each name, in lower case.

    Also those of subqueries and CTEs: what a name at the top is made of is found by names. None
    are known of a SELECT that sqlglot does not read. `bare` gives for each how it is
    computed: without days, which may be those of the run, and without relations; "" for a name.
    """

    by_name: dict[str, dict[str, set[str]]]
    bare: dict[str, str]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, sql: str) -> Definitions:
        """Those of a model's SELECT, which each run asks for twice; each text with its names."""
        query = parse_statement(sql)
        query = None if query is None else _written_alike(query)
        definitions: dict[str, dict[str, set[str]]] = {}
        bare: dict[str, str] = {}
        for select in query.find_all(exp.Select) if query is not None else ():
            relations = _relations(select)
            for made in select.expressions:
                name, projection = made.alias_or_name.lower(), made.unalias()
                # `amount as amount` is `amount`.
                handed_on = isinstance(projection, exp.Column) and projection.name.lower() == name
                projection = projection if handed_on else made
                # A name that is only handed on says nothing but which relation it is from.
                relation = relations.get(projection.table.lower()) if handed_on else None
                if name not in ("", "*") and (not handed_on or relation is not None):
                    names = {c.name.lower() for c in projection.find_all(exp.Column)}
                    text = projection.sql(dialect="spark", comments=False)
                    text = text if relation is None else f"{relation}.{name}"
                    bare[text] = "" if handed_on else _bare(projection)
                    definitions.setdefault(name, {})[text] = names
        return cls(definitions, bare)

    def behind(self, name: str) -> list[str]:
        """All expressions that a column is made of, in the order of their texts."""
        return sorted(self.reached({name})[1])

    def computed(self, name: str) -> list[str]:
        """How a column is computed: all expressions that it is made of, as in `bare`."""
        return sorted(self.bare[text] for text in self.behind(name) if self.bare[text])

    def reached(self, columns: Collection[str]) -> tuple[set[str], set[str]]:
        """The names that columns are made of, themselves included, and the expressions."""
        names: set[str] = set()
        texts: set[str] = set()
        todo = set(columns)
        while todo:
            names |= todo
            definitions = [self.by_name.get(at, {}) for at in todo]
            texts.update(text for each in definitions for text in each)
            todo = {n for each in definitions for read in each.values() for n in read} - names
        return names, texts


def _bare(projection: exp.Expr) -> str:
    projection = projection.copy()
    for column in projection.find_all(exp.Column):
        column.set("table", None)
    return _without_days(projection.sql(dialect="spark", comments=False))


def _relations(select: exp.Select) -> dict[str, str]:
    """What is joined, by the names that columns are qualified with; nothing without a join."""
    first, joins = select.args.get("from_"), select.args.get("joins")
    relations: dict[str, str] = {}
    for part in (first, *joins) if first and joins else ():
        bare = part.this.copy()
        bare.set("alias", None)
        relations[part.this.alias_or_name.lower()] = bare.sql(dialect="spark", comments=False)
    return relations


def _written_alike(query: exp.Expr) -> exp.Expr:
    """A copy with names in lower case, and not qualified where a SELECT reads one relation."""
    query = query.copy()
    for name in list(query.find_all(exp.Identifier)):
        name.set("this", name.name.lower())
        name.set("quoted", False)
    for select in query.find_all(exp.Select):
        first = select.args.get("from_")
        if first is None or select.args.get("joins"):
            continue
        for column in select.find_all(exp.Column):
            if column.table == first.this.alias_or_name:
                column.set("table", None)
    return query


def rows_of(sql: str) -> str:
    """What decides which rows a SELECT has, mostly all but its projections; "" if it is not read.

    Names of CTEs and aliases make no difference, and neither do days: they may be those of the run.
    """
    return _rows(sql)[0]


@lru_cache(maxsize=64)
def _rows(sql: str) -> tuple[str, frozenset[str]]:
    """What decides which rows a SELECT has, and the columns that are read for it."""
    query = parse_statement(sql)
    if query is None:
        return "", frozenset()
    query = _written_alike(query)
    ctes = {cte.alias: f"cte {i}" for i, cte in enumerate(query.find_all(exp.CTE))}
    for select in list(query.find_all(exp.Select)):
        if not _projects_rows(select):
            select.set("expressions", [exp.Star()])
    for node in list(query.walk()):
        if isinstance(node, exp.Column):
            node.set("table", None)
        elif isinstance(node, (exp.Table, exp.Subquery)):
            node.set("alias", None)
        if isinstance(node, exp.Table) and not node.db and node.name in ctes:
            node.set("this", exp.to_identifier(ctes[node.name]))
        elif isinstance(node, exp.CTE):
            node.args["alias"].set("this", exp.to_identifier(ctes[node.alias]))
    names = frozenset(c.name for c in query.find_all(exp.Column))
    return _without_days(query.sql(dialect="spark", comments=False)), names


def _projects_rows(select: exp.Select) -> bool:
    """Whether the projections of a SELECT decide which rows there are."""
    group, parent = select.args.get("group"), select.parent
    by_place = group is not None and (
        group.args.get("all") or any(isinstance(e, exp.Literal) for e in group.expressions)
    )
    return bool(
        select.args.get("distinct")
        or by_place
        or (isinstance(parent, exp.SetOperation) and parent.args.get("distinct"))
        or any(function_name(f) in GENERATORS for f in select.find_all(exp.Func))
        # What is compared with the values of a subquery.
        or select.find_ancestor(exp.Where, exp.Having, exp.Qualify)
    )


def _without_days(text: str) -> str:
    return _DAY.sub("", text)


def upstream_of(
    model: CheckModel, models: Iterable[CheckModel], columns: Collection[str]
) -> dict[str, list[str]]:
    """What decides which rows the models upstream of one have, and what columns are made of there.

    Args:
        model: the one that reads them.
        models: all models of the project.
        columns: names of columns of `model`, in lower case.

    Returns:
        Texts by the models' names.
    """
    by_id = {m.unique_id: m for m in models}
    names, known = {*columns, *_rows(model.sql)[1]}, 0
    names = Definitions.of(model.sql).reached(names)[0]
    texts_by_model: dict[str, list[str]] = {}
    while len(names) > known:  # as often as a model that was seen already is asked for more
        known, texts_by_model = len(names), {}
        todo = [by_id[uid] for uid in model.depends_on if uid in by_id]
        while todo:
            read = todo.pop(0)
            if read.name not in texts_by_model:
                rows, deciding = _rows(read.sql)
                more, texts = Definitions.of(read.sql).reached(names | deciding)
                texts_by_model[read.name] = [rows, *sorted(map(_without_days, texts))]
                names |= more
                todo += [by_id[uid] for uid in read.depends_on if uid in by_id]
    return texts_by_model

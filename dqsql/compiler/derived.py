"""Tells of columns that a SELECT derives from private ones and that are not marked themselves."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from dqsql.compiler.privacy import pii_columns
from dqsql.model.project import CheckModel

# Numbers of rows or of letters: not worth a word.
_HARMLESS = (exp.Count, exp.CountIf, exp.Length, exp.Predicate, exp.Not, exp.Order)
# Parts of expressions that decide which values are shown, and are not themselves.
_DECIDING: dict[type[exp.Expr], str] = {
    exp.If: "this",
    exp.Case: "this",
    exp.Window: "partition_by",
}


def derived_warnings(model: CheckModel) -> Iterator[str]:
    """A warning for each column of a model that is made of the same columns as a private one.

    By sqlglot's lineage of the rendered SELECT; what that cannot follow (a star, SQL of Spark that
    sqlglot does not know) is passed over without a word.
    """
    private = pii_columns(model)
    names = [p.name for p in model.projections if p.name is not None]
    if not private.intersection(name.lower() for name in names):
        return
    sources = {name: _sources(model.sql, name) for name in names}
    secret = {s: n for n in names if n.lower() in private for s in sources[n]}
    for name in names:
        made_of = [secret[s] for s in sorted(sources[name]) if s in secret]
        if made_of and name.lower() not in private:
            yield (
                f"{model.path}: the column {name} is derived from {made_of[0]}, which is private;"
                f" mark it, too: config(pii = [.., '{name}'])"
            )


def _sources(sql: str, name: str) -> frozenset[str]:
    """The columns of tables that an output column shows something of, as `table.column`."""
    try:
        root = lineage(name, sql, {}, dialect="spark")
    except (SqlglotError, RecursionError, ValueError):
        return frozenset()
    found = set()
    shown = [root]
    while shown:
        node = shown.pop()
        untold = _untold(node.expression)
        shown += [n for n in node.downstream if _column(n.name) not in untold]
        if not node.downstream:
            table = node.expression.name if isinstance(node.expression, exp.Table) else ""
            found.add(f"{table}.{_column(node.name)}".lower())
    return frozenset(found)


def _untold(expression: exp.Expr) -> set[str]:
    """The names of the columns in an expression whose values it does not show.

    They are only compared, counted or measured, or decide which of other values is shown.
    """
    columns = list(expression.find_all(exp.Column))
    told = {c.name.lower() for c in columns if _is_told(c, expression)}
    return {c.name.lower() for c in columns} - told


def _is_told(column: exp.Column, within: exp.Expr) -> bool:
    node: exp.Expr = column
    while node is not within and node.parent is not None:
        part = _DECIDING.get(type(node.parent))
        if node.arg_key == part or isinstance(node.parent, _HARMLESS):
            return False
        node = node.parent
    return True


def _column(name: str) -> str:
    """The name of the column of a node of lineage: `t.email`, `"t"."e-mail"`."""
    return exp.to_column(name, dialect="duckdb").name.lower()

"""Refuses what people write in annotations that SQL, or a macro, would take for something else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.bounds import number
from dqsql.compiler.catalog import Catalog, Macro
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span

_ORDERINGS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
# The metric that people mean who compare a check with a number.
_SHARES = {
    "not_null": "completeness",
    "unique": "uniqueness",
    "primary_key": "uniqueness",
    "references": "orphan_ratio(relation, key)",
}


def refuse_share_of_check(ast: exp.Expr, catalog: Catalog, span: Span) -> None:
    """Refuse `@not_null > 0.9`: a check is no number. Raises CompileError."""
    name, _ = name_and_args(ast.this) if isinstance(ast, _ORDERINGS) else (None, [])
    if name is not None and catalog.check(name):
        metric = _SHARES.get(name.lower(), "compliance(condition)")
        raise CompileError(
            f"@{name} is a check: it holds or does not, and is no number",
            span=locate(span, name),
            hint=f"the share of rows is @{metric}",
        )


def refuse_empty_ranges(expanded: exp.Expr, span: Span) -> None:
    """Refuse `between 5 and 1`, also within a macro: no value is. Raises CompileError."""
    for between in expanded.find_all(exp.Between):
        low, high = between.args["low"], between.args["high"]
        first, last = number(low), number(high)
        if first is not None and last is not None and first > last:
            written = f"{to_sql(low)} and {to_sql(high)}"
            raise CompileError(
                f"no value is between {written}",
                span=locate(span, "between"),
                hint=f"the smaller one stands first: {to_sql(high)} and {to_sql(low)}",
            )


def require_column(
    macro: Macro,
    args: Sequence[exp.Expr],
    named: Mapping[str, exp.Expr],
    known: Sequence[str],
    span: Span,
) -> None:
    """Refuse a number or text where the macro wants a column: `@accepted_values(1, 2)` alone.

    And `f(low = 1)`, which is a comparison in SQL, where `low` is a parameter and no column.
    `known` are the columns of the model, none where they are not known. Raises CompileError.
    """
    parameters, columns = macro.definition.parameters, {c.lower() for c in known}
    for arg in args:
        left = arg.this if isinstance(arg, exp.EQ) else None
        if not columns or left is None or not is_bare_name(left):
            continue
        if left.name in parameters and left.name.lower() not in columns:
            raise CompileError(
                f"@{macro.name}: {to_sql(arg)} is a comparison",
                span=locate(span, left.name),
                hint=f"name the parameter so: {left.name} => {to_sql(arg.expression)}",
            )
    if parameters[:1] != ("column",) or "column" in named:
        return
    first = args[0] if args else None
    value = first.this if isinstance(first, exp.Neg) else first
    missing = first is None and macro.definition.required > 0
    if missing or isinstance(value, exp.Literal):
        none = "" if first is None else f", and {to_sql(first)} is none"
        rest = ", .." if first is not None or macro.definition.required > 1 else ""
        raise CompileError(
            f"@{macro.name} needs a column{none}",
            span=locate(span, macro.name),
            hint=f"write it next to a column, or name one: @{macro.name}(the_column{rest})",
        )


def name_and_args(ast: exp.Expr) -> tuple[str | None, list[exp.Expr]]:
    """The name and arguments of a call, or of a bare name; None of anything else."""
    if isinstance(ast, exp.Anonymous):
        return str(ast.this), list(ast.expressions)
    return (ast.name, []) if is_bare_name(ast) else (None, [])


def is_bare_name(node: exp.Expr) -> bool:
    """Whether the node is a name without quotes and dots."""
    return (
        isinstance(node, exp.Column)
        and not node.table
        and isinstance(node.this, exp.Identifier)
        and not node.this.quoted
    )


def locate(span: Span, word: str) -> Span:
    """The place of `word` within the annotation at `span`, where it can be told."""
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", span.text, re.IGNORECASE)
    if found is None or "\n" in span.text[: found.start()]:
        return span
    return replace(span, column=span.column + found.start(), text=word)

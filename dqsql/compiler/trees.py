"""Walking expressions: children, and the aggregates that stand outermost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from dqsql.model.functions import AGGREGATES

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def map_children(node: exp.Expr, function: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of the node with `function` applied to each child expression."""

    def mapped(value: object) -> object:
        if isinstance(value, list):
            return [mapped(v) for v in value]
        if not isinstance(value, exp.Expr):
            return value
        result = function(value)
        return value.copy() if result is value else result

    # Rebuilt from its mapped children: `node.copy()` would copy them all only to drop them.
    copy = type(node)(**{key: mapped(value) for key, value in node.args.items()})
    copy.meta.update(node.meta)
    return copy


def map_aggregates(node: exp.Expr, function: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace every outermost aggregate (with its FILTER and WITHIN GROUP) by `function` of it."""
    if is_aggregate_node(node):
        return function(node)
    return map_children(node, lambda child: map_aggregates(child, function))


def outermost_aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates of an expression, from left to right."""
    if is_aggregate_node(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from outermost_aggregates(child)


def is_aggregate_node(node: exp.Expr) -> bool:
    """Whether the node is an aggregate call, possibly with FILTER or WITHIN GROUP around it."""
    return function_name(node) in AGGREGATES


def function_name(node: exp.Expr) -> str:
    """The function that is called, below FILTER and WITHIN GROUP, in lower case; '' if none is."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate call stands in the expression."""
    return any(str(c.this).lower() in AGGREGATES for c in node.find_all(exp.Anonymous))


def filtered_by(aggregate: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate restricted further by a condition."""
    where = condition.copy()
    if isinstance(aggregate, exp.Filter):
        where = exp.and_(aggregate.expression.this.copy(), where)
        aggregate = aggregate.this
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=where))

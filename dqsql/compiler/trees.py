"""Walking expressions, and what is computed of a row only where the row meets a condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from sqlglot import exp

from dqsql.model.functions import AGGREGATES

Node = TypeVar("Node", bound=exp.Expr)
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def nodes(tree: exp.Expr, kind: type[Node]) -> Iterator[Node]:
    """The nodes of a kind in a tree, depth first, from left to right.

    As sqlglot's `find_all`, in a third of the time; of all states of all models that is noticed.
    """
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, kind):
            yield node
        for value in reversed(node.args.values()):
            if isinstance(value, exp.Expr):
                left.append(value)
            elif isinstance(value, list):
                left += [v for v in reversed(value) if isinstance(v, exp.Expr)]


def elements(node: exp.Expr) -> list[exp.Expr] | None:
    """The parts of `(a, b)`, `[a, b]` or `array(a, b)`, as the second is written; else None."""
    node = node.unnest()
    is_list = isinstance(node, exp.Tuple | exp.Array) or called(node) == "array"
    return list(node.expressions) if is_list else None


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a list or tuple, or what else is in parentheses or in none."""
    parts = elements(node)
    return [node.unnest()] if parts is None else parts


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


def renamed(tree: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """A copy of a tree with columns under other names; those that `names` lacks keep theirs."""
    tree = tree.copy()
    for reference in nodes(tree, exp.Column):
        if reference.name in names:
            reference.set("this", exp.to_identifier(names[reference.name], quoted=True))
    return tree


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
    return called(aggregate_call(node))


def called(node: exp.Expr) -> str:
    """The function that a node itself calls, in lower case; '' if it calls none."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def calls_of(tree: exp.Expr, names: Collection[str]) -> Iterator[exp.Anonymous]:
    """The calls of some functions in a tree; `names` are in lower case."""
    return (call for call in nodes(tree, exp.Anonymous) if called(call) in names)


def aggregate_call(node: exp.Expr) -> exp.Expr:
    """What is below FILTER and WITHIN GROUP."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate call stands in the expression."""
    return any(calls_of(node, AGGREGATES))


def only_argument(aggregate: exp.Expr) -> exp.Expr | None:
    """The argument of an aggregate, a FILTER aside; None unless it has one."""
    inner = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
    return inner.expressions[0] if len(inner.expressions) == 1 else None


def counts_rows(aggregate: exp.Expr) -> bool:
    """Whether it is `count(*)`, perhaps of some rows."""
    is_count = function_name(aggregate) == "count"
    return is_count and isinstance(only_argument(aggregate), exp.Star)


def without_nullif(node: exp.Expr) -> exp.Expr:
    """What a node is without parentheses, or x of `nullif(x, y)`."""
    node = node.unnest()
    return node.expressions[0].unnest() if called(node) == "nullif" else node


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """What a condition joins by `and`, without parentheses around it."""
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        yield from conjuncts(bare.left)
        yield from conjuncts(bare.right)
    else:
        yield bare


def filtered_by(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """An aggregate restricted further by a condition; without one the aggregate."""
    if condition is None:
        return aggregate
    where = condition.copy()
    if isinstance(aggregate, exp.Filter):
        where = exp.and_(aggregate.expression.this.copy(), where)
        aggregate = aggregate.this
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=where))


def where_met(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The value where the condition is met, else null; without a condition the value."""
    if condition is None:
        return value
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def guarded(scan: exp.Expr) -> exp.Expr:
    """An expression over aggregates whose filtered ones compute nothing of the rows left out."""
    # A FILTER alone is no guard: Spark computes expressions that occur more than once (`count_if`
    # doubles its argument) ahead of it, for every row, and fails in ANSI mode on the very texts
    # that are left out. Branches of a CASE are computed when they are taken.
    if next(nodes(scan, exp.Filter), None) is None:
        return scan
    scan = scan.copy()
    for node in list(nodes(scan, exp.Filter)):
        _guard(node.this, node.expression.this)
    return scan


def _guard(aggregate: exp.Expr, condition: exp.Expr) -> None:
    if isinstance(aggregate, exp.Anonymous):
        arguments = [_argument(a, condition) for a in aggregate.expressions]
        aggregate.set("expressions", arguments)
        return
    # WITHIN GROUP (ORDER BY value), IGNORE NULLS.
    for ordered in aggregate.find_all(exp.Ordered):
        ordered.set("this", _argument(ordered.this, condition))
    _guard(aggregate.this, condition)


def _argument(argument: exp.Expr, condition: exp.Expr) -> exp.Expr:
    if isinstance(argument, exp.Distinct):
        argument.set("expressions", [_argument(a, condition) for a in argument.expressions])
        return argument
    # Sizes of sketches and the like must stay literals.
    return where_met(condition, argument.copy()) if argument.find(exp.Column) else argument

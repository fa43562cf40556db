"""The interval that a predicate demands of its metric, where it is that simple."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dqsql.model.plan import Bounds

_Interval = tuple[float | None, float | None]


def interval(predicate: exp.Expr) -> _Interval | None:
    """Lower and upper bound of a conjunction of comparisons of ONE metric with numbers.

    Returns None where the predicate says more than an interval (or compares several metrics). The
    bounds are for showing; the verdict is the predicate's.
    """
    metrics = {c.name for c in predicate.find_all(exp.Column)}
    if len(metrics) != 1:
        return None
    return _interval(predicate)


def bounds_of(predicate: exp.Expr, alias: str) -> Bounds | None:
    """`interval` as `Bounds` of the metric with that alias."""
    found = interval(predicate)
    return None if found is None else Bounds(alias, *found)


def _interval(node: exp.Expr) -> _Interval | None:
    if isinstance(node, exp.Paren):
        return _interval(node.this)
    if isinstance(node, exp.And):
        return _intersect(_interval(node.left), _interval(node.right))
    if isinstance(node, exp.Between) and isinstance(node.this, exp.Column):
        low, high = number(node.args["low"]), number(node.args["high"])
        return None if low is None or high is None else (low, high)
    rule = _COMPARISONS.get(type(node))
    if rule is None or not isinstance(node, exp.Binary):
        return None
    if isinstance(node.left, exp.Column):
        value = number(node.right)
        return None if value is None else rule(value)
    value = number(node.left)
    mirrored = _COMPARISONS[_MIRROR[type(node)]]
    return None if value is None else mirrored(value)


def _intersect(a: _Interval | None, b: _Interval | None) -> _Interval | None:
    if a is None or b is None:
        return None
    lows = [x for x in (a[0], b[0]) if x is not None]
    highs = [x for x in (a[1], b[1]) if x is not None]
    return (max(lows, default=None), min(highs, default=None))


def number(node: exp.Expr) -> float | None:
    """The value of a numeric literal, signed or in parentheses or a cast; None otherwise."""
    if isinstance(node, exp.Paren | exp.Cast):
        return number(node.this)
    if isinstance(node, exp.Neg):
        value = number(node.this)
        return None if value is None else -value
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this)
    return None


_COMPARISONS: dict[type[exp.Expr], Callable[[float], _Interval]] = {
    exp.GT: lambda v: (v, None),
    exp.GTE: lambda v: (v, None),
    exp.LT: lambda v: (None, v),
    exp.LTE: lambda v: (None, v),
    exp.EQ: lambda v: (v, v),
}
_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}

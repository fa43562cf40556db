"""Comparisons of one operand, `x >= 3`, `3 <= x`, `x between 1 and 2`, and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt

from sqlglot import exp

from dqsql.dialect import to_sql
from dqsql.model.plan import Bounds

OPERATORS: tuple[type[exp.Binary], ...] = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)
COMPARISONS = (*OPERATORS, exp.Between, exp.In)
SYMBOLS: Mapping[type[exp.Binary], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
_COMPARE: Mapping[type[exp.Expr], Callable[[float, float], bool]] = {
    exp.GT: gt,
    exp.GTE: ge,
    exp.LT: lt,
    exp.LTE: le,
    exp.EQ: eq,
}
# What holds exactly where a comparison does not.
OPPOSITE: Mapping[type[exp.Expr], type[exp.Binary]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
# The same comparison with its sides exchanged.
MIRROR: Mapping[type[exp.Expr], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


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


def measured_side(compared: exp.Expr) -> tuple[exp.Expr, type[exp.Binary] | None]:
    """What a comparison is about, and its operator as if that stood on the left."""
    kind = next((o for o in OPERATORS if type(compared) is o), None)
    if kind is not None and number(compared.this) is not None:
        return compared.expression, MIRROR[kind]
    return compared.this, kind


def demand_text(compared: exp.Expr) -> str:
    """What a comparison demands of what it is about.

    >>> from dqsql.dialect import parse_expression
    >>> demand_text(parse_expression("3 < mean(price)"))
    '> 3'
    """
    measured, operator = measured_side(compared)
    if operator is None:
        return to_sql(compared)[len(to_sql(measured)) :].strip()
    other = compared.this if measured is compared.expression else compared.expression
    return f"{SYMBOLS[operator]} {to_sql(other)}"


def reads_as_number(text: str) -> bool:
    """Whether a text is nothing but a number, as Python reads them."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def bounds_of(predicate: exp.Expr) -> Bounds | None:
    """Lower and upper bound of a conjunction of comparisons of ONE metric with numbers.

    Returns None where the predicate says more than an interval (or compares several metrics). The
    bounds are for showing; the verdict is the predicate's.
    """
    metrics = {c.name for c in predicate.find_all(exp.Column)}
    if len(metrics) != 1:
        return None
    compared = _comparisons(predicate)
    if compared is None:
        return None
    lows = [limit for kind, limit in compared if kind not in (exp.LT, exp.LTE)]
    highs = [limit for kind, limit in compared if kind not in (exp.GT, exp.GTE)]
    return Bounds(max(lows, default=None), min(highs, default=None))


def is_met(predicate: exp.Expr, value: float, rounded: Callable[[float], float]) -> bool | None:
    """Whether a number meets a predicate that has bounds (`bounds_of`).

    The number and the bounds are `rounded`. None where a cast may have changed a bound.

    >>> from dqsql.dialect import parse_expression
    >>> is_met(parse_expression("m0 > 1 and 2 >= m0"), 1.999, round)
    True
    """
    compared = None if predicate.find(exp.Cast) else _comparisons(predicate)
    if compared is None:
        return None
    return all(_COMPARE[kind](rounded(value), rounded(limit)) for kind, limit in compared)


def _comparisons(node: exp.Expr) -> list[tuple[type[exp.Expr], float]] | None:
    """The comparisons of a column with numbers that a node is all of; None where it is more."""
    if isinstance(node, exp.Paren):
        return _comparisons(node.this)
    if isinstance(node, exp.And):
        left, right = _comparisons(node.left), _comparisons(node.right)
        return None if left is None or right is None else [*left, *right]
    if isinstance(node, exp.Between) and isinstance(node.this, exp.Column):
        low, high = number(node.args["low"]), number(node.args["high"])
        return None if low is None or high is None else [(exp.GTE, low), (exp.LTE, high)]
    if type(node) not in _COMPARE:
        return None
    on_left = isinstance(node.this, exp.Column)
    value = number(node.expression if on_left else node.this)
    kind = type(node) if on_left else MIRROR[type(node)]
    return None if value is None else [(kind, value)]

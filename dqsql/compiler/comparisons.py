"""Comparisons of one operand, `x >= 3`, `3 <= x`, `x between 1 and 2`, and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import TypeAlias

from sqlglot import exp

from dqsql.dialect import to_sql
from dqsql.model.plan import Bounds

_Operator: TypeAlias = type[exp.Binary]
# Of each operator: its symbol, what computes it, what holds exactly where it does not, and the same
# comparison with its sides exchanged.
_OPERATORS: Mapping[_Operator, tuple[str, Callable[..., bool], _Operator, _Operator]] = {
    exp.GT: (">", gt, exp.LTE, exp.LT),
    exp.GTE: (">=", ge, exp.LT, exp.LTE),
    exp.LT: ("<", lt, exp.GTE, exp.GT),
    exp.LTE: ("<=", le, exp.GT, exp.GTE),
    exp.EQ: ("=", eq, exp.NEQ, exp.EQ),
    exp.NEQ: ("<>", ne, exp.EQ, exp.NEQ),
}
OPERATORS = tuple(_OPERATORS)
COMPARISONS = (*OPERATORS, exp.Between, exp.In)
SYMBOLS = {kind: symbol for kind, (symbol, _, _, _) in _OPERATORS.items()}
_COMPARE: Mapping[type[exp.Expr], Callable[..., bool]] = {
    kind: compare for kind, (_, compare, _, _) in _OPERATORS.items()
}
OPPOSITE: Mapping[type[exp.Expr], _Operator] = {
    kind: opposite for kind, (_, _, opposite, _) in _OPERATORS.items()
}
MIRROR: Mapping[type[exp.Expr], _Operator] = {
    kind: mirrored for kind, (_, _, _, mirrored) in _OPERATORS.items()
}
# Of a comparison: its operator and sides.
_Compared: TypeAlias = tuple[type[exp.Expr], exp.Expr, exp.Expr]


def number(node: exp.Expr) -> float | None:
    """The value of a numeric literal, signed or in parentheses or a cast; None otherwise."""
    value = _exact(node)
    return None if value is None else float(value)


def _exact(node: exp.Expr) -> Decimal | float | None:
    """As `number`, exact where it is so to Spark: `1e2` is a float."""
    if isinstance(node, exp.Paren | exp.Cast):
        return _exact(node.this)
    if isinstance(node, exp.Neg):
        value = _exact(node.this)
        return None if value is None else -value
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this) if "e" in node.this.lower() else Decimal(node.this)
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
    compared = _comparisons(predicate) or []
    limits = [(kind, n) for kind, _, limit in compared if (n := number(limit)) is not None]
    if not limits or len(limits) < len(compared) or any(kind is exp.NEQ for kind, _ in limits):
        return None
    lows = [limit for kind, limit in limits if kind not in (exp.LT, exp.LTE)]
    highs = [limit for kind, limit in limits if kind not in (exp.GT, exp.GTE)]
    return Bounds(max(lows, default=None), min(highs, default=None))


def is_met(
    predicate: exp.Expr, values: Mapping[str, float | Decimal], rounded: Callable[[float], float]
) -> bool | None:
    """Whether numbers meet a conjunction of comparisons of them with each other and with numbers.

    As Spark does, both sides are compared as floats where one is; these are `rounded`. None where
    the predicate says more, or a cast may have changed a number.

    >>> from dqsql.dialect import parse_expression
    >>> is_met(parse_expression("m0 > 1 and m1 >= m0"), {"m0": 1.999, "m1": 2.001}, round)
    True
    """

    def holds(kind: type[exp.Expr], *sides: exp.Expr) -> bool:
        constants = [_exact(side) for side in sides]
        both = [
            values[side.name] if constant is None else constant
            for side, constant in zip(sides, constants, strict=True)
        ]
        if any(isinstance(value, float) for value in both):
            both = [rounded(float(value)) for value in both]
        return _COMPARE[kind](*both)

    compared = None if predicate.find(exp.Cast) else _comparisons(predicate)
    if compared is None:
        return None
    return all(holds(*comparison) for comparison in compared)


def _comparisons(node: exp.Expr) -> list[_Compared] | None:
    """The comparisons of columns with columns or numbers that a node is all of.

    Returns None where it is more. A column is on the left.
    """
    if isinstance(node, exp.Paren):
        return _comparisons(node.this)
    if isinstance(node, exp.And):
        left, right = _comparisons(node.left), _comparisons(node.right)
        return None if left is None or right is None else [*left, *right]
    if isinstance(node, exp.Between) and isinstance(node.this, exp.Column):
        low, high = node.args["low"], node.args["high"]
        compared: list[_Compared] = [(exp.GTE, node.this, low), (exp.LTE, node.this, high)]
    elif type(node) not in _COMPARE:
        return None
    elif isinstance(node.this, exp.Column):
        compared = [(type(node), node.this, node.expression)]
    else:
        compared = [(MIRROR[type(node)], node.expression, node.this)]
    is_plain = all(
        isinstance(left, exp.Column)
        and (isinstance(right, exp.Column) or number(right) is not None)
        for _, left, right in compared
    )
    return compared if is_plain else None

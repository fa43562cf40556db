"""Whether a rule of a contract implies another one: its bound is stricter, its list shorter.

`implies` is sound, not complete: False says that it is not known.
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from dqsql.dialect import to_sql

# Sides of a comparison by what makes it stricter.
_LESS = (exp.LT, exp.LTE)
_MORE = (exp.GT, exp.GTE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_COUNTED = "count_if"
_ROWS = "nullif(count(*), 0)"
_HOLDERS = ("expect", "satisfies")
_LISTED = "accepted_values"


def implies(stricter: exp.Expr, rule: exp.Expr) -> bool:
    """Whether what meets `stricter` meets `rule`, too: `min(x) >= 5` and `min(x) >= 0`."""
    stricter, rule = stricter.unnest(), rule.unnest()
    if stricter == rule:
        return True
    if isinstance(stricter, _LESS + _MORE) and isinstance(rule, _LESS + _MORE):
        return _bound_implies(stricter, rule)
    if type(stricter) is not type(rule):
        return False
    if isinstance(stricter, exp.Not):
        return implies(rule.this, stricter.this)
    if isinstance(stricter, exp.And | exp.Or):
        left = implies(stricter.this, rule.this)
        return left and implies(stricter.expression, rule.expression)
    if isinstance(stricter, exp.In):
        return stricter.this == rule.this and _lists_fewer(stricter, rule)
    if isinstance(stricter, exp.Between):
        return all(
            implies(_side(stricter, side, kind), _side(rule, side, kind))
            for side, kind in (("low", exp.GTE), ("high", exp.LTE))
        )
    name = stricter.name.lower()
    if not isinstance(stricter, exp.Anonymous) or name != rule.name.lower():
        return False
    if name == _LISTED:
        return _lists_fewer(stricter, rule)
    # `expect(..)` and `satisfies(..)` are what they hold.
    if name not in _HOLDERS or len(stricter.expressions) != 1 or len(rule.expressions) != 1:
        return False
    return implies(stricter.expressions[0], rule.expressions[0])


def _lists_fewer(stricter: exp.Expr, rule: exp.Expr) -> bool:
    return bool(stricter.expressions) and set(stricter.expressions) <= set(rule.expressions)


def _bound_implies(stricter: exp.Expr, rule: exp.Expr) -> bool:
    upper = isinstance(stricter, _LESS)
    if isinstance(rule, _LESS) is not upper:
        return False
    bound, wide = _value(stricter.expression), _value(rule.expression)
    if bound is None or wide is None or bound[0] != wide[0]:
        return False
    if bound > wide if upper else bound < wide:
        return False
    strict = isinstance(stricter, exp.LT | exp.GT) or isinstance(rule, exp.LTE | exp.GTE)
    if bound == wide and not strict:
        return False
    small, large = (rule.this, stricter.this) if upper else (stricter.this, rule.this)
    return _at_most(small, large)


def _at_most(small: exp.Expr, large: exp.Expr) -> bool:
    """Whether one number is at most the other, whatever the rows: equal, or more rows counted."""
    small, large = small.unnest(), large.unnest()
    if small == large:
        return True
    if isinstance(small, exp.Mul | exp.Div) and type(small) is type(large):
        factor = small.expression
        positive = (isinstance(factor, exp.Literal) and not factor.is_string) or (
            to_sql(factor) == _ROWS
        )
        return positive and factor == large.expression and _at_most(small.this, large.this)
    if isinstance(small, exp.Anonymous) and isinstance(large, exp.Anonymous):
        both = {small.name.lower(), large.name.lower()} == {_COUNTED}
        return both and implies(small.expressions[0], large.expressions[0])
    return False


def _side(rule: exp.Expr, side: str, kind: type[exp.Binary]) -> exp.Expr:
    """One of the two comparisons that `x between low and high` is."""
    return kind(this=rule.this.copy(), expression=rule.args[side].copy())


def _value(node: exp.Expr) -> tuple[str, Decimal | str] | None:
    """A number, or a date or time as it is written: those of equal length are ordered as texts."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        text = node.this.this
        return (f"{node.to} {len(text)}", text) if _ISO.match(text) else None
    sign = -1 if isinstance(node, exp.Neg) else 1
    inner = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    return "number", sign * Decimal(inner.this)

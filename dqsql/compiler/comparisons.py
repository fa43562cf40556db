"""Comparisons of one operand with something: `x >= 3`, `3 <= x`, `x between 1 and 2`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dqsql.compiler.bounds import number
from dqsql.dialect import to_sql

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


def measured_side(compared: exp.Expr) -> tuple[exp.Expr, type[exp.Binary] | None]:
    """What a comparison is about, and its operator as if that stood on the left."""
    kind = next((o for o in OPERATORS if type(compared) is o), None)
    if kind is not None and number(compared.this) is not None:
        return compared.expression, MIRROR[kind]
    return compared.this, kind


def demand_text(compared: exp.Expr) -> str:
    """What a comparison demands of what it is about: `< 0.25`, `between 1 and 2`."""
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

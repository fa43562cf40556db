"""Arguments of calls in annotations, as texts for macros and for people."""

from __future__ import annotations

from sqlglot import exp

from dqsql.dialect import to_sql


def split_arguments(
    args: list[exp.Expr],
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    """Those by position, and those by name."""
    positional = [a for a in args if not isinstance(a, exp.Kwarg)]
    named = {a.this.name: a.expression for a in args if isinstance(a, exp.Kwarg)}
    return positional, named


_ATOMS = (
    exp.Column,
    exp.Literal,
    exp.Anonymous,
    exp.Star,
    exp.Distinct,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Tuple,
    exp.Neg,
    exp.Cast,
)


def argument_text(arg: exp.Expr) -> str:
    """An argument as SQL that stays one operand wherever a macro puts it."""
    text = to_sql(arg)
    return text if isinstance(arg, _ATOMS) else f"({text})"


def named_text(arg: exp.Expr) -> str | list[str]:
    """A named argument as SQL; a list, `[a, b]`, as a list."""
    if isinstance(arg, exp.Array):
        return [argument_text(a) for a in arg.expressions]
    return argument_text(arg)


def plain(arg: exp.Expr) -> str:
    """An argument for people: simple column names without quotes."""
    if isinstance(arg, exp.Column) and not arg.table and arg.name.isidentifier():
        return arg.name
    return to_sql(arg)

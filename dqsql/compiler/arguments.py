"""Arguments of calls in annotations, as texts for macros and for people."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dqsql.dialect import to_sql


def split_arguments(args: list[exp.Expr]) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
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


class ListArgument(list[str]):
    """`[a, b]` or `(a, b)` for a macro: a list of its parts, which prints as the user wrote it."""

    def __init__(self, parts: Iterable[str], text: str) -> None:
        super().__init__(parts)
        self._text = text

    def __str__(self) -> str:
        return self._text


def macro_argument(arg: exp.Expr) -> str | ListArgument:
    """An argument as SQL; a list or tuple as a list."""
    text = argument_text(arg)
    if isinstance(arg, exp.Array | exp.Tuple):
        return ListArgument(map(argument_text, arg.expressions), text)
    return text


def plain(arg: exp.Expr) -> str:
    """An argument for people: simple column names without quotes."""
    if isinstance(arg, exp.Column) and not arg.table and arg.name.isidentifier():
        return arg.name
    return to_sql(arg)

"""Arguments of calls in annotations, as texts for macros and for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn, SupportsIndex

from sqlglot import exp

from dqsql.compiler.trees import elements
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


class SqlArgument(str):
    """An argument for a macro: its SQL, which is false for `false` and `null`, and a list of one.

    So `if flag` is what the user wrote, and a list may be one value.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.strip().lower() not in ("", "false", "null")

    def __iter__(self) -> Iterator[str]:
        return iter((str(self),))

    def __mul__(self, _: SupportsIndex) -> NoReturn:
        raise TypeError(f"{self} is SQL, not a number: let SQL compute it, outside of the braces")

    __rmul__ = __mul__


class ListArgument(list[str]):
    """`[a, b]` or `(a, b)` for a macro: a list of its parts, which prints as the user wrote it."""

    def __init__(self, parts: Iterable[str], text: str) -> None:
        super().__init__(parts)
        self._text = text

    def __str__(self) -> str:
        return self._text


def macro_argument(arg: exp.Expr) -> SqlArgument | ListArgument:
    """An argument as SQL; a list or tuple as a list."""
    text, parts = argument_text(arg), elements(arg)
    return SqlArgument(text) if parts is None else ListArgument(map(argument_text, parts), text)


def plain(arg: exp.Expr) -> str:
    """An argument for people: simple column names without quotes."""
    if isinstance(arg, exp.Column) and not arg.table and arg.name.isidentifier():
        return arg.name
    return to_sql(arg)

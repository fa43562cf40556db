"""The settings of monitors: what a call's arguments and the braces behind it say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import AnnotationError, nearest
from dqsql.model.monitors import Reader
from dqsql.model.plan import Monitor


def literal_value(text: str) -> Any:
    """A SQL literal as a Python value; any other expression as its text."""
    ast = parse_expression(text)
    negative = isinstance(ast, exp.Neg)
    inner = ast.this if negative else ast
    if isinstance(inner, exp.Literal):
        if inner.is_string:
            return inner.this
        number = float(inner.this)
        whole = number.is_integer() and "." not in inner.this and "e" not in inner.this.lower()
        value = int(number) if whole else number
        return -value if negative else value
    if isinstance(ast, exp.Boolean):
        return bool(ast.this)
    if isinstance(ast, exp.Null):
        return None
    return text


def read_settings(
    monitor: Monitor,
    readers: Mapping[str, Reader],
    defaults: Mapping[str, Any] | None = None,
    *,
    positional: bool = False,
) -> dict[str, Any]:
    """The settings of a monitor by name, each read by its reader.

    `defaults` come from the model's config. Named arguments of the call and the braces behind it
    are one; positional arguments are refused unless the caller reads them (`positional`). Readers
    raise ValueError with what they want.

    Raises AnnotationError: an unknown name or a value that cannot be used, at the annotation.
    """
    given: dict[str, Any] = {k: v for k, v in (defaults or {}).items() if k in readers}
    for name, text in monitor.arguments.items():
        if name.isdigit():
            if positional:
                continue
            raise AnnotationError(
                f"@{monitor.kind} takes named arguments only, not {text}",
                span=monitor.span,
                hint=f"write @{monitor.kind}({next(iter(readers))} => ..)",
            )
        given[name] = literal_value(text)
    given.update(monitor.settings.options)
    # Of all kinds: how many failing batches in a row there must be.
    given.pop("after", None)
    if monitor.settings.fpr is not None:
        given["fpr"] = monitor.settings.fpr
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in readers:
            raise AnnotationError(
                f"@{monitor.kind} has no setting {name!r}",
                span=monitor.span,
                hint=nearest(name, readers) or f"it has {', '.join(sorted(readers))}",
            )
        try:
            values[name] = readers[name](value)
        except ValueError as error:
            raise AnnotationError(
                f"{name!r} of @{monitor.kind} must be {error}, not {value!r}", span=monitor.span
            ) from None
    return values


def refuse_others(monitor: Monitor, known: Collection[str]) -> None:
    """Refuse settings in braces that a kind does not have. Raises AnnotationError."""
    given = [*monitor.settings.options, *(["fpr"] if monitor.settings.fpr is not None else [])]
    for name in given:
        if name not in known and name != "after":
            raise AnnotationError(
                f"@{monitor.kind} has no setting {name!r}",
                span=monitor.span,
                hint=nearest(name, known) or f"it has {', '.join(sorted({*known, 'after'}))}",
            )


def a_rate(value: Any) -> float:
    """A number between 0 and 1, both excluded."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError("a number between 0 and 1")
    return float(value)


def a_flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def a_text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def a_count(minimum: int) -> Reader:
    """A reader of whole numbers of at least `minimum`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(f"a whole number of at least {minimum}")
        return value

    return read


def one_of(*words: str) -> Reader:
    """A reader of one of some words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(" or ".join(repr(w) for w in words))
        return str(value)

    return read


def as_given(value: Any) -> Any:
    """Anything: whoever uses it says what is wrong with it."""
    return value

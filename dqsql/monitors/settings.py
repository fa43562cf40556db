"""The settings of monitors: what a call's arguments and the braces behind it say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import AnnotationError, nearest
from dqsql.model.plan import Monitor
from dqsql.model.settings import Reader, SettingProblem, read_value


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
    are one; positional arguments are refused unless the caller reads them (`positional`).

    Raises AnnotationError: an unknown name or a value that cannot be used, at the annotation.
    """
    given: dict[str, Any] = {k: v for k, v in (defaults or {}).items() if k in readers}
    for name, text in monitor.arguments.items():
        if not name.isdigit():
            given[name] = literal_value(text)
        elif not positional:
            raise AnnotationError(
                f"@{monitor.kind} takes named arguments only, not {text}",
                span=monitor.span,
                hint=f"write @{monitor.kind}({next(iter(readers))} => ..)",
            )
    return _read(monitor, readers, given)


def read_braces(monitor: Monitor, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The settings in the braces behind a monitor alone. Raises AnnotationError."""
    return _read(monitor, readers, {})


def _read(
    monitor: Monitor, readers: Mapping[str, Reader], given: Mapping[str, Any]
) -> dict[str, Any]:
    values = {**given, **monitor.settings.options}
    # Of all kinds: how many failing batches in a row there must be.
    values.pop("after", None)
    if monitor.settings.fpr is not None:
        values["fpr"] = monitor.settings.fpr
    owner = f"@{monitor.kind}"
    for name in values:
        if name not in readers:
            raise AnnotationError(
                f"{owner} has no setting {name!r}",
                span=monitor.span,
                hint=nearest(name, readers) or f"it has {', '.join(sorted(readers))}",
            )
    try:
        return {name: read_value(name, v, readers[name], owner) for name, v in values.items()}
    except SettingProblem as problem:
        raise problem.at(AnnotationError, monitor.span) from None

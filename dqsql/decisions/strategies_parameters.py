"""Parameters of detectors as people write them: checked one by one, with errors that name them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dqsql.errors import DecisionError, nearest


def bind(
    owner: str,
    names: Sequence[str],
    positional: Sequence[object],
    named: Mapping[str, object],
    aliases: Mapping[str, str] | None = None,
    by_position: int | None = None,
) -> dict[str, Any]:
    """Arguments by parameter name, as a call `owner(positional.., name => value)` gives them.

    `by_position` is how many of the parameters may be given without a name; None for all.

    Raises:
        DecisionError: too many positional arguments, an unknown name, or a parameter given twice.
    """
    most = len(names) if by_position is None else by_position
    if len(positional) > most:
        raise DecisionError(
            f"{owner} takes {most} arguments without a name, {len(positional)} are given",
            hint=f"its parameters: {_listed(names)}",
        )
    given: dict[str, Any] = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        target = (aliases or {}).get(name, name)
        if target not in names:
            raise DecisionError(
                f"{owner} has no parameter {name!r}",
                hint=nearest(name, names) or f"its parameters: {_listed(names)}",
            )
        if target in given:
            raise DecisionError(f"{owner}: parameter {name!r} is given twice")
        given[target] = value
    return given


def number(
    owner: str,
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    example: str | None = None,
) -> float:
    """A finite number within bounds.

    Raises:
        DecisionError: it is not.
    """
    hint = f"for example: {example}" if example else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise DecisionError(f"{owner}: {name} must be a number, not {value!r}", hint=hint)
    found = float(value)
    below = found <= low if open_low else found < low
    above = found >= high if open_high else found > high
    if below or above:
        words = _range(low, high, open_low, open_high)
        raise DecisionError(f"{owner}: {name} must be {words}, not {value!r}", hint=hint)
    return found


def optional_number(owner: str, name: str, value: object, **bounds: Any) -> float | None:
    """As `number`; None stays None."""
    return None if value is None else number(owner, name, value, **bounds)


def integer(
    owner: str, name: str, value: object, *, low: int, high: int | None = None, example: str = ""
) -> int:
    """A whole number of at least `low`.

    Raises:
        DecisionError: it is not.
    """
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    fits = not isinstance(value, bool) and whole and int(value) >= low  # type: ignore[call-overload]
    if not fits or (high is not None and int(value) > high):  # type: ignore[call-overload]
        words = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise DecisionError(
            f"{owner}: {name} must be a whole number {words}, not {value!r}",
            hint=f"for example: {example}" if example else None,
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def flag(owner: str, name: str, value: object) -> bool:
    """True or false.

    Raises:
        DecisionError: it is neither.
    """
    if not isinstance(value, bool):
        raise DecisionError(f"{owner}: {name} must be true or false, not {value!r}")
    return value


def choice(owner: str, name: str, value: object, known: Collection[str]) -> str:
    """One of some words.

    Raises:
        DecisionError: it is another.
    """
    word = value.lower() if isinstance(value, str) else value
    if word not in known:
        listed = _listed(known)
        raise DecisionError(
            f"{owner}: {name} must be one of {listed}, not {value!r}",
            hint=nearest(str(value), known) if isinstance(value, str) else None,
        )
    return str(word)


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if names else "none"


def _range(low: float, high: float, open_low: bool, open_high: bool) -> str:
    least = f"{'above' if open_low else 'at least'} {low:g}"
    most = f"{'below' if open_high else 'at most'} {high:g}"
    if math.isinf(low):
        return most
    return least if math.isinf(high) else f"{least} and {most}"

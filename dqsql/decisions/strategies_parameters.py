"""Parameters of detectors as people write them: checked one by one, with errors that name them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dqsql.errors import DecisionError, nearest
from dqsql.model.settings import Reader, WrongValue

_EXAMPLES = {
    **{"sd": 3, "warn": 3, "error": 4, "lower_sd": 3, "upper_sd": 3, "order": 1, "period": 7},
    **{"relearn_after": 5, "min_per_slot": 3, "k": 5},
}


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


def check_fields(owner: str, checked: Any) -> None:
    """Replace the fields of a frozen object by what its `readers` make of them; None stays None.

    Raises:
        DecisionError: a field cannot have its value.
    """
    for name, reader in checked.readers.items():
        value = getattr(checked, name)
        if value is not None:
            object.__setattr__(checked, name, read_parameter(owner, name, value, reader))


def read_parameter(owner: str, name: str, value: object, reader: Reader) -> Any:
    """A parameter's value as it is used. Raises DecisionError, which names the parameter."""
    try:
        return reader(value)
    except WrongValue as wrong:
        example = f"for example: {name} => {_EXAMPLES[name]}" if name in _EXAMPLES else None
        raise DecisionError(
            f"{owner}: {name} must be {wrong}, not {value!r}", hint=wrong.hint or example
        ) from None


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if names else "none"


def lower_limit(value: float | None) -> float:
    """A limit that may be left out, then minus infinity."""
    return -math.inf if value is None else value


def upper_limit(value: float | None) -> float:
    """A limit that may be left out, then infinity."""
    return math.inf if value is None else value

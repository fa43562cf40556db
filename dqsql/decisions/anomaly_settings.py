"""Settings that all strategies of `@anomaly` share, as people write them in braces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from dqsql.decisions.strategies_parameters import bind, check_fields, read_parameter
from dqsql.errors import DecisionError
from dqsql.model.settings import Reader, at_least, number_within, one_of

_DIRECTIONS = ("both", "spike", "drop")
_SIZE = number_within(0)
_SMALL, _MIN_CHANGE = "ignore_small_changes", "min_change"
# Plainer words for the directions.
_WORDS = {"up": "spike", "down": "drop"}


@dataclass(frozen=True, slots=True)
class AnomalySettings:
    """Settings of a decision, whatever the strategy.

    Attributes:
        direction: 'both' (default), 'spike' (only upwards) or 'drop' (only downwards).
        min_history: fewest past values to decide with; None for the strategy's own.
        window: newest accepted batches to look at, >= 1; None for all.
        ignore_absolute: differences from the expected value up to this are no anomalies, >= 0.
        ignore_relative: as a share of the expected value, >= 0; 0.01 for 1 %.
    """

    direction: str = "both"
    min_history: int | None = None
    window: int | None = None
    ignore_absolute: float = 0.0
    ignore_relative: float = 0.0
    readers: ClassVar[dict[str, Reader]] = {
        "direction": one_of(*_DIRECTIONS),
        "min_history": at_least(0),
        "window": at_least(1),
        "ignore_absolute": _SIZE,
        "ignore_relative": _SIZE,
    }

    def __post_init__(self) -> None:
        check_fields("anomaly", self)
        if self.window is not None and (self.min_history or 0) > self.window:
            raise DecisionError(
                f"anomaly: a window of {self.window} batches never has"
                f" min_history {self.min_history}"
            )

    def small_change(self, expected: float) -> float:
        """Largest difference from the expected value that is ignored."""
        return max(self.ignore_absolute, self.ignore_relative * abs(expected))


def anomaly_settings(**named: object) -> AnomalySettings:
    """Settings from an annotation's braces.

    `min_change`, or `ignore_small_changes`, is a number (absolute), a text like '1%' (relative), or
    a mapping with `absolute` and `relative`. The directions `up` and `down` are `spike` and `drop`.

    Raises:
        DecisionError: a setting that does not exist or cannot have its value.
    """
    names = [field.name for field in fields(AnomalySettings)]
    given = dict(named)
    given |= {k: _WORDS.get(str(v), v) for k, v in given.items() if k == "direction"}
    if _SMALL in given and _MIN_CHANGE in given:
        raise DecisionError(f"anomaly: {_MIN_CHANGE} and {_SMALL} are the same setting: remove one")
    for name in (_SMALL, _MIN_CHANGE):
        if name in given:
            given |= _small_changes(name, given.pop(name))
    return AnomalySettings(**bind("anomaly", names, (), given))


def _small_changes(name: str, value: object) -> dict[str, object]:
    if isinstance(value, str) and value.strip().endswith("%"):
        return {"ignore_relative": _percent(name, value)}
    if not isinstance(value, Mapping):
        return {"ignore_absolute": read_parameter("anomaly", name, value, _SIZE)}
    unknown = sorted(set(map(str, value)) - {"absolute", "relative"})
    if unknown:
        raise DecisionError(
            f"anomaly: {name} has no {unknown[0]!r}",
            hint=f"for example: {name}: {{absolute: 5, relative: 0.01}}",
        )
    relative = value.get("relative", 0.0)
    if isinstance(relative, str) and relative.strip().endswith("%"):
        relative = _percent(name, relative)
    return {"ignore_absolute": value.get("absolute", 0.0), "ignore_relative": relative}


def _percent(name: str, text: str) -> float:
    try:
        return float(text.strip().removesuffix("%")) / 100
    except ValueError as error:
        raise DecisionError(
            f"anomaly: {name} cannot be {text!r}", hint="for example: '1%'"
        ) from error

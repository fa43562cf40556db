"""Settings that all strategies of `@anomaly` share, as people write them in braces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dqsql.decisions import strategies_parameters as check
from dqsql.errors import DecisionError

DIRECTIONS = ("both", "spike", "drop")
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

    def __post_init__(self) -> None:
        owner = "anomaly"

        def assign(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        assign("direction", check.choice(owner, "direction", self.direction, DIRECTIONS))
        for name, low in (("min_history", 0), ("window", 1)):
            if getattr(self, name) is not None:
                assign(name, check.integer(owner, name, getattr(self, name), low=low))
        for name in ("ignore_absolute", "ignore_relative"):
            assign(name, check.number(owner, name, getattr(self, name), low=0))
        if self.window is not None and (self.min_history or 0) > self.window:
            raise DecisionError(
                f"anomaly: a window of {self.window} batches never has"
                f" min_history {self.min_history}"
            )

    def small_change(self, expected: float) -> float:
        """Largest difference from the expected value that is ignored."""
        return max(self.ignore_absolute, self.ignore_relative * abs(expected))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form; `anomaly_settings(**d)` reads it."""
        return asdict(self)


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
    return AnomalySettings(**check.bind("anomaly", names, (), given))


def _small_changes(name: str, value: object) -> dict[str, object]:
    if isinstance(value, str) and value.strip().endswith("%"):
        return {"ignore_relative": _percent(name, value)}
    if not isinstance(value, Mapping):
        return {"ignore_absolute": check.number("anomaly", name, value, low=0)}
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

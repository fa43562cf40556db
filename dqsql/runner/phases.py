"""How long the phases of a model's run take, and how much Spark read meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dqsql.model.phases import COMPILE


@dataclass
class Phases:
    """A clock that is always in one phase: entering one ends the one before. Seconds add up."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)
    _phase: str = COMPILE
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def enter(self, phase: str) -> None:
        """End the phase that is going on, and begin another."""
        now = self.clock()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def until_now(self) -> dict[str, float]:
        """Seconds by phase."""
        self.enter(self._phase)
        return dict(self.seconds)

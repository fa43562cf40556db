"""Names of the phases of a run, whose seconds `dq_model_runs` and `dqsql run --timing` tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

START = "start"
"""Until Spark is there."""
WRITE = "write"
"""Writing tables."""
COMPILE = "compile"
"""Registering and analysing a model's SQL."""
DISCOVERY = "discovery"
"""Looking for batches that are new."""
SCAN = "scan"
"""Scanning and measuring."""
DECIDE = "decide"
"""Checks, monitors, samples of failing rows."""

OF_MODELS = (COMPILE, DISCOVERY, SCAN, DECIDE)
"""The phases that each model has of its own, in their order."""


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

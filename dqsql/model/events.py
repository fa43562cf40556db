"""What a run tells while it works, and the names of its phases.

The report layer turns events into lines, bars or JSON; `dq_model_runs` and `run --timing` tell
the seconds of phases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dqsql.model.results import ModelResult, RunResult


class RunListener:
    """Receives the progress of a run, and ignores it. What overrides a method must not raise.

    `begun`, if set, is called once, when work on the first model begins, with what the run leaves
    should it die from then on.
    """

    begun: Callable[[RunResult], None] | None = None

    def run_started(self, run_id: str, models: int, checks: int, target: str) -> None:
        """The project is compiled; work on the models begins."""

    def inputs_found(self, sizes: Mapping[str, int]) -> None:
        """Bytes of the files that each model will read; models of unknown size are left out."""

    def session_starting(self) -> None:
        """A Spark session is about to be started, which takes seconds."""

    def model_started(self, index: int, total: int, model: str) -> None:
        """Model number `index` (from 1) of `total` begins."""

    def model_step(self, model: str, step: str) -> None:
        """The model enters a step, for example 'scanning 120 batches'."""

    def tasks_done(self, done: int, total: int) -> None:
        """So many tasks are done of the stages that Spark is at.

        Told every few seconds, from a thread of its own.
        """

    def model_finished(self, index: int, total: int, result: ModelResult) -> None:
        """The model is done; its rows are stored, or wait to be, with those of other models.

        Told again with an error of the model should they not be stored in the end.
        """

    def run_finished(self, result: RunResult) -> None:
        """Everything is done."""


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

    def resume(self) -> None:
        """Go on with the phase; the time since the last call was spent on something else."""
        self._since = self.clock()

    def until_now(self) -> dict[str, float]:
        """Seconds by phase."""
        self.enter(self._phase)
        return dict(self.seconds)

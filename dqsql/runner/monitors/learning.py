"""Monitors that learn and that can be replayed: what `dqsql fit` and `dqsql backtest` ask of them.

A new kind of monitor takes part by a class with these methods and a line in `LEARNERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from dqsql.runner.monitors.avh_learning import AvhLearner
from dqsql.runner.monitors.context import MonitorContext
from dqsql.runner.monitors.injection import Injector
from dqsql.runner.monitors.replay import Learned, Replayed


class Learner(Protocol):
    """Learns and replays all monitors of one kind of one model."""

    def learn(self) -> list[Learned]:
        """Learn from all accepted batches, and put what was learned into the context's programs.

        Raises EngineError.
        """

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches, each from the accepted ones before it; reads no data.

        Args:
            batches: batches whose metrics are in the context's history, oldest first.
            flagged: those of them that are no part of the history.
            rates: false-positive rates to try.
        """


LEARNERS: Mapping[str, Callable[[MonitorContext, Injector], Learner]] = {"avh": AvhLearner}

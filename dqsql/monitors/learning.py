"""Monitors that learn and that can be replayed: what `dqsql fit` and `dqsql backtest` ask of them.

A new kind of monitor takes part by a class with these methods, and a line in `LEARNERS` or
`REPLAYERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from dqsql.engine.history import batches_where
from dqsql.monitors.anomaly_learning import AnomalyLearner
from dqsql.monitors.avh_learning import AvhLearner
from dqsql.monitors.context import MonitorContext
from dqsql.monitors.injection import Injector
from dqsql.monitors.novelty_learning import NoveltyLearner
from dqsql.monitors.pattern import Source
from dqsql.monitors.pattern_learning import PatternLearner
from dqsql.monitors.replay import Learned, Replayed


class Replayer(Protocol):
    """Replays all monitors of one kind of one model."""

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches, each from the accepted ones before it; reads no data.

        Args:
            batches: batches whose metrics are in the context's history, oldest first.
            flagged: those of them that are no part of the history.
            rates: false-positive rates to try.
        """


class Learner(Replayer, Protocol):
    """Learns, too."""

    def learn(self) -> list[Learned]:
        """Learn from all accepted batches, and put what was learned into the context's programs.

        Raises EngineError.
        """


def _avh(context: MonitorContext, injector: Injector) -> Learner:
    return AvhLearner(context, injector, partial(batches_where, injector.spark))


def _anomaly(context: MonitorContext, injector: Injector) -> Replayer:
    return AnomalyLearner(context, partial(batches_where, injector.spark))


def _novelty(context: MonitorContext, injector: Injector) -> Replayer:
    return NoveltyLearner(context, partial(batches_where, injector.spark))


def _pattern(context: MonitorContext, injector: Injector) -> Replayer:
    source = Source(
        injector.spark, injector.project, injector.plan, injector.types, injector.batch_type
    )
    return PatternLearner(context, source)


# What learns beside runs. Patterns are learned in runs only, all else decides anew each time.
LEARNERS: Mapping[str, Callable[[MonitorContext, Injector], Learner]] = {"avh": _avh}
REPLAYERS: Mapping[str, Callable[[MonitorContext, Injector], Replayer]] = {
    **LEARNERS,
    "pattern": _pattern,
    "anomaly": _anomaly,
    "novelty": _novelty,
}

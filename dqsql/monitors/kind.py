"""What a kind of monitor is: one `MonitorKind` says all there is to know of it.

A new kind is a file or a folder in `dqsql.monitors.kinds` whose `KIND` is one of these; nothing
else names it. `docs/internals.md` goes through an example.
"""

from __future__ import annotations

import datetime as dt
from bisect import insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dqsql.model.batches import batch_order
from dqsql.model.monitors import MonitorSpec
from dqsql.model.plan import Monitor, Plan
from dqsql.model.results import BatchRecord
from dqsql.monitors.context import Detector, MonitorContext, Workplace
from dqsql.monitors.programs import ProgramBook
from dqsql.monitors.recompute import Recomputed, StoredVerdict
from dqsql.monitors.replay import Learner, Replayer


class Reach(NamedTuple):
    """What of the stored metrics a monitor looks at.

    `depth` is how many accepted batches before each batch that is decided on, None for all;
    `segments` whether those of segments are among them; `alike` how many of the same time of day.
    """

    depth: int | None
    segments: bool = False
    alike: int = 0


@dataclass(frozen=True)
class BeforeScan:
    """What a monitor may learn from before the batches of a run are scanned.

    Attributes:
        book: what was learned so far; what is learned now is put there.
        accepted: the accepted batches of before the run, oldest first.
        batches: those of the run, oldest first.
        reviewed: the batches that a person accepted.
        refused: those of before the run that were not accepted.
        settings: those of the project, by kind of monitor.
        scanned: whether the run's batches are scanned already. What could learn nothing from any of
            them before the scan still cannot.
    """

    book: ProgramBook
    accepted: list[str] = field(default_factory=list)
    batches: Sequence[str] = ()
    reviewed: Collection[str] = ()
    refused: set[str] = field(default_factory=set)
    settings: Mapping[str, Any] = field(default_factory=dict)
    scanned: bool = False

    def after_scan(self) -> BeforeScan:
        """The same with a book and lists of its own, to which the batches of the run are added."""
        return replace(
            self,
            book=self.book.copy(),
            accepted=[*self.accepted],
            refused=self.refused.difference(self.batches),
            scanned=True,
        )

    def add(self, batch: str, *, accepted: bool) -> None:
        """Take in the verdict on a batch of the run."""
        if accepted:
            insort(self.accepted, batch, key=batch_order)
        else:
            self.refused.add(batch)


@dataclass(frozen=True)
class MonitorKind:
    """One kind of monitor.

    Attributes:
        spec: its name, settings and metrics: all that is known before a run.
        detector: makes what decides on all monitors of the kind of one model.
        order: kinds with a smaller number are asked and told of first.
        reach: how far back a monitor looks, by the defaults of its settings; None where the kind
            decides on each batch without history, before the others do.
        read: reads the settings and arguments of a monitor, where they are more than the spec
            says. Raises AnnotationError.
        derived: metrics that the detector itself computes and reads again.
        replayer: makes what `dqsql backtest` asks; None where nothing can be replayed.
        learner: makes what `dqsql fit` asks; None where nothing is learned beside runs.
        recompute: decides on a stored verdict again; None where that is not possible.
        before_scan: learns what is due before the scan of a run, and again before each of its
            later batches is judged; says whether another thing is to be counted from then on.
            Raises DqsqlError.
        with_learned: the plan with what is counted of all that was learned so far.
        note: what to know of the settings of a monitor, None for nothing.
        is_due: whether the newest batch is to be decided on again though nothing is new.
        awaits_rows: whether a batch is judged only when it has all of its rows, in models whose
            batches are checked before.
        by_names: whether of other batches only their names count.
    """

    spec: MonitorSpec
    detector: Callable[[Workplace, MonitorContext], Detector]
    order: int = 100
    reach: Callable[[Monitor, Mapping[str, Any]], Reach] | None = None
    read: Callable[[Monitor], object] | None = None
    derived: frozenset[str] = frozenset()
    replayer: Callable[[Workplace, MonitorContext], Replayer] | None = None
    learner: Callable[[Workplace, MonitorContext], Learner] | None = None
    recompute: Callable[[StoredVerdict], Recomputed] | None = None
    before_scan: Callable[[Workplace, BeforeScan], bool] | None = None
    with_learned: Callable[[Plan, ProgramBook], Plan] | None = None
    note: Callable[[Monitor, Mapping[str, Any]], str | None] | None = None
    is_due: Callable[[Plan, Mapping[str, BatchRecord], dt.datetime], bool] | None = None
    awaits_rows: bool = False
    by_names: bool = False

    @property
    def name(self) -> str:
        """What stands behind the `@`."""
        return self.spec.name

    def of(self, plan: Plan) -> list[Monitor]:
        """The monitors of this kind in a plan."""
        return plan.monitors_of(self.name)

"""How far back the monitors of a model look: what of the stored metrics they need.

A monitor is given neither more nor fewer accepted batches than it looks at, however many a run
checks at once: so a backfill and day-by-day runs decide alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dqsql.model.batches import batch_order
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.monitors.context import defaults_of
from dqsql.monitors.registry import find


@dataclass(frozen=True)
class Needs:
    """The stored metrics that some monitors look at.

    Attributes:
        depth: how many accepted batches before each batch that is decided on; None for all.
        metrics: their names.
        segments: whether those of segments are among them.
    """

    depth: int | None
    metrics: frozenset[str]
    segments: bool

    def and_of(self, depth: int | None, metrics: frozenset[str], segments: bool) -> Needs:
        """These, and others of as many batches or more."""
        furthest = None if self.depth is None or depth is None else max(self.depth, depth)
        return Needs(furthest, self.metrics | metrics, self.segments or segments)


def needs_of(
    plan: Plan, settings: Mapping[str, Any], stored: int, replayed: int = 0
) -> list[Needs]:
    """What the monitors of a model need: of those that look so far back, and of those without end.

    They are one where no more is stored than the former need.

    Args:
        plan: the model's plan.
        settings: those of the project, by kind of monitor.
        stored: how many accepted batches there are.
        replayed: how many stored batches will be decided on again.

    Raises:
        AnnotationError: a setting cannot be used.
    """
    some, whole = Needs(0, frozenset(), False), Needs(None, frozenset(), False)
    names = {metric.alias: metric.name for metric in plan.metrics}
    for monitor in plan.monitors:
        kind = find(monitor.kind)
        if kind is None or kind.reach is None:
            continue
        given = settings.get(kind.name), plan.model.config.extra.get(kind.name)
        reach, segments = kind.reach(monitor, defaults_of(*given))
        watched = kind.derived.union(names[alias] for alias in monitor.metrics)
        if reach is None:
            whole = whole.and_of(None, watched, segments)
        else:
            some = some.and_of(reach + replayed, watched, segments)
    if not whole.metrics:
        return [some]
    if not some.metrics or (some.depth or 0) >= stored:
        return [whole.and_of(None, some.metrics, some.segments)]
    # What is read of all batches need not be read of some of them.
    return [
        replace(some, metrics=some.metrics - whole.metrics),
        replace(whole, segments=some.segments or whole.segments),
    ]


def accepted_before(
    ledger: Mapping[str, BatchRecord], batches: Sequence[str], depth: int | None
) -> list[str]:
    """The accepted batches that the batches of a run look at, oldest first.

    Args:
        ledger: that of before the run.
        batches: those of the run, oldest first, which are no history until they are checked.
        depth: how many batches each of them looks at; None for all.
    """
    again = set(batches)
    accepted = sorted(
        (b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED and b not in again),
        key=batch_order,
    )
    ends = [bisect_left(accepted, batch_order(b), key=batch_order) for b in batches]
    if depth is None:
        return accepted[: max(ends, default=0)]
    seen: set[int] = set()
    for end in set(ends):
        seen.update(range(max(0, end - depth), end))
    return [accepted[place] for place in sorted(seen)]

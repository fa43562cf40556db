"""Segments that were always there and have no rows in a batch: they have none, which is a number.

Spark groups the rows that there are, so that a segment without any is not in what it gives. Where
the rows of segments are counted, those that are expected are counted as 0: checks and monitors of
the number of rows then have a verdict on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from operator import not_
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dqsql.engine.history import stored_metrics
from dqsql.engine.ledger import unlike_segmented
from dqsql.engine.measurement import Measurement
from dqsql.model.batches import batch_order
from dqsql.model.plan import Check, Metric, Plan
from dqsql.model.project import Scope, Severity
from dqsql.model.results import BatchRecord, CheckOutcome, MetricValue

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

_ROWS = "row_count"
# A segment is expected that was in so large a share of so many batches at least, of the newest.
_SHARE, _BATCHES, _WINDOW = 0.9, 7, 60


@dataclass(frozen=True)
class Occurring:
    """A batch's segments with rows, and those that it failed for missing, which may be accepted."""

    present: Collection[str]
    missed: Collection[str]
    is_accepted: bool


def with_vanished(
    measured: Measurement,
    plan: Plan,
    store: Store,
    ledger: Mapping[str, BatchRecord],
    batches: Sequence[str],
    accepted: Collection[str] = (),
) -> Measurement:
    """What was measured of batches, oldest first, with expected segments that have no rows there.

    All batches of the `ledger` before the run say what is expected, whatever was found in them:
    so the order of runs makes no difference. Where a check of severity error fails since a segment
    has no rows, that does not make its absence usual, but a person does who `accepted` the batch.
    Raises StorageError.
    """
    rows = next((m for m in plan.metrics if _counts_rows(m)), None)
    if rows is None or not plan.model.config.segment_by or not batches:
        return measured
    present, missed = _occurring(measured, store, plan, ledger, batches)
    known = sorted(present, key=batch_order)
    judged = [c for c in plan.checks if c.judges_segments and c.metrics == (rows.alias,)]
    fails = any(
        c.severity is Severity.ERROR and _holds_at_zero(c.predicate, rows.alias) is False
        for c in judged
    )
    values, outcomes = [*measured.values], [*measured.outcomes]
    for batch in batches:
        before = [b for b in known if batch_order(b) < batch_order(batch) and present[b]]
        history = [
            Occurring(present[b], missed.get(b, ()) if fails else (), b in accepted)
            for b in before[-_WINDOW:]
        ]
        for segment in _expected(history):
            if segment in present.get(batch, frozenset()):
                continue
            none = MetricValue(
                plan.model.name, batch, segment, None, _ROWS, "", Scope.DELTA.value, 0.0, None, 0
            )
            values.append(none)
            missed.setdefault(batch, set()).add(segment)
            outcomes += _outcomes(judged, rows, none)
    return replace(measured, values=tuple(values), outcomes=tuple(outcomes))


def _counts_rows(metric: Metric) -> bool:
    is_plain = metric.column is None and not metric.parameters and metric.where is None
    return metric.name == _ROWS and is_plain and metric.scope is Scope.DELTA


def _occurring(
    measured: Measurement,
    store: Store,
    plan: Plan,
    ledger: Mapping[str, BatchRecord],
    batches: Sequence[str],
) -> tuple[dict[str, frozenset[str]], dict[str, set[str]]]:
    """The segments with rows of the batches of the run and of others, and those missed there."""
    segments: dict[str, set[str]] = {b: set() for b in batches}
    for value in measured.values:
        if value.metric == _ROWS and value.segment is not None and value.value:
            segments[value.batch].add(value.segment)
    others = unlike_segmented(ledger, plan.model).union(segments)
    earlier = [b for b in sorted(ledger, key=batch_order) if b not in others]
    first = batch_order(batches[0])
    near = [b for b in earlier if batch_order(b) < first][-_WINDOW:]
    near += [b for b in earlier if batch_order(b) > first]
    missed: dict[str, set[str]] = {}
    for row in stored_metrics(store, plan.model.name, near, [_ROWS]).to_pylist():
        names = segments.setdefault(row["batch"], set())
        if row["segment"] is not None and not row["parameters"]:
            (names if row["value"] else missed.setdefault(row["batch"], set())).add(row["segment"])
    return {b: frozenset(names) for b, names in segments.items()}, missed


def _expected(before: Sequence[Occurring]) -> Iterator[str]:
    """The segments that most batches had since they first occurred.

    A batch that failed because it missed a segment does not count for it. If a person accepted
    that, the segment is as one that has never occurred before.
    """
    for segment in sorted(frozenset().union(*(b.present for b in before))):
        forgiven = [i for i, b in enumerate(before) if b.is_accepted and segment in b.missed]
        since = before[forgiven[-1] + 1 :] if forgiven else before
        counting = (segment in b.present for b in since if segment not in b.missed)
        seen = list(dropwhile(not_, counting))
        if len(seen) >= _BATCHES and sum(seen) >= _SHARE * len(seen):
            yield segment


def _outcomes(checks: Sequence[Check], rows: Metric, none: MetricValue) -> Iterator[CheckOutcome]:
    for check in checks:
        holds = _holds_at_zero(check.predicate, rows.alias)
        if holds is not None:
            yield CheckOutcome(check, none.batch, none.segment, holds, (none,))


def _holds_at_zero(predicate: exp.Expr, alias: str) -> bool | None:
    """Whether a predicate of one metric holds of 0; None where that takes Spark."""

    def zero(node: exp.Expr) -> exp.Expr:
        is_metric = isinstance(node, exp.Column) and node.name == alias
        return exp.Literal.number(0) if is_metric else node

    outcome = simplify(predicate.copy().transform(zero)).unnest()
    return bool(outcome.this) if isinstance(outcome, exp.Boolean) else None

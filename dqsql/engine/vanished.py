"""Segments that were always there and have no rows in a batch: they have none, which is a number.

Spark groups the rows that there are, so that a segment without any is not in what it gives. Where
the rows of segments are counted, those that are expected are counted as 0: checks and monitors of
the number of rows then have a verdict on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dqsql.engine.history import stored_metrics
from dqsql.engine.ledger import unlike_segmented
from dqsql.engine.measurement import Measurement
from dqsql.model.batches import batch_order
from dqsql.model.plan import Check, Metric, Plan
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord, CheckOutcome, MetricValue

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

_ROWS = "row_count"
# A segment is expected that was in so large a share of so many batches at least, of the newest.
_SHARE, _BATCHES, _WINDOW = 0.9, 7, 60


def with_vanished(
    measured: Measurement,
    plan: Plan,
    store: Store,
    ledger: Mapping[str, BatchRecord],
    batches: Sequence[str],
) -> Measurement:
    """What was measured of batches, oldest first, with expected segments that have no rows there.

    All batches of the `ledger` before the run count, whatever was found in them: so the order of
    runs makes no difference. Raises StorageError.
    """
    rows = next((m for m in plan.metrics if _counts_rows(m)), None)
    if rows is None or not plan.model.config.segment_by or not batches:
        return measured
    present = _present(measured, store, plan, ledger, batches)
    known = sorted(present, key=batch_order)
    judged = [c for c in plan.checks if c.judges_segments and c.metrics == (rows.alias,)]
    values, outcomes = [*measured.values], [*measured.outcomes]
    for batch in batches:
        before = [present[b] for b in known if batch_order(b) < batch_order(batch)][-_WINDOW:]
        for segment in _expected(before):
            if segment in present.get(batch, frozenset()):
                continue
            none = MetricValue(
                plan.model.name, batch, segment, None, _ROWS, "", Scope.DELTA.value, 0.0, None, 0
            )
            values.append(none)
            outcomes += _outcomes(judged, rows, none)
    return replace(measured, values=tuple(values), outcomes=tuple(outcomes))


def _counts_rows(metric: Metric) -> bool:
    is_plain = metric.column is None and not metric.parameters and metric.where is None
    return metric.name == _ROWS and is_plain and metric.scope is Scope.DELTA


def _present(
    measured: Measurement,
    store: Store,
    plan: Plan,
    ledger: Mapping[str, BatchRecord],
    batches: Sequence[str],
) -> dict[str, frozenset[str]]:
    """The segments with rows of the batches of the run, and of those before them."""
    segments: dict[str, set[str]] = {b: set() for b in batches}
    for value in measured.values:
        if value.metric == _ROWS and value.segment is not None and value.value:
            segments[value.batch].add(value.segment)
    others = unlike_segmented(ledger, plan.model).union(segments)
    earlier = [b for b in sorted(ledger, key=batch_order) if b not in others]
    first = batch_order(batches[0])
    near = [b for b in earlier if batch_order(b) < first][-_WINDOW:]
    near += [b for b in earlier if batch_order(b) > first]
    for row in stored_metrics(store, plan.model.name, near, [_ROWS]).to_pylist():
        names = segments.setdefault(row["batch"], set())
        if row["segment"] is not None and row["value"] and not row["parameters"]:
            names.add(row["segment"])
    return {b: frozenset(names) for b, names in segments.items()}


def _expected(before: Sequence[frozenset[str]]) -> Iterator[str]:
    """The segments that most batches had since they first occurred."""
    for segment in sorted(frozenset().union(*before)):
        since = next(i for i, names in enumerate(before) if segment in names)
        seen = before[since:]
        if len(seen) >= _BATCHES and sum(segment in n for n in seen) >= _SHARE * len(seen):
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

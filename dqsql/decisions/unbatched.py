"""Rows whose `batch_by` is null: no batch has them, and a check that wants values there fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dqsql.model.plan import Check, Metric
from dqsql.model.project import Scope
from dqsql.model.results import CheckOutcome

_COMPLETENESS, _NULLS = "completeness", "null_count"


def about_unbatched(checks: Iterable[Check], metrics: Iterable[Metric], column: str) -> list[Check]:
    """The checks of whether values are missing in the column that is null where a row has no batch.

    `metrics` are those of the plan. Of several metrics at once, or under a condition, a check is
    none of these.
    """
    missing = {
        m.alias
        for m in metrics
        if m.name in (_COMPLETENESS, _NULLS)
        and m.scope is Scope.DELTA
        and m.where is None
        and (m.column or "").lower() == column.lower()
    }
    return [c for c in checks if len(c.metrics) == 1 and c.metrics[0] in missing]


def with_unbatched(
    outcomes: Iterable[CheckOutcome],
    checks: Iterable[Check],
    batch: str,
    rows: Mapping[str, int],
    unbatched: int,
) -> Iterator[CheckOutcome]:
    """The outcomes; those of `checks` on a batch count `unbatched` rows among those of the batch.

    `rows` are the numbers of rows of batches. See `about_unbatched` for the checks.
    """
    about = {c.id for c in checks}
    for outcome in outcomes:
        here = outcome.batch == batch and outcome.segment is None and outcome.check.id in about
        yield _with(outcome, rows.get(batch, 0), unbatched) if here else outcome


def _with(outcome: CheckOutcome, rows: int, unbatched: int) -> CheckOutcome:
    (measured,), check = outcome.observed, outcome.check
    if measured.value is None:
        return outcome
    if measured.metric == _NULLS:
        value = measured.value + unbatched
    else:
        value = measured.value * rows / (rows + unbatched)
    seen = replace(measured, value=value, sample_size=rows + unbatched)
    holds = _holds(check.predicate, value)
    spotless = outcome.spotless
    if check.warning is not None:
        spotless = _holds(check.warning.predicate, value)
    if holds is None or spotless is None:
        # The predicate is more than comparisons; that rows have no batch is told in any case.
        return outcome
    return replace(outcome, holds=holds, observed=(seen,), spotless=spotless)


def _holds(predicate: exp.Expr, value: float) -> bool | None:
    """Whether a predicate over one metric holds for a value of it; None where that is not plain."""
    number = exp.Literal.number(value)
    outcome = simplify(
        predicate.transform(lambda n: number.copy() if isinstance(n, exp.Column) else n)
    )
    return bool(outcome.this) if isinstance(outcome, exp.Boolean) else None

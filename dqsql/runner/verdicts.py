"""From what Spark observed to verdicts: constraints of one model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dqsql.compiler.aggregates.facts import is_about_now
from dqsql.decisions.constraints import Observation, decide, number_text
from dqsql.errors import DqsqlError, IncomparableError
from dqsql.model.batches import batch_order
from dqsql.model.plan import Check, Metric, Plan
from dqsql.model.project import DBT_TEST, DBT_TEST_NAME, Severity
from dqsql.model.results import BatchRecord, BatchStatus, MetricValue, Result, Status

if TYPE_CHECKING:
    from dqsql.engine.execution import CheckOutcome


LEFT_TO_DBT = "left to dbt: "
# What a review makes of a batch.
REVIEWED: Mapping[str, BatchStatus] = {
    "accept": BatchStatus.ACCEPTED,
    "reject": BatchStatus.REJECTED,
}


def constraint_results(
    plan: Plan, outcomes: Collection[CheckOutcome], checked: Iterable[str]
) -> Iterator[Result]:
    """The verdicts on the constraints of a plan; `checked` are the batches that are known."""
    metrics, about_now = {m.alias: m for m in plan.metrics}, checks_about_now(plan)
    newest = max({o.batch for o in outcomes}.union(checked), key=batch_order, default=None)
    # How old a batch is says something of the newest one only.
    return (
        constraint_result(outcome, metrics)
        for outcome in outcomes
        if (outcome.batch == newest or outcome.check.id not in about_now)
        and (outcome.segment is None or outcome.check.judges_segments)
    )


def checks_about_now(plan: Plan) -> frozenset[str]:
    """The checks that compare a batch with the start of the run."""
    states = {s.name for s in plan.states if is_about_now(s)}
    metrics = {m.alias for m in plan.metrics if states.intersection(m.states)}
    return frozenset(c.id for c in plan.checks if metrics.intersection(c.metrics))


def unevaluated(
    plan: Plan, errors: Mapping[str, DqsqlError], batches: Collection[str]
) -> Iterator[Result]:
    """The verdicts on checks that Spark refuses, by their ids, and on those that do not compile."""
    by_id = {c.id: c for c in plan.checks}
    broken = [*((by_id[check], error) for check, error in errors.items()), *plan.refused]
    return (error_result(check, error, batch) for check, error in broken for batch in batches)


def constraint_result(outcome: CheckOutcome, metrics: Mapping[str, Metric]) -> Result:
    """The verdict on one constraint; `metrics` are those of the plan by alias."""
    check, second = outcome.check, outcome.check.warning
    observations = [
        _observation(value, metrics[alias])
        for value, alias in zip(outcome.observed, check.metrics, strict=True)
    ]
    verdict = decide(
        outcome.holds,
        observations,
        expression=check.expression,
        bounds=check.bounds,
        severity=check.severity,
        no_data=check.no_data,
        spotless=outcome.spotless,
        demand=check.demand,
        warning=second.demand if second else None,
    )
    single = outcome.observed[0] if len(outcome.observed) == 1 else None
    return Result(
        check_id=check.id,
        model=check.model,
        batch=outcome.batch,
        segment=outcome.segment,
        column=check.column,
        check_name=check.name,
        detector="constraint",
        status=verdict.status,
        severity=check.severity,
        message=_message_of_dbt(check, verdict.status, single) or verdict.message,
        observed=single.value if single else None,
        observed_text=single.value_text if single else None,
        lower=check.bounds.lower if check.bounds else None,
        upper=check.bounds.upper if check.bounds else None,
        warn_lower=second.bounds.lower if second and second.bounds else None,
        warn_upper=second.bounds.upper if second and second.bounds else None,
        details={
            "expression": check.expression,
            **_thresholds(check),
            "metrics": {
                o.text: o.value if o.value is not None else o.value_text for o in observations
            },
        },
    )


def _thresholds(check: Check) -> dict[str, Any]:
    """What fails and what warns, for a check with two thresholds or one of its own."""
    if check.demand is None:
        return {}
    found = {"fails": check.demand} if check.severity is Severity.ERROR else {"warns": check.demand}
    if check.warning is not None:
        found["warns"] = check.warning.demand
    return {"thresholds": {k: v.removeprefix("expected ") for k, v in found.items()}}


def _message_of_dbt(check: Check, status: Status, counted: MetricValue | None) -> str | None:
    """For a test of dbt what it counts: its SQL is not what the user wrote."""
    test = check.settings.options.get(DBT_TEST_NAME)
    if test is None or status not in (Status.FAIL, Status.WARN, Status.PASS):
        return None
    if counted is None or counted.value is None:
        return None
    rows = "row" if counted.value == 1 else "rows"
    return f"{number_text(counted.value)} failing {rows} by dbt's test {test}"


def _observation(value: MetricValue, metric: Metric) -> Observation:
    return Observation(
        metric.text,
        value.metric,
        value.value,
        value.value_text,
        value.sample_size,
        metric.counts,
    )


def error_result(check: Check, error: DqsqlError, batch: str) -> Result:
    """The verdict on a check that Spark could not evaluate.

    A test of dbt whose SQL Spark runs by casts that dqsql does not make is not in error: it is left
    to dbt, with the reason.
    """
    left = isinstance(error, IncomparableError) and DBT_TEST in check.settings.options
    return Result(
        check_id=check.id,
        model=check.model,
        batch=batch,
        segment=None,
        column=check.column,
        check_name=check.name,
        detector="constraint",
        status=Status.SKIPPED if left else Status.ERROR,
        severity=check.severity,
        message=f"{LEFT_TO_DBT}{error.message}"
        if left
        else f"{check.span}: {check.expression}: {error.message}",
        details={"expression": check.expression, "hint": error.hint},
    )


def batch_statuses(
    results: Iterable[Result], batches: Iterable[str], reviews: Mapping[str, str]
) -> dict[str, BatchStatus]:
    """What each batch's verdicts make of it.

    A review (`accept` or `reject` by batch) decides on a batch with findings. One without any was
    repaired since it was rejected.
    """
    statuses = dict.fromkeys(batches, BatchStatus.ACCEPTED)
    for result in results:
        if result.batch not in statuses:
            continue
        if result.status is Status.ERROR:
            statuses[result.batch] = BatchStatus.INCOMPLETE
        elif result.status is Status.FAIL and statuses[result.batch] is BatchStatus.ACCEPTED:
            statuses[result.batch] = BatchStatus.FLAGGED
    for batch, status in statuses.items():
        if status is BatchStatus.FLAGGED and batch in reviews:
            statuses[batch] = REVIEWED[reviews[batch]]
    return statuses


def flagged_last(ledger: Mapping[str, BatchRecord]) -> tuple[str, ...]:
    """The batches that the run which checked the newest one flagged, and that nobody has reviewed.

    A retry of that run finds nothing new, and is to end as it did.
    """
    newest = max(ledger, key=batch_order, default=None)
    if newest is None:
        return ()
    run = ledger[newest].run_id
    flagged = (
        r.batch for r in ledger.values() if r.run_id == run and r.status is BatchStatus.FLAGGED
    )
    return tuple(sorted(flagged, key=batch_order))

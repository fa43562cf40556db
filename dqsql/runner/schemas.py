"""The verdicts of `@schema`: the model's columns now, against the last accepted batch's run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dqsql.decisions.schema import CHANGES, decide_schema
from dqsql.engine.schemas import stored_schemas
from dqsql.model.batches import batch_order
from dqsql.model.plan import Monitor, Plan
from dqsql.model.results import BatchRecord, BatchStatus, MetricValue, Result, Status

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

SCHEMA_MONITOR = "schema"
_METRIC = "schema"


def schema_results(
    plan: Plan,
    values: Sequence[MetricValue],
    ledger: Mapping[str, BatchRecord],
    store: Store,
    batches: Collection[str],
) -> list[Result]:
    """One verdict a batch for each `@schema` of the plan.

    `ledger` is that of before the run. The batches of the run take no part in what they are
    compared with: all of them have the columns of now.
    """
    monitors = [m for m in plan.monitors if m.kind == SCHEMA_MONITOR]
    if not monitors:
        return []
    accepted = {
        b for b, r in ledger.items() if r.status is BatchStatus.ACCEPTED and b not in set(batches)
    }
    before = _latest(store, plan.model.name, accepted)
    now = {v.batch: v.value_text for v in values if _is_schema(v)}
    return [
        _result(monitor, batch, now.get(batch), before) for monitor in monitors for batch in batches
    ]


def _is_schema(value: MetricValue) -> bool:
    return value.metric == _METRIC and value.segment is None and value.column is None


def _latest(
    store: Store, model: str, accepted: Collection[str]
) -> tuple[str, dict[str, str]] | None:
    """The last accepted batch that has a schema, and its columns with types."""
    found = [s for s in stored_schemas(store, model) if s.batch in accepted]
    if not found:
        return None
    last = max(found, key=lambda s: (s.computed_at, batch_order(s.batch)))
    return last.batch, json.loads(last.columns)


def _result(
    monitor: Monitor, batch: str, text: str | None, before: tuple[str, dict[str, str]] | None
) -> Result:
    unknown = Result(
        check_id=monitor.id,
        model=monitor.model,
        batch=batch,
        segment=None,
        column=None,
        check_name=monitor.name,
        detector=SCHEMA_MONITOR,
        severity=monitor.severity,
        status=Status.ERROR,
        message=f"{monitor.span}: the columns of the model are not known",
    )
    if text is None:
        return unknown
    columns: dict[str, str] = json.loads(text)
    verdict = decide_schema(
        columns,
        before[1] if before else None,
        allow=allowed(monitor),
        severity=monitor.severity,
    )
    changes = {k: list(verdict.changes.of(k)) for k in CHANGES} if verdict.changes else {}
    return replace(
        unknown,
        status=verdict.status,
        message=verdict.message,
        observed=float(len(columns)),
        details={
            "expression": monitor.expression,
            "compared_with": before[0] if before else None,
            "reordered": verdict.changes.reordered if verdict.changes else False,
            **changes,
        },
    )


def allowed(monitor: Monitor) -> tuple[str, ...]:
    """The kinds of change that pass: `{allow: [added]}`."""
    given = monitor.settings.options.get("allow", ())
    return (given,) if isinstance(given, str) else tuple(given)

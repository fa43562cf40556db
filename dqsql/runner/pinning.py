"""Annotations for what is watched or would have helped: from a plan and stored metrics alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dqsql.compiler.auto import fit_for_types
from dqsql.errors import UsageError
from dqsql.model.batches import batch_order
from dqsql.model.monitors import AUTO
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchStatus
from dqsql.model.tables import BATCHES, COLUMNS, METRICS
from dqsql.model.wording import plural
from dqsql.monitors.auto import is_open
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.kinds.anomaly.replay import default_scores
from dqsql.monitors.subjects import Subject
from dqsql.runner.compilation import Where
from dqsql.runner.warehouse import Step, open_tables, silent
from dqsql.suggestions.existing import of_monitor
from dqsql.suggestions.incidents import MetricSeries, catching, suggestion_of
from dqsql.suggestions.profiles import Profile
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion

# Kinds of monitors that need the names of all columns in the text.
_OF_COLUMNS = ("novelty",)
# So many rejected batches are named.
_NAMED = 3


def suggest_monitors(where: Where, name: str, *, step: Step = silent) -> Proposal:
    """Suggest what `monitors: auto` watches in a model, as annotations. Raises DqsqlError."""
    compiled = where.compile()
    plan = compiled.plan(name)
    with open_tables(compiled.project, None, step) as store:
        rows = [r for r in store.rows(COLUMNS) if r["model"] == name and r["valid_to"] is None]
    plan = fit_for_types(plan, {r["column_name"]: r["data_type"] for r in rows})
    watched = [m for m in plan.monitors if AUTO in m.tags]
    # Annotations of columns stand on their lines in the SELECT.
    unnamed = [m for m in watched if is_open(plan.model) and (m.column or m.kind in _OF_COLUMNS)]
    suggestions = tuple(of_monitor(m) for m in watched if m not in unnamed)
    notes = () if watched else ("nothing is watched automatically: set `monitors: auto`",)
    if unnamed:
        notes = (
            f"{plural(len(unnamed), 'monitor')} of columns cannot be written down: list the columns"
            " in the SELECT instead of *, or keep"
            " monitors = ['columns', 'alive', 'keys', 'novelty']",
        )
    return _proposal(plan, suggestions, 0, notes)


def suggest_from_incidents(where: Where, name: str, *, step: Step = silent) -> Proposal:
    """What would have caught the batches of a model that people rejected, the best first.

    Raises DqsqlError: there is no such model, no batch of it was rejected, or the tables cannot be
    read.
    """
    compiled = where.compile()
    plan = compiled.plan(name)
    with open_tables(compiled.project, None, step) as store:
        step("Reading metrics")
        ledger = [r for r in store.rows(BATCHES) if r["model"] == name]
        rejected = _of_status(ledger, BatchStatus.REJECTED)
        accepted = _of_status(ledger, BatchStatus.ACCEPTED)
        if not rejected:
            raise UsageError(
                f"no batch of {name} was rejected",
                hint=f"dqsql review reject {name} BATCH --reason '..'",
            )
        rows = store.select(METRICS, where={"model": [name], "segment": None})
    checks = catching(_series(compiled.project, rows), rejected, accepted, default_scores)
    caught = {b for c in checks for b in c.caught}
    missed = [b for b in rejected if b not in caught]
    notes = [f"{len(caught)} of {plural(len(rejected), 'rejected batch')} would have been found"]
    if missed:
        notes.append(f"no stored metric would have found {', '.join(missed[:_NAMED])}")
    made = tuple(suggestion_of(c, rejected) for c in checks)
    return _proposal(plan, made, len(accepted) + len(rejected), tuple(notes))


def _proposal(
    plan: Plan, suggestions: tuple[Suggestion, ...], batches: int, notes: tuple[str, ...]
) -> Proposal:
    model = plan.model
    subject = Subject(model.name, model.name, {}, f"{{{{ ref('{model.name}') }}}}", model=model)
    return Proposal(subject, Profile(model.name, 0, ()), 0, 0, 0, batches, suggestions, notes)


def _of_status(ledger: Sequence[Mapping[str, Any]], status: BatchStatus) -> list[str]:
    return sorted((r["batch"] for r in ledger if r["status"] == status.value), key=batch_order)


def _series(project: Project, rows: Sequence[Mapping[str, Any]]) -> list[MetricSeries]:
    """The stored metrics that an annotation can name, by column and name."""
    catalog = catalog_of(project)
    series: dict[tuple[str | None, str, str], dict[str, float]] = {}
    for row in rows:
        value, parameters = row["value"], row["parameters"] or ""
        is_plain = row["scope"] == "delta" and "where " not in f" {parameters}"
        if value is None or not math.isfinite(value) or not is_plain:
            continue
        if catalog.metric(row["metric"]) is not None:
            key = (row["column_name"], row["metric"], parameters)
            series.setdefault(key, {})[row["batch"]] = float(value)
    return [
        MetricSeries(column, metric, (parameters,) if parameters else (), values)
        for (column, metric, parameters), values in sorted(series.items(), key=str)
    ]

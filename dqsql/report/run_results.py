"""`run_results.json`: what a run found, in the shape of dbt's run-results artefact, version 6.

dbt's schema allows no keys of others, except below `adapter_response`: dqsql's own particulars
stand there under `dqsql`, so that tools made for dbt read the file as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dqsql.errors import DqsqlError, unique_errors
from dqsql.json_text import timestamp
from dqsql.model.by_key import by_key
from dqsql.model.plan import Check, Monitor, Plan
from dqsql.model.project import DBT_FRESHNESS, DBT_LIMIT, DBT_TEST
from dqsql.model.results import BatchFinding, ModelResult, Result, RunResult, Status, worst_status
from dqsql.report.events import finding_record, model_record
from dqsql.report.findings import describe, describe_batch, group_findings, run_status, tally_record

_SCHEMA = "https://schemas.getdbt.com/dbt/run-results/v6.json"
_MAX_FINDINGS = 100
_DBT_STATUS = {Status.NO_DATA: "warn"}
_FAILED = (Status.FAIL, Status.ERROR)
_UNEVALUATED = "no new batches"


def run_results(
    result: RunResult,
    plans: Sequence[Plan] = (),
    asked: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Any]:
    """The content of `run_results.json`: one entry per check, over all batches of the run.

    With `plans`, checks that had nothing new to look at are listed as skipped, and entries carry
    their expression. `asked` has the batches that the run was to check again, by model: those of a
    model that could not be checked still are.
    """
    by_model = {plan.model.name: plan for plan in plans}
    entries = [
        entry for model in result.models for entry in _entries(model, by_model.get(model.model))
    ]
    unjudged = {m.model for m in result.models if not m.results and (m.error or m.left_out)}
    for entry in entries:
        own = entry["adapter_response"]["dqsql"]
        if own["model"] in unjudged:
            own["failed_batches"] = sorted((asked or {}).get(own["model"], ()))
    return {
        "metadata": {
            "dbt_schema_version": _SCHEMA,
            "generated_at": timestamp(result.finished_at),
            "invocation_id": result.run_id,
            "env": {f"{name}_version": str(v) for name, v in result.versions.items()},
        },
        "results": entries,
        "elapsed_time": result.seconds,
        "args": dict(result.arguments),
    }


def run_record(result: RunResult, plans: Sequence[Plan] = ()) -> dict[str, Any]:
    """Return what `dqsql run --output json` prints: summary, models, one entry per check."""
    return {
        "status": run_status(result).value,
        "exit_code": result.exit_code,
        "run_id": result.run_id,
        "project": result.project,
        "target": result.target,
        "started_at": timestamp(result.started_at),
        "finished_at": timestamp(result.finished_at),
        "elapsed_time": result.seconds,
        "counts": tally_record(*result.models),
        "models": [model_record(model) for model in result.models],
        "results": run_results(result, plans)["results"],
        "warnings": list(result.warnings),
        "errors": [],
    }


def _entries(model: ModelResult, plan: Plan | None) -> Iterator[dict[str, Any]]:
    """One entry for each check; the two checks of a test with two thresholds share one."""
    definitions = {check.id: check for check in plan.declared} if plan else {}
    errors = _errors(model, plan)
    if plan is not None:
        definitions |= {check.id: check for check, _ in plan.refused if check.id in errors}
    by_check: dict[str, list[Result]] = {check_id: [] for check_id in definitions}
    for verdict in model.results:
        by_check.setdefault(verdict.check_id, []).append(verdict)
    groups = by_key((_unique_id(check_id, definitions), check_id) for check_id in by_check)
    joined = {uid: [v for i in ids for v in by_check[i]] for uid, ids in groups.items()}
    # All checks of a model share its scans: the time of one of them is its share.
    judged = sum(bool(verdicts) for verdicts in joined.values())
    share = model.seconds / judged if judged else 0.0
    for unique_id, verdicts in joined.items():
        definition = definitions.get(groups[unique_id][0])
        seconds = share if verdicts else 0.0
        error = errors.get(groups[unique_id][0], errors.get(None))
        yield _entry(model, unique_id, verdicts, definition, plan, seconds, error)
    if (model.error is not None or model.left_out) and not by_check:
        yield _entry(model, f"model.{model.model}", [], None, plan, model.seconds, model.error)


def _errors(model: ModelResult, plan: Plan | None) -> dict[str | None, DqsqlError]:
    """What is wrong, by the id of the check that it is about; at None what stopped all of them."""
    if model.error is None:
        return {}
    of_checks = {str(e) for e in plan.rejected} if plan and plan.refused else set()
    if plan is None or not {str(e) for e in unique_errors([model.error])} <= of_checks:
        return {None: model.error}
    return {check.id: error for check, error in plan.refused}


def _unique_id(check_id: str, definitions: Mapping[str, Check | Monitor]) -> str:
    """The id of a check; that of dbt's test for one that was adopted."""
    definition = definitions.get(check_id)
    dbt_id = definition.settings.options.get(DBT_TEST) if definition else None
    return check_id if dbt_id is None else str(dbt_id)


def _entry(
    model: ModelResult,
    check_id: str,
    verdicts: Sequence[Result],
    definition: Check | Monitor | None,
    plan: Plan | None,
    seconds: float,
    error: DqsqlError | None,
) -> dict[str, Any]:
    status = _status(error, verdicts)
    return {
        "unique_id": check_id,
        "status": _DBT_STATUS.get(status, status.value),
        "message": _message(model, error, verdicts),
        "failures": _failures(model, verdicts, definition),
        "execution_time": seconds,
        "timing": [],
        "thread_id": "main",
        "adapter_response": {"dqsql": _particulars(model, status, verdicts, definition)},
        "compiled": definition is not None,
        "compiled_code": None,
        "relation_name": plan.model.relation if plan else None,
        "batch_results": None,
    }


def _failures(
    model: ModelResult, verdicts: Sequence[Result], definition: Check | Monitor | None
) -> int | None:
    """How many batches and segments the check is not content with.

    For a test of dbt, how many rows dbt's query would return over the batches of the run.
    """
    if not verdicts:
        return None
    findings = [v for v in verdicts if v.is_finding]
    if definition is None or DBT_TEST not in definition.settings.options:
        return len(findings)
    if all(v.status is Status.ERROR for v in verdicts):
        return None
    # Both checks of a test with two thresholds, and a batch's segments, are about the same rows.
    by_batch: dict[str | None, int] = {}
    for v in findings:
        if v.observed is not None and math.isfinite(v.observed):
            by_batch[v.batch] = max(by_batch.get(v.batch, 0), int(v.observed))
    counted = sum(by_batch.values()) if by_batch else len(findings)
    returned = model.returned.get(definition.id, counted)
    limit = definition.settings.options.get(DBT_LIMIT)
    return returned if limit is None else min(returned, int(limit))


def _status(error: DqsqlError | None, verdicts: Sequence[Result]) -> Status:
    if not verdicts:
        return Status.SKIPPED if error is None else Status.ERROR
    judged = [v.status for v in verdicts if v.status is not Status.SKIPPED]
    return worst_status(judged) if judged else Status.SKIPPED


def _message(
    model: ModelResult, error: DqsqlError | None, verdicts: Sequence[Result]
) -> str | None:
    if not verdicts:
        return str(error) if error is not None else model.skipped or _UNEVALUATED
    groups = group_findings(verdicts)
    if groups:
        return describe(groups[0], max(len(model.batches), groups[0].batches))
    skipped = [v for v in verdicts if v.status is Status.SKIPPED]
    return skipped[0].message if len(skipped) == len(verdicts) else None


def _particulars(
    model: ModelResult,
    status: Status,
    verdicts: Sequence[Result],
    definition: Check | Monitor | None,
) -> Mapping[str, Any]:
    known = verdicts[0] if verdicts else None
    source = known or definition
    found = sorted((v for v in verdicts if v.is_finding), key=lambda v: v.segment or "")
    # The newest batch comes first, and of a batch all rows.
    findings = sorted(found, key=lambda v: (v.batch or "", v.segment is None), reverse=True)
    return {
        "status": status.value,
        "model": model.model,
        "column": source.column if source else None,
        "check_name": known.check_name if known else definition.name if definition else None,
        "detector": known.detector if known else None,
        "severity": source.severity.value if source else None,
        "expression": definition.expression if definition else None,
        "file": definition.span.file if definition else model.path,
        "line": definition.span.line if definition else None,
        "tags": list(definition.tags) if definition else [],
        "batches": len({v.batch for v in verdicts}),
        "verdicts": len(verdicts),
        "findings": [finding_record(v) for v in findings[:_MAX_FINDINGS]],
        "findings_left_out": max(len(findings) - _MAX_FINDINGS, 0),
        # What `dqsql retry` checks again: models that the run did not come to, and batches.
        "left_out": model.left_out,
        "unreviewed_batches": len(model.waiting),
        "failed_batches": sorted({v.batch for v in findings if v.batch and v.status in _FAILED}),
        # A batch's findings are listed once: with the check that found its first root symptom.
        "batch_findings": [
            batch_record(g)
            for g in model.groups
            if len(g.findings) > 1 and g.roots[0].check_id in {v.check_id for v in verdicts}
        ][-_MAX_FINDINGS:],
    }


def batch_record(finding: BatchFinding) -> dict[str, Any]:
    """Return what was found in a batch as plain data: ids of verdicts, root symptoms first."""
    return {
        "model": finding.model,
        "batch": finding.batch,
        "severity": finding.severity.value,
        "segments": list(finding.segments),
        "message": describe_batch(finding),
        "symptoms": [
            {"id": f.result.id, "cause": f.cause.id if f.cause else None}
            for f in finding.findings[:_MAX_FINDINGS]
        ],
        "symptoms_left_out": max(len(finding.findings) - _MAX_FINDINGS, 0),
    }


# --- sources.json: how fresh the sources of a dbt project are ------------------------------------

SOURCES = "sources.json"
_SOURCES_SCHEMA = "https://schemas.getdbt.com/dbt/sources/v3.json"
_SOURCE_STATUS = {Status.FAIL: "error", Status.WARN: "warn", Status.NO_DATA: "warn"}
_ORDER = ("error", "warn", "pass")


def sources_record(result: RunResult, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the content of `sources.json`: one entry for each source whose age was measured."""
    verdicts = by_key((v.check_id, v) for v in result.results)
    entries = []
    for plan in plans:
        checks = [c for c in plan.checks if DBT_FRESHNESS in c.settings.options]
        judged = [(c, v) for c in checks for v in verdicts.get(c.id, ()) if v.segment is None]
        if judged:
            entries.append(_source_entry(result, plan, judged))
    return {
        "metadata": {
            "dbt_schema_version": _SOURCES_SCHEMA,
            "generated_at": timestamp(result.finished_at),
            "invocation_id": result.run_id,
            "env": {},
        },
        "results": entries,
        "elapsed_time": result.seconds,
    }


def _source_entry(
    result: RunResult, plan: Plan, judged: Sequence[tuple[Check, Result]]
) -> dict[str, Any]:
    dbt = plan.model.dbt
    unique_id = str(dbt.get("unique_id") or plan.model.unique_id)
    if any(v.status is Status.ERROR for _, v in judged):
        message = next(v.message for _, v in judged if v.status is Status.ERROR)
        return {"unique_id": unique_id, "error": message, "status": "runtime error"}
    hours = next((v.observed for _, v in judged if v.observed is not None), None)
    age = None if hours is None else timedelta(hours=hours)
    statuses = {_SOURCE_STATUS.get(v.status, "pass") for _, v in judged}
    never = datetime.min.replace(tzinfo=UTC)
    loaded = never if age is None else _before(result.started_at, age)
    config = dbt.get("config") or {}
    rules = config.get("freshness") or dbt.get("freshness") or {}
    return {
        "unique_id": unique_id,
        "max_loaded_at": timestamp(loaded),
        "snapshotted_at": timestamp(result.started_at),
        "max_loaded_at_time_ago_in_s": (age or result.started_at - loaded).total_seconds(),
        "status": next(s for s in _ORDER if s in statuses),
        "criteria": {
            "warn_after": rules.get("warn_after"),
            "error_after": rules.get("error_after"),
            "filter": rules.get("filter"),
        },
        "adapter_response": {},
        "timing": [],
        "thread_id": "main",
        "execution_time": 0.0,
    }


def _before(moment: datetime, age: timedelta) -> datetime:
    """The moment of an age; the calendar's first or last where it lies outside of Python's.

    To the millisecond: ages in hours that were rounded give other microseconds in each run.
    """
    try:
        rounded = moment - age + timedelta(microseconds=500)
        return rounded.replace(microsecond=rounded.microsecond // 1000 * 1000)
    except OverflowError:
        end = datetime.max if age < timedelta() else datetime.min
        return end.replace(tzinfo=UTC)

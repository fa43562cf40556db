"""`sources.json`: how fresh the sources of a dbt project are, in the shape of dbt's artefact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dqsql.model.plan import Check, Plan
from dqsql.model.project import DBT_FRESHNESS
from dqsql.model.results import Result, RunResult, Status
from dqsql.report.jsonable import timestamp

SOURCES = "sources.json"
SCHEMA = "https://schemas.getdbt.com/dbt/sources/v3.json"
_STATUS = {Status.FAIL: "error", Status.WARN: "warn", Status.NO_DATA: "error"}
_ORDER = ("error", "warn", "pass")


def sources_record(result: RunResult, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the content of `sources.json`: one entry for each source whose age was measured."""
    verdicts: dict[str, list[Result]] = {}
    for verdict in result.results:
        verdicts.setdefault(verdict.check_id, []).append(verdict)
    entries = []
    for plan in plans:
        checks = [c for c in plan.checks if DBT_FRESHNESS in c.settings.options]
        judged = [(c, v) for c in checks for v in verdicts.get(c.id, ()) if v.segment is None]
        if judged:
            entries.append(_entry(result, plan, judged))
    return {
        "metadata": {
            "dbt_schema_version": SCHEMA,
            "generated_at": timestamp(result.finished_at),
            "invocation_id": result.run_id,
            "env": {},
        },
        "results": entries,
        "elapsed_time": result.seconds,
    }


def _entry(result: RunResult, plan: Plan, judged: Sequence[tuple[Check, Result]]) -> dict[str, Any]:
    dbt = plan.model.config.extra.get("dbt") or {}
    unique_id = str(dbt.get("unique_id") or plan.model.unique_id)
    if any(v.status is Status.ERROR for _, v in judged):
        message = next(v.message for _, v in judged if v.status is Status.ERROR)
        return {"unique_id": unique_id, "error": message, "status": "runtime error"}
    hours = next((v.observed for _, v in judged if v.observed is not None), None)
    age = None if hours is None else timedelta(hours=hours)
    statuses = {_STATUS.get(v.status, "pass") for _, v in judged}
    loaded = _before(result.started_at, age if age is not None else timedelta())
    config = dbt.get("config") or {}
    rules = config.get("freshness") or {}
    return {
        "unique_id": unique_id,
        "max_loaded_at": timestamp(loaded),
        "snapshotted_at": timestamp(result.started_at),
        "max_loaded_at_time_ago_in_s": 0.0 if age is None else age.total_seconds(),
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
    """The moment of an age; the calendar's first or last where it lies outside of Python's."""
    try:
        return moment - age
    except OverflowError:
        end = datetime.max if age < timedelta() else datetime.min
        return end.replace(tzinfo=UTC)

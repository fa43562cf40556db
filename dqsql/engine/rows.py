"""Rows of the warehouse tables from the things that a run produces."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dqsql.json_text import to_json
from dqsql.model.by_key import by_key
from dqsql.model.events import COMPILE, DECIDE, DISCOVERY, SCAN
from dqsql.model.plan import PROFILES, Check, Monitor, Plan
from dqsql.model.project import Project, Severity
from dqsql.model.results import MetricProfile, MetricValue, ModelResult, Result, RunResult, Status
from dqsql.model.table import Table
from dqsql.model.tables import CHECKS, COLUMNS, DISTRIBUTIONS, FAILURES, METRICS, MODELS, RESULTS

if TYPE_CHECKING:
    from dqsql.engine.failing_rows import Samples
    from dqsql.engine.measurement import Measurement
    from dqsql.engine.storage import Store
    from dqsql.monitors.judging import Judged

Row = dict[str, Any]


def metric_row(value: MetricValue, run_id: str, now: dt.datetime) -> Row:
    """A row of dq_metrics."""
    return {
        "model": value.model,
        "batch": value.batch,
        "segment": value.segment,
        "column_name": value.column,
        "metric": value.metric,
        "parameters": value.parameters or None,
        "scope": value.scope,
        "value": value.value,
        "value_text": value.value_text,
        "sample_size": value.sample_size,
        "run_id": run_id,
        "computed_at": now,
    }


def distribution_row(value: MetricValue, run_id: str, now: dt.datetime) -> Row:
    """A row of dq_distributions from a metric that is a profile with a value."""
    profile = MetricProfile.from_json(value.value_text or "[]")
    return {
        "model": value.model,
        "batch": value.batch,
        "segment": value.segment,
        "column_name": value.column,
        "profile": value.metric,
        "parameters": value.parameters or None,
        "quantiles": list(profile.quantiles) or None,
        "labels": list(profile.labels) or None,
        "counts": list(profile.counts) or None,
        "other": profile.other,
        "run_id": run_id,
        "computed_at": now,
    }


# Columns of dq_results that have another name than the field of a Result.
_COLUMNS = {
    "column": "column_name",
    **{"lower": "lower_bound", "upper": "upper_bound"},
    **{"warn_lower": "warn_lower_bound", "warn_upper": "warn_upper_bound"},
}
_PLAIN = tuple(
    (f.name, _COLUMNS.get(f.name, f.name))
    for f in fields(Result)
    if f.name not in ("status", "severity", "details")
)


def result_row(result: Result, run_id: str, now: dt.datetime) -> Row:
    """A row of dq_results."""
    return {
        **{column: getattr(result, name) for name, column in _PLAIN},
        "run_id": run_id,
        "status": result.status.value,
        "severity": result.severity.value,
        "details": json.dumps(_json_safe(dict(result.details)), sort_keys=True),
        "evaluated_at": now,
    }


class StoredDetails(Mapping[str, Any]):
    """The details of a stored verdict, decoded when one is asked for that may be there.

    A report reads millions of verdicts, and of most of them nothing but the status.
    """

    __slots__ = ("_decoded", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoded: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        if self._decoded is None:
            self._decoded = json.loads(self._text)
        return self._decoded

    def get(self, key: str, default: Any = None) -> Any:
        """See `dict.get`."""
        # Names of details are plain ASCII words, which JSON writes as they are.
        return self._all().get(key, default) if f'"{key}"' in self._text else default

    def __getitem__(self, key: str) -> Any:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


_STATUSES = {s.value: s for s in Status}
_SEVERITIES = {s.value: s for s in Severity}


# Of the columns of dq_results, what a verdict does not hold; moments take as long as all the rest.
_NOT_OF_RESULTS = ("run_id", "evaluated_at")
RESULT_COLUMNS = tuple(c for c in RESULTS.column_names if c not in _NOT_OF_RESULTS)
"""The columns that `result_of_row` reads."""


def result_of_row(row: Mapping[str, Any]) -> Result:
    """A verdict as it was, of its row of dq_results."""
    return Result(
        **{name: row[column] for name, column in _PLAIN},
        status=_STATUSES[row["status"]],
        severity=_SEVERITIES[row["severity"]],
        details=StoredDetails(row["details"] or "{}"),
    )


def _json_safe(value: Any) -> Any:
    """NaN and the infinities as text, which JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _json_safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(v) for v in value]
    return value


def run_row(result: RunResult, ansi: bool, git_sha: str | None, versions: Mapping[str, int]) -> Row:
    """The row of dq_runs; `versions` are those of the tables when the run ends."""
    names = {0: "pass", 1: "fail", 2: "error"}
    # One that could not be checked has read nothing that is known.
    read = [m.bytes_read for m in result.models if m.batches]
    return {
        "run_id": result.run_id,
        "project": result.project,
        "target": result.target,
        "arguments": to_json(dict(sorted(result.arguments.items()))),
        "started_at": result.started_at,
        "finished_at": result.finished_at,
        "status": names[result.exit_code],
        "dqsql_version": result.versions.get("dqsql"),
        "spark_version": result.versions.get("spark"),
        "git_sha": git_sha,
        "ansi": ansi,
        "models": len(result.models),
        "checks": sum(m.checks for m in result.models),
        "batches": sum(len(m.batches) for m in result.models),
        "scans": sum(m.scans for m in result.models),
        "rows_scanned": sum(m.rows for m in result.models),
        "bytes_read": None if None in read else sum(n for n in read if n is not None),
        "versions": json.dumps(versions, sort_keys=True),
    }


def model_run_row(
    model: ModelResult, run: RunResult, *, start_seconds: float, write_seconds: float
) -> Row:
    """A row of dq_model_runs."""
    phases = model.phases
    return {
        "run_id": run.run_id,
        "model": model.model,
        "status": model.status.value,
        "started_at": run.started_at,
        "batches": len(model.batches),
        "checks": model.checks,
        "metrics": model.metrics,
        "findings": sum(r.is_finding for r in model.results),
        "scans": model.scans,
        "rows": model.rows,
        "bytes": model.bytes_read,
        "seconds": sum(phases.values()) or model.seconds,
        "start_seconds": start_seconds,
        "compile_seconds": phases.get(COMPILE),
        "discovery_seconds": phases.get(DISCOVERY),
        "scan_seconds": phases.get(SCAN),
        "decide_seconds": phases.get(DECIDE),
        "write_seconds": write_seconds,
        "error": None if model.error is None else str(model.error),
    }


def column_dimensions(plan: Plan, types: Mapping[str, str]) -> list[Row]:
    """The describing columns of the rows of a model in dq_columns."""
    about = Counter(name for c in plan.declared for name in _checked_columns(plan, c))
    model = plan.model
    return [
        {
            "column_id": f"{model.name}.{name}",
            "model": model.name,
            "column_name": name,
            "data_type": kind,
            "position": position,
            "checks": about[name.lower()],
            "owner": model.config.owner,
        }
        for position, (name, kind) in enumerate(types.items(), start=1)
    ]


def _checked_columns(plan: Plan, check: Check | Monitor) -> set[str]:
    """The column that a check is about, and those that it computes something of, in lower case.

    Of a check with a condition these cannot be told from what the condition reads; a monitor
    computes something of those that it names.
    """
    from dqsql.compiler.output_columns import columns_of

    named = not isinstance(check, Monitor) or check.positional
    is_read = named and not check.settings.where
    read = columns_of(plan.states_of(check.metrics)) if is_read else set()
    return {name.lower() for name in (*read, *filter(None, [check.column]))}


def model_dimension(plan: Plan) -> Row:
    """The describing columns of a model's row in dq_models."""
    config = plan.model.config
    return {
        "model": plan.model.name,
        "path": plan.model.path,
        "owner": config.owner,
        "description": config.description,
        "tags": list(config.tags),
        "batch_by": config.batch_by,
        "segment_by": list(config.segment_by),
        "checksum": plan.model.checksum,
    }


def check_dimensions(plan: Plan) -> list[Row]:
    """The describing columns of a model's rows in dq_checks."""
    checks = [(c, "constraint") for c in plan.checks] + [(m, m.kind) for m in plan.monitors]
    return [
        {
            "check_id": check.id,
            "model": check.model,
            "column_name": check.column,
            "check_name": check.name,
            "detector": detector,
            "expression": check.expression,
            "where": check.settings.where,
            "severity": check.severity.value,
            "owner": plan.model.config.owner,
            "description": check.settings.description,
            "tags": list(check.tags),
            "file": check.span.file,
            "line": check.span.line,
        }
        for check, detector in checks
    ]


def merge_dimension(
    old: Sequence[Mapping[str, Any]],
    new: Sequence[Row],
    key: str,
    now: dt.datetime,
    stands: Callable[[Mapping[str, Any]], bool],
) -> list[Row] | None:
    """Slowly changing rows of one model: close what changed or went, add what is new.

    What is not among the new ones went, unless it `stands`. Returns all rows of the model, or None
    when nothing changed.
    """
    current = {row[key]: row for row in old if row["valid_to"] is None}
    rows = [dict(row) for row in old if row["valid_to"] is not None]
    changed = False
    for row in new:
        before = current.pop(row[key], None)
        if before is not None and all(before[name] == value for name, value in row.items()):
            rows.append(dict(before))
            continue
        changed = True
        if before is not None:
            rows.append({**before, "valid_to": now})
        rows.append({**row, "valid_from": now, "valid_to": None})
    standing = [key for key, row in current.items() if stands(row)]
    rows.extend(dict(current.pop(key)) for key in standing)
    rows.extend({**row, "valid_to": now} for row in current.values())
    return rows if changed or current else None


def model_rows(
    measured: Measurement,
    judged: Judged,
    samples: Samples,
    run_id: str,
    now: dt.datetime,
    batches: Collection[str],
) -> dict[Table, Sequence[Row]]:
    """All rows that are stored of a model's batches, by their tables."""
    plain = [v for v in measured.values if v.metric not in PROFILES]
    rows: dict[Table, Sequence[Row]] = {
        METRICS: [metric_row(v, run_id, now) for v in (*plain, *judged.values)],
        RESULTS: [result_row(r, run_id, now) for r in samples.results],
        FAILURES: [
            *samples.rows,
            *({**r, "run_id": run_id, "captured_at": now} for r in judged.failures),
        ],
    }
    if len(plain) < len(measured.values):
        profiles = [v for v in measured.values if v.metric in PROFILES and v.value_text]
        rows[DISTRIBUTIONS] = [distribution_row(v, run_id, now) for v in profiles]
    return {table: [r for r in mine if r["batch"] in batches] for table, mine in rows.items()}


def store_dimensions(
    store: Store,
    plans: Sequence[Plan],
    types: Mapping[str, Mapping[str, str]],
    now: dt.datetime,
    gone: Collection[str],
    project: Project,
) -> None:
    """Bring dq_models, dq_checks and dq_columns up to date; write only what changed.

    `types` are the columns of each model's result, by its name. Models that are `gone` have no
    rows that are valid now, but for those with checks that the project leaves alone.
    """
    stored = {table: store.rows(table) for table in (MODELS, CHECKS, COLUMNS)}
    checks = (r for r in stored[CHECKS] if r["valid_to"] is None)
    of_others = {r["model"] for r in checks if project.leaves_alone(r["check_name"])}

    def stands(row: Mapping[str, Any]) -> bool:
        if "check_name" in row:
            return project.leaves_alone(row["check_name"])
        return row["model"] in gone and row["model"] in of_others

    # The models come last: one that is gone is looked for among those in force, so that a run that
    # is killed before has the next one do it all again.
    for table, key, describe in (
        (CHECKS, "check_id", check_dimensions),
        (COLUMNS, "column_id", lambda p: column_dimensions(p, types.get(p.model.name, {}))),
        (MODELS, "model", lambda p: [model_dimension(p)]),
    ):
        rows = []
        by_model = by_key((row["model"], row) for row in stored[table])
        new = {plan.model.name: describe(plan) for plan in plans} | {m: [] for m in gone}
        for model, described in new.items():
            before = by_model.get(model, [])
            rows.extend(merge_dimension(before, described, key, now, stands) or [])
        if rows:
            store.replace_partition(table, rows)

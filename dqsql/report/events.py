"""The progress of a run as JSON lines, in the shape of dbt's structured logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from dqsql.errors import DqsqlError, unique_errors
from dqsql.json_text import timestamp, to_json
from dqsql.model.events import RunListener
from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.model.wording import plural
from dqsql.report.errors import error_record
from dqsql.report.findings import FindingGroup, describe, group_findings, run_status, tally_record
from dqsql.report.terminal import Terminal
from dqsql.report.text import file_size

_LEVELS = {Status.FAIL: "error", Status.ERROR: "error", Status.WARN: "warn", Status.NO_DATA: "warn"}


def _utc_now() -> datetime:
    return datetime.now(UTC)


class JsonListener(RunListener):
    """Writes one JSON object per event: `info` as dbt has it, `data` with the particulars.

    With `quiet` failures and errors only.
    """

    def __init__(
        self, out: Terminal, *, quiet: bool = False, clock: Callable[[], datetime] = _utc_now
    ) -> None:
        self._out = out
        self._quiet = quiet
        self._clock = clock
        self._run_id: str | None = None

    def run_started(self, run_id: str, models: int, checks: int, target: str) -> None:
        """Write `RunStarted`."""
        self._run_id = run_id
        data = {"models": models, "checks": checks, "target": target}
        message = f"{plural(models, 'check model')}, {plural(checks, 'check')}"
        self._event("RunStarted", "info", message, data)

    def inputs_found(self, sizes: Mapping[str, int]) -> None:
        """Write `InputsFound`, if any size is known."""
        if sizes:
            text = f"{file_size(sum(sizes.values()))} to read"
            self._event("InputsFound", "info", text, {"bytes": dict(sizes)})

    def session_starting(self) -> None:
        """Write `SessionStarting`."""
        self._event("SessionStarting", "info", "starting Spark", {})

    def model_started(self, index: int, total: int, model: str) -> None:
        """Write `ModelStarted`."""
        data = {"index": index, "total": total, "model": model}
        self._event("ModelStarted", "info", f"{index} of {total} START {model}", data)

    def model_step(self, model: str, step: str) -> None:
        """Write `ModelStep`."""
        self._event("ModelStep", "info", f"{model}: {step}", {"model": model, "step": step})

    def model_finished(self, index: int, total: int, result: ModelResult) -> None:
        """Write the findings of the model, one event per check, then `ModelFinished`."""
        for group in group_findings(result.results):
            self._finding(result, group)
        if result.error is not None:
            self.error(result.error, result.model)
        data = {"index": index, "total": total, **model_record(result)}
        level = _LEVELS.get(result.status, "info")
        text = f"{index} of {total} {result.status.value.upper()} {result.model}"
        self._event("ModelFinished", level, text, data)

    def run_finished(self, result: RunResult) -> None:
        """Write the warnings of the run, then `RunFinished`."""
        for warning in result.warnings:
            self.warning(warning)
        status = run_status(result)
        data = {
            "status": status.value,
            "exit_code": result.exit_code,
            "counts": tally_record(*result.models),
            "elapsed_time": result.seconds,
        }
        self._event("RunFinished", _LEVELS.get(status, "info"), f"done: {status.value}", data)

    def warning(self, text: str) -> None:
        """Write `Warning`."""
        self._event("Warning", "warn", text, {})

    def error(self, error: DqsqlError, model: str | None = None) -> None:
        """Write one `Error` per independent error."""
        for each in unique_errors([error]):
            data = {"model": model, **error_record(each)}
            self._event("Error", "error", str(each), data)

    def _finding(self, result: ModelResult, group: FindingGroup) -> None:
        data = {
            "model": result.model,
            "check_id": group.check_id,
            "check_name": group.check_name,
            "column": group.column,
            "status": group.status.value,
            "batches": group.batches,
            "worst": finding_record(group.worst),
        }
        text = describe(group, max(len(result.batches), group.batches))
        self._event("Finding", _LEVELS[group.status], text, data)

    def _event(self, name: str, level: str, message: str, data: dict[str, Any]) -> None:
        if self._quiet and level != "error":
            return
        info = {
            "name": name,
            "level": level,
            "msg": message,
            "ts": timestamp(self._clock()),
            "invocation_id": self._run_id,
        }
        self._out.line(to_json({"info": info, "data": data}))


def finding_record(result: Result) -> dict[str, Any]:
    """Return one verdict as plain data, under the names of the columns of `dq_results`."""
    return {
        "id": result.id,
        "batch": result.batch,
        "segment": result.segment,
        "status": result.status.value,
        "observed": result.observed if result.observed is not None else result.observed_text,
        "lower_bound": result.lower,
        "upper_bound": result.upper,
        "score": result.score,
        "message": result.message,
    }


def model_record(result: ModelResult) -> dict[str, Any]:
    """Return what a run did for one model as plain data, without its verdicts."""
    return {
        "model": result.model,
        "path": result.path,
        "status": result.status.value,
        "batches": len(result.batches),
        "checks": result.checks,
        "metrics": result.metrics,
        "scans": result.scans,
        "rows": result.rows,
        "counts": tally_record(result),
        "skipped": result.skipped,
        "errors": [error_record(e) for e in unique_errors([result.error])] if result.error else [],
        "notes": list(result.notes),
        "owed": result.owed,
        "execution_time": result.seconds,
    }

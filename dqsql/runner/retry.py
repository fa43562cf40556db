"""What `dqsql retry` does again: the models and batches that the last run was not content with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqsql.errors import UsageError
from dqsql.json_text import Shape, read_json
from dqsql.model.project import Project
from dqsql.runner.compilation import Variables
from dqsql.runner.variables import is_kept_hash, kept_variables

# What the last run was told, and a retry is told again.
_KEPT = (
    *("target", "profile", "profiles_dir", "vars", "dbt_tests"),
    *("fail_fast", "full_refresh", "store_failures", "quarantine", "only_new"),
    *("batches", "event_time_start", "event_time_end"),
)
_SHAPE: Shape = {
    "results": [
        {
            "status": str,
            "adapter_response": {
                "dqsql": {"model": str, "failed_batches?": [str], "left_out?": bool},
            },
        }
    ],
    "args?": {
        "target?": str,
        "profile?": str,
        "profiles_dir?": str,
        "vars?": (dict, str),
        "dbt_tests?": bool,
        "fail_fast?": bool,
        "full_refresh?": bool,
        "store_failures?": bool,
        "quarantine?": bool,
        "batches?": [str],
        "event_time_start?": str,
        "event_time_end?": str,
    },
}
_REPEATED = ("error", "fail", "skipped")


@dataclass(frozen=True)
class Retry:
    """The models to check again, with the batches that failed; none: those that are new."""

    batches: Mapping[str, tuple[str, ...]]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def refuse_other_variables(
    before: Mapping[str, Any] | None, given: Variables, project: Project
) -> None:
    """Refuse to retry with other variables than those whose hashes the last run has kept.

    Raises UsageError.
    """
    kept = {name for name, value in (before or {}).items() if is_kept_hash(value)}
    if not kept or before == kept_variables(given, project):
        return
    raise UsageError(
        f"the last run was given other values of {', '.join(sorted(kept))}, which are not kept",
        hint="give the same --vars again, or set store_vars: true in dqsql_project.yml",
    )


def read_retry(file: Path) -> Retry:
    """What the run that wrote a `run_results.json` leaves to do. Raises UsageError."""
    if not file.is_file():
        raise UsageError(f"there is no {file}", hint="`dqsql run` writes it")
    try:
        data = read_json(file, _SHAPE)
        results = [(r["status"], r["adapter_response"]["dqsql"]) for r in data["results"] or ()]
        arguments = data.get("args") or {}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{file} is not of a run of dqsql", hint="run `dqsql run`") from error
    batches: dict[str, dict[str, None]] = {}
    for status, own in results:
        failed = own.get("failed_batches") or ()
        # Models after one that failed fast were skipped; those without new batches, too.
        unreached = status == "skipped" and own.get("left_out") is True
        if status in _REPEATED and (failed or unreached or status == "error"):
            batches.setdefault(str(own["model"]), {}).update(dict.fromkeys(failed))
    kept = {key: arguments[key] for key in _KEPT if arguments.get(key) not in (None, [])}
    return Retry({model: tuple(b) for model, b in batches.items()}, kept)

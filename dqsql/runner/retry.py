"""What `dqsql retry` does again: the models and batches that the last run was not content with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqsql.errors import UsageError

# What the last run was told, and a retry is told again.
_KEPT = (
    *("target", "profile", "profiles_dir", "vars", "dbt_tests"),
    *("fail_fast", "full_refresh", "store_failures", "only_new"),
    *("batches", "event_time_start", "event_time_end"),
)
_REPEATED = ("error", "fail", "skipped")


@dataclass(frozen=True)
class Retry:
    """The models to check again, with the batches that failed; none: those that are new."""

    batches: Mapping[str, tuple[str, ...]]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_retry(file: Path) -> Retry:
    """What the run that wrote a `run_results.json` leaves to do. Raises UsageError."""
    if not file.is_file():
        raise UsageError(f"there is no {file}", hint="`dqsql run` writes it")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        results = [(r["status"], r["adapter_response"]["dqsql"]) for r in data["results"]]
        arguments = data.get("args") or {}
    except (OSError, ValueError, KeyError, TypeError) as error:
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

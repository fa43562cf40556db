"""What `dqsql retry` does again: the models and batches that the last run was not content with.

A run keeps the names of `--vars` and hashes of their values, unless the project says more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqsql.engine.project_key import project_key
from dqsql.errors import UsageError
from dqsql.json_text import Shape, read_json, to_json
from dqsql.loading import parse_vars
from dqsql.model.project import Project
from dqsql.runner.compilation import Variables

SETTING = "store_vars"
_HASH = re.compile(r"hmac-sha256:[0-9a-f]{16}")


def kept_variables(given: Variables, project: Project) -> dict[str, Any] | None:
    """What dq_runs and run_results.json say of the variables that a run was given.

    A hash with the project's key by name; the values themselves with `store_vars: true`.
    """
    values = parse_vars(given) if isinstance(given, str) else given
    if not values:
        return None
    if project.settings.get(SETTING) is True:
        return dict(values)
    key = project_key(project.root).encode()
    return {name: _hash(key, value) for name, value in sorted(values.items())}


def _hash(key: bytes, value: object) -> str:
    digest = hmac.new(key, to_json(value).encode(), hashlib.sha256).hexdigest()
    return f"hmac-sha256:{digest[:16]}"


def is_kept_hash(value: object) -> bool:
    """Whether this is what `kept_variables` keeps in place of a value."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


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
                "dqsql": {"model": str, "failed_batches?": [str], "left_out?": bool}
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
        f"the last run had other values for {', '.join(sorted(kept))}, which are not stored",
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
        raise UsageError(
            f"{file} does not come from a run of dqsql", hint="run `dqsql run`"
        ) from error
    batches: dict[str, dict[str, None]] = {}
    for status, own in results:
        failed = own.get("failed_batches") or ()
        # Models after one that failed fast were skipped; those without new batches, too.
        unreached = status == "skipped" and own.get("left_out") is True
        if status in _REPEATED and (failed or unreached or status == "error"):
            batches.setdefault(str(own["model"]), {}).update(dict.fromkeys(failed))
    kept = {key: arguments[key] for key in _KEPT if arguments.get(key) not in (None, [])}
    return Retry({model: tuple(b) for model, b in batches.items()}, kept)

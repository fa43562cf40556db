"""Reads dbt's `run_results.json`: which batches of which models its last invocation built."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dqsql.json_text import Shape, read_json

RESULTS = "run_results.json"
_BUILT = ("success", "partial success")
_SHAPE: Shape = {
    "metadata": {"generated_at": str},
    "args?": dict,
    "results?": [
        {"unique_id?": str, "status?": str, "batch_results?": {"successful?": [list]}},
    ],
}


@dataclass(frozen=True)
class Rebuild:
    """What one invocation of dbt, which ended `at`, built of a model.

    Half-open intervals, as ISO timestamps, or everything: a full refresh.
    """

    at: dt.datetime
    intervals: tuple[tuple[str, str], ...] = ()
    everything: bool = False


def read_rebuilds(file: Path) -> dict[str, Rebuild]:
    """What dbt's last invocation built of incremental models, by unique id.

    A file that is missing or cannot be read says nothing: dbt replaces it with every invocation,
    also with those that build nothing.
    """
    try:
        data = read_json(file, _SHAPE)
        at = dt.datetime.fromisoformat(data["metadata"]["generated_at"])
    except (OSError, ValueError, TypeError):
        return {}
    everything = bool((data.get("args") or {}).get("full_refresh"))
    return dict(_rebuilds(data.get("results") or [], at, everything=everything))


def _rebuilds(
    results: list[Mapping[str, Any]], at: dt.datetime, *, everything: bool
) -> Iterator[tuple[str, Rebuild]]:
    for result in results:
        unique_id = str(result.get("unique_id"))
        if not unique_id.startswith("model.") or result.get("status") not in _BUILT:
            continue
        batches = (result.get("batch_results") or {}).get("successful") or []
        intervals = tuple((str(pair[0]), str(pair[1])) for pair in batches if len(pair) == 2)
        if intervals or everything:
            yield unique_id, Rebuild(at, intervals, everything)

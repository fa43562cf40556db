"""Reads dbt's `run_results.json`: which batches of which models its last invocation built."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = "run_results.json"
_BUILT = ("success", "partial success")


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
        data = json.loads(file.read_text(encoding="utf-8"))
        at = dt.datetime.fromisoformat(str(data["metadata"]["generated_at"]))
    except (OSError, ValueError, KeyError, TypeError):
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
        intervals = tuple((str(start), str(end)) for start, end in batches)
        if intervals or everything:
            yield unique_id, Rebuild(at, intervals, everything)

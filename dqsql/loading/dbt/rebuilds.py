"""What dbt built in its last invocation, and what not.

Batches built since they were checked are new again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dqsql.json_text import Shape, read_json
from dqsql.model.batches import in_zone, read_time
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.model.wording import first_of

_BUILT = ("success", "partial success")
_FAILED, _SKIPPED = ("error", "partial success"), ("skipped",)
# Of what builds relations; None: the file does not say.
_BUILDS = (None, "build", "run", "seed", "snapshot", "retry", "clone")
_RESULTS_SHAPE: Shape = {
    "metadata": {"generated_at": str},
    "args?": dict,
    "results?": [{"unique_id?": str, "status?": str, "batch_results?": {"successful?": [list]}}],
}


@dataclass(frozen=True)
class Rebuild:
    """What one invocation of dbt, which ended `at`, built of a model.

    Half-open intervals, as ISO timestamps, or everything: a full refresh.
    """

    at: dt.datetime
    intervals: tuple[tuple[str, str], ...] = ()
    everything: bool = False


@dataclass(frozen=True)
class LastBuild:
    """What dbt's last invocation built of incremental models, by unique id, and what it did not.

    `failed` and `skipped` are the unique ids of what should have been built.
    """

    rebuilds: Mapping[str, Rebuild] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def warning(self, names: Mapping[str, str]) -> str | None:
        """That some models, of these names by unique id, are those of an earlier build."""
        told = [
            f"{first_of(known, 3)} {verb}"
            for ids, verb in ((self.failed, "failed"), (self.skipped, "skipped"))
            if (known := [names[i] for i in ids if i in names])
        ]
        if not told:
            return None
        return f"dbt's last invocation: {', '.join(told)}; what is checked is what was there before"


def read_last_build(file: Path) -> LastBuild:
    """What dbt's last invocation did.

    A file that is missing or cannot be read says nothing: dbt replaces it with every invocation,
    also with those that build nothing.
    """
    try:
        data = read_json(file, _RESULTS_SHAPE)
        at = dt.datetime.fromisoformat(data["metadata"]["generated_at"])
    except (OSError, ValueError, TypeError):
        return LastBuild()
    arguments, results = data.get("args") or {}, data.get("results") or []
    if arguments.get("which") not in _BUILDS:
        return LastBuild()
    everything = bool(arguments.get("full_refresh"))
    failed, skipped = (
        tuple(str(r.get("unique_id")) for r in results if r.get("status") in statuses)
        for statuses in (_FAILED, _SKIPPED)
    )
    return LastBuild(dict(_rebuilds(results, at, everything=everything)), failed, skipped)


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


def was_built(rebuild: Rebuild, batch: str) -> bool:
    """Whether a batch, by when it begins (UTC), is among what dbt built."""
    if rebuild.everything:
        return True
    moment = read_time(batch)
    if moment is None:
        return False
    bounds = ((read_time(start), read_time(end)) for start, end in rebuild.intervals)
    return any(s is not None and e is not None and s <= moment < e for s, e in bounds)


def reopen_rebuilt(
    model: CheckModel,
    ledger: dict[str, BatchRecord],
    runs: Callable[[], Iterable[Mapping[str, Any]]],
) -> None:
    """Mark the batches that dbt built after they were checked, so that a run takes them up again.

    `runs` gives the rows of dq_runs. A batch of a run that is not there (it was killed) counts as
    checked before.
    """
    rebuild: Rebuild | None = model.dbt.get("rebuilt")
    built = [] if rebuild is None else [b for b in ledger if was_built(rebuild, b)]
    if rebuild is None or not built:
        return
    starts = {row["run_id"]: row["started_at"] for row in runs()}
    for batch in built:
        record = ledger[batch]
        started = starts.get(record.run_id)
        if started is None or in_zone(started) <= rebuild.at:
            ledger[batch] = replace(record, status=BatchStatus.INCOMPLETE)

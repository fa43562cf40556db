"""Batches that dbt built again since they were checked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dqsql.loading.dbt.manifest import Rebuild
from dqsql.model.batches import read_time
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord, BatchStatus


def rebuild_of(model: CheckModel) -> Rebuild | None:
    """What dbt's run_results.json says about a model, or None."""
    dbt = model.config.extra.get("dbt")
    found = dbt.get("rebuilt") if isinstance(dbt, Mapping) else None
    return found if isinstance(found, Rebuild) else None


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
    rebuild = rebuild_of(model)
    built = [b for b in ledger if was_built(rebuild, b)] if rebuild is not None else []
    if rebuild is None or not built:
        return
    starts = {row["run_id"]: row["started_at"] for row in runs()}
    for batch in built:
        record = ledger[batch]
        if not _checked_after(starts.get(record.run_id), rebuild.at):
            ledger[batch] = replace(record, status=BatchStatus.INCOMPLETE)


def _checked_after(started: dt.datetime | None, built: dt.datetime) -> bool:
    if started is None:
        return False
    return (started if started.tzinfo else started.replace(tzinfo=dt.UTC)) > built

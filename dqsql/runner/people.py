"""What people wrote into the tables by SQL since the last run: followed before the next begins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dqsql.errors import StorageError
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.model.tables import BATCHES, FINDINGS, REVIEWS
from dqsql.runner.ledger import ledger_rows
from dqsql.runner.lifecycle import accepted_findings, heeded
from dqsql.runner.review import newest_rows
from dqsql.runner.verdicts import REVIEWED

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

Row = Mapping[str, Any]
Ledger = dict[str, BatchRecord]


def heed_people(
    store: Store, ledgers: Mapping[str, Ledger], models: Collection[str], now: dt.datetime
) -> tuple[dict[str, dict[str, Row]], dict[str, list[Row]]]:
    """Follow reviews and changes of findings that were made by SQL, and store what follows.

    A review that is younger than the verdicts on its batch changes the ledger, as `dqsql review`
    does; `ledgers` are changed with it. A finding of which one column was changed gets its others.

    Args:
        store: the tables; those of the models must be locked.
        ledgers: the batches of all models.
        models: the models that are looked at.
        now: the time of what follows.

    Returns:
        By model the newest review of each batch, and the rows of dq_findings.

    Raises:
        StorageError: a review says neither accept nor reject, or the tables cannot be written.
    """
    reviews = newest_rows(r for r in store.rows(REVIEWS) if r["model"] in models)
    for model, rows in reviews.items():
        _refuse_other_words(model, rows)
    stored = [r for r in store.rows(FINDINGS) if r["model"] in models]
    found = [heeded(r, now) for r in stored]
    changed = [m for m in sorted(models) if _follow(ledgers.get(m, {}), reviews.get(m, {}))]
    if changed:
        ordered = [row for m in changed for row in ledger_rows(ledgers[m])]
        store.replace_partition(BATCHES, ordered)
    by_model: dict[str, list[Row]] = {}
    for row in found:
        by_model.setdefault(row["model"], []).append(row)
    for model in changed:
        by_model[model] = _without_accepted(by_model.get(model, []), reviews[model], now)
    before = {r["finding_id"]: r for r in stored}
    differ = {
        r["model"] for rows in by_model.values() for r in rows if _differs(r, before, r["model"])
    }
    if differ:
        store.replace_partition(FINDINGS, [r for m in sorted(differ) for r in by_model[m]])
    return reviews, by_model


def _differs(row: Row, before: Mapping[str, Row], model: str) -> bool:
    old = before[row["finding_id"]]
    return old["model"] == model and any(value != old.get(name) for name, value in row.items())


def _refuse_other_words(model: str, reviews: Mapping[str, Row]) -> None:
    for batch, row in reviews.items():
        if row["verdict"] not in REVIEWED:
            raise StorageError(
                f"{REVIEWS.name} has the verdict {row['verdict']!r} on {model} {batch}",
                hint=f"the verdict is one of {', '.join(REVIEWED)}",
            )


def _follow(ledger: Ledger, reviews: Mapping[str, Row]) -> bool:
    """Let reviews that are younger than the verdicts change a ledger; whether any did."""
    changed = False
    for batch, row in reviews.items():
        record = ledger.get(batch)
        if record is None or record.status is BatchStatus.INCOMPLETE:
            continue
        after = REVIEWED[row["verdict"]]
        if record.status is after or row["at"] is None:
            continue
        if record.checked_at is not None and row["at"] < record.checked_at:
            continue
        counted = after is BatchStatus.ACCEPTED
        ledger[batch] = replace(record, status=after, counted=counted)
        changed = True
    return changed


def _without_accepted(rows: list[Row], reviews: Mapping[str, Row], now: dt.datetime) -> list[Row]:
    accepted = {b: r for b, r in reviews.items() if r["verdict"] == "accept"}
    if not rows or not accepted:
        return rows
    newest = max(accepted.values(), key=lambda r: r["at"])
    return list(
        accepted_findings(
            rows, accepted, author=newest["author"], reason=newest["reason"] or "", now=now
        )
    )

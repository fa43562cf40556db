"""One stored verdict in full: what was seen and expected, and the same computed again."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.decisions.lifecycle import heeded
from dqsql.engine.history import stored_metrics, stored_rows
from dqsql.engine.verdicts import VerdictFinder, checked_batches
from dqsql.model.batches import batch_order
from dqsql.model.plan import Declared, Plan
from dqsql.model.results import CONSTRAINT, FINDINGS, BatchStatus, result_id
from dqsql.model.tables import BATCHES, CHECKS, DISTRIBUTIONS, FAILURES, RESULTS
from dqsql.model.tables import FINDINGS as FINDINGS_TABLE
from dqsql.model.wording import first_of, plural
from dqsql.monitors.history import History, spelled_as
from dqsql.monitors.recompute import Compared, Recomputed, StoredVerdict, batches_of
from dqsql.monitors.registry import recompute
from dqsql.runner.compilation import plan_of
from dqsql.runner.warehouse import Opening, open_tables, opened

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

# Says in an odd row which columns make it odd.
_ODD = "odd by"
# Batches of which the values are shown that a check saw.
_SEEN = 10
# So many batches are named.
_SHOWN = 3


@dataclass(frozen=True)
class Explanation:
    """A verdict of `dq_results`, and what comes out when it is decided again.

    Attributes:
        id: what names it; see `dqsql.model.results.result_id`.
        row: its row of dq_results, without the details.
        details: its details.
        past: the batches that it rests on, oldest first.
        values: the stored values of what it is about, by batch, its own last; empty where it is
            about many metrics. Of a check that somebody wrote, those that its newest verdicts saw.
        compared: its numbers, as stored and computed again.
        same: whether they are equal; None where nothing could be computed.
        note: why not, or what to know of it.
        failures: the sampled rows of the batch that failed, as JSON, where the run stored them.
        where: the condition on the rows that the check is about.
        place: where it was written, `file:line`.
        finding: the row of dq_findings that it belongs to; None of a verdict that is none.
    """

    id: str
    row: Mapping[str, Any]
    details: Mapping[str, Any]
    past: tuple[str, ...]
    values: tuple[tuple[str, float | str | None], ...]
    compared: tuple[Compared, ...]
    same: bool | None
    note: str | None
    failures: tuple[str, ...] = ()
    where: str | None = None
    place: str | None = None
    finding: Mapping[str, Any] | None = None


def explain(
    result: str, *, batch: str | None = None, segment: str | None = None, **at: Unpack[Opening]
) -> Explanation:
    """Explain one stored verdict, and compute it again from stored metrics. No data is scanned.

    Args:
        result: the id of a verdict (`check_id@batch`, `check_id@batch/segment`) or of a check.
            Instead of a check's id you can use its name if no other check has it.
        batch: the batch, if `result` is a check's id; by default the newest on which it found
            something, else the newest.
        segment: the segment, if `result` is a check's id; by default the whole batch, or the
            segment that failed where only one did.
        **at: `project_dir`, `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing
            session) and `step` (called with what is being done).

    Raises:
        DqsqlError: the verdict does not exist, the project is wrong, or the tables cannot be read.
    """
    where, spark, step = opened(at)
    project = where.stored_project()

    with open_tables(project, spark, step) as store:
        step("Reading the verdict")
        checks = store.rows(CHECKS)

        def declared() -> list[Declared]:
            return [d for p in where.compile().plans for d in p.declared]

        row = VerdictFinder(store, checks, result, batch, segment, declared).row()
        return _explained(store, row, _declared(checks, row), plan_of(project, row["model"]))


def _declared(checks: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of `dq_checks` that was valid when the verdict was decided."""
    mine = [c for c in checks if c["check_id"] == row["check_id"]]
    past = [c for c in mine if c["valid_from"] <= row["evaluated_at"]]
    return max(past or mine, key=lambda c: c["valid_from"])


def _explained(
    store: Store, row: Mapping[str, Any], declared: Mapping[str, Any], plan: Plan | None
) -> Explanation:
    details = json.loads(row["details"] or "{}")
    # What is retired by another `batch_by` was not compared with, but by what is retired itself.
    current = checked_batches(store, row["model"], retired=False)
    checked = current if row["batch"] in current else checked_batches(store, row["model"])
    past, beside = (batches_of(d, checked) for d in (details, details.get("beside") or {}))
    history = History(
        past,
        lambda b: stored_rows(store, DISTRIBUTIONS, row["model"], [b]),
        same=spelled_as(()) if plan is None else spelled_as(plan.metrics),
    )
    history.add_metrics(stored_metrics(store, row["model"], {*past, *beside, row["batch"]}))
    stored = StoredVerdict(row, details, history, past, plan, beside)
    again = recompute(stored)
    return Explanation(
        id=result_id(row["check_id"], row["batch"], row["segment"]),
        row={k: v for k, v in row.items() if k != "details"},
        details=details,
        past=tuple(past),
        values=_values(again, history, [*past, row["batch"]]) or _seen(store, row),
        compared=again.compared,
        same=again.same,
        note=_note(again, details, past) or _checked_again(store, row, again, past),
        failures=_failures(store, row, details),
        where=declared["where"],
        place=f"{declared['file']}:{declared['line']}",
        finding=_finding(store, row),
    )


def _finding(store: Store, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The newest finding of the verdict's check that is about its batch."""
    now = dt.datetime.now(dt.UTC)
    findings = [
        heeded(r, now)
        for r in store.select(FINDINGS_TABLE, where={"model": [row["model"]]})
        if r["check_id"] == row["check_id"] and row["batch"] in r["batches"]
    ]
    return max(findings, key=lambda r: r["opened_at"], default=None)


def _failures(store: Store, row: Mapping[str, Any], details: Mapping[str, Any]) -> tuple[str, ...]:
    """The sample of the check's failing rows in the batch: it is taken of all segments together."""
    of_segment = row["segment"] is not None and row["status"] in FINDINGS
    if "failures" not in details and not of_segment:
        return ()
    rows = stored_rows(store, FAILURES, row["model"], [row["batch"]])
    mine = [r for r in rows if r["check_id"] == row["check_id"]]
    mine.sort(key=lambda r: (-(r["score"] or 0.0), r["row"]))
    return tuple(_with_reasons(r) for r in mine)


def _with_reasons(row: Mapping[str, Any]) -> str:
    """A failing row; of an odd one with the columns that make it odd."""
    text = str(row["row"])
    if not row["reasons"]:
        return text
    reasons = (f"{r['column']} {r['share']:.0%}" for r in json.loads(row["reasons"]))
    record = {_ODD: ", ".join(reasons), **json.loads(text)}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _values(
    again: Recomputed, history: History, batches: Sequence[str]
) -> tuple[tuple[str, float | None], ...]:
    if again.series is None:
        return ()
    pairs = [(b, history.value(again.series, b)) for b in batches]
    return tuple((b, None if math.isnan(value) else value) for b, value in pairs)


def _seen(store: Store, row: Mapping[str, Any]) -> tuple[tuple[str, float | str | None], ...]:
    """What a check that somebody wrote saw in its batch and the newest ones before."""
    if row["detector"] != CONSTRAINT:
        return ()
    retired = BatchStatus.RETIRED.value
    known = (
        r["batch"]
        for r in store.rows(BATCHES)
        if r["model"] == row["model"] and (r["status"] != retired or r["batch"] == row["batch"])
    )
    place = batch_order(row["batch"])
    until = sorted((b for b in known if batch_order(b) <= place), key=batch_order)
    rows = stored_rows(store, RESULTS, row["model"], until[-_SEEN:])
    observations = {
        r["batch"]: r["observed_text"] if r["observed"] is None else r["observed"]
        for r in sorted(rows, key=lambda r: batch_order(r["batch"]))
        if (r["check_id"], r["segment"]) == (row["check_id"], row["segment"])
    }
    return tuple(observations.items()) if any(v is not None for v in observations.values()) else ()


def _note(again: Recomputed, details: Mapping[str, Any], past: Sequence[str]) -> str | None:
    extent = details.get("history")
    if again.compared and extent and extent[2] != len(past):
        were = plural(extent[2], "batch")
        return f"it was decided from {were}; stored by now: {len(past)}"
    return again.note


def _checked_again(
    store: Store, row: Mapping[str, Any], again: Recomputed, past: Collection[str]
) -> str | None:
    """Which of the batches that a verdict was decided from were checked again after it."""
    if again.same is not False:
        return None
    times = store.select(BATCHES, ("batch", "checked_at"), {"model": [row["model"]]})
    known = {r["batch"]: r["checked_at"] for r in times if r["checked_at"] is not None}
    later = [b for b in past if b in known and known[b] > row["evaluated_at"]]
    if not later:
        return None
    were = "was checked again" if len(later) == 1 else "were checked again"
    return f"{first_of(later, _SHOWN)} {were} after it was decided, and had other values then"


__all__ = ["Compared", "Explanation", "explain"]

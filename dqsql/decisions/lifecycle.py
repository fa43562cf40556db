"""The life of batches and findings: what verdicts and people make of them.

A check that fails on many batches is one finding, until it passes.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dqsql.decisions.cadence import misses_next
from dqsql.model.batches import batch_order, in_zone
from dqsql.model.by_key import by_key
from dqsql.model.results import (
    ACKNOWLEDGED,
    MUTED,
    OPEN,
    RESOLVED,
    BatchStatus,
    Result,
    Status,
    worst_status,
)
from dqsql.model.results import FINDINGS as FINDING_STATUSES
from dqsql.model.wording import in_segments

Row = dict[str, Any]

# What a review makes of a batch.
REVIEWED: Mapping[str, BatchStatus] = {
    "accept": BatchStatus.ACCEPTED,
    "reject": BatchStatus.REJECTED,
}
# Who resolves a finding whose check passes again.
DQSQL = "dqsql"
# Who changed the row of a finding without leaving a name.
_BY_SQL = "SQL"
_GONE = "the model no longer has this check"
_RETIRED = "batch_by has changed"
_DROPPED = "its batches have no rows any more"


def updated_findings(
    stored: Sequence[Mapping[str, Any]],
    results: Iterable[Result],
    now: dt.datetime,
    checks: Collection[str] | None = None,
    retired: Collection[str] = (),
    passed_after: Callable[[str, str], Sequence[str]] = lambda check_id, batch: (),
    verdicts_of: Callable[[str, Sequence[str]], Sequence[Row]] = lambda check_id, batches: (),
    dropped: Collection[str] = (),
    unaccepted: Collection[str] = (),
) -> list[Row] | None:
    """All findings of one model after some verdicts; None where they are as they were.

    A verdict on a batch extends the open finding of its check, or opens one; a batch that passes
    after the last one of an open finding resolves it, and so does checking all of its batches again
    with success. What a check says of segments belongs to the finding of the check.

    Args:
        stored: the rows of dq_findings of the model.
        results: the verdicts of a run on the model.
        now: start of the run.
        checks: the ids of all checks that the model has; None where that is not known. A finding of
            another one is resolved, and so is one about batches only that are retired.
        retired: those batches.
        passed_after: gives the batches after one on which a check passed in earlier runs, oldest
            first. A failure before such a batch is a finding of its own, which that batch resolves:
            the same as if all batches had been checked in order.
        verdicts_of: gives the verdicts (rows of dq_results) of a check on batches in earlier runs:
            what is left to tell of a finding from which batches were taken.
        dropped: batches that had rows once, and of which nothing is kept: no finding is about them.
        unaccepted: batches that a person accepted, and that fail otherwise now.
    """
    by_check = _by_check(results)
    rows = {row["finding_id"]: dict(row) for row in stored}
    before = {key: dict(row) for key, row in rows.items()}
    in_order = sorted(rows.values(), key=lambda row: batch_order(row["first_batch"]))
    newest = {row["check_id"]: row for row in in_order}.values()
    known_no_more = {*retired, *dropped}
    back = {
        row["finding_id"]
        for row in newest
        if checks is not None and _is_back(row, checks, known_no_more)
    }
    for row in (rows[key] for key in back):
        if passes := passed_after(row["check_id"], row["last_batch"]):
            row.update(resolved_batch=passes[0], reason=None)
        else:
            _open_again(row, now)
    for row in rows.values():
        if row["resolved_at"] is None and checks is not None and row["check_id"] not in checks:
            row.update(_resolved(now), reason=_GONE)
        elif row["resolved_at"] is None and set(row["batches"]).issubset(retired):
            row.update(_resolved(now), reason=_RETIRED)
        elif row["resolved_at"] is None and not set(row["batches"]).isdisjoint(dropped):
            kept = [b for b in row["batches"] if b not in dropped]
            row.update(_extent(kept) if kept else {**_resolved(now), "reason": _DROPPED})
    reopened: set[str] = set()
    for check_id, batches in by_check.items():
        passed = [b for b, verdicts in batches.items() if _is_pass(verdicts)]
        for batch in sorted(batches, key=batch_order):
            bad = [r for r in batches[batch] if r.status in FINDING_STATUSES]
            if bad:
                before_now = passed_after(check_id, batch)
                later = (b for b in (*passed, *before_now) if batch_order(b) > batch_order(batch))
                end = min(later, key=batch_order, default=None)
                anew = _add(rows, batch, bad, now, end, batch in unaccepted)
                if anew is not None and batch in unaccepted:
                    reopened.add(anew["finding_id"])
                # The run does not come to it again.
                elif anew is not None and end in before_now:
                    anew.update(_resolved(now, end))
            elif batch in passed:
                _resolve(rows, check_id, batch, now, reopened)
    for key, row in rows.items():
        tested = by_check.get(row["check_id"], {})
        known = before[key]["batches"] if key in before else []
        # What was told of a batch that is checked again, or repaired, may not be so any more.
        again = tested.keys() & known or (tested and row.get("segments") is None)
        if key not in before or not set(known).issubset(row["batches"]) or again:
            rest = [b for b in row["batches"] if b not in tested]
            run_verdicts = [_verdict_row(r) for b in row["batches"] for r in tested.get(b, ())]
            row.update(_summary(row, (*run_verdicts, *verdicts_of(row["check_id"], rest))))
        if key in back and row["resolved_at"] is not None and known == row["batches"]:
            # It has passed since: nobody has to hear of it again.
            row.update(before[key], resolved_batch=row["resolved_batch"], reason=None)
        elif key in before and _failed_once_more(before[key], row, tested):
            # Its end alone would hide that another batch waits for a review.
            _notify_again(row, now)
        elif key in before and _fails_elsewhere(before[key], row):
            _notify_again(row, now)
            if row["state"] == ACKNOWLEDGED:
                row.update(state=OPEN, **dict.fromkeys((*_NOTICED, "author", "reason")))
    return list(rows.values()) if rows != before else None


def _failed_once_more(before: Row, now: Row, tested: Mapping[str, Sequence[Result]]) -> bool:
    """Whether a finding that was told as open had one more failing batch, and then ended."""
    ended = before["state"] == OPEN and now["resolved_at"] is not None and now["author"] == DQSQL
    more = set(now["batches"]).difference(before["batches"])
    fails = any(r.status is Status.FAIL for batch in more for r in tested.get(batch, ()))
    return ended and fails and before["notified_at"] is not None


def _fails_elsewhere(before: Row, now: Row) -> bool:
    """Whether an open finding is about segments that it was not about before."""
    known, is_open = before.get("segments"), before["resolved_at"] is now["resolved_at"] is None
    return is_open and known is not None and not set(known).issuperset(now["segments"] or ())


def ends_later(row: Mapping[str, Any]) -> bool:
    """Whether a finding that has ended is told as open once more, and its end after that."""
    return row["undelivered_at"] is not None and row["undelivered_at"] == row["resolved_at"]


def _by_check(results: Iterable[Result]) -> dict[str, dict[str, list[Result]]]:
    by_check = by_key((r.check_id, r) for r in results)
    return {check: by_key((r.batch or "", r) for r in mine) for check, mine in by_check.items()}


def _is_pass(verdicts: Sequence[Result]) -> bool:
    statuses = {r.status for r in verdicts}
    return Status.PASS in statuses and not statuses & FINDING_STATUSES


def _add(
    rows: dict[str, Row],
    batch: str,
    bad: Sequence[Result],
    now: dt.datetime,
    end: str | None,
    unaccepted: bool,
) -> Row | None:
    """Add what a check found in a batch to the finding that it belongs to.

    Returns the finding if it is a new one, or open again. `end` is the first batch after it on
    which the check passes.
    """
    check_id = bad[0].check_id
    mine = [row for row in rows.values() if row["check_id"] == check_id]
    near = [r for r in mine if end is None or batch_order(r["first_batch"]) < batch_order(end)]
    candidates = (
        (row for row in mine if batch in row["batches"]),
        (row for row in near if row["resolved_at"] is None),
        # Of several batches that fail before one that has passed, the first opened it in this run.
        (row for row in near if row["opened_at"] == now and row["resolved_batch"] == end),
    )
    current = next(itertools.chain(*candidates), None)
    anew = True
    if current is None:
        current = _opened(bad[0], batch, now, rows)
        rows[current["finding_id"]] = current
    elif current["resolved_at"] is not None and (
        unaccepted
        or (
            current["author"] == DQSQL
            and (end is None or current["resolved_batch"] in (batch, None))
        )
    ):
        # It was repaired, or its check or what ended it was gone, and it is as it was again.
        if current["reason"] == _DROPPED:
            current.update(batches=[], status=bad[0].status.value)
        _open_again(current, now)
    else:
        anew = False
    _extend(current, batch, bad, now)
    return current if anew else None


def _resolve(
    rows: dict[str, Row], check_id: str, batch: str, now: dt.datetime, but: Collection[str]
) -> None:
    """Take a batch out of the findings of a check that passes on it, and end those before it.

    A batch that comes late may lie between those of a finding: what is behind it is another one.
    """
    place = batch_order(batch)
    mine = [r for r in rows.values() if r["check_id"] == check_id and r["finding_id"] not in but]
    for row in mine:
        is_over, repaired = row["resolved_at"] is not None, batch in row["batches"]
        if is_over and (row["author"] != DQSQL or (repaired and row["resolved_batch"] == batch)):
            continue
        if repaired:
            kept = [b for b in row["batches"] if b != batch]
            row.update(_extent(kept) if kept else _resolved(now, batch))
        behind = [b for b in row["batches"] if batch_order(b) > place]
        if row["resolved_at"] is not None and not (is_over and behind):
            continue
        if batch_order(row["first_batch"]) > place:
            continue
        if behind:
            name = _free_id(check_id, behind[0], rows)
            # The end of the one is told; so is then what is left.
            untold = {} if is_over else _UNTOLD
            rows[name] = {**row, **_extent(behind), **untold, "finding_id": name}
            row.update(_extent([b for b in row["batches"] if b not in behind]))
        row.update(_resolved(now, batch))


def _resolved(now: dt.datetime, batch: str | None = None) -> Row:
    return {"resolved_at": now, "resolved_batch": batch, "state": RESOLVED, "author": DQSQL}


_UNTOLD: Mapping[str, Any] = dict.fromkeys(
    ("notified_at", "resolution_notified_at", "undelivered_at", "undelivered_to")
)
_UNRESOLVED: Mapping[str, Any] = {
    "state": OPEN,
    **dict.fromkeys(("resolved_at", "resolved_batch", "author", "reason")),
    **_UNTOLD,
}


_NOTICED = ("acknowledged_at", "acknowledged_by")
# Columns that were added later.
_LATER = ("acknowledged_by", "assigned_to", "impact", "readers", "undelivered_at", "undelivered_to")
# What is opened again is as it was opened.
REOPENED: Mapping[str, Any] = {**_UNRESOLVED, **dict.fromkeys((*_NOTICED, "muted_until"))}


def _is_back(row: Row, checks: Collection[str], without: Collection[str]) -> bool:
    """Whether a finding ended because a run, maybe with other variables, had no such check.

    Nothing of it is left if all its batches are among those `without` rows or verdicts.
    """
    gone = row["author"] == DQSQL and row["reason"] == _GONE
    there = row["check_id"] in checks and not set(row["batches"]).issubset(without)
    return gone and row["resolved_at"] is not None and there


def _open_again(row: Row, now: dt.datetime) -> None:
    """Open a finding again; what is muted until a day stays so."""
    kept = {}
    if is_muted(row, now):
        reason = None if row["reason"] in (_GONE, _RETIRED, _DROPPED) else row["reason"]
        kept = {name: row[name] for name in (*_NOTICED, "muted_until")}
        kept |= {"state": MUTED, "author": DQSQL, "reason": reason}
    row.update({**REOPENED, **kept}, opened_at=now)


def _opened(result: Result, batch: str, now: dt.datetime, known: Collection[str]) -> Row:
    return {
        **_UNRESOLVED,
        "finding_id": _free_id(result.check_id, batch, known),
        "check_id": result.check_id,
        "model": result.model,
        "column_name": result.column,
        "check_name": result.check_name,
        "severity": result.severity.value,
        "status": result.status.value,
        "message": result.message,
        "first_batch": batch,
        "last_batch": batch,
        "batches": [],
        "batch_count": 0,
        "opened_at": now,
        "last_seen_at": now,
        "segments": None,
        **dict.fromkeys((*_NOTICED, "muted_until", "assigned_to", "impact", "readers")),
    }


def _free_id(check_id: str, batch: str, known: Collection[str]) -> str:
    name = f"{check_id}@{batch}"
    numbers = (f"{name}#{i}" for i in itertools.count(2))
    return name if name not in known else next(n for n in numbers if n not in known)


def _extend(row: Row, batch: str, bad: Sequence[Result], now: dt.datetime) -> None:
    batches = sorted({*row["batches"], batch}, key=batch_order)
    worst = worst_status([Status(row["status"]), *(r.status for r in bad)])
    if worst is Status.FAIL and row["status"] == Status.WARN.value:
        # Who was told of a warning is owed the failure, even if it is resolved at once.
        _notify_again(row, now)
    verdicts = [_verdict_row(r) for r in bad]
    row.update(_extent(batches), status=worst.value, last_seen_at=now)
    row.update(_segments(verdicts, row.get("segments")))
    if batch == batches[-1]:
        row.update(_message(verdicts))


def _notify_again(row: Row, now: dt.datetime) -> None:
    """Let a finding that was told as open be told so once more, whatever becomes of it."""
    if row["notified_at"] is not None:
        row["undelivered_at"] = now
    row.update(notified_at=None, undelivered_to=None)


def _verdict_row(result: Result) -> Row:
    """What a finding tells of a verdict, in the columns of dq_results."""
    return {
        "batch": result.batch or "",
        "segment": result.segment,
        "message": result.message,
        "status": result.status.value,
        "severity": result.severity.value,
    }


def _summary(row: Row, verdicts: Iterable[Row]) -> Row:
    """What a finding tells by the verdicts on its batches; nothing where none is known.

    Of batches whose verdicts are gone it is as bad as it was.
    """
    bad = [v for v in verdicts if v["status"] in FINDING_STATUSES]
    if not bad:
        return {}
    statuses, known = [Status(v["status"]) for v in bad], ()
    if not {v["batch"] for v in bad}.issuperset(row["batches"]):
        statuses.append(Status(row["status"]))
        known = tuple(row.get("segments") or ())
    worst = worst_status(statuses)
    newest = [v for v in bad if v["batch"] == row["last_batch"]]
    message = _message(newest) if newest else {}
    return {"status": worst.value, **message, **_segments(bad, known)}


def _message(bad: Sequence[Row]) -> Row:
    """Message and severity of the worst of some verdicts on one batch."""
    worst = worst_status(Status(v["status"]) for v in bad)
    telling = [v for v in bad if v["status"] == worst]
    first = next((v for v in telling if v["segment"] is None), telling[0])
    where = in_segments(first["segment"], (v["segment"] for v in telling))
    return {"message": f"{first['message']}{where}", "severity": first["severity"]}


def _segments(bad: Sequence[Row], known: Iterable[str] | None) -> Row:
    """The segments of the worst verdicts on each batch beside those that are known."""
    by_batch = by_key((row["batch"], Status(row["status"])) for row in bad)
    worst = {batch: worst_status(statuses).value for batch, statuses in by_batch.items()}
    segments = {v["segment"] for v in bad if v["segment"] and v["status"] == worst[v["batch"]]}
    return {"segments": sorted(segments.union(known or ()))}


def _extent(batches: list[str]) -> Row:
    return {
        "batches": batches,
        "batch_count": len(batches),
        "first_batch": batches[0],
        "last_batch": batches[-1],
    }


def accepted_findings(
    stored: Sequence[Mapping[str, Any]],
    batches: Iterable[str],
    *,
    author: str | None,
    reason: str,
    now: dt.datetime,
) -> list[Row]:
    """All findings of a model after a person accepted batches: those of no other are resolved."""
    accepted = set(batches)
    rows = [dict(row) for row in stored]
    for row in rows:
        waits = row["resolved_at"] is None or row["reason"] == _GONE
        if waits and set(row["batches"]) <= accepted:
            row.update(resolved_at=now, state=RESOLVED, author=author, reason=reason)
    return rows


def heeded(row: Mapping[str, Any], now: dt.datetime) -> Row:
    """A finding with all that follows from what a person wrote into its row by SQL.

    One column is enough: `state`, `acknowledged_at`, `muted_until` or `resolved_at`. What is muted
    until a day is open from then on; what is muted without a day is acknowledged. An author says
    that the row was more than open before: `open` then opens it again, as no day does that was
    taken out of a muted one.
    """
    finding: Row = {**dict.fromkeys(_LATER), **row}
    state, until = finding["state"], finding["muted_until"]
    resolved, noted = finding["resolved_at"] is not None, finding["acknowledged_at"] is not None
    by = {"author": finding["author"] or _BY_SQL}
    if finding["author"] is not None and (
        (state == OPEN and (resolved or noted)) or (state == MUTED and noted and until is None)
    ):
        return {**finding, **REOPENED}
    if state == RESOLVED or (state == OPEN and resolved):
        return {**finding, **by, "state": RESOLVED, "resolved_at": finding["resolved_at"] or now}
    finding |= {"resolved_at": None, "resolved_batch": None}
    seen = finding["acknowledged_at"] or now, finding["acknowledged_by"] or by["author"]
    noticed = dict(zip(_NOTICED, seen, strict=True))
    if is_muted(finding, now):
        return {**finding, **by, **noticed, "state": MUTED}
    if until is not None and state != ACKNOWLEDGED:
        return {**finding, **dict.fromkeys(_NOTICED), "state": OPEN}
    if noted or state in (ACKNOWLEDGED, MUTED):
        return {**finding, **by, **noticed, "state": ACKNOWLEDGED, "muted_until": None}
    return finding


def is_muted(row: Mapping[str, Any], now: dt.datetime) -> bool:
    """Whether nobody is to be told of the finding yet."""
    until = row["muted_until"]
    return until is not None and in_zone(until) > now


def ended_muted(row: Mapping[str, Any]) -> bool:
    """Whether a finding was resolved before the day until which nobody wanted to be told of it."""
    until, ended = row["muted_until"], row["resolved_at"]
    return until is not None and ended is not None and in_zone(ended) < in_zone(until)


def was_muted_since(row: Mapping[str, Any]) -> bool:
    """Whether a finding was told, then muted: who waited for the day is told again."""
    until, notified_at = row["muted_until"], row["notified_at"]
    return until is not None and notified_at is not None and in_zone(notified_at) < in_zone(until)


def batch_statuses(
    results: Iterable[Result],
    batches: Iterable[str],
    reviews: Mapping[str, str],
    *,
    holds: bool = False,
) -> dict[str, BatchStatus]:
    """What each batch's verdicts make of it.

    A review (`accept` or `reject` by batch) decides on a batch with findings; warnings alone keep a
    rejected one out. One without any was repaired since it was rejected. A check that could not be
    computed says nothing of a batch, unless a run `holds` rows back until all have been; nor does
    one that misses a batch behind it, or newer rows.
    """
    statuses = dict.fromkeys(batches, BatchStatus.ACCEPTED)
    bad_batches = set()
    for result in results:
        if result.status in (Status.FAIL, Status.WARN):
            bad_batches.add(result.batch)
        if result.batch not in statuses or misses_next(result, holds=holds):
            continue
        if result.status is Status.ERROR and holds:
            statuses[result.batch] = BatchStatus.INCOMPLETE
        elif result.status is Status.FAIL and statuses[result.batch] is BatchStatus.ACCEPTED:
            statuses[result.batch] = BatchStatus.FLAGGED
    for batch, status in statuses.items():
        review = reviews.get(batch)
        rejected = review == "reject" and batch in bad_batches and status is BatchStatus.ACCEPTED
        if review is not None and (status is BatchStatus.FLAGGED or rejected):
            statuses[batch] = REVIEWED[review]
    return statuses

"""What people do about findings: acknowledge, assign, mute, resolve, reopen.

Each is a change of columns of `dq_findings` that plain SQL may make just as well; see
`dqsql.decisions.lifecycle.heeded`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

from dqsql.decisions.lifecycle import REOPENED, heeded
from dqsql.engine.exclusive import locked
from dqsql.errors import UsageError, nearest
from dqsql.model.batches import batch_order
from dqsql.model.results import ACKNOWLEDGED, MUTED, OPEN, RESOLVED
from dqsql.model.tables import FINDINGS
from dqsql.runner.review import user_of_process
from dqsql.runner.tables import with_watched_tables
from dqsql.runner.warehouse import Access, Opening, open_tables, opened
from dqsql.selection.choosing import chosen_names

Row = dict[str, Any]


@dataclass(frozen=True)
class Incident:
    """A finding after somebody did something about it."""

    finding_id: str
    model: str
    state: str
    assigned_to: str | None = None
    muted_until: dt.date | None = None


def acknowledge(
    checks: Sequence[str],
    reason: str,
    *,
    mute_until: dt.date | str | None = None,
    author: str | None = None,
    **at: Unpack[Opening],
) -> tuple[Incident, ...]:
    """Acknowledge the open findings of checks: no more messages are sent about them.

    The status of batches does not change; use `review` for that.

    Args:
        checks: ids of checks or findings.
        reason: the reason, which is stored.
        mute_until: the first day on which messages are sent again, in UTC; None: none while they
            are open. It may be a text: '2024-02-01'.
        author: your name, which is stored; by default the user of this process.
        **at: `project_dir`, `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing
            session) and `step` (called with what is being done).

    Raises:
        DqsqlError: a check has no open finding, there is no reason, a run is active, or the tables
            cannot be written.
    """
    reason_text = _reason(reason, "acknowledging a finding", "--reason 'ticket 123'")
    day = _day(mute_until) if isinstance(mute_until, str) else mute_until
    until = day and dt.datetime.combine(day, dt.time(), dt.UTC)
    who = author or user_of_process()
    change = {
        "state": ACKNOWLEDGED if until is None else MUTED,
        "acknowledged_at": dt.datetime.now(dt.UTC),
        "acknowledged_by": who,
        "muted_until": until,
        "author": who,
        "reason": reason_text,
    }
    return _changed(checks, change, at)


def assign(checks: Sequence[str], to: str | None, **at: Unpack[Opening]) -> tuple[Incident, ...]:
    """Assign the open findings of checks to somebody; None: nobody. See `acknowledge`."""
    if to is not None and not to.strip():
        raise UsageError(
            "a finding cannot be assigned to a blank name", hint="--to ann@example.com"
        )
    change = {"assigned_to": to and to.strip()}
    return _changed(checks, change, at)


def resolve(
    checks: Sequence[str], reason: str, *, author: str | None = None, **at: Unpack[Opening]
) -> tuple[Incident, ...]:
    """Resolve the open findings of checks; see `acknowledge`.

    The next batch in which the check finds something opens a new finding.
    """
    change = {
        "state": RESOLVED,
        "resolved_at": dt.datetime.now(dt.UTC),
        "author": author or user_of_process(),
        "reason": _reason(reason, "resolving a finding", "--reason 'the supplier sent it again'"),
    }
    return _changed(checks, change, at)


def reopen(
    checks: Sequence[str], *, author: str | None = None, **at: Unpack[Opening]
) -> tuple[Incident, ...]:
    """Open findings again that were acknowledged, muted or resolved; messages are sent again.

    If a check has no open finding, the newest resolved one is opened; see `acknowledge`.
    """
    return _changed(checks, _reopening(author), at, state=RESOLVED)


def unmute(
    checks: Sequence[str], *, author: str | None = None, **at: Unpack[Opening]
) -> tuple[Incident, ...]:
    """Open the muted findings of checks again; other ones stay as they are. See `acknowledge`."""
    return _changed(checks, _reopening(author), at, state=MUTED)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"mute_until is {text!r}, which is no date", hint="write it as 2024-02-01"
        ) from error


def _reopening(author: str | None) -> Mapping[str, Any]:
    return {**REOPENED, "author": author or user_of_process()}


def open_findings(
    project_dir: str | PathLike[str] = ".",
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    assigned_to: str | None = None,
    **at: Unpack[Access],
) -> tuple[Mapping[str, Any], ...]:
    """The findings that are not resolved, as rows of `dq_findings`, oldest first by model.

    Args:
        project_dir: folder of the project.
        select: models, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        assigned_to: only those of this person.
        **at: `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and `step`
            (called with what is being done).

    Raises:
        DqsqlError: the project or selection is wrong, or the tables cannot be read.
    """
    where, spark, step = opened({**at, "project_dir": project_dir})
    project = where.stored_project()
    now = dt.datetime.now(dt.UTC)
    with open_tables(project, spark, step) as store:
        step("Reading findings")
        project = with_watched_tables(project, store)
        names = chosen_names(project, select, exclude)
        rows = [heeded(row, now) for row in store.rows(FINDINGS)]
    wanted = [
        r
        for r in rows
        if r["resolved_at"] is None
        and r["model"] in set(names)
        and assigned_to in (None, r["assigned_to"])
    ]
    return tuple(sorted(wanted, key=lambda r: (r["model"], batch_order(r["first_batch"]))))


def _reason(reason: str, what: str, hint: str) -> str:
    if not reason.strip():
        raise UsageError(f"{what} needs a reason", hint=hint)
    return reason.strip()


def _changed(
    checks: Sequence[str], change: Mapping[str, Any], at: Opening, *, state: str = OPEN
) -> tuple[Incident, ...]:
    """Change open findings, by ids of checks or findings; or those that are resolved or muted."""
    where, spark, step = opened(at)
    project = where.stored_project()
    with (
        locked(project.target, [m.name for m in project.models]),
        open_tables(project, spark, step, writes=True) as store,
    ):
        now = dt.datetime.now(dt.UTC)
        rows = [heeded(row, now) for row in store.rows(FINDINGS)]
        chosen = _chosen(rows, checks, state)
        for row in chosen:
            row.update(change)
        models = {row["model"] for row in chosen}
        store.replace_partition(FINDINGS, [r for r in rows if r["model"] in models])
    return tuple(
        Incident(
            r["finding_id"],
            r["model"],
            r["state"],
            r["assigned_to"],
            r["muted_until"].date() if r["state"] == MUTED else None,
        )
        for r in chosen
    )


def _chosen(rows: Sequence[Row], checks: Sequence[str], state: str) -> list[Row]:
    """The open findings of checks, or the muted ones among them.

    Where resolved ones are wanted, too: of checks without any, the newest other one.
    """
    findings: list[Row] = []
    for name in [checks] if isinstance(checks, str) else dict.fromkeys(checks):
        known = [r for r in rows if name in _names(r)]
        mine = [r for r in known if _may_be(r, state) and r["resolved_at"] is None]
        if state == RESOLVED and known and not mine:
            mine = [max(known, key=lambda r: batch_order(r["last_batch"]))]
        if not mine:
            raise _unknown(name, rows, state)
        findings += [r for r in mine if r not in findings]
    return findings


def _may_be(row: Row, state: str) -> bool:
    """Whether a finding is among those that a change in one of three states is about."""
    if state == MUTED:
        return bool(row["state"] == MUTED)
    return state == RESOLVED or row["resolved_at"] is None


def _unknown(name: str, rows: Sequence[Row], state: str) -> UsageError:
    near = [n for r in rows if _may_be(r, state) for n in _names(r)]
    which = {OPEN: "open finding", MUTED: "muted finding"}.get(state, "finding")
    return UsageError(
        f"there is no {which} of {name!r}",
        hint=nearest(name, near) or "`dqsql finding list` has them",
    )


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["check_id"], row["finding_id"]

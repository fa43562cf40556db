"""Which messages about findings are due, and what is noted once they were sent.

A finding is told of once when it is opened and once when it is resolved. A route that a message
could not be handed to is owed it, whatever became of the finding since. Pure functions of rows of
`dq_findings`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dqsql.decisions.lifecycle import DQSQL, ended_muted, ends_later, is_muted, was_muted_since
from dqsql.model.results import ACKNOWLEDGED, RESOLVED, Status

_COLUMNS = {"opened": "notified_at", "resolved": "resolution_notified_at"}


def due(
    row: Mapping[str, Any], now: dt.datetime, *, opened_by_run: bool, is_lost: Callable[[], bool]
) -> str | None:
    """What all routes are to be told of a finding: `opened`, `resolved`, or nothing.

    What an earlier run resolved before anybody heard of it is no news, unless a message about it
    could not be delivered, or the run that opened it was killed; nor is what somebody has taken
    note of. A failure that the run itself resolved is news: its batches wait for a review.

    Args:
        row: its row of dq_findings.
        now: the time of the messages.
        opened_by_run: whether the run that has just ended has opened it.
        is_lost: tells whether the run that opened it was killed; asked for only where it matters.
    """
    if row["state"] == RESOLVED:
        if ended_muted(row):
            return None
        if row["notified_at"] is None:
            waits = row["status"] == Status.FAIL.value and row["author"] == DQSQL
            is_news = waits and (opened_by_run or is_lost())
            return "opened" if is_news or row["undelivered_at"] is not None else None
        return "resolved" if row["resolution_notified_at"] is None else None
    if row["state"] == ACKNOWLEDGED or is_muted(row, now):
        return None
    return "opened" if row["notified_at"] is None or was_muted_since(row) else None


def owed(row: Mapping[str, Any], now: dt.datetime) -> Mapping[str, str]:
    """What single routes have missed of a finding, by their names."""
    if row["state"] == ACKNOWLEDGED or is_muted(row, now):
        return {}
    entries = (entry.partition(" ") for entry in row["undelivered_to"] or ())
    return {route: event for event, _, route in entries}


def debt(event: str, route: str) -> str:
    """How it is noted that a route is owed a message; `owed` reads it."""
    return f"{event} {route}"


def noted(
    row: Mapping[str, Any],
    event: str | None,
    missed: Sequence[str],
    now: dt.datetime,
    *,
    heard: bool,
) -> dict[str, Any]:
    """The columns of a finding that change once messages about it were sent.

    Args:
        row: its row of dq_findings.
        event: what was due for all routes, if anything was.
        missed: the debts, see `debt`, of routes that could not be reached.
        now: the time of the messages.
        heard: whether somebody has heard of it. If nobody has, all are told anew.
    """
    if not heard:
        kept = [m for m in missed if not m.startswith(debt(event or "", ""))]
        return {"undelivered_at": now, "undelivered_to": kept or None}
    columns = {"undelivered_at": now if missed else None, "undelivered_to": list(missed) or None}
    if event is not None:
        columns[_COLUMNS[event]] = now
        if row["state"] == RESOLVED and not (event == "opened" and ends_later(row)):
            columns["resolution_notified_at"] = now
    return columns

"""Which messages are due, and what is noted once they were sent."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from dqsql.decisions.lifecycle import DQSQL, REOPENED
from dqsql.decisions.messages import debt, due, noted, owed

NOW = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
OVER = {"state": "resolved", "status": "fail", "author": DQSQL, "resolved_at": NOW}


def row(**more: Any) -> dict[str, Any]:
    return {**REOPENED, "status": "fail", **more}


@pytest.mark.parametrize(
    ("finding", "opened_by_run", "lost", "event"),
    [
        (row(), False, False, "opened"),
        (row(notified_at=NOW), False, False, None),
        (row(state="acknowledged"), False, False, None),
        (row(muted_until=NOW + dt.timedelta(1)), False, False, None),
        # Over before anybody heard of it: news only to who ran it, or where that run was killed.
        (row(**OVER), False, False, None),
        (row(**OVER), True, False, "opened"),
        (row(**OVER), False, True, "opened"),
        (row(**OVER, undelivered_at=NOW), False, False, "opened"),
        (row(**{**OVER, "status": "warn"}), True, True, None),
        (row(**OVER, notified_at=NOW), False, False, "resolved"),
        (row(**OVER, notified_at=NOW, muted_until=NOW + dt.timedelta(1)), False, False, None),
        (row(**OVER, notified_at=NOW, resolution_notified_at=NOW), True, True, None),
    ],
)
def test_what_is_due(
    finding: dict[str, Any], opened_by_run: bool, lost: bool, event: str | None
) -> None:
    assert due(finding, NOW, opened_by_run=opened_by_run, is_lost=lambda: lost) == event


def test_a_debt_is_kept_until_it_is_paid() -> None:
    found = row()
    missed = [debt("opened", "webhook A B")]
    found |= noted(found, "opened", missed, NOW, heard=True)
    assert (found["notified_at"], owed(found, NOW)) == (NOW, {"webhook A B": "opened"})
    assert owed({**found, "state": "acknowledged"}, NOW) == {}
    # Nobody hears that it is over: all are told again, and the debt stands.
    found |= OVER
    found |= noted(found, "resolved", [*missed, debt("resolved", "email c")], NOW, heard=False)
    assert (found["resolution_notified_at"], owed(found, NOW)) == (None, {"webhook A B": "opened"})
    found |= noted(found, "resolved", missed, NOW, heard=True)
    assert (found["resolution_notified_at"], found["undelivered_at"]) == (NOW, NOW)
    found |= noted(found, None, [], NOW, heard=True)
    assert (owed(found, NOW), found["undelivered_at"]) == ({}, None)

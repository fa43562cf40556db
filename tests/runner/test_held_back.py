"""A run says so when its monitors have next to nothing to learn from. No Spark."""

from __future__ import annotations

import pytest

from dqsql.model.project import Severity
from dqsql.model.results import BatchStatus, Result, Status
from dqsql.monitors.judging import held_back_note


def failed(check: str, segment: str | None = None) -> Result:
    return Result(
        check_id=check,
        model="m",
        batch="b",
        segment=segment,
        column=None,
        check_name=check,
        detector="constraint",
        status=Status.FAIL,
        severity=Severity.ERROR,
        message="",
    )


def test_most_batches_wait_for_a_review() -> None:
    statuses = [BatchStatus.FLAGGED] * 6 + [BatchStatus.ACCEPTED] * 6
    results = [failed("m.a"), failed("m.rows"), failed("m.rows")]
    (note,) = held_back_note("m", statuses, results)
    assert note.startswith("monitors do not learn from 6 of 12 batches")
    assert "mostly of m.rows" in note and "`dqsql review list --select m`" in note
    assert "{severity: warn}" in note
    (of_parts,) = held_back_note("m", statuses, [failed("m.a"), *[failed("m.b", "k=x")] * 2])
    assert "mostly of m.b on segments: correct that check or give it {segments: false}" in of_parts
    (bare,) = held_back_note("m", statuses, [])
    assert "mostly" not in bare


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [BatchStatus.FLAGGED] * 7,
        [BatchStatus.FLAGGED] * 5 + [BatchStatus.ACCEPTED] * 6,
        [BatchStatus.REJECTED] * 9,
    ],
)
def test_nothing_to_say(statuses: list[BatchStatus]) -> None:
    assert held_back_note("m", statuses, [failed("m.a")]) == ()

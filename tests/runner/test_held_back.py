"""A run says so when its monitors have next to nothing to learn from. No Spark."""

from __future__ import annotations

from typing import cast

import pytest

from dqsql.engine.storage import Store
from dqsql.model.project import CheckModel, ModelConfig, Severity
from dqsql.model.results import BatchRecord, BatchStatus, Result, Status
from dqsql.monitors.judging import held_back_note


class Stored:
    """Rows of dq_results as of earlier runs: one batch failed one check."""

    def __init__(self, **failures: str) -> None:
        self.failures = failures

    def select(
        self, table: object, columns: object, where: dict[str, set[str]]
    ) -> list[dict[str, str | None]]:
        return [
            {"check_id": check, "segment": None, "status": "fail"}
            for batch, check in self.failures.items()
            if batch in where["batch"]
        ]


def note_of(
    statuses: list[BatchStatus],
    results: list[Result],
    batch_by: str | None = "day",
    **failures: str,
) -> tuple[str, ...]:
    model = CheckModel("m", "m.sql", "", "", ModelConfig(batch_by=batch_by), (), (), ())
    ledger = {f"b{i}": BatchRecord("m", f"b{i}", s, 1, "r", "") for i, s in enumerate(statuses)}
    return held_back_note(model, cast(Store, Stored(**failures)), ledger, results)


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
    (note,) = note_of(statuses, results)
    assert note.startswith("monitors do not learn from 6 of 12 batches")
    assert "mostly of m.rows" in note and "`dqsql review list --select m`" in note
    assert "{severity: warn}" in note
    (of_parts,) = note_of(statuses, [failed("m.a"), *[failed("m.b", "k=x")] * 2])
    assert "mostly of m.b on segments: correct that check or give it {segments: false}" in of_parts
    assert "{segments: false}, and run with --full-refresh; or" in of_parts
    # Of a table that each run reads anew nothing can be read again.
    (replaced,) = note_of(statuses, [failed("m.a")], None)
    assert replaced.endswith("give it {severity: warn}")
    (bare,) = note_of(statuses, [])
    assert "mostly" not in bare
    # What the newest batch alone has is not the reason.
    (often,) = note_of(statuses, [failed("m.a")], b1="m.z", b2="m.z", b9="m.y")
    assert "mostly of m.z:" in often


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
    assert note_of(statuses, [failed("m.a")]) == ()

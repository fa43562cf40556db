"""The life of findings, as a function of verdicts and what is stored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqsql.decisions.cadence import MISSES_NEXT
from dqsql.decisions.constraints import sound_batches
from dqsql.decisions.lifecycle import accepted_findings, batch_statuses, heeded, updated_findings
from dqsql.decisions.messages import due, noted
from dqsql.decisions.reviews import flagged_last, of_same_failures, standing, without_accepted
from dqsql.model.batches import batch_times
from dqsql.model.project import Severity
from dqsql.model.results import CONSTRAINT, BatchRecord, BatchStatus, Result, Status

NOW = dt.datetime(2025, 3, 10, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(days=1)


def verdict(batch: str, status: Status, segment: str | None = None) -> Result:
    return Result(
        check_id="m.c.not_null",
        model="m",
        batch=batch,
        segment=segment,
        column="c",
        check_name="not_null",
        detector="constraint",
        status=status,
        severity=Severity.ERROR,
        message=f"{batch} has nulls" if status is Status.FAIL else "",
    )


def of(statuses: str) -> list[Result]:
    """Verdicts on the days 1, 2 ..: f is a failure, p a pass, s skipped."""
    words = {"f": Status.FAIL, "p": Status.PASS, "s": Status.SKIPPED}
    return [verdict(f"2025-03-{i:02d}", words[s]) for i, s in enumerate(statuses, 1)]


def rows(
    stored: list[dict[str, Any]], results: list[Result], at: dt.datetime = NOW, **more: Any
) -> list[Any]:
    return updated_findings(stored, results, at, **more) or stored


def test_failures_in_a_row_are_one_finding() -> None:
    (row,) = rows([], of("pfff"))
    assert row["finding_id"] == "m.c.not_null@2025-03-02"
    assert (row["state"], row["batch_count"], row["resolved_at"]) == ("open", 3, None)
    assert (row["first_batch"], row["last_batch"]) == ("2025-03-02", "2025-03-04")
    assert row["message"] == "2025-03-04 has nulls"


def test_a_pass_resolves_and_the_next_failure_opens_another() -> None:
    first, second = rows([], of("ffpsf"))
    assert (first["state"], first["resolved_batch"], first["author"]) == (
        "resolved",
        "2025-03-03",
        "dqsql",
    )
    assert (second["first_batch"], second["state"]) == ("2025-03-05", "open")


def test_a_run_goes_on_where_the_last_one_stopped() -> None:
    opened = rows([], of("ff"))
    (row,) = rows(opened, [verdict("2025-03-03", Status.FAIL)], LATER)
    assert (row["batch_count"], row["opened_at"], row["last_seen_at"]) == (3, NOW, LATER)
    (row,) = rows([row], [verdict("2025-03-04", Status.PASS)], LATER)
    assert row["resolved_at"] == LATER


def test_a_late_failure_of_a_finding_that_ends_is_told() -> None:
    late, over = verdict("2025-03-01", Status.FAIL), verdict("2025-03-03", Status.PASS)
    (told,) = rows([], [verdict("2025-03-02", Status.FAIL)])
    told["notified_at"] = NOW
    (row,) = rows([told], [late, over], LATER)
    assert (row["batch_count"], row["state"]) == (2, "resolved")
    assert due(row, LATER, opened_by_run=False, is_lost=lambda: False) == "opened"
    # Its end is told by the next messages.
    row |= noted(row, "opened", (), LATER, heard=True)
    assert due(row, LATER, opened_by_run=False, is_lost=lambda: False) == "resolved"
    row |= noted(row, "resolved", (), LATER, heard=True)
    assert due(row, LATER, opened_by_run=False, is_lost=lambda: False) is None
    (row,) = rows([told], [over], LATER)
    assert due(row, LATER, opened_by_run=False, is_lost=lambda: False) == "resolved"
    # Who has taken note of it waits for its end.
    (row,) = rows([{**told, "state": "acknowledged"}], [late, over], LATER)
    assert due(row, LATER, opened_by_run=False, is_lost=lambda: False) == "resolved"


def test_checking_repaired_batches_again_resolves() -> None:
    opened = rows([], of("ff"))
    (row,) = rows(opened, [verdict("2025-03-01", Status.PASS)], LATER)
    assert (row["batches"], row["state"]) == (["2025-03-02"], "open")
    (row,) = rows([row], [verdict("2025-03-02", Status.PASS)], LATER)
    assert row["state"] == "resolved"


def test_what_was_repaired_and_fails_again_is_open_again() -> None:
    (told,) = rows([], of("f"))
    told["notified_at"] = NOW
    (repaired,) = rows([told], [verdict("2025-03-01", Status.PASS)], LATER)
    assert repaired["state"] == "resolved"
    again = LATER + dt.timedelta(hours=1)
    (row,) = rows([repaired], [verdict("2025-03-01", Status.FAIL)], again)
    assert (row["state"], row["opened_at"], row["resolved_at"]) == ("open", again, None)
    assert (row["author"], row["notified_at"]) == (None, None)


def test_what_was_acknowledged_ends_and_fails_again_is_told() -> None:
    (row,) = rows([], of("f"))
    row |= {"state": "acknowledged", "acknowledged_at": NOW, "author": "ann", "reason": "ticket"}
    (row,) = rows([heeded(row, NOW)], [verdict("2025-03-01", Status.PASS)], LATER)
    assert (row["author"], row["acknowledged_by"]) == ("dqsql", "ann")
    (row,) = rows([row], [verdict("2025-03-01", Status.FAIL)], LATER)
    found = heeded(row, LATER)
    assert (found["state"], found["acknowledged_at"], found["author"]) == ("open", None, None)
    assert found["acknowledged_by"] is None


def test_what_is_muted_stays_so_if_it_ends_and_fails_again() -> None:
    (row,) = rows([], of("f"))
    until = LATER + dt.timedelta(days=5)
    row |= {"state": "muted", "acknowledged_at": NOW, "muted_until": until, "author": "ann"}
    row |= {"reason": "known"}
    (row,) = rows([row], [verdict("2025-03-01", Status.PASS)], LATER)
    (row,) = rows([row], [verdict("2025-03-01", Status.FAIL)], LATER)
    found = heeded(row, LATER)
    assert (found["state"], found["author"], found["reason"]) == ("muted", "dqsql", "known")
    assert heeded(row, until + dt.timedelta(hours=1))["state"] == "open"
    # The next batch that fails is part of it, and nothing opens it once more.
    later = LATER + dt.timedelta(days=1)
    (longer,) = rows([row | {"notified_at": LATER}], of("ff"), later)
    assert (longer["batch_count"], longer["opened_at"]) == (2, row["opened_at"])
    assert longer["notified_at"] == LATER


def test_what_a_person_resolved_stays_so() -> None:
    (row,) = rows([], of("f"))
    row |= {"state": "resolved", "resolved_at": NOW, "author": "ann", "reason": "known"}
    (row,) = rows([row], [verdict("2025-03-01", Status.FAIL)], LATER)
    assert row["state"] == "resolved"


def test_a_finding_whose_first_batch_was_repaired_keeps_its_name() -> None:
    opened = rows([], of("ff"))
    kept = rows(opened, [verdict("2025-03-01", Status.PASS), verdict("2025-03-03", Status.PASS)])
    first, second = rows(kept, [verdict("2025-03-01", Status.FAIL)], LATER)
    assert first["state"] == "resolved"
    assert second["finding_id"] == f"{first['finding_id']}#2"


def test_findings_of_checks_that_are_gone_are_resolved() -> None:
    opened = rows([], of("f"))
    (row,) = rows(opened, [], LATER, checks=frozenset())
    assert (row["state"], row["author"], row["resolved_at"]) == ("resolved", "dqsql", LATER)
    assert row["reason"] == "the model no longer has this check"
    # Where some annotations cannot be read, nobody knows.
    assert updated_findings(opened, [], LATER, checks=None) is None
    assert updated_findings(opened, [], LATER, checks={"m.c.not_null"}) is None


def test_findings_on_retired_batches_are_resolved() -> None:
    opened = rows([], of("ff"))
    kept = updated_findings(opened, [], LATER, retired={"2025-03-01"})
    assert kept is None
    (row,) = rows(opened, [], LATER, retired={"2025-03-01", "2025-03-02"})
    assert (row["state"], row["reason"]) == ("resolved", "batch_by has changed")


def record(batch: str, run: str, status: BatchStatus, hour: int) -> BatchRecord:
    at = NOW + dt.timedelta(hours=hour)
    return BatchRecord("m", batch, status, 1, run, "", checked_at=at)


def test_a_retry_ends_as_the_last_run_did_whichever_batch_that_was_about() -> None:
    ledger = {
        r.batch: r
        for r in (
            record("2025-03-01", "again", BatchStatus.FLAGGED, 9),
            record("2025-03-02", "old", BatchStatus.FLAGGED, 1),
            record("2025-03-03", "new", BatchStatus.FLAGGED, 2),
            record("2025-03-04", "new", BatchStatus.ACCEPTED, 2),
        )
    }
    assert flagged_last(ledger) == ("2025-03-01", "2025-03-03")
    assert flagged_last({}) == ()


def test_a_repaired_batch_takes_its_status_and_message_along() -> None:
    opened = rows([], [verdict("2025-03-01", Status.WARN), verdict("2025-03-02", Status.FAIL)])
    assert [(r["status"], r["message"]) for r in opened] == [("fail", "2025-03-02 has nulls")]
    stored = {"2025-03-01": {"status": "warn", "message": "one", "severity": "warn"}}

    def verdicts_of(check_id: str, batches: Sequence[str]) -> list[dict[str, Any]]:
        return [{"batch": b, "segment": None, **stored[b]} for b in batches]

    # Checked again, and it is but a warning; of a batch whose verdicts are gone, it is as it was.
    milder = [verdict("2025-03-02", Status.WARN)]
    (row,) = rows(opened, milder, LATER, verdicts_of=verdicts_of)
    assert (row["status"], row["last_batch"]) == ("warn", "2025-03-02")
    assert rows(opened, milder, LATER)[0]["status"] == "fail"

    repaired = [verdict("2025-03-02", Status.PASS)]
    (row,) = rows(opened, repaired, LATER, verdicts_of=verdicts_of)
    assert (row["status"], row["message"], row["severity"]) == ("warn", "one", "warn")
    assert row["batches"] == ["2025-03-01"]


def test_the_same_verdicts_again_change_nothing_but_when_it_was_seen() -> None:
    opened = rows([], of("fpf"))
    again = rows(opened, of("fpf"), LATER)
    assert [r["batches"] for r in again] == [r["batches"] for r in opened]
    assert updated_findings(opened, [verdict("2025-03-02", Status.PASS)], LATER) is None


def test_segments_belong_to_the_finding_of_the_check() -> None:
    failing = verdict("2025-03-01", Status.FAIL, "shop=a")
    (row,) = rows([], [verdict("2025-03-01", Status.PASS), failing])
    assert row["batches"] == ["2025-03-01"]
    assert row["state"] == "open"


@pytest.mark.parametrize(
    ("batch", "batch_by", "end"),
    [
        ("2025-12-31", "day", "2026-01-01T00:00"),
        ("2025-12-31 23:00:00", "date_trunc('hour', at)", "2026-01-01T00:00"),
        ("2025-12-01", "trunc(at, 'month')", "2026-01-01T00:00"),
        ("2025-10-01 00:00:00", "date_trunc('QUARTER', at)", "2026-01-01T00:00"),
        ("2025-12-31 23:00:00", "at", None),
        ("9999-12-31", "day", None),
        ("EWR", "origin", None),
    ],
)
def test_when_a_batch_ends(batch: str, batch_by: str, end: str | None) -> None:
    wanted = None if end is None else dt.datetime.fromisoformat(end).replace(tzinfo=dt.UTC)
    start, found = batch_times(batch, batch_by)
    assert found == wanted
    assert (start is None) == (batch == "EWR")


def test_a_check_that_comes_back_and_fails_again_is_open_again() -> None:
    (gone,) = rows(rows([], of("f")), [], LATER, checks=frozenset())
    again = LATER + dt.timedelta(hours=1)
    (row,) = rows([gone], of("f"), again, checks=frozenset({"m.c.not_null"}))
    assert (row["state"], row["opened_at"], row["resolved_at"]) == ("open", again, None)


def test_a_check_that_a_run_did_not_have_takes_its_finding_along_for_that_run_only() -> None:
    checks = frozenset({"m.c.not_null"})
    (told,) = rows([], of("pf"))
    (gone,) = rows([told | {"notified_at": NOW}], [], LATER, checks=frozenset())
    assert (gone["state"], gone["reason"]) == ("resolved", "the model no longer has this check")
    # Other verdicts than on the failing batch, as a run on other batches gives them.
    (row,) = rows([gone], of("p"), LATER, checks=checks)
    assert (row["state"], row["reason"], row["notified_at"]) == ("open", None, None)
    (row,) = rows([gone], of("ppp")[2:], LATER, checks=checks)
    assert (row["state"], row["resolved_batch"], row["reason"]) == ("resolved", "2025-03-03", None)
    assert row["notified_at"] == NOW
    (row,) = rows([gone], [], LATER, checks=checks, passed_after=lambda c, b: ["2025-03-07"])
    assert (row["state"], row["resolved_batch"]) == ("resolved", "2025-03-07")


def test_what_a_person_accepts_while_its_check_is_gone_stays_accepted() -> None:
    (gone,) = rows(rows([], of("f")), [], LATER, checks=frozenset())
    kept = accepted_findings([gone], ["2025-03-01"], author="ann", reason="fine", now=LATER)
    (row,) = rows(kept, of("f"), LATER, checks=frozenset({"m.c.not_null"}))
    assert (row["state"], row["author"], row["reason"]) == ("resolved", "ann", "fine")


FUTURE, PAST = LATER + dt.timedelta(days=9), NOW - dt.timedelta(days=1)
BY_COMMAND: dict[str, dict[str, Any]] = {
    "open": {},
    "reopened": {"author": "ann"},
    "acknowledged": {"state": "acknowledged", "acknowledged_at": NOW, "author": "ann"},
    "muted": {"state": "muted", "acknowledged_at": NOW, "muted_until": FUTURE, "author": "ann"},
    "resolved": {"state": "resolved", "resolved_at": NOW, "author": "ann"},
    "passed": {
        "state": "resolved",
        "resolved_at": NOW,
        "resolved_batch": "2025-03-02",
        "author": "dqsql",
    },
}
BY_SQL: dict[str, dict[str, Any]] = {
    "open": {},
    "reopened": {"author": "ann"},
    "acknowledged": {"state": "acknowledged"},
    "muted": {"muted_until": FUTURE},
    "resolved": {"state": "resolved"},
}


@pytest.mark.parametrize("before", [*BY_COMMAND, *(f"{state} by sql" for state in BY_SQL)])
@pytest.mark.parametrize(
    ("edit", "state"),
    [
        ({"state": "open"}, "open"),
        ({"state": "acknowledged"}, "acknowledged"),
        ({"state": "resolved"}, "resolved"),
        ({"assigned_to": "bob"}, None),
    ],
)
def test_the_state_that_a_person_writes_is_the_state(
    before: str, edit: dict[str, Any], state: str | None
) -> None:
    (row,) = rows([], of("f"))
    if before.endswith(" by sql"):
        row = heeded({**row, **BY_SQL[before.removesuffix(" by sql")]}, NOW)
    else:
        row = heeded({**row, **BY_COMMAND[before]}, NOW)
    stored = row["state"]
    if edit == {"state": "open"} and stored in ("open", "muted"):
        # What is muted is open from the day on that is written, or without one.
        edit = {"muted_until": None if stored == "muted" else PAST}
    if (stored, state) == ("muted", "acknowledged"):
        # Nobody is told of either, and the day may have been added.
        state = "muted"
    found = heeded({**row, **edit}, LATER)
    assert found["state"] == (state or stored)
    assert (found["resolved_at"] is None) == (found["state"] != "resolved")
    assert heeded(found, LATER) == found
    assert heeded(found, FUTURE + LATER.resolution)["state"] == found["state"].replace(
        "muted", "open"
    )


def test_a_muted_finding_is_acknowledged_or_opened_after_its_day() -> None:
    (row,) = rows([], of("f"))
    muted = heeded({**row, "muted_until": FUTURE}, NOW)
    later = FUTURE + dt.timedelta(days=1)
    over = heeded(muted, later)
    assert over["state"] == "open"
    assert heeded({**over, "state": "acknowledged"}, later)["state"] == "acknowledged"
    assert heeded({**muted, "state": "acknowledged"}, later)["state"] == "acknowledged"
    assert heeded({**muted, "state": "open"}, NOW)["state"] == "open"


def test_a_review_without_a_time_resolves_as_others_do() -> None:
    opened = rows([], of("ff"))
    reviews = {
        "2025-03-01": {"at": None, "verdict": "accept", "author": "bob", "reason": None},
        "2025-03-02": {"at": NOW, "verdict": "accept", "author": "ann", "reason": "known"},
    }
    (row,) = without_accepted(opened, reviews, LATER)
    assert (row["state"], row["author"], row["reason"]) == ("resolved", "ann", "known")


def test_a_finding_says_where_it_fails() -> None:
    (row,) = rows(
        [],
        [
            verdict("2025-03-01", Status.PASS),
            replace(verdict("2025-03-01", Status.FAIL, "shop=b"), message="1 row"),
        ],
    )
    assert (row["status"], row["message"]) == ("fail", "1 row (in shop=b)")
    # The whole batch only warns: the failure of a segment is what the finding is about.
    (row,) = rows(
        [],
        [
            replace(verdict("2025-03-01", Status.WARN), message="warns"),
            replace(verdict("2025-03-01", Status.FAIL, "shop=b"), message="fails"),
        ],
    )
    assert (row["status"], row["message"]) == ("fail", "fails (in shop=b)")


@given(st.text("fps", min_size=1, max_size=7), st.data())
def test_failures_that_come_late_are_open_as_if_they_had_come_in_time(
    statuses: str, data: st.DataObject
) -> None:
    verdicts = of(statuses)
    whole = rows([], verdicts)
    failures = [r for r in verdicts if r.status is Status.FAIL]
    late = data.draw(st.permutations(failures))[: data.draw(st.integers(0, len(failures)))]
    order = [*(r for r in verdicts if r not in late), *late]
    stored: list[Any] = []
    seen: dict[str, Status] = {}
    for result in order:

        def after(check: str, batch: str, seen: dict[str, Status] = seen) -> list[str]:
            return sorted(b for b, s in seen.items() if b > batch and s is Status.PASS)

        stored = rows(stored, [result], passed_after=after)
        seen[result.batch or ""] = result.status

    def failing(found: list[Any]) -> list[tuple[Any, ...]]:
        return sorted((b, r["resolved_at"] is None) for r in found for b in r["batches"])

    assert failing(stored) == failing(whole)


@pytest.mark.parametrize(
    ("status", "review", "expected"),
    [
        (Status.WARN, "reject", BatchStatus.REJECTED),
        (Status.FAIL, "reject", BatchStatus.REJECTED),
        (Status.PASS, "reject", BatchStatus.ACCEPTED),
        (Status.WARN, "accept", BatchStatus.ACCEPTED),
        (Status.FAIL, "accept", BatchStatus.ACCEPTED),
        (Status.WARN, None, BatchStatus.ACCEPTED),
        (Status.FAIL, None, BatchStatus.FLAGGED),
    ],
)
def test_what_a_batch_becomes(status: Status, review: str | None, expected: BatchStatus) -> None:
    reviews = {} if review is None else {"b": review}
    assert batch_statuses([verdict("b", status)], ["b"], reviews) == {"b": expected}


@pytest.mark.parametrize(
    ("detector", "holds", "expected"),
    [
        (CONSTRAINT, False, BatchStatus.ACCEPTED),
        (CONSTRAINT, True, BatchStatus.FLAGGED),
        ("cadence", True, BatchStatus.ACCEPTED),
    ],
)
def test_a_batch_that_is_old_is_handed_on_by_nobody(
    detector: str, holds: bool, expected: BatchStatus
) -> None:
    old = replace(verdict("b", Status.FAIL), detector=detector, details={MISSES_NEXT: True})
    assert batch_statuses([old], ["b"], {}, holds=holds) == {"b": expected}
    assert (sound_batches([old], ["b"], holds=holds) == {"b"}) == (expected != BatchStatus.FLAGGED)
    # Nor is what a person accepted less so, because it is older now.
    older = replace(old, observed=100.0)
    assert of_same_failures({"b": "accept"}, [older], lambda batches: ()) == {"b": "accept"}


def test_a_failure_after_a_warning_is_told_again() -> None:
    (warned,) = rows([], [verdict("2025-03-01", Status.WARN)])
    told = {**warned, "notified_at": NOW}
    (again,) = rows([told], [verdict("2025-03-02", Status.WARN)])
    assert again["notified_at"] == NOW
    (failed,) = rows([told], [verdict("2025-03-02", Status.FAIL)])
    assert (failed["status"], failed["notified_at"]) == ("fail", None)


@given(st.lists(st.sampled_from("fps"), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_a_pass_that_comes_late_splits_a_finding(statuses: list[str], order: Any) -> None:
    """Whenever batches with a pass come, findings are about the same batches as in a backfill."""
    verdicts = of("".join(statuses))
    passing = [r for r in verdicts if r.status is Status.PASS]
    found = rows([], [r for r in verdicts if r.status is not Status.PASS])
    order.shuffle(passing)
    for late in passing:
        found = rows(found, [late])

    def about(some: list[Any]) -> list[Any]:
        # What resolved it first may be a later batch than in order.
        kept = ("finding_id", "batches", "state", "first_batch", "last_batch")
        return sorted([[r[name] for name in kept] for r in some], key=str)

    assert about(found) == about(rows([], verdicts))


def test_the_rest_of_a_finding_that_a_late_pass_splits_is_told() -> None:
    (told,) = rows([], [verdict("2025-03-02", Status.FAIL), verdict("2025-03-04", Status.FAIL)])
    told["notified_at"] = NOW
    first, rest = rows([told], [verdict("2025-03-03", Status.PASS)], LATER)
    assert (first["finding_id"], first["state"]) == ("m.c.not_null@2025-03-02", "resolved")
    assert (rest["finding_id"], rest["state"]) == ("m.c.not_null@2025-03-04", "open")

    def told_now(row: Any) -> str | None:
        return due(row, LATER, opened_by_run=False, is_lost=lambda: False)

    assert (told_now(first), told_now(rest)) == ("resolved", "opened")


def test_failures_that_come_late_before_a_pass_are_one_finding() -> None:
    days = of("pfffpffp")
    ends = [days[0], days[4], days[7]]
    stored = rows([], ends)
    after = passing_after({r.batch or "": r.status for r in ends})
    found = rows(stored, [r for r in days if r not in ends], LATER, passed_after=after)
    assert [(r["batch_count"], r["resolved_batch"]) for r in found] == [
        (3, "2025-03-05"),
        (2, "2025-03-08"),
    ]


def passing_after(seen: dict[str, Status]) -> Callable[[str, str], list[str]]:
    """The later batches with a pass, as they were last seen."""
    return lambda _, batch: sorted(b for b, s in seen.items() if b > batch and s is Status.PASS)


def test_what_fails_again_behind_a_batch_that_passes_is_told_again() -> None:
    days = of("pfp")
    (told,) = rows([], days)
    told["notified_at"] = NOW
    assert (told["state"], told["resolved_batch"]) == ("resolved", "2025-03-03")
    after = passing_after({"2025-03-03": Status.PASS})
    (repaired,) = rows([told], [verdict("2025-03-02", Status.PASS)], LATER, passed_after=after)
    assert repaired["notified_at"] == NOW
    again = LATER + dt.timedelta(hours=1)
    (row,) = rows([repaired], [verdict("2025-03-02", Status.FAIL)], again, passed_after=after)
    assert (row["state"], row["resolved_batch"]) == ("resolved", "2025-03-03")
    assert (row["opened_at"], row["notified_at"]) == (again, None)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("fp")), min_size=1, max_size=12))
def test_what_is_open_fails_now_without_a_pass_after_it(checked: list[tuple[int, str]]) -> None:
    """However often batches are checked again, and whatever is found of them then."""
    seen: dict[str, Status] = {}
    found: list[Any] = []
    for day, status in checked:
        result = verdict(f"2025-03-{day:02d}", {"f": Status.FAIL, "p": Status.PASS}[status])
        found = rows(found, [result], passed_after=passing_after(seen))
        seen[result.batch or ""] = result.status
    last = max((b for b, s in seen.items() if s is Status.PASS), default="")
    expected = sorted(b for b, s in seen.items() if s is Status.FAIL and b > last)
    told = [r for r in found if r["resolved_at"] is None]
    still = sorted({b for r in told for b in r["batches"]})
    # What was resolved by a batch that fails now stays so: that batch is told.
    assert set(still) <= set(expected)
    assert still[-1:] == expected[-1:]


def test_a_review_is_spent_once_its_batch_was_repaired() -> None:
    def left(verdict: str, status: BatchStatus, hour: int, *, fails: bool = False) -> list[str]:
        reviews = {"b": {"verdict": verdict, "at": NOW}}
        ledger = {"b": record("b", "run", status, hour)}
        return [*standing(reviews, ledger, lambda batches: batches if fails else ())]

    accepted, flagged, rejected = BatchStatus.ACCEPTED, BatchStatus.FLAGGED, BatchStatus.REJECTED
    # Checked before the review, or again with the same failure.
    assert left("accept", flagged, -1) == left("accept", accepted, 1, fails=True) == ["b"]
    assert left("reject", flagged, -1) == left("reject", rejected, 1) == ["b"]
    # Repaired since, and perhaps broken again.
    assert left("accept", accepted, 1) == left("accept", flagged, 1, fails=True) == []
    assert left("reject", accepted, 1) == left("reject", flagged, 1, fails=True) == []
    assert left("accept", BatchStatus.INCOMPLETE, 1) == ["b"]


def test_a_finding_that_spreads_to_another_segment_is_told_again() -> None:
    def on(day: int, *failing: str | None) -> list[Result]:
        batch = f"2025-03-{day:02d}"
        return [
            verdict(batch, Status.FAIL if s in failing else Status.PASS, s)
            for s in (None, "shop=a", "shop=b")
        ]

    def told(row: dict[str, Any]) -> bool:
        return due(row, LATER, opened_by_run=True, is_lost=lambda: False) == "opened"

    stored = rows([], on(1, None, "shop=a"))
    (row,) = stored
    assert row["segments"] == ["shop=a"]
    assert row["message"] == "2025-03-01 has nulls (also in shop=a)"
    row.update(notified_at=NOW)
    # Nothing new in the same one, in fewer, or of the batch as a whole.
    for failing in (("shop=a",), (None, "shop=a"), (None,)):
        (same,) = rows(stored, on(2, *failing), LATER)
        assert not told(same) and same["batch_count"] == 2
    (other,) = rows(stored, on(2, "shop=b"), LATER)
    assert told(other) and other["segments"] == ["shop=a", "shop=b"]
    assert other["message"] == "2025-03-02 has nulls (in shop=b)"
    row.update(state="acknowledged", acknowledged_at=NOW, author="ann", reason="known")
    (again,) = rows(stored, on(2, "shop=a", "shop=b"), LATER)
    assert told(again) and again["acknowledged_at"] is again["author"] is None
    row.update(state="muted", muted_until=LATER + dt.timedelta(days=9))
    (muted,) = rows(stored, on(2, "shop=b"), LATER)
    assert not told(muted) and muted["state"] == "muted"
    # One that it was about before is no news, whoever acknowledged it.
    row.update(state="acknowledged", muted_until=None, segments=["shop=a", "shop=b"])
    (known,) = rows(stored, on(2, "shop=b"), LATER)
    assert not told(known) and known["author"] == "ann"
    # What an older version stored says nothing of segments.
    row.update(state="open", muted_until=None, segments=None)
    assert not told(rows(stored, on(2, "shop=b"), LATER)[0])

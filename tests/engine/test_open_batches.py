"""Whether a batch of today has all of its rows is learned from the days before."""

from __future__ import annotations

import datetime as dt

import pytest

from dqsql.engine.batches import BatchChoice
from dqsql.engine.open_batches import full_later
from dqsql.model.batches import batch_times
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel, ModelConfig
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.runner.stages import newest_again, waits

HOUR = dt.timedelta(hours=1)
TODAY = "2024-01-11"


def ledger(age: float, first: int, rows: int, days: int = 10) -> dict[str, BatchRecord]:
    """Days that were first checked `age` hours after their midnight, and once more a day later."""
    found = {}
    for day in range(1, days + 1):
        name = f"2024-01-{day:02d}"
        start, end = batch_times(name, None)
        assert start is not None
        at = start + age * HOUR
        found[name] = BatchRecord(
            "m",
            name,
            BatchStatus.ACCEPTED,
            rows,
            "r",
            "",
            checked_at=at + 24 * HOUR,
            start=start,
            end=end,
            first_checked_at=at,
            first_rows=first,
        )
    return found


def later(known: dict[str, BatchRecord], age: float, batch: str = TODAY) -> float | None:
    """At which age a batch is judged; None for now."""
    start, _ = batch_times(batch, None)
    assert start is not None
    found = full_later([batch], known, {batch: 5}, None, start + age * HOUR)
    return (found[batch] - start) / HOUR if batch in found else None


@pytest.mark.parametrize(
    ("first_at", "first", "rows", "age", "judged_at"),
    [
        # Rows are added as they happen.
        (2, 100, 2_400, 2, 24),
        (2, 100, 2_400, 14, 24),
        (2, 100, 2_400, 26, None),
        # A file is delivered in the morning; late rows are few.
        (7, 2_400, 2_400, 7, None),
        (7, 2_300, 2_400, 7, None),
        # In Hawaii, a day has all of its rows ten hours later than in UTC.
        (26, 2_000, 2_400, 26.2, 29),
        (26, 2_000, 2_400, 34, None),
        # In Japan it begins earlier.
        (-8, 100, 2_400, -8, 24),
        # First checked long after they were over, as by a backfill.
        (60, 100, 2_400, 2, None),
        (2, 0, 7, 2, 24),
    ],
)
def test_what_earlier_batches_had_when_first_checked_says_whether_to_wait(
    first_at: float, first: int, rows: int, age: float, judged_at: float | None
) -> None:
    assert later(ledger(first_at, first, rows), age) == judged_at


def test_only_batches_of_such_an_age_say_that_this_one_is_full() -> None:
    """Ten hours were found full by the first run; nobody had looked at one in its first minutes."""
    half, day = ledger(0.5, 100, 200, days=1), ledger(30, 200, 200)
    assert later(half | {b: r for b, r in day.items() if b not in half}, 0.5) == 24
    assert later(half | {b: r for b, r in day.items() if b not in half}, 30) is None


def test_a_batch_without_others_before_it_is_judged_at_once() -> None:
    assert later({}, 2) is None
    assert later(ledger(2, 100, 2_400), 2, "2024-01-01") is None
    assert later(ledger(2, 100, 2_400, days=1), 2, "2024-01-02") == 24


def test_the_newest_batches_count() -> None:
    once = ledger(2, 100, 2_400)
    now = {b: r for b, r in ledger(7, 2_400, 2_400).items() if b > "2024-01-06"}
    assert later(once | now, 7) is None
    assert later(once | {b: r for b, r in now.items() if b > "2024-01-08"}, 7) == 24


def test_what_a_batch_has_in_this_run_counts_for_the_next() -> None:
    known = ledger(2, 100, 100, days=10)
    rows = dict.fromkeys(known, 2_400)
    now = dt.datetime(2024, 1, 11, 2, tzinfo=dt.UTC)
    assert full_later([TODAY], known, {}, None, now) == {}
    assert full_later([TODAY], known, rows, None, now) == {TODAY: now + 22 * HOUR}


def test_names_that_are_no_times_or_the_last_there_is() -> None:
    known = ledger(2, 100, 2_400)
    now = dt.datetime(2024, 1, 11, 2, tzinfo=dt.UTC)
    assert full_later(["b-12", "9999-12-31"], known, {}, None, now) == {}
    end = {"9999-12-31": BatchRecord("m", "9999-12-31", BatchStatus.ACCEPTED, 5, "r", "")}
    assert TODAY in full_later([TODAY], known | end, {}, None, now)


@pytest.mark.parametrize(("minutes", "again"), [(-1, ()), (1, ("2024-01-01",))])
def test_what_waits_is_judged_though_nothing_is_new(minutes: int, again: tuple[str, ...]) -> None:
    due = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    record = BatchRecord("m", "2024-01-01", BatchStatus.ACCEPTED, 5, "r", "", judged_from=due)
    now = due + dt.timedelta(minutes=minutes)
    nothing = BatchChoice((), sizes={"2024-01-01": 5}, newest="2024-01-01")
    model = CheckModel("m", "checks/m.sql", "", "", ModelConfig(batch_by="day"), (), (), ())
    plan = Plan(model, (), (), ())
    choice = newest_again(nothing, plan, {"2024-01-01": record}, now, {})
    assert choice.batches == again and bool(choice.notes) == bool(again)
    assert waits([record], now) == bool(again)
    named = BatchChoice((), sizes={"2024-01-01": 5})
    assert newest_again(named, plan, {"2024-01-01": record}, now, {}).batches == ()

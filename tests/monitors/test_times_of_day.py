"""Which batches are of one time of day, and that monitors learn from those."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from dqsql.monitors.history import NEXT, History
from dqsql.monitors.recompute import batches_of, rests_on
from dqsql.monitors.times_of_day import TimesOfDay


def at(hours: list[float], days: int = 20, first: str = "2026-10-01") -> list[str]:
    start = dt.datetime.fromisoformat(first)
    return [str(start + dt.timedelta(days=d, hours=h)) for d in range(days) for h in hours]


HOURLY = at([float(h) for h in range(24)])


@pytest.mark.parametrize("hours", [[6, 18], [0, 0.25, 0.5, 12], [float(h) for h in range(24)]])
def test_a_schedule_of_several_a_day(hours: list[float]) -> None:
    batches = at(hours)
    times = TimesOfDay(batches)
    assert {times.of(b) for b in batches[3 * len(hours) :]} == {
        dt.datetime.fromisoformat(b).time() for b in batches
    }
    assert times.of_next() == dt.datetime.fromisoformat(batches[0]).time()
    # The batches of a time are found by it, and those of days that lack it do not matter.
    holes = [b for i, b in enumerate(batches) if i % 7]
    assert TimesOfDay(holes).of(holes[-1]) is not None


def test_no_schedule() -> None:
    rng = np.random.default_rng(1)
    by_chance = [
        str(dt.datetime(2026, 10, 1) + dt.timedelta(hours=float(h)))
        for h in np.sort(rng.uniform(0, 480, 60))
    ]
    # One a day, which comes an hour later since the clocks were changed.
    winter = at([4]) + at([5], first="2026-10-25")
    for batches in (
        by_chance,
        winter,
        at([0]),
        ["2026-10", "2026-11"],
        ["a", *HOURLY],
        ["1", "2"],
        [],
    ):
        times = TimesOfDay(batches)
        assert [times.of(b) for b in batches[8:]] == [None] * len(batches[8:])
        assert times.of_next() is None


def test_a_history_as_a_batch_of_an_hour_sees_it() -> None:
    history = History(HOURLY[:-1], known=HOURLY)
    last = HOURLY[-1]
    seen = history.alike(last)
    assert seen.time == dt.time(23)
    assert seen.before(last) == HOURLY[23:-1:24]
    assert (seen.between(HOURLY[-25], last), history.between(HOURLY[-25], last)) == (0, 23)
    assert seen.steps(seen.before(last), last) == HOURLY[23:-1:24]
    assert history.alike(NEXT).time == dt.time(0)
    # What is accepted meanwhile is seen.
    history.accept(last)
    assert history.alike(NEXT).before(NEXT) == HOURLY[::24]
    # A stored verdict says which batches it rests on.
    details = rests_on(seen, seen.before(last)[3:])
    assert batches_of(details, HOURLY) == HOURLY[23 + 72 : -1 : 24]
    assert details["left_out"] == []


def test_a_time_that_comes_again_after_months_is_new() -> None:
    """As the names in UTC of loads at 6:00 and 18:00 in New York."""
    winter, summer = at([11, 23], 60, "2026-01-01"), at([10, 22], 120, "2026-03-02")
    again = at([11, 23], 40, "2026-07-01")
    batches = [*winter, *summer, *again]
    history = History(batches, known=batches)
    assert history.alike(again[2]).time is None
    last = history.alike(again[-1])
    assert last.before(again[-1]) == again[1:-1:2]
    assert last.steps(last.before(again[-1]), again[-1]) == again[1:-1:2]
    assert history.of_its_time(again[-1], batches[:-1]) == again[1:-1:2]
    assert history.alike(winter[-1]).before(winter[-1]) == winter[1:-1:2]


def test_the_next_batch_is_no_name_of_a_time() -> None:
    history = History(HOURLY, known=[*HOURLY, NEXT])
    assert history.alike(NEXT).before(NEXT) == HOURLY[::24]


def test_a_time_of_day_that_is_new_is_compared_with_all() -> None:
    new = "2026-10-21 12:30:00"
    batches = [*HOURLY, "2026-10-20 12:30:00", new]
    assert History(batches[:-1], known=batches).alike(new).time is None
    # In the first two weeks of a feed it is waited for.
    assert History(HOURLY[:30], known=HOURLY).alike(HOURLY[31]).time == dt.time(7)

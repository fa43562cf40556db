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
    # Runs of a table without batches while it is set up, on one day and on two.
    runs = [f"2026-10-01 09:{m:02}:{7 * m % 60:02}" for m in range(1, 20, 3)]
    for batches in (
        by_chance,
        runs,
        [*runs, *(run.replace("01 09", "02 11") for run in runs)],
        winter,
        at([0]),
        ["2026-10", "2026-11"],
        ["a", *HOURLY],
        ["1", "2"],
        [],
    ):
        times = TimesOfDay(batches)
        assert [times.of(b) for b in batches[4:]] == [None] * len(batches[4:])
        assert times.of_next() is None


def test_a_history_as_a_batch_of_an_hour_sees_it() -> None:
    history = History(HOURLY[:-1], known=HOURLY)
    last = HOURLY[-1]
    seen = history.alike(last)
    assert seen.times == (dt.time(23),)
    assert seen.before(last) == HOURLY[23:-1:24]
    assert (seen.between(HOURLY[-25], last), history.between(HOURLY[-25], last)) == (0, 23)
    assert seen.steps(seen.before(last), last) == HOURLY[23:-1:24]
    assert history.alike(NEXT).times == (dt.time(0),)
    # What is accepted meanwhile is seen.
    history.accept(last)
    assert history.alike(NEXT).before(NEXT) == HOURLY[::24]
    # A stored verdict says which batches it rests on.
    details = rests_on(seen, seen.before(last)[3:])
    assert batches_of(details, HOURLY) == HOURLY[23 + 72 : -1 : 24]
    assert details["left_out"] == []


def test_a_time_that_is_new_is_the_nearest_until_it_has_batches_enough() -> None:
    """As the names in UTC of loads at 6:00 and 18:00 in New York."""
    winter, summer = at([11, 23], 60, "2026-01-01"), at([10, 22], 120, "2026-03-02")
    again = at([11, 23], 40, "2026-06-30")
    batches = [*winter, *summer, *again]
    history = History(batches, known=batches)

    def before(batch: str) -> list[str]:
        seen = history.alike(batch)
        found = seen.before(batch)
        assert seen.steps(found, batch) == found
        assert list(history.of_its_time(batch, batches[: batches.index(batch)])) == found
        assert batches_of(rests_on(seen, found), batches) == found
        return found

    assert before(winter[-1]) == winter[1:-1:2]
    assert before(summer[0]) == winter[::2]
    assert before(summer[4]) == [*winter[::2], *summer[:4:2]]
    assert before(summer[28]) == summer[:28:2]
    assert before(summer[-1]) == summer[1:-1:2]
    assert before(again[5]) == [*summer[1::2], *again[1:5:2]]
    assert before(again[-1]) == again[1:-1:2]


def test_after_weeks_without_a_batch_a_time_is_not_new() -> None:
    batches = [*at([6, 18], 20, "2026-01-01"), *at([6, 18], 3, "2026-03-01")]
    assert History(batches, known=batches).alike(batches[-1]).before(batches[-1]) == batches[1:-1:2]


def test_the_next_batch_is_no_name_of_a_time() -> None:
    history = History(HOURLY, known=[*HOURLY, NEXT])
    assert history.alike(NEXT).before(NEXT) == HOURLY[::24]


def test_in_the_first_two_weeks_of_a_feed_each_time_is_waited_for() -> None:
    assert History(HOURLY[:30], known=HOURLY).alike(HOURLY[31]).before(HOURLY[31]) == [HOURLY[7]]

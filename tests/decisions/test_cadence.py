"""Rhythms of batches: learned and declared, what is missing in them, and what is late."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from dqsql.decisions.cadence import (
    Cadence,
    CadenceError,
    gap_before,
    history_for,
    lateness,
    learn_cadence,
    live_delays,
    read_cadence,
    zones_in,
)

START = dt.datetime(2024, 1, 1)  # A Monday.
DAY = dt.timedelta(days=1)
HOUR = dt.timedelta(hours=1)


def uneven(days: int, hours: Sequence[int] = (6, 10, 18)) -> list[dt.datetime]:
    """Loads at some times each day."""
    return [START + DAY * day + HOUR * hour for day in range(days) for hour in hours]


def days(number: int, without: Sequence[int] = (), *, weekends: bool = True) -> list[dt.datetime]:
    found = [START + DAY * i for i in range(number) if i not in without]
    return [d for d in found if weekends or d.weekday() < 5]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (days(30), "every day"),
        (days(30, weekends=False), "every day on some days"),
        ([START + HOUR * 6 * i for i in range(40)], "every 6 hours"),
        ([START + DAY * 7 * i for i in range(9)], "every week"),
        ([dt.datetime(2024, m, 1) for m in range(1, 9)], "every month"),
        ([START + DAY * i * i for i in range(9)], None),
        (uneven(20), "every 4 hours at some times"),
        (uneven(12), None),
        ([START + HOUR * (7 * i + i * i % 5) for i in range(90)], None),
        (days(2), None),
    ],
)
def test_learned_rhythms(times: list[dt.datetime], words: str | None) -> None:
    found = learn_cadence(times)
    assert (found and found.words) == words


def test_a_missing_day_is_told_and_a_weekend_is_none() -> None:
    gap = gap_before(days(20), START + DAY * 22, 0.01)
    assert gap is not None
    assert gap.alarm
    assert gap.words == "2024-01-21, 2024-01-22"
    work = days(26, weekends=False)
    assert work[-1].weekday() == 4
    monday = gap_before(work, work[-1] + 3 * DAY, 0.01)
    assert monday is not None
    assert not monday.alarm
    tuesday = gap_before(work, work[-1] + 4 * DAY, 0.01)
    assert tuesday is not None
    assert tuesday.alarm
    assert tuesday.words == "2024-01-29"


def test_the_first_weekend_is_no_alarm() -> None:
    """Nothing is known yet of Saturdays."""
    gap = gap_before(days(5), START + 7 * DAY, 0.01, min_history=3)
    assert gap is None or not gap.alarm


def test_batches_that_are_often_missing_are_no_news_until_many_are() -> None:
    past = days(80, without=range(10, 80, 12))
    one = gap_before(past, past[-1] + 2 * DAY, 0.01)
    assert one is not None
    assert not one.alarm
    four = gap_before(past, past[-1] + 5 * DAY, 0.01)
    assert four is not None
    assert four.alarm


def test_false_alarms_stay_below_the_rate() -> None:
    """Sources that lose two batches in a hundred: over 120 days each, few of them are told."""
    alarms = told = 0
    for seed in range(20):
        lost = np.flatnonzero(np.random.default_rng(seed).random(180) < 0.02)
        times = days(180, without=lost.tolist())
        for i in range(60, len(times)):
            gap = gap_before(times[:i], times[i], 0.01)
            told += 1
            alarms += gap is not None and gap.alarm
    # Each is a true gap; of a source that is known to lose some, not every one is told.
    assert alarms / told < 0.01


def test_declared_rhythms() -> None:
    weekdays = read_cadence("weekdays")
    assert gap_before([START], START + DAY, 0.01, weekdays).alarm is False  # type: ignore[union-attr]
    friday = START + 4 * DAY
    assert not gap_before([friday], friday + 3 * DAY, 0.01, weekdays).alarm  # type: ignore[union-attr]
    assert gap_before([friday], friday + 4 * DAY, 0.01, weekdays).alarm  # type: ignore[union-attr]
    monthly = read_cadence("monthly")
    end = dt.datetime(2024, 1, 31)
    assert monthly.after(end) == dt.datetime(2024, 2, 29)
    assert read_cadence("15 minutes").after(START) == START + HOUR / 4
    for wrong in ("dayly", "0 hours", "", "3 fortnights"):
        with pytest.raises(CadenceError, match="daily"):
            read_cadence(wrong)


def test_a_late_newest_batch() -> None:
    times = days(20)
    newest = times[-1]
    usual = [2 * HOUR] * 5
    # The batch of the next day is complete a day later, and due after the usual two hours twice
    # and half a day.
    in_time = lateness(times, usual, newest + 2 * DAY + 15 * HOUR)
    assert in_time is not None
    assert not in_time.late
    late = lateness(times, usual, newest + 2 * DAY + 17 * HOUR)
    assert late is not None
    assert late.late
    assert late.words == "2024-01-21"
    later = lateness(times, usual, newest + 4 * DAY)
    assert later is not None
    assert later.words == "2024-01-21, 2024-01-22"
    # Data of years ago, read in one go, is not late: nothing came in as time went by.
    long_after = [(t + DAY, dt.datetime(2026, 1, 1)) for t in times]
    assert live_delays(long_after, DAY) == []
    assert lateness(times, [], dt.datetime(2026, 1, 1)) is None
    declared = lateness([START], [], START + 10 * DAY, read_cadence("daily"))
    assert declared is not None
    assert declared.late


def test_each_run_says_once_when_batches_come() -> None:
    # Hours that come five hours after their end, and one run that was late by ten batches.
    ends = [(START + n * HOUR, START + (n + 5) * HOUR) for n in range(20)]
    ends += [(START + n * HOUR, START + 35 * HOUR) for n in range(20, 30)]
    assert live_delays(ends, HOUR) == [*[5 * HOUR] * 9, 15 * HOUR]
    # Four at a time wait for each other, and all hours of a day for the next one.
    by_four = [(START + n * HOUR, START + (n // 4 * 4 + 4) * HOUR) for n in range(12)]
    # What the first run found may be a backfill.
    assert live_delays(by_four, HOUR) == [4 * HOUR] * 2
    by_day = [(START + n * HOUR, START + (n // 24 * 24 + 40) * HOUR) for n in range(72)]
    assert live_delays(by_day, HOUR) == [40 * HOUR] * 2
    backfill = [(START + n * HOUR, START + 48 * HOUR) for n in range(48)]
    live = [(START + n * HOUR, START + (n + 1) * HOUR) for n in range(48, 51)]
    assert live_delays([*backfill, *live], HOUR) == [HOUR] * 3
    # Snapshots come on their day.
    early = [(START + n * DAY, START + n * DAY - 22 * HOUR) for n in range(3)]
    assert live_delays(early, DAY) == [-22 * HOUR] * 3
    # Local times may be ahead of UTC.
    ahead = [(START + n * HOUR, START + (n - 2) * HOUR) for n in range(5)]
    assert live_delays(ahead, HOUR) == [-2 * HOUR] * 5


def test_the_hour_that_clocks_leave_out_is_not_late() -> None:
    times = [dt.datetime(2025, 3, 30) + (n - 30) * HOUR for n in range(32)]
    declared, quarter = read_cadence("hourly"), HOUR / 4
    berlin = ["Europe/Berlin"]
    # At 3:40 the hour from 1:00 is the newest, and that from 3:00 is not over.
    now = dt.datetime(2025, 3, 30, 3, 40)
    # As in gaps: without a zone, by the clocks of most people.
    for zones in (berlin, ()):
        late = lateness(times, [], now, declared, quarter, zones)
        assert late is not None
        assert not late.late
    tokyo = lateness(times, [], now, declared, quarter, ["Asia/Tokyo"])
    assert tokyo is not None
    assert tokyo.words == "2025-03-30 02:00"
    late = lateness(times, [], now + HOUR, declared, quarter, berlin)
    assert late is not None
    assert (late.words, late.due) == ("2025-03-30 03:00", dt.datetime(2025, 3, 30, 4, 15))


def test_nothing_is_late_where_nothing_was_looked_for() -> None:
    times = days(20)
    until = times[-1] + 2 * DAY
    late = lateness(times, [], times[-1] + 9 * DAY, read_cadence("daily"), before=until)
    assert late is not None
    assert late.words == "2024-01-21"
    late = lateness(times, [], times[-1] + 9 * DAY, read_cadence("daily"), before=until - DAY)
    assert late is not None
    assert not late.late


def test_midnight_is_no_day_among_hours() -> None:
    times = [dt.datetime(2025, 5, 7) + n * HOUR for n in range(23)]
    gap = gap_before(times, dt.datetime(2025, 5, 8, 2), 0.01, read_cadence("hourly"))
    assert gap is not None
    assert gap.words == "2025-05-07 23:00, 2025-05-08 00:00, 2025-05-08 01:00"


@pytest.mark.parametrize("months", [1, 3, 12])
@pytest.mark.parametrize("day", [1, 15, 30, 31])
def test_months_end_where_they_end(months: int, day: int) -> None:
    def place(number: int) -> dt.datetime:
        year, month = 2022 + number * months // 12, number * months % 12 + 1
        return dt.datetime(year, month, min(day, calendar.monthrange(year, month)[1]))

    times = [place(number) for number in range(24)]
    word = {1: "monthly", 3: "quarterly", 12: "yearly"}[months]
    for declared in (None, read_cadence(word)):
        for i in range(3, len(times)):
            gap = gap_before(times[:i], times[i], 0.01, declared)
            assert gap is None or gap.missing == ()
    # One that was missing leaves the rhythm what it was, and is told.
    lost = [*times[:10], *times[11:]]
    found = learn_cadence(lost)
    assert found is not None
    assert found.months == months
    missing = gap_before(times[:10], times[11], 0.01, read_cadence(word))
    assert missing is not None
    assert [m.month for m in missing.missing] == [times[10].month]
    learned = gap_before(times[:10], times[11], 0.05)
    assert learned is not None
    assert learned.alarm


def test_four_weeks_are_no_month() -> None:
    found = learn_cadence([START + 28 * DAY * i for i in range(12)])
    assert found is not None
    assert found.words == "every 4 weeks"


def test_an_hour_that_clocks_leave_out_is_not_missing() -> None:
    zone = ZoneInfo("Europe/Berlin")
    start = dt.datetime(2024, 3, 20, tzinfo=dt.UTC)
    hours = [
        (start + dt.timedelta(hours=h)).astimezone(zone).replace(tzinfo=None) for h in range(400)
    ]
    at = hours.index(dt.datetime(2024, 3, 31, 3))
    zones = zones_in("select from_utc_timestamp(ts, 'Europe/Berlin'), 'a/b', 'No/Where' from t")
    assert zones == ("Europe/Berlin",)
    for declared in (None, read_cadence("hourly")):
        # Without a word of the zone it may be one in which clocks are put forward then.
        local = gap_before(hours[:at], hours[at], 0.01, declared)
        assert local is not None and not local.alarm
        tokyo = gap_before(hours[:at], hours[at], 0.01, declared, zones=["Asia/Tokyo"])
        assert tokyo is not None and tokyo.words == "2024-03-31 02:00"
        more = gap_before(hours[:at], hours[at + 1], 0.01, declared)
        assert more is not None and more.words == "2024-03-31 02:00, 2024-03-31 03:00"
        known = gap_before(hours[:at], hours[at], 0.01, declared, zones=zones)
        assert known is not None and known.missing == ()
        # Another hour of that day is missing all the same.
        other = gap_before(hours[:at], hours[at + 1], 0.01, declared, zones=zones)
        assert other is not None and other.words == "2024-03-31 03:00"
    # A day is missing all the same, whose first hour clocks leave out.
    begun = dt.datetime(2024, 4, 10)
    weeks = [begun + d * DAY for d in range(16)]
    daily = gap_before(weeks, begun + 17 * DAY, 0.01, zones=["Africa/Cairo"])
    assert daily is not None and daily.words == "2024-04-26"


@pytest.mark.parametrize(
    ("word", "times"),
    [
        ("daily", [START + n * DAY + dt.timedelta(minutes=7 * n % 15) for n in range(20)]),
        ("weekly", [START, START + 7 * DAY, START + 15 * DAY, START + 21 * DAY]),
        ("monthly", [dt.datetime(2024, m, d) for m, d in ((1, 1), (2, 1), (3, 1), (4, 3), (5, 2))]),
    ],
)
def test_what_comes_a_little_later_is_not_missing(word: str, times: list[dt.datetime]) -> None:
    rhythm = read_cadence(word)
    assert [rhythm.between(a, b) for a, b in pairwise(times)] == [[]] * (len(times) - 1)
    assert len(rhythm.between(times[0], rhythm.after(rhythm.after(times[0])))) == 1


@pytest.mark.parametrize("fpr", [0.05, 0.01, 0.000496, 0.0001])
def test_so_long_a_history_tells_of_one_gap(fpr: float) -> None:
    hours = history_for(fpr) + 1
    past = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=n) for n in range(max(hours, 200))]
    found = gap_before(past, past[-1] + dt.timedelta(hours=2), fpr)
    assert found is not None and found.alarm


def test_the_last_working_day_of_each_month() -> None:
    days = []
    for year, month in ((y, m) for y in (2023, 2024, 2025) for m in range(1, 13)):
        day = dt.datetime(year, month, calendar.monthrange(year, month)[1])
        days.append(day - dt.timedelta(days=max(0, day.weekday() - 4)))
    assert learn_cadence(days) == Cadence(months=1)
    for place in range(10, len(days)):
        for declared in (None, Cadence(months=1)):
            gap = gap_before(days[:place], days[place], 0.003, declared)
            assert gap is not None and not gap.missing
    gap = gap_before(days[:20], days[22], 0.003, Cadence(months=1))
    assert gap is not None and [m.month for m in gap.missing] == [9, 10]


def test_a_rhythm_of_minutes_has_weekends() -> None:
    """200 batches of 15 minutes are two days."""
    past = [START + dt.timedelta(minutes=15) * i for i in range(12 * 96)]
    for day in range(5):
        until = past[: len(past) - 96 * day]
        gap = gap_before(until, until[-1] + HOUR * 6, 0.001)
        assert gap is not None and len(gap.missing) == 23 and gap.alarm


@pytest.mark.parametrize("hours", [(6, 10, 18), (7, 12, 17), (8, 15, 22)])
@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_batch_is_missing_at_an_uneven_time(hours: Sequence[int], last: int) -> None:
    *past, then = uneven(41, hours)[: 123 - last]
    gap = gap_before(past[:-1], then, 0.001)
    assert gap is not None and gap.alarm and gap.missing == (past[-1],)
    none = gap_before(past, then, 0.001)
    assert none is not None and none.missing == ()

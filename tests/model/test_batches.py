"""What the names of batches say."""

from __future__ import annotations

import datetime as dt

import pytest

from dqsql.model.batches import as_known, batch_times, time_of, with_missing_days


@pytest.mark.parametrize(
    ("name", "start", "hours"),
    [
        ("20240131", "2024-01-31 00:00:00", 24),
        ("2024/01/31", "2024-01-31 00:00:00", 24),
        ("2024_01_31", "2024-01-31 00:00:00", 24),
        ("202402", "2024-02-01 00:00:00", 29 * 24),
        ("1960-02", "1960-02-01 00:00:00", 29 * 24),
        ("2024013113", "2024-01-31 13:00:00", 1),
        ("20240131T13", "2024-01-31 13:00:00", 1),
        ("2024-01-31-13", "2024-01-31 13:00:00", 1),
        ("2024-01-31 13", "2024-01-31 13:00:00", 1),
        ("202401311330", "2024-01-31 13:30:00", None),
        ("2024-01-31T13:30+01:00", "2024-01-31 13:30:00+01:00", None),
    ],
)
def test_names_that_are_times(name: str, start: str, hours: int | None) -> None:
    assert str(time_of(name)) == start
    first, end = batch_times(name, None)
    assert first is not None
    assert (end and end - first) == (hours and dt.timedelta(hours=hours))


@pytest.mark.parametrize(
    "name",
    # No such day, month or hour; seconds since 1970; years, decimals, and what else is a number.
    [
        *("20240230", "20241301", "2024013124", "1706745600", "2024", "2024.01"),
        *("20240131.5", "-20240131", "10010101", "b-1"),
    ],
)
def test_names_that_are_no_times(name: str) -> None:
    assert time_of(name) is None


def test_a_person_may_write_a_day_in_another_way() -> None:
    assert as_known("2024-01-31", ["20240130", "20240131"]) == "20240131"


def _days(*apart: int) -> tuple[str, ...]:
    return tuple(str(dt.date(2024, 1, 1) + dt.timedelta(days=day)) for day in apart)


def test_days_that_are_missing() -> None:
    there = [day for day in range(21) if day != 9]
    found = with_missing_days(_days(*there[:-1]), _days(20)[0])
    assert [i for i, name in enumerate(found) if not name] == [9]
    # The last one before the batch, too, whose own name may say nothing.
    assert with_missing_days(_days(*range(20)), _days(21)[0])[-1] == ""
    assert with_missing_days(_days(*there), "next").count("") == 1


def test_days_that_are_not_missing() -> None:
    weekdays = _days(*(day for day in range(28) if day % 7 < 5))
    assert with_missing_days(weekdays, _days(28)[0]) == weekdays
    # A holiday is missing on such a feed, and a weekend is not.
    assert with_missing_days((*weekdays[:10], *weekdays[11:]), _days(28)[0]).count("") == 1
    for other in ((), ("a", "b"), _days(0, 7, 14), _days(0, 1, 2, 30, 31, 32), _days(0, 0, 1)):
        assert with_missing_days(other, _days(33)[0]) == other

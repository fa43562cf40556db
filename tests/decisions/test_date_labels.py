"""Columns that say the date of their batch once more."""

from __future__ import annotations

import datetime as dt

import pytest

from dqsql.decisions.date_labels import is_date_label

DAYS = [dt.datetime(2024, 3, 28) + dt.timedelta(days=n) for n in range(8)]
YESTERDAY = [day - dt.timedelta(days=1) for day in DAYS]


@pytest.mark.parametrize(
    "values",
    [
        *([d.strftime(form) for d in DAYS] for form in ("%Y%m%d", "%Y-%m", "%B", "%m", "W%V")),
        [f"{d.year}-q{(d.month + 2) // 3}" for d in DAYS],
        [float(d.month) for d in DAYS],
        [float(d.strftime("%Y%m%d")) for d in YESTERDAY],
        [float(d.isoweekday() % 7 + 1) for d in DAYS],
    ],
    ids=lambda values: str(values[-1]),
)
def test_labels(values: list[str | float]) -> None:
    assert is_date_label(list(zip(DAYS, values, strict=True)))
    # One that does not follow is news.
    stale = [*values[:-1], values[0]]
    if stale != values:
        assert not is_date_label(list(zip(DAYS, stale, strict=True)))


@pytest.mark.parametrize(
    "values", [["DE"] * 8, [5.0] * 8, [2.5] * 8, [float("inf")] * 8, [float("nan")] * 8, [""] * 8]
)
def test_other_values(values: list[str | float]) -> None:
    assert not is_date_label(list(zip(DAYS, values, strict=True)))


def test_zero_is_an_hour_of_hours_alone() -> None:
    assert not is_date_label([(day, 0.0) for day in DAYS])
    hours = [DAYS[0] + dt.timedelta(hours=n) for n in range(5)]
    assert is_date_label([(hour, float(hour.hour)) for hour in hours])


def test_too_few_batches_and_the_ends_of_the_calendar() -> None:
    assert not is_date_label([(day, day.strftime("%Y%m%d")) for day in DAYS[:2]])
    ends = [dt.datetime(1, 1, 1), *DAYS]
    assert not is_date_label([(day, str(day.year)) for day in ends])

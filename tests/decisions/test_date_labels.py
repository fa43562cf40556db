"""Columns that say the date of their batch once more."""

from __future__ import annotations

import datetime as dt

import pytest

from dqsql.decisions.date_labels import has_passed, is_date_label, is_newest_period

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


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y-%m-%d 00:00:00"]
)
@pytest.mark.parametrize("lost", [0, 9, 29])
def test_the_earliest_of_sliding_dates_has_passed_and_no_other(form: str, lost: int) -> None:
    """Whichever way they are written, also about the turn of the year."""
    days = [dt.date(2025, 12, 10) + dt.timedelta(days=n) for n in range(31)]
    texts = [day.strftime(form) for day in days]
    now = {text: 1 / 30 for text in texts[1:]}
    now.pop(texts[lost], None)
    before = [{text: 1 / 30 for text in texts[:30]}]
    assert has_passed(texts[lost], now, before) is (lost == 0)
    # Dates that stay where they are do not pass.
    assert not has_passed(texts[0], {text: 1 / 29 for text in texts[1:30]}, before)


@pytest.mark.parametrize("form", ["%Y-%m", "%m/%Y", "%Y%m"])
def test_a_month_that_dwindled_has_passed(form: str) -> None:
    old, new = (dt.date(2025, 12, 1).strftime(form), dt.date(2026, 1, 1).strftime(form))
    last = {old: 0.05, new: 0.95}
    assert has_passed(old, {new: 1.0}, [{old: 0.5, new: 0.5}, last])
    assert is_newest_period([new], last)
    assert not has_passed(old, {new: 1.0}, [{old: 0.5, new: 0.5}, {old: 0.45, new: 0.55}])
    assert not is_newest_period([old], last)

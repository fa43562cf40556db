"""Columns that say once more which day a batch is of: 20240131, `2024-01`, `January`, `Q1`.

Their values move with the calendar, in steps that no history of numbers foretells: from 20240131 to
20240201, from a month's name to the next. As long as they say what the batch's date says, in the
way they have always done, that is no news.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

# A day's rows may have been delivered, or dated, on the day before or after.
_DAYS = tuple(dt.timedelta(days=n) for n in (0, -1, 1))
# Fewer batches may look like a date by accident.
_FEWEST = 3


_WRITTEN = (
    *("%Y", "%m", "%d", "%j", "%V", "%u", "%w", "%y"),
    *("%Y%m%d", "%Y%m", "%Y%j", "%Y-%m-%d", "%Y-%m", "%Y/%m/%d", "%Y/%m"),
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m/%Y", "%m-%Y", "%m.%Y"),
    *("%B", "%b", "%A", "%a", "%B %Y", "%b %Y", "%b-%Y", "%Y-%b", "%d %B %Y", "%d-%b-%Y"),
    *("%G-W%V", "%GW%V", "%G-%V", "%G%V", "W%V"),
    # ? is the quarter.
    *("?", "Q?", "%Y-Q?", "%YQ?", "%Y Q?", "Q? %Y", "Q?-%Y", "%Y?"),
)
_Form = Callable[[dt.datetime], str]


def _written(pattern: str, day: dt.datetime) -> str:
    return day.strftime(pattern).replace("?", str((day.month + 2) // 3))


_OF_HOURS: tuple[_Form, ...] = (partial(_written, "%H"), partial(_written, "%Y%m%d%H"))
_FORMS: tuple[_Form, ...] = (
    *(partial(_written, pattern) for pattern in _WRITTEN),
    # Spark counts the days of a week from Sunday (`dayofweek`) or Monday (`weekday`).
    lambda day: str(day.isoweekday() % 7 + 1),
    lambda day: str(day.weekday()),
)


def is_date_label(values: Sequence[tuple[dt.datetime, str | float]]) -> bool:
    """Whether values follow from the times of their batches, all in the same way.

    Numbers are compared as numbers, texts without regard to case and to zeros in front.

    Args:
        values: the time of each batch, and the one value that all of its rows have.

    >>> days = [dt.datetime(2024, 1, 30) + dt.timedelta(days=n) for n in range(4)]
    >>> is_date_label(list(zip(days, ["2024-01", "2024-01", "2024-02", "2024-02"])))
    True
    >>> is_date_label(list(zip(days, [20240130.0, 20240131.0, 20240201.0, 20240201.0])))
    False
    """
    # The first and the last year have no day before or after.
    if len(values) < _FEWEST or any(time.year in (dt.MINYEAR, dt.MAXYEAR) for time, _ in values):
        return False
    read = [(time, _read(value)) for time, value in values]
    if len({value for _, value in read}) == 1:
        return False
    # Of days, the hour is 0, which many columns are.
    hourly = any(time.hour for time, _ in values)
    return any(
        all(_read(form(time + shift)) == value for time, value in read)
        for shift in _DAYS
        for form in (*_FORMS, *(_OF_HOURS if hourly else ()))
    )


# A month, quarter or week of a year; or a day, with or without a time.
_PERIOD = re.compile(r"(19|20)\d\d[-/. ]?(0[1-9]|1[0-2]|Q[1-4]|W\d\d)")
_DAY = r"(19|20)\d\d[-/.]?(0[1-9]|1[0-2])[-/.]?\d\d([ T]\d\d:.*)?"
_DATED = re.compile(f"{_PERIOD.pattern}|{_DAY}")
# The same with the year behind: 31.12.2025, 12/31/2025, 12/2025.
_YEAR_LAST = re.compile(r"(\d\d?)([-/.])(\d\d?)\2((?:19|20)\d\d)([ T]\d\d:.*)?")
_MONTH_OF_YEAR = re.compile(r"(0?[1-9]|1[0-2])[-/.]((?:19|20)\d\d)")
# The share of rows that may be earlier than a date that has passed, and the part of its largest
# share that a date which has nearly gone still has.
_EARLIER, _DWINDLED = 0.05, 0.25


def _in_order(texts: Collection[str]) -> dict[str, str]:
    """The dates among some texts in a form in which later ones sort behind earlier ones."""
    numbers = [match for text in texts if (match := _YEAR_LAST.fullmatch(text))]
    month_first = not any(int(match[1]) > 12 for match in numbers) and any(
        int(match[3]) > 12 for match in numbers
    )
    dates = {}
    for text in texts:
        if _DATED.fullmatch(text):
            dates[text] = text
        elif match := _YEAR_LAST.fullmatch(text):
            month, day = (match[1], match[3]) if month_first else (match[3], match[1])
            if int(month) <= 12:
                dates[text] = f"{match[4]}-{month:0>2}-{day:0>2}{match[5] or ''}"
        elif match := _MONTH_OF_YEAR.fullmatch(text):
            dates[text] = f"{match[2]}-{match[1]:0>2}"
    return dates


def has_passed(
    lost: str, shares: Mapping[str, float], before: Sequence[Mapping[str, float]]
) -> bool:
    """Whether a value that no longer occurs is a date of a column whose dates move on.

    It is earlier than the batch's, of which 5 % of the rows may be earlier still: of dates that
    come ever more rarely, one is missing before all earlier ones are. And dates move on: there is a
    later one than in the first of the batches before, or this one had nearly gone in the last.

    Args:
        lost: the value, as text.
        shares: the shares of the batch's values, in [0, 1].
        before: those of the batches before, oldest first, at least one.

    >>> january, march = {"2026-01": 0.9, "2026-02": 0.1}, {"2026-02": 0.4, "2026-03": 0.6}
    >>> has_passed("2026-01", march, [january])
    True
    >>> has_passed("2026-02", {"2026-03": 1.0}, [march, {"2026-02": 0.1, "2026-03": 0.9}])
    True
    >>> has_passed("2026-02", {"2026-03": 1.0}, [march, march])
    False
    >>> has_passed("31.12.2025", {"01.01.2026": 1.0}, [{"31.12.2025": 1.0}])
    True
    >>> has_passed("DE", {"FR": 1.0}, [{"DE": 1.0}])
    False
    """
    dates = _in_order({lost, *shares, *before[0]})
    if not all(value in dates for value in (lost, *shares)):
        return False
    earlier = sum(share for value, share in shares.items() if dates[value] < dates[lost])
    newest = max((dates[value] for value in shares), default="")
    if earlier > _EARLIER or newest <= dates[lost]:
        return False
    largest = max(each.get(lost, 0.0) for each in before)
    has_dwindled = before[-1].get(lost, 0.0) <= _DWINDLED * largest
    return has_dwindled or newest > max((dates[v] for v in before[0] if v in dates), default="")


def are_dates(values: Collection[str]) -> bool:
    """Whether all values are dates, months, quarters or weeks of a year.

    >>> are_dates(["2026-03", "31.12.2025"]), are_dates(["2026-03", "DE"])
    (True, False)
    """
    return len(_in_order(values)) == len({*values})


def _is_period(text: str) -> bool:
    return _PERIOD.fullmatch(text) is not None or _MONTH_OF_YEAR.fullmatch(text) is not None


def is_newest_period(only: Collection[str], before: Collection[str]) -> bool:
    """Whether all rows are of one month, quarter or week, the newest of two in the batch before.

    >>> is_newest_period(["2026-03"], ["2026-02", "2026-03"])
    True
    >>> is_newest_period(["2026-02"], ["2026-02", "2026-03"])
    False
    >>> is_newest_period(["2026-03"], ["2026-01", "2026-02", "2026-03"])
    False
    """
    return (
        len(only) == 1
        and len(before) <= 2
        and all(map(_is_period, (*only, *before)))
        and max(_in_order(only).values()) >= max(_in_order(before).values(), default="")
    )


def _read(value: str | float) -> str | int | float:
    """A number where it is a whole one, however it is written, or a text in lower case."""
    if isinstance(value, str):
        text = value.strip().casefold()
        return int(text) if text.isascii() and text.isdigit() else text
    return int(value) if value.is_integer() else value

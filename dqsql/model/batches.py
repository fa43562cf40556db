"""What the names of batches say: their order, and the dates, timestamps and numbers that they are.

Batches are stored as text. To compare them with a point in time that a user names they are read
again, as moments of UTC or as numbers, depending on the Spark type of `batch_by`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import pairwise, zip_longest
from statistics import median_low
from typing import Any

from dqsql.model.types import TIMES, is_number

Moment = dt.datetime | Decimal
Reader = Callable[[str], Moment | None]

# Spark's setting, and what it may call UTC.
TIME_ZONE = "spark.sql.session.timeZone"
_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?([+-]\d{2}:\d{2}|Z)?)?")
_MICROSECOND = dt.timedelta(microseconds=1)
# So far may local times be ahead of UTC.
_EARLIEST = dt.timedelta(hours=14)
# As Spark writes whole numbers, decimals and doubles; `$` would also stand before a line break.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+(E-?[0-9]{1,3})?)?")
# How long a batch is, by the unit that `batch_by` cuts off at.
_UNIT = re.compile(r"\b(?:date_trunc\(\s*'(\w+)'|trunc\([^)]*'(\w+)'\s*\))", re.IGNORECASE)
UNIT_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_WEEK, _QUARTER = re.compile(r"\d{4}-W\d{2}"), re.compile(r"(\d{4})-Q([1-4])")
# A month, day or time: 2024-01, 2024-01-31, and as partitions are named: 20240131, 2024013113,
# 20240131T1330, 2024-01-31-13, 2024/01/31, 202401. Of numbers, other years are no dates.
_PARTITION = re.compile(
    # Of numbers, only those of years that tables have, and of the day that stands for no end.
    r"(\d{4}(?=-)|(?:19[7-9]|20\d)\d|9999(?=1231))([-/_]?)(0[1-9]|1[0-2])"
    r"(?:\2(0[1-9]|[12]\d|3[01])(?:[-/_ T]?([01]\d|2[0-3])(?::?([0-5]\d)(?::?([0-5]\d))?)?)?)?"
)
_UNIT_OF_PARTS = {3: "month", 4: "day", 5: "hour"}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def batch_order(batch: str) -> tuple[int, Decimal, str]:
    """A sort key: numbers by value, everything else (dates among it) as text.

    >>> sorted(["10", "9", "2024-02"], key=batch_order)
    ['9', '10', '2024-02']
    """
    if _NUMBER.fullmatch(batch):
        return (0, Decimal(batch), batch)
    return (1, Decimal(0), batch)


def moment_reader(spark_type: str) -> Reader | None:
    """What reads batches of a Spark type as moments, None for types without an order in time."""
    if spark_type == "string":
        return read_name
    if spark_type in TIMES:
        return read_time
    if is_number(spark_type):
        return read_number
    return None


def read_time(text: str) -> dt.datetime | None:
    """An ISO date or timestamp in UTC.

    >>> str(read_time("2013-02")), str(read_time("2013-02-08T10:00+01:00"))
    ('2013-02-01 00:00:00', '2013-02-08 09:00:00')
    """
    text = text.strip()
    short = _YEAR_OR_MONTH.fullmatch(text)
    if short:
        text = f"{short[1]}-{short[2] or '01'}-01"
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return plain_time(moment)
    except (ValueError, OverflowError):
        return None


def read_name(text: str) -> dt.datetime | None:
    """A time as `read_time` has it, or as batches are named: `20130208`, `2013-Q1`."""
    return read_time(text) or instant_of(text)


def has_place(text: str) -> bool:
    """Whether a name says what comes before it and after it: a time or a number does."""
    return read_time(text) is not None or read_number(text) is not None


def plain_time(moment: dt.datetime) -> dt.datetime:
    """A moment in UTC without a time zone, as the names of batches are read."""
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def is_utc(zone: str) -> bool:
    """Whether a time zone, as Spark's settings name it, is UTC."""
    return zone.upper() in _UTC


def in_zone(moment: dt.datetime) -> dt.datetime:
    """A moment with its time zone, which is UTC where it has none, as in tables and names."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def time_of(batch: str) -> dt.datetime | None:
    """The time in the name of a batch, as it is written there; None for other names.

    It keeps its time zone, where one is written. A month or quarter is its first day.

    >>> str(time_of("2024-02")), str(time_of("2024-W05")), time_of("1240131")
    ('2024-02-01 00:00:00', '2024-01-29 00:00:00', None)
    >>> str(time_of("2024-Q2")), str(time_of("20240131")), str(time_of("2024013113"))
    ('2024-04-01 00:00:00', '2024-01-31 00:00:00', '2024-01-31 13:00:00')
    """
    quarter, partition = _QUARTER.fullmatch(batch), _PARTITION.fullmatch(batch)
    try:
        if quarter:
            return dt.datetime(int(quarter[1]), 3 * int(quarter[2]) - 2, 1)
        if partition:
            year, _, month, day, *times = partition.groups(default="")
            hour, minute, second = (int(text or 0) for text in times)
            return dt.datetime(int(year), int(month), int(day or 1), hour, minute, second)
        # Python also takes other numbers for dates.
        return dt.datetime.fromisoformat(batch) if "-" in batch else None
    except ValueError:
        return None


def as_known(text: str, known: Collection[str]) -> str:
    """The one of the known batches that a person means: 2024-01-09 may be `2024-01-09 00:00:00`."""
    long = _unit_of_name(text) in ("week", "month", "quarter")
    time = None if text in known or long else time_of(text)
    same = [] if time is None else [b for b in known if time_of(b) == time]
    return same[0] if len(same) == 1 else text


def are_numbers(batches: Iterable[str]) -> bool:
    """Whether names are numbers that are not all times: one of them may look like 20240131.

    >>> are_numbers(["20240131", "20240132"]), are_numbers(["20240131", "20240201"])
    (True, False)
    """
    return any(b.isdigit() and time_of(b) is None for b in batches)


def wall_time_of(batch: str) -> dt.datetime | None:
    """What a clock at the place of a batch shows: its time without a time zone."""
    moment = time_of(batch)
    return None if moment is None else moment.replace(tzinfo=None)


def has_begun(batch: str, now: dt.datetime) -> bool:
    """Whether a batch begins by `now` on some clock of the world; other names do, too.

    One that does not holds what is planned, or a slip of the pen: it does not tell that those of
    today have come.
    """
    start = wall_time_of(batch)
    return start is None or start - plain_time(now) <= _EARLIEST


def instant_of(batch: str) -> dt.datetime | None:
    """The moment in the name of a batch, in UTC without a time zone; None for other names."""
    moment = time_of(batch)
    try:
        return None if moment is None else plain_time(moment)
    except OverflowError:
        # Beyond the years of the calendar, in UTC.
        return None


@lru_cache(maxsize=64)
def with_missing_days(batches: tuple[str, ...], batch: str) -> tuple[str, ...]:
    """Daily batches before a batch, with "" for each day that is missing between them.

    A day of the week on which batches come less than half as often as on others is not missing. If
    batches are not daily, or every third is missing, they are returned as they are. The name of
    `batch` need not be a time.
    """
    known = [_day_of(b) for b in batches]
    days = [day for day in (*known, _day_of(batch)) if day is not None]
    apart = [after - before for before, after in pairwise(days)]
    if None in known or min(apart, default=0) < 1 or median_low(apart) > 1 or max(apart) == 1:
        return batches
    seen = Counter(day % 7 for day in days)
    usual = {day for day, count in seen.items() if count >= max(seen.values()) / 2}
    padded_batches: list[str] = []
    for name, day, after in zip_longest(batches, days[: len(batches)], days[1:]):
        padded_batches += [name, *("" for d in range(day + 1, after or 0) if d % 7 in usual)]
    return tuple(padded_batches) if len(padded_batches) <= 1.5 * len(batches) else batches


_WEEKS = (7, 14, 21, 28)


def same_weekdays(batches: Sequence[str], batch: str) -> list[tuple[str, str]]:
    """What the last of some batches and the one after them were one to four weeks before.

    Only where both are known, by their names; last first.

    >>> same_weekdays(["2024-02-05", "2024-02-07", "2024-02-08", "2024-02-12"], "2024-02-14")
    [('2024-02-05', '2024-02-07')]
    """
    by_day = {day: b for b in batches if (day := _day_of(b)) is not None}
    last, day = _day_of(batches[-1]), _day_of(batch)
    if last is None or day is None or last == day:
        return []
    pairs = ((by_day.get(last - days), by_day.get(day - days)) for days in _WEEKS)
    return [(first, second) for first, second in pairs if first and second]


def _day_of(batch: str) -> int | None:
    time = wall_time_of(batch)
    return None if time is None else time.toordinal()


def read_number(text: str) -> Decimal | None:
    """A finite number."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def as_text(moment: Moment, spark_type: str) -> str | None:
    """The first value of a Spark type that is not before the moment, as text for a cast.

    None where the type cannot hold one, or is text itself.
    """
    if isinstance(moment, Decimal):
        return str(moment) if moment_reader(spark_type) is read_number else None
    if spark_type == "date":
        day = first_day(moment)
        return None if day is None else day.isoformat()
    if spark_type == "timestamp":
        return f"{moment.isoformat(sep=' ')}+00:00"
    return moment.isoformat(sep=" ") if spark_type == "timestamp_ntz" else None


def first_day(moment: dt.datetime) -> dt.date | None:
    """The first day that does not begin before the moment; None behind the end of the calendar."""
    if moment.time() == dt.time():
        return moment.date()
    return None if moment.date() == dt.date.max else moment.date() + dt.timedelta(days=1)


def floor(moment: dt.datetime, unit: str) -> dt.datetime:
    """The beginning of the unit that a moment lies in, as Spark's `date_trunc` has it."""
    if unit == "week":
        return floor(moment, "day") - dt.timedelta(days=moment.weekday())
    months = _MONTHS.get(unit)
    if months is not None:
        return floor(moment.replace(month=(moment.month - 1) // months * months + 1, day=1), "day")
    parts = ("day", "hour", "minute", "second", "microsecond")
    zeros: dict[str, Any] = dict.fromkeys(parts[parts.index(unit) + 1 :], 0)
    return moment.replace(**zeros)


def end_of(moment: dt.datetime, unit: str) -> dt.datetime:
    """The beginning of the unit after the one that a moment lies in. Raises OverflowError."""
    return _after(floor(moment, unit), unit)


def before(moment: dt.datetime) -> dt.datetime:
    """The last moment before another one, at the resolution that Spark has."""
    return moment - _MICROSECOND


def batch_times(batch: str, batch_by: str | None) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The first moment of a batch and that of the next one, in UTC; None where it is not known.

    The length is that of the unit in `date_trunc('hour', ..)`, of a day, week or month where the
    name is one, and else not known.
    """
    named, start = time_of(batch), instant_of(batch)
    if named is None or start is None:
        return None, None
    match = _UNIT.search(batch_by or "")
    unit = (match.group(1) or match.group(2)).lower() if match else None
    if unit is None:
        unit = _unit_of_name(batch)
    start = start.replace(tzinfo=dt.UTC)
    try:
        end = _after(named, unit) if unit in (*UNIT_SECONDS, *_MONTHS) else None
        return start, end and plain_time(end).replace(tzinfo=dt.UTC)
    except (OverflowError, ValueError):
        # The last year that a calendar has.
        return start, None


def _unit_of_name(batch: str) -> str | None:
    """How long a batch is, as far as its name says it."""
    partition = _PARTITION.fullmatch(batch)
    if partition:
        return _UNIT_OF_PARTS.get(partition.lastindex or 0)
    if _WEEK.fullmatch(batch):
        return "week"
    return "quarter" if _QUARTER.fullmatch(batch) else None


def _after(start: dt.datetime, unit: str) -> dt.datetime:
    if unit not in _MONTHS:
        return start + dt.timedelta(seconds=UNIT_SECONDS.get(unit, 1))
    year, month = divmod(start.year * 12 + start.month - 1 + _MONTHS[unit], 12)
    if year > dt.MAXYEAR:
        raise OverflowError("the calendar ends here")
    return start.replace(year=year, month=month + 1)

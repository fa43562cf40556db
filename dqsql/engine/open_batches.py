"""Batches that are checked before they are over: how long they are, and from when on they are full.

A batch of today has some of its rows in the morning, where rows are added as they happen, and all
of them where a file is delivered once a day. Which of the two a model is, its earlier batches
tell: those that were first checked while they were open, and how many rows they had later.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median_low

from dqsql.model.batches import batch_order, batch_times, in_zone
from dqsql.model.results import BatchRecord

# By so much later than in UTC a day ends elsewhere.
_ZONES = dt.timedelta(hours=12)
# So many batches say how long they are, and so many whether they were full when first checked.
_NEWEST, _FIRSTS = 15, 7
# A batch that had so many times the rows later was not full.
_GREW = 1.1
# By this share of a batch's length the runs of two days may differ.
_JITTER = 8
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def was_open(record: BatchRecord, length: dt.timedelta) -> bool:
    """Whether a batch was not over when it was checked, wherever on earth its name is a time of.

    Its end is that by its name, or after the usual `length`: a month may be named by its first day.
    """
    age = _age(record, record.checked_at)
    return age is not None and age < _length(record.start, record.end, length) + _ZONES


def is_open(batch: str, batch_by: str | None, length: dt.timedelta, now: dt.datetime) -> bool:
    """Whether it is `now` in a batch, in UTC, whose end is that by its name, or after `length`."""
    start, end = batch_times(batch, batch_by)
    return (
        start is not None
        and start <= in_zone(now)
        and in_zone(now) - start < _length(start, end, length)
    )


def usual_length(ledger: Iterable[BatchRecord]) -> dt.timedelta:
    """How long after the one before it a batch begins, as most of the newest do; 0 of one alone."""
    starts = sorted({in_zone(r.start) for r in ledger if r.start is not None})[-_NEWEST:]
    return median_low([b - a for a, b in pairwise(starts)] or [dt.timedelta()])


def full_later(
    batches: Collection[str],
    ledger: Mapping[str, BatchRecord],
    rows: Mapping[str, int],
    batch_by: str | None,
    now: dt.datetime,
) -> dict[str, dt.datetime]:
    """The batches that are likely to lack rows now, and from when on they should have them all.

    Of the newest batches before one, those count that had a tenth more rows later than when they
    were first checked, unless they were younger than this one and this one is over; and those that
    had not, unless they were older than this one. If the former are more, it is likely to lack rows
    until it is over, and as long as it is not older than they were.

    Args:
        batches: those under test.
        ledger: the batches of before.
        rows: how many the batches under test have now; earlier ones may be among them.
        batch_by: of the model.
        now: when the run began.
    """
    usual = usual_length(ledger.values())
    firsts = list(_firsts(ledger, usual, rows, now))
    found = {}
    for batch in batches if firsts else ():
        start, end = batch_times(batch, batch_by)
        if start is None:
            continue
        age, length = in_zone(now) - start, _length(start, end, usual)
        about = length / _JITTER
        before = [
            (first, grew)
            for at, first, grew in firsts
            if at < start and (age < max(length, first + about) if grew else first < age + about)
        ][-_FIRSTS:]
        ages = [first for first, grew in before if grew]
        needed = max(length, max(ages, default=length) + about)
        if 2 * len(ages) > len(before) and needed <= _LAST - start:
            found[batch] = start + needed
    return found


def _firsts(
    ledger: Mapping[str, BatchRecord],
    usual: dt.timedelta,
    rows: Mapping[str, int],
    now: dt.datetime,
) -> Iterator[tuple[dt.datetime, dt.timedelta, bool]]:
    """Of batches that were first checked while they were open: start, age then, whether they grew.

    Oldest first. One that is still open and has not grown says nothing.
    """
    for record in sorted(ledger.values(), key=lambda r: batch_order(r.batch)):
        age = _age(record, record.first_checked_at)
        if record.start is None or record.first_rows is None or age is None:
            continue
        start, length = in_zone(record.start), _length(record.start, record.end, usual)
        grew = rows.get(record.batch, record.rows) >= _GREW * max(record.first_rows, 1)
        if age < length + _ZONES and (grew or in_zone(now) - start >= length):
            yield start, age, grew


def _age(record: BatchRecord, at: dt.datetime | None) -> dt.timedelta | None:
    if at is None or record.start is None:
        return None
    return in_zone(at) - in_zone(record.start)


def _length(
    start: dt.datetime | None, end: dt.datetime | None, usual: dt.timedelta
) -> dt.timedelta:
    """How long a batch is: by its name, or as the `usual` one is if that is longer."""
    if start is None or end is None:
        return usual
    return max(usual, in_zone(end) - in_zone(start))

"""Batches that are checked before they are over: how long they are, and from when on they are full.

A batch of today has some of its rows in the morning, where rows are added as they happen, and all
of them where a file is delivered once a day. Which of the two a model is, its earlier batches
tell, by what is kept of each (`growth`): when it last had a tenth more rows than at a check before,
and when that was.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from dqsql.model.batches import batch_order, batch_times, in_zone
from dqsql.model.results import BatchRecord

# By so much later than in UTC a day ends elsewhere.
_ZONES = dt.timedelta(hours=12)
# So many batches say how long they are, and so many whether one is full.
_NEWEST, _VOTES = 15, 7
# A batch that has eleven tenths of the rows now was not full.
_GREW, _FULL = 11, 10
# By this part of the time between two checks, or of a batch's length, the runs of two days differ,
# and by so much at most.
_JITTER, _MOST_JITTER = 8, dt.timedelta(hours=1)
_SOON = dt.timedelta(days=7)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def was_open(record: BatchRecord, length: dt.timedelta) -> bool:
    """Whether a batch was not over when it was checked, wherever on earth its name is a time of.

    Its end is that by its name, or after the usual `length`: a month may be named by its first day.
    """
    if record.checked_at is None or record.start is None:
        return False
    age = in_zone(record.checked_at) - in_zone(record.start)
    return age < _longest(record, length) + _ZONES


def is_open(batch: str, batch_by: str | None, now: dt.datetime) -> bool:
    """Whether it is `now` in a batch, in UTC; not where its name does not say when it ends."""
    start, end = (None, None) if batch_by is None else batch_times(batch, batch_by)
    return start is not None and end is not None and start <= in_zone(now) < end


def judged_from(record: BatchRecord) -> dt.datetime:
    """From when on monitors judge a batch that they wait for; never for one that they do not."""
    return record.judged_from or _LAST


def waits(ledger: Iterable[BatchRecord], now: dt.datetime) -> bool:
    """Whether a batch should be full now that monitors have not judged since it was not."""
    # One that no run could judge for long has no rows any more.
    return any(now - _SOON < judged_from(record) <= now for record in ledger)


def usual_length(ledger: Iterable[BatchRecord]) -> dt.timedelta:
    """How long after the one before it a batch begins, as most of the newest do; 0 of one alone."""
    starts = sorted({in_zone(r.start) for r in ledger if r.start is not None})[-_NEWEST:]
    return median_low([b - a for a, b in pairwise(starts)] or [dt.timedelta()])


def growth(
    before: BatchRecord | None, rows: int, now: dt.datetime
) -> tuple[dt.datetime, int, dt.datetime | None]:
    """When a batch was first found to have about as many rows as now, how many, and when it lacked.

    These are `grown_at`, `grown_rows` and `lacked_at` of its record; the last is the check at which
    it had ten elevenths of them at most, None where it has not grown since the first. `before` is
    its record of the check before this one, if there is one of what the model is now.
    """
    if before is None or before.grown_at is None or before.grown_rows is None:
        return now, rows, None
    if _FULL * rows >= _GREW * max(before.grown_rows, 1):
        return now, rows, before.grown_at
    return before.grown_at, before.grown_rows, before.lacked_at


@dataclass(frozen=True)
class _Vote:
    """What an earlier batch says: at which age such a batch is full, and whether it had grown.

    `length` is by its name, so that months of 30 and 31 days are alike; None where it is not known.
    """

    start: dt.datetime
    full: dt.timedelta
    length: dt.timedelta | None
    grew: bool

    def full_of(self, length: dt.timedelta | None) -> dt.timedelta:
        """At which age a batch of some length is full."""
        known = self.length is not None and length is not None
        return self.full + length - self.length if known else self.full  # type: ignore[operator]


def full_later(
    batches: Collection[str],
    ledger: Mapping[str, BatchRecord],
    rows: Mapping[str, int],
    batch_by: str | None,
    now: dt.datetime,
) -> dict[str, dt.datetime]:
    """The batches that are likely to lack rows now, and from when on they should have them all.

    The newest batches before one vote. One that has grown was full, as far as is known, at the
    check that found it so; one that has not, when it was first checked. A batch lacks rows if more
    than half were full later than at its age; of those that have not grown, only those count that
    were full by then.

    `rows` says how many the batches under test have now; earlier ones may be among them.
    """
    usual, moment = usual_length(ledger.values()), in_zone(now)
    votes = list(_votes(ledger, usual, rows, moment))
    latest = max((2 * v.full for v in votes if v.grew), default=None)
    due_times = {}
    for batch in batches if latest is not None else ():
        start, end = batch_times(batch, batch_by)
        if start is None or latest is None or moment - start >= max(latest, usual):
            continue
        length = None if end is None else end - start
        age, about = moment - start, (length or usual) / _JITTER
        of_age = [v for v in votes if v.start < start and (v.grew or v.full <= age + about)]
        newest = of_age[-_VOTES:]
        lacking = [v.full_of(length) for v in newest if v.grew and age < v.full_of(length)]
        if 2 * len(lacking) > len(newest) and median_low(lacking) <= _LAST - start:
            due_times[batch] = start + median_low(lacking)
    return due_times


def _votes(
    ledger: Mapping[str, BatchRecord],
    usual: dt.timedelta,
    rows: Mapping[str, int],
    now: dt.datetime,
) -> Iterator[_Vote]:
    """The votes of batches that were checked while they were open, oldest first.

    One that is still open and has not grown says nothing. Of those that one run found grown, as
    after a repair of old ones, the newest has a vote.
    """
    known = sorted((r for r in ledger.values() if r.grown_at), key=lambda r: batch_order(r.batch))
    now_grown = {r.batch: growth(r, rows.get(r.batch, r.rows), now) for r in known}
    newest = {grown: batch for batch, (grown, _, _) in now_grown.items()}
    for record in known:
        if record.start is None:
            continue
        start, longest = in_zone(record.start), _longest(record, usual)
        length = None if record.end is None else in_zone(record.end) - start
        grown, _, lacked = now_grown[record.batch]
        full = in_zone(grown) - start
        if lacked is None:
            if now - start >= longest:
                yield _Vote(start, full, length, grew=False)
        elif in_zone(lacked) - start < longest + _ZONES and newest[grown] == record.batch:
            jitter = min((grown - lacked) / _JITTER, _MOST_JITTER)
            yield _Vote(start, full - jitter, length, grew=True)


def _longest(record: BatchRecord, usual: dt.timedelta) -> dt.timedelta:
    """How long a batch is: by its name, or as the `usual` one is if that is longer."""
    if record.start is None or record.end is None:
        return usual
    return max(usual, in_zone(record.end) - in_zone(record.start))

"""Feeds of several batches a day, of which those of one time of day are alike."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from dqsql.model.batches import wall_time_of

# So many days before a batch show at which times of day batches come.
_SHOWING = dt.timedelta(days=14)
# There is a schedule if at least this share of its times has a batch (half of them, where clocks
# were changed), and so many batches come a day: one that comes an hour earlier in summer has no two
# times.
_FILLED, _A_DAY = 0.4, 1.5
# A new time of day counts as the nearest one until it has so many batches.
_FEW = 14
_DAY = 24 * 3600.0


class TimesOfDay:
    """The times of day at which the batches of a feed come, as their names say them."""

    def __init__(self, batches: Sequence[str]) -> None:
        """`batches` are all that are known."""
        self._moments = {b: m for b in batches if (m := wall_time_of(b)) is not None}
        named = len(self._moments) == len(batches)
        self._ordered = sorted(self._moments.values()) if named else []
        self._scheduled: dict[int, int] = {}

    def of(self, batch: str) -> dt.time | None:
        """The time of day of a batch, where batches come at several times each day; else None.

        That is decided by the batches of the 14 days before.
        """
        moment = self._moments.get(batch)
        if moment is None or not self._times_before(bisect_left(self._ordered, moment)):
            return None
        return moment.time()

    def of_next(self) -> dt.time | None:
        """The time of day of the batch that comes after all others, as `of` says it."""
        times = [m.time() for m in self._ordered]
        if not self._times_before(len(times)) or times[-1] not in times[:-1]:
            return None
        return times[len(times) - 1 - times[-2::-1].index(times[-1])]

    def like(self, batch: str, earlier: Sequence[str]) -> tuple[list[str], tuple[dt.time, ...]]:
        """Those of the batches before a batch that are of its time of day, and of which they are.

        A time that is new in the feed (an hour earlier since clocks were changed) is taken for the
        nearest one until it has batches enough. One is new, too, if it was not there on the last 14
        days with batches.
        """
        moment = self._moments.get(batch, self._ordered[-1])
        time = self.of_next() if batch not in self._moments else moment.time()
        if time is None:
            return list(earlier), ()
        own = self._newest(time, earlier, moment)
        if len(own) >= _FEW or moment - self._ordered[0] < _SHOWING:
            return own, (time,)
        recent = (self._moments[b] for b in earlier)
        others = {m.time() for m in recent if m >= moment - _SHOWING} - {time}
        if not others:
            return own, (time,)
        near = min(others, key=lambda other: (_apart(other, time), other))
        chosen = {*own, *self._newest(near, earlier, moment)}
        return [b for b in earlier if b in chosen], (time, near)

    def _newest(self, time: dt.time, earlier: Sequence[str], moment: dt.datetime) -> list[str]:
        """The batches of a time of day before a moment, since it was last new."""
        moments = [self._moments[b] for b in earlier]
        dates = dict.fromkeys([*(m.date() for m in moments), moment.date()])
        days = {date: number for number, date in enumerate(dates)}
        same = [
            (b, days[m.date()]) for b, m in zip(earlier, moments, strict=True) if m.time() == time
        ]
        later = [*(day for _, day in same[1:]), days[moment.date()]]
        gaps = (i for i, (_, day) in enumerate(same) if later[i] - day > _SHOWING.days)
        return [b for b, _ in same[max(gaps, default=-1) + 1 :]]

    def a_day(self, batch: str) -> int:
        """How many batches come a day, by the schedule that a batch is in; 1 without one."""
        moment = self._moments.get(batch)
        end = len(self._ordered) if moment is None else bisect_left(self._ordered, moment)
        return max(1, self._times_before(end))

    def _times_before(self, end: int) -> int:
        """At how many times of day the batches before a place came, 0 without a schedule."""
        if end not in self._scheduled:
            since = self._ordered[end - 1] - _SHOWING if end else dt.datetime.max
            recent = self._ordered[bisect_left(self._ordered, since) : end]
            days, times = {m.date() for m in recent}, {m.time() for m in recent}
            enough = max(_A_DAY * len(days), _FILLED * len(days) * len(times))
            # Runs that name their batches by the second they began in come whenever they come.
            to_the_minute = all(time == time.replace(second=0, microsecond=0) for time in times)
            is_one = to_the_minute or len(recent) > len(times)
            self._scheduled[end] = len(times) if is_one and len(recent) >= enough > 0 else 0
        return self._scheduled[end]


def at_times(times: Collection[dt.time], batches: Iterable[str]) -> list[str]:
    """Those of some batches that are of these times of day."""
    return [b for b in batches if (m := wall_time_of(b)) is not None and m.time() in times]


def _apart(one: dt.time, other: dt.time) -> float:
    """How far two times of day are apart, in seconds; midnight is between 23:00 and 1:00."""
    midnight = dt.datetime.min
    seconds = (
        dt.datetime.combine(midnight, one) - dt.datetime.combine(midnight, other)
    ).total_seconds()
    return min(seconds % _DAY, -seconds % _DAY)

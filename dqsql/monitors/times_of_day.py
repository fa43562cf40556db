"""Feeds of several batches a day, of which those of one time of day are alike."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Sequence

from dqsql.model.batches import wall_time_of

# So many days before a batch show at which times of day batches come, in so many batches at most.
_SHOWING, _MOST = dt.timedelta(days=14), 3_000
# There is a schedule if at least this share of its times has a batch, and so many batches come a
# day: one a day that comes an hour earlier in summer has no two times.
_FILLED, _A_DAY = 0.5, 1.5
# Batches of a time of day that came later than so are compared with all until there are so many.
_FEW = 8


class TimesOfDay:
    """The times of day at which the batches of a feed come, as their names say them."""

    def __init__(self, batches: Sequence[str]) -> None:
        """`batches` are all that are known."""
        self._moments = {b: m for b in batches if (m := wall_time_of(b)) is not None}
        named = len(self._moments) == len(batches)
        self._ordered = sorted(self._moments.values()) if named else []
        self._scheduled: dict[int, bool] = {}

    def of(self, batch: str) -> dt.time | None:
        """The time of day of a batch, where batches come at several times each day; else None.

        That is decided by the batches of the 14 days before.
        """
        moment = self._moments.get(batch)
        if moment is None or not self._is_schedule(bisect_left(self._ordered, moment)):
            return None
        return moment.time()

    def of_next(self) -> dt.time | None:
        """The time of day of the batch that comes after all others, as `of` says it."""
        times = [m.time() for m in self._ordered]
        if not self._is_schedule(len(times)) or times[-1] not in times[:-1]:
            return None
        return times[len(times) - 1 - times[-2::-1].index(times[-1])]

    def at(self, time: dt.time, batches: Sequence[str]) -> list[str]:
        """Those of some batches that are of a time of day."""
        return [b for b in batches if (m := self._moments.get(b)) is not None and m.time() == time]

    def like(self, batch: str, time: dt.time, earlier: Sequence[str]) -> list[str]:
        """Those of the batches before a batch that are of its time of day, oldest first.

        From the last gap of more than 14 days on: a time that comes again when clocks are changed
        is not what it was in the winter before.
        """
        same = self.at(time, earlier)
        later = [*(self._moments[b] for b in same[1:]), self._moments.get(batch, self._ordered[-1])]
        gaps = (i for i, b in enumerate(same) if later[i] - self._moments[b] > _SHOWING)
        return same[max(gaps, default=-1) + 1 :]

    def is_new(self, batch: str, same: Sequence[str]) -> bool:
        """Whether the time of day of a batch is new in the feed, with `same` before it."""
        moment = self._moments.get(batch, self._ordered[-1])
        return len(same) < _FEW and moment - self._ordered[0] >= _SHOWING

    def _is_schedule(self, end: int) -> bool:
        """Whether the batches before a place in the order came by a schedule of several a day."""
        if end not in self._scheduled:
            recent = self._ordered[max(0, end - _MOST) : end]
            recent = recent[bisect_left(recent, recent[-1] - _SHOWING) :] if recent else []
            days, times = {m.date() for m in recent}, {m.time() for m in recent}
            enough = max(_A_DAY * len(days), _FILLED * len(days) * len(times))
            self._scheduled[end] = bool(recent) and len(recent) >= enough
        return self._scheduled[end]

"""How a budget of false alarms becomes the false-positive rate of a single monitor."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

# What is assumed where batches have no time in their names.
DAILY = 7.0
# As many of the newest batches say how often new ones come.
_NEWEST = 30
_WEEK = 7 * 24 * 3600.0
_MOST = 0.5


def batches_per_week(batches: Sequence[str]) -> float:
    """How many batches a model gets in a week, from the names of those that it had, oldest first.

    The newest 30 that are dates or timestamps count: their number over the time that they span.
    Where there are not two of them, a batch a day is assumed.
    """
    moments = [m for m in map(_moment, batches) if m is not None][-_NEWEST:]
    if len(moments) < 2:
        return DAILY
    span = (max(moments) - min(moments)).total_seconds()
    return (len(moments) - 1) * _WEEK / span if span > 0 else DAILY


def shared_rate(alarms_per_week: float, decisions_per_week: Iterable[float]) -> float | None:
    """The false-positive rate with which monitors together keep a budget; None without monitors.

    The expected number of false alarms is the sum of the rates, whether or not the monitors depend
    on each other. Bursts are not excluded: one odd batch may trip many monitors at once.

    Args:
        alarms_per_week: false alarms that may be expected, above 0.
        decisions_per_week: for each monitor, how often it decides in a week.

    Returns:
        A rate in (0, 0.5].
    """
    total = sum(decisions_per_week)
    return min(alarms_per_week / total, _MOST) if total > 0 else None


def _moment(batch: str) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(batch)
    except ValueError:
        return None
    # Python takes 20240131 and 2024W051 for dates as well; a number is no date here.
    if "-" not in batch:
        return None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found

"""When a batch begins and ends, where its name is a time."""

from __future__ import annotations

import datetime as dt
import re

from dqsql.model.batches import wall_time_of

_UNIT = re.compile(r"\b(?:date_trunc\(\s*'(\w+)'|trunc\([^)]*'(\w+)'\s*\))", re.IGNORECASE)
_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def batch_times(batch: str, batch_by: str | None) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The first moment of a batch and that of the next one, in UTC; None where it is not known.

    The length is that of the unit in `date_trunc('hour', ..)`, of a day where the name is a date,
    and else not known.
    """
    start = wall_time_of(batch)
    if start is None:
        return None, None
    found = _UNIT.search(batch_by or "")
    unit = (found.group(1) or found.group(2)).lower() if found else None
    if unit is None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", batch):
        unit = "day"
    start = start.replace(tzinfo=dt.UTC)
    try:
        return start, _after(start, unit)
    except (OverflowError, ValueError):
        # The last year that a calendar has.
        return start, None


def _after(start: dt.datetime, unit: str | None) -> dt.datetime | None:
    if unit in _SECONDS:
        return start + dt.timedelta(seconds=_SECONDS[unit])
    if unit in _MONTHS:
        month = start.month - 1 + _MONTHS[unit]
        return start.replace(year=start.year + month // 12, month=month % 12 + 1)
    return None

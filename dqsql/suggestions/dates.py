"""Days and months as people write them in texts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

_DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d-%m-%Y", "%Y/%m/%d"),
    *("%Y.%m.%d", "%Y%m%d", "%Y-%m", "%Y/%m", "%d %b %Y"),
)


def are_dates(values: Sequence[str]) -> bool:
    """Whether all values are days or months in one way of writing them."""
    return bool(values) and any(all(_is_date(v, way) for v in values) for way in _DATES)


def _is_date(value: str, way: str) -> bool:
    if value.isdigit() and len(value) != len("20240131"):
        # Python reads 190112 as a day, too.
        return False
    try:
        dt.datetime.strptime(value, way)
    except ValueError:
        return False
    return True

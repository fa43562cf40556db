"""Seasons that batches may have by the clock: which are worth trying, by how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dqsql.decisions.forecasts import NO_SLOT, IntArray
from dqsql.decisions.strategies import Series, TimeArray

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
# Seasons by the shortest and the longest distance between batches that they are tried for.
_SEASONS = {
    "weekday": (0.0, 1.5 * _DAY),
    "weekend": (0.0, 1.5 * _DAY),
    "hour": (0.0, 0.5 * _DAY),
    "hour and weekend": (0.0, 0.5 * _DAY),
    "hour of the week": (0.0, 0.5 * _DAY),
    "month": (6.0 * _DAY, 32.0 * _DAY),
}
# Fewest values per slot for which a season is tried.
_LEAST_ROUNDS = 2


def seasons_of(many: Sequence[Series], length: int) -> dict[str, IntArray]:
    """Slots by season, S x (length + 1): of the newest values and, last, of the one to decide on.

    A series without times, or whose batches are too far apart or too few for a season, has no
    slots of it; a season that no series has is left out.
    """
    times = np.full((len(many), length + 1), np.datetime64("NaT", "us"))
    for row, series in enumerate(many):
        if series.times is None or series.time is None:
            continue
        newest = series.times[-length:]
        times[row, length - newest.size : -1] = newest
        times[row, -1] = series.time
    return _slots(times)


def seasons_at(times: TimeArray, series: int) -> dict[str, IntArray]:
    """As `seasons_of`, of so many series that have the same times; the last is the newest."""
    found = _slots(times[None])
    return {name: np.repeat(slots, series, axis=0) for name, slots in found.items()}


def several_a_day(series: Series) -> bool:
    """Whether a day has several batches, by the median distance between them."""
    if series.times is None or series.times.size < 2:
        return False
    return bool(_apart(series.times[None])[0] <= _SEASONS["hour"][1])


def _slots(times: TimeArray) -> dict[str, IntArray]:
    apart = _apart(times)
    known = ~np.isnat(times)
    hours = times.astype("datetime64[h]").astype(np.int64)
    days = times.astype("datetime64[D]").astype(np.int64)
    months = times.astype("datetime64[M]").astype(np.int64)
    # 1970-01-01 was a Thursday.
    weekday, hour = (days + 3) % 7, hours % 24
    weekend = (weekday >= 5).astype(np.int64)
    slots = {
        "weekday": weekday,
        "weekend": weekend,
        "hour": hour,
        "hour and weekend": hour + 24 * weekend,
        "hour of the week": hour + 24 * weekday,
        "month": months % 12,
    }
    span = known.sum(axis=1) * apart
    rounds = {"month": 365 * _DAY, "hour": _DAY}
    found = {}
    for name, (shortest, longest) in _SEASONS.items():
        able = (apart >= shortest) & (apart <= longest)
        able &= span >= _LEAST_ROUNDS * rounds.get(name, 7 * _DAY)
        if able.any():
            found[name] = np.where(known & able[:, None], slots[name], NO_SLOT)
    return found


def _apart(times: TimeArray) -> npt.NDArray[np.float64]:
    """Median distance between neighbouring times, in microseconds; infinite where unknown."""
    steps = np.diff(times, axis=1).astype("timedelta64[us]").astype(float)
    steps[np.isnat(np.diff(times, axis=1))] = np.nan
    none = np.isnan(steps).all(axis=1)
    steps[none] = np.inf
    return np.asarray(np.nanmedian(steps, axis=1), dtype=float)

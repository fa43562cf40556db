"""When batches come: the rhythm of their names, which are missing, and which are late.

A rhythm is a step (an hour, a day, a month) and, where one was seen, the places in the week that
batches have: a weekend without any is no gap. Whether a missing batch is a finding depends on how
often an expected one was missing before.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dqsql.model.batches import UNIT_SECONDS, in_zone
from dqsql.model.by_key import by_key
from dqsql.model.results import CONSTRAINT, Result
from dqsql.model.wording import first_of

_MIN_HISTORY = 7
# So many steps are looked at between two batches, and so many missing ones are named.
_MAX_STEPS = 10_000
_NAMED = 5
_DAY = dt.timedelta(days=1)
_WEEK = dt.timedelta(days=7)
_WORDS = {"hourly": "1 hour", "daily": "1 day", "weekdays": "1 day", "weekly": "1 week"}
_MONTHS = {"monthly": 1, "quarterly": 3, "yearly": 12}
_STEP = re.compile(r"(\d{1,4})\s*(minute|hour|day|week)s?")
# A share of places in the week that makes one a regular place.
_REGULAR = 0.5
# Batches of months begin on the same day of the month, or so near to it.
_SAME_DAY = dt.timedelta(days=3)
# What is believed before anything was seen: one in eleven is missing, with the weight of 1.1.
_PRIOR_MISSING, _PRIOR = 0.1, 1.1
# So many batches say what the rhythm is, or those of so long a time where these are more: a rhythm
# of minutes has weekends, too.
_NEWEST, _SEEN = 200, dt.timedelta(days=15)
# A rhythm of several uneven steps has most batches at places that a batch had before.
_AGAIN = 0.9
# Clocks that are put forward on all of the days on which those of most people are.
_CLOCKS = (
    "Europe/London",
    "Europe/Berlin",
    "Europe/Athens",
    "America/New_York",
    "Australia/Sydney",
    "Pacific/Auckland",
)
_AN_HOUR = dt.timedelta(hours=1)
# So far may local times be ahead of UTC.
_EARLIEST = dt.timedelta(hours=14)
# Hours may come once a day, on the day after.
_LATEST = dt.timedelta(hours=36)
# In the details of a verdict: it tells of nothing but a batch, or newer rows, that have not come.
MISSES_NEXT = "misses_next"


def misses_next(result: Result, *, holds: bool = False) -> bool:
    """Whether a verdict is about what comes after its own batch, which is none the worse for it.

    A run that `holds` rows back by what is found of them does not hand old ones on.
    """
    of_rows = holds and result.detector == CONSTRAINT
    return bool(result.details.get(MISSES_NEXT)) and not of_rows


def history_for(fpr: float) -> int:
    """How many expected batches, of which none is missing, make one gap as rare as a rate."""
    return math.ceil(_PRIOR_MISSING / fpr)


class CadenceError(ValueError):
    """A cadence that cannot be read; the text says what it may be."""


@dataclass(frozen=True)
class Cadence:
    """A rhythm: `step`, or a number of `months`; of a declared one only `weekdays` may be left out.

    `places` are the places in the week at which batches begin, where these were learned.
    """

    step: dt.timedelta | None = None
    months: int = 0
    weekdays: bool = False
    places: frozenset[tuple[int, dt.time]] | None = None

    def after(self, moment: dt.datetime) -> dt.datetime:
        """The next place of the rhythm, whether a batch is expected there or not.

        The last day of a month is followed by the last one of a later month.
        """
        if self.step is not None:
            return moment + self.step
        month = moment.month - 1 + self.months
        year, month = moment.year + month // 12, month % 12 + 1
        last = calendar.monthrange(year, month)[1]
        is_last = moment.day == calendar.monthrange(moment.year, moment.month)[1]
        return moment.replace(
            year=year, month=month, day=last if is_last else min(moment.day, last)
        )

    def expects(self, moment: dt.datetime) -> bool:
        """Whether a batch is expected at a place of the rhythm."""
        if self.weekdays and moment.weekday() >= 5:
            return False
        return self.places is None or (moment.weekday(), moment.time()) in self.places

    def between(self, first: dt.datetime, last: dt.datetime) -> list[dt.datetime]:
        """The places at which a batch is expected after `first` and before `last`.

        Without the last of them where `last` is so near that it is that batch.
        """
        moments = [m for m in self._steps(first, last) if self.expects(m)]
        near = (self.step or dt.timedelta()) / 2
        is_last = moments and (
            _meets(moments[-1], last) if self.months else last - moments[-1] < near
        )
        return moments[:-1] if is_last else moments

    def next_after(self, moment: dt.datetime) -> dt.datetime:
        """The next place at which a batch is expected."""
        next_moment = next((m for m in self._steps(moment, None) if self.expects(m)), None)
        return self.after(moment) if next_moment is None else next_moment

    def _steps(self, first: dt.datetime, last: dt.datetime | None) -> Iterator[dt.datetime]:
        place = first
        for _ in range(_MAX_STEPS):
            try:
                place = self.after(place)
            except (OverflowError, ValueError):
                return
            # Steps of another length than the rhythm's may not meet the next batch exactly.
            if last is not None and place >= last:
                return
            yield place

    @property
    def words(self) -> str:
        """`every day`, `every 6 hours`."""
        if self.months:
            return "every month" if self.months == 1 else f"every {self.months} months"
        seconds = int(self.step.total_seconds()) if self.step is not None else 0
        units = ("week", "day", "hour")
        unit = next((u for u in units if seconds % UNIT_SECONDS[u] == 0), "minute")
        number = max(1, seconds // UNIT_SECONDS[unit])
        partial = self._is_partial
        days = {day for day, _ in self.places or ()} if partial else range(7)
        some = " on some days" if self.weekdays or len(days) < 7 else " at some times" * partial
        return f"every {unit}{some}" if number == 1 else f"every {number} {unit}s{some}"

    @property
    def _is_partial(self) -> bool:
        if self.places is None or self.step is None:
            return False
        return len(self.places) * self.step < _WEEK


def read_cadence(text: str) -> Cadence:
    """A declared rhythm. Raises CadenceError.

    >>> [read_cadence(text).words for text in ("daily", "monthly", "6 hours")]
    ['every day', 'every month', 'every 6 hours']
    """
    word = text.strip().lower()
    if word in _MONTHS:
        return Cadence(months=_MONTHS[word])
    match = _STEP.fullmatch(_WORDS.get(word, word))
    if match is None or int(match[1]) == 0:
        known = ", ".join([*_WORDS, *_MONTHS])
        raise CadenceError(f"one of {known}, or '15 minutes', '6 hours'")
    step = dt.timedelta(seconds=int(match[1]) * UNIT_SECONDS[match[2]])
    return Cadence(step, weekdays=word == "weekdays")


def learn_cadence(times: Sequence[dt.datetime]) -> Cadence | None:
    """The rhythm of batches that began at these times, oldest first; None where there is none.

    That of the newest, where they are many: rhythms change.
    """
    times = times[-max(_NEWEST, newest_days(times)) :]
    gaps = [b - a for a, b in pairwise(times) if b > a]
    if len(gaps) < 2:
        return None
    if months := _months_apart(times):
        return Cadence(months=months)
    step, often = Counter(gaps).most_common(1)[0]
    if often * 2 < len(gaps):
        return _uneven(times, gaps)
    if step > _DAY:
        return Cadence(step)
    even = Cadence(step, places=_places(times, step))
    # From 17:00 to 7:00 there is no step of five hours.
    return even if _DAY % step == dt.timedelta() else _uneven(times, gaps) or even


def newest_days(times: Sequence[dt.datetime]) -> int:
    """How many of the times, oldest first, are of the last 15 days."""
    return len(times) - bisect_left(times, times[-1] - _SEEN) if times else 0


def _uneven(times: Sequence[dt.datetime], gaps: Sequence[dt.timedelta]) -> Cadence | None:
    """The rhythm of batches at the same uneven times of each day, as 6:00, 10:00 and 18:00."""
    step = dt.timedelta(seconds=math.gcd(*(round(gap.total_seconds()) for gap in gaps)))
    span = times[-1] - times[0]
    if step >= _DAY or span < 2 * _WEEK or span > _MAX_STEPS * step:
        return None
    places = _places(times, step)
    seen = Counter((t.weekday(), t.time()) for t in times)
    again = sum(n for place, n in seen.items() if n > 1 and place in places)
    return Cadence(step, places=places) if again >= _AGAIN * len(times) else None


def _meets(place: dt.datetime, moment: dt.datetime) -> bool:
    """Whether a batch is the one of a place in a rhythm of months: near to it, or in its month.

    The last working day of a month may be any of its last days.
    """
    in_month = (place.year, place.month) == (moment.year, moment.month)
    return in_month or abs(moment - place) <= _SAME_DAY


def _months_apart(times: Sequence[dt.datetime]) -> int | None:
    """How many months are usually between batches, about the same day of the month each."""
    apart = [(b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(times)]
    if min(apart) < 1:
        return None
    places = (Cadence(months=n).after(a) for n, a in zip(apart, times, strict=False))
    if not all(_meets(place, b) for place, b in zip(places, times[1:], strict=True)):
        return None
    months, often = Counter(apart).most_common(1)[0]
    return months if often * 2 >= len(apart) else None


def _places(times: Sequence[dt.datetime], step: dt.timedelta) -> frozenset[tuple[int, dt.time]]:
    """The places in the week that a batch had in at least half of the weeks that were seen.

    A place on a working day that was not reached yet is regular if others of its hour are.
    """
    seen = Counter((t.weekday(), t.time()) for t in times)
    reached: Counter[tuple[int, dt.time]] = Counter()
    place = times[0]
    while place <= times[-1] and len(reached) < _MAX_STEPS and sum(reached.values()) < _MAX_STEPS:
        reached[place.weekday(), place.time()] += 1
        place += step
    regular = {p for p, n in seen.items() if n >= _REGULAR * reached.get(p, n)}
    hours = {time for _, time in regular}
    unknown = {
        (day, time)
        for day in range(5)
        for time in hours
        if (day, time) not in reached and (day, time) not in seen
    }
    return frozenset(regular | unknown)


# What makes local times: the zone is the last argument of the first, the target of the second.
_LOCAL = re.compile(
    r"from_utc_timestamp\(.*?'([\w/+-]+)'\s*\)"
    r"|convert_timezone\(\s*(?:'[^']*'\s*,\s*)?'([\w/+-]+)'\s*,",
    re.IGNORECASE | re.DOTALL,
)
_ZONE = re.compile(r"['\"]([A-Z][A-Za-z_]+(?:/[A-Za-z_+-]+\d*)+)['\"]")


@dataclass(frozen=True)
class Gap:
    """Expected batches that are not there.

    Attributes:
        missing: when they would begin, oldest first.
        chance: how often so many are missing in a row, by those that were missing before.
        alarm: whether that is rare enough to be told.
        history: how many expected batches it was learned from.
    """

    missing: tuple[dt.datetime, ...]
    chance: float
    alarm: bool
    history: int

    @property
    def words(self) -> str:
        """The missing ones, `2024-03-06, 2024-03-07 and 3 more`."""
        are_days = all(m.time() == dt.time() for m in self.missing)
        form = "%Y-%m-%d" if are_days else "%Y-%m-%d %H:%M"
        return first_of([format(m, form) for m in self.missing], _NAMED)


def is_left_out(moment: dt.datetime, zones: Sequence[str]) -> bool:
    """Whether the clocks of one of the time zones never show this time, since they are put forward.

    >>> is_left_out(dt.datetime(2024, 3, 31, 2), ["Europe/Berlin"])
    True
    """
    for zone in map(ZoneInfo, zones):
        shown = moment.replace(tzinfo=zone).astimezone(dt.UTC).astimezone(zone)
        if shown.replace(tzinfo=None) != moment:
            return True
    return False


def shown(moment: dt.datetime, zone: str | None) -> dt.datetime:
    """What a clock of a time zone, or of UTC, shows at a moment; without one it is in UTC.

    >>> str(shown(dt.datetime(2024, 7, 1, 12), "America/New_York"))
    '2024-07-01 08:00:00'
    """
    clock = dt.UTC if zone is None else ZoneInfo(zone)
    return in_zone(moment).astimezone(clock).replace(tzinfo=None)


def zones_in(text: str) -> tuple[str, ...]:
    """The time zones that a SQL text names in quotes, such as `'Europe/Berlin'`."""
    return tuple(name for name in dict.fromkeys(_ZONE.findall(text)) if _is_zone(name))


def clocks_in(text: str) -> tuple[str, ...]:
    """The time zones whose local times a SQL text makes of moments.

    >>> clocks_in("from_utc_timestamp(ts, 'Asia/Tokyo')"), clocks_in("to_utc(t, 'Asia/Tokyo')")
    (('Asia/Tokyo',), ())
    """
    return zones_in(" ".join(f"'{match[1] or match[2]}'" for match in _LOCAL.finditer(text)))


def _is_zone(name: str) -> bool:
    try:
        return ZoneInfo(name).key == name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def gap_before(
    past: Sequence[dt.datetime],
    batch: dt.datetime,
    fpr: float,
    declared: Cadence | None = None,
    min_history: int = _MIN_HISTORY,
    zones: Sequence[str] = (),
) -> Gap | None:
    """What is missing between the newest of `past` (oldest first) and a batch.

    A gap in a declared rhythm is always told; in a learned one, if gaps like it are rarer than
    `fpr`. Hours that the clocks of time `zones` leave out are not missing; where none is known, nor
    is a gap of which clocks of many people leave out all. None: there is no rhythm yet.
    """
    rhythm = declared or learn_cadence(past)
    if rhythm is None or not past:
        return None
    missing = _shown_by_clocks(rhythm.between(past[-1], batch), rhythm, zones)
    if declared is not None:
        return Gap(missing, 0.0, bool(missing), len(past))
    expected = absent = 0
    for first, last in pairwise(past):
        lost = len(rhythm.between(first, last))
        expected += 1 + lost
        absent += lost
    if expected < min_history:
        return None
    rate = (absent + _PRIOR_MISSING) / (expected + _PRIOR)
    chance = rate ** len(missing)
    return Gap(missing, chance, bool(missing) and chance < fpr, expected)


def _shown_by_clocks(
    moments: Sequence[dt.datetime], rhythm: Cadence, zones: Sequence[str]
) -> tuple[dt.datetime, ...]:
    """Expected batches without those of an hour that clocks leave out in spring."""
    step = rhythm.step or _DAY
    if step >= _DAY:
        return tuple(moments)
    if zones:
        return tuple(m for m in moments if not is_left_out(m, zones))
    # Local times may come without a word of where they are from.
    clocks = [zone for zone in _CLOCKS if _is_zone(zone)] if len(moments) <= _AN_HOUR / step else ()
    is_spring = bool(clocks) and all(is_left_out(m, clocks) for m in moments)
    return () if is_spring else tuple(moments)


@dataclass(frozen=True)
class Lateness:
    """The next batch after the newest: when it is expected to be there, and whether it is late."""

    missing: tuple[dt.datetime, ...]
    due: dt.datetime
    late: bool

    @property
    def words(self) -> str:
        """The batches that should be there."""
        return Gap(self.missing, 0.0, self.late, 0).words


def lateness(
    past: Sequence[dt.datetime],
    delays: Sequence[dt.timedelta],
    now: dt.datetime,
    declared: Cadence | None = None,
    grace: dt.timedelta | None = None,
    zones: Sequence[str] = (),
    before: dt.datetime | None = None,
) -> Lateness | None:
    """Whether a batch after the newest of `past` should have been there by `now`.

    A batch is complete when the next one would begin; it is due after that by twice the delay that
    was usual, and half a step (a whole one, where the rhythm is declared and nothing is known).

    Args:
        past: when the known batches began, oldest first.
        delays: how long after their end batches were first checked, of those that were checked
            as they came in.
        now: the time.
        declared: the rhythm, where it is declared.
        grace: how late a batch may be; None: as was usual.
        zones: the hours that their clocks leave out are not missing.
        before: nothing was looked for from here on.
    """
    rhythm = declared or (learn_cadence(past) if len(past) >= _MIN_HISTORY else None)
    if rhythm is None or not past or (declared is None and len(delays) < 3):
        return None
    upcoming = rhythm.next_after(past[-1])
    end = rhythm.after(upcoming)
    if grace is None:
        step = end - upcoming
        usual = sorted(delays)[len(delays) // 2] if delays else step / 4
        grace = max(2 * usual, dt.timedelta()) + step / 2
    behind = now - grace
    complete = [
        m
        for m in (upcoming, *rhythm.between(upcoming, behind))
        if rhythm.after(m) <= behind and (before is None or m < before)
    ]
    missing = _shown_by_clocks(complete, rhythm, zones)
    due = (rhythm.after(missing[0]) if missing else end) + grace
    return Lateness(missing, due, bool(missing) and now > due)


def live_delays(
    ends: Sequence[tuple[dt.datetime, dt.datetime]], step: dt.timedelta
) -> list[dt.timedelta]:
    """How long after their end batches came, of those that were checked as they came in.

    Of batches that were first seen at one time the oldest says how long one may wait, if the newest
    is not long over: a backfill says nothing. Nor does a first run of several batches.

    Args:
        ends: when batches ended and when they were first seen, in the order of their ends.
        step: from one batch to the next.
    """
    runs = by_key((seen, seen - end) for end, seen in ends)
    waits = [runs[seen] for seen in sorted(runs)]
    if waits and len(waits[0]) > 1:
        del waits[0]
    earliest, latest = max(step, _EARLIEST), max(3 * step, _LATEST)
    return [wait[0] for wait in waits if -earliest <= wait[-1] <= latest][-10:]

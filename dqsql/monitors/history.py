"""The metric values and profiles of a model's batches, as monitors see them."""

from __future__ import annotations

import copy
import datetime as dt
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.stationarity import RECURS, furthest_metrics, like_the_moved
from dqsql.model.batches import batch_order
from dqsql.model.metric_traits import PATTERN_MATCHES, UNIT_METRICS
from dqsql.model.plain_names import names_in_lower_case
from dqsql.model.plan import PROFILES, Metric
from dqsql.model.results import MetricProfile, MetricValue
from dqsql.monitors.times_of_day import TimesOfDay

# Stands for the batch that comes after all others: it sorts behind every name.
NEXT = "\U0010ffff"
# A batch so many times as far out as its bound is not learned from, though only warned of. Nearer
# ones are: else bounds would tighten with each warning, and warn ever more often.
_FAR = 2.0
# What was over and has come back so many times, for one batch or several, is part of what is usual.
_RETURNS = 2
# What is over is followed by so many batches unlike it: more than those of a weekend.
_OVER = 3
# So many batches more than its window a monitor looks at for runs of such batches.
SPAN = 14


# The columns of dq_metrics that identify a series of a model.
_SERIES = ["column_name", "metric", "parameters", "scope", "segment"]


class MetricKey(NamedTuple):
    """What identifies a series of values of one model."""

    column: str
    metric: str
    parameters: str
    scope: str
    segment: str | None = None


def key_of(metric: Metric, segment: str | None = None) -> MetricKey:
    """The series of a plan's metric."""
    return MetricKey(
        metric.column or "", metric.name, metric.parameters, metric.scope.value, segment
    )


# What of a key names columns.
_SPELLED = ("column", "metric", "parameters")
# Another key for the same series.
_SameKey = Callable[[MetricKey], MetricKey]


def without_case(key: MetricKey) -> MetricKey:
    """The key of a series in whatever letter case the names of columns are written."""
    # A pattern is no SQL: the case of its letters counts.
    is_sql = key.metric != PATTERN_MATCHES
    return key._replace(
        column=key.column.lower(),
        metric=names_in_lower_case(key.metric),
        parameters=names_in_lower_case(key.parameters) if is_sql else key.parameters,
    )


def spelled_as(metrics: Iterable[Metric]) -> _SameKey:
    """The keys of series with columns in the letter case that the metrics of a plan have now.

    Spark does not tell columns apart by it. What the metrics write in two ways stays as it is.
    """
    spellings: dict[str, dict[str, set[str]]] = {name: {} for name in _SPELLED}
    for key in map(key_of, metrics):
        alike = without_case(key)
        for name, known in spellings.items():
            known.setdefault(getattr(alike, name), set()).add(getattr(key, name))

    def same(key: MetricKey) -> MetricKey:
        alike = without_case(key)
        found = {name: known.get(getattr(alike, name), ()) for name, known in spellings.items()}
        return key._replace(**{name: next(iter(s)) for name, s in found.items() if len(s) == 1})

    return same


def place_of(batch: str, ordered: Sequence[str]) -> int:
    """How many of some batches, oldest first, come before a batch."""
    return bisect_left(ordered, batch_order(batch), key=batch_order)


def _tail_and_rest(like: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Of batches that are like some before them, those before it was over, and those after."""
    ends = (i for i in range(like.size) if not like[i : i + _OVER].any())
    is_tail = np.arange(like.size) < next(ends, like.size)
    return like & is_tail, like & ~is_tail


def _spells(like: BoolArray) -> int:
    """How many runs of neighbours there are."""
    return int(np.count_nonzero(like & ~np.append(False, like[:-1])))


class _Series(NamedTuple):
    """The values of one series at the places of batches, and of which of them there are any."""

    values: FloatArray
    measured: npt.NDArray[np.bool_]


class History:
    """Values and profiles by batch, and which batches may be learned from.

    A batch may be learned from when it was accepted: no unreviewed finding of severity error, and
    not rejected by a review. `known` are all batches that were or are being checked, `refused`
    those that failed a check. Keys of which `same` makes one are those of one series.
    """

    def __init__(
        self,
        accepted: Iterable[str],
        stored_profiles: Callable[[str], Iterable[Mapping[str, Any]]] = lambda batch: (),
        known: Iterable[str] = (),
        refused: Collection[str] = (),
        same: _SameKey = lambda key: key,
    ) -> None:
        self._same = lru_cache(maxsize=None)(same)
        self._accepted = sorted(set(accepted), key=batch_order)
        self._known = sorted({*self._accepted, *known}, key=batch_order)
        self.refused = refused
        self._stored_profiles = stored_profiles
        self._profiled: set[str] = set()
        # Place 0 is that of all batches of which nothing is known.
        self._places = {batch: place for place, batch in enumerate(self._known, 1)}
        self._series: dict[MetricKey, _Series] = {}
        self._profiles: dict[MetricKey, dict[str, MetricProfile]] = {}
        self._texts: dict[MetricKey, dict[str, str]] = {}
        self._not_numbers: set[tuple[MetricKey, str]] = set()
        self._warned: dict[str, set[str]] = {}
        self._all_warned: dict[str, set[str]] = {}
        self._alike: dict[tuple[str, int], History] = {}
        self._segments: dict[str, list[str]] = {}
        self.times: tuple[dt.time, ...] = ()

    def add(self, values: Iterable[MetricValue]) -> None:
        """Take in measured values; a null is NaN."""
        values = list(values)
        self._segments = {}
        for value in values:
            self._place(value.batch)
        for value in values:
            self._profiled.add(value.batch)
            key = self._same(
                MetricKey(
                    value.column or "", value.metric, value.parameters, value.scope, value.segment
                )
            )
            if value.metric in PROFILES:
                if value.value_text is not None:
                    self.add_profile(key, value.batch, MetricProfile.from_json(value.value_text))
                continue
            if value.value_text is not None:
                self._texts.setdefault(key, {})[value.batch] = value.value_text
            series, place = self._of(key), self._place(value.batch)
            series.values[place] = np.nan if value.value is None else value.value
            series.measured[place] = True
            self._not_numbers.discard((key, value.batch))
            if value.value is not None and math.isnan(value.value):
                self._not_numbers.add((key, value.batch))

    def add_metrics(self, rows: pa.Table) -> None:
        """Take in rows of dq_metrics; a null is NaN."""
        # Hundreds of thousands for a wide model of a year: no Python object for each row.
        if not rows.num_rows:
            return
        self._segments = {}
        codes = np.zeros(rows.num_rows, dtype=np.int64)
        for name in _SERIES:
            code, texts = _encoded(rows[name])
            codes = codes * len(texts) + code
        batch_codes, batches = _encoded(rows["batch"])
        places = np.array([self._place(batch) for batch in batches])[batch_codes]
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        values = np.full((len(first), len(self._places) + 1), np.nan)
        measured = np.zeros(values.shape, dtype=np.bool_)
        values[which, places] = rows["value"].to_numpy()
        not_numbers = pc.fill_null(pc.is_nan(rows["value"]), False).to_numpy()
        measured[which, places] = True
        names = zip(*(rows[name].take(first).to_pylist() for name in _SERIES), strict=True)
        keys: list[MetricKey] = []
        for (column, metric, parameters, scope, segment), new in zip(
            names, map(_Series, values, measured), strict=True
        ):
            key = self._same(MetricKey(column or "", metric, parameters or "", scope, segment))
            keys.append(key)
            if key not in self._series:
                self._series[key] = new
                continue
            old = self._of(key)
            np.copyto(old.values, new.values, where=new.measured)
            np.copyto(old.measured, True, where=new.measured)
        for row in np.flatnonzero(not_numbers).tolist():
            self._not_numbers.add((keys[which[row]], batches[batch_codes[row]]))

    def add_profile_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows of dq_distributions."""
        for row in rows:
            key = MetricKey(
                row["column_name"] or "",
                row["profile"],
                row["parameters"] or "",
                "delta",
                row["segment"],
            )
            profile = MetricProfile(
                tuple(row["quantiles"] or ()),
                tuple(row["labels"] or ()),
                tuple(row["counts"] or ()),
                float(row["other"] or 0.0),
            )
            self.add_profile(key, row["batch"], profile)

    def add_profile(self, key: MetricKey, batch: str, profile: MetricProfile) -> None:
        """Take in one profile."""
        self._profiles.setdefault(self._same(key), {})[batch] = profile

    # --- which batches -------------------------------------------------------------------------

    def accept(self, batch: str) -> None:
        """Let a batch be learned from."""
        if batch not in self._accepted:
            insort(self._accepted, batch, key=batch_order)

    def warn(self, check_id: str, batch: str, score: float | None) -> None:
        """Note that a monitor warned of a batch, which is accepted all the same.

        `score` is how many times as far out as its bound the batch lies; None is infinitely far.
        """
        self._all_warned.setdefault(check_id, set()).add(batch)
        if score is None or not score <= _FAR:
            self._warned.setdefault(check_id, set()).add(batch)

    def was_warned(self, check_id: str, batches: Sequence[str]) -> BoolArray:
        """Which of some batches a monitor warned of, far out or not."""
        warned = self._all_warned.get(check_id, ())
        return np.array([batch in warned for batch in batches], dtype=np.bool_)

    def was_told(self, batch: str, check_ids: Iterable[str]) -> bool:
        """Whether one of some monitors warned of a batch, far out or not."""
        return any(batch in self._all_warned.get(check_id, ()) for check_id in check_ids)

    def usual(
        self,
        check_id: str,
        batches: Sequence[str],
        window: int,
        keys: Sequence[MetricKey] = (),
        least: int = 0,
    ) -> list[str]:
        """The batches that a monitor may learn from: without those that it found far out.

        What it found three times in the newest `window` of them is normal, too; with metrics
        (`keys`), if one of them lay furthest out each time: three unlike faults are none of a kind.
        If that was in a row, and `least` batches have come since the first of them, the metrics say
        whether most of those since are like them: then it was a change for good, and there are no
        others. Else it is over, and those like them are left out, up to its end and where they are
        far out, too; but what has come back twice since comes and goes, and is normal. With `keys`,
        `SPAN` more batches than the window are looked at.
        """
        warned, kept = self._warned.get(check_id, set()), list(batches)
        kept = kept[-window - SPAN :] if keys else kept
        if keys and len(warned.intersection(kept)) >= RECURS:
            kept, warned = self._settled(kept, warned, keys, least)
        if len(warned.intersection(kept[-window:])) >= RECURS:
            warned = self._rare(kept, warned, keys) if keys else set()
        return [b for b in kept if b not in warned]

    def _rare(
        self, kept: Sequence[str], warned: Collection[str], keys: Sequence[MetricKey]
    ) -> set[str]:
        """The batches far out by a metric that no others are furthest out by; none if most are."""
        far = [b for b in kept if b in warned]
        usual = [b for b in kept if b not in warned]
        if len(far) >= 2 * RECURS or len(usual) < RECURS:
            return set()
        # Where the values are is one thing, whichever metric says it best.
        first = next((i for i, key in enumerate(keys) if key.metric in UNIT_METRICS), 0)
        kinds = [first if k.metric in UNIT_METRICS else i for i, k in enumerate(keys)]
        furthest = furthest_metrics(self.matrix(keys, usual), self.matrix(keys, far))
        kind = np.array(kinds)[furthest]
        return set(compress(far, np.bincount(kind)[kind] < RECURS))

    def _settled(
        self, kept: list[str], warned: Collection[str], keys: Sequence[MetricKey], least: int
    ) -> tuple[list[str], set[str]]:
        """The batches, and those far out, once runs of the latter are changes for good or over."""
        left = set(warned)
        while True:
            far = [b in left for b in kept]
            starts = (i for i in range(len(far) - least, 0, -1) if all(far[i : i + RECURS]))
            start = next((i for i in starts if not far[i - 1]), 0)
            if not start:
                return kept, left
            end = next((i for i in range(start, len(far)) if not far[i]), len(far))
            parts = (kept[:start], kept[start:end], kept[end:])
            before, moved, since = (self.matrix(keys, part) for part in parts)
            like = like_the_moved(before, moved, since)
            left.difference_update(parts[1])
            if 2 * like.sum() > like.size or not like.size:
                return kept[start:], left
            tail, again = _tail_and_rest(like)
            far_again = like & np.array([b in left for b in parts[2]])
            # Those that were usual all along, as weekends are.
            earlier = like_the_moved(before, moved, before)
            earlier &= np.array([b not in warned for b in parts[0]])
            if _spells(again) >= _RETURNS and again.mean() > 2 * earlier.mean():
                # It comes and goes since then: rain, or what only some days have.
                left.difference_update(compress(parts[2], like))
                continue
            kept = [*parts[0], *compress(parts[2], ~(tail | far_again))]

    def before(self, batch: str, window: int | None = None) -> list[str]:
        """The accepted batches before a batch, oldest first; the last `window` of them."""
        end = place_of(batch, self._accepted)
        start = 0 if window is None else max(0, end - window)
        return self._accepted[start:end]

    @cached_property
    def _times(self) -> TimesOfDay:
        return TimesOfDay([b for b in self._known if b != NEXT])

    def time_of(self, batch: str) -> dt.time | None:
        """The time of day of a batch, where such batches come each day, one of several times."""
        return self._times.of_next() if batch == NEXT else self._times.of(batch)

    def a_day(self, batch: str) -> int:
        """How many batches come a day, where they come at the same times each day; else 1."""
        return self._times.a_day(batch)

    def of_its_time(self, batch: str, earlier: Sequence[str]) -> Sequence[str]:
        """The batches before a batch: where several come a day, those of its time of day."""
        return earlier if self.time_of(batch) is None else self._times.like(batch, earlier)[0]

    def alike(self, batch: str) -> History:
        """The history of a batch: where several come a day, of those before of its time of day.

        The values are shared.
        """
        if self.times or self.time_of(batch) is None:
            return self
        key = (batch, len(self._accepted))
        if key not in self._alike:
            view = copy.copy(self)
            earlier = self._known[: place_of(batch, self._known)]
            view._known, view.times = self._times.like(batch, earlier)
            seen = set(view._known)
            view._accepted = [b for b in self.before(batch) if b in seen]
            self._alike = {key: view}
        return self._alike[key]

    @property
    def known(self) -> tuple[str, ...]:
        """All batches that were or are being checked."""
        return tuple(self._known)

    def between(self, first: str, last: str) -> int:
        """How many batches were checked after `first` and before `last`, accepted or not."""
        return max(0, place_of(last, self._known) - place_of(first, self._known) - 1)

    def steps(self, past: Sequence[str], batch: str) -> list[str]:
        """The batches that were checked from the first of `past` up to before `batch`.

        A season is counted in them: one that was left out of `past` took its time, too.
        """
        return self._known[place_of(past[0], self._known) : place_of(batch, self._known)]

    def left_out(self, past: Sequence[str], until: str | None = None) -> list[str]:
        """The batches that were checked after the first of `past` and are not in it.

        Those before the last of `past`, or before the batch `until`. With them, a stored verdict
        says which batches it rests on.
        """
        if not past:
            return []
        start = place_of(past[0], self._known)
        end = place_of(past[-1] if until is None else until, self._known)
        if end - start + (until is None) == len(past):
            return []
        rests_on = set(past)
        return [b for b in self._known[start:end] if b not in rests_on]

    # --- values --------------------------------------------------------------------------------

    def value(self, key: MetricKey, batch: str) -> float:
        """The value of a batch; NaN for null and where it was not measured."""
        key = self._same(key)
        known = key in self._series
        return float(self._of(key).values[self._places.get(batch, 0)]) if known else math.nan

    def is_nan(self, key: MetricKey, batch: str) -> bool:
        """Whether a run measured NaN, which is no number, and not nothing."""
        return (self._same(key), batch) in self._not_numbers

    def text(self, key: MetricKey, batch: str) -> str | None:
        """What a run measured of a batch besides the number, in words; None for nothing."""
        return self._texts.get(self._same(key), {}).get(batch)

    def measured(self, key: MetricKey, batch: str) -> bool:
        """Whether the metric was measured on a batch, be it null."""
        key = self._same(key)
        known = key in self._series
        return known and bool(self._of(key).measured[self._places.get(batch, 0)])

    def measured_of(self, key: MetricKey, batches: Sequence[str]) -> list[str]:
        """Those of some batches on which the metric was measured, be it null."""
        key = self._same(key)
        if key not in self._series:
            return []
        measured = self._of(key).measured[self._at(batches)]
        return list(batches) if measured.all() else list(compress(batches, measured.tolist()))

    def series(self, key: MetricKey, batches: Sequence[str]) -> FloatArray:
        """The values of some batches, in their order."""
        return self.matrix([key], batches)[:, 0]

    def matrix(self, keys: Sequence[MetricKey], batches: Sequence[str]) -> FloatArray:
        """The values of some batches, in their order: a column for each of the keys."""
        places = self._at(batches)
        values = np.full((len(batches), len(keys)), np.nan)
        for column, key in enumerate(map(self._same, keys)):
            if key in self._series:
                values[:, column] = self._of(key).values[places]
        return values

    def in_step(
        self, keys: Sequence[MetricKey], past: Collection[str], steps: Sequence[str]
    ) -> FloatArray:
        """The values of `steps`, in their order; NaN for those that are not in `past`."""
        rests_on = set(past)
        values = self.matrix(keys, steps)
        if len(rests_on) < len(steps):
            values[[batch not in rests_on for batch in steps]] = np.nan
        return values

    def _place(self, batch: str) -> int:
        """The place of a batch, which is new if none has been seen of it."""
        return self._places.setdefault(batch, len(self._places) + 1)

    def _at(self, batches: Sequence[str]) -> npt.NDArray[np.intp]:
        """The places of batches."""
        return np.array([self._places.get(b, 0) for b in batches], dtype=np.intp)

    def _of(self, key: MetricKey) -> _Series:
        """The values of a series, with a place for each batch."""
        series, size = self._series.get(key), len(self._places) + 1
        if series is None or len(series.values) < size:
            new = _Series(np.full(size, np.nan), np.zeros(size, dtype=np.bool_))
            if series is not None:
                new.values[: len(series.values)] = series.values
                new.measured[: len(series.measured)] = series.measured
            self._series[key] = series = new
        return series

    def profile(self, key: MetricKey, batch: str) -> MetricProfile | None:
        """The profile of a batch, or None where there is none; stored ones are read when asked."""
        if batch not in self._profiled:
            self._profiled.add(batch)
            self.add_profile_rows(self._stored_profiles(batch))
        return self._profiles.get(self._same(key), {}).get(batch)

    def segments(self, batch: str) -> list[str]:
        """The segments that were measured on a batch, sorted."""
        if batch not in self._segments:
            keys = [key for key in self._series if key.segment and self.measured(key, batch)]
            self._segments[batch] = sorted({key.segment for key in keys if key.segment})
        return self._segments[batch]


def _encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Texts as numbers, and the texts that these stand for; null is one of them."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

"""The metric values and profiles of a model's batches, as monitors see them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dqsql.decisions.arrays import FloatArray
from dqsql.model.batches import batch_order
from dqsql.model.plan import PROFILES, Metric
from dqsql.model.results import MetricProfile, MetricValue

# Stands for the batch that comes after all others: it sorts behind every name.
NEXT = "\U0010ffff"
# A batch so many times as far out as its bound is not learned from, though only warned of. Nearer
# ones are: else bounds would tighten with each warning, and warn ever more often.
_FAR = 2.0
# A monitor that found so many batches of its window far out learns from them.
RECURS = 3


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


class History:
    """Values and profiles by batch, and which batches may be learned from.

    A batch may be learned from when it was accepted: no unreviewed finding of severity error, and
    not rejected by a review. `known` are all batches that were or are being checked, `refused`
    those that failed a check.
    """

    def __init__(
        self,
        accepted: Iterable[str],
        stored_profiles: Callable[[str], Iterable[Mapping[str, Any]]] = lambda batch: (),
        known: Iterable[str] = (),
        refused: Collection[str] = (),
    ) -> None:
        self._accepted = sorted(set(accepted), key=batch_order)
        self._known = sorted({*self._accepted, *known}, key=batch_order)
        self.refused = refused
        self._stored_profiles = stored_profiles
        self._profiled: set[str] = set()
        self._values: dict[MetricKey, dict[str, float]] = {}
        self._profiles: dict[MetricKey, dict[str, MetricProfile]] = {}
        self._texts: dict[MetricKey, dict[str, str]] = {}
        self._warned: dict[str, set[str]] = {}

    def add(self, values: Iterable[MetricValue]) -> None:
        """Take in measured values; a null is NaN."""
        for value in values:
            self._profiled.add(value.batch)
            key = MetricKey(
                value.column or "", value.metric, value.parameters, value.scope, value.segment
            )
            if value.metric in PROFILES:
                if value.value_text is not None:
                    self.add_profile(key, value.batch, MetricProfile.from_json(value.value_text))
                continue
            if value.value_text is not None:
                self._texts.setdefault(key, {})[value.batch] = value.value_text
            number = float("nan") if value.value is None else float(value.value)
            self._values.setdefault(key, {})[value.batch] = number

    def add_metrics(self, rows: pa.Table) -> None:
        """Take in rows of dq_metrics; a null is NaN."""
        # Hundreds of thousands for a wide model of a year: no Python object for each row.
        series = rows.group_by(_SERIES).aggregate([("batch", "list"), ("value", "list")])
        batches, values = (series[f"{n}_list"].combine_chunks() for n in ("batch", "value"))
        ends = batches.offsets.to_pylist()
        names = batches.flatten().to_numpy(zero_copy_only=False)
        numbers = values.flatten().to_numpy(zero_copy_only=False)
        keys = zip(*(series[name].to_pylist() for name in _SERIES), strict=True)
        for (column, metric, parameters, scope, segment), start, end in zip(
            keys, ends, ends[1:], strict=False
        ):
            key = MetricKey(column or "", metric, parameters or "", scope, segment)
            found = zip(names[start:end], numbers[start:end].tolist(), strict=True)
            self._values.setdefault(key, {}).update(found)

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
        self._profiles.setdefault(key, {})[batch] = profile

    # --- which batches -------------------------------------------------------------------------

    def accept(self, batch: str) -> None:
        """Let a batch be learned from."""
        if batch not in self._accepted:
            insort(self._accepted, batch, key=batch_order)

    def warn(self, check_id: str, batch: str, score: float | None) -> None:
        """Note that a monitor warned of a batch, which is accepted all the same.

        `score` is how many times as far out as its bound the batch lies; None is infinitely far.
        """
        if score is None or not score <= _FAR:
            self._warned.setdefault(check_id, set()).add(batch)

    def usual(self, check_id: str, batches: Sequence[str], window: int) -> list[str]:
        """The batches that a monitor may learn from: without those that it found far out.

        What it found three times in the newest `window` of them is the new normal.
        """
        warned = self._warned.get(check_id, set()).intersection(batches[-window:])
        if len(warned) >= RECURS:
            return list(batches)
        return [b for b in batches if b not in warned]

    def before(self, batch: str, window: int | None = None) -> list[str]:
        """The accepted batches before a batch, oldest first; the last `window` of them."""
        end = bisect_left(self._accepted, batch_order(batch), key=batch_order)
        start = 0 if window is None else max(0, end - window)
        return self._accepted[start:end]

    @property
    def known(self) -> tuple[str, ...]:
        """All batches that were or are being checked."""
        return tuple(self._known)

    def between(self, first: str, last: str) -> int:
        """How many batches were checked after `first` and before `last`, accepted or not."""
        ends = (bisect_left(self._known, batch_order(b), key=batch_order) for b in (first, last))
        start, end = ends
        return max(0, end - start - 1)

    def steps(self, past: Sequence[str], batch: str) -> list[str]:
        """The batches that were checked from the first of `past` up to before `batch`.

        A season is counted in them: one that was left out of `past` took its time, too.
        """
        ends = (bisect_left(self._known, batch_order(b), key=batch_order) for b in (past[0], batch))
        start, end = ends
        return self._known[start:end]

    def left_out(self, past: Sequence[str], until: str | None = None) -> list[str]:
        """The batches that were checked after the first of `past` and are not in it.

        Those before the last of `past`, or before the batch `until`. With them, a stored verdict
        says which batches it rests on.
        """
        if not past:
            return []
        ends = [
            bisect_left(self._known, batch_order(b), key=batch_order)
            for b in (past[0], past[-1] if until is None else until)
        ]
        if ends[1] - ends[0] + (until is None) == len(past):
            return []
        rests_on = set(past)
        return [b for b in self._known[ends[0] : ends[1]] if b not in rests_on]

    # --- values --------------------------------------------------------------------------------

    def value(self, key: MetricKey, batch: str) -> float:
        """The value of a batch; NaN for null and where it was not measured."""
        return self._values.get(key, {}).get(batch, float("nan"))

    def text(self, key: MetricKey, batch: str) -> str | None:
        """What a run measured of a batch besides the number, in words; None for nothing."""
        return self._texts.get(key, {}).get(batch)

    def measured(self, key: MetricKey, batch: str) -> bool:
        """Whether the metric was measured on a batch, be it null."""
        return batch in self._values.get(key, {})

    def series(self, key: MetricKey, batches: Sequence[str]) -> FloatArray:
        """The values of some batches, in their order."""
        values = self._values.get(key, {})
        return np.array([values.get(b, float("nan")) for b in batches], dtype=float)

    def in_step(self, key: MetricKey, past: Collection[str], steps: Sequence[str]) -> FloatArray:
        """The values of `steps`, in their order; NaN for those that are not in `past`."""
        rests_on = set(past)
        values = self._values.get(key, {})
        nan = float("nan")
        return np.array([values.get(b, nan) if b in rests_on else nan for b in steps], dtype=float)

    def profile(self, key: MetricKey, batch: str) -> MetricProfile | None:
        """The profile of a batch, or None where there is none; stored ones are read when asked."""
        if batch not in self._profiled:
            self._profiled.add(batch)
            self.add_profile_rows(self._stored_profiles(batch))
        return self._profiles.get(key, {}).get(batch)

    def segments(self, batch: str) -> list[str]:
        """The segments that were measured on a batch, sorted."""
        found = {k.segment for k, v in self._values.items() if k.segment and batch in v}
        return sorted(s for s in found if s is not None)

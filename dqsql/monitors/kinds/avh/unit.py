"""A column that `@avh` watches: its metrics, and what they say of a batch."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.avh_series import ENDS
from dqsql.model.batches import wall_time_of
from dqsql.model.metric_traits import COUNTED_SHARES, NUMERIC_DISTANCES
from dqsql.model.plan import Monitor
from dqsql.model.results import MetricProfile, MetricValue
from dqsql.monitors.context import derived_value
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.injection import Variant
from dqsql.monitors.kinds.avh.evidence import TEXT_DISTANCES, ColumnDistribution, IssueEvidence
from dqsql.monitors.kinds.avh.settings import AvhSettings
from dqsql.monitors.recompute import shown_key

DISTANCES = frozenset({*NUMERIC_DISTANCES, *TEXT_DISTANCES})
# What is less probable is no chance.
_BY_CHANCE = 0.001
# Days from a batch to the next, of which the nearest counts: a day that is missing, or one more,
# does not lead from one to another.
_APART = (1.0, 7 / 3, 3.5, 7.0, 14.0, 30.4, 91.3, 365.2)
# So many batches before one tell it.
_GAPS = 28


@dataclass
class Unit:
    """One monitor: its column, its metrics, and what was learned."""

    monitor: Monitor
    settings: AvhSettings
    numeric: bool
    keys: Mapping[str, MetricKey]
    names: tuple[str, ...]
    evidence: IssueEvidence | None = None

    @property
    def column(self) -> str:
        """Its column."""
        return self.monitor.column or ""

    @cached_property
    def singles(self) -> list[MetricKey]:
        """Its metrics of one batch: no distances to the batch before, which dates have none of."""
        return [self.keys[n] for n in self.names if n not in DISTANCES]

    def also_read(self) -> dict[str, Any]:
        """The metrics that verdicts on others rest on, as details of dq_results."""

        def shown(name: str) -> Any:
            return shown_key(self.keys[name]) if name in self.keys else None

        return {
            "ranges": shown("range"),
            "days": [shown(n) for n in ENDS] if self.keys.keys() >= set(ENDS) else None,
            "rows": shown("row_count"),
            "means": shown("mean"),
        }

    def distribution(
        self, history: History, batch: str, variant: Variant | None = None
    ) -> ColumnDistribution:
        """Its distribution in a batch, or in a variant of one."""

        def value(name: str) -> float:
            if variant is not None:
                return variant.values.get(name, math.nan)
            return history.value(self.keys[name], batch)

        def profile(name: str) -> MetricProfile | None:
            if variant is not None:
                return variant.profiles.get(name)
            key = self.keys.get(name)
            return None if key is None else history.profile(key, batch)

        return ColumnDistribution(self.numeric, value, profile)

    def metric_values(
        self, batch: str, by_name: Mapping[str, float], rows: int | None
    ) -> list[MetricValue]:
        """Values of a batch of so many rows by metric, as they are stored."""
        return [
            derived_value(
                self.monitor, batch, name, self.keys[name].parameters, number, rows, self.column
            )
            for name, number in by_name.items()
        ]

    def usual(self, history: History, accepted: Sequence[str]) -> list[str]:
        """Those of some batches that it may learn from; see `History.usual`."""
        window, least = self.settings.window, self.settings.config.min_history
        return history.usual(self.monitor.id, accepted, window, self.singles, least)

    def of_period(self, history: History, accepted: Sequence[str], batch: str) -> str | None:
        """The batch whose evidence serves all of a period: the newest usual one before its start.

        `accepted` are the batches before, oldest first. If too few of them are before the start,
        one of the first serves until the next period. None if several batches come a day, or have
        no times, or are too few.
        """
        need = max(1, self.settings.config.min_history)
        if history.time_of(batch) is not None or len(accepted) < need:
            return None
        start = period_start((*accepted[-_GAPS:], batch), self.settings.refit_every)
        if start is None:
            return None
        end = bisect_left(accepted, start, key=lambda b: wall_time_of(b) or start)
        earlier = self.usual(history, accepted[:end]) if end >= need else ()
        return self.newest_whole(history, earlier or accepted[: max(end, need)])

    def stored(self, history: History, batch: str) -> frozenset[str]:
        """The metrics of a batch that have a value in the tables: no extreme of private columns."""
        names = (n for n in self.names if math.isfinite(history.value(self.keys[n], batch)))
        return frozenset(names)

    def newest_whole(self, history: History, batches: Sequence[str]) -> str:
        """The newest batch with a value of every metric; the newest at all where there is none.

        Nothing can be injected into values that are missing.
        """

        def whole(batch: str) -> bool:
            return all(math.isfinite(history.value(key, batch)) for key in self.singles)

        return next(filter(whole, reversed(batches)), batches[-1])


@lru_cache(maxsize=256)
def period_start(batches: tuple[str, ...], every: int) -> dt.datetime | None:
    """When the period of the last of some batches began; None for batches without times, or hours.

    Periods are as long as `every` batches take by their usual distance, and the same for whoever
    looks: what was checked before, and when, does not matter.
    """
    times = [wall_time_of(b) for b in batches]
    known = [time.toordinal() for time in times if time is not None]
    if len(known) < max(len(times), 2):
        return None
    gap = float(np.median(np.diff(known)))
    if gap < _APART[0]:
        return None
    length = round(every * min(_APART, key=lambda days: abs(math.log(gap / days))))
    return dt.datetime.fromordinal(max(1, known[-1] - known[-1] % length))


def without_still_by_chance(
    names: Sequence[str], values: FloatArray, others: FloatArray
) -> FloatArray:
    """Return metrics with NaN for those that are the same at one time of day by chance.

    Of 24 times of day some are such, where a rare value comes now and then; one more distinct value
    is no finding there. What is the same more often than other batches have that value is no
    chance: nights are complete, and days are not.

    Args:
        names: of the M metrics.
        values: of batches of one time of day, P x M.
        others: of the newest batches of all times, any number x M.
    """
    least, most = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    alike = (others == least).sum(axis=0) / np.maximum(np.isfinite(others).sum(axis=0), 1)
    often = np.isfinite(values).sum(axis=0)
    by_chance = (least == most) & (alike < 1) & (alike**often >= _BY_CHANCE)
    metrics = np.array(names)
    by_chance &= ~np.isin(metrics, [*COUNTED_SHARES])
    if by_chance[metrics == "max"].any():
        by_chance |= metrics == "unique_ratio"
    return np.where(by_chance, np.nan, values)

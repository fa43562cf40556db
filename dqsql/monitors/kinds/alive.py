"""`@alive`: a column still says something: it varies, has its usual values, and numbers in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dqsql.compiler.privacy import hides_values
from dqsql.decisions.silence import (
    became_constant,
    largest_share,
    listed,
    lost_values,
    taken_over,
)
from dqsql.dialect import quoted
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import MetricProfile, Result, Status
from dqsql.model.settings import as_rate, at_least
from dqsql.monitors.context import MonitorByMonitor, failed_status, learning, result_of
from dqsql.monitors.history import key_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import read_settings

_NAME = "alive"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "window": at_least(2)}
_WINDOW = 30
# What so few rows have says nothing of how a column varies.
_ENOUGH = 10


class AliveDetector(MonitorByMonitor):
    """Decides on all `@alive` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        given = read_settings(monitor, _SETTINGS, self.context.defaults(_NAME))
        error = self.context.first_error(monitor)
        if error is not None:
            return result_of(monitor, batch, Status.ERROR, self.context.unmeasured(monitor))
        need = given.get("min_history", 7)
        history, window = self.context.history, given.get("window", _WINDOW)
        accepted = self.context.usual(monitor, batch, window)
        count = self.context.metric(monitor, "count")
        measured = [b for b in accepted if count and history.measured(key_of(count), b)]
        if len(measured) < need:
            unmeasured = len(accepted) - len(measured)
            return learning(monitor, batch, len(measured), need, unmeasured)
        fpr = given.get("fpr") or self.context.fpr(monitor)
        found = [
            told
            for told in (
                self._constant(monitor, batch, measured, fpr, need),
                self._not_numbers(monitor, batch, measured, need),
                self._lost(monitor, batch, measured, fpr, need),
            )
            if told is not None
        ]
        status = failed_status(monitor.severity) if found else Status.PASS
        result = result_of(monitor, batch, status, "; ".join(found))
        extent = [measured[0], measured[-1], len(measured)]
        return replace(result, details={**result.details, "history": extent})

    def _value(self, monitor: Monitor, name: str, batch: str) -> float:
        metric = self.context.metric(monitor, name)
        history = self.context.history
        return float("nan") if metric is None else history.value(key_of(metric), batch)

    def _profile(self, monitor: Monitor, batch: str) -> MetricProfile | None:
        metric = self.context.metric(monitor, "value_profile")
        return None if metric is None else self.context.history.profile(key_of(metric), batch)

    def _most(self, monitor: Monitor, batch: str) -> float:
        """Share of the most frequent value among those of a batch; NaN for too few of them."""
        rows = self._value(monitor, "count", batch)
        if not rows >= _ENOUGH:
            return math.nan
        profile = self._profile(monitor, batch)
        if profile is not None:
            return max(_shares(profile).values(), default=math.nan)
        low, high = (self._value(monitor, name, batch) for name in ("min", "max"))
        spread, distinct = (
            self._value(monitor, name, batch) for name in ("stddev", "approx_count_distinct")
        )
        # Infinities may be equal, and have no distance.
        return largest_share(rows, spread, 0.0 if low == high else high - low, distinct)

    def _constant(
        self, monitor: Monitor, batch: str, past: Sequence[str], fpr: float, need: int
    ) -> str | None:
        rows = self._value(monitor, "count", batch)
        before = [self._most(monitor, b) for b in past]
        constant = self._most(monitor, batch) == 1
        if not constant or not became_constant(before, rows, fpr, need):
            return None
        return (
            f"{monitor.column} has become constant: {rows:,.0f} rows have one value, and it"
            f" varied in all of {len(past):,} batches before"
        )

    def _not_numbers(
        self, monitor: Monitor, batch: str, past: Sequence[str], need: int
    ) -> str | None:
        found = []
        for name, words in (("nan_ratio", "NaN"), ("null_ratio", "null")):
            before = [self._value(monitor, name, b) for b in past]
            now = self._value(monitor, name, batch)
            if taken_over(before, now, need):
                found.append(f"{now:.0%} of the rows are {words}, at most {max(before):.1%} before")
        return f"{monitor.column}: {'; '.join(found)}" if found else None

    def _lost(
        self, monitor: Monitor, batch: str, past: Sequence[str], fpr: float, need: int
    ) -> str | None:
        now = self._profile(monitor, batch)
        if now is None or now.other:
            # What is not among the frequent values may be there all the same.
            return None
        before = [_shares(p) for b in past if (p := self._profile(monitor, b)) is not None]
        rows = sum(now.counts) + now.other
        found = lost_values(before, _shares(now), rows, fpr, need)
        return f"{monitor.column}: no longer occurs: {listed(found)}" if found else None


def _shares(profile: MetricProfile) -> dict[str, float]:
    total = sum(profile.counts) + profile.other
    if not total:
        return {}
    return {n: c / total for n, c in zip(profile.labels, profile.counts, strict=True) if c}


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    name = quoted(column or "")
    hidden = "true" if hides_values(use.model, column, use.annotation.settings) else "false"
    by_family = {
        Family.ANY: {"count": f"count({name})", "null_ratio": f"1 - completeness({name})"},
        Family.NUMERIC: {
            "min": f"min({name})",
            "max": f"max({name})",
            "stddev": f"stddev({name})",
            "approx_count_distinct": f"approx_count_distinct({name})",
        },
        Family.FLOATING: {"nan_ratio": f"nan_ratio({name})"},
        Family.TEXT: {"value_profile": f"value_profile({name}, {hidden})"},
    }
    return [
        WatchedMetric(family, word, expression, column)
        for family, metrics in by_family.items()
        for word, expression in metrics.items()
    ]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    return Reach(read_settings(monitor, _SETTINGS, defaults).get("window", _WINDOW))


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        about_column=True,
        symptom="nulls",
    ),
    detector=AliveDetector,
    order=90,
    reach=_reach,
)

"""`@stays_unique`: a column that had no value twice in any batch before has none twice now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dqsql.dialect import quoted
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.settings import at_least
from dqsql.model.wording import plural
from dqsql.monitors import recompute
from dqsql.monitors.context import (
    MonitorByMonitor,
    failed_status,
    learning,
    result_of,
    with_details,
)
from dqsql.monitors.history import History, MetricKey, key_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import read_settings

_NAME = "stays_unique"
_SETTINGS = {"min_history": at_least(2), "window": at_least(2)}
_WINDOW = 30


class UniqueDetector(MonitorByMonitor):
    """Decides on all `@stays_unique` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        given = read_settings(monitor, _SETTINGS, self.context.defaults(_NAME))
        metric, history = self.context.metric(monitor, "duplicates"), self.context.history
        if metric is None:
            return result_of(monitor, batch, Status.ERROR, self.context.unmeasured(monitor))
        window = given.get("window", _WINDOW)
        accepted = self.context.usual(monitor, batch, window)
        known = [b for b in accepted if history.value(key_of(metric), b) >= 0]
        need = given.get("min_history", min(7, window))
        if len(known) < need:
            return learning(monitor, batch, len(known), need, len(accepted) - len(known))
        now, was_key = _seen(history, key_of(metric), batch, known)
        if not was_key:
            # What has recurred is the new normal until it is over.
            recent = _unique_of_late(history, key_of(metric), history.before(batch, window))
            if len(recent) >= need:
                was_key, known = True, recent
        broken = was_key and now > 0
        rows = plural(int(now), "row repeats", "rows repeat") if broken else ""
        message = (
            f"{rows} a value of {monitor.column}, which was unique in all of"
            f" {len(known):,} batches before"
        )
        status = failed_status(monitor.severity) if broken else Status.PASS
        found = result_of(monitor, batch, status, message if broken else "")
        found = with_details(
            found, **recompute.rests_on(history, known), series=recompute.shown_key(key_of(metric))
        )
        return replace(found, observed=_known(now), upper=0.0 if was_key else None)


def _unique_of_late(history: History, key: MetricKey, past: Sequence[str]) -> list[str]:
    """The newest batches without a repeated value; none where as many came between repeats before.

    A column that has repeats now and then is no key after a few batches without.
    """
    known = [b for b in past if history.value(key, b) >= 0]
    odd = np.flatnonzero(history.series(key, known) != 0)
    between = np.diff(odd).max(initial=0)
    newest = known[int(odd[-1]) + 1 :] if odd.size else known
    return newest if len(newest) > 2 * between else []


def _seen(history: History, key: MetricKey, batch: str, past: Sequence[str]) -> tuple[float, bool]:
    """How many rows repeat a value (NaN: not known), and whether none did in any batch before."""
    return history.value(key, batch), bool((history.series(key, past) == 0).all())


def _known(number: float) -> float | None:
    return number if number >= 0 else None


def _recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the stored numbers of repeated values."""
    if not stored.past:
        return recompute.NOT_DECIDED
    key, row = recompute.stored_key(stored.details["series"]), stored.row
    now, was_key = _seen(stored.history, key, stored.batch, stored.past)
    return recompute.Recomputed(
        (
            recompute.status_again(stored, broken=was_key and now > 0),
            recompute.Compared("observed", row["observed"], _known(now)),
            recompute.Compared("largest that passes", row["upper_bound"], 0.0 if was_key else None),
        ),
        series=key,
    )


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    name = quoted(use.annotation.column or "")
    column = use.annotation.column
    return [WatchedMetric(Family.ANY, "duplicates", f"duplicate_count({name})", column)]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    return Reach(read_settings(monitor, _SETTINGS, defaults).get("window", _WINDOW))


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME, settings=_SETTINGS, watches=_watches, about_column=True, symptom="values"
    ),
    detector=UniqueDetector,
    order=95,
    reach=_reach,
    recompute=_recomputed,
)

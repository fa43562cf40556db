"""`@stays_unique`: a column that had no value twice in any batch before has none twice now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dqsql.decisions.arrays import FloatArray
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
    finite,
    learning,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import read_settings

_NAME = "stays_unique"
_SETTINGS = {"min_history": at_least(2), "window": at_least(2)}
# So many repeats would have been in batches that had none, if they still came: none then has 0.25%.
_EXPECTED = 6.0
# By so much more pairs of rows a batch is of the size of those before.
_LARGER = 1.5
_WINDOW, _MIN_HISTORY, _ROWS = 30, 7, "row_count"


class UniqueDetector(MonitorByMonitor):
    """Decides on all `@stays_unique` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        given = read_settings(monitor, _SETTINGS, self.context.defaults(_NAME))
        keys, history = self.context.keys(monitor), self.context.history
        key, rows_key = keys.get("duplicates"), keys.get(_ROWS)
        if key is None:
            return result_of(monitor, batch, Status.ERROR, self.context.unmeasured(monitor))
        window = given.get("window", _WINDOW * history.a_day(batch))
        before = history.before(batch, window)
        accepted = history.usual(monitor.id, before, window)
        known = [b for b in accepted if history.value(key, b) >= 0]
        need = given.get("min_history", min(_MIN_HISTORY, window))
        if len(known) < need:
            return learning(monitor, batch, len(known), need, len(accepted) - len(known))
        now, was_key = _seen(history, key, batch, known)
        # With those that it warned of.
        every = len(known) + len(before) - len(accepted)
        all_of = "all" if every == len(known) else f"{len(known):,}"
        which = f"{all_of} of {every:,} batches before"
        if not was_key:
            # What has recurred is the new normal until it is over.
            recent = _unique_of_late(history, key, rows_key, before)
            if len(recent) >= need:
                was_key, known = True, recent
                which = f"the {len(known):,} batches before"
        most = _by_chance(history, rows_key, batch, known, need)
        broken = was_key and now > most
        rows = plural(int(now), "row repeats", "rows repeat") if broken else ""
        message = f"{rows} a value of {monitor.column}, which was unique in {which}"
        status = failed_status(monitor.severity) if broken else Status.PASS
        result = result_of(monitor, batch, status, message if broken else "")
        result = with_details(
            result,
            **recompute.rests_on(history, known),
            series=recompute.shown_key(key),
            rows=None if rows_key is None else recompute.shown_key(rows_key),
            min_history=need,
        )
        return with_numbers(result, _known(now), upper=most if was_key else None)


def _by_chance(
    history: History, rows: MetricKey | None, batch: str, past: Sequence[str], need: int
) -> float:
    """How many rows of a batch may repeat a value by chance, if the column is no key.

    Of n values drawn at random, n (n - 1) / 2 pairs may be equal. If k pairs are, all of them in
    this batch and none in those before, the probability of that is the share of the pairs that this
    batch has, to the power of k. It is held to be chance if it is more than 1 / `need`: one repeat
    after `need` batches of about equal size is not.
    """
    pairs = _pairs(history, rows, [*past, batch])
    share = pairs[-1] / pairs.sum()
    # Where there are not many more batches than are needed, one of a few more rows is no larger.
    rare = max(1 / need, _LARGER / (len(past) + 1))
    if not 0 < share < 1:
        return math.inf if share == 1 else 0.0
    return math.ceil(math.log(rare) / math.log(share)) - 1.0


def _pairs(history: History, rows: MetricKey | None, batches: Sequence[str]) -> FloatArray:
    """How many pairs of rows each batch has; 1 where rows were not counted: all are alike then."""
    counts = np.full(len(batches), 2.0) if rows is None else history.series(rows, batches)
    pairs = counts * (counts - 1) / 2
    return pairs if np.isfinite(pairs).all() and pairs.any() else np.ones(len(batches))


def _unique_of_late(
    history: History, key: MetricKey, rows: MetricKey | None, past: Sequence[str]
) -> list[str]:
    """The newest batches without a repeated value; none where as many came between repeats before.

    A column that has repeats now and then is no key after a few batches without, or a few rows.
    """
    known = [b for b in past if history.value(key, b) >= 0]
    repeats = history.series(key, known)
    positions = np.flatnonzero(repeats != 0)
    if not positions.size:
        return known
    since = int(positions[-1]) + 1
    pairs = _pairs(history, rows, known)
    expected = repeats[:since].sum() / pairs[:since].sum() * pairs[since:].sum()
    far = len(known) - since > 2 * np.diff(positions).max(initial=0)
    return known[since:] if far and expected >= _EXPECTED else []


def _seen(history: History, key: MetricKey, batch: str, past: Sequence[str]) -> tuple[float, bool]:
    """How many rows repeat a value (NaN: not known), and whether none did in any batch before."""
    return history.value(key, batch), bool((history.series(key, past) == 0).all())


def _known(number: float) -> float | None:
    return number if number >= 0 else None


def _recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the stored numbers of repeated values."""
    if not stored.past:
        return recompute.NOT_DECIDED
    details, row = stored.details, stored.row
    key = recompute.stored_key(details["series"])
    rows = details.get("rows") and recompute.stored_key(details["rows"])
    now, was_key = _seen(stored.history, key, stored.batch, stored.past)
    need = details.get("min_history", 2)
    most = _by_chance(stored.history, rows, stored.batch, stored.past, need)
    limit = finite(most) if was_key else None
    return recompute.Recomputed(
        (
            recompute.status_again(stored, broken=was_key and now > most),
            recompute.Compared("observed", row["observed"], _known(now)),
            recompute.Compared("largest that passes", row["upper_bound"], limit),
        ),
        series=key,
    )


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    name = quoted(use.annotation.column or "")
    column = use.annotation.column
    return [
        WatchedMetric(Family.ANY, "duplicates", f"duplicate_count({name})", column),
        WatchedMetric(Family.ANY, _ROWS, "row_count()"),
    ]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    # How many batches come in 30 days their names say.
    return Reach(read_settings(monitor, _SETTINGS, defaults).get("window"))


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME, settings=_SETTINGS, watches=_watches, about_column=True, symptom="keys"
    ),
    detector=UniqueDetector,
    order=95,
    reach=_reach,
    recompute=_recomputed,
)

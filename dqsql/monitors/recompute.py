"""A stored verdict of a monitor, decided again from stored metrics by the stored settings.

Everything but the metrics comes from the verdict's `details` in dq_results: strategy, settings,
bounds as learned, the metrics' keys, and which batches the verdict rests on. Reads nothing else.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dqsql.decisions.magnitudes import finite
from dqsql.model.batches import batch_order
from dqsql.model.plan import Monitor, Plan
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.times_of_day import at_times

# Stored numbers are read back as they were; what is fitted may differ in the last digits.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Compared:
    """One number or word of a verdict: as stored, and computed again."""

    name: str
    stored: Any
    again: Any

    @property
    def same(self) -> bool:
        """Whether both are equal, numbers up to rounding."""
        return _equal(self.stored, self.again)


@dataclass(frozen=True)
class Recomputed:
    """A verdict computed again.

    Attributes:
        compared: what was compared; empty where nothing could be computed.
        note: why not, or what to know of it.
        series: the series of stored values that the verdict is about, None without a single one.
    """

    compared: tuple[Compared, ...] = ()
    note: str | None = None
    series: MetricKey | None = None

    @property
    def same(self) -> bool | None:
        """Whether all is as stored; None where nothing was computed."""
        return all(c.same for c in self.compared) if self.compared else None


NOT_DECIDED = Recomputed(note="it was not decided")


@dataclass(frozen=True)
class StoredVerdict:
    """A verdict as stored, and the metrics that are stored of its batch and those before.

    Attributes:
        row: its row of dq_results.
        details: its details.
        history: the metrics.
        past: the batches that it rests on, oldest first.
        plan: that of its model, where the check is still in the project.
        beside: batches of other times of day that it rests on, too, oldest first.
    """

    row: Mapping[str, Any]
    details: Mapping[str, Any]
    history: History
    past: Sequence[str]
    plan: Plan | None = None
    beside: Sequence[str] = ()

    @property
    def monitor(self) -> Monitor | None:
        """The monitor, where it is still in the project."""
        monitors = () if self.plan is None else self.plan.monitors
        return next((m for m in monitors if m.id == self.row["check_id"]), None)

    @property
    def steps(self) -> list[str]:
        """The batches that were checked from the first that it rests on up to its own."""
        more = (self.details.get(name) or () for name in ("left_out", "since"))
        return sorted({*self.past, *itertools.chain(*more)}, key=batch_order)

    @property
    def batch(self) -> str:
        """The batch that was decided on."""
        return str(self.row["batch"])


def batches_of(details: Mapping[str, Any], checked: Sequence[str]) -> list[str]:
    """The batches that a verdict rests on, oldest first, of all that were checked."""
    extent = details.get("history")
    if not extent:
        return []
    first, last, _ = extent
    out = set(details.get("left_out") or ())
    low, high = batch_order(first), batch_order(last)
    batches = [b for b in checked if low <= batch_order(b) <= high and b not in out]
    if details.get("times"):
        batches = at_times([dt.time.fromisoformat(time) for time in details["times"]], batches)
    return sorted(batches, key=batch_order)


def rests_on(history: History, past: Sequence[str], batch: str | None = None) -> dict[str, Any]:
    """What details say of the batches that a verdict rests on, oldest first; see `batches_of`.

    With the `batch` of a verdict that counts steps, also of those since the last of them.
    """
    if not past:
        return {}
    details = {"history": [past[0], past[-1], len(past)], "left_out": history.left_out(past)}
    if history.times:
        details["times"] = [time.isoformat() for time in history.times]
    if batch is not None:
        last = batch_order(past[-1])
        details["since"] = [b for b in history.steps(past, batch) if batch_order(b) > last]
    return details


def status_again(stored: StoredVerdict, *, broken: bool) -> Compared:
    """The status, computed again: a broken bound fails or warns, by the check's settings."""
    status, wanted = stored.row["status"], ("fail", "warn") if broken else ("pass",)
    return Compared("status", status, status if status in wanted else wanted[0])


# --- numbers -----------------------------------------------------------------------------------


def stored_key(series: Sequence[str]) -> MetricKey:
    """The series that details name."""
    column, metric, parameters, scope = series
    return MetricKey(column, metric, parameters, scope)


def shown_key(key: MetricKey) -> list[str]:
    """A series as details name it; that of a segment as that of the whole batch."""
    return [*key[:4]]


def compared_by(
    names: Sequence[str], then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[Compared, ...]:
    """The values of some names, then and now; without those that neither has."""
    comparisons = (Compared(name, then.get(name), now.get(name)) for name in names)
    return tuple(c for c in comparisons if c.stored is not None or c.again is not None)


def _equal(one: Any, other: Any) -> bool:
    first, second = (stored_number(v) for v in (one, other))
    if isinstance(first, float | int) and isinstance(second, float | int):
        return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-12)
    # What is not finite is stored as null.
    return bool(finite(first) == finite(second))


def stored_number(value: Any) -> Any:
    """JSON's stand-ins for what it has no numbers for, as numbers."""
    return float(value) if value in ("inf", "-inf", "nan") else value

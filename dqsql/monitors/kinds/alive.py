"""`@alive`: a column still says something: it varies, has its usual values, and numbers in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dqsql.compiler.privacy import hides_values
from dqsql.decisions import silence
from dqsql.decisions.date_labels import are_dates, has_passed, is_newest_period
from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.drift import new_categories, pooled_categories
from dqsql.dialect import quoted
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.project import Severity
from dqsql.model.results import MetricProfile, Result, Status
from dqsql.model.settings import as_rate, at_least
from dqsql.monitors import recompute
from dqsql.monitors.context import (
    MonitorByMonitor,
    failed_status,
    learning,
    result_of,
    with_details,
)
from dqsql.monitors.date_labels import says_the_date
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import read_settings

_NAME = "alive"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "window": at_least(2)}
_WINDOW = 30
# After so many batches it tells that a column was lost; all else takes a history.
_EARLY = 3
# What so few rows have says nothing of how a column varies.
_ENOUGH = 10

_Values = tuple[list[CategoricalState], CategoricalState | None]


class AliveDetector(MonitorByMonitor):
    """Decides on all `@alive` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        given = read_settings(monitor, _SETTINGS, self.context.defaults(_NAME))
        error = self.context.first_error(monitor)
        if error is not None:
            return result_of(monitor, batch, Status.ERROR, self.context.unmeasured(monitor))
        history, window = self.context.history.alike(batch), given.get("window", _WINDOW)
        need = given.get("min_history", min(7, window))
        accepted = history.usual(monitor.id, history.before(batch, window), window)
        series = self.context.keys(monitor)
        measured = history.measured_of(series["count"], accepted) if "count" in series else []
        fpr = given.get("fpr") or self.context.fpr(monitor)
        seen = _AliveColumn(monitor.column or "", history, series)
        early = "min_history" not in given and self.context.rows.get(batch, 0) >= _ENOUGH
        judged = early or len(measured) >= need
        findings, warns = seen.found(batch, measured, fpr, need) if judged else ([], False)
        if not findings and len(measured) < need:
            unmeasured = len(accepted) - len(measured)
            time = self.context.history.time_of(batch)
            return learning(monitor, batch, len(measured), need, unmeasured, time)
        status = failed_status(monitor.severity) if findings else Status.PASS
        text = "; ".join(findings) + _of_times(history, findings)
        result = result_of(monitor, batch, status, text)
        if warns:
            # The batch is learned from, and is not flagged.
            result = replace(result, status=Status.WARN, severity=Severity.WARN, score=1.0)
        return with_details(
            result,
            found=findings,
            seen=seen.seen(batch, measured),
            series={name: recompute.shown_key(key) for name, key in series.items()},
            fpr=fpr,
            min_history=need,
            **recompute.rests_on(history, measured),
        )


def _of_times(history: History, findings: Sequence[str]) -> str:
    """Which batches were compared, where there are such of other times of day."""
    times = " and ".join(f"{time:%H:%M}" for time in history.times)
    return f" (compared with batches of {times})" if findings and times else ""


@dataclass(frozen=True)
class _AliveColumn:
    """A column as its batches were measured; `series` are the metrics by what they are called."""

    name: str
    history: History
    series: Mapping[str, MetricKey]

    def found(
        self, batch: str, past: Sequence[str], fpr: float, need: int
    ) -> tuple[list[str], bool]:
        """What a batch lacks that those before had, or else has, in words; whether it only warns.

        After the first few batches it is only that most rows became null, or NaN.
        """
        if len(past) < need:
            # It may be so on each weekend.
            text = self._not_numbers(batch, past, _EARLY, but=0)
            return ([], False) if text is None else ([text], True)
        values = self._values(batch, past)
        texts = (
            self._constant(batch, past, fpr, need),
            self._not_numbers(batch, past, need),
            self._lost(batch, past, values, fpr, need),
        )
        found = [text for text in texts if text is not None]
        if not found and (new := self._added(batch, past, values, fpr)) is not None:
            # A new value may be right.
            return [new], True
        return found, False

    def _added(self, batch: str, past: Sequence[str], values: _Values, fpr: float) -> str | None:
        before, now = values
        if now is None or any(state.other for state in before):
            # What is new among the frequent values may have been a rare one.
            return None
        shares, sizes = [state.shares for state in before], [state.size for state in before]
        new = silence.new_values(shares, sizes, now.shares, now.size, fpr)
        # Dates move on.
        if not new or are_dates({*new, *shares[-1]}) or self._says_the_date(batch, past):
            return None
        share, listed = sum(new.values()), silence.listed_shares(new)
        return f"{self.name}: {share:.1%} of the values are in no batch before: {listed}"

    def seen(self, batch: str, past: Sequence[str]) -> dict[str, list[float]]:
        """The shares of a batch and the largest before, by what they are of, where both are known.

        All are in [0, 1].
        """
        shares = {
            "most frequent": (self._most(batch), [self._most(b) for b in past]),
            "null": self._share("null_ratio", batch, past),
            "NaN": self._share("nan_ratio", batch, past),
        }
        return {
            name: [now, max(known)]
            for name, (now, before) in shares.items()
            if now >= 0 and (known := [b for b in before if b >= 0])
        }

    def _share(self, name: str, batch: str, past: Sequence[str]) -> tuple[float, list[float]]:
        return self._value(name, batch), [self._value(name, b) for b in past]

    def _value(self, name: str, batch: str) -> float:
        key = self.series.get(name)
        return math.nan if key is None else self.history.value(key, batch)

    def _profile(self, batch: str) -> MetricProfile | None:
        key = self.series.get("value_profile", self.series.get("dates"))
        return None if key is None else self.history.profile(key, batch)

    def _most(self, batch: str) -> float:
        """Share of the most frequent value among those of a batch; NaN for too few of them."""
        rows = self._value("count", batch)
        if not rows >= _ENOUGH:
            return math.nan
        profile = self._profile(batch)
        if profile is not None:
            return max(CategoricalState.of(profile).shares.values(), default=math.nan)
        low, high = (self._value(name, batch) for name in ("min", "max"))
        spread, distinct = (self._value(n, batch) for n in ("stddev", "approx_count_distinct"))
        # Infinities may be equal, and have no distance.
        return silence.largest_share(rows, spread, 0.0 if low == high else high - low, distinct)

    def _constant(self, batch: str, past: Sequence[str], fpr: float, need: int) -> str | None:
        rows = self._value("count", batch)
        sizes = [self._value("count", b) for b in past]
        before = [self._most(past[i]) for i in silence.comparable(sizes, rows, need)]
        constant = self._most(batch) == 1
        if not constant or not silence.became_constant(before, rows, fpr, need):
            return None
        if is_newest_period(
            *(CategoricalState.of(self._profile(b)).shares for b in (batch, past[-1]))
        ):
            return None
        return (
            f"{self.name} has become constant: {rows:,.0f} rows have one value, and it"
            f" varied in all of {sum(not math.isnan(b) for b in before):,} batches before"
        )

    def _not_numbers(self, batch: str, past: Sequence[str], need: int, but: int = 1) -> str | None:
        messages = []
        for name, words in (("nan_ratio", "NaN"), ("null_ratio", "null")):
            now, before = self._share(name, batch, past)
            if silence.taken_over(before, now, need, but):
                *_, most, largest = sorted(b for b in before if not math.isnan(b))
                once = f", {largest:.0%} in one batch" if largest > silence.FEW else ""
                usual = most if once else largest
                messages.append(
                    f"{now:.0%} of the rows are {words}, at most {usual:.1%} before{once}"
                )
        return f"{self.name}: {'; '.join(messages)}" if messages else None

    def _lost(
        self, batch: str, past: Sequence[str], values: _Values, fpr: float, need: int
    ) -> str | None:
        before, now = values
        if now is None:
            return None
        shares, sizes = [state.shares for state in before], [state.size for state in before]
        lost_values = silence.lost_values(shares, sizes, now.shares, now.size, fpr, need)
        lost_values = [v for v in lost_values if not has_passed(v.name, now.shares, shares)]
        if not lost_values or self._says_the_date(batch, past):
            return None
        new = new_categories(pooled_categories(before), now)
        came = f"; new: {', '.join(new)}" if new else ""
        return f"{self.name}: no longer occurs: {silence.listed(lost_values)}{came}"

    def _values(self, batch: str, past: Sequence[str]) -> _Values:
        """The values of the batches before that have some, and of this one where all are known."""
        # Whether a date has passed, its hash does not tell.
        now = None if "dates" in self.series else self._profile(batch)
        if now is None or now.other:
            # What is not among the frequent values may be there all the same.
            return [], None
        # No batch without values says that one of them was not there.
        states = [CategoricalState.of(self._profile(b)) for b in past]
        return [state for state in states if state.size], CategoricalState.of(now)

    def _says_the_date(self, batch: str, past: Sequence[str]) -> bool:
        return says_the_date(self.history, self.series, batch, past)


def _recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the stored metrics and values of the column."""
    details, past = stored.details, stored.past
    if not past:
        return recompute.NOT_DECIDED
    series = {name: recompute.stored_key(key) for name, key in details["series"].items()}
    column = _AliveColumn(stored.row["column_name"] or "", stored.history, series)
    findings, _ = column.found(stored.batch, past, details["fpr"], details["min_history"])
    compared = [
        recompute.status_again(stored, broken=bool(findings)),
        recompute.Compared("found", details["found"], findings),
    ]
    now = column.seen(stored.batch, past)
    for name, numbers in details["seen"].items():
        again = now.get(name, [None, None])
        compared.append(recompute.Compared(f"share of {name}", numbers[0], again[0]))
        compared.append(recompute.Compared(f"largest share of {name} before", numbers[1], again[1]))
    return recompute.Recomputed(tuple(compared))


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    name = quoted(column or "")
    hidden = "true" if hides_values(use.model, column, use.annotation.settings) else "false"
    times = "dates" if hidden == "true" else "value_profile"
    by_family = {
        Family.ANY: {"count": f"count({name})", "null_ratio": f"1 - completeness({name})"},
        Family.NUMERIC: {
            "min": f"min({name})",
            "max": f"max({name})",
            "stddev": f"stddev({name})",
            "approx_count_distinct": f"approx_count_distinct({name})",
        },
        Family.FLOATING: {"nan_ratio": f"nan_ratio({name})"},
        Family.TIME: {times: f"value_profile({name}, {hidden})"},
        Family.TEXT: {"value_profile": f"value_profile({name}, {hidden})"},
    }
    return [
        WatchedMetric(family, word, expression, column)
        for family, metrics in by_family.items()
        for word, expression in metrics.items()
    ]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    window = read_settings(monitor, _SETTINGS, defaults).get("window", _WINDOW)
    return Reach(window, alike=window)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME, settings=_SETTINGS, watches=_watches, about_column=True, symptom="nulls"
    ),
    detector=AliveDetector,
    order=90,
    reach=_reach,
    recompute=_recomputed,
)

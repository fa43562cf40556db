"""`@expected_segments`: segments without rows, listed ones or those that were always there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sqlglot import exp

from dqsql.compiler.trees import elements
from dqsql.decisions.silence import absences, absent_by_chance, listed
from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import AnnotationError, CompileError
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.settings import as_rate, at_least
from dqsql.model.wording import first_of, plural
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
from dqsql.monitors.settings import literal_value, read_settings

_NAME, _METRIC = "expected_segments", "row_count"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "window": at_least(2)}
_WINDOW = 60
# Segments that are named in words.
_NAMED = 10


class SegmentsDetector(MonitorByMonitor):
    """Decides on all `@expected_segments` of one model."""

    kind: ClassVar[str] = _NAME

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        names, given = segments_named(monitor)
        metric, history = self.context.metric(monitor, _METRIC), self.context.history
        if metric is None:
            return result_of(monitor, batch, Status.ERROR, self.context.unmeasured(monitor))
        series = key_of(metric)
        if names:
            decided = _decided_by_names(names, frozenset(_rows_of_segments(history, series, batch)))
            return _segments_result(
                monitor, batch, decided, series=recompute.shown_key(series), listed=names
            )
        window = given.get("window", _WINDOW)
        usual = self.context.usual(monitor, batch, window)
        need = given.get("min_history", min(7, window))
        if len(usual) < need:
            return learning(monitor, batch, len(usual), need, 0)
        fpr = given.get("fpr") or self.context.fpr(monitor)
        decided = _decided_by_history(history, series, batch, usual, fpr, need)
        if not decided.expected:
            text = f"no segment was there so regularly in {len(usual)} batches that it is expected"
            return result_of(monitor, batch, Status.SKIPPED, text)
        rest = recompute.rests_on(history, usual)
        return _segments_result(
            monitor,
            batch,
            decided,
            series=recompute.shown_key(series),
            fpr=fpr,
            min_history=need,
            **rest,
        )


@dataclass(frozen=True)
class _SegmentsVerdict:
    """The segments that should have rows and those that have none, the latter also in words."""

    expected: Sequence[str]
    missing: Sequence[str]
    words: str
    there: int


def _decided_by_names(names: Sequence[str], now: frozenset[str]) -> _SegmentsVerdict:
    # By its name (`origin=EWR`) or its value alone (`EWR`).
    known = {*now, *(s.partition("=")[2] for s in now)}
    missing = [n for n in names if n not in known]
    return _SegmentsVerdict(names, missing, ", ".join(missing), len(now))


def _decided_by_history(
    history: History, series: MetricKey, batch: str, past: Sequence[str], fpr: float, need: int
) -> _SegmentsVerdict:
    counts = [_rows_of_segments(history, series, b) for b in past]
    before, now = [frozenset(c) for c in counts], _rows_of_segments(history, series, batch)
    rows = sum(now.values())

    def by_chance(name: str) -> bool:
        there = [c.get(name, 0.0) for c in counts]
        others = [sum(c.values()) - n for c, n in zip(counts, there, strict=True)]
        return absent_by_chance(there, others, rows, fpr)

    absent = absences(before, frozenset(now), fpr, need)
    missing = [a for a in absent if not by_chance(a.name)]
    expected = [a.name for a in absences(before, frozenset(), fpr, need)]
    return _SegmentsVerdict(expected, [a.name for a in missing], listed(missing), len(now))


def _segments_result(
    monitor: Monitor, batch: str, decided: _SegmentsVerdict, **details: Any
) -> Result:
    missing = decided.missing
    text = f"{plural(len(missing), 'segment')} without rows: {decided.words}"
    status = failed_status(monitor.severity) if missing else Status.PASS
    result = result_of(monitor, batch, status, text if missing else "")
    result = with_details(
        result, missing=list(missing), compared_with=_compared_with(decided), **details
    )
    return replace(result, observed=float(len(missing)))


def _compared_with(decided: _SegmentsVerdict) -> dict[str, str]:
    names = first_of(decided.expected, _NAMED)
    expected = plural(len(decided.expected), "segment")
    return {
        "expected": f"{expected} with rows: {names}" if names else expected,
        "there": plural(decided.there, "segment"),
    }


def _rows_of_segments(history: History, series: MetricKey, batch: str) -> dict[str, float]:
    """The segments that have rows in a batch, and how many."""
    rows = {s: history.value(series._replace(segment=s), batch) for s in history.segments(batch)}
    return {segment: number for segment, number in rows.items() if number > 0}


def _recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the stored numbers of rows of segments."""
    details, history = stored.details, stored.history
    if "series" not in details:
        return recompute.NOT_DECIDED
    series = recompute.stored_key(details["series"])
    if "listed" in details:
        now = frozenset(_rows_of_segments(history, series, stored.batch))
        decided = _decided_by_names(details["listed"], now)
    else:
        decided = _decided_by_history(
            history, series, stored.batch, stored.past, details["fpr"], details["min_history"]
        )
    shown = _compared_with(decided)
    return recompute.Recomputed(
        (
            recompute.status_again(stored, broken=bool(decided.missing)),
            recompute.Compared("observed", stored.row["observed"], float(len(decided.missing))),
            recompute.Compared("missing", details["missing"], list(decided.missing)),
            *recompute.compared_by(tuple(shown), details["compared_with"], shown),
        )
    )


def segments_named(monitor: Monitor) -> tuple[list[str], dict[str, Any]]:
    """The segments that an annotation lists, and its settings. Raises AnnotationError."""
    given = read_settings(monitor, _SETTINGS, positional=True)
    values = [literal_value(text) for each in monitor.positional for text in _listed(each)]
    if not all(isinstance(v, str | int) for v in values):
        raise AnnotationError(
            "@expected_segments lists values of segment_by",
            span=monitor.span,
            hint="@expected_segments('DE', 'FR'), or without any: those that were always there",
        )
    return [str(v) for v in values], given


def _listed(text: str) -> list[str]:
    """The values of `['DE', 'FR']`, `array('DE', 'FR')` or `('DE', 'FR')`; of others the text."""
    tree = parse_expression(text)
    if (parts := elements(tree)) is not None:
        return list(map(to_sql, parts))
    return [to_sql(tree.unnest())] if isinstance(tree, exp.Paren) else [text]


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    if not use.model.config.segment_by:
        raise CompileError(
            "@expected_segments is about segments, and this model has none",
            span=use.annotation.span,
            hint="config(segment_by = ['country'])",
        )
    return [WatchedMetric(Family.ANY, _METRIC, "row_count()", None)]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    names, given = segments_named(monitor)
    return Reach(0 if names else given.get("window", _WINDOW), segments=True)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        configurable=False,
        several=True,
        symptom="volume",
    ),
    detector=SegmentsDetector,
    order=30,
    reach=_reach,
    awaits_rows=True,
    read=segments_named,
    recompute=_recomputed,
)

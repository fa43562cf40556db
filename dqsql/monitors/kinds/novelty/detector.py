"""Decides by the metrics of all columns together, and by whether a batch was delivered before."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from itertools import compress, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dqsql.compiler.privacy import hides_values
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.drift import new_categories, pooled_categories
from dqsql.decisions.novelty import (
    NoveltyDecision,
    decide_novelty,
    feature_vector,
    named_contributions,
)
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, novelty_config
from dqsql.decisions.program import ROWS, UsualRows
from dqsql.decisions.repeats import Repeat, repeated
from dqsql.decisions.running_on import moved_on
from dqsql.decisions.stationarity import RECURS
from dqsql.errors import AnnotationError, DecisionError
from dqsql.model.batches import wall_time_of
from dqsql.model.by_key import by_key
from dqsql.model.metric_traits import DAY_METRICS
from dqsql.model.plan import Metric, Monitor
from dqsql.model.project import Scope
from dqsql.model.results import Result, Status
from dqsql.model.settings import Reader, as_given, as_rate, as_text, one_of
from dqsql.monitors.context import (
    Detector,
    MonitorContext,
    decided_status,
    failed_status,
    finite,
    learning,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.date_labels import says_the_date
from dqsql.monitors.history import MetricKey, key_of
from dqsql.monitors.recompute import rests_on
from dqsql.monitors.settings import read_settings

NAME = "novelty"
# New values are those that so many batches before did not have.
_RECENT = 7
_SHOWN_CONTRIBUTIONS = 10
# What values that are the same in all rows do not change.
_NOT_OF_VALUES = frozenset(
    {"completeness", "approx_count_distinct", "most_frequent_ratio", "most_frequent_share"}
)
_DISTINCT = "approx_count_distinct"
# What says where the numbers of a column are.
_PLACES = frozenset({"min", "max", "mean", "median"})
# Of the rate, for batches that are delivered again.
_FOR_REPEATS = 0.1
# Settings that are not the detector's: what is measured, and of which batches.
_OWN = ("exclude_where", "peculiarity")
SETTINGS: Mapping[str, Reader] = {
    "fpr": as_rate,
    "exclude_where": as_text,
    "peculiarity": one_of("batch", "text"),
    **{
        name: as_given
        for name in (
            *("mode", "detector", "k", "contamination", "adaptive_contamination"),
            *("distance", "aggregation", "min_history", "window"),
        )
    },
}


def novelty_settings(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, budget: float | None = None
) -> NoveltyConfig:
    """The settings of a monitor.

    `budget` is the false-positive rate that the project's budget leaves it, if there is one; where
    a contamination is given that takes its place.
    Raises AnnotationError.
    """
    given = read_settings(monitor, SETTINGS, defaults)
    own = "contamination" in given or given.get("adaptive_contamination", False)
    if budget is not None and not own:
        given.setdefault("fpr", budget)
    for name in _OWN:
        given.pop(name, None)
    if "fpr" in given and "contamination" in given:
        raise AnnotationError(
            "@novelty: fpr and contamination both set the threshold",
            span=monitor.span,
            hint="give one",
        )
    try:
        return novelty_config(**given)
    except DecisionError as error:
        raise AnnotationError(error.message, span=monitor.span, hint=error.hint) from error


# A year of hourly batches would take ten seconds, and say no more.
_MOST = 2_000
# Where several batches come a day, so many days are learned from at the least.
_WHOLE_DAYS = 2


@dataclass
class VectorUnit:
    """One monitor: its settings, its metrics, and the batches that it leaves out."""

    monitor: Monitor
    config: NoveltyConfig
    keys: dict[Feature, MetricKey]
    exclude_where: str | None = None

    @property
    def reach(self) -> int | None:
        """How many of the newest accepted batches it looks at; None for all."""
        limit = _reach(self.config, self.exclude_where)
        return _MOST if limit is None and self.config.keeps_rate else limit


def novelty_reach(monitor: Monitor, defaults: Mapping[str, Any] | None = None) -> int | None:
    """How many of the newest accepted batches a monitor looks at; None for all.

    Raises AnnotationError.
    """
    where = read_settings(monitor, SETTINGS, defaults).get("exclude_where")
    return _reach(novelty_settings(monitor, defaults), where)


def _reach(config: NoveltyConfig, exclude_where: str | None) -> int | None:
    """A window is filled up with older batches where some are excluded or were warned of."""
    if config.window is None or exclude_where is not None:
        return None
    return config.window + RECURS - 1


@dataclass
class NoveltyDetector(Detector):
    """Decides on all `@novelty` of one model."""

    context: MonitorContext
    units: list[VectorUnit] = field(default_factory=list)

    def __post_init__(self) -> None:
        defaults = self.context.defaults(NAME)
        for monitor in self.context.plan.monitors_of(NAME):
            config = novelty_settings(monitor, defaults, self.context.budget(monitor))
            where = read_settings(monitor, SETTINGS, defaults).get("exclude_where")
            self.units.append(self._unit(monitor, config, where))

    def _unit(self, monitor: Monitor, config: NoveltyConfig, where: str | None) -> VectorUnit:
        keys: dict[Feature, MetricKey] = {}
        for watched in monitor.watched:
            if watched.alias in self.context.failed:
                continue
            metric = self.context.plan.metric(watched.alias)
            keys[Feature(metric.column, metric.name)] = key_of(metric)
        return VectorUnit(monitor, config, keys, where)

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        return [self._verdict(unit, batch) for unit in self.units]

    def past(self, unit: VectorUnit, batch: str) -> list[str]:
        """The accepted batches that are not excluded and were measured, oldest first.

        Without those that it found far out unless that recurs, and those of far fewer rows than
        usual, where the batch is not one: a quiet Sunday would widen what is usual on all days. In
        mode `paper` these stay.
        """
        past, window = self._measured(unit, batch), unit.config.window
        past = self.context.history.usual(unit.monitor.id, past, window or len(past))
        past = past[-window:] if window else past
        key = self._rows_key
        if key is None or not unit.config.keeps_rate:
            return past
        rows = self.context.history.series(key, past)
        few = UsualRows.of(rows).few
        large = [b for b, number in zip(past, rows, strict=True) if not number < few]
        own = self.context.history.value(key, batch)
        return past if own < few or len(large) < unit.config.min_history else large

    def _measured(self, unit: VectorUnit, batch: str) -> list[str]:
        """The accepted batches that are not excluded and were measured, oldest first."""
        history, excluded = self.context.history, self.context.excluded.batches(unit.exclude_where)
        past = (b for b in history.before(batch, unit.reach) if b not in excluded)
        return [b for b in past if any(history.measured(k, b) for k in unit.keys.values())]

    def matrix(self, unit: VectorUnit, steps: Sequence[str], past: Sequence[str]) -> FloatArray:
        """The metrics of `steps`, K x F; NaN for those that are not in `past`."""
        return self.context.history.in_step(list(unit.keys.values()), past, steps)

    def decision(
        self,
        unit: VectorUnit,
        steps: Sequence[str],
        matrix: FloatArray,
        batch: str,
        changed: Mapping[Feature, float] | None = None,
    ) -> NoveltyDecision:
        """The decision on a batch, as it is or with some metrics changed."""
        history, features = self.context.history, list(unit.keys)
        new = {f: history.value(k, batch) for f, k in unit.keys.items()} | dict(changed or {})
        row, times = feature_vector(features, new), wall_times((*steps, batch))
        warned = history.was_warned(unit.monitor.id, steps)
        return decide_novelty(features, matrix, row, unit.config, times, self._rows(batch), warned)

    def needed(self, unit: VectorUnit, batch: str) -> int:
        """How many batches it takes to decide on a batch.

        Those of two days where several come a day: a morning is no news because all batches so far
        were of the night.
        """
        return max(unit.config.min_history, _WHOLE_DAYS * self.context.history.a_day(batch))

    @cached_property
    def _rows_key(self) -> MetricKey | None:
        """The number of rows, where the model measures it."""
        return next((key_of(m) for m in self._plain_metrics() if m.name == ROWS), None)

    def _plain_metrics(self) -> Iterator[Metric]:
        """The metrics of single batches with all their rows."""
        for metric in self.context.plan.metrics:
            if metric.scope is Scope.DELTA and metric.where is None:
                yield metric

    def _rows(self, batch: str) -> float | None:
        """The number of rows of a batch, where the model measures it."""
        key = self._rows_key
        return None if key is None else finite(self.context.history.value(key, batch))

    def repeat(self, unit: VectorUnit, batch: str) -> tuple[str, Repeat] | None:
        """The batch before that a batch is, delivered again, where that can be told.

        It may be one that was found far out.
        """
        if not unit.config.keeps_rate:
            return None
        history = self.context.history
        keys = undated(unit.keys)
        past = self._measured(unit, batch)
        matrix = history.matrix(list(keys.values()), past)
        new = np.array([history.value(k, batch) for k in keys.values()])
        numbers = {f.column: i for i, f in enumerate(keys)}
        columns = [numbers[f.column] for f in keys]
        repetition = repeated(columns, matrix, new, _FOR_REPEATS * unit.config.rate)
        return None if repetition is None else (past[repetition.place], repetition)

    def _verdict(self, unit: VectorUnit, batch: str) -> Result:
        history, config = self.context.history, unit.config
        if not unit.keys:
            text = self.context.unmeasured(unit.monitor)
            return result_of(unit.monitor, batch, Status.ERROR, text)
        kept_out = self.context.excluded.verdict(unit.monitor, batch, unit.exclude_where)
        if kept_out is not None:
            return kept_out
        past = self.past(unit, batch)
        need = self.needed(unit, batch)
        if len(past) < need:
            excluded = self.context.excluded.batches(unit.exclude_where)
            before = [b for b in history.before(batch, need) if b not in excluded]
            unmeasured = len(before) - len(past)
            return learning(unit.monitor, batch, len(past), need, max(0, unmeasured))
        steps = history.steps(past, batch)
        decision, left = self.judged(unit, steps, past, batch)
        status = decided_status(decision.status, unit.monitor.severity)
        result = result_of(unit.monitor, batch, status, decision.explanation)
        score = decision.score / decision.threshold if decision.threshold > 0 else None
        result = with_numbers(result, decision.score, 0.0, decision.threshold, score)
        if decision.status == "anomalous":
            news = self._new_values(unit, decision, past[-_RECENT:], batch)
            result = replace(result, message=result.message + news)
        result = _with_repeat(result, self.repeat(unit, batch))
        record = decision.to_dict()
        record["contributions"] = record["contributions"][:_SHOWN_CONTRIBUTIONS]
        return with_details(
            result,
            settings=asdict(config),
            decision=record,
            rows=self._rows(batch),
            warned=list(compress(steps, history.was_warned(unit.monitor.id, steps))),
            **left,
            **rests_on(history, past, batch),
        )

    def _new_values(
        self, unit: VectorUnit, decision: NoveltyDecision, before: Sequence[str], batch: str
    ) -> str:
        """Which values are new in columns that are far out, where a monitor keeps their values."""
        plan, history = self.context.plan, self.context.history
        columns = {c.feature.column for c in named_contributions(decision.contributions)}
        words = []
        for metric in self._plain_metrics():
            if metric.name != "value_profile" or metric.column not in columns:
                continue
            if hides_values(plan.model, metric.column, unit.monitor.settings):
                continue
            key = key_of(metric)
            known = [CategoricalState.of(history.profile(key, b)) for b in before]
            now = CategoricalState.of(history.profile(key, batch))
            categories = new_categories(pooled_categories(known), now)
            words += [f"; in {metric.column} {', '.join(categories)}"] if categories else []
        return "".join(words)

    def judged(
        self, unit: VectorUnit, steps: Sequence[str], past: Sequence[str], batch: str
    ) -> tuple[NoveltyDecision, dict[str, list[str]]]:
        """The decision on a batch, and the columns of which it leaves something out, and why.

        The values of `date_labels` say the date of their batch, which is no news when it moves on.
        Where the numbers of `running` ones are is none either, if they moved on by a usual step.
        """
        decision = self.decision(unit, steps, self.matrix(unit, steps, past), batch)
        if decision.status != "anomalous":
            return decision, {}
        left = {
            "date_labels": self._date_labels(unit, batch, past),
            "running": self._running(unit, past, batch),
        }
        if not any(left.values()):
            return decision, {}
        less = replace(unit, keys=without(unit.keys, left))
        return self.decision(less, steps, self.matrix(less, steps, past), batch), left

    def _running(self, unit: VectorUnit, past: Sequence[str], batch: str) -> list[str]:
        """The columns of numbers that always grow, and did as usual since the batch before."""
        in_places = ((f, key) for f, key in unit.keys.items() if f.metric in _PLACES)
        places = by_key((f.column, key) for f, key in in_places if f.column is not None)
        history = self.context.history
        # Accepted ones are known in every run, whatever was found in them.
        known = history.before(batch)[-2:]

        @cache
        def ways(base: int) -> list[FloatArray]:
            """How many steps lie between each two batches, counted by batches and by times."""
            pairs = [*pairwise(past), (known[base], batch)]
            checked = np.array([history.between(*pair) + 1 for pair in pairs], dtype=float)
            # Of a batch that never came the numbers went on all the same.
            return [checked, *expected_between(pairs)]

        columns = []
        for column, keys in places.items():
            own = history.matrix(keys, (*known, batch))
            # One that was delivered again stands where the one before it does.
            repeated = len(known) > 1 and np.array_equal(own[0], own[1])
            base = 0 if repeated else len(known) - 1
            series = history.matrix(keys, past)
            if any(
                moved_on(series, own[base], own[-1], count[:-1], int(count[-1]))
                for count in ways(base)
            ):
                columns.append(column)
        return columns

    def _date_labels(self, unit: VectorUnit, batch: str, past: Sequence[str]) -> list[str]:
        """The columns that say the date of their batch."""
        by_column: dict[str, dict[str, MetricKey]] = {}
        for metric in self._plain_metrics():
            if metric.column is not None:
                by_column.setdefault(metric.column, {})[metric.name] = key_of(metric)
        mine = {f.column for f in unit.keys}
        history = self.context.history
        return [
            column
            for column, keys in by_column.items()
            if column in mine and says_the_date(history, keys, batch, past)
        ]


def expected_between(pairs: Sequence[tuple[str, str]]) -> list[FloatArray]:
    """How many batches each pair is apart by its times, the usual distance being one.

    Nothing where batches have no times.
    """
    starts, ends = (wall_times(batches) for batches in zip(*pairs, strict=True))
    if starts is None or ends is None or len(pairs) < 2:
        return []
    apart = (ends - starts) / np.timedelta64(1, "s")
    usual = float(np.median(apart[:-1]))
    return [np.maximum(np.rint(apart / usual), 1.0)] if usual > 0 else []


def without(
    keys: Mapping[Feature, MetricKey], left: Mapping[str, Collection[str]]
) -> dict[Feature, MetricKey]:
    """The metrics without those that a decision leaves out, by what it says of columns."""
    labels, running = left.get("date_labels", ()), left.get("running", ())
    return {
        f: key
        for f, key in keys.items()
        if (f.column not in labels or f.metric in _NOT_OF_VALUES)
        and (f.column not in running or f.metric not in _PLACES)
    }


def undated(keys: Mapping[Feature, MetricKey]) -> dict[Feature, MetricKey]:
    """The metrics that no date changes: rows may be delivered again under another one.

    A sketch counts times that have all moved on as others, a few more or less.
    """
    times = {f.column for f in keys if f.metric in DAY_METRICS}
    return {
        f: key
        for f, key in keys.items()
        if f.metric not in DAY_METRICS and (f.metric != _DISTINCT or f.column not in times)
    }


def wall_times(batches: Sequence[str]) -> npt.NDArray[np.datetime64] | None:
    """What the clock on the wall showed for each batch; None if one of them has no time."""
    times = [wall_time_of(b) for b in batches]
    known = [t.replace(tzinfo=None) for t in times if t is not None]
    return np.array(known, dtype="datetime64[us]") if len(known) == len(times) else None


def _with_repeat(result: Result, repeat: tuple[str, Repeat] | None) -> Result:
    """The verdict on a batch that may be one of before, delivered again."""
    if repeat is None:
        return result
    other, repetition = repeat
    message = (
        f"batch {result.batch} is equal to batch {other} in all {repetition.metrics:,} metrics of"
        f" {repetition.columns:,} columns: was it delivered again?"
    )
    if result.status is not Status.PASS:
        message += f"; {result.message}"
    score = -math.log10(repetition.chance)
    return replace(
        result,
        status=failed_status(result.severity),
        message=message,
        observed=max(score, result.observed or 0.0),
        score=max(score / (result.upper or 1.0), result.score or 0.0),
        details={**result.details, "repeats": {"batch": other, **asdict(repetition)}},
    )

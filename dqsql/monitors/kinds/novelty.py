"""`@novelty`: whether a batch as a whole is unlike the accepted batches before it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dqsql.compiler.monitors import batch_argument, key_columns
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.novelty import NoveltyDecision, decide_novelty, feature_vector
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, novelty_config
from dqsql.decisions.repeats import Repeat, repeated
from dqsql.dialect import quoted
from dqsql.errors import AnnotationError, CompileError, DecisionError
from dqsql.model.batches import wall_time_of
from dqsql.model.metric_traits import DAY_METRICS
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.model.settings import Reader, as_given, as_rate, as_text, one_of
from dqsql.monitors.context import (
    Exclusions,
    Matching,
    MonitorContext,
    Workplace,
    failed_status,
    finite,
    learning,
    result_of,
    with_details,
)
from dqsql.monitors.history import RECURS, MetricKey, key_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.recompute import (
    NOT_DECIDED,
    Compared,
    Recomputed,
    StoredVerdict,
    compared_by,
    rests_on,
)
from dqsql.monitors.replay import Replayed, Tally
from dqsql.monitors.settings import read_settings

_NAME = "novelty"
_SHOWN_CONTRIBUTIONS = 10
# Settings that are not the detector's: what is measured, and of which batches.
_OWN = ("exclude_where", "peculiarity")
_SETTINGS: Mapping[str, Reader] = {
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
# The features of "Automating Data Quality Validation for Dynamic Data Ingestion" (EDBT 2021).
_ANY = ("completeness({c})", "approx_count_distinct({c})")
# The paper's divisor is the batch size. Among rows with a value it says nothing of those without,
# of which the completeness tells: metrics of which one moves at a time are told apart better.
_FREQUENT = "most_frequent_ratio({c})"
_PAPER = "most_frequent_share({c})"
_NUMERIC = ("min({c})", "max({c})", "mean({c})", "stddev({c})")
_TIME = tuple(f"days_to_{what}({{c}}{{batch}})" for what in ("min", "max", "median"))
_TEXT = "index_of_peculiarity({c})"
_BY_TEXT = "index_of_peculiarity({c}, 'text')"
_RECOMPUTED = ("status", "score", "threshold", "expected", "p_value", "history_size")
# A threshold is a quantile of the accepted batches' distances: half of them must lie below.
_LARGEST_RATE = 0.5
# Of each batch so many metrics are moved, by so many of their usual changes.
_MOVED = 1
_STEPS = (5.0, 10.0)
# Of the rate, for batches that are delivered again.
_FOR_REPEATS = 0.1


def novelty_settings(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, budget: float | None = None
) -> NoveltyConfig:
    """The settings of a monitor.

    `budget` is the false-positive rate that the project's budget leaves it, if there is one; where
    a contamination is given that takes its place.
    Raises AnnotationError.
    """
    given = read_settings(monitor, _SETTINGS, defaults)
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
        return _reach(self.config, self.exclude_where)


def novelty_reach(monitor: Monitor, defaults: Mapping[str, Any] | None = None) -> int | None:
    """How many of the newest accepted batches a monitor looks at; None for all.

    Raises AnnotationError.
    """
    where = read_settings(monitor, _SETTINGS, defaults).get("exclude_where")
    return _reach(novelty_settings(monitor, defaults), where)


def _reach(config: NoveltyConfig, exclude_where: str | None) -> int | None:
    """A window is filled up with older batches where some are excluded or were warned of."""
    if config.window is None or exclude_where is not None:
        return None
    return config.window + RECURS - 1


@dataclass
class NoveltyDetector:
    """Decides on all `@novelty` of one model."""

    context: MonitorContext
    matching: Matching
    units: list[VectorUnit] = field(default_factory=list)
    excluded: Exclusions = field(init=False)

    def __post_init__(self) -> None:
        kept = self.context.settings.get("false_alarm_budget")
        defaults = self.context.defaults(_NAME)
        self.excluded = Exclusions(self.matching, self.context.history.known)
        for monitor in KIND.of(self.context.plan):
            budget = self.context.fpr(monitor) if kept else None
            config = novelty_settings(monitor, defaults, budget)
            where = read_settings(monitor, _SETTINGS, defaults).get("exclude_where")
            self.units.append(self._unit(monitor, config, where))

    def _unit(self, monitor: Monitor, config: NoveltyConfig, where: str | None) -> VectorUnit:
        keys: dict[Feature, MetricKey] = {}
        for watched in monitor.watched:
            if watched.alias in self.context.failed:
                continue
            metric = self.context.plan.metric(watched.alias)
            keys[Feature(metric.column, metric.name)] = key_of(metric)
        return VectorUnit(monitor, config, keys, where)

    def prepare(self, batches: Sequence[str]) -> None:
        """Ask once for each condition which batches it excludes."""
        self.excluded.ask(unit.exclude_where for unit in self.units)

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        return [self._verdict(unit, batch) for unit in self.units]

    def past(self, unit: VectorUnit, batch: str) -> list[str]:
        """The accepted batches that are not excluded and were measured, oldest first.

        Without those that it found far out unless that recurs.
        """
        history, odd = self.context.history, self.excluded.batches(unit.exclude_where)
        keys, window = unit.keys.values(), unit.config.window
        past = history.before(batch, unit.reach)
        past = [b for b in past if any(history.measured(k, b) for k in keys)]
        past = [b for b in past if b not in odd]
        past = history.usual(unit.monitor.id, past, window or len(past))
        return past[-window:] if window else past

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
        row = feature_vector(features, new)
        return decide_novelty(features, matrix, row, unit.config, wall_times((*steps, batch)))

    def repeat(
        self, unit: VectorUnit, past: Sequence[str], batch: str
    ) -> tuple[str, Repeat] | None:
        """The batch before that a batch is, delivered again, where that can be told."""
        if not unit.config.keeps_rate:
            return None
        history = self.context.history
        keys = _undated(unit.keys)
        matrix = history.matrix(list(keys.values()), past)
        new = np.array([history.value(k, batch) for k in keys.values()])
        numbers = {f.column: i for i, f in enumerate(keys)}
        columns = [numbers[f.column] for f in keys]
        found = repeated(columns, matrix, new, _FOR_REPEATS * unit.config.rate)
        return None if found is None else (past[found.place], found)

    def _verdict(self, unit: VectorUnit, batch: str) -> Result:
        history, config = self.context.history, unit.config
        if not unit.keys:
            text = self.context.unmeasured(unit.monitor)
            return result_of(unit.monitor, batch, Status.ERROR, text)
        kept_out = self.excluded.verdict(unit.monitor, batch, unit.exclude_where)
        if kept_out is not None:
            return kept_out
        past = self.past(unit, batch)
        if len(past) < config.min_history:
            odd = self.excluded.batches(unit.exclude_where)
            before = [b for b in history.before(batch, config.min_history) if b not in odd]
            unmeasured = len(before) - len(past)
            need = config.min_history
            return learning(unit.monitor, batch, len(past), need, max(0, unmeasured))
        steps = history.steps(past, batch)
        decision = self.decision(unit, steps, self.matrix(unit, steps, past), batch)
        result = result_of(
            unit.monitor, batch, _status(unit.monitor, decision), decision.explanation
        )
        result = replace(
            result,
            observed=finite(decision.score),
            lower=0.0,
            upper=finite(decision.threshold),
            score=_ratio(decision.score, decision.threshold),
        )
        result = _with_repeat(result, self.repeat(unit, past, batch))
        record = decision.to_dict()
        record["contributions"] = record["contributions"][:_SHOWN_CONTRIBUTIONS]
        return with_details(
            result,
            settings=config.to_dict(),
            decision=record,
            **rests_on(history, past, batch),
        )


def _undated(keys: Mapping[Feature, MetricKey]) -> dict[Feature, MetricKey]:
    """The metrics that no date changes: rows may be delivered again under another one."""
    return {f: key for f, key in keys.items() if f.metric not in DAY_METRICS}


def wall_times(batches: Sequence[str]) -> npt.NDArray[np.datetime64] | None:
    """What the clock on the wall showed for each batch; None if one of them has no time."""
    times = [wall_time_of(b) for b in batches]
    known = [t.replace(tzinfo=None) for t in times if t is not None]
    return np.array(known, dtype="datetime64[us]") if len(known) == len(times) else None


def _with_repeat(result: Result, repeat: tuple[str, Repeat] | None) -> Result:
    """The verdict on a batch that may be one of before, delivered again."""
    if repeat is None:
        return result
    other, found = repeat
    told = (
        f"batch {result.batch} is equal to batch {other} in all {found.metrics:,} metrics of"
        f" {found.columns:,} columns: was it delivered again?"
    )
    if result.status is not Status.PASS:
        told += f"; {result.message}"
    score = -math.log10(found.chance)
    return replace(
        result,
        status=failed_status(result.severity),
        message=told,
        observed=max(score, result.observed or 0.0),
        score=max(score / (result.upper or 1.0), result.score or 0.0),
        details={**result.details, "repeats": {"batch": other, **asdict(found)}},
    )


def _status(monitor: Monitor, decision: NoveltyDecision) -> Status:
    if decision.status == "anomalous":
        return failed_status(monitor.severity)
    known = {"ok": Status.PASS, "no_value": Status.NO_DATA}
    return known.get(decision.status, Status.SKIPPED)


def _ratio(score: float, threshold: float) -> float | None:
    return finite(score / threshold) if threshold > 0 else None


# --- stored batches ----------------------------------------------------------------------------


@dataclass(frozen=True)
class NoveltyReplay:
    """Replays all `@novelty` of one model over stored batches.

    The history of the detector's context ends behind the newest accepted batch.
    """

    detector: NoveltyDetector

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches, with the rate as false-positive rate.

        Of mode `paper` and other detectors it is the contamination, which a note says. The issues
        are metrics moved by so many of their usual changes between batches, one at a time; nothing
        is injected into rows.
        """
        return [
            self._replayed(unit, batches, flagged, rate)
            for unit in self.detector.units
            for rate in rates
        ]

    def _replayed(
        self, unit: VectorUnit, batches: Sequence[str], flagged: Collection[str], rate: float
    ) -> Replayed:
        if not unit.keys:
            return Replayed(unit.monitor, rate, note="no metric could be computed")
        if rate >= _LARGEST_RATE:
            return Replayed(unit.monitor, rate, note=f"a rate is below {_LARGEST_RATE}")
        self.detector.excluded.ask([unit.exclude_where])
        broken = self.detector.excluded.error(unit.exclude_where)
        if broken is not None:
            return Replayed(unit.monitor, rate, note=broken.message)
        config = unit.config
        if config.keeps_rate:
            moved = replace(unit, config=replace(config, fpr=rate))
        else:
            moved = replace(unit, config=replace(config, contamination=rate, fpr=None))
        tally = Tally(unit.monitor, rate, flagged)
        history = self.detector.context.history
        try:
            for batch in batches:
                if any(history.measured(key, batch) for key in unit.keys.values()):
                    self._count(moved, batch, tally)
        except DecisionError as error:
            return Replayed(unit.monitor, rate, note=error.message)
        found = tally.result()
        if config.keeps_rate or found.note:
            return found
        text = "its rates are contaminations, the shares of its history beyond the threshold"
        return replace(found, aside=text)

    def _count(self, unit: VectorUnit, batch: str, tally: Tally) -> None:
        """Decide on a batch as it is, and with a metric moved."""
        past = self.detector.past(unit, batch)
        if batch in self.detector.excluded.batches(unit.exclude_where):
            tally.add(batch, None)
            return
        if len(past) < unit.config.min_history:
            tally.add(batch, None)
            return
        history = self.detector.context.history
        between = history.steps(past, batch)
        matrix = self.detector.matrix(unit, between, past)
        status = self.detector.decision(unit, between, matrix, batch).status
        again = self.detector.repeat(unit, past, batch) is not None
        known = status in ("ok", "anomalous")
        tally.add(batch, (again or status == "anomalous") if known else None)
        if batch in tally.flagged or again or status != "ok":
            return
        watched = list(unit.keys)
        # A few of the metrics, others in each batch.
        place = sum(map(ord, batch)) % len(watched)
        for feature in {watched[(place + i * 7) % len(watched)] for i in range(_MOVED)}:
            series = history.series(unit.keys[feature], past)
            usual = _usual_change(series)
            value = history.value(unit.keys[feature], batch)
            for steps in _STEPS if usual and not math.isnan(value) else ():
                changed = {feature: value + steps * usual}
                found = self.detector.decision(unit, between, matrix, batch, changed).status
                tally.add_issue(batch, f"moved metric_{steps:g}_{feature}", found == "anomalous")


def _usual_change(series: FloatArray) -> float:
    """Median of the changes between neighbouring batches, by their size; 0 of a constant."""
    changes = np.abs(np.diff(series[~np.isnan(series)]))
    changes = changes[changes > 0]
    return float(np.median(changes)) if changes.size else 0.0


def _recomputed(stored: StoredVerdict) -> Recomputed:
    then, history = stored.details.get("decision"), stored.history
    if then is None:
        return NOT_DECIDED
    keys = _keys(stored)
    if not keys:
        return Recomputed(note="the project no longer has the check, which names its metrics")
    features = list(keys)
    matrix = history.in_step(list(keys.values()), stored.past, stored.steps)
    new = {f: history.value(k, stored.batch) for f, k in keys.items()}
    config = novelty_config(**stored.details["settings"])
    times = wall_times((*stored.steps, stored.batch))
    row = feature_vector(features, new)
    now = decide_novelty(features, matrix, row, config, times).to_dict()
    compared = compared_by(_RECOMPUTED, then, now)
    by_name = {(c["column"], c["metric"]): c for c in now["contributions"]}
    for one in then["contributions"]:
        again = by_name.get((one["column"], one["metric"]), {})
        label = one["metric"] if one["column"] is None else f"{one['metric']}({one['column']})"
        compared += (Compared(f"distance of {label}", one["score"], again.get("score")),)
    if (repeats := stored.details.get("repeats")) is not None:
        label = f"metrics equal to those of {repeats['batch']}"
        equal = [history.value(k, repeats["batch"]) == new[f] for f, k in _undated(keys).items()]
        compared += (Compared(label, repeats["metrics"], sum(equal)),)
    return Recomputed(compared)


def _keys(stored: StoredVerdict) -> dict[Feature, MetricKey]:
    """The metrics of the vector; those of another type than the column's have no values."""
    keys: dict[Feature, MetricKey] = {}
    if stored.plan is not None and stored.monitor is not None:
        for watched in stored.monitor.watched:
            metric = stored.plan.metric(watched.alias)
            keys.setdefault(Feature(metric.column, metric.name), key_of(metric))
    return keys


# --- the kind ----------------------------------------------------------------------------------


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    model, span = use.model, use.annotation.span
    if use.annotation.column is not None:
        raise CompileError(
            "@novelty is about the whole model",
            span=span,
            hint="write it after the FROM clause, or before the SELECT",
        )
    if model.columns is None:
        raise CompileError(
            "@novelty needs the names of the columns",
            span=span,
            hint="list the columns in the SELECT instead of *",
        )
    by_text = use.options.get("peculiarity") == "text"
    paper = str(use.options.get("mode")).lower() == "paper"
    by_family = {
        Family.ANY: (*_ANY, _PAPER if paper else _FREQUENT),
        Family.NUMERIC: _NUMERIC,
        Family.TIME: () if paper else _TIME,
        Family.TEXT: (_BY_TEXT if by_text else _TEXT,),
    }
    key, batch = key_columns(model), batch_argument(model)
    return [
        WatchedMetric(family, text, text.format(c=quoted(name), batch=batch), name)
        for name in model.columns
        if name.lower() not in key
        for family, texts in by_family.items()
        for text in texts
    ]


def _detector(place: Workplace, context: MonitorContext) -> NoveltyDetector:
    return NoveltyDetector(context, place.matching)


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        symptom="all metrics together",
    ),
    detector=_detector,
    order=50,
    reach=lambda monitor, defaults: Reach(novelty_reach(monitor, defaults)),
    read=novelty_settings,
    replayer=lambda place, context: NoveltyReplay(_detector(place, context)),
    recompute=_recomputed,
)

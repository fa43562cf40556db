"""`@novelty`: whether a batch as a whole is unlike the accepted batches before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dqsql.decisions.novelty import NoveltyDecision, decide_novelty, feature_vector
from dqsql.decisions.novelty_config import NoveltyConfig, novelty_config
from dqsql.decisions.novelty_metrics import Feature
from dqsql.errors import AnnotationError, DecisionError
from dqsql.model.batches import wall_time_of
from dqsql.model.plan import Monitor
from dqsql.model.results import Result, Status
from dqsql.monitors.context import (
    MonitorContext,
    failed_status,
    finite,
    learning,
    result_of,
    with_details,
)
from dqsql.monitors.exclusions import Exclusions, Matching
from dqsql.monitors.history import MetricKey, key_of
from dqsql.monitors.settings import NOVELTY_SETTINGS, read_settings

KIND = "novelty"
_SHOWN_CONTRIBUTIONS = 10
# Settings that are not the detector's: what is measured, and of which batches.
_OWN = ("exclude_where", "peculiarity")


def novelty_settings(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, budget: float | None = None
) -> NoveltyConfig:
    """The settings of a monitor.

    `budget` is the false-positive rate that the project's budget leaves it, if there is one; where
    a contamination is given that takes its place.
    Raises AnnotationError.
    """
    given = read_settings(monitor, NOVELTY_SETTINGS, defaults)
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
    where = read_settings(monitor, NOVELTY_SETTINGS, defaults).get("exclude_where")
    return _reach(novelty_settings(monitor, defaults), where)


def _reach(config: NoveltyConfig, exclude_where: str | None) -> int | None:
    """A window is filled up with older batches where some are excluded."""
    return config.window if exclude_where is None else None


@dataclass
class NoveltyDetector:
    """Decides on all `@novelty` of one model."""

    context: MonitorContext
    matching: Matching
    units: list[VectorUnit] = field(default_factory=list)
    excluded: Exclusions = field(init=False)

    def __post_init__(self) -> None:
        budget = self.context.fpr if self.context.settings.get("false_alarm_budget") else None
        defaults = self.context.defaults(KIND)
        self.excluded = Exclusions(self.matching, self.context.history.known)
        for monitor in self.context.plan.monitors:
            if monitor.kind == KIND:
                config = novelty_settings(monitor, defaults, budget)
                where = read_settings(monitor, NOVELTY_SETTINGS, defaults).get("exclude_where")
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

    def _past(self, unit: VectorUnit, batch: str) -> list[str]:
        """The accepted batches that are not excluded and were measured, oldest first."""
        history, odd = self.context.history, self.excluded.batches(unit.exclude_where)
        keys, window = unit.keys.values(), unit.config.window
        past = history.before(batch, unit.reach)
        past = [b for b in past if any(history.measured(k, b) for k in keys)]
        past = [b for b in past if b not in odd]
        return past[-window:] if window else past

    def _decision(
        self,
        unit: VectorUnit,
        past: Sequence[str],
        batch: str,
        changed: Mapping[Feature, float] | None = None,
    ) -> NoveltyDecision:
        """The decision on a batch, as it is or with some metrics changed."""
        history, features = self.context.history, list(unit.keys)
        matrix = np.column_stack([history.series(unit.keys[f], past) for f in features])
        new = {f: history.value(k, batch) for f, k in unit.keys.items()} | dict(changed or {})
        row = feature_vector(features, new)
        return decide_novelty(features, matrix, row, unit.config, wall_times((*past, batch)))

    def _verdict(self, unit: VectorUnit, batch: str) -> Result:
        history, config = self.context.history, unit.config
        if not unit.keys:
            text = self.context.unmeasured(unit.monitor)
            return result_of(unit.monitor, batch, Status.ERROR, text)
        kept_out = self.excluded.verdict(unit.monitor, batch, unit.exclude_where)
        if kept_out is not None:
            return kept_out
        past = self._past(unit, batch)
        if len(past) < config.min_history:
            odd = self.excluded.batches(unit.exclude_where)
            before = [b for b in history.before(batch, config.min_history) if b not in odd]
            unmeasured = len(before) - len(past)
            need = config.min_history
            return learning(unit.monitor, batch, len(past), need, max(0, unmeasured))
        decision = self._decision(unit, past, batch)
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
        record = decision.to_dict()
        record["contributions"] = record["contributions"][:_SHOWN_CONTRIBUTIONS]
        return with_details(
            result,
            settings=config.to_dict(),
            decision=record,
            history=[past[0], past[-1], len(past)],
            left_out=history.left_out(past),
        )


def wall_times(batches: Sequence[str]) -> npt.NDArray[np.datetime64] | None:
    """What the clock on the wall showed for each batch; None if one of them has no time."""
    times = [wall_time_of(b) for b in batches]
    known = [t.replace(tzinfo=None) for t in times if t is not None]
    return np.array(known, dtype="datetime64[us]") if len(known) == len(times) else None


def _status(monitor: Monitor, decision: NoveltyDecision) -> Status:
    if decision.status == "anomalous":
        return failed_status(monitor.severity)
    known = {"ok": Status.PASS, "no_value": Status.NO_DATA}
    return known.get(decision.status, Status.SKIPPED)


def _ratio(score: float, threshold: float) -> float | None:
    return finite(score / threshold) if threshold > 0 else None

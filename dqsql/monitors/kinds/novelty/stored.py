"""Decides on stored batches again: the replay of a backtest, and a verdict computed once more."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.novelty import decide_novelty, feature_vector
from dqsql.decisions.novelty_config import Feature, novelty_config
from dqsql.errors import DecisionError
from dqsql.monitors.history import MetricKey, key_of
from dqsql.monitors.kinds.novelty.detector import (
    NoveltyDetector,
    VectorUnit,
    undated,
    wall_times,
    without,
)
from dqsql.monitors.recompute import NOT_DECIDED, Compared, Recomputed, StoredVerdict, compared_by
from dqsql.monitors.replay import Replayed, Tally

_RECOMPUTED = ("status", "score", "threshold", "expected", "p_value", "history_size")
# A threshold is a quantile of the accepted batches' distances: half of them must lie below.
_LARGEST_RATE = 0.5
# Of each batch so many metrics are moved, by so many of their usual changes.
_MOVED = 1
_STEPS = (5.0, 10.0)


@dataclass(frozen=True)
class NoveltyReplay:
    """Replays all `@novelty` of one model over stored batches.

    The history of the detector's context ends behind the newest accepted batch.
    """

    detector: NoveltyDetector

    def rates_in_use(self) -> dict[str, float]:
        """The rates, or contaminations; see `Replayer`."""
        return {u.monitor.id: u.config.rate for u in self.detector.units}

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
        broken = self.detector.context.excluded.error(unit.exclude_where)
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
        replayed = tally.result()
        if config.keeps_rate or replayed.note:
            return replayed
        text = "its rates are contaminations, the shares of its history beyond the threshold"
        return replace(replayed, aside=text)

    def _count(self, unit: VectorUnit, batch: str, tally: Tally) -> None:
        """Decide on a batch as it is, and with a metric moved."""
        past = self.detector.past(unit, batch)
        if batch in self.detector.context.excluded.batches(unit.exclude_where):
            tally.add(batch, None)
            return
        if len(past) < self.detector.needed(unit, batch):
            tally.add(batch, None)
            return
        history = self.detector.context.history
        between = history.steps(past, batch)
        matrix = self.detector.matrix(unit, between, past)
        status = self.detector.judged(unit, between, past, batch)[0].status
        again = self.detector.repeat(unit, batch) is not None
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
                moved_status = self.detector.decision(unit, between, matrix, batch, changed).status
                tally.add_issue(
                    batch, f"moved metric_{steps:g}_{feature}", moved_status == "anomalous"
                )


def _usual_change(series: FloatArray) -> float:
    """Median of the changes between neighbouring batches, by their size; 0 of a constant."""
    changes = np.abs(np.diff(series[~np.isnan(series)]))
    changes = changes[changes > 0]
    return float(np.median(changes)) if changes.size else 0.0


def recomputed(stored: StoredVerdict) -> Recomputed:
    """Decide again by the stored metrics and settings."""
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
    rows = stored.details.get("rows")
    warned = np.isin(stored.steps, stored.details.get("warned") or [])
    now = decide_novelty(features, matrix, row, config, times, rows, warned).to_dict()
    compared = compared_by(_RECOMPUTED, then, now)
    by_name = {(c["column"], c["metric"]): c for c in now["contributions"]}
    for one in then["contributions"]:
        again = by_name.get((one["column"], one["metric"]), {})
        label = one["metric"] if one["column"] is None else f"{one['metric']}({one['column']})"
        compared += (Compared(f"distance of {label}", one["score"], again.get("score")),)
    if (repeats := stored.details.get("repeats")) is not None:
        label = f"metrics equal to those of {repeats['batch']}"
        # The plan as stored has metrics of all types.
        measured = {f: k for f, k in keys.items() if history.measured(k, stored.batch)}
        before = {f: history.value(k, repeats["batch"]) for f, k in undated(measured).items()}
        equal = [value == new[f] for f, value in before.items()]
        compared += (Compared(label, repeats["metrics"], sum(equal)),)
    return Recomputed(compared)


def _keys(stored: StoredVerdict) -> dict[Feature, MetricKey]:
    """The metrics of the vector; those of another type than the column's have no values."""
    keys: dict[Feature, MetricKey] = {}
    if stored.plan is not None and stored.monitor is not None:
        for watched in stored.monitor.watched:
            metric = stored.plan.metric(watched.alias)
            keys.setdefault(Feature(metric.column, metric.name), key_of(metric))
    return without(keys, stored.details)

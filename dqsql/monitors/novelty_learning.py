"""`@novelty` replayed over stored batches."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from dqsql.errors import DecisionError
from dqsql.monitors.history import FloatArray
from dqsql.monitors.novelty import NoveltyDetector, VectorUnit
from dqsql.monitors.replay import Replayed, Tally

# A threshold is a quantile of the accepted batches' distances: half of them must lie below.
_LARGEST_RATE = 0.5
# Of each batch so many metrics are moved, by so many of their usual changes.
_MOVED = 1
_STEPS = (5.0, 10.0)


class NoveltyLearner(NoveltyDetector):
    """All `@novelty` of one model; the context's history ends behind the newest accepted batch."""

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches, with the rate as false-positive rate.

        Of mode `paper` and other detectors it is the contamination, which a note says. The issues
        are metrics moved by so many of their usual changes between batches, one at a time; nothing
        is injected into rows.
        """
        return [
            self._replayed(unit, batches, flagged, rate) for unit in self.units for rate in rates
        ]

    def _replayed(
        self, unit: VectorUnit, batches: Sequence[str], flagged: Collection[str], rate: float
    ) -> Replayed:
        if not unit.keys:
            return Replayed(unit.monitor, rate, note="no metric could be computed")
        if rate >= _LARGEST_RATE:
            return Replayed(unit.monitor, rate, note=f"a rate lies below {_LARGEST_RATE}")
        self.excluded.ask([unit.exclude_where])
        broken = self.excluded.error(unit.exclude_where)
        if broken is not None:
            return Replayed(unit.monitor, rate, note=broken.message)
        config = unit.config
        if config.keeps_rate:
            moved = replace(unit, config=replace(config, fpr=rate))
        else:
            moved = replace(unit, config=replace(config, contamination=rate, fpr=None))
        tally = Tally(unit.monitor, rate, flagged)
        history = self.context.history
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
        past = self._past(unit, batch)
        if batch in self.excluded.batches(unit.exclude_where):
            tally.add(batch, None)
            return
        if len(past) < unit.config.min_history:
            tally.add(batch, None)
            return
        status = self._decision(unit, past, batch).status
        tally.add(batch, status == "anomalous" if status in ("ok", "anomalous") else None)
        if batch in tally.flagged or status != "ok":
            return
        history = self.context.history
        watched = list(unit.keys)
        # A few of the metrics, others in each batch.
        place = sum(map(ord, batch)) % len(watched)
        for feature in {watched[(place + i * 7) % len(watched)] for i in range(_MOVED)}:
            series = history.series(unit.keys[feature], past)
            usual = _usual_change(series)
            value = history.value(unit.keys[feature], batch)
            for steps in _STEPS if usual and not math.isnan(value) else ():
                changed = {feature: value + steps * usual}
                found = self._decision(unit, past, batch, changed).status
                tally.add_issue(batch, f"moved metric_{steps:g}_{feature}", found == "anomalous")


def _usual_change(series: FloatArray) -> float:
    """Median of the changes between neighbouring batches, by their size; 0 of a constant."""
    changes = np.abs(np.diff(series[~np.isnan(series)]))
    changes = changes[changes > 0]
    return float(np.median(changes)) if changes.size else 0.0

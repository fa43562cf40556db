"""`@novelty` replayed over stored batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dqsql.errors import DecisionError
from dqsql.monitors.novelty import NoveltyDetector, VectorUnit
from dqsql.monitors.replay import Replayed, Tally

# A threshold is a quantile of the accepted batches' distances: half of them must lie below.
_LARGEST_RATE = 0.5


class NoveltyLearner(NoveltyDetector):
    """All `@novelty` of one model; the context's history ends behind the newest accepted batch."""

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches with the rate as contamination."""
        return [
            self._replayed(unit, batches, flagged, rate) for unit in self.units for rate in rates
        ]

    def _replayed(
        self, unit: VectorUnit, batches: Sequence[str], flagged: Collection[str], rate: float
    ) -> Replayed:
        if not unit.keys:
            return Replayed(unit.monitor, rate, note="no metric could be computed")
        if rate >= _LARGEST_RATE:
            return Replayed(unit.monitor, rate, note=f"a contamination lies below {_LARGEST_RATE}")
        self.excluded.ask([unit.exclude_where])
        broken = self.excluded.error(unit.exclude_where)
        if broken is not None:
            return Replayed(unit.monitor, rate, note=broken.message)
        by_rate = unit.config.fpr is not None
        own = unit.config
        config = replace(own, fpr=rate) if by_rate else replace(own, contamination=rate)
        moved = replace(unit, config=config)
        tally = Tally(unit.monitor, rate, flagged)
        history = self.context.history
        try:
            for batch in batches:
                if any(history.measured(key, batch) for key in unit.keys.values()):
                    tally.add(batch, self._alarm(moved, batch))
        except DecisionError as error:
            return Replayed(unit.monitor, rate, note=error.message)
        return tally.result()

    def _alarm(self, unit: VectorUnit, batch: str) -> bool | None:
        past = self._past(unit, batch)
        if batch in self.excluded.batches(unit.exclude_where):
            return None
        if len(past) < unit.config.min_history:
            return None
        status = self._decision(unit, past, batch).status
        return status == "anomalous" if status in ("ok", "anomalous") else None

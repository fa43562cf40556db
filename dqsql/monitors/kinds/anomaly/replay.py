"""`@anomaly` replayed over stored batches, and stored verdicts decided again."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dqsql.compiler.issues import volume_factors
from dqsql.decisions.anomaly import AnomalyDecision, AnomalyInput, evaluate_many, strategy
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.strategies import LearnedStrategy, Strategy
from dqsql.errors import DecisionError
from dqsql.model.batches import batch_order, wall_time_of
from dqsql.model.by_key import by_key
from dqsql.model.metric_traits import PROPORTIONAL_METRICS
from dqsql.model.plan import Monitor
from dqsql.model.wording import plural
from dqsql.monitors import recompute
from dqsql.monitors.history import key_of
from dqsql.monitors.kinds.anomaly.detector import AnomalyCall, AnomalyDetector, input_of
from dqsql.monitors.replay import Replayed, Tally

_BOUNDS = ("lower", "upper", "error_lower", "error_upper")
_RECOMPUTED = (
    *("status", "severity", "value", "expected", *_BOUNDS, "score", "p_value"),
    "history_size",
)
_DECIDED = ("ok", "anomalous")


@dataclass(frozen=True)
class AnomalyReplay:
    """Replays all `@anomaly` of one model over stored batches.

    The history of the detector's context ends behind the newest accepted batch.
    """

    detector: AnomalyDetector

    def rates_in_use(self) -> dict[str, float]:
        """The rates of strategies whose bounds keep one; see `Replayer`."""
        strategies = {m.id: self.detector.calls[m.id].strategy for m in self.detector.monitors}
        return {
            check_id: strategy.rate
            for check_id, strategy in strategies.items()
            if isinstance(strategy, LearnedStrategy) and strategy.rate is not None
        }

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches by the same strategy at several rates.

        A batch is an alarm if it, or one of its segments where they are watched, is anomalous.
        Bounds that a person wrote (limits, or numbers of standard deviations) hang on no rate: they
        are replayed as they are, which a note says.
        """
        replays: list[Replayed] = []
        for monitor in self.detector.monitors:
            call = self.detector.calls[monitor.id]
            why = self._obstacle(monitor, call)
            if why is not None:
                replays += [Replayed(monitor, rate, note=why) for rate in rates]
                continue
            asked = [(b, given) for b in batches for given in self._asked(monitor, call, b)]
            for rate in rates:
                try:
                    replays.append(self._replayed(monitor, call, asked, flagged, rate))
                except DecisionError as error:
                    replays.append(Replayed(monitor, rate, note=error.message))
        return replays

    def _obstacle(self, monitor: Monitor, call: AnomalyCall) -> str | None:
        if self.detector.context.metric(monitor, "metric") is None:
            return "its metric could not be computed"
        failed = self.detector.context.excluded.error(call.exclude_where)
        return None if failed is None else failed.message

    def _factors(self, monitor: Monitor) -> Mapping[str, float]:
        """What issues of volume multiply its metric by; none where it does not follow the rows."""
        metric = self.detector.context.metric(monitor, "metric")
        return (
            volume_factors() if metric is not None and metric.name in PROPORTIONAL_METRICS else {}
        )

    def _asked(self, monitor: Monitor, call: AnomalyCall, batch: str) -> list[AnomalyInput]:
        """The whole batch, and its segments, where they were measured."""
        metric = self.detector.context.metric(monitor, "metric")
        segments = self.detector.decided_on(call, batch)
        keys = [key_of(metric, s) for s in segments] if metric is not None else []
        measured = [k for k in keys if self.detector.context.history.measured(k, batch)]
        return [
            self.detector.input(call, key, batch, *self.detector.past(call, key, batch))
            for key in measured
        ]

    def _replayed(
        self,
        monitor: Monitor,
        call: AnomalyCall,
        asked: Sequence[tuple[str, AnomalyInput]],
        flagged: Collection[str],
        rate: float,
    ) -> Replayed:
        chosen = at_rate(call.strategy, rate)
        moved = replace(call, strategy=chosen or call.strategy)
        by_batch: dict[str, list[bool]] = {batch: [] for batch, _ in asked}
        caught: dict[tuple[str, str], bool] = {}
        factors = self._factors(monitor)
        alike = by_key(
            (moved.strategy_of(len(self.detector.decided_on(call, batch))), (batch, given))
            for batch, given in asked
        )
        for by, some in alike.items():
            decisions = evaluate_many(by, [given for _, given in some], call.settings)
            for (batch, given), decision in zip(some, decisions, strict=True):
                if decision.status not in _DECIDED:
                    continue
                by_batch[batch].append(decision.anomalous)
                moves = decision.value and math.isfinite(decision.value)
                for issue, factor in factors.items() if moves else ():
                    hit = _flags(by, call.settings, given, decision, factor)
                    caught[batch, issue] = caught.get((batch, issue), False) or hit
        tally = Tally(monitor, rate, flagged)
        for batch, alarms in by_batch.items():
            tally.add(batch, any(alarms) if alarms else None)
        for (batch, issue), hit in caught.items():
            tally.add_issue(batch, issue, hit)
        result = tally.result()
        return result if chosen is not None or result.note else _as_written(result)


def default_scores(
    values: Mapping[str, float], accepted: Sequence[str], asked: Sequence[str]
) -> dict[str, float]:
    """How far out values are by `@anomaly(metric)` without settings: beyond 1 is an anomaly.

    Each of the `asked` batches is compared with the `accepted` ones before it, which come oldest
    first. Those that cannot be decided on are left out.
    """
    order = [batch_order(b) for b in accepted]
    history = np.array([values.get(b, math.nan) for b in accepted])
    times = [time for b in accepted if (time := wall_time_of(b)) is not None]
    given = []
    for batch in asked:
        size, time = bisect_left(order, batch_order(batch)), wall_time_of(batch)
        if time is None or len(times) < len(accepted):
            given.append(AnomalyInput(history[:size], None, values[batch]))
        else:
            given.append(AnomalyInput(history[:size], times[:size], values[batch], time))
    decided = zip(asked, evaluate_many(strategy("auto"), given), strict=True)
    return {b: d.score for b, d in decided if d.status in _DECIDED and d.score is not None}


def _flags(
    chosen: Strategy,
    settings: AnomalySettings,
    given: AnomalyInput,
    decision: AnomalyDecision,
    factor: float,
) -> bool:
    """Whether the value times a factor would be an anomaly, by the bounds that were decided by."""
    value = decision.value * factor
    if getattr(chosen, "include_new", False):
        # Its bounds depend on the value.
        return evaluate_many(chosen, [replace(given, value=value)], settings)[0].anomalous
    return not decision.lower <= value <= decision.upper


def at_rate(given: Strategy, rate: float) -> Strategy | None:
    """The strategy at a false-positive rate; None where its bounds were written by a person."""
    if not isinstance(given, LearnedStrategy):
        return None
    if given.fpr is not None:
        return replace(given, fpr=rate)
    chosen = given.with_rate(rate)
    return None if chosen is given else chosen


def _as_written(result: Replayed) -> Replayed:
    text = (
        f"its bounds are written, no rate moves them: as they are,"
        f" {plural(len(result.alarms), 'alarm')} on {plural(result.accepted, 'accepted batch')},"
        f" {len(result.found)} on {plural(result.flagged, 'flagged one')}"
    )
    return replace(result, note=text)


def recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the stored strategy and settings."""
    details, history = stored.details, stored.history
    then = details.get("decision")
    if then is None:
        return recompute.NOT_DECIDED
    key = recompute.stored_key(details["series"])._replace(segment=stored.row["segment"])
    given = dict(details["strategy"])
    chosen = strategy(
        str(given.pop("name")), **{k: recompute.stored_number(v) for k, v in given.items()}
    )
    excluded, left_out = set(details.get("excluded") or ()), list(details.get("left_out") or ())
    if then["status"] == "excluded":
        excluded.add(stored.batch)
    asked = input_of(chosen, history, key, stored.past, left_out, stored.batch, excluded)
    now = evaluate_many(chosen, [asked], AnomalySettings(**details["settings"]))[0].to_dict()
    return recompute.Recomputed(recompute.compared_by(_RECOMPUTED, then, now), series=key)

"""What would have caught the batches that people rejected: checks on metrics that are stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.dialect import parse_expression, to_sql
from dqsql.model.wording import first_of, plural
from dqsql.suggestions.intervals import round_up_by, written
from dqsql.suggestions.suggestion import Suggestion

# Beside the range of accepted batches, so much of it is let pass; of a constant one, of its value.
_SLACK = 0.1
_LEAST = 7
# So many of the newest accepted batches tell how often a check alarms.
_TRIED = 120

# So many rejected batches are named.
_NAMED = 3


@dataclass(frozen=True)
class MetricSeries:
    """The values of one metric by batch.

    `call` and `arguments` are the metric as an annotation writes it, on the line of `column`.
    """

    column: str | None
    call: str
    arguments: tuple[str, ...]
    values: Mapping[str, float]


class Anomalies(Protocol):
    """What `@anomaly` of a metric says of some of its values."""

    def __call__(
        self, values: Mapping[str, float], accepted: Sequence[str], asked: Sequence[str]
    ) -> Mapping[str, float]:
        """How far out the `asked` batches are: beyond 1 are anomalies; those that are decided on.

        Each is compared with the `accepted` ones before it, which come oldest first.
        """
        ...


@dataclass(frozen=True)
class IncidentCheck:
    """A check, and which batches it would have told of.

    Attributes:
        series: the metric.
        comparison: what it is compared with; empty: `@anomaly` of it.
        caught: the rejected batches that it tells of.
        alarms: the accepted batches that it tells of.
        judged: how many accepted batches it was tried on.
        distance: how far out the caught ones lie, in ranges or deviations of the accepted.
    """

    series: MetricSeries
    comparison: str
    caught: tuple[str, ...]
    alarms: tuple[str, ...]
    judged: int
    distance: float


def catching(
    series: Sequence[MetricSeries],
    rejected: Sequence[str],
    accepted: Sequence[str],
    anomalies: Anomalies,
) -> list[IncidentCheck]:
    """Checks that would have caught rejected batches, the most useful first.

    Batches come oldest first. The first one catches most with the fewest false alarms; each further
    one adds most to those before it. Those that add nothing are left out.
    """
    candidates = [
        c for s in series for c in _of_series(s, rejected, accepted, anomalies) if c.caught
    ]
    ranked: list[IncidentCheck] = []
    covered: set[str] = set()
    while candidates:
        best = max(candidates, key=lambda c: _worth(c, covered))
        if not set(best.caught) - covered:
            break
        ranked.append(best)
        covered |= set(best.caught)
        candidates.remove(best)
    return ranked


def _worth(check: IncidentCheck, covered: set[str]) -> tuple[float, ...]:
    added = len(set(check.caught) - covered)
    rate = len(check.alarms) / max(check.judged, 1)
    worth = added and added - 5 * rate
    # A bound needs no history, and says more than that something is odd.
    is_bound = bool(check.comparison)
    return (worth, -len(check.alarms), len(check.caught), is_bound, check.distance)


def _of_series(
    series: MetricSeries, rejected: Sequence[str], accepted: Sequence[str], anomalies: Anomalies
) -> Iterator[IncidentCheck]:
    good = [b for b in accepted if math.isfinite(series.values.get(b, math.nan))]
    bad = [b for b in rejected if math.isfinite(series.values.get(b, math.nan))]
    if len(good) < _LEAST or not bad:
        return
    yield from _bounds(series, bad, good)
    yield _anomaly(series, bad, good, anomalies)


def _bounds(
    series: MetricSeries, bad: Sequence[str], good: Sequence[str]
) -> Iterator[IncidentCheck]:
    """A bound above and one below all accepted batches, as far as some rejected one lies out."""
    values = np.array([series.values[b] for b in good])
    for sign, comparison in ((1.0, "<="), (-1.0, ">=")):
        limit, spread = _limit(sign * values)
        out = {b: sign * series.values[b] - limit for b in bad}
        caught = tuple(b for b in bad if out[b] > 0)
        if not caught:
            continue
        # A bound from all others would have told of the outermost accepted one, or not.
        last = int(np.argmax(sign * values))
        others, _ = _limit(np.delete(sign * values, last))
        alarms = (good[last],) if sign * values[last] > others else ()
        distance = min(out[b] for b in caught) / spread
        bound = f"{comparison} {written(sign * limit)}"
        yield IncidentCheck(series, bound, caught, alarms, len(good), distance)


def _limit(values: FloatArray) -> tuple[float, float]:
    """A bound that all values meet, as it is written, and the width of their range."""
    low, high = float(values.min()), float(values.max())
    spread = (high - low) or abs(high) or 1.0
    return round_up_by(high + _SLACK * spread, spread), spread


def _anomaly(
    series: MetricSeries, bad: Sequence[str], good: Sequence[str], anomalies: Anomalies
) -> IncidentCheck:
    """Each batch against the accepted ones before it."""
    tried = good[-_TRIED:]
    scores = anomalies(series.values, good, [*bad, *tried])
    caught = tuple(b for b in bad if scores.get(b, 0.0) > 1)
    alarms = tuple(b for b in tried if scores.get(b, 0.0) > 1)
    judged = sum(b in scores for b in tried)
    distance = min((scores[b] for b in caught), default=0.0)
    return IncidentCheck(series, "", caught, alarms, judged, min(distance, 100.0))


def suggestion_of(check: IncidentCheck, rejected: Sequence[str]) -> Suggestion:
    """The annotation that makes a check of stored metrics."""
    series = check.series
    reason = (
        f"finds {len(check.caught)} of {plural(len(rejected), 'rejected batch')}"
        f" ({first_of(check.caught, _NAMED)});"
        f" {plural(len(check.alarms), 'false alarm')} on {check.judged} accepted"
    )
    call, arguments = series.call, series.arguments
    suggestion = Suggestion(
        "incident", call, series.column, call, reason, arguments, check.comparison
    )
    if check.comparison:
        return suggestion
    metric = to_sql(parse_expression(f"{call}({', '.join(arguments)})" if arguments else call))
    return replace(suggestion, call="anomaly", arguments=(metric,), takes_column=False)

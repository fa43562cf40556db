"""What would have caught rejected batches: ranked by what each check adds."""

from __future__ import annotations

import numpy as np

from dqsql.suggestions.incidents import MetricSeries, catching

DAYS = [f"2024-{1 + d // 28:02d}-{1 + d % 28:02d}" for d in range(120)]
BAD = [DAYS[50], DAYS[80], DAYS[110]]
GOOD = [d for d in DAYS if d not in BAD]


def series(name: str, values: list[float], column: str | None = "x") -> MetricSeries:
    return MetricSeries(column, name, (), dict(zip(DAYS, values, strict=True)))


def noise(seed: int, level: float = 100.0, width: float = 1.0) -> list[float]:
    drawn = np.random.default_rng(seed).normal(level, width, len(DAYS))
    return [float(v) for v in drawn]


def test_the_metric_that_tells_of_most_comes_first() -> None:
    first, second, quiet = noise(1), noise(2), noise(3)
    for day in (50, 80):
        first[day] = 140.0
    second[110], second[80] = 40.0, 40.0
    found = catching(
        [series("mean", first), series("max", second), series("min", quiet)], BAD, GOOD
    )
    caught = {c.series.call: c.caught for c in found}
    assert caught == {"mean": (BAD[0], BAD[1]), "max": (BAD[1], BAD[2])}
    assert not [c for c in found if c.alarms]
    second[50] = 40.0
    found = catching([series("mean", first), series("max", second)], BAD, GOOD)
    # Now one tells of all, and the other adds nothing.
    assert [(c.series.call, c.caught) for c in found] == [("max", tuple(BAD))]


def test_a_bound_on_the_side_where_the_rejected_lie() -> None:
    values = noise(4)
    values[80] = 20.0
    (found,) = catching([series("completeness", values)], [DAYS[80]], GOOD)
    assert found.comparison.startswith(">= ") or not found.comparison
    assert found.judged >= len(GOOD) - 7


def test_what_drifts_is_caught_by_an_anomaly_and_not_by_a_bound() -> None:
    """Much more in spring is less than what is usual in summer."""
    values = [100.0 + 3 * d + v for d, v in enumerate(noise(5, 0.0))]
    values[50] += 200
    (found,) = catching([series("row_count", values, None)], [DAYS[50]], GOOD)
    assert (found.comparison, found.caught) == ("", (DAYS[50],))


def test_nothing_is_suggested_of_nothing() -> None:
    assert catching([series("mean", noise(6))], BAD, GOOD[:5]) == []
    assert catching([series("mean", [float("nan")] * 120)], BAD, GOOD) == []
    found = catching([series("mean", noise(7))], BAD, GOOD)
    assert all(len(c.alarms) <= 1 for c in found)

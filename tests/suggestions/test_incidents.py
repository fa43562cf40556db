"""What would have caught rejected batches: ranked by what each check adds."""

from __future__ import annotations

import numpy as np
import pytest

from dqsql.monitors.kinds.anomaly.replay import default_scores
from dqsql.suggestions.incidents import MetricSeries, catching
from dqsql.suggestions.intervals import round_down, round_up, written

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
        [series("mean", first), series("max", second), series("min", quiet)],
        BAD,
        GOOD,
        default_scores,
    )
    caught = {c.series.call: c.caught for c in found}
    assert caught == {"mean": (BAD[0], BAD[1]), "max": (BAD[1], BAD[2])}
    assert not [c for c in found if c.alarms]
    second[50] = 40.0
    found = catching([series("mean", first), series("max", second)], BAD, GOOD, default_scores)
    # Now one tells of all, and the other adds nothing.
    assert [(c.series.call, c.caught) for c in found] == [("max", tuple(BAD))]


def test_a_bound_on_the_side_where_the_rejected_lie() -> None:
    values = noise(4)
    values[80] = 20.0
    (found,) = catching([series("completeness", values)], [DAYS[80]], GOOD, default_scores)
    assert found.comparison.startswith(">= ") or not found.comparison
    assert found.judged >= len(GOOD) - 7


def test_what_drifts_is_caught_by_an_anomaly_and_not_by_a_bound() -> None:
    """Much more in spring is less than what is usual in summer."""
    values = [100.0 + 3 * d + v for d, v in enumerate(noise(5, 0.0))]
    values[50] += 200
    (found,) = catching([series("row_count", values, None)], [DAYS[50]], GOOD, default_scores)
    assert (found.comparison, found.caught) == ("", (DAYS[50],))


def test_nothing_is_suggested_of_nothing() -> None:
    assert catching([series("mean", noise(6))], BAD, GOOD[:5], default_scores) == []
    assert catching([series("mean", [float("nan")] * 120)], BAD, GOOD, default_scores) == []
    found = catching([series("mean", noise(7))], BAD, GOOD, default_scores)
    assert all(len(c.alarms) <= 1 for c in found)


@pytest.mark.parametrize(
    ("level", "width", "bad"),
    [(1_000_000.0, 100.0, 1_005_000.0), (100.0, 0.2, 100.9), (1e-9, 1e-10, 3e-9)],
)
def test_a_written_bound_catches_what_it_says(level: float, width: float, bad: float) -> None:
    values = [level + width * (i % 10) / 10 for i in range(len(DAYS))]
    values[80] = bad
    (found,) = catching([series("max", values)], [DAYS[80]], GOOD, default_scores)
    assert found.caught == (DAYS[80],) and found.comparison.startswith("<= ")
    bound = float(found.comparison.removeprefix("<= "))
    assert max(values[:80]) < bound < bad


def test_batches_named_by_numbers_come_in_their_order() -> None:
    names = [str(i) for i in range(1, 61)]
    values = dict(zip(names, noise(8)[:60], strict=True)) | {"9": 400.0}
    good = [n for n in names if n != "9"]
    (found,) = catching([MetricSeries("x", "max", (), values)], ["9"], good, default_scores)
    assert found.caught == ("9",)
    scores = default_scores(values, good, ["9", "10"])
    assert scores["9"] > 1 >= scores["10"]


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-22, 0.000123, 12.5, 1e14, 3.0])
def test_numbers_are_written_as_they_are(value: float) -> None:
    assert float(written(value)) == value
    assert round_down(value) <= value <= round_up(value)

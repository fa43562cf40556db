"""`@avh` of few values: whole quartiles, batches of hardly any rows."""

from __future__ import annotations

import numpy as np
import pytest

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.avh import AvhConfig, ColumnHistory, evaluate, fit_programs
from dqsql.decisions.program import Program, breaks

ISSUES = ("unit_x10", "unit_x0.1", "null_0.5")


def fitted(metrics: tuple[str, ...], past: FloatArray, issues: FloatArray) -> Program:
    history = ColumnHistory("c", metrics, past, ISSUES, issues)
    return fit_programs([history], AvhConfig(fpr=0.01))[0]


@pytest.mark.parametrize("metric", ["p25", "median", "p75"])
def test_a_quartile_of_ratings_may_be_the_next_one(metric: str) -> None:
    """Where a quarter of them are 3 or less, it is 3 on one day and 4 on the next."""
    rng = np.random.default_rng(2)
    past = np.column_stack([np.full(30, 4.0), 3.9 + 0.05 * rng.normal(size=30)])
    names, issues = (metric, "mean"), np.array([[40.0, 39.0], [0.4, 0.39], [2.0, 1.95]])
    program = fitted((metric,), past[:, :1], issues[:, :1])
    series = dict(zip(names, past.T, strict=True))
    cases = [(3.0, 3.8, "pass"), (4.0, 3.9, "pass"), (3.05, 3.8, "fail"), (2.0, 3.8, "fail")]
    # If all are one less, the mean is, too.
    cases += [(3.0, 2.9, "fail"), (40, 39.0, "fail")]
    for value, mean, status in cases:
        new = {metric: value, "mean": mean}
        assert evaluate(program, series, new).status == status
        told = breaks(program, series, {n: np.array([float(v)]) for n, v in new.items()}, 1)
        assert told[0] == (status == "fail")


METRICS = ("row_count", "mean", "dist_val_count", "pat_cosine")


def measured(rows: int, rng: np.random.Generator) -> list[float]:
    values = rng.choice(["low", "mid", "high"], rows, p=[0.6, 0.3, 0.1])
    four = np.mean(values == "high")
    cosine = 1 - 0.9 / np.hypot(0.9, 0.1) * (1 - four) / np.hypot(1 - four, four + 1e-9)
    return [rows, float(np.mean(rng.normal(100, 30, rows))), float(len({*values})), float(cosine)]


def test_hardly_any_rows_are_not_held_against_the_smallest_batch() -> None:
    """Of ten rows a day, and of one on some days, one row more says nothing."""
    alarms, wrong = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        past = np.array([measured(int(rng.integers(1, 21)), rng) for _ in range(30)])
        issues = np.array([measured(12, rng) for _ in ISSUES]) * [[10], [0.1], [0.5]]
        program = fitted(METRICS, past, issues)
        series = dict(zip(METRICS, past.T, strict=True))
        for rows in (1, 2, 3):
            new = dict(zip(METRICS, measured(rows, rng), strict=True))
            alarms += evaluate(program, series, new).status == "fail"
            held = breaks(program, series, {n: np.array([v]) for n, v in new.items()}, 1)
            assert held[0] == (evaluate(program, series, new).status == "fail")
        far = {**dict(zip(METRICS, measured(3, rng), strict=True)), "mean": 1e5}
        wrong += evaluate(program, series, far).status == "fail"
    assert alarms <= 3
    assert wrong >= 38


def test_a_batch_of_hardly_any_rows_is_told_as_such() -> None:
    past = np.array([[12.0, 100.0 + i % 5, 3.0, 0.01] for i in range(29)] + [[2, 90.0, 1, 0.01]])
    issues = np.array([[12, 1000, 3, 0.5], [12, 10, 3, 0.5], [6, 50, 2, 0.4]], dtype=float)
    program = fitted(METRICS, past, issues)
    series = dict(zip(METRICS, past.T, strict=True))
    verdict = evaluate(program, series, dict(zip(METRICS, (2, 1e4, 2, 0.9), strict=True)))
    (apart,) = [c for c in verdict.clauses if c.clause.metric == "pat_cosine"]
    assert apart.status == "fail"
    assert apart.explanation.endswith(
        "this batch has 2 rows, and half of those learned from have at least 12."
    )

"""Programs: learning, evaluating, explaining."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dqsql.decisions.avh import (
    AvhConfig,
    ColumnHistory,
    evaluate,
    fit_program,
    fit_programs,
)
from dqsql.decisions.program import Program, ProgramVerdict
from dqsql.errors import DecisionError

BOUNDS = ("paper", "calibrated")
ISSUES = ("volume_x2", "volume_x10", "volume_0.1", "null_0.5")


def history(values: np.ndarray, metric: str = "row_count", name: str = "c") -> ColumnHistory:
    newest = values[-1]
    issues = np.array([[newest * 2], [newest * 10], [newest * 0.1], [np.nan]])
    batches = tuple(f"day-{i}" for i in range(len(values)))
    return ColumnHistory(name, (metric,), values[:, None], ISSUES, issues, batches)


def verdict(values: np.ndarray, new: float, config: AvhConfig) -> ProgramVerdict:
    program = fit_program(history(values), config)
    return evaluate(program, {"row_count": values}, {"row_count": new})


def steady(size: int = 30, seed: int = 0) -> np.ndarray:
    return 1000 + 20 * np.random.default_rng(seed).normal(size=size)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_steady_history(bounds: str) -> None:
    config = AvhConfig(fpr=0.01, bounds=bounds)  # type: ignore[arg-type]
    assert verdict(steady(), 1010.0, config).status == "pass"
    bad = verdict(steady(), 2000.0, config)
    assert bad.status == "fail"
    assert bad.score > 1
    text = bad.explanation
    for part in ("row_count is 2,000", "day-0 to day-29", "probability at most", "volume"):
        assert part in text
    clause = bad.clauses[0]
    assert 1010 < clause.upper < 2000


@pytest.mark.parametrize("bounds", BOUNDS)
def test_constant_history(bounds: str) -> None:
    config = AvhConfig(bounds=bounds)  # type: ignore[arg-type]
    values = np.full(30, 72.0)
    assert verdict(values, 72.0, config).status == "pass"
    assert verdict(values, 144.0, config).status == "fail"
    # The paper's equality cries at one row; calibrated knows that 30 batches prove no constant.
    assert verdict(values, 71.0, config).status == ("fail" if bounds == "paper" else "pass")


@pytest.mark.parametrize("bounds", BOUNDS)
def test_growing_history_follows_its_growth(bounds: str) -> None:
    rng = np.random.default_rng(3)
    values = 1000.0 * np.cumprod(1 + 0.05 + 0.005 * rng.normal(size=31))
    config = AvhConfig(fpr=0.05, bounds=bounds)  # type: ignore[arg-type]
    past = values[:-1]
    assert verdict(past, float(values[-1]), config).status == "pass"
    assert verdict(past, float(past[-1]) * 3, config).status == "fail"


@pytest.mark.parametrize("bounds", BOUNDS)
def test_weekly_history(bounds: str) -> None:
    rng = np.random.default_rng(4)
    season = np.array([100.0, 103, 101, 99, 102, 40, 30])
    values = np.tile(season, 6)[:36] * (1 + 0.01 * rng.normal(size=36))
    config = AvhConfig(fpr=0.05, bounds=bounds)  # type: ignore[arg-type]
    assert verdict(values[:35], float(values[35]), config).status == "pass"
    assert verdict(values[:35], 400.0, config).status == "fail"


@pytest.mark.parametrize("bounds", BOUNDS)
def test_two_regimes_are_wide_or_dropped_but_never_alarm_on_either(bounds: str) -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([np.full(15, 100.0), np.full(15, 200.0)]) + rng.normal(size=30)
    config = AvhConfig(fpr=0.01, bounds=bounds)  # type: ignore[arg-type]
    assert verdict(values, 200.5, config).status == "pass"


@pytest.mark.parametrize("bounds", BOUNDS)
def test_eight_batches_suffice_and_seven_do_not(bounds: str) -> None:
    config = AvhConfig(fpr=0.05, bounds=bounds)  # type: ignore[arg-type]
    values = steady(8, seed=6)
    assert verdict(values, 1000.0, config).status == "pass"
    with pytest.raises(DecisionError, match="at least 8"):
        fit_program(history(values[:7]), config)


def test_missing_metric_is_its_own_status() -> None:
    result = verdict(steady(), float("nan"), AvhConfig())
    assert result.status == "null"
    assert "has no value" in result.explanation


def test_round_trip_through_json() -> None:
    program = fit_program(history(steady()))
    text = json.dumps(program.to_dict(), allow_nan=False)
    assert Program.from_dict(json.loads(text)) == program


def test_budget_and_clause_limit() -> None:
    for bounds in BOUNDS:
        columns = many(5, bounds)
        for fpr in (0.001, 0.01, 0.1):
            config = AvhConfig(fpr=fpr, bounds=bounds)  # type: ignore[arg-type]
            for program in fit_programs(columns, config):
                assert program.fpr_bound <= fpr * (1 + 1e-9)
        short = fit_programs(columns, AvhConfig(max_clauses=1))
        assert all(len(program.clauses) <= 1 for program in short)


def many(count: int, name: str = "c") -> list[ColumnHistory]:
    rng = np.random.default_rng(7)
    metrics = ("min", "max", "mean", "row_count", "unique_ratio", "emd", "js_div")
    out = []
    for i in range(count):
        values = np.abs(rng.normal(10, 1, size=(30, len(metrics))))
        values[0, 5:] = np.nan
        issues = np.abs(values[-1] * rng.lognormal(0, 1.5, size=(20, len(metrics))))
        names = tuple(f"schema_{j}" for j in range(20))
        out.append(ColumnHistory(f"{name}{i}", metrics, values, names, issues))
    return out


def test_batched_equals_one_by_one() -> None:
    columns = many(4)
    assert fit_programs(columns) == [fit_program(column) for column in columns]
    programs = fit_programs(columns, AvhConfig(two_distribution=False))
    assert not any(c.metric in ("emd", "js_div") for p in programs for c in p.clauses)
    histories = [dict(zip(c.metrics, c.values.T, strict=True)) for c in columns]
    new = [dict(zip(c.metrics, c.values[-1], strict=True)) for c in columns]
    verdicts = map(evaluate, programs, histories, new)
    assert {v.status for v in verdicts} == {"pass"}


def test_bad_arguments() -> None:
    with pytest.raises(DecisionError, match="between 0 and 1"):
        fit_program(history(steady()), AvhConfig(fpr=0.0))
    with pytest.raises(DecisionError, match="unknown bounds"):
        fit_program(history(steady()), AvhConfig(bounds="loose"))  # type: ignore[arg-type]

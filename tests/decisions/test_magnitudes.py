"""Metrics of any size: infinities, and numbers whose squares no double can hold.

Warnings are errors in tests, so that each decision here was also made without one.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dqsql.decisions.anomaly import strategy
from dqsql.decisions.avh import AvhConfig, ColumnHistory
from dqsql.decisions.avh import evaluate as hold
from dqsql.decisions.distances import NumericState, numeric_distances
from dqsql.decisions.magnitudes import LARGEST, infinite_if_larger, usable, without_outliers
from dqsql.decisions.novelty import decide_novelty
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, novelty_config
from tests.decisions.one_column import fit_program
from tests.decisions.one_value import evaluate

# What some systems write where there is no value.
NO_VALUE = sys.float_info.max
FEATURES = [Feature("c", "min"), Feature("c", "max"), Feature("c", "completeness")]
METRICS = ("min", "max", "mean", "sum", "range", "row_count", "emd")
NOVELTY = [novelty_config(mode=m, fpr=f) for m in ("paper", "subspace") for f in (None, 0.01)]

numbers = st.one_of(
    st.floats(-1e6, 1e6), st.floats(), st.sampled_from([NO_VALUE, -NO_VALUE, 1e160, 0.0])
).map(lambda x: 0.0 if abs(x) < 1e-100 else x)


def steady(size: int, count: int) -> np.ndarray:
    return np.random.default_rng(4).normal(10, 1, (size, count))


def test_what_is_usable() -> None:
    values = [np.nan, np.inf, -np.inf, NO_VALUE, -LARGEST, 0.0]
    assert usable(values).tolist() == [False] * 4 + [True] * 2
    found = infinite_if_larger(values)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [np.inf, -np.inf, np.inf, -LARGEST, 0.0]


@pytest.mark.parametrize("config", NOVELTY)
@pytest.mark.parametrize("value", [NO_VALUE, -NO_VALUE, 1e160, np.inf])
def test_novelty_of_a_batch_with_an_enormous_metric(config: NoveltyConfig, value: float) -> None:
    history = steady(30, 3)
    found = decide_novelty(FEATURES, history, [10.0, value, 10.0], config)
    assert found.status == "anomalous"
    assert found.contributions[0].feature == FEATURES[1]
    # As history such a value says nothing, like none at all.
    with_it, without = history.copy(), history.copy()
    with_it[3, 1], without[3, 1] = value, np.nan
    new = [10.0, 10.5, 9.5]
    assert decide_novelty(FEATURES, with_it, new, config).to_dict() == (
        decide_novelty(FEATURES, without, new, config).to_dict()
    )


@pytest.mark.parametrize("name", ["online_normal", "batch_normal"])
def test_an_enormous_value_is_no_history_of_an_anomaly(name: str) -> None:
    history = steady(30, 1)[:, 0]
    with_it, without = history.copy(), history.copy()
    with_it[3], without[3] = NO_VALUE, np.nan
    found, wanted = (evaluate(strategy(name), h, None, 11.0) for h in (with_it, without))
    assert found == wanted
    assert found.status == "ok"
    assert evaluate(strategy(name), history, None, NO_VALUE).status == "anomalous"


def test_distances_of_infinite_values() -> None:
    one = NumericState(np.array([-np.inf, 1.0, 2.0, np.inf]), 4, np.nan, np.nan)
    other = NumericState(np.array([1.0, 1.5, 2.0, np.inf]), 4, np.inf, np.inf)
    found = numeric_distances(one, other)
    assert found["ks_dist"] == 0.25
    assert np.isnan(found["emd"])
    assert np.isnan(found["cohen_d"])


@settings(max_examples=30)
@given(arrays(float, (12, 3), elements=numbers), arrays(float, 3, elements=numbers))
def test_novelty_of_anything(history: np.ndarray, new: np.ndarray) -> None:
    for config in NOVELTY:
        found = decide_novelty(FEATURES, history, new, config)
        assert found.status in ("ok", "anomalous", "too_little_history", "no_value")
        if found.status in ("ok", "anomalous"):
            assert (found.score > found.threshold * (1 + 1e-12)) == (found.status == "anomalous")


@settings(max_examples=30)
@given(arrays(float, 20, elements=numbers), numbers)
def test_anomaly_of_anything(history: np.ndarray, new: float) -> None:
    for name in ("online_normal", "batch_normal"):
        found = evaluate(strategy(name), history, None, new)
        assert found.status in ("ok", "anomalous", "too_little_history", "no_value")


@settings(max_examples=30)
@given(
    arrays(float, (12, len(METRICS)), elements=numbers),
    arrays(float, (4, len(METRICS)), elements=numbers),
)
def test_bounds_of_anything(values: np.ndarray, issues: np.ndarray) -> None:
    for bounds in ("paper", "calibrated"):
        config = AvhConfig(bounds=bounds)  # type: ignore[arg-type]
        history = ColumnHistory("c", METRICS, values, tuple("abcd"), issues)
        if history.rows.size < config.min_history:
            continue
        program = fit_program(history, config)
        past = {name: values[:, place] for place, name in enumerate(METRICS)}
        new = {name: float(issues[0, place]) for place, name in enumerate(METRICS)}
        assert hold(program, past, new).status in ("pass", "fail", "null")


def test_one_odd_batch_does_not_blind_a_bound() -> None:
    """A tenfold volume among the first batches once hid all that was less than that."""
    volume = 1000 + 20 * np.random.default_rng(0).normal(size=30)
    volume[4] = 10_000
    issues = np.array([[500.0], [2000.0], [10_000.0]])
    names = ("volume_0.5", "volume_x2", "volume_x10")
    program = fit_program(ColumnHistory("c", ("row_count",), volume[:, None], names, issues))
    for rows, status in ((1010.0, "pass"), (500.0, "fail"), (2000.0, "fail")):
        assert hold(program, {"row_count": volume}, {"row_count": rows}).status == status
    # What happens again and again is part of the history.
    volume[[12, 20, 27]] = 10_000
    program = fit_program(ColumnHistory("c", ("row_count",), volume[:, None], names, issues))
    assert hold(program, {"row_count": volume}, {"row_count": 10_000.0}).status == "pass"


def test_a_lone_odd_batch_among_equal_ones_is_not_learned() -> None:
    values = [1_000.0] * 12 + [10_000.0]
    assert np.isnan(without_outliers(values)).tolist() == [False] * 12 + [True]
    # Distances of which all others are 0 have no scale.
    assert without_outliers([0.0] * 12 + [3.0], distance=True).tolist() == [0.0] * 12 + [3.0]

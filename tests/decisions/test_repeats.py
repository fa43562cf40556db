"""A batch that is delivered again under a new name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.decisions.repeats import repeated

COLUMNS = np.repeat(np.arange(6), 4)


def varying(seed: int, batches: int = 30) -> np.ndarray:
    """Metrics of six columns of which no two batches have the same, four of each column."""
    return np.random.default_rng(seed).normal(100, 10, size=(batches, COLUMNS.size))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(8, 60), st.sampled_from([0.05, 0.01]), st.data())
def test_a_copy_is_found_and_named(
    seed: int, batches: int, fpr: float, data: st.DataObject
) -> None:
    history = varying(seed, batches)
    place = data.draw(st.integers(0, batches - 1))
    found = repeated(COLUMNS, history, history[place].copy(), fpr)
    assert found is not None
    assert (found.place, found.metrics, found.columns) == (place, 24, 6)
    assert found.chance < fpr


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 29), st.integers(0, 23), st.floats(1e-6, 1e9))
def test_one_other_metric_is_enough_to_be_another_batch(
    seed: int, place: int, metric: int, by: float
) -> None:
    history = varying(seed)
    new = history[place].copy()
    new[metric] += by
    assert repeated(COLUMNS, history, new, 0.05) is None


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_order_of_metrics_and_their_units_do_not_matter(seed: int) -> None:
    history = varying(seed)
    order = np.random.default_rng(seed).permutation(COLUMNS.size)
    found = repeated(COLUMNS, history, history[7], 0.05)
    assert found is not None
    assert repeated(COLUMNS[order], history[:, order], history[7, order], 0.05) == found
    assert repeated(COLUMNS, history * -3.7e6, history[7] * -3.7e6, 0.05) == found


def test_batches_that_are_often_alike_are_none() -> None:
    assert repeated(COLUMNS, np.ones((30, 24)), np.ones(24), 0.05) is None
    history = varying(3)
    # A table that had the same rows three times again will have them once more.
    for copies, place in enumerate((20, 22, 25)):
        found = repeated(COLUMNS, history, history[4], 0.05)
        assert found is not None and found.place == (4, 20, 22)[copies]
        history[place] = history[4]
    assert repeated(COLUMNS, history, history[4], 0.05) is None


def test_constant_columns_and_single_ones_say_nothing() -> None:
    history = varying(5)
    history[:, 4:] = 1.0
    assert repeated(COLUMNS, history, history[3], 0.05) is None
    # Nor do copies of one column say more than half of what as many others would.
    two = np.tile(varying(5)[:, :1], 2)
    assert repeated(np.array([0, 1]), two, two[3], 0.05) is None


def test_metrics_without_a_value_are_alike_and_not_counted() -> None:
    history = varying(6)
    history[:, 5] = np.nan
    found = repeated(COLUMNS, history, history[3], 0.05)
    assert found is not None
    assert (found.metrics, found.columns) == (23, 6)
    new = history[3].copy()
    new[6] = np.nan
    assert repeated(COLUMNS, history, new, 0.05) is None


def test_too_few_batches_say_nothing() -> None:
    history = varying(7, 2)
    assert repeated(COLUMNS, history[:0], history[0], 0.05) is None
    assert repeated(COLUMNS, history[:1], history[0], 0.05) is None
    assert repeated(COLUMNS, history, history[0], 0.05) is None


@pytest.mark.parametrize("rows", [1, 2, 5, 20])
@pytest.mark.parametrize("batches", [8, 30])
def test_small_tables_keep_the_rate(rows: int, batches: int) -> None:
    """Few rows of few values, in six columns of which two follow from others."""
    alarms = []
    for seed in range(300):
        rng = np.random.default_rng([seed, rows, batches])
        drawn = [rng.binomial(rows, p, size=batches + 1) for p in (0.05, 0.2, 0.5, 0.9)]
        counts = np.array([*drawn, drawn[1] * 2, drawn[2] + drawn[3]], dtype=float).T
        found = repeated(np.arange(6), counts[:batches], counts[batches], 0.05)
        alarms.append(found is not None)
    assert np.mean(alarms) <= 0.05

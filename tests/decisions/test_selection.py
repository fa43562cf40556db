"""Algorithm 1 against brute force."""

from __future__ import annotations

from itertools import combinations
from math import e

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.decisions.coverage import select_clauses


def optimum(fpr: np.ndarray, covers: np.ndarray, budget: float) -> int:
    best = 0
    for size in range(1, len(fpr) + 1):
        for subset in map(list, combinations(range(len(fpr)), size)):
            if fpr[subset].sum() <= budget:
                best = max(best, int(covers[subset].any(axis=0).sum()))
    return best


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 12))
def test_feasible_and_near_the_optimum(seed: int, candidates: int, issues: int) -> None:
    rng = np.random.default_rng(seed)
    fpr = rng.choice([0.0, 0.1, 0.25, 0.5, 1.0, 3.0], candidates) * rng.uniform(0.5, 1, candidates)
    covers = rng.random((candidates, issues)) < rng.uniform(0.1, 0.6)
    chosen = select_clauses(fpr, covers, 1.0)
    assert fpr[chosen].sum() <= 1.0 + 1e-9
    reached = int(covers[chosen].any(axis=0).sum()) if chosen else 0
    assert reached >= (0.5 - 0.5 / e) * optimum(fpr, covers, 1.0)


def test_free_clauses_come_first() -> None:
    covers = np.array([[1, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
    assert select_clauses(np.array([0.01, 0.0]), covers, 0.01) == [1, 0]


def test_best_single_clause_beats_a_cheap_start() -> None:
    covers = np.zeros((2, 50), dtype=bool)
    covers[0, 0] = True
    covers[1, 1:] = True
    assert select_clauses(np.array([1e-6, 0.01]), covers, 0.01) == [1]


def test_clause_limit_and_nothing_affordable() -> None:
    covers = np.eye(5, dtype=bool)
    assert len(select_clauses(np.full(5, 0.001), covers, 0.1, max_clauses=2)) == 2
    assert select_clauses(np.full(5, 0.5), covers, 0.1) == []


def test_of_clauses_that_find_the_same_the_one_with_fewest_false_alarms_is_taken() -> None:
    covers = np.array([[1, 1, 1, 0, 0], [1] * 5, [1] * 5, [1] * 5], dtype=bool)
    assert select_clauses(np.array([1e-9, 0.01, 0.005, 0.001]), covers, 0.01, 1) == [3]

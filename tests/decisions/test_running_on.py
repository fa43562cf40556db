"""Numbers that only ever grow."""

from __future__ import annotations

import numpy as np
import pytest

from dqsql.decisions.running_on import is_furthest, is_repeat, moved_on

PAST = np.cumsum(np.random.default_rng(1).uniform(90, 110, (20, 1)), axis=0)
ONES = np.ones(19)


@pytest.mark.parametrize(("step", "usual"), [(100, True), (20, False), (400, False), (-1, False)])
def test_a_usual_step_from_wherever_the_batch_before_was(step: float, usual: bool) -> None:
    before = PAST[-1] + 5_000
    assert moved_on(PAST, before, before + step, ONES) is usual


def test_what_does_not_always_grow_does_not_run() -> None:
    falling = PAST.copy()
    falling[10] = 0
    assert not moved_on(falling, PAST[-1], PAST[-1] + 100, ONES)
    assert not moved_on(PAST[:3], PAST[-1], PAST[-1] + 100, ONES[:2])
    missing = PAST.copy()
    missing[4] = np.nan
    assert not moved_on(missing, PAST[-1], PAST[-1] + 100, ONES)


def test_one_jump_allows_no_other_and_gaps_count() -> None:
    jumped = PAST.copy()
    jumped[10:] += 5_000
    assert not moved_on(jumped, jumped[-1], jumped[-1] + 5_000, ONES)
    assert moved_on(jumped, jumped[-1], jumped[-1] + 200, ONES, 2)
    thinned = np.delete(PAST, 10, axis=0)
    counts = np.where(np.arange(18) == 9, 2.0, 1.0)
    assert moved_on(thinned, PAST[-1], PAST[-1] + 100, counts)
    assert not moved_on(thinned, PAST[-1], PAST[-1] + 180, counts)


def test_a_batch_that_was_delivered_again_stops_nothing() -> None:
    repeated = np.concatenate([PAST[:10], PAST[9:10], PAST[11:]])
    assert moved_on(repeated, PAST[-1], PAST[-1] + 100, ONES)
    assert not moved_on(repeated, PAST[-1], PAST[-1], ONES)
    often = np.repeat(PAST[:10], 2, axis=0)
    assert not moved_on(often, often[-1], often[-1] + 100, np.ones(len(often) - 1))


def test_which_batch_before_is_the_odd_one() -> None:
    nan = np.nan
    assert is_furthest(np.array([nan, 3.0, 4.0, 5.0])) and not is_furthest(
        np.array([nan, 5.0, 4.0])
    )
    assert is_repeat(np.array([nan, 3.0, 4.0, 0.0])) and not is_repeat(np.array([nan, 0.0, 0.0]))
    assert not is_repeat(np.array([nan, 0.0])) and not is_repeat(np.array([nan, 3.0, nan]))

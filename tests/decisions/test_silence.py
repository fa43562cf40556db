"""What was always there and is not any more."""

from __future__ import annotations

import math

import numpy as np

from dqsql.decisions.silence import absences, became_constant, listed, lost_values, taken_over

ABC = frozenset("abc")


def test_a_segment_that_vanished() -> None:
    before = [ABC] * 30
    (found,) = absences(before, frozenset("ab"), 0.01)
    assert found.words == "c (in all of 30 batches before)"
    assert absences(before, ABC, 0.01) == []
    # Too few batches, and a segment that comes and goes.
    assert absences([ABC] * 6, frozenset("ab"), 0.01) == []
    odd = [ABC if i % 5 else frozenset("ab") for i in range(30)]
    assert absences(odd, frozenset("ab"), 0.01) == []
    # It counts from when it first occurred.
    late = [frozenset("ab")] * 20 + [ABC] * 15
    assert [a.name for a in absences(late, frozenset("ab"), 0.01)] == ["c"]


def test_segments_that_come_and_go_give_few_alarms() -> None:
    alarms = 0
    for seed in range(25):
        there = np.random.default_rng(seed).random((180, 10)) < 0.95
        sets = [frozenset(np.flatnonzero(row).astype(str)) for row in there]
        alarms += sum(bool(absences(sets[i - 60 : i], sets[i], 0.01)) for i in range(60, 180))
    assert alarms / (25 * 120) < 0.01


def test_values_that_no_longer_occur() -> None:
    before = [{"EUR": 0.7, "USD": 0.25, "CHF": 0.05}] * 10
    now = {"EUR": 0.75, "USD": 0.25}
    (found,) = lost_values(before, now, 5_000, 0.01)
    assert found.name == "CHF"
    # In few rows it may be missing by chance.
    assert lost_values(before, now, 500, 0.01) == []
    assert lost_values(before[:3], now, 5_000, 0.01) == []
    assert len(lost_values(before, {}, 50_000, 0.01)) == 3
    assert listed(lost_values(before, {}, 50_000, 0.01)).startswith("CHF (in all of 10")


def test_columns_that_became_constant_or_nan() -> None:
    assert became_constant([False] * 10, True)
    assert not became_constant([False] * 9 + [True], True)
    assert not became_constant([False] * 10, False)
    assert taken_over([0.0] * 10, 0.98)
    assert not taken_over([0.0] * 10, 0.2)
    assert not taken_over([0.0] * 9 + [0.6], 0.98)
    assert not taken_over([math.nan] * 10, 0.98)

"""Which batches a monitor learns from after some that lay far out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dqsql.decisions.stationarity import furthest_metrics, like_the_moved
from dqsql.model.results import MetricValue
from dqsql.monitors.history import SPAN, History, MetricKey

MEAN = MetricKey("price", "mean", "", "delta")
SHARE = MetricKey("price", "complete_ratio", "", "delta")
WINDOW, LEAST = 30, 8
RNG = np.random.default_rng(4)


def name(day: int) -> str:
    return f"{day:03d}"


def history(
    means: dict[int, float], shares: dict[int, float], warned: list[int], days: int
) -> History:
    """Days of a price around 5 that is always there, but for those that are given."""
    names = [name(day) for day in range(days)]
    found = History(names, known=names)
    for day in range(days):
        values = {MEAN: means.get(day, 5 + 0.05 * RNG.normal()), SHARE: shares.get(day, 1.0)}
        for key, value in values.items():
            text = ("orders", name(day), None, key.column, key.metric, "", key.scope)
            found.add([MetricValue(*text, value, None, 100)])
    for day in warned:
        found.warn("check", name(day), math.inf)
    return found


def usual(found: History) -> set[int]:
    """The days to learn from, and all before the last that are looked at."""
    known = list(found.known)
    kept = found.usual("check", known, WINDOW, [MEAN, SHARE], LEAST)
    assert kept == sorted(kept)
    # A daily run reads no more than these.
    assert kept == found.usual("check", known[-WINDOW - SPAN :], WINDOW, [MEAN, SHARE], LEAST)
    return {int(batch) for batch in kept}


def looked_at(days: int) -> set[int]:
    return set(range(max(0, days - WINDOW - SPAN), days))


def test_a_change_for_good_is_all_there_is() -> None:
    later = {day: 9 + 0.05 * day % 2 for day in range(40, 60)}
    # Trifles of the three days do not decide, though that share was never another.
    found = history(later, {41: 0.999, 42: 0.999}, [40, 41, 42], 60)
    assert usual(found) == set(range(40, 60))
    # With too few since, both are usual.
    assert usual(history(later, {}, [40, 41, 42], 47)) == looked_at(47)
    # What is far out from the new level is left out as ever.
    found = history({**later, 55: 20.0}, {}, [40, 41, 42, 55], 60)
    assert usual(found) == set(range(40, 60)) - {55}


def test_an_incident_that_is_over_is_left_out_to_its_end() -> None:
    shares = dict.fromkeys(range(40, 46), 0.5)
    for days in (50, 60, 70, 72, 75, 80):
        kept = sorted(usual(history({}, shares, [40, 41, 42], days)))
        assert not shares.keys() & set(kept[-WINDOW:])


def test_weekends_do_not_hide_that_it_is_over() -> None:
    weekly = {day: 9.0 if day % 7 >= 5 else 5 + 0.2 * RNG.normal() for day in range(70)}
    # Three weekdays like a weekend.
    found = history({**weekly, 42: 9.0, 43: 9.0, 44: 9.0}, {}, [42, 43, 44], 60)
    kept = usual(found)
    assert not kept & {42, 43, 44}
    assert {day for day in looked_at(60) if day % 7 < 5} - {42, 43, 44} <= kept


def test_what_comes_back_twice_comes_and_goes() -> None:
    """Rain: three days in a row, and again on some."""
    rain = dict.fromkeys((36, 37, 38, 44, 50, 51), 9.0)
    assert usual(history(rain, {}, [36, 37, 38, 44, 50], 60)) == looked_at(60)
    # Its end belongs to it, and once more is not often.
    once = dict.fromkeys((36, 37, 38, 40, 44), 9.0)
    assert usual(history(once, {}, [36, 37, 38, 44], 60)) == looked_at(60) - once.keys()


def test_other_batches_far_out_stay_left_out_beside_it() -> None:
    shares = dict.fromkeys((30, 35, 36, 37), 0.5)
    assert usual(history({}, shares, [30, 35, 36, 37], 50)) == looked_at(50) - shares.keys()
    twice = dict.fromkeys((30, 31, 32, 40, 41, 42), 0.5)
    for days in (45, 50, 58):
        found = history({}, twice, list(twice), days)
        assert usual(found) == looked_at(days) - twice.keys()


@pytest.mark.parametrize("days", [69, 70, 71, 72, 73, 80])
def test_they_stay_left_out_while_they_leave_the_window(days: int) -> None:
    shares = dict.fromkeys((40, 41, 42), 0.5)
    assert not usual(history({}, shares, [40, 41, 42], days)) & shares.keys()


def test_batches_far_out_that_recur_are_usual() -> None:
    sundays = dict.fromkeys((35, 42, 49), 2.0)
    assert usual(history(sundays, {}, [35, 42, 49], 60)) == looked_at(60)
    assert usual(history(sundays, {}, [35, 42], 60)) == looked_at(60) - {35, 42}


def test_metrics_without_values_do_not_vote() -> None:
    nan = np.nan
    before = np.array([[1.0, nan, 0.0], [1.1, nan, 0.0], [0.9, nan, 0.0]])
    moved = np.array([[5.0, 3.0, nan]])
    since = np.array([[5.0, nan, nan], [1.0, 3.0, nan], [nan, nan, nan]])
    assert like_the_moved(before, moved, since).tolist() == [True, False, False]
    assert like_the_moved(before, moved, np.zeros((0, 3))).tolist() == []
    assert like_the_moved(before[:, 1:2], moved[:, 1:2], since[:, 1:2]).tolist() == [False] * 3


def test_three_unlike_faults_are_none_that_is_usual() -> None:
    """Nulls, a wrong unit and nulls again: had all been learned from, anything would pass."""
    means, shares = {41: 500.0}, {35: 0.2, 48: 0.4}
    found = history(means, shares, [35, 41, 48], 55)
    assert usual(found) == looked_at(55) - {35, 41, 48}
    # The same thing for the third time is usual; and so is whatever is so frequent.
    found = history(means, {**shares, 52: 0.3}, [35, 41, 48, 52], 55)
    assert usual(found) == looked_at(55) - {41}
    often = {day: 100.0 + day for day in (33, 37, 41)}
    found = history(often, {35: 0.2, 39: 0.3, 43: 0.4}, [33, 35, 37, 39, 41, 43], 55)
    assert usual(found) == looked_at(55)


def test_a_metric_that_never_varied_and_one_that_is_not_there_can_be_furthest() -> None:
    before = np.array([[5.0, 1.0, np.nan], [5.1, 1.0, np.nan], [4.9, 1.0, np.nan]])
    moved = np.array([[9.0, 1.0, np.nan], [5.0, 0.9, 3.0], [np.nan, 0.99, np.nan]])
    assert furthest_metrics(before, moved).tolist() == [0, 2, 1]

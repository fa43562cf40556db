"""`@anomaly` of numbers of rows: events that come now and then, once, or each year; hours."""

from __future__ import annotations

import numpy as np
import pytest

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.strategies_auto import Auto


def test_promotions_and_holidays_do_not_hide_a_table_that_was_loaded_twice() -> None:
    """Their heavy tails alone would allow anything: -328 to 1,500 where 600 rows are expected."""
    rng = np.random.default_rng(1)
    day = np.arange(90)
    rows = 600 * (1 + 0.4 * (day % 7 >= 5)) * 1.003**day * rng.normal(1, 0.05, 90)
    rows *= np.where(day % 29 < 3, 1.35, 1) * np.where(np.isin(day, [33, 50, 71]), 0.65, 1)
    days = np.datetime64("2024-01-01", "D") + day
    quiet = [int(i) for i in day if i >= 60 and 5 < i % 29 < 26 and i != 71]
    chosen = Auto(fpr=0.0017)

    def found(times: float) -> list[bool]:
        inputs = [
            AnomalyInput(rows[:i].round(), days[:i], round(rows[i] * times), days[i]) for i in quiet
        ]
        return [decision.anomalous for decision in evaluate_many(chosen, inputs)]

    assert not any(found(1))
    assert np.mean(found(2)) > 0.6
    assert np.mean(found(1 / 3)) > 0.9


@pytest.mark.parametrize("events", ["a spike", "an empty load", "a season"])
def test_what_came_once_hides_no_doubled_load(events: str) -> None:
    """One Black Friday let all doubled and halved loads pass for two years."""
    rng = np.random.default_rng(4)
    day = np.arange(260)
    rows = 800 * (1 + 0.4 * (day % 7 >= 5)) * 1.001**day * rng.normal(1, 0.06, 260)
    rows[60:70] *= {
        "a spike": [4.5] + 9 * [1],
        "an empty load": [0.15] + 9 * [1],
        "a season": [1.5, 2, 2.5, 3.5, 4, 3, 2.5, 2, 0.4, 0.1],
    }[events]
    days = np.datetime64("2024-01-01", "D") + day
    chosen = Auto(fpr=0.0034)

    def found(times: float) -> float:
        inputs = [
            AnomalyInput(rows[:i].round(), days[:i], round(rows[i] * times), days[i])
            for i in range(200, 260, 3)
        ]
        return float(np.mean([d.anomalous for d in evaluate_many(chosen, inputs)]))

    assert found(1) == 0
    assert found(2) > 0.9
    assert found(0.5) > 0.9


def test_the_p_value_of_a_volume_is_that_of_its_band() -> None:
    rng = np.random.default_rng(2)
    rows = (1000 * np.exp(0.1 * rng.standard_t(3, size=120))).round()
    days = np.datetime64("2024-01-01", "D") + np.arange(120)
    inputs = [
        AnomalyInput(rows[:i], days[:i], round(1000 * times), days[i])
        for i in range(60, 120, 4)
        for times in (0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.5, 4)
    ]
    decided = evaluate_many(Auto(fpr=0.0017), inputs)
    found = [(d.anomalous, d.p_value is not None and d.p_value < 0.0017) for d in decided]
    assert sum(a != p for a, p in found) <= 1 and {True, False} == {a for a, _ in found}


def test_noon_is_not_judged_by_how_a_night_of_ten_rows_varies() -> None:
    rng = np.random.default_rng(5)
    hours = np.arange(24 * 28)
    day = np.clip(np.sin((hours % 24 - 6) / 14 * np.pi), 0, None)
    rows = rng.poisson((10 + 270 * day) * np.exp(rng.normal(0, 0.08, hours.size))).astype(float)
    times = np.datetime64("2024-01-01T00", "h") + hours
    noon = [int(i) for i in hours if i >= 24 * 20 and 10 <= i % 24 <= 16]

    def found(share: float) -> float:
        inputs = [
            AnomalyInput(rows[:i], times[:i], float(round(rows[i] * share)), times[i]) for i in noon
        ]
        return float(np.mean([d.anomalous for d in evaluate_many(Auto(fpr=0.0006), inputs)]))

    assert found(1) == 0
    assert found(1 / 3) > 0.5


@pytest.mark.parametrize("rate", [None, 1e-4])
@pytest.mark.parametrize("night", [10.0, 0.3])
def test_no_rows_at_noon_are_an_anomaly_though_nights_have_few(
    rate: float | None, night: float
) -> None:
    rng = np.random.default_rng(6)
    hours = np.arange(24 * 12)
    day = np.clip(np.sin((hours % 24 - 6) / 14 * np.pi), 0, None)
    # From a Monday on; there is little on weekends.
    level = (night + 150 * day) * np.where(hours // 24 % 7 >= 5, 0.3, 1.0)
    rows = rng.poisson(level * np.exp(rng.normal(0, 0.1, hours.size))).astype(float)
    times = np.datetime64("2024-01-01T00", "h") + hours
    tested = [int(i) for i in hours if i >= 24 * 8]

    def found(values: FloatArray) -> FloatArray:
        inputs = [AnomalyInput(rows[:i], times[:i], float(values[i]), times[i]) for i in tested]
        return np.array([d.anomalous for d in evaluate_many(Auto(fpr=rate), inputs)])

    assert found(rows).sum() == 0
    noon = np.array([11 <= i % 24 <= 15 for i in tested])
    none = found(np.zeros(hours.size))
    assert none[noon].all()
    # Where a night has hardly any rows it may have none.
    if night < 1:
        assert not none[[i % 24 < 5 for i in tested]].any()


def test_volumes_that_never_missed_have_the_p_value_of_their_band() -> None:
    rows = np.where(np.arange(84) % 7 >= 5, 150.0, 100.0)
    days = np.datetime64("2024-01-01", "D") + np.arange(85)
    values = (90, 95, 97, 98, 100, 102, 103, 105, 110)
    inputs = [AnomalyInput(rows, days[:84], value, days[84]) for value in values]
    decided = evaluate_many(Auto(fpr=0.0017), inputs)
    assert [d.anomalous for d in decided] == [d.p_value < 0.0017 for d in decided if d.p_value]
    assert [d.anomalous for d in decided][3:6] == [False] * 3


@pytest.mark.parametrize("factor", [3.0, 0.3])
def test_what_came_a_year_ago_may_come_again(factor: float) -> None:
    """Christmas by its date, Black Friday by the fourth Thursday: of 2023 and of 2024."""
    rng = np.random.default_rng(3)
    days = np.arange(np.datetime64("2023-01-01"), np.datetime64("2025-01-01"))
    rows = 900 * (1 + 0.3 * (np.arange(days.size) % 7 >= 5)) * rng.normal(1, 0.05, days.size)
    feasts = np.array(["2023-11-24", "2023-12-25"], dtype="datetime64[D]")
    rows[np.isin(days, feasts)] *= factor

    def found(day: str, times: float) -> tuple[bool, bool]:
        i = int(np.flatnonzero(days == np.datetime64(day))[0])
        given = AnomalyInput(rows[:i].round(), days[:i], float(round(rows[i] * times)), days[i])
        (decision,) = evaluate_many(Auto(fpr=0.0034), [given])
        assert decision.p_value is not None
        assert decision.anomalous is (decision.p_value < 0.0034)
        return decision.anomalous, "the same days a year ago" in decision.explanation

    for day in ("2024-11-29", "2024-12-25"):
        assert found(day, factor) == (False, True)
        # The other way is no feast, and neither is much more of it.
        assert found(day, 1 / factor) == (True, True)
        assert found(day, factor**2) == (True, True)
    for day in ("2024-11-26", "2024-12-21"):
        assert found(day, 1) == (False, False)
        assert found(day, factor) == (True, False)


@pytest.mark.parametrize(("factor", "again"), [(5.0, True), (0.3, True), (0.05, False)])
def test_of_a_year_ago_a_lone_feast_counts_as_it_was_and_a_failed_load_does_not(
    factor: float, again: bool
) -> None:
    rng = np.random.default_rng(6)
    days = np.arange(np.datetime64("2023-01-01"), np.datetime64("2024-12-26"))
    rows = 5_000 * rng.normal(1, 0.03, days.size)
    rows[days == np.datetime64("2023-12-25")] *= factor
    given = AnomalyInput(rows[:-1].round(), days[:-1], float(round(5_000 * factor)), days[-1])
    (found,) = evaluate_many(Auto(fpr=0.0034), [given])
    assert found.anomalous is not again


def test_a_second_weekend_is_no_anomaly_and_half_of_the_rows_are_one() -> None:
    days = np.datetime64("2026-11-02") + np.arange(14)
    weekend = (days.astype(int) + 3) % 7 >= 5

    def found(times: float, odd: float = 1.0) -> float:
        inputs = []
        for seed in range(20):
            rows = np.where(weekend, 520, 800) * np.random.default_rng(seed).normal(1, 0.05, 14)
            rows[8] *= odd
            for i in (10, 11, 12):
                value = float(round(rows[i] * times))
                inputs.append(AnomalyInput(rows[:i].round(), days[:i], value, days[i]))
        return float(np.mean([d.anomalous for d in evaluate_many(Auto(fpr=0.024), inputs)]))

    assert found(1) < 0.05
    assert found(0.5) > 0.95
    assert found(2) > 0.95
    # Half of the rows two days ago, of which nobody knows, hide no day that has hardly any.
    assert found(0.05, odd=0.5) == 1


def test_few_rows_may_be_none() -> None:
    rng = np.random.default_rng(7)
    inputs = [AnomalyInput(1.0 + rng.poisson(2, 10), None, 0.0) for _ in range(100)]
    found = [d.anomalous for d in evaluate_many(Auto(fpr=0.001), inputs)]
    assert np.mean(found) < 0.02


@pytest.mark.parametrize(("least", "most"), [(1, 20), (1, 40)])
def test_small_tables_do_not_allow_many_times_their_largest_batch(least: int, most: int) -> None:
    """Their ratios (one row, then twenty) would: up to 3,414 where there were never 50."""
    rng = np.random.default_rng(11)
    rows = rng.integers(least, most + 1, (60, 70)).astype(float)
    days = np.datetime64("2026-06-01", "D") + np.arange(71)

    def found(values: FloatArray) -> float:
        inputs = [
            AnomalyInput(past, days[:-1], value, days[-1])
            for past, value in zip(rows, values, strict=True)
        ]
        return float(np.mean([d.anomalous for d in evaluate_many(Auto(fpr=0.003), inputs)]))

    assert found(2 * rows.max(axis=1)) >= 0.85
    assert found(rng.integers(least, most + 1, 60).astype(float)) <= 0.02


@pytest.mark.parametrize("lost", [1.0, 2.0, 4.0])
def test_one_failed_load_hides_no_other(lost: float) -> None:
    rng = np.random.default_rng(5)
    rows = rng.poisson(80, (40, 40)).astype(float)
    rows[:, 21] = lost
    days = np.datetime64("2026-06-01", "D") + np.arange(41)
    inputs = [AnomalyInput(past, days[:-1], 8.0, days[-1]) for past in rows]
    assert np.mean([d.anomalous for d in evaluate_many(Auto(fpr=0.003), inputs)]) >= 0.8

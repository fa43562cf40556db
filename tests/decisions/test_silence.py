"""What was always there and is not any more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dqsql.decisions.silence import (
    absences,
    absent_by_chance,
    became_constant,
    comparable,
    largest_share,
    listed,
    lost_values,
    new_values,
    taken_over,
)

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


@pytest.mark.parametrize("pausing", [1, 2, 3])
def test_a_few_that_pause_on_weekends_do_not_excuse_the_others(pausing: int) -> None:
    names = [f"t{i}" for i in range(25)]
    days = [frozenset(names[pausing if day % 7 >= 5 else 0 :]) for day in range(43)]
    before, sunday = days[:42], days[41]
    (found,) = absences(before, days[42] - {"t24"}, 0.003)
    assert found.words == "t24 (in all of 42 batches before)"
    assert absences(before, sunday, 0.003) == []


def test_segments_that_come_and_go_give_few_alarms() -> None:
    alarms = 0
    for seed in range(25):
        there = np.random.default_rng(seed).random((180, 10)) < 0.95
        sets = [frozenset(np.flatnonzero(row).astype(str)) for row in there]
        alarms += sum(bool(absences(sets[i - 60 : i], sets[i], 0.01)) for i in range(60, 180))
    assert alarms / (25 * 120) < 0.01


def test_few_rows_may_have_none_of_a_segment() -> None:
    rng = np.random.default_rng(1)
    # By day 300 rows, at night ten, of which a fifth are of the segment.
    sizes = np.where(np.arange(59) % 24 < 6, 10, 300)
    counts = rng.binomial(sizes, 0.2)
    others = sizes - counts
    assert absent_by_chance(counts, others, 8, 0.001)
    assert not absent_by_chance(counts, others, 80, 0.001)
    # There are as many rows of others as usual, however few.
    assert not absent_by_chance(rng.poisson(5, 40), [6] * 40, 6, 0.0001)
    # One row of each of ten machines comes each time, and six of each of four shops: no chance.
    assert not absent_by_chance([1] * 30, [9] * 30, 4, 0.001)
    assert not absent_by_chance([6] * 30, [18] * 30, 8, 0.001)
    # The largest segment leaves few rows.
    assert not absent_by_chance([800] * 30, [4] * 30, 4, 0.001)


def test_values_that_no_longer_occur() -> None:
    before = [{"EUR": 0.7, "USD": 0.25, "CHF": 0.05}] * 10
    sizes, now = [500] * 10, {"EUR": 0.75, "USD": 0.25}
    (found,) = lost_values(before, sizes, now, 500, 0.01)
    assert found.name == "CHF"
    # In few rows it may be missing by chance.
    assert lost_values(before, sizes, now, 50, 0.01) == []
    assert lost_values(before[:3], sizes[:3], now, 500, 0.01) == []
    assert len(lost_values(before, sizes, {}, 50_000, 0.01)) == 3
    assert listed(lost_values(before, sizes, {}, 50_000, 0.01)).startswith("CHF (in all of 10")


def _campaigns(days: int, ends: tuple[int, ...] = (9, 16, 20, 24)) -> list[dict[str, float]]:
    """Shares of twenty values, of which one each is replaced by a new one on some days."""
    names = [f"c{i:02d}" for i in range(20)]
    batches = []
    for day in range(days):
        if day in ends:
            names[ends.index(day)] = f"d{day}"
        batches.append(dict.fromkeys(names, 1 / 20))
    return batches


def test_values_that_have_their_time_are_lost_by_more_than_usual() -> None:
    def lost(before: list[dict[str, float]], now: dict[str, float]) -> list[str]:
        return [a.name for a in lost_values(before, [1500] * len(before), now, 1500, 0.0003)]

    *before, now = _campaigns(30)
    assert lost(before, {k: v for k, v in now.items() if k != "c19"}) == []
    # More of them at once than end by habit, or more of the rows.
    assert len(lost(before, {k: v for k, v in now.items() if k[0] != "c"})) == 16
    large = [{**{k: v / 2 for k, v in b.items()}, "large": 0.5} for b in before]
    assert lost(large, before[-1]) == ["large"]
    # Where one has ended so far, that is no habit; nor is one that was seldom there.
    *steady, same = _campaigns(30, ends=(20,))
    assert lost(steady, {k: v for k, v in same.items() if k != "c19"}) == ["c19"]
    odd = [{**b, f"odd{day // 3}": 0.001} for day, b in enumerate(_campaigns(29, ends=()))]
    assert lost(odd, {k: v for k, v in odd[-1].items() if k != "c19"}) == ["c19"]
    # Who pauses and comes back has not ended.
    paused = [{k: v for k, v in b.items() if k != f"c{d - 10:02d}"} for d, b in enumerate(odd)]
    assert lost(paused, {k: v for k, v in odd[-1].items() if k != "c19"}) == ["c19"]


@pytest.mark.parametrize(("alive", "life"), [(20, 45), (40, 60), (60, 30), (30, 30)])
def test_campaigns_are_told_of_seldom(alive: int, life: int) -> None:
    rng, alarms, renamed, days = np.random.default_rng(1), 0, 0, 120
    number = alive * (days + 2 * life) // life
    start = rng.integers(-life, days, number)
    end = start + rng.integers(int(0.6 * life), int(1.4 * life), number)
    weights = rng.exponential(1, number) + 0.2
    batches = []
    for day in range(days):
        there = np.where((start <= day) & (day < end), weights, 0)
        counts = rng.multinomial(1500, there / there.sum())
        batches.append({f"v{i}": n / 1500 for i, n in enumerate(counts) if n})
    for day in range(30, days):
        before, sizes = batches[day - 30 : day], [1500] * 30
        alarms += bool(lost_values(before, sizes, batches[day], 1500, 0.0003))
        other = {name.upper(): share for name, share in batches[day].items()}
        renamed += bool(lost_values(before, sizes, other, 1500, 0.0003))
    assert alarms <= 2
    assert renamed >= 0.9 * (days - 30)


def test_one_migration_is_no_habit() -> None:
    """Half of the shops get other names at once, one is closed later, and then others are gone."""
    rng = np.random.default_rng(1)
    shops, batches = [f"s{i:02d}" for i in range(50)], []
    for day in range(31):
        if day == 10:
            shops = [f"r{i:02d}" if i < 25 else name for i, name in enumerate(shops)]
        if day in (20, 30):
            shops.pop()
        counts = rng.multinomial(1500, np.full(len(shops), 1 / len(shops)))
        batches.append({s: n / 1500 for s, n in zip(shops, counts, strict=True) if n})
    *before, now = batches
    assert [a.name for a in lost_values(before, [1500] * 30, now, 1500, 0.0003)] == ["s48"]


def test_values_that_are_missing_by_chance_have_not_ended() -> None:
    """Of a long tail of rare values some have always been missing from the last batches."""
    told = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        usual = [20.0] * 20 + [2.0] * 170 + [300.0]
        batches = [
            {f"v{i}": n / rows.sum() for i, n in enumerate(rows) if n}
            for rows in rng.poisson(usual, (31, len(usual)))
        ]
        now = {name: share for name, share in batches[-1].items() if name not in ("v0", "v1")}
        told += bool(lost_values(batches[:-1], [1040] * 30, now, 1000, 0.001))
    assert told >= 18


def test_values_that_no_batch_before_had() -> None:
    def new(days: int, now: dict[str, float], rare: tuple[int, ...] = ()) -> dict[str, float]:
        before = [
            {"a": 0.6, "b": 0.4, **({f"rare{day}": 0.05} if day in rare else {})}
            for day in range(days)
        ]
        return new_values(before, [800] * days, now, 800, 0.0003)

    odd = {"a": 0.57, "b": 0.38, "z": 0.04, "y": 0.01}
    assert new(30, odd) == new(21, odd) == {"z": 0.04, "y": 0.01}
    assert new(30, {"a": 0.5, "b": 0.5}) == new(30, {"a": 0.6, "b": 0.3985, "z": 0.0015}) == {}
    # Where new ones come now and then, it takes more of them.
    assert new(30, odd, (10, 17, 24)) == {}
    assert new(30, {"a": 0.6, "z": 0.4}, (10, 17, 24)) == {"z": 0.4}
    # Too few batches, and keys.
    assert new(13, odd) == {}
    keys = [{f"{day}-{i}": 0.01 for i in range(100)} for day in range(31)]
    assert new_values(keys[:-1], [100] * 30, keys[-1], 100, 0.0003) == {}


@pytest.mark.parametrize(("values", "rows"), [(30, 50), (100, 300), (190, 3000)])
def test_rare_values_are_new_now_and_then(values: int, rows: int) -> None:
    rng = np.random.default_rng(values)
    weights = 1 / np.arange(1, values + 1) ** 1.2
    counts = rng.multinomial(rows, weights / weights.sum(), 120)
    batches = [{f"v{i}": n / rows for i, n in enumerate(c) if n} for c in counts]
    alarms = sum(
        bool(new_values(batches[day - 30 : day], [rows] * 30, batches[day], rows, 0.0003))
        for day in range(30, 120)
    )
    assert alarms == 0


def test_small_batches_that_lack_a_value_by_chance_do_not_count() -> None:
    rng = np.random.default_rng(2)
    sizes = np.where(np.arange(30) % 7 == 6, 11, rng.integers(550, 700, 30))
    there = np.where(sizes == 11, np.arange(30) == 13, rng.binomial(sizes, 0.12))
    before = [
        {"AT": t / n, "DE": 1 - t / n} if t else {"DE": 1.0}
        for t, n in zip(there, sizes, strict=True)
    ]
    (found,) = lost_values(before, sizes.tolist(), {"DE": 1.0}, 663, 0.001)
    assert (found.name, found.present, found.batches) == ("AT", 26, 26)
    # In a batch that is as small itself, it may be missing.
    assert lost_values(before, sizes.tolist(), {"DE": 1.0}, 12, 0.001) == []
    assert comparable(sizes.tolist(), 663) == np.flatnonzero(sizes > 11).tolist()
    assert comparable([11.0] * 24 + [700.0] * 6, 663) == list(range(30))


def test_shares_in_much_smaller_batches_do_not_say_how_small_a_share_may_be() -> None:
    rng = np.random.default_rng(4)
    # Hours of the night have a fourth of the rows of those of the day.
    sizes = np.where(np.arange(30) % 24 < 8, 60, 240)
    there = np.maximum(rng.binomial(sizes, 0.12), 1)
    there[1] = 3
    before = [{"NL": t / n, "DE": 1 - t / n} for t, n in zip(there, sizes, strict=True)]
    (found,) = lost_values(before, sizes.tolist(), {"DE": 1.0}, 240, 1e-6)
    assert (found.name, found.batches) == ("NL", 16)
    assert lost_values(before, sizes.tolist(), {"DE": 1.0}, 60, 0.0005) == []


@pytest.mark.parametrize("bunch", [1, 4, 9])
def test_values_that_come_in_bunches_are_lost_by_chance_no_more_often_than_told(bunch: int) -> None:
    rng, alarms, runs = np.random.default_rng(bunch), 0, 4_000
    for _ in range(runs):
        sizes = rng.integers(60, 90, 41) * bunch
        there = rng.binomial(sizes // bunch, 0.09) * bunch
        if not there[:-1].all():
            continue
        shares = [{"PL": t / n, "DE": 1 - t / n} for t, n in zip(there, sizes, strict=True)]
        now = {name: share for name, share in shares[-1].items() if share}
        alarms += bool(lost_values(shares[:-1], sizes[:-1].tolist(), now, float(sizes[-1]), 0.01))
    assert alarms / runs < 0.01


def test_a_share_that_is_always_small_is_missed_in_some_hundred_rows() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(550, 1_000, 60)
    there = rng.binomial(sizes, 0.05)
    before = [{"PL": t / n, "DE": 1 - t / n} for t, n in zip(there, sizes, strict=True)]
    (found,) = lost_values(before, sizes.tolist(), {"DE": 1.0}, 560, 0.001)
    assert found.name == "PL"


def test_columns_that_became_constant_or_nan() -> None:
    assert became_constant([0.6] * 10, 50, 0.01)
    # Once it was: it may be.
    assert not became_constant([0.6] * 9 + [1.0], 50, 0.01)
    # Too few batches of which it is known.
    assert not became_constant([0.6] * 6 + [math.nan] * 4, 50, 0.01)
    assert taken_over([0.0] * 10, 0.98)
    assert not taken_over([0.0] * 10, 0.2)
    # The second time is told, the third is how the column is.
    assert taken_over([0.0] * 9 + [0.6], 0.98)
    assert not taken_over([0.0] * 8 + [0.6, 0.9], 0.98)
    assert not taken_over([math.nan] * 10, 0.98)
    assert not taken_over([0.0, 1.0, 0.0], 1.0, 3, but=0)


def test_a_rare_value_is_missing_from_a_small_batch_by_chance() -> None:
    shares = [0.97] * 30
    assert not became_constant(shares, 20, 0.01)
    assert not became_constant(shares, 100, 0.01)
    assert became_constant(shares, 500, 0.01)
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(400):
        rows = rng.integers(10, 120, 40)
        rare = rng.binomial(rows, rng.uniform(0.02, 0.3))
        before = (np.maximum(rare, rows - rare) / rows)[:-1].tolist()
        alarms += rare[-1] in (0, rows[-1]) and became_constant(before, rows[-1], 0.001)
    assert alarms / 400 <= 0.005


def test_the_most_frequent_number_is_no_more_frequent_than_its_spread_allows() -> None:
    rng = np.random.default_rng(1)
    for values in (
        rng.normal(size=500),
        rng.lognormal(0, 2, 500),
        (rng.random(500) < 0.03) * 1.0,
        rng.integers(0, 5, 500),
        np.where(rng.random(500) < 0.98, 3.0, rng.normal(size=500)),
    ):
        counts = np.unique(values, return_counts=True)[1]
        share = largest_share(500, float(values.std(ddof=1)), float(np.ptp(values)), counts.size)
        assert counts.max() / 500 <= share < 1
    # Of 500 different values none is frequent, of a rare one the other is nearly all.
    assert largest_share(500, 1.0, 6.0, 500) < 0.06
    assert largest_share(500, 0.17, 1.0, 2) > 0.97
    assert largest_share(500, 0.0, 0.0, 1) == 1
    assert math.isnan(largest_share(500, math.nan, math.inf, math.nan))
    assert largest_share(500, math.nan, math.inf, 400) < 0.3

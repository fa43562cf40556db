"""The novelty detector: by hand, against scikit-learn, and laws."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.neighbors import NearestNeighbors

from dqsql.decisions.forecasts import forecast
from dqsql.decisions.novelty import Feature, decide_novelty, feature_vector, resolution, scaled
from dqsql.decisions.novelty_config import NoveltyConfig, novelty_config
from dqsql.errors import DecisionError

PAPER = novelty_config(mode="paper")
histories = hnp.arrays(
    float,
    st.tuples(st.integers(10, 25), st.integers(1, 5)),
    elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 2)),
)


def features(count: int) -> list[Feature]:
    return [Feature(f"c{i}", "completeness") for i in range(count)]


def steady(rng: np.random.Generator, size: int = 40, count: int = 30) -> np.ndarray:
    return rng.normal(0.9, 0.01, size=(size, count))


def test_paper_by_hand() -> None:
    # One metric, 0..8, k = 2: the inner batches have neighbours at 1 and 1, the outer ones at 1
    # and 2 (mean 1.5); all over the range 8. The batch at 12 has neighbours at distance 4 and 5.
    history = np.arange(9.0)[:, None]
    found = decide_novelty(features(1), history, [12.0], novelty_config(mode="paper", k=2))
    assert found.status == "anomalous"
    assert found.score == pytest.approx(4.5 / 8)
    distances = np.array([1.5] * 2 + [1.0] * 7) / 8
    assert found.threshold == pytest.approx(np.quantile(distances, 0.99))
    assert found.expected == pytest.approx(1 / 8)
    assert found.p_value == pytest.approx(1 / 10)


@pytest.mark.parametrize(("aggregation", "score"), [("mean", 2.0), ("max", 3.0), ("median", 2.0)])
def test_aggregations_by_hand(aggregation: str, score: float) -> None:
    history = np.arange(11.0)[:, None]
    config = novelty_config(mode="paper", k=3, aggregation=aggregation)
    assert decide_novelty(features(1), history, [11.0], config).score == pytest.approx(score / 10)


@pytest.mark.parametrize("distance", ["euclidean", "manhattan", "chebyshev"])
@pytest.mark.parametrize("aggregation", ["mean", "max", "median"])
def test_paper_equals_scikit_learn(distance: str, aggregation: str) -> None:
    rng = np.random.default_rng(3)
    history, new = rng.normal(size=(40, 6)), rng.normal(size=6) + 1.5
    config = novelty_config(mode="paper", distance=distance, aggregation=aggregation)
    found = decide_novelty(features(6), history, new, config)
    points, query = scaled(history, new)
    model = NearestNeighbors(n_neighbors=5, metric=distance, algorithm="ball_tree").fit(points)
    function = getattr(np, aggregation)
    # Without an argument scikit-learn leaves each point out of its own neighbours.
    own = function(model.kneighbors()[0], axis=1)
    assert found.score == pytest.approx(function(model.kneighbors(query[None])[0]))
    assert found.threshold == pytest.approx(np.quantile(own, 0.99))
    assert sum(c.score for c in found.contributions) == pytest.approx(found.score / found.threshold)


def test_unusual_together_only() -> None:
    rng = np.random.default_rng(13)
    x = rng.normal(size=60)
    history = np.column_stack([x, x + rng.normal(0, 0.01, 60)])
    found = decide_novelty(features(2), history, [-1.5, 1.5])
    assert found.status == "anomalous"
    # Either alone is nothing new.
    for i, value in enumerate((-1.5, 1.5)):
        alone = decide_novelty(features(1), history[:, [i]], [value])
        assert alone.status == "ok"


def test_a_metric_that_does_not_follow_the_others_is_named() -> None:
    rng = np.random.default_rng(21)
    common = rng.normal(size=(60, 1))
    history = common * rng.uniform(0.5, 1.5, 8) + rng.normal(0, 0.05, (60, 8))
    # All are low together: that has been so before. One alone stays where it usually is.
    new = np.full(8, -1.5) * np.median(history / common, axis=0)
    assert decide_novelty(features(8), history, new).status == "ok"
    new[5] = 0.0
    found = decide_novelty(features(8), history, new)
    assert found.status == "anomalous"
    assert found.contributions[0].feature == features(8)[5]


def test_what_recurs_is_at_least_as_probable_as_it_was_frequent() -> None:
    rng = np.random.default_rng(22)
    history = rng.normal(size=(40, 4))
    history[:, 2] = 3.0
    history[[8, 15, 22, 31], 2] = 4.0
    found = decide_novelty(features(4), history, [0.0, 0.0, 4.0, 0.0])
    assert found.p_value is not None
    assert found.p_value >= 5 / 41
    # On the other side it was never.
    assert decide_novelty(features(4), history, [0.0, 0.0, 1.0, 0.0]).status == "anomalous"


def test_an_exception_does_not_move_the_forecast_of_a_series_that_is_still() -> None:
    history = np.random.default_rng(23).normal(size=(30, 3))
    history[:, 1] = 2.0
    history[29, 1] = 3.0
    (found,) = (
        c
        for c in decide_novelty(features(3), history, [0.0, 2.0, 0.0]).contributions
        if c.feature == features(3)[1]
    )
    assert found.expected == 2.0
    # Nor do several, in a year of batches, while they are no five in a row.
    long = [4.0] * 75 + [3.0] + [4.0] * 71 + [3.0, 4.0, 3.0, 3.0]
    for values, expected in ((long, 4.0), ([*long, 3.0, 3.0, 3.0], 3.0)):
        series = np.array([values])
        again = forecast(series, {}, 5, np.array([False])).expected[0]
        assert again == pytest.approx(expected, abs=0.02)


def test_a_missing_day_moves_no_date_of_a_full_copy() -> None:
    rng = np.random.default_rng(8)
    days = np.datetime64("2026-01-01", "us") + np.arange(60) * np.timedelta64(1, "D")
    for left_out in (False, True):
        times = np.append(days[:-1], days[-1] + np.timedelta64(1, "D"))
        names = [Feature("born", "days_to_min"), *features(3)]
        history = np.column_stack([-2500.0 - np.arange(59), rng.normal(size=(59, 3))])
        if left_out:
            history[20] = np.nan
        usual = [0.0, 0.0, 0.0]
        config = NoveltyConfig(fpr=0.004)
        stands = decide_novelty(names, history, [-2560.0, *usual], config, times)
        assert stands.status == "ok"
        moved = decide_novelty(names, history, [-2300.0, *usual], config, times)
        assert moved.status == "anomalous"
        assert moved.contributions[0].expected == pytest.approx(-2560.0)
        # As of weeks, whose names SQL does not read: their dates are days since 1970.
        history[:, 0] = np.where(np.isnan(history[:, 0]), np.nan, 20_000.0 + np.arange(59))
        for new, status in ((20_060.0, "ok"), (20_300.0, "anomalous")):
            assert decide_novelty(names, history, [new, *usual], config, times).status == status


def test_one_moved_metric_among_steady_ones_is_found_and_named() -> None:
    rng = np.random.default_rng(5)
    history = steady(rng)
    new = history.mean(axis=0)
    new[17] -= 0.045
    found = decide_novelty(features(30), history, new)
    assert found.status == "anomalous"
    assert found.contributions[0].feature == Feature("c17", "completeness")
    assert "completeness(c17)" in found.explanation
    # The dilution that the default mode is about.
    assert decide_novelty(features(30), history, new, PAPER).status == "ok"


def test_metric_that_never_varied() -> None:
    history = steady(np.random.default_rng(6))
    history[:, 3] = 1.0
    new = history.mean(axis=0)
    assert decide_novelty(features(30), history, new).status == "ok"
    new[3] = 0.999
    assert decide_novelty(features(30), history, new).status == "ok"
    new[3] = 0.9
    found = decide_novelty(features(30), history, new)
    assert found.status == "anomalous"
    assert "1 in each of them" in found.explanation


def test_expected_values_in_words_are_ones_that_the_metric_can_have() -> None:
    rng = np.random.default_rng(11)
    history = steady(rng, 60, 5)
    # A share that rises towards 1, and a trend that a forecast would take further.
    history[:, 2] = np.minimum(0.9 + 0.0016 * np.arange(60), 0.999) + rng.normal(0, 1e-4, 60)
    new = history.mean(axis=0)
    new[2] = 0.7
    found = decide_novelty(features(5), history, new)
    assert found.status == "anomalous"
    assert found.contributions[0].feature == Feature("c2", "completeness")
    expected = re.search(r"completeness\(c2\) is 0.7 \(about (\S+) expected", found.explanation)
    assert expected is not None
    assert 0.99 <= float(expected[1]) <= 1


def test_drift_is_no_novelty_but_its_jump_is() -> None:
    rng = np.random.default_rng(7)
    history = steady(rng, 60, 5)
    history[:, 2] = 1000 + 10 * np.arange(60) + rng.normal(size=60)
    new = history.mean(axis=0)
    new[2] = 1000 + 10 * 60
    assert decide_novelty(features(5), history, new).status == "ok"
    # Back where the mean is: a novelty only to what knows of the drift.
    new[2] = history[:, 2].mean()
    found = decide_novelty(features(5), history, new)
    assert found.status == "anomalous"
    assert found.contributions[0].expected == pytest.approx(1600, abs=5)


def test_a_batch_that_is_left_out_takes_its_time() -> None:
    rng = np.random.default_rng(5)
    history = np.column_stack([1_000 + 100.0 * np.arange(41), rng.normal(50, 1, 41)])
    names = features(2)
    for left_out in (1, 5):
        gapped, now = history[:40].copy(), np.array([5_000.0, 50.0])
        gapped[-left_out:] = np.nan
        found = decide_novelty(names, gapped, now)
        assert (found.status, found.history_size) == ("ok", 40 - left_out)
        # Without its place, the next is a jump; so is a batch that has stood still meanwhile.
        assert decide_novelty(names, gapped[:-left_out], now).status == "anomalous"
        stood = np.array([5_000.0 - 100 * left_out, 50.0])
        assert decide_novelty(names, gapped, stood).status == "anomalous"
        windowed = NoveltyConfig(window=20)
        assert decide_novelty(names, gapped, now, windowed).history_size == 20
        paper = NoveltyConfig(mode="paper")
        kept = decide_novelty(names, history[: 40 - left_out], now, paper)
        assert decide_novelty(names, gapped, now, paper) == kept


def test_a_weekday_is_no_novelty_on_another_day_it_is() -> None:
    rng = np.random.default_rng(8)
    history = steady(rng, 70, 5)
    days = np.datetime64("2024-01-01", "us") + np.arange(71) * np.timedelta64(1, "D")
    history[:, 1] = 100 + 50 * (np.arange(70) % 7 >= 5) + rng.normal(size=70)
    new = history.mean(axis=0)
    new[1] = 100.0
    assert decide_novelty(features(5), history, new, None, days).status == "ok"
    new[1] = 150.0
    assert decide_novelty(features(5), history, new, None, days).status == "anomalous"
    # Nothing in the values alone says that it is a Monday.
    assert decide_novelty(features(5), history, new).status == "ok"


def test_an_odd_batch_in_the_history_does_not_train() -> None:
    history = steady(np.random.default_rng(9), 40, 5)
    for place in (20, 39):
        odd = history.copy()
        odd[place, 0] = 0.5
        found = decide_novelty(features(5), odd, history.mean(axis=0))
        assert found.status == "ok"
        first = next(c for c in found.contributions if c.feature.column == "c0")
        assert first.expected == pytest.approx(0.9, abs=0.01)


def test_a_level_that_recurs_is_learned() -> None:
    history = steady(np.random.default_rng(10), 46, 5)
    new = history.mean(axis=0)
    history[40:, 0] -= 0.4
    new[0] -= 0.4
    assert decide_novelty(features(5), history[:40], history[40]).status == "anomalous"
    assert decide_novelty(features(5), history, new).status == "ok"


def test_resolution_of_metrics_in_the_columns_unit() -> None:
    names = [Feature("x", m) for m in ("min", "max", "mean", "completeness", "sum")]
    training = np.tile([-10.0, 10.0, 0.0, 1.0, 0.0], (8, 1))
    training[:, 4] = np.random.default_rng(1).normal(size=8)
    assert resolution(names, training).tolist() == pytest.approx([0.2, 0.2, 0.2, 0.01, 1e-9])


def test_resolution_of_numbers_that_move_by_one_step() -> None:
    """As the first and last number of a day: two less than foretold are no news."""
    starts = 10_000.0 * np.arange(9)[:, None]
    training = np.hstack([starts, starts + 999])
    names = [Feature("id", m) for m in ("min", "max")]
    assert resolution(names, training).tolist() == pytest.approx([9.99, 9.99])


def test_one_row_more_of_the_most_frequent_value_is_no_news() -> None:
    rng = np.random.default_rng(2)
    history = rng.normal(size=(50, 3))
    names = [Feature("x", "most_frequent_ratio"), *features(2)]
    # 8 rows of 2,000 each day, and of a few more rows each day.
    history[:, 0] = 8 / np.arange(2_000, 2_050)
    config = NoveltyConfig(fpr=0.004)
    new = [9 / 2_050, *history[:, 1:].mean(axis=0)]
    assert decide_novelty(names, history, new, config).status == "anomalous"
    assert decide_novelty(names, history, new, config, rows=2_050).status == "ok"
    new[0] = 40 / 2_050
    assert decide_novelty(names, history, new, config, rows=2_050).status == "anomalous"


@pytest.mark.parametrize(
    ("metric", "absent", "others"),
    [("min", 2.0, (0.0, 3.0)), ("max", 0.0, (2.0, -1.0)), ("approx_count_distinct", 0.0, (2.0,))],
)
def test_a_code_that_few_rows_have_may_be_absent(
    metric: str, absent: float, others: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(3)
    history = rng.normal(size=(60, 3))
    names = [Feature("code", metric), *features(2)]
    for level, steps in ((1.0, True), (5.0, True), (1.5, False)):
        history[:, 0] = level
        config = NoveltyConfig(fpr=0.004)
        usual = history[:, 1:].mean(axis=0)
        found = decide_novelty(names, history, [absent + level - 1, *usual], config)
        # Of the least number that is not none.
        may = steps and absent + level - 1 != 0
        assert found.status == ("ok" if may else "anomalous")
        for value in others:
            found = decide_novelty(names, history, [value + level - 1, *usual], config)
            assert found.status == "anomalous"


def test_short_histories_are_not_decided() -> None:
    found = decide_novelty(features(2), np.ones((7, 2)), [5.0, 5.0])
    assert found.status == "too_little_history"
    assert "7 accepted batches, 8 are needed" in found.explanation
    assert np.isnan(found.score)
    assert decide_novelty(features(2), np.empty((0, 2)), [5.0, 5.0]).status == "too_little_history"


@pytest.mark.parametrize("config", [NoveltyConfig(), PAPER])
def test_missing_and_infinite_values(config: NoveltyConfig) -> None:
    rng = np.random.default_rng(8)
    history = rng.normal(size=(30, 3))
    history[4, 0] = np.nan
    history[5, 1] = np.inf
    history[:20, 2] = np.nan
    found = decide_novelty(features(3), history, [0.0, np.nan, 0.0], config)
    assert found.status == "ok"
    assert found.missing == (Feature("c1", "completeness"),)
    assert found.ignored == (Feature("c2", "completeness"),)
    assert "without a value: completeness(c1)" in found.explanation
    infinite = decide_novelty(features(3), history, [np.inf, 0.0, 0.0], config)
    assert infinite.status == "anomalous"
    assert infinite.contributions[0].feature.column == "c0"
    assert decide_novelty(features(3), history, [np.nan] * 3, config).status == "no_value"
    json.dumps(infinite.to_dict(), allow_nan=False)


@pytest.mark.parametrize("config", [NoveltyConfig(), PAPER])
def test_identical_batches(config: NoveltyConfig) -> None:
    history = np.tile([1.0, 2.0], (12, 1))
    assert decide_novelty(features(2), history, [1.0, 2.0], config).status == "ok"
    found = decide_novelty(features(2), history, [1.0, 4.0], config)
    assert found.status == "anomalous"
    assert found.contributions[0].feature.column == "c1"


def test_adaptive_contamination() -> None:
    config = novelty_config(adaptive_contamination=True, mode="paper")
    assert [config.contamination_for(n) for n in (8, 20, 1000)] == [0.125, 0.05, 0.01]


def test_window() -> None:
    history = np.concatenate(
        [np.full((20, 1), 100.0), np.random.default_rng(9).normal(size=(20, 1))]
    )
    whole = novelty_config(mode="paper")
    assert decide_novelty(features(1), history, [100.0], whole).status == "ok"
    for mode in ("paper", "subspace"):
        recent = novelty_config(window=20, mode=mode)
        assert decide_novelty(features(1), history, [100.0], recent).status == "anomalous"


@settings(max_examples=30, deadline=None)
@given(histories, st.sampled_from(["paper", "subspace"]), st.integers(0, 2**31))
def test_order_and_unit_do_not_matter(history: np.ndarray, mode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    new = rng.normal(0, 500, size=history.shape[1])
    config = novelty_config(mode=mode)
    names = [Feature(f"c{i}", "m") for i in range(history.shape[1])]
    if np.ptp(history, axis=0).min() < 1:
        return
    one = decide_novelty(names, history, new, config)
    # Ratios, which the default looks at, know of a zero.
    shift = 0.0 if mode == "subspace" else 6.0
    again = decide_novelty(names, history * 4 + shift, new * 4 + shift, config)
    assert again.score == pytest.approx(one.score, rel=1e-6, abs=1e-9)
    assert again.threshold == pytest.approx(one.threshold, rel=1e-6, abs=1e-9)
    columns = rng.permutation(history.shape[1])
    moved = decide_novelty([names[i] for i in columns], history[:, columns], new[columns], config)
    assert moved.score == pytest.approx(one.score)
    if mode == "paper":
        rows = rng.permutation(len(history))
        assert decide_novelty(names, history[rows], new, config).score == pytest.approx(one.score)


@settings(max_examples=25, deadline=None)
@given(histories, st.sampled_from(["paper", "subspace"]))
def test_further_away_is_never_less_novel(history: np.ndarray, mode: str) -> None:
    names, config = features(history.shape[1]), novelty_config(mode=mode)
    top = history.max(axis=0)
    scores = [decide_novelty(names, history, top + d, config).score for d in (0, 10, 100, 1e4)]
    assert all(a <= b + 1e-9 for a, b in pairwise(scores))


@settings(max_examples=25, deadline=None)
@given(histories, st.sampled_from(["paper", "subspace"]))
def test_the_batch_under_test_does_not_train(history: np.ndarray, mode: str) -> None:
    names, config = features(history.shape[1]), novelty_config(mode=mode)
    near = decide_novelty(names, history, history.mean(axis=0), config)
    far = decide_novelty(names, history, history.mean(axis=0) + 1e6, config)
    assert near.threshold == far.threshold
    assert [c.expected for c in sorted(near.contributions, key=lambda c: str(c.feature))] == [
        c.expected for c in sorted(far.contributions, key=lambda c: str(c.feature))
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"contamination": 0.7}, "contamination must be at least 0 and below 0.5"),
        ({"contamination": 0.01}, "mode 'subspace' has no contamination"),
        ({"mode": "papr"}, "mode must be 'subspace' or 'paper', not 'papr'"),
        ({"detector": "svm"}, "detector must be 'knn' or 'lof'"),
        ({"neighbours": 3}, "has no parameter 'neighbours'"),
        ({"min_history": 2}, "min_history"),
        ({"adaptive_contamination": 1}, "must be true or false"),
    ],
)
def test_wrong_settings(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(DecisionError, match=words):
        novelty_config(**arguments)


def test_settings_survive_storage() -> None:
    config = novelty_config(k=7, mode="paper", aggregation="median")
    assert novelty_config(**json.loads(json.dumps(asdict(config)))) == config


def test_shapes_must_fit() -> None:
    with pytest.raises(DecisionError, match="2 metrics need as many values"):
        decide_novelty(features(2), np.ones((9, 2)), [1.0])


def test_feature_vector() -> None:
    names = features(3)
    row = feature_vector(names, {names[0]: 1.0, names[1]: None})
    assert row[0] == 1.0
    assert np.isnan(row[1:]).all()


# PyOD compiles the last two before their first use.
DETECTORS = [
    "lof",
    "isolation_forest",
    "one_class_svm",
    pytest.param("hbos", marks=pytest.mark.slow),
    pytest.param("abod", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("detector", DETECTORS)
def test_other_detectors(detector: str) -> None:
    pytest.importorskip("pyod", reason="the extra 'novelty' is not installed")
    rng = np.random.default_rng(11)
    history = rng.normal(size=(60, 4))
    config = novelty_config(detector=detector)
    far = decide_novelty(features(4), history, [30.0] * 4, config)
    near = decide_novelty(features(4), history, np.median(history, axis=0), config)
    assert (far.status, near.status) == ("anomalous", "ok")
    assert decide_novelty(features(4), history, [30.0] * 4, config).score == far.score
    one = decide_novelty(features(4), history, [30.0, 0, 0, 0], config)
    assert one.contributions[0].feature.column == "c0"


def test_other_detectors_without_the_extra() -> None:
    code = (
        "import sys; sys.modules['pyod'] = None\n"
        "from dqsql.decisions.novelty import outlier_scores\n"
        "from dqsql.decisions.novelty_config import NoveltyConfig\n"
        "from dqsql.errors import DecisionError\n"
        "import numpy as np\n"
        "try: outlier_scores('lof', np.ones((9, 1)), np.ones((1, 1)), NoveltyConfig())\n"
        "except DecisionError as e: print(e)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'dqsql[novelty]'" in out.stdout


def test_a_zero_is_one_step_from_the_least_of_rounded_values() -> None:
    rng = np.random.default_rng(3)
    least = np.array([0.01, 0.02, 0.01, 0.06, 0.01, 0.03, 0.01, 0.02, 0.04, 0.01])
    history = np.column_stack([least, rng.normal(40, 2, size=10)])
    metrics = [Feature("discount", "min"), Feature("discount", "mean")]
    assert decide_novelty(metrics, history, [0.0, 41.0]).p_value > 0.05
    # Of values that are far from zero, in steps of their size, it is as far as ever.
    history = np.column_stack(
        [np.round(np.exp(rng.normal(8, 1.0, size=60)), 1), rng.normal(40, 2, size=60)]
    )
    assert decide_novelty(metrics, history, [0.0, 41.0]).p_value < 0.005


def test_a_value_below_zero_after_small_ones_above() -> None:
    """A mean delay of a minute early is no novelty after delays from 0.1 minutes to an hour."""
    rng = np.random.default_rng(5)
    history = np.column_stack([rng.lognormal(1.5, 1.3, 200), rng.normal(size=200)])
    assert decide_novelty(features(2), history, [-0.4, 0.0]).status == "ok"
    # As large a loss where values are far above zero is one.
    steady = np.column_stack([rng.lognormal(5, 0.2, 200), rng.normal(size=200)])
    assert decide_novelty(features(2), steady, [-40.0, 0.0]).status == "anomalous"


@pytest.mark.parametrize("starts", [True, False])
def test_what_has_been_the_same_for_a_week_is_no_news(starts: bool) -> None:
    """Of a column that began, or ceased, to be filled: its season is learned of both times."""
    names = [Feature(c, m) for c in "abcd" for m in ("completeness", "approx_count_distinct")]
    named = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        filled = rng.binomial(1500, 0.97, (60, 4)) / 1500
        values = np.stack([filled, rng.normal(800, 15, (60, 4)).round()], axis=2).reshape(60, 8)
        gone = slice(25) if starts else slice(25, None)
        values[:, 7] = 3.0
        values[gone, 6:] = 0.0
        days = np.datetime64("2026-03-02", "D") + np.arange(61)
        warned = np.zeros(60, dtype=bool)
        for day in range(20, 60):
            found = decide_novelty(
                names,
                values[:day],
                values[day],
                NoveltyConfig(fpr=0.024),
                days[: day + 1],
                1500,
                warned[:day],
            )
            warned[day] = found.status == "anomalous"
            if day >= 36 and warned[day]:
                named += found.contributions[0].feature.column == "d"
    assert named <= 2


def test_a_column_that_stays_empty_after_the_night_is_news() -> None:
    """The last seven hours, in which it is always empty, are no week."""
    named = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        hours = np.arange(22 * 24)
        awake = (hours % 24 >= 8) & (hours % 24 < 22)
        names = [Feature(c, m) for c in "ad" for m in ("completeness", "approx_count_distinct")]
        filled = rng.binomial(400, 0.9, hours.size) / 400
        values = np.stack(
            [
                rng.binomial(400, 0.95, hours.size) / 400,
                rng.normal(80, 4, hours.size).round(),
                np.where(awake, filled, 0.0),
                np.where(awake, rng.normal(60, 3, hours.size).round(), 0.0),
            ],
            axis=1,
        )
        times = np.datetime64("2026-03-02T00", "h") + hours
        for hour in range(21 * 24 + 8, 21 * 24 + 15):
            new = np.append(values[hour, :2], [0.0, 0.0])
            found = decide_novelty(
                names, values[:hour], new, NoveltyConfig(fpr=0.024), times[: hour + 1], 400
            )
            values[hour] = new
            if found.status == "anomalous":
                named += found.contributions[0].feature.column == "d"
    assert named >= 4


def test_of_what_has_no_value_only_what_usually_has_one_is_told() -> None:
    rng = np.random.default_rng(4)
    history = rng.normal(size=(40, 8))
    history[::3, 0] = np.nan
    new = np.append(np.full(7, np.nan), 99.0)
    found = decide_novelty(features(8), history, new)
    assert found.status == "anomalous"
    assert [f.column for f in found.missing] == [f"c{n}" for n in range(1, 7)]
    assert "c0" not in found.explanation
    assert found.explanation.endswith("completeness(c3) and 3 more")


def test_a_metric_that_vanished_is_no_news_where_it_is_forecast() -> None:
    rng = np.random.default_rng(3)
    history = rng.normal(size=(30, 3))
    # It went up steadily, and has had no value for three days.
    history[:, 0] = np.arange(30) * 10.0
    history[27:, 0] = np.nan
    days = np.datetime64("2024-01-01", "D") + np.arange(31)
    found = decide_novelty(features(3), history, [np.nan, 0.0, 0.0], NoveltyConfig(), times=days)
    assert found.status == "ok"
    assert found.missing == (Feature("c0", "completeness"),)
    (part,) = [c.score for c in found.contributions if c.feature.column == "c0"]
    assert part == 0.0

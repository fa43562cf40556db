"""Programs: learning, evaluating, explaining."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from dqsql.compiler.issues import issues
from dqsql.decisions.avh import AvhConfig, ColumnHistory, evaluate, fit_programs
from dqsql.decisions.avh_series import never_changed, resolution, usable_of
from dqsql.decisions.candidates import refit
from dqsql.decisions.program import ProgramVerdict, UsualRows, breaks, of_usual_rows
from dqsql.decisions.program_words import describe
from dqsql.decisions.stationarity import Transform
from dqsql.errors import DecisionError
from dqsql.model.plan import Family
from tests.decisions.one_column import fit_program

BOUNDS = ("paper", "calibrated")
ISSUES = ("volume_x2", "volume_x10", "volume_0.1", "null_0.5")


def history(values: np.ndarray, metric: str = "row_count", name: str = "c") -> ColumnHistory:
    newest = values[np.isfinite(values)][-1]
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


ROWS_FIRST = ("row_count", "mean", "min", "max", "median", "range", "sum", "unique_ratio")


def measured(values: np.ndarray) -> list[float]:
    return [
        values.size,
        values.mean(),
        values.min(),
        values.max(),
        float(np.median(values)),
        float(np.ptp(values)),
        values.sum(),
        np.unique(values).size / values.size,
    ]


def test_a_batch_of_a_few_rows_is_told_as_such_and_not_by_what_few_rows_vary() -> None:
    broken: dict[int, list[str]] = {rows: [] for rows in (1, 2, 3, 150, 400)}
    for seed in range(20):
        rng = np.random.default_rng(seed)

        def batch(rows: int, rng: np.random.Generator = rng) -> np.ndarray:
            return np.round(rng.normal(100, 20, rows))

        past = np.array([measured(batch(rng.integers(300, 500))) for _ in range(30)])
        rows = batch(400)
        issues = {
            "unit_x100": rows * 100,
            "dist_1": rows + 20,
            "null_0.5": np.where(np.arange(400) % 2, 0, rows),
            "volume_x2": np.tile(rows, 2),
            "volume_0.1": rows[:40],
        }
        values = np.array([measured(v) for v in issues.values()])
        program = fit_program(ColumnHistory("c", ROWS_FIRST, past, tuple(issues), values))
        series = dict(zip(ROWS_FIRST, past.T, strict=True))
        for size, found in broken.items():
            new = dict(zip(ROWS_FIRST, measured(batch(size)), strict=True))
            held = evaluate(program, series, new)
            found += [v.clause.metric for v in held.clauses if v.status == "fail"]
            told = breaks(program, series, {n: np.array([v]) for n, v in new.items()}, 1)
            assert told[0] == (held.status == "fail")
        # What no number of rows explains is found in few, too.
        new = dict(zip(ROWS_FIRST, measured(batch(3) * 1000), strict=True))
        assert evaluate(program, series, new).status == "fail"
    for size in (1, 2, 3, 150):
        assert set(broken[size]) <= {"row_count", "sum"}
    assert min(len(broken[size]) for size in (1, 2, 3)) >= 19
    assert broken[400] == []


@pytest.mark.parametrize("metric", ["ks_dist", "l_1", "cohen_d"])
@pytest.mark.parametrize("fpr", [0.05, 0.01, 0.001])
def test_distances_that_were_always_zero_may_be_small(metric: str, fpr: float) -> None:
    issues = np.array([[0.2], [0.5], [0.6], [0.9]])
    column = ColumnHistory("c", (metric,), np.zeros((30, 1)), ISSUES, issues)
    program = fit_program(column, AvhConfig(fpr=fpr))
    zeros = {metric: np.zeros(30)}
    for value, status in ((0.0, "pass"), (0.03, "pass"), (0.9, "fail")):
        assert evaluate(program, zeros, {metric: value}).status == status


@pytest.mark.parametrize("fpr", [0.01, 0.001])
def test_what_differs_by_the_steps_of_a_distance_is_no_finding(fpr: float) -> None:
    # The statistic of values at 100 ranks is 0.01 or 0.02 in batches of 27,000 rows that are alike.
    # What was flagged was not learned from, and so flagged for ever.
    issues = np.array([[0.011], [0.05], [0.3]])
    past = np.full((30, 1), 0.01)
    column = ColumnHistory("c", ("ks_dist",), past, ISSUES[:3], issues)
    program = fit_program(column, AvhConfig(fpr=fpr))
    for value, status in ((0.02, "pass"), (0.3, "fail")):
        found = evaluate(program, {"ks_dist": past[:, 0]}, {"ks_dist": value})
        assert found.status == status


@pytest.mark.parametrize("moved", [20.0, -20.0])
def test_values_that_all_moved_are_seen_though_the_issues_are_far(moved: float) -> None:
    # Heights of people: everybody 20 cm taller is 24 times the usual change of the mean.
    rng = np.random.default_rng(3)
    heights = np.sort(rng.normal(170, 10, size=(31, 140)))
    metrics = ("mean", "p25", "p75", "emd")
    middle = np.quantile(heights, (0.25, 0.75), axis=1)
    apart = np.abs(np.diff(heights, axis=0, prepend=heights[:1])).mean(axis=1)
    values = np.stack([heights.mean(axis=1), *middle, apart], axis=1)
    issues = np.array([[1700.0, 1630, 1770, 1530], [17_000, 16_300, 17_700, 16_800]])
    column = ColumnHistory("h", metrics, values[:30], ("unit_x10", "unit_x100"), issues)
    program = fit_program(column, AvhConfig(fpr=0.0005))
    assert (program.issues, program.caught) == (2, 2)
    past = dict(zip(metrics, values[:30].T, strict=True))
    good = dict(zip(metrics, values[30], strict=True))
    bad = {name: value + moved for name, value in good.items()} | {"emd": abs(moved)}
    assert evaluate(program, past, good).status == "pass"
    assert evaluate(program, past, bad).status == "fail"


def test_a_level_unlike_before_is_seen_where_values_differ_far_more_than_batches() -> None:
    # Laboratory results of three units: one test of a sixth of the rows is ten times as large.
    rng = np.random.default_rng(5)
    kinds, places = rng.integers(0, 6, (41, 900)), np.array([5.0, 14.0, 90.0, 95.0, 100.0, 140.0])
    rows = places[kinds] * rng.normal(1, 0.1, kinds.shape)
    bad = np.where(kinds[-1] == 1, 10 * rows[-1], rows[-1])
    metrics = ("mean", "median", "p25", "p75")

    def measured(batch: np.ndarray) -> list[float]:
        return [batch.mean(), *np.quantile(batch, (0.5, 0.25, 0.75))]

    values = np.array([measured(batch) for batch in rows])
    issues = np.array([values[-1] * 10, values[-1] * 100])
    column = ColumnHistory("value", metrics, values[:40], ("unit_x10", "unit_x100"), issues)
    program = fit_program(column, AvhConfig(fpr=0.001))
    past = dict(zip(metrics, values[:40].T, strict=True))
    for batch, status in ((rows[-1], "pass"), (bad, "fail")):
        new = dict(zip(metrics, measured(batch), strict=True))
        assert evaluate(program, past, new).status == status


def test_texts_that_are_cut_are_seen_though_the_issues_are_far() -> None:
    # Titles of 40 characters, all of which are cut to 20.
    rng = np.random.default_rng(7)
    lengths = rng.poisson(40, (41, 800))
    values = lengths.mean(axis=1)[:, None]
    issues = np.array([[400.0], [4.0], [41.0]])
    column = ColumnHistory(
        "title", ("str_len",), values[:40], ("schema_1.0", "delete_0.5", "case_1.0"), issues
    )
    program = fit_program(column, AvhConfig(fpr=0.001))
    past = {"str_len": values[:40, 0]}
    for lengths_now, status in ((lengths[-1], "pass"), (np.minimum(lengths[-1], 20), "fail")):
        assert evaluate(program, past, {"str_len": lengths_now.mean()}).status == status


def test_days_of_few_rows_widen_no_bound_of_others() -> None:
    # Mails, a third of them opened; eleven on a Sunday.
    rng = np.random.default_rng(6)
    sizes = np.where(np.arange(64) % 7 == 6, 11, rng.integers(600, 700, 64))
    shares = rng.binomial(sizes, 0.3) / sizes
    apart = 2 * np.abs(np.diff(shares, prepend=shares[:1]))
    values = np.stack([sizes, apart], axis=1)
    issues = np.array([[650, 2.0], [650, 1.9], [1300, 0.02]])
    metrics = ("row_count", "l_1")
    found, bounds = [], {True: [], False: []}
    names = ("case_1.0", "case_0.5", "volume_2.0")
    for day in range(40, 64):
        column = ColumnHistory("opened", metrics, values[:day], names, issues)
        program = fit_program(column, AvhConfig(fpr=0.001))
        past = dict(zip(metrics, values[:day].T, strict=True))
        seen = evaluate(program, past, dict(zip(metrics, values[day], strict=True)))
        found.append(seen.status)
        few = 11 in sizes[day - 1 : day + 1]
        bounds[few] += [v.upper for v in seen.clauses if v.clause.metric == "l_1"]
        if not few:
            inverted = 2 * abs(1 - shares[day] - shares[day - 1])
            new = {"row_count": sizes[day], "l_1": inverted}
            assert evaluate(program, past, new).status == "fail"
    assert found == ["pass"] * 24
    assert max(bounds[False]) < 0.7
    assert min(bounds[True]) > 1.5


def test_what_few_rows_say_is_not_learned() -> None:
    rows = np.array([100.0, 100, np.nan, 4, 100, 100, 100, 4, 4, 100, 100, 100, 100, 100])
    values = np.arange(14.0)
    assert np.flatnonzero(np.isnan(of_usual_rows("mean", values, rows))).tolist() == [3, 7, 8]
    # A distance is to the batch before.
    left_out = np.isnan(of_usual_rows("l_1", values, rows))
    assert np.flatnonzero(left_out).tolist() == [3, 4, 7, 8, 9]
    assert of_usual_rows("sum", values, rows) is values
    # Nor where too few others have a value.
    some = np.where(np.arange(14) < 10, values, np.nan)
    assert of_usual_rows("mean", some, rows) is some
    usual = UsualRows.of(rows)
    assert (usual.least, usual.few, usual.last) == (100, 100, 100)
    # Where all are alike, or too few are left, nothing is left out.
    assert not np.isnan(of_usual_rows("mean", values, np.append(rows[:10], [4] * 4))).any()
    assert UsualRows.of(np.full(9, 50.0)) == (50, 2.5, 50, 50)
    assert UsualRows.of([]).least == 0


@pytest.mark.parametrize("fpr", [0.01, 0.0005])
def test_texts_that_always_had_one_length_and_lost_characters(fpr: float) -> None:
    # UUIDs without dashes: 11 % shorter, and no injected issue is nearly as small.
    issues = np.array([[400.0], [0.0], [72.0]])
    past = np.full((40, 1), 36.0)
    program = fit_program(
        ColumnHistory("id", ("str_len",), past, ISSUES[:3], issues), AvhConfig(fpr=fpr)
    )
    for value, status in ((36.0, "pass"), (35.99, "pass"), (32.0, "fail"), (34.0, "fail")):
        found = evaluate(program, {"str_len": past[:, 0]}, {"str_len": value})
        assert found.status == status
    # Texts of many lengths vary by more than that.
    free = 36 + np.random.default_rng(1).normal(0, 1, (40, 1))
    program = fit_program(
        ColumnHistory("t", ("str_len",), free, ISSUES[:3], issues), AvhConfig(fpr=fpr)
    )
    assert evaluate(program, {"str_len": free[:, 0]}, {"str_len": 34.0}).status == "pass"


def test_shares_of_the_values_of_a_key_are_no_metric() -> None:
    texts = ("unique_ratio", "l_1", "js_div", "pat_l_1")
    numbers = ("unique_ratio", "l_1", "js_div", "mean")
    moving = np.random.default_rng(3).uniform(0.01, 0.02, (30, 4))
    still = moving * (np.arange(30) == 4)[:, None]
    issues = np.full((3, 4), 0.9)
    for unique, distances, metrics, kept in (
        (0.97, moving, texts, {"unique_ratio", "pat_l_1"}),
        # Of some, nearly each has a shape of its own.
        (0.97, moving + np.array([0, 0, 0, 1.97]), texts, {"unique_ratio"}),
        (0.5, moving, texts, set(texts)),
        # Codes that stay, and numbers, of which nearly each is another.
        (0.97, still, texts, set(texts)),
        (0.97, moving, numbers, set(numbers)),
    ):
        past = distances.copy()
        past[:, 0] = unique + np.random.default_rng(4).normal(0, 0.001, 30)
        column = ColumnHistory("k", metrics, past, ISSUES[:3], issues)
        positions = usable_of(column, AvhConfig()).positions
        assert {metrics[i] for i in positions} == kept


@pytest.mark.parametrize(
    ("metric", "level", "absent", "new"), [("range", 4.0, 3.0, 1.0), ("min", 1.0, 2.0, 0.0)]
)
def test_a_code_that_few_rows_have_may_be_absent(
    metric: str, level: float, absent: float, new: float
) -> None:
    issues = np.array([[-1.0], [9999.0], [40.0]])
    past = np.full((60, 1), level)
    program = fit_program(ColumnHistory("code", (metric,), past, ISSUES[:3], issues))
    for value, status in ((level, "pass"), (absent, "pass"), (new, "fail")):
        found = evaluate(program, {metric: past[:, 0]}, {metric: value})
        assert found.status == status


def test_a_wet_day_after_dry_ones_is_no_finding_and_a_flood_is() -> None:
    # Most values of every day were 0, so any other quartile was infinitely many deviations away.
    rng = np.random.default_rng(4)
    ranges = np.where(rng.random(30) < 0.3, rng.uniform(0.1, 0.9, 30), 0.0)
    values = np.stack([np.zeros(30), ranges], axis=1)
    issues = np.array([[30.0, np.nan], [300.0, np.nan]])
    rain = ColumnHistory("rain", ("p75", "range"), values, ("unit_x10", "unit_x100"), issues)
    past = dict(zip(rain.metrics, values.T, strict=True))
    for fpr in (0.01, 0.001):
        program = fit_program(rain, AvhConfig(fpr=fpr))
        wet = evaluate(program, past, {"p75": 0.03, "range": 0.5})
        flood = evaluate(program, past, {"p75": 40.0, "range": 50.0})
        assert (wet.status, flood.status) == ("pass", "fail")


@pytest.mark.parametrize("metric", ["emd", "pat_l_inf"])
def test_the_batch_after_an_odd_one_is_as_far_from_it_and_no_finding(metric: str) -> None:
    """A person accepted the blizzard: the day after it is like the day before it."""
    rng = np.random.default_rng(1)
    usual = rng.uniform(0.02, 0.06, size=29)
    issues = np.array([[0.5], [0.7], [0.9]])
    past = ColumnHistory("c", (metric,), usual[:, None], ISSUES[:3], issues)
    program = fit_program(past)
    assert program.clauses

    def found(before: np.ndarray, new: float) -> ProgramVerdict:
        seen = evaluate(program, {metric: before}, {metric: new})
        many = breaks(program, {metric: before}, {metric: np.array([new])}, 1)
        assert many.tolist() == [seen.status != "pass"]
        return seen

    odd = np.append(usual, 0.6)
    assert found(usual, 0.6).status == "fail"
    after = found(odd, 0.62)
    assert after.status == "pass"
    assert "the batch before was odd" in after.clauses[0].explanation
    # What is further from an odd batch than usual batches can be is a finding, and so is the next.
    assert found(odd, 0.9).status == "fail"
    assert found(np.append(odd, 0.62), 0.04).status == "pass"
    assert found(np.append(odd, [0.62, 0.04]), 0.6).status == "fail"
    paper = replace(program, bounds="paper")
    assert evaluate(paper, {metric: odd}, {metric: 0.62}).status == "fail"


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


def test_a_program_is_stored_as_json_with_all_that_its_bounds_are() -> None:
    program = fit_program(history(steady()))
    stored = json.loads(json.dumps(program.to_dict(), allow_nan=False))
    assert (stored["version"], stored["fpr"], stored["column"]) == (2, program.fpr, program.column)
    for clause, written in zip(program.clauses, stored["clauses"], strict=True):
        assert written.keys() == {f.name for f in fields(clause)}
        for name, bound in (("lower", clause.lower), ("upper", clause.upper)):
            assert written[name] == (None if math.isinf(bound) else bound)
        assert written["transform"] == {"log": clause.transform.log, "lag": clause.transform.lag}
        assert (written["metric"], written["center"]) == (clause.metric, clause.center)


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


# --- batches that were left out, and values that are missing -----------------------------------

WEEK = np.array([1000.0, 1000, 1000, 1000, 1000, 400, 400])


def test_a_batch_that_was_left_out_keeps_the_season_in_step() -> None:
    config = AvhConfig()
    alarms = bad = 0
    for seed in range(8):
        values = np.tile(WEEK, 12) + np.random.default_rng(seed).normal(0, 15, 84)
        past = values[:53].copy()
        # A Friday with a third of its rows is flagged, and no part of the history.
        bad += verdict(past[-30:], values[53] * 0.3, config).status == "fail"
        past = np.append(past, np.nan)
        for new in values[54:68]:
            failed = verdict(past[-30:], float(new), config).status == "fail"
            alarms += failed
            past = np.append(past, np.nan if failed else new)
    assert bad == 8
    assert alarms <= 2


@pytest.mark.parametrize(
    ("new", "passes"), [(1200.0, True), (1000.0, True), (1100.0, False), (1400.0, False)]
)
def test_after_a_step_the_same_value_is_no_change(new: float, passes: bool) -> None:
    past = np.append(np.tile([1000.0, 1001.0], 10), 1200.0)
    growing = fit_program(history(np.arange(30) * 5.0 + np.tile([0.0, 2.0], 15)))
    (clause,) = [c for c in growing.clauses if c.transform == Transform(lag=1)][:1]
    program = replace(growing, clauses=(replace(clause, lower=-20.0, upper=20.0, center=0.0),))
    # Not if the step itself was told, or nobody knows whether it was.
    told = np.arange(21) == 20
    for warned, expected in ((~told & told, passes), (told, new == 1000), (None, new == 1000)):
        verdict = evaluate(program, {"row_count": past}, {"row_count": new}, warned)
        assert (verdict.status == "pass") is expected
        broken = breaks(program, {"row_count": past}, {"row_count": np.array([new])}, 1, warned)
        assert broken[0] != expected


def test_a_lag_that_does_not_reach_is_not_chosen() -> None:
    past = np.tile(WEEK, 5) + np.random.default_rng(1).normal(0, 15, 35)
    past[0::7] = np.nan
    program = fit_program(history(past))
    assert all(clause.transform.lag != 7 for clause in program.clauses)
    # It is the Monday that cannot be compared; a Tuesday can.
    program = fit_program(history(np.append(past, np.nan)))
    assert any(clause.transform.lag == 7 for clause in program.clauses)
    assert {(c.first_batch, c.last_batch) for c in program.clauses} == {("day-1", "day-34")}


def test_without_gaps_nothing_changes_by_rows_of_nan_before() -> None:
    (column,) = many(1)
    gaps = np.vstack([np.full((3, column.values.shape[1]), np.nan), column.values])
    moved = ColumnHistory(column.column, column.metrics, gaps, column.issues, column.issue_values)
    plain, shifted = fit_program(column), fit_program(moved)
    assert len(shifted.clauses) == len(plain.clauses) > 2
    for one, other in zip(plain.clauses, shifted.clauses, strict=True):
        assert (one.metric, one.lower, one.upper) == (other.metric, other.lower, other.upper)


METRICS = ("row_count", "mean", "l_1")


def sparse(missing: tuple[int, ...], size: int = 28) -> ColumnHistory:
    """Rows, a mean and a distance; the mean is null and the distance unknown in some batches."""
    rng = np.random.default_rng(2)
    values = np.column_stack(
        [
            1000 + 20 * rng.normal(size=size),
            5 + 0.1 * rng.normal(size=size),
            0.02 + 0.003 * rng.random(size),
        ]
    )
    values[0, 2] = np.nan
    values[list(missing), 1:] = np.nan
    changed = int(np.flatnonzero(np.isfinite(values[:, 1]))[-1])
    clean = values[changed]
    issues = np.tile(clean, (4, 1))
    issues[0, 1], issues[1, 0], issues[2, 2], issues[3, 1] = 50, clean[0] / 2, 0.5, np.nan
    names = ("unit_x10_1.0", "volume_0.5", "schema_1.0", "missing_1.0")
    return ColumnHistory("c", METRICS, values, names, issues, changed=changed)


def of_batch(column: ColumnHistory, new: tuple[float, float, float]) -> ProgramVerdict:
    program = fit_program(column)
    past = dict(zip(METRICS, column.values.T, strict=True))
    found = evaluate(program, past, dict(zip(METRICS, new, strict=True)))
    arrays = {name: np.array([value]) for name, value in zip(METRICS, new, strict=True)}
    assert breaks(program, past, arrays, 1).tolist() == [found.status != "pass"]
    return found


NAN = float("nan")


def test_a_null_is_a_finding_only_where_batches_before_had_values() -> None:
    assert of_batch(sparse(()), (1000, NAN, 0.02)).status == "null"
    weekends = tuple(day for day in range(28) if day % 7 in (5, 6))
    found = of_batch(sparse(weekends), (1000, NAN, NAN))
    assert found.status == "pass"
    assert (
        "no value, as in accepted"
        in next(c for c in found.clauses if np.isnan(c.score)).explanation
    )
    rates = {c.metric: c.null_rate for c in found.program.clauses}
    assert rates == {"row_count": 0.0, "mean": 9 / 30, "l_1": 9 / 29}
    # It has a bound all the same, also after an empty Sunday, and what is measured keeps its own.
    assert of_batch(sparse(weekends), (1000, 50.0, 0.02)).status == "fail"
    assert of_batch(sparse(weekends), (100, NAN, NAN)).status == "fail"


def test_one_null_that_was_accepted_makes_the_next_no_finding() -> None:
    assert of_batch(sparse((9,)), (1000, NAN, 0.02)).status == "pass"
    # In long histories one null is rare enough to be a finding at the rate asked for.
    assert of_batch(sparse((9,), 250), (1000, NAN, 0.02)).status == "null"


def test_a_metric_without_a_value_catches_no_issue() -> None:
    """Else every bound on a minimum would pass for one that is there for missing values."""
    weekends = tuple(day for day in range(28) if day % 7 in (5, 6))
    for column in (sparse(()), sparse(weekends)):
        for bounds in BOUNDS:
            config = AvhConfig(bounds=bounds, fpr=0.05)  # type: ignore[arg-type]
            means = [c for c in fit_program(column, config).clauses if c.metric == "mean"]
            assert means
            assert not any("missing_1.0" in c.catches for c in means)


def test_one_unknown_distance_does_not_switch_its_metric_off() -> None:
    for missing in ((), (20,), (5, 20)):
        column = sparse(())
        column.values[list(missing), 2] = np.nan
        assert "l_1" in {c.metric for c in fit_program(column).clauses}
    # Fewer than min_history values are too few.
    column = sparse(())
    column.values[: 28 - 7, 2] = np.nan
    assert "l_1" not in {c.metric for c in fit_program(column).clauses}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_clauses_are_computed_again_from_their_history(bounds: str) -> None:
    config = AvhConfig(fpr=0.05, bounds=bounds)  # type: ignore[arg-type]
    columns = [*many(3), history(np.full(30, 72.0)), history(np.tile(WEEK, 5) + steady(35) / 50)]
    seen = set()
    for column in columns:
        for clause in fit_program(column, config).clauses:
            values = column.values[:, column.metrics.index(clause.metric)]
            past = clause.transform.series(values)
            floor = resolution(clause.metric, clause.transform, values, ())
            same = never_changed(clause.metric, values)
            again = refit(clause, past[np.isfinite(past)], config.bounds, floor, steady=same)
            numbers = ("lower", "upper", "center", "spread", "fpr", "history_size")
            for name in numbers:
                assert getattr(again, name) == pytest.approx(getattr(clause, name), rel=1e-10), name
            # A history that varies more is noticed.
            other = refit(clause, past[np.isfinite(past)] * 1.01 + 1, config.bounds, floor)
            assert other.center != clause.center
            seen.add((clause.method, clause.transform.name))
    assert len(seen) >= 3


def test_the_issues_that_a_bound_is_there_for_are_told_in_words() -> None:
    clause = fit_program(history(steady())).clauses[0]

    def told(*catches: str) -> str:
        text = describe(replace(clause, catches=catches), 2000.0, 900.0, 1100.0, "fail")
        return text.partition("there to catch ")[2]

    assert told("dist_first_0.1", "dist_last_0.5", "pad_lead_0.1", "perturb_0.1") == (
        "a shifted distribution, padding, typos."
    )
    assert told("case_upper_0.1", "null_0.5", "missing_0.5", "schema_0.1", "unit_x10_1.0") == (
        "changed case, empty or zero values, missing values, values of another column, 1 more kind."
    )
    # Every issue that is injected has words.
    kinds = {i.name.split("_")[0] for family in Family for i in issues(family)}
    assert {i.name for f in Family for i in issues(f) if told(i.name)[:-1] in kinds} == set()


def test_bad_arguments() -> None:
    with pytest.raises(DecisionError, match="between 0 and 1"):
        fit_program(history(steady()), AvhConfig(fpr=0.0))
    with pytest.raises(DecisionError, match="unknown bounds"):
        fit_program(history(steady()), AvhConfig(bounds="loose"))  # type: ignore[arg-type]


def test_a_steady_metric_has_a_bound_near_it_though_the_issues_are_far() -> None:
    steady = np.full((30, 1), 3.0)
    year = np.array([[368.0], [-362.0]])
    history = ColumnHistory("ship_date", ("days_to_median",), steady, ("later", "earlier"), year)
    (clause,) = fit_program(history).clauses
    assert -22 < clause.lower < 3 < clause.upper < 28
    assert clause.fpr <= 2 * 0.01 * 1e-3

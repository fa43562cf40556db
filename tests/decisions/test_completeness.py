"""Bounds on missing values: in every program, by counts, out of the same budget."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from dqsql.decisions.avh import AvhConfig, ColumnHistory, evaluate
from dqsql.decisions.beta_binomial import BetaBinomial, learn, share_limit
from dqsql.decisions.completeness import BUDGET_SHARE, refit
from dqsql.decisions.program import COUNTED, Program, ProgramVerdict, breaks
from dqsql.decisions.program_words import describe
from tests.decisions.one_column import fit_program

ROWS = 400
METRICS = ("mean", "row_count", "complete_ratio", "nan_ratio", "infinite_ratio")


def column(shares: np.ndarray, metric: str, rows: int = ROWS) -> ColumnHistory:
    """A steady numeric column, one of whose shares is given."""
    draw = np.random.default_rng(5)
    size = len(shares)
    values = np.column_stack(
        [draw.normal(100, 3, size), np.full(size, rows), np.ones(size), *np.zeros((2, size))]
    )
    place = METRICS.index(metric)
    values[:, place] = 1 - shares if metric == "complete_ratio" else shares
    issues = np.tile(values[-1], (3, 1))
    issues[0, 0] *= 10
    issues[1, 1] /= 2
    issues[2, [0, 2]] = np.nan, 0.0
    names = ("unit_x10_1.0", "volume_0.5", "missing_1.0")
    return ColumnHistory("c", METRICS, values, names, issues)


def verdict(past: ColumnHistory, config: AvhConfig, **new: float) -> ProgramVerdict:
    program = fit_program(past, config)
    json.dumps(program.to_dict(), allow_nan=False)
    series = dict(zip(METRICS, past.values.T, strict=True))
    usual = {"mean": 100.0, "row_count": ROWS, "complete_ratio": 1.0}
    batch = {**dict.fromkeys(METRICS, 0.0), **usual, **new}
    found = evaluate(program, series, batch)
    arrays = {name: np.array([value]) for name, value in batch.items()}
    assert breaks(program, series, arrays, 1).tolist() == [found.status != "pass"]
    return found


def steady(share: float, batches: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).binomial(ROWS, share, batches) / ROWS


def test_a_sign_that_is_lost_and_numbers_below_zero_that_are_new() -> None:
    metrics = ("mean", "row_count", "complete_ratio", "negative_ratio")
    rows = 1_400

    def program(shares: np.ndarray) -> Program:
        size = len(shares)
        mean = np.random.default_rng(5).normal(100, 3, size)
        values = np.column_stack([mean, np.full(size, rows), np.ones(size), shares])
        issues = np.tile(values[-1], (2, 1))
        issues[0, 0] *= 10
        issues[1, 1] /= 2
        past = ColumnHistory("c", metrics, values, ("unit_x10_1.0", "volume_0.5"), issues)
        return fit_program(past, AvhConfig(fpr=0.001))

    def told(program: Program, share: float, size: int = rows) -> str:
        found = evaluate(program, {}, dict(zip(metrics, (100, size, 1, share), strict=True)))
        return " ".join(
            c.explanation
            for c in found.clauses
            if c.status == "fail" and "negative" in c.explanation
        )

    refunds = program(np.random.default_rng(1).binomial(rows, 0.029, 40) / rows)
    assert "0% of values are negative, expected" in told(refunds, 0.0)
    assert "8% of values are negative, expected" in told(refunds, 0.08)
    assert not told(refunds, 0.02)
    # Of 20 rows none may be a refund.
    assert not told(refunds, 0.0, 20)
    never = program(np.zeros(40))
    assert "5% of values are negative, expected at most" in told(never, 0.05)
    assert not told(never, 0.0)
    assert not told(never, 1 / rows)
    always = program(np.ones(40))
    assert told(always, 0.5)
    assert not told(always, 1.0)
    # One row in a thousand is none by chance.
    rare = program(np.random.default_rng(1).binomial(rows, 0.001, 40) / rows)
    assert not told(rare, 0.0)


# Of the share of nulls or NaN before and after: all of these passed once.
SURGES = (
    ("complete_ratio", 0.0, 0.2),
    ("complete_ratio", 0.0, 0.1),
    ("complete_ratio", 0.02, 0.5),
    ("complete_ratio", 0.3, 0.8),
    ("nan_ratio", 0.02, 0.6),
    ("nan_ratio", 0.0, 0.1),
    ("infinite_ratio", 0.0, 0.1),
)


@pytest.mark.parametrize("batches", [8, 35])
@pytest.mark.parametrize(("metric", "before", "after"), SURGES)
def test_a_surge_is_found(metric: str, before: float, after: float, batches: int) -> None:
    past = column(steady(before, batches), metric)
    nulls = metric == "complete_ratio"
    found = verdict(past, AvhConfig(), **{metric: 1 - after if nulls else after})
    assert found.status == "fail"
    worst = found.clauses[0]
    assert (worst.clause.metric, worst.clause.method) == (metric, COUNTED)
    what = {"complete_ratio": "null", "nan_ratio": "NaN", "infinite_ratio": "infinite"}[metric]
    assert f"{100 * after:.3g}% of values are {what}, expected at most" in found.explanation
    usual = verdict(past, AvhConfig(), **{metric: 1 - before if nulls else before})
    assert usual.status == "pass"


@pytest.mark.parametrize("batches", [8, 30])
def test_ten_points_more_are_found_and_ordinary_days_are_not(batches: int) -> None:
    """Never null to a tenth null, 400 rows: in 99 of 100 columns, at less than the rate."""
    alarms = caught = 0
    size = 100
    for seed in range(size):
        draw = np.random.default_rng(seed)
        share = float(draw.choice([0.0, 0.0, 0.005, 0.01, 0.02]))
        past = column(steady(share, batches, seed), "complete_ratio")
        program = fit_program(past)
        new = np.array([draw.binomial(ROWS, s) for s in (share, share + 0.1)]) / ROWS
        values = {n: np.full(2, past.values[-1, i]) for i, n in enumerate(METRICS)}
        values |= {"mean": np.full(2, 100.0), "complete_ratio": 1 - new}
        alarm, hit = breaks(program, {}, values, 2)
        alarms += int(alarm)
        caught += int(hit)
    assert caught >= 0.99 * size
    assert alarms <= 1


def test_shares_that_vary_have_wide_bounds_and_a_column_may_be_empty_on_weekends() -> None:
    draw = np.random.default_rng(1)
    varying = draw.beta(2, 18, 40)
    past = column(varying[:30], "complete_ratio")
    assert all(verdict(past, AvhConfig(), complete_ratio=1 - s).status == "pass" for s in varying)
    assert verdict(past, AvhConfig(), complete_ratio=0.1).status == "fail"
    weekends = np.where(np.arange(35) % 7 > 4, 1.0, 0.0)
    for share in (0.0, 1.0):
        found = verdict(column(weekends, "complete_ratio"), AvhConfig(), complete_ratio=1 - share)
        assert not any(c.clause.method == COUNTED and c.status == "fail" for c in found.clauses)


def test_few_rows_of_a_column_that_is_mostly_null_may_have_no_value_at_all() -> None:
    past = column(steady(0.95, 30), "complete_ratio")
    none = {"mean": np.nan, "complete_ratio": 0.0}
    # 0.95 to the power of 25 is 28 percent.
    found = verdict(past, AvhConfig(), row_count=25.0, **none)
    assert found.status != "null"
    assert "may be chance" in " ".join(c.explanation for c in found.clauses)
    assert verdict(past, AvhConfig(), row_count=400.0, **none).status != "pass"
    # Where no bound on nulls is there at the rate, it is no chance all the same.
    rare = AvhConfig(fpr=1e-5)
    assert verdict(past, rare, row_count=ROWS, **none).status == "null"
    few = verdict(past, rare, row_count=25.0, **none)
    assert all(c.status != "null" for c in few.clauses)
    full = verdict(past, AvhConfig(), mean=np.nan, complete_ratio=0.05, row_count=25.0)
    assert any(c.status == "null" for c in full.clauses)


def test_the_bound_grows_with_fewer_rows() -> None:
    past = column(steady(0.02, 30), "complete_ratio")
    assert verdict(past, AvhConfig(), complete_ratio=0.93).status == "fail"
    found = verdict(past, AvhConfig(), complete_ratio=0.93, row_count=15)
    assert not any(c.clause.method == COUNTED and c.status == "fail" for c in found.clauses)


def test_a_column_that_becomes_full_is_told_as_such() -> None:
    found = verdict(column(steady(0.5, 30), "complete_ratio"), AvhConfig(), complete_ratio=1.0)
    assert found.status == "fail"
    assert "0% of values are null, expected at least" in found.explanation
    rare = column(steady(0.01, 30), "complete_ratio")
    assert verdict(rare, AvhConfig(), complete_ratio=1.0).status == "pass"


def test_the_budget_is_shared_and_the_paper_is_left_alone() -> None:
    past = column(steady(0.02, 30), "complete_ratio")
    for fpr in (0.001, 0.01, 0.1):
        program = fit_program(past, AvhConfig(fpr=fpr))
        own = [c for c in program.clauses if c.method == COUNTED]
        assert len(own) == 3
        assert sum(c.fpr for c in own) == pytest.approx(fpr * BUDGET_SHARE)
        assert program.fpr_bound <= fpr * (1 + 1e-9)
        assert any("missing_1.0" in c.catches for c in own)
    paper = fit_program(past, AvhConfig(bounds="paper"))
    assert not any(c.method == COUNTED or c.metric == "nan_ratio" for c in paper.clauses)


def test_empty_histories_and_rates_make_no_nonsense() -> None:
    assert learn([], [], 0.01) is None
    assert learn([0.0, 0.0], [0, 0], 0.01) is None
    never = learn(np.zeros(30), np.full(30, ROWS), 0.001)
    assert never is not None
    assert 0.0 < never.mean < 0.001
    assert share_limit(never, ROWS, 0.001) < 0.05
    # At the rates of large projects, too, a hundredth of the rows of a fortnight's column is news.
    fortnight = learn(np.zeros(14), np.full(14, 1_000), 1e-5)
    assert fortnight is not None
    assert 0.001 < share_limit(fortnight, 1_000, 1e-5) < 0.01
    always = learn(np.full(30, 5), np.full(30, 5), 0.01)
    assert always is None


@pytest.mark.parametrize("shape", [(0.5, 20.0), (3.0, 3.0), (40.0, 900.0), (1e-3, 5.0)])
@pytest.mark.parametrize("rows", [1, 7, 400])
def test_limits_are_those_of_the_beta_binomial_distribution(
    shape: tuple[float, float], rows: int
) -> None:
    for rate in (0.0002, 0.01):
        exact = stats.betabinom(rows, *shape)
        expected = next(c for c in range(rows + 1) if exact.sf(c) <= rate)
        assert share_limit(BetaBinomial(*shape), rows, rate) == pytest.approx(expected / rows)


def test_bounds_are_learned_again_as_they_were() -> None:
    past = column(steady(0.3, 30), "complete_ratio")
    for clause in fit_program(past).clauses:
        if clause.method == COUNTED:
            place = METRICS.index(clause.metric)
            again = refit(clause, past.values[:, place], past.values[:, 1])
            assert again == clause
            text = describe(clause, 0.9, clause.lower, clause.upper, "fail")
            assert "beta-binomial" in text


def test_no_bound_lies_where_its_metric_cannot_be() -> None:
    """`unique_ratio <= 2,478,392` and `log(digit_len) >= -3,450,063` were shown once."""
    draw = np.random.default_rng(2)
    names = ("unique_ratio", "digit_len", "row_count", "complete_ratio", "l_1")
    for seed in range(10):
        draw = np.random.default_rng(seed)
        values = np.column_stack(
            [
                draw.uniform(0.6, 0.99, 30),
                draw.lognormal(1, 0.3, 30),
                np.full(30, 400.0),
                np.ones(30),
                draw.uniform(0, 0.5, 30),
            ]
        )
        issues = np.tile(values[-1], (4, 1))
        issues[0] = np.nan, np.nan, 400, 0, np.nan
        issues[1, 0], issues[2, 1], issues[3, 4] = 1e-3, 0.0, 2.0
        kinds = ("missing_1.0", "volume_x10", "delete_0.5", "schema_1.0")
        program = fit_program(ColumnHistory("c", names, values, kinds, issues))
        for clause in program.clauses:
            if clause.metric == "unique_ratio":
                assert clause.transform.lag or clause.upper == np.inf or clause.upper <= 1.1
            if clause.metric == "digit_len" and clause.transform.log:
                assert clause.lower == -np.inf or clause.lower > -20
            if clause.metric == "l_1":
                assert clause.upper < 2


def test_the_largest_of_steady_shares_does_not_make_a_wide_bound() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        model = learn(rng.binomial(4_000, 0.1, 30), np.full(30, 4_000.0), 0.00125)
        assert model is not None
        # So much more is ten standard errors.
        assert share_limit(model, 4_000.0, 0.00125) < 0.15


def test_shares_with_a_heavy_tail_keep_the_rate() -> None:
    """Shares such as those of cancelled flights: usually 1 %, on some days more than a tenth."""
    draw = np.random.default_rng(3)
    shares = np.minimum(0.5, 0.009 * np.exp(draw.normal(0, 1.2, 330)))
    counts, rows = draw.binomial(900, shares).astype(float), np.full(330, 900.0)
    alarms = 0
    for end in range(30, 330):
        model = learn(counts[end - 30 : end], rows[:30], 0.0025)
        assert model is not None
        alarms += bool(counts[end] / 900 > share_limit(model, 900, 0.0025))
    assert alarms <= 3
    # Half of all values is still too much.
    assert share_limit(model, 900, 0.0025) < 0.5

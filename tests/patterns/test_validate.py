"""The two-sample test and its message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, fisher_exact

from dqsql.errors import PatternError
from dqsql.patterns import validate
from dqsql.patterns.validate import alarm_threshold, chi_squared_p_value, decide, fisher_p_value

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(counts, counts)
def test_p_values_are_those_of_scipy(then: tuple[int, int], now: tuple[int, int]) -> None:
    (k0, n0), (k1, n1) = then, now
    table = [[k0, n0 - k0], [k1, n1 - k1]]
    assert fisher_p_value(k0, n0, k1, n1) == pytest.approx(fisher_exact(table)[1], abs=1e-9)
    if 0 < k0 + k1 < n0 + n1:
        expected = chi2_contingency(table, correction=True)[1]
        assert chi_squared_p_value(k0, n0, k1, n1) == pytest.approx(expected, abs=1e-9)
    else:
        assert chi_squared_p_value(k0, n0, k1, n1) == 1.0


@settings(deadline=None)
@given(counts, st.integers(1, 300), st.sampled_from(["fisher", "chi_squared"]))
def test_threshold_is_where_the_decision_turns(then: tuple[int, int], rows: int, test: str) -> None:
    k0, n0 = then
    limit = alarm_threshold(k0, n0, rows, 0.01, test)  # type: ignore[arg-type]
    for k in range(rows + 1):
        decision = decide(
            "<num>",
            training_rows=n0,
            training_nonconforming=k0,
            rows=rows,
            nonconforming=k,
            test=test,  # type: ignore[arg-type]
        )
        assert (decision.status == "fail") == (k >= limit)
        assert decision.p_value >= 0.01 or k >= limit or k / rows <= k0 / n0


def test_more_odd_values_do_not_pass_where_fewer_fail() -> None:
    """Fisher's p-value of 12 in 240 is larger than that of 11."""
    p_values = [fisher_p_value(0, 129, k, 240) for k in (10, 11, 12, 13)]
    assert [p < 0.01 for p in p_values] == [False, True, False, True]
    assert alarm_threshold(0, 129, 240) == 11


def test_exact_on_millions_of_rows() -> None:
    assert 0 < fisher_p_value(1, 1_000, 5_000, 10_000_000) <= 1
    assert alarm_threshold(1, 1_000, 10_000_000) > 10_000


def test_large_samples_take_no_memory_of_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact and approximate p-values agree where the one takes over from the other."""
    for more in (0, 300, 700, 1_200):
        table = 60_000, 200_000, 60_000 + more, 200_000
        exact = fisher_p_value(*table)
        with monkeypatch.context() as patch:
            patch.setattr(validate, "_MAX_TERMS", 1_000)
            assert fisher_p_value(*table) == chi_squared_p_value(*table)
        assert exact == pytest.approx(chi_squared_p_value(*table), rel=1e-2)
    # Arrays of a term each would be of 40 gigabytes.
    assert fisher_p_value(0, 7 * 10**9, 5 * 10**9, 10**10) == 0
    assert alarm_threshold(10**9, 7 * 10**9, 10**9) > 10**9 / 7


def test_the_paper_s_example_a_tenth_of_a_percent_against_five() -> None:
    fail = decide("p", training_rows=1_000, training_nonconforming=1, rows=1_000, nonconforming=50)
    fine = decide("p", training_rows=1_000, training_nonconforming=1, rows=9_000, nonconforming=10)
    assert (fail.status, fine.status) == ("fail", "pass")
    assert fail.p_value < 1e-6


def test_fewer_nonconforming_values_are_no_issue() -> None:
    better = decide("p", training_rows=100, training_nonconforming=10, rows=900, nonconforming=0)
    assert better.p_value < 0.01
    assert better.status == "pass"


def test_message_shows_pattern_shares_and_values_but_no_private_ones() -> None:
    def message(pii: bool) -> str:
        return decide(
            "<digit>{4}",
            training_rows=1_000,
            training_nonconforming=1,
            rows=200,
            nonconforming=50,
            samples=["oops", "oops", "x" * 1_000, "a\nb"],
            pii=pii,
        ).message

    assert "<digit>{4}" in message(False)
    assert "25.00%" in message(False)
    assert "0.10%" in message(False)
    assert "'oops'" in message(False)
    assert "\n" not in message(False)
    assert len(message(False)) < 300
    assert "oops" not in message(True)


def test_an_empty_batch_decides_nothing() -> None:
    decision = decide("p", training_rows=9, training_nonconforming=0, rows=0, nonconforming=0)
    assert decision.status == "empty"
    assert decision.nonconforming_share is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 5, "nonconforming": 6},
        {"training_rows": 0},
        {"training_nonconforming": -1},
        {"significance": 0.0},
        {"test": "coin"},
    ],
)
def test_impossible_input_is_an_error(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {
        "training_rows": 10,
        "training_nonconforming": 0,
        "rows": 10,
        "nonconforming": 0,
    }
    with pytest.raises(PatternError):
        decide("p", **{**right, **wrong})  # type: ignore[arg-type]

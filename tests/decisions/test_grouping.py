"""Findings of one batch as one, root symptoms first."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from dqsql.decisions.grouping import Symptom, group_findings

ROWS = Symptom("row_count", "row_count", score=5.0)
TOTAL = Symptom("sum(price)", "sum", "price", score=9.0)
KINDS = Symptom("count_distinct(city)", "count_distinct", "city", score=2.0)
NULLS = Symptom("completeness(price)", "completeness", "price", score=3.0, severity="warn")
MEAN = Symptom("mean(price)", "mean", "price", score=8.0)
NOVEL = Symptom("novelty", "novelty", score=4.0, cause="all metrics together")
DRIFT = Symptom("avh(city)", "avh", "city", score=1.5, cause="distribution")


def roots(*symptoms: Symptom, segments: int | None = None) -> list[Symptom]:
    return [s for s, cause in group_findings(symptoms, segments) if cause is None]


def test_nothing_found() -> None:
    assert group_findings([]) == []


def test_volume_explains_what_grows_with_it() -> None:
    found = group_findings([TOTAL, KINDS, ROWS, NOVEL])
    assert found[0] == (ROWS, None)
    assert {s.check: cause and cause.check for s, cause in found[1:]} == {
        "sum(price)": "row_count",
        "count_distinct(city)": "row_count",
        "novelty": "row_count",
    }


def test_nulls_of_a_column_explain_its_values_but_not_other_columns() -> None:
    assert roots(MEAN, NULLS, DRIFT) == [NULLS, DRIFT]


def test_volume_does_not_explain_a_mean() -> None:
    assert roots(MEAN, ROWS) == [ROWS, MEAN]


def test_keys_that_came_twice_explain_that_other_values_did() -> None:
    keys = Symptom("stays_unique", "stays_unique", "id", severity="warn", cause="keys")
    shares = [Symptom("avh", "unique_ratio", c, score=9.0, severity="warn") for c in ("a", "b")]
    assert roots(*shares, keys) == [keys]
    assert roots(*shares, keys, ROWS) == [ROWS, keys]
    # Without them each column stands for itself, as do other segments and other metrics.
    assert roots(*shares) == shares
    other = Symptom("avh", "unique_ratio", "a", segment="DE", severity="warn")
    assert roots(other, keys, MEAN) == [keys, MEAN, other]


def test_novelty_alone_is_a_root() -> None:
    assert roots(NOVEL) == [NOVEL]
    assert roots(NOVEL, DRIFT) == [DRIFT]


def test_several_metrics_of_a_column_are_one_root() -> None:
    more = Symptom("max(price)", "max", "price", score=20.0)
    assert roots(MEAN, more) == [more]


def test_one_segment_explains_the_whole() -> None:
    one = Symptom("mean(price)", "mean", "price", segment="de", score=12.0)
    assert group_findings([MEAN, one], segments=10) == [(one, None), (MEAN, one)]


def test_the_whole_explains_its_segments() -> None:
    parts = [Symptom("mean(price)", "mean", "price", segment=f"s{i}") for i in range(9)]
    found = group_findings([MEAN, *parts], segments=10)
    assert found == [(MEAN, None), *((part, MEAN) for part in parts)]


def test_two_hundred_alarms_are_one_finding() -> None:
    many = [Symptom(f"sum(c{i})", "sum", f"c{i}", score=i) for i in range(200)]
    found = group_findings([*many, ROWS])
    assert found[0] == (ROWS, None)
    assert [cause for _, cause in found] == [None, *[ROWS] * 200]
    assert found[1][0].check == "sum(c199)"


def test_order_of_the_findings_does_not_matter() -> None:
    every = [ROWS, TOTAL, NULLS, MEAN, NOVEL]
    first = group_findings(every)
    assert all(group_findings(order) == first for order in permutations(every))


metrics = st.sampled_from(
    ["row_count", "sum", "mean", "completeness", "novelty", "schema", "pattern", "avh", "max"]
)
symptoms = st.builds(
    lambda metric, column, segment, score: Symptom(
        f"{metric}({column})/{segment}",
        metric,
        column,
        segment,
        score=score,
        cause={NOVEL.metric: NOVEL.cause, DRIFT.metric: DRIFT.cause}.get(metric),
    ),
    metrics,
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, "x", "y"]),
    st.one_of(st.none(), st.floats(1, 100)),
)


@given(st.lists(symptoms, min_size=1, max_size=12, unique_by=lambda s: s.check), st.integers(2, 5))
def test_nothing_is_lost_and_causes_end_in_a_root(found: list[Symptom], segments: int) -> None:
    grouped = group_findings(found, segments)
    assert sorted(s.check for s, _ in grouped) == sorted(s.check for s in found)
    causes = {s.check: cause for s, cause in grouped}
    assert None in causes.values()
    for symptom in found:
        seen, at = set(), symptom
        while causes[at.check] is not None:
            assert at.check not in seen
            seen.add(at.check)
            at = causes[at.check]  # type: ignore[assignment]

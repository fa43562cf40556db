from __future__ import annotations

from collections.abc import Callable

from dqsql.errors import QueryError
from dqsql.model.results import ModelResult, Result, Status
from dqsql.monitors.grouping import grouped
from dqsql.report.findings import (
    check_label,
    describe,
    expectation,
    group_findings,
    observation,
    tally,
)


def test_findings_of_one_check_are_one_group_with_the_worst(
    make_result: Callable[..., Result],
) -> None:
    results = [
        make_result("2013-02-08", Status.FAIL, observed=61.0),
        make_result("2013-02-09", Status.FAIL, observed=82.1),
        make_result("2013-02-10", Status.FAIL, observed=2.0),
        make_result("2013-02-11", Status.PASS),
    ]
    (group,) = group_findings(results)
    assert group.worst.batch == "2013-02-09"
    assert describe(group, 120) == (
        "mean between 5 and 60 on dep_delay: 3 of 120 batches, "
        "worst 2013-02-09 (observed 82.1, expected 5 to 60)"
    )


def test_a_whole_batch_is_told_before_its_segments(make_result: Callable[..., Result]) -> None:
    whole = make_result(status=Status.FAIL, observed=70.0)
    results = [make_result(status=Status.FAIL, segment="k=x", observed=990.0), whole]
    (group,) = group_findings(results)
    assert group.worst is whole


def test_without_bounds_the_newest_is_the_worst(make_result: Callable[..., Result]) -> None:
    free = {"lower": None, "upper": None}
    results = [
        make_result("2013-02-09", Status.FAIL, **free),
        make_result("2013-02-10", Status.FAIL, **free),
        make_result(None, Status.FAIL, **free),
    ]
    assert group_findings(results)[0].worst.batch == "2013-02-10"


def test_nan_and_infinite_observations(make_result: Callable[..., Result]) -> None:
    results = [
        make_result("1", Status.FAIL, observed=float("nan")),
        make_result("2", Status.FAIL, observed=float("inf")),
        make_result("3", Status.FAIL, observed=99.0),
    ]
    assert group_findings(results)[0].worst.batch == "2"


def test_groups_come_worst_first(make_result: Callable[..., Result]) -> None:
    results = [
        make_result("1", Status.WARN, check_id="a"),
        make_result("2", Status.WARN, check_id="a"),
        make_result("1", Status.NO_DATA, check_id="b"),
        make_result("1", Status.FAIL, check_id="c"),
        make_result("1", Status.ERROR, check_id="d"),
    ]
    assert [g.check_id for g in group_findings(results)] == ["d", "c", "a", "b"]


def test_what_explains_more_comes_first_among_equals(make_result: Callable[..., Result]) -> None:
    names = {"a": ("mean", "price"), "b": ("not_null", "price"), "c": ("row_count", None)}
    results = [
        make_result("1", Status.WARN, check_id=check_id, check_name=name, column=column)
        for check_id, (name, column) in names.items()
    ]
    assert [g.check_id for g in group_findings(results)] == ["a", "b", "c"]
    assert [g.check_id for g in group_findings(results, grouped(results))] == ["c", "b", "a"]


def test_a_single_finding_and_segments(make_result: Callable[..., Result]) -> None:
    one = make_result("2013-02-09", Status.FAIL, segment="EWR", message="mean is 82.1")
    (group,) = group_findings([one])
    label = "mean between 5 and 60 on dep_delay"
    assert describe(group, 120) == f"{label}: 2013-02-09 [EWR]: mean is 82.1"
    assert describe(group, 1) == f"{label} [EWR]: mean is 82.1"
    other = make_result("2013-02-09", Status.FAIL, segment="JFK", message="mean is 62", observed=62)
    (group,) = group_findings([one, other])
    assert "1 of 120 batches, 2 segments" in describe(group, 120)


def test_what_the_label_says_is_not_repeated(make_result: Callable[..., Result]) -> None:
    result = make_result(
        status=Status.FAIL,
        check_name="median < 30",
        message="median(dep_delay) is 64, expected median < 30",
    )
    (group,) = group_findings([result])
    assert describe(group, 1) == "median < 30 on dep_delay: median(dep_delay) is 64"


def test_what_was_expected(make_result: Callable[..., Result]) -> None:
    assert expectation(make_result(lower=1.0, upper=1.0)) == "expected 1"
    assert expectation(make_result(lower=None)) == "expected at most 60"
    assert expectation(make_result(upper=None)) == "expected at least 5"
    assert expectation(make_result(lower=None, upper=None)) is None
    plain = make_result(observed=None, observed_text="2013-02-09", lower=None, upper=None)
    assert observation(plain) == "observed 2013-02-09"
    nothing = make_result(status=Status.NO_DATA, observed=None, lower=None, upper=None)
    assert observation(nothing) == "no_data"


def test_the_column_is_named_once() -> None:
    assert check_label("mean > 3", "dep_delay") == "mean > 3 on dep_delay"
    assert check_label("sum(distance) > 3", "distance") == "sum(distance) > 3"
    assert check_label("not_null", "n") == "not_null on n"
    assert check_label("row_count > 3", None) == "row_count > 3"


def test_a_model_that_could_not_be_checked_counts_as_an_error(
    make_model: Callable[..., ModelResult], make_result: Callable[..., Result]
) -> None:
    broken = make_model(error=QueryError("no"))
    fine = make_model(make_result(), make_result(status=Status.NO_DATA))
    counts = {status: n for status, n in tally(broken, fine).items() if n}
    assert counts == {Status.PASS: 1, Status.NO_DATA: 1, Status.ERROR: 1}

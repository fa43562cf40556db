"""Findings of `@avh` name every metric that is a short form in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.program import COUNTED, Clause, ClauseVerdict, Program, ProgramVerdict
from dqsql.decisions.running_numbers import TextState
from dqsql.decisions.stationarity import Transform
from dqsql.model.metric_traits import (
    CATEGORICAL_DISTANCES,
    NUMERIC_DISTANCES,
    OWN_METRICS,
    PATTERN_DISTANCES,
    metric_words,
)
from dqsql.monitors.kinds.avh import _NAMES
from dqsql.monitors.kinds.avh.words import message, moved, shifted

_SPEAKS = {"min", "max", "mean", "median", "sum", "count"}
_DISTANCES = {*NUMERIC_DISTANCES, *CATEGORICAL_DISTANCES, *PATTERN_DISTANCES}
_WATCHED = _DISTANCES.union(*(names.split() for names in _NAMES.values()))


@pytest.mark.parametrize(
    "metric", sorted(m for m in _WATCHED | OWN_METRICS if m not in _SPEAKS and "profile" not in m)
)
def test_a_short_form_is_told_in_words(metric: str) -> None:
    assert metric_words(metric).endswith(f" ({metric})")


def test_a_name_that_speaks_for_itself_stays() -> None:
    assert [metric_words(m) for m in sorted(_SPEAKS)] == sorted(_SPEAKS)
    assert metric_words("pat_kl_div") == "distance of the distribution of text shapes (pat_kl_div)"


def _broken(metric: str, method: str, observed: float, lower: float) -> ClauseVerdict:
    clause = Clause(
        metric=metric,
        transform=Transform(),
        lower=lower,
        upper=math.inf,
        center=1.0,
        spread=0.1,
        fpr=0.001,
        method=method,
        catches=(),
        history_size=30,
        first_batch="1",
        last_batch="30",
    )
    return ClauseVerdict(clause, observed, lower, math.inf, 3.0, "fail", "")


@pytest.mark.parametrize("first", [0, 1])
def test_a_share_of_nulls_is_told_once_and_in_percent(first: int) -> None:
    """A bound that issues chose and the one on counted nulls are about the same rows."""
    shares = [
        _broken("complete_ratio", "student_t", 0.425439, 0.763651),
        _broken("complete_ratio", COUNTED, 0.425439, 0.765),
    ]
    clauses = (shares[first], _broken("mean", "student_t", 3.0, 5.0), shares[1 - first])
    program = Program("arr_delay", tuple(c.clause for c in clauses), 0.01, "calibrated", 0, 0)
    told = message("arr_delay", program, ProgramVerdict(program, "fail", 3.0, clauses, ""))
    assert told == (
        "arr_delay is unlike its history: 57.5% of values are null, expected at most 23.5%,"
        " mean is 3 (expected at least 5); learned from 1 to 30"
    )
    alone = ProgramVerdict(program, "fail", 3.0, clauses[first * 2 : first * 2 + 1], "")
    assert "57.5% of values are null, expected at most 23.6%" in message("x", program, alone)


def test_what_is_more_or_less_frequent_is_named() -> None:
    before = TextState(
        CategoricalState({"shipped": 60.0, "new": 40.0}), CategoricalState({"lllllll": 100.0})
    )
    now = TextState(
        CategoricalState({"sent": 60.0, "new": 40.0}), CategoricalState({"llll": 100.0})
    )

    def told(metric: str) -> tuple[str, ...]:
        broken = _broken(metric, "chebyshev", 3.5, 0.0)
        program = Program("status", (broken.clause,), 0.01, "calibrated", 0, 0)
        return tuple(moved(ProgramVerdict(program, "fail", 2.0, (broken,), ""), before, now))

    assert told("kl_div") == ("'shipped' 60% -> 0%", "'sent' 0% -> 60%")
    # That a value is new says more than that its shape is.
    assert told("pat_l_1") == ("'sent' 0% -> 60%",)
    now = replace(now, values=replace(now.values, other=1.0))
    assert told("pat_l_1") == ("'lllllll' 100% -> 0%", "'llll' 0% -> 100%")
    now = replace(now, values=replace(now.values, other=0.0))
    assert told("complete_ratio") == ()
    assert told("char_len") == ("'sent' 0% -> 60%",)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (30.0, 2_964.0, "median 30 -> 2,964 (99 times as much)"),
        (2_540.0, 1_000.0, "median 2,540 -> 1,000"),
        (-60.0, -3_600.0, "median -60 -> -3,600 (60 times as much)"),
        (2_000.0, 2.0, "median 2,000 -> 2 (1/1,000 of it)"),
        (0.0, 7.0, "median 0 -> 7"),
        (-5.0, 50.0, "median -5 -> 50"),
        (1e-300, 1e300, "median 1e-300 -> 1e+300"),
    ],
)
def test_a_shift_by_a_large_factor_says_the_factor(before: float, now: float, words: str) -> None:
    broken = _broken("emd", "student_t", 9.0, 10.0)
    verdict = ProgramVerdict(
        Program("fee", (broken.clause,), 0.01, "calibrated", 0, 0), "fail", 9.0, (broken,), ""
    )
    assert shifted(verdict, {"median": np.full(20, before)}, {"median": now}) == (words,)


def test_of_few_values_the_shares_are_told_and_not_those_of_their_shapes() -> None:
    flags, shapes = {"true": 70.0, "false": 30.0}, {"llll": 70.0, "lllll": 30.0}
    before = TextState(CategoricalState(flags), CategoricalState(shapes))
    now = TextState(
        CategoricalState({"true": 40.0, "false": 60.0}),
        CategoricalState({"llll": 40.0, "lllll": 60.0}),
    )
    broken = _broken("pat_kl_div", "chebyshev", 3.5, 0.0)
    verdict = ProgramVerdict(
        Program("is_paid", (broken.clause,), 0.01, "calibrated", 0, 0), "fail", 2.0, (broken,), ""
    )
    assert tuple(moved(verdict, before, now)) == ("'true' 70% -> 40%", "'false' 30% -> 60%")


def test_of_a_column_without_values_only_that_is_told() -> None:
    nulls = _broken("complete_ratio", COUNTED, 0.0, 0.97)
    length = replace(_broken("str_len", "student_t", math.nan, 3.0), status="null")
    clauses = (length, nulls)
    program = Program("note", tuple(c.clause for c in clauses), 0.01, "calibrated", 0, 0)
    told = message("note", program, ProgramVerdict(program, "fail", 3.0, clauses, ""))
    assert told.startswith("note is unlike its history: 100% of values are null, expected at most")
    assert "no value" not in told and "more bound" not in told

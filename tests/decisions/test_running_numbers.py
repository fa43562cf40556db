"""Texts with a running number that gains a digit, and what else looks like it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import md5

import numpy as np
import pytest

from dqsql.decisions.avh import AvhConfig, ColumnHistory, fit_programs
from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.running_numbers import TextState, counted_on, text_distances


def state(values: Iterable[object], hashed: bool = False) -> TextState:
    texts = [str(value) for value in values]
    patterns = Counter(re.sub("[0-9]", "d", re.sub("[A-Za-z]", "l", text)) for text in texts)
    shown = Counter(md5(text.encode()).hexdigest() if hashed else text for text in texts)
    return TextState(CategoricalState(shown), CategoricalState(patterns))


def numbers(first: int, last: int, form: str = "A{}") -> TextState:
    return state(form.format(number) for number in range(first, last))


@pytest.mark.parametrize("form", ["{}", "A{}", "A0B{}", "{}B"])
@pytest.mark.parametrize("first", [95, 480, 985, 1_000, 9_960])
def test_numbers_that_go_on(first: int, form: str) -> None:
    before, now = numbers(first, first + 30, form), numbers(first + 30, first + 60, form)
    assert counted_on(before, now)
    found = text_distances(before, now)
    assert found["pat_l_1"] == pytest.approx(0.0, abs=1e-12)
    assert found["l_1"] == 2.0


@pytest.mark.parametrize("hashed", [False, True])
def test_numbers_of_many_rows_in_no_order(hashed: bool) -> None:
    before = state([f"A{n // 3}" for n in range(2_900, 2_999)] + ["A1001"], hashed)
    now = state([f"A{n // 3}" for n in range(2_999, 3_100)] + ["A901"], hashed)
    assert counted_on(before, now)


@pytest.mark.parametrize(
    "now",
    [
        [f"A0{n}" for n in range(960, 990)],
        [f"A{n}7" for n in range(960, 990)],
        [f"A{n}" for n in range(96, 99)],
        [f"A-{n}" for n in range(960, 990)],
        [f"A{n}" for n in range(10_000, 10_030)],
        [f"A{n}" for n in range(960, 990)] + ["A"],
        ["AB"] * 30,
    ],
    ids=["zero", "tenfold", "cut", "shape", "jump", "empty", "constant"],
)
def test_what_else_changes_is_seen(now: list[str]) -> None:
    before = numbers(930, 960)
    assert not counted_on(before, state(now))
    assert text_distances(before, state(now))["pat_l_1"] > 0.05


def test_two_numbers_that_gain_digits_are_no_running_number() -> None:
    assert not counted_on(
        state(f"{n}-{n}" for n in range(980, 999)), state(f"{n}-{n}" for n in range(999, 1020))
    )


def test_values_that_come_again_are_no_running_number() -> None:
    assert not counted_on(state(["A8", "A9"]), state(["A8", "A9", "A10"]))


METRICS = ("str_len", "digit_len", "char_len", "upper_ratio", "lower_ratio", "pat_l_1")
ISSUES = np.array([[9.0, 6.0, 2.0, 0.1, 0.5, 1.5]])


@pytest.mark.parametrize(
    ("steady", "left"), [(True, {"char_len", "lower_ratio", "pat_l_1"}), (False, set(METRICS))]
)
def test_lengths_have_no_bounds_where_patterns_see_them(steady: bool, left: set[str]) -> None:
    rng = np.random.default_rng(1)
    values = np.tile([4.0, 3.0, 1.0, 0.25, 0.0, 0.0], (30, 1))
    if not steady:
        values[:, -1] = rng.uniform(0.0, 0.01, 30)
    columns = [
        ColumnHistory("c", (name,), values[:, [place]], ("unit_x",), ISSUES[:, [place]])
        for place, name in enumerate(METRICS)
    ]
    alone = [program.clauses for program in fit_programs(columns, AvhConfig(fpr=0.05))]
    assert all(alone), "each has a bound by itself"
    goals = tuple(f"issue_{name}" for name in METRICS)
    each = np.tile(values[-1], (len(METRICS), 1))
    np.fill_diagonal(each, ISSUES[0])
    (program,) = fit_programs(
        [ColumnHistory("c", METRICS, values, goals, each)], AvhConfig(fpr=0.05)
    )
    assert {clause.metric for clause in program.clauses} == left

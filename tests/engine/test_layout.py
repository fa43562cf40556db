"""The order of batches, and the search for what makes a statement fail."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dqsql.engine.feasible import failing_states, find_failing
from dqsql.engine.storage_merge import table_word
from dqsql.errors import EngineError, QueryError
from dqsql.model.batches import batch_order
from dqsql.model.plan import Buffer, StateColumn


def test_order_of_batches() -> None:
    names = ["10", "9", "100", "2024-01-02", "2024-01-01 10:00:00", "b", "a"]
    wanted = ["9", "10", "100", "2024-01-01 10:00:00", "2024-01-02", "a", "b"]
    assert sorted(names, key=batch_order) == wanted


@pytest.mark.parametrize(
    "wanted",
    [
        # A double, as a nullable whole number becomes in pandas.
        ["-10.0", "-9.0", "0.0", "9.0", "10.0", "1.0E7", "2.0E10"],
        ["9.50", "10.25", "100.00"],
        ["-2", "-1", "0", "1"],
        ["9999999999999999", "10000000000000000", "9" * 40, "1" + "0" * 40],
        # No numbers, but texts that begin like some.
        ["1.2.3", "10E5", "2-1", "3.E1"],
    ],
)
def test_numbers_are_ordered_by_value(wanted: list[str]) -> None:
    assert sorted(reversed(wanted), key=batch_order) == wanted


@given(st.sets(st.integers(0, 99)), st.integers(0, 100))
def test_failing_items_are_found(failing: set[int], count: int) -> None:
    calls = 0

    def attempt(items: list[int]) -> None:
        nonlocal calls
        calls += 1
        if bad := [i for i in items if i in failing]:
            raise QueryError(f"{bad[0]} is bad")

    items = list(range(count))
    found = find_failing(items, attempt)
    wanted = [i for i in items if i in failing]
    assert [i for i, _ in found] == wanted
    assert [str(e) for _, e in found] == [f"{i} is bad" for i in wanted]
    assert all(isinstance(e, EngineError) for _, e in found)
    depth = math.ceil(math.log2(count)) + 1 if count > 1 else 1
    assert calls <= 1 + 2 * depth * len(wanted)


@given(st.integers(0, 98), st.integers(1, 99))
def test_states_that_fail_only_together(one: int, more: int) -> None:
    other = min(99, one + more)
    scan = exp.column("x")
    states = [StateColumn(f"s{i}", scan, None, Buffer.FIXED, (f"s{i}",)) for i in range(100)]

    def attempt(some: Sequence[StateColumn]) -> None:
        if {f"s{one}", f"s{other}"} <= {s.name for s in some}:
            raise QueryError("not these two")

    found = failing_states(states, attempt)
    assert [s.name for s, _ in found] == [f"s{other}"]


@given(st.sets(st.integers(0, 99), min_size=1), st.integers(1, 100))
def test_what_is_known_to_fail_together_is_not_tried_again(failing: set[int], count: int) -> None:
    tried: list[list[int]] = []

    def attempt(items: list[int]) -> None:
        tried.append(items)
        if bad := [i for i in items if i in failing]:
            raise QueryError(f"{bad[0]} is bad")

    items = list(range(count))
    wanted = [i for i in items if i in failing]
    if wanted:
        found = find_failing(items, attempt, fails=True)
        assert [(i, str(e)) for i, e in found] == [(i, f"{i} is bad") for i in wanted]
        assert items not in tried or count == 1
    if len(wanted) == 1:
        assert sum(map(len, tried)) <= 2 * count + 1


def test_other_exceptions_pass_through() -> None:
    def attempt(items: list[int]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        find_failing([1, 2], attempt)


def test_names_of_tables_in_a_catalog() -> None:
    assert table_word("dq_state__Flights_2") == "dq_state__Flights_2"
    names = [table_word(n) for n in ("dq_state__it's new", "dq_state__it_s new", "dq_state__größe")]
    assert all(name.isascii() and name.isidentifier() for name in names)
    assert len(set(names)) == 3

"""Chunks of batches, and the search for what makes a statement fail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from dqsql.engine.isolation import find_failing
from dqsql.engine.layout import chunk_of, chunk_sql
from dqsql.errors import EngineError, QueryError
from dqsql.model.batches import batch_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ends = st.sampled_from(["", "", "", "\n", "\r", "\r\n", "\u2028", " ", "Z"])
batches = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12),
    st.builds(lambda d, e: f"{d}{e}", st.dates(), ends),
    st.builds(lambda d, s, e: f"{d.isoformat(s)}{e}", st.datetimes(), st.sampled_from(" T"), ends),
    st.builds(lambda d, e: f"{d} 00:00:00{e}", st.dates(), ends),
    st.builds(lambda n, e: f"{n}{e}", st.integers(-1000, 10**20), ends),
    st.builds(lambda n: f"{n:05d}", st.integers(0, 999)),
    st.sampled_from(["٣٤", "²", "0", "00", "2024-1-1", "2024-01-01T", "a'b", "a\\b", "x%y", "é"]),
)


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(st.lists(batches, min_size=300, max_size=400))
@example(["12\r", "12\n", "2024-01-01\r", "2024-01-01\u2028", "2024-01-01 00:00:00\r\n", ""])
def test_chunks_are_the_same_in_python_and_spark(spark: SparkSession, names: list[str]) -> None:
    frame = spark.createDataFrame(pa.table({"b": pa.array(names, pa.string())}))
    rows = frame.selectExpr("b", f"{chunk_sql('b')} as chunk").collect()
    assert {r["b"]: r["chunk"] for r in rows} == {n: chunk_of(n) for n in names}


@pytest.mark.parametrize(
    ("batch", "chunk"),
    [
        ("2024-01-31", "2024-01"),
        ("2024-01-31 00:00:00", "2024-01"),
        ("2024-01-31 01:00:00", "2024-01-31"),
        ("2024-01-31T00:30", "2024-01-31"),
        ("7", "0"),
        ("123", "1"),
        ("1999", "19"),
    ],
)
def test_chunk_of_usual_batches(batch: str, chunk: str) -> None:
    assert chunk_of(batch) == chunk


def test_other_batches_are_spread_over_32_chunks() -> None:
    chunks = {chunk_of(f"batch-{i}") for i in range(1000)}
    assert chunks == {f"h{i:02d}" for i in range(32)}


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


def test_other_exceptions_pass_through() -> None:
    def attempt(items: list[int]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        find_failing([1, 2], attempt)

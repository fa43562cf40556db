from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dqsql.json_text import timestamp, to_json
from dqsql.model.results import Status


def reject(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def test_numbers_that_json_lacks() -> None:
    value = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": Decimal("NaN")}
    text = to_json(value)
    parsed = json.loads(text, parse_constant=reject)
    assert parsed == {"a": None, "b": ["Infinity", "-Infinity"], "c": None}


def test_values_of_many_types() -> None:
    value: Mapping[Any, Any] = {
        "status": Status.NO_DATA,
        1: Decimal("1.5"),
        "path": Path("a/b"),
        "day": date(2025, 3, 1),
        "set": {"b", "a"},
        "numpy": [np.float64("nan"), np.int64(3), np.bool_(True), np.array([1.0, 2.0])],
        "object": complex(1, 2),
        "surrogate": "a\udc80",
    }
    assert json.loads(to_json(value)) == {
        "status": "no_data",
        "1": 1.5,
        "path": "a/b",
        "day": "2025-03-01",
        "set": ["a", "b"],
        "numpy": [None, 3, True, [1.0, 2.0]],
        "object": "(1+2j)",
        "surrogate": "a?",
    }


def test_timestamps_are_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamp(datetime(2025, 3, 1, 2, 0, tzinfo=east)) == "2025-03-01T00:00:00.000000Z"
    assert timestamp(datetime(2025, 3, 1, 2)) == timestamp(datetime(2025, 3, 1, 2, tzinfo=UTC))

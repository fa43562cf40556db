"""`@avh` by default finds surges of missing values, end to end."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.results import Result, Status

from .conftest import NewProject

BATCHES = 36
SHORT = 9
ROWS = 400
MODEL = """\
{{ config(batch_by = 'day', avh = true) }}
select day, number, rarely, often, nans, infinite, text, blank
from {{ source('raw', 't') }}
"""
# The share of rows without a value before and on the last day; all of these passed once.
SURGES = {
    "number": (0.0, 0.2),
    "rarely": (0.02, 0.5),
    "often": (0.3, 0.8),
    "nans": (0.02, 0.6),
    "infinite": (0.0, 0.1),
    "text": (0.0, 0.1),
    "blank": (0.0, 0.1),
}
MISSING: dict[str, Any] = {"nans": float("nan"), "infinite": float("inf"), "blank": "  "}
WORDS = {"nans": "NaN", "infinite": "infinite", "blank": "empty"}


def days(batches: int) -> pa.Table:
    """Steady columns; on the last day many rows have no proper value."""
    draw = np.random.default_rng(7)
    columns: dict[str, list[Any]] = {name: [] for name in ("day", *SURGES)}
    for number in range(batches):
        columns["day"] += [dt.date(2024, 1, 1) + dt.timedelta(number)] * ROWS
        for name, shares in SURGES.items():
            share = shares[number == batches - 1]
            values: list[Any] = draw.normal(100, 10, ROWS).tolist()
            if name in ("text", "blank"):
                values = [f"{'ab'[int(v) % 2]}-{int(v)}" for v in values]
            for row in np.flatnonzero(draw.random(ROWS) < share):
                values[row] = MISSING.get(name)
            columns[name] += values
    return pa.table({**columns, "day": pa.array(columns["day"], pa.date32())})


@pytest.mark.parametrize("batches", [BATCHES, SHORT])
def test_a_surge_is_found_and_told_in_percent(new_project: NewProject, batches: int) -> None:
    project = new_project(MODEL)
    folder = project.root / "data" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(days(batches), folder / "rows.parquet")
    found: dict[str, list[Result]] = {}
    for result in project.run().results:
        found.setdefault(result.column or "", []).append(result)
    for column, (_, after) in SURGES.items():
        *before, last = sorted(found[column], key=lambda r: r.batch or "")
        assert last.status is Status.FAIL, column
        told = f"of values are {WORDS.get(column, 'null')}, expected at most"
        assert told in last.message, column
        share = next(
            c for c in last.details["clauses"] if c["method"] == "beta_binomial" and c["score"] > 1
        )["observed"]
        seen = 1 - share if column not in WORDS else share
        assert seen == pytest.approx(after, abs=0.08)
        assert sum(r.status is Status.FAIL for r in before) <= 1, column

"""`@avh` on texts with a running number, day after day while it gains a digit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.model.results import Status

from .conftest import NewProject

DAYS = 36
ROWS = 30
MODEL = """\
{{ config(batch_by = 'day', avh = true) }}
select day, number, code, line, filled
from {{ source('raw', 't') }}
"""
# By column: the first number, the rows that each stands in, its text, the issue of the last day.
COLUMNS: dict[str, tuple[int, int, str, Callable[[str], str]]] = {
    "number": (640, 1, "{}", lambda text: text + "7"),
    "code": (9_500, 1, "A{}", lambda text: text.replace("A", "A0")),
    "line": (99_700, 3, "ORD-{}", str.lower),
    "filled": (900, 1, "ORD-{:06d}", lambda text: text[:-1]),
}


def rows() -> pa.Table:
    """Numbers that run on: to 1,000, 10,000 and 100,000, and filled up with zeros."""
    columns: dict[str, list[Any]] = {name: [] for name in ("day", *COLUMNS)}
    for day in range(DAYS):
        columns["day"] += [dt.date(2024, 1, 1) + dt.timedelta(day)] * ROWS
        for name, (first, times, text, wrong) in COLUMNS.items():
            numbers = range(day * ROWS, (day + 1) * ROWS)
            values = [text.format(first + number // times) for number in numbers]
            columns[name] += map(wrong, values) if day == DAYS - 1 else values
    return pa.table({**columns, "day": pa.array(columns["day"], pa.date32())})


def test_one_digit_more_is_no_alarm_and_other_changes_are(new_project: NewProject) -> None:
    project = new_project(MODEL)
    folder = project.root / "data" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(), folder / "rows.parquet")
    found = [r for r in project.run().results if r.detector == "avh"]
    assert {r.column for r in found} == set(COLUMNS)
    last = str(dt.date(2024, 1, 1) + dt.timedelta(DAYS - 1))
    alarms = [(r.column, r.batch) for r in found if r.status is Status.FAIL]
    assert sorted(alarms) == sorted((name, last) for name in COLUMNS)

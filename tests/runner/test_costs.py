"""What a run stores of itself beside metrics and verdicts."""

from __future__ import annotations

import pytest

from .conftest import NewProject

MODEL = """\
{{ config(batch_by = 'day', owner = 'data team') }}
select
    day,
    x, -- @not_null @max < 9
    'a' as unchecked
from {{ source('raw', 't') }}
"""


def day(text: str, value: str) -> str:
    return f"select date '{text}' as day, cast({value} as int) as x, id from range(4)"


def test_costs_columns_attempts_and_the_life_of_a_finding(new_project: NewProject) -> None:
    first, second = day("2024-01-01", "id"), day("2024-01-02", "null")
    project = new_project(MODEL, f"{first} union all {second}")
    project.run()
    (cost,) = project.rows("dq_model_runs")
    assert (cost["status"], cost["batches"], cost["rows"], cost["findings"]) == ("fail", 2, 8, 2)
    phases = [cost[f"{p}_seconds"] for p in ("compile", "discovery", "scan", "decide")]
    assert all(seconds > 0 for seconds in phases)
    assert sum(phases) == pytest.approx(cost["seconds"])
    assert cost["bytes"] > 0
    columns = {r["column_name"]: r for r in project.rows("dq_columns")}
    assert {n: (c["checks"], c["data_type"], c["position"]) for n, c in columns.items()} == {
        "day": (0, "date", 1),
        "x": (2, "int", 2),
        "unchecked": (0, "string", 3),
    }
    batch = next(r for r in project.rows("dq_batches") if r["batch"] == "2024-01-02")
    assert (batch["batch_end"] - batch["batch_start"]).days == 1
    opened = {r["check_name"]: r for r in project.rows("dq_findings")}
    assert opened["not_null"]["batches"] == ["2024-01-02"]
    assert opened["not_null"]["state"] == "open"
    assert not project.rows("dq_result_history")

    # The day is repaired and checked again: the old verdicts are kept.
    project.data(f"{first} union all {day('2024-01-02', 'id')}")
    project.run(batches=["2024-01-02"])
    kept = {r["check_name"]: r["status"] for r in project.rows("dq_result_history")}
    assert kept == {"not_null": "fail", "max < 9": "no_data"}
    now = {r["check_name"]: r["state"] for r in project.rows("dq_findings")}
    assert now == {"not_null": "resolved", "max < 9": "resolved"}
    assert len(project.rows("dq_model_runs")) == 2


def test_what_a_check_reads_is_covered(new_project: NewProject) -> None:
    """By the names in its arguments: it stands on no column's line."""
    model = """\
select id, x, 'a' as code, 'b' as state, 1 as y from {{ source('raw', 't') }}
-- @matches(code, '^a') @unique(id, x)
-- @row_count > 0 {where: "state = 'b'"}
"""
    project = new_project(model, day("2024-01-01", "id"))
    project.run()
    covered = {r["column_name"]: r["checks"] for r in project.rows("dq_columns")}
    assert covered == {"id": 1, "x": 1, "code": 1, "state": 0, "y": 0}

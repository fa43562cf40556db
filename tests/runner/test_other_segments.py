"""`segment_by`, and what `batch_by` is made of, may change: what is stored is of another kind."""

from __future__ import annotations

from .conftest import NewProject

DAYS = [f"2024-01-{day:02}" for day in range(1, 10)]
MODEL = """
{{ config(batch_by='day', segment_by=['k']) }}
select day, k, r, date_trunc('hour', at) as h from {{ source('raw', 't') }}
-- @row_count > 0
-- @expected_segments
-- @anomaly(row_count) {segments: true}
"""
ROWS = """
select date_add(date'2024-01-01', cast(d.id as int)) as day, if(r.id % 2 = 0, 'a', 'b') as k,
    if(r.id % 3 = 0, 'x', 'y') as r, timestamp'2024-01-01 00:00:00' + make_dt_interval(d.id) as at
from range(10) as d, range(12) as r
"""


def test_segments_of_today_are_not_those_of_earlier_columns(new_project: NewProject) -> None:
    project = new_project(MODEL, ROWS)
    project.run(batches=DAYS)
    path = project.root / "checks/m.sql"
    for columns, labels in (("['r']", {"r=x", "r=y"}), ("['r', 'k']", None)):
        path.write_text(MODEL.replace("['k']", columns))
        found = project.run(batches=["2024-01-10"]).results
        assert not [r.message for r in found if r.is_finding]
        segments = {r.segment for r in found if r.segment}
        assert labels is None or segments == labels


def test_another_expression_behind_the_name_in_batch_by_is_told(new_project: NewProject) -> None:
    text = MODEL.replace("'day', segment_by=['k']", "'h'").split("-- @expected")[0]
    project = new_project(text, ROWS)
    project.run(batches=["2024-01-01 00:00:00"])
    path = project.root / "checks/m.sql"
    path.write_text(text.replace("'hour'", "'day'"))
    (found,) = project.run(batches=["2024-01-02 00:00:00"]).models
    assert any("computes h by another expression than before" in n for n in found.notes)

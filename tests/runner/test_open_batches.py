"""Monitors wait for the rows of a batch that is not over, where batches fill as time passes."""

from __future__ import annotations

import datetime as dt

from dqsql.model.results import Status

from .conftest import NewProject

MODEL = """\
{{ config(batch_by = "date_trunc('hour', at)") }}
select
    at,
    x  -- @not_null @avh
from {{ source('raw', 't') }}
-- @anomaly(row_count) {min_history: 4} @row_count >= 10
"""


def hours(now: dt.datetime, newest: int, oldest: int = 14) -> str:
    """Forty rows in each hour up to the one before now, and `newest` in that of now."""
    began = f"timestamp'{now:%Y-%m-%d %H}:00:00' - make_interval(0, 0, 0, 0, h.id)"
    return f"""
    select {began} as at, r.id as x from range({oldest}) as h, range(40) as r
    where h.id > 0 or r.id < {newest}
    """


def test_a_batch_that_is_not_full_yet_is_judged_when_it_is(new_project: NewProject) -> None:
    now = dt.datetime.now(dt.UTC)
    before = now - dt.timedelta(hours=1)
    project = new_project(MODEL, hours(before, 5))
    first = {r.batch: r for r in project.run().results if "anomaly" in r.check_name}
    newest = f"{before:%Y-%m-%d %H}:00:00"
    # Nothing says yet that it gets more; dq_batches remembers how many it had.
    assert first[newest].status in (Status.WARN, Status.FAIL)
    rows = {r["batch"]: r for r in project.rows("dq_batches")}
    assert rows[newest]["grown_rows"] == 5 and rows[newest]["judged_from"] is None

    project.data(hours(now, 12, oldest=15))
    second = project.run()
    batch = f"{now:%Y-%m-%d %H}:00:00"
    status = {(r.batch, r.check_name.split("(")[0]): r for r in second.results}
    assert status[newest, "anomaly"].status is Status.PASS
    (model,) = second.models
    assert any(f"{batch} is likely to get more rows" in note for note in model.notes)
    for monitor in ("anomaly", "avh"):
        assert status[batch, monitor].status is Status.SKIPPED
        assert "judged from" in status[batch, monitor].message
    assert status[batch, "not_null"].status is Status.PASS
    rows = {r["batch"]: r for r in project.rows("dq_batches")}
    assert rows[newest]["grown_rows"] == rows[newest]["rows"] == 40
    assert rows[newest]["lacked_at"] is not None
    assert rows[batch]["grown_rows"] == 12 and rows[batch]["status"] == "accepted"
    assert rows[batch]["judged_from"] is not None

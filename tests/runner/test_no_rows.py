"""A model without rows: what its checks say, and what a person is told."""

from __future__ import annotations

import pytest

from dqsql.model.results import Status
from tests.runner.conftest import NewProject, by_check

CHECKS = """\
select
    id, -- @has_type('bigint') @stays_unique
    x,  -- @alive @avh
    c
from {{ source('raw', 't') }}
-- @row_count > 10
-- @not_null(x) @completeness(x) > 0.5 @unique(id)
-- @expect(count(*) > 5) @expect(approx_count_distinct(id) < 3)
-- @sum(x) > 0 {scope: cumulative}
-- @schema @drift(x, ks) < 0.9 @row_anomalies @anomaly(row_count)
"""
DATA = "select id, id * 2.0D as x, 'a' as c from range(20)"
NO_ROWS = f"{DATA} where id < 0"


def test_segmented_or_not_no_rows_are_told_alike(new_project: NewProject) -> None:
    told = {}
    for name, config in {"plain": "", "segmented": "segment_by = ['c']"}.items():
        model = f"{{{{ config({config}) }}}}\n{CHECKS}"
        project = new_project(model, NO_ROWS, name=name)
        first = project.run(quarantine=True)
        assert [m.rows for m in first.models] == [0]
        # What is counted over all batches so far goes on with the next.
        project.data(DATA)
        second = project.run()
        assert {r.segment for r in second.results} == {None, *(["c=a"] if config else [])}
        told[name] = [
            {check: (r.status, r.message) for check, r in by_check(result).items()}
            for result in (first, second)
        ]
    assert told["segmented"] == told["plain"]
    first, second = ({c: s.value for c, (s, _) in t.items()} for t in told["plain"])
    assert first["row_count > 10"] == first["expect(count(*) > 5)"] == "fail"
    assert first["not_null(x)"] == "no_data"
    assert first["schema"] == second["schema"] == second["sum(x) > 0"] == "pass"
    assert "error" not in {*first.values(), *second.values()}


@pytest.mark.parametrize("segments", ["", ", segment_by = ['c']"])
def test_a_source_that_was_emptied_is_told_by_every_run(
    new_project: NewProject, segments: str
) -> None:
    days = "select date_add(date'2024-01-01', cast(id % 3 as int)) as day, 'a' as c from range(9)"
    model = f"{{{{ config(batch_by = 'day'{segments}) }}}}\nselect * from "
    model += "{{ source('raw', 't') }}"
    project = new_project(f"{model}\n-- @row_count > 0\n", days)
    project.run()
    project.data(f"{days} where id < 0")
    for options in ({}, {}, {"full_refresh": True}):
        result = project.run(**options)
        words = "no rows any more; 3 batches were checked before"
        assert result.models[0].skipped == words
        assert f"m has {words}" in result.warnings
        assert (result.models[0].status, result.exit_code) == (Status.WARN, 0)
    for no_data, code in (("error", 1), ("ignore", 0)):
        text = model.replace("batch_by", f"no_data = '{no_data}', batch_by")
        project.write({"checks/m.sql": f"{text}\n-- @row_count > 0\n"})
        result = project.run()
        assert (result.exit_code, bool(result.warnings)) == (code, no_data != "ignore")
    # Asked for a day of which nothing was known, nothing is missed.
    assert not project.run(event_time_start="2024-02-01").warnings
    project.data(days.replace("% 3", "% 4"))
    result = project.run()
    assert {r.batch for r in result.results} == {"2024-01-04"}
    assert not result.warnings


@pytest.mark.parametrize("segments", ["", ", segment_by = ['c']"])
def test_a_first_look_at_no_rows_is_told(new_project: NewProject, segments: str) -> None:
    days = "select date'2024-01-01' as day, 'a' as c from range(3)"
    model = f"{{{{ config(batch_by = 'day'{segments}) }}}}\nselect * from "
    model += "{{ source('raw', 't') }}"
    project = new_project(f"{model}\n-- @row_count > 0\n", f"{days} where id < 0")
    for options in ({}, {}, {"full_refresh": True}):
        result = project.run(**options)
        assert [m.skipped for m in result.models] == ["no rows, so nothing was checked"]
        assert result.warnings == ("m has no rows, so nothing was checked",)
    # Asked for a time, that it has no batch is no news.
    assert not project.run(event_time_start="2024-02-01").warnings
    project.data(days)
    result = project.run()
    assert {r.status.value for r in result.results} == {"pass"}
    assert not result.warnings
    assert [m.skipped for m in project.run().models] == ["nothing new"]
    later = project.run(event_time_start="2024-02-01").models
    assert [m.skipped for m in later] == ["no batch in the time that was asked for"]

"""A model without rows: what its checks say, and what a person is told."""

from __future__ import annotations

from dqsql.model.results import Status
from tests.runner.conftest import NewProject

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
    # None is scanned with the other, which has segments.
    models = {
        f"checks/{name}.sql": f"{{{{ config({config}) }}}}\n{CHECKS}"
        for name, config in {"plain": "", "segmented": "segment_by = ['c']"}.items()
    }
    project = new_project(files=models, data=NO_ROWS)
    runs = [project.run(quarantine=True)]
    assert [m.rows for m in runs[0].models] == [0, 0]
    # What is counted over all batches so far goes on with the next.
    project.data(DATA)
    runs.append(project.run())
    segments = {m.model: {r.segment for r in m.results} for m in runs[1].models}
    assert segments == {"plain": {None}, "segmented": {None, "c=a"}}
    told: dict[str, list[dict[str, tuple[Status, str]]]] = {"plain": [], "segmented": []}
    for model in (m for run in runs for m in run.models):
        of_all = [r for r in model.results if r.segment is None]
        told[model.model].append({r.check_name: (r.status, r.message) for r in of_all})
    assert told["segmented"] == told["plain"]
    first, second = ({c: s.value for c, (s, _) in t.items()} for t in told["plain"])
    assert first["row_count > 10"] == first["expect(count(*) > 5)"] == "fail"
    assert first["not_null(x)"] == "no_data"
    assert first["schema"] == second["schema"] == second["sum(x) > 0"] == "pass"
    assert "error" not in {*first.values(), *second.values()}


# Two models by day, which are not scanned together: one has segments.
SEGMENTS = {"plain": "", "segmented": ", segment_by = ['c']"}


def by_day(no_data: str = "warn") -> dict[str, str]:
    """The files of both models, in which `no_data` is how it is told that there are no rows."""
    return {
        f"checks/{name}.sql": f"{{{{ config(batch_by = 'day', no_data = '{no_data}'{more}) }}}}\n"
        "select * from {{ source('raw', 't') }}\n-- @row_count > 0\n"
        for name, more in SEGMENTS.items()
    }


def test_a_source_that_was_emptied_is_told_by_every_run(new_project: NewProject) -> None:
    days = "select date_add(date'2024-01-01', cast(id % 3 as int)) as day, 'a' as c from range(9)"
    project = new_project(files=by_day(), data=days)
    project.run()
    project.data(f"{days} where id < 0")
    for options in ({}, {}, {"full_refresh": True}):
        result = project.run(**options)
        words = "no rows any more; 3 batches were checked before"
        assert [m.skipped for m in result.models] == [words] * 2
        assert {f"{m} has {words}" for m in SEGMENTS} <= {*result.warnings}
        assert [m.status for m in result.models] == [Status.WARN] * 2
        assert result.exit_code == 0
    for no_data, code in (("error", 1), ("ignore", 0)):
        project.write(by_day(no_data))
        result = project.run()
        assert (result.exit_code, bool(result.warnings)) == (code, no_data != "ignore")
        assert [m.status is Status.FAIL for m in result.models] == [no_data == "error"] * 2
    # Asked for a day of which nothing was known, nothing is missed.
    assert not project.run(event_time_start="2024-02-01").warnings
    project.data(days.replace("% 3", "% 4"))
    result = project.run()
    assert [{r.batch for r in m.results} for m in result.models] == [{"2024-01-04"}] * 2
    assert not result.warnings


def test_a_first_look_at_no_rows_is_told(new_project: NewProject) -> None:
    days = "select date'2024-01-01' as day, 'a' as c from range(3)"
    project = new_project(files=by_day(), data=f"{days} where id < 0")
    for options in ({}, {}, {"full_refresh": True}):
        result = project.run(**options)
        words = "no rows, so nothing was checked"
        assert [m.skipped for m in result.models] == [words] * 2
        assert sorted(result.warnings) == [f"{m} has {words}" for m in SEGMENTS]
    # Asked for a time, that it has no batch is no news.
    assert not project.run(event_time_start="2024-02-01").warnings
    project.data(days)
    result = project.run()
    assert [{r.status.value for r in m.results} for m in result.models] == [{"pass"}] * 2
    assert not result.warnings
    assert [m.skipped for m in project.run().models] == ["nothing new"] * 2
    later = project.run(event_time_start="2024-02-01").models
    assert [m.skipped for m in later] == ["no batch in the time that was asked for"] * 2

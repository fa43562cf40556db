"""`@freshness`: hours from the latest value to the start of the run."""

from __future__ import annotations

import datetime as dt

from dqsql.engine.session_settings import configured
from dqsql.model.results import Status

from .conftest import Project, Table


def test_age_at_the_start_of_the_run(project: Project, table: Table) -> None:
    table(
        "a_t",
        "select * from values ('x', timestamp'2020-01-01 12:00:00', date'2020-01-03'),"
        " ('x', null, date'2020-01-01'), ('y', timestamp'2020-01-02 00:30:00', null) t(k, ts, d)",
    )
    project.write(
        "a",
        "{{ config(segment_by=['k']) }}\n-- @freshness(ts) < 24\n"
        "select k, ts,\n d -- @freshness > 0\nfrom a_t\n-- @row_count > 2 {segments: false}",
    )
    result = project.run()
    found = {(r.check_name, r.segment): r for r in result.results}

    def age(year: int, month: int, day: int, *time: int) -> float:
        then = dt.datetime(year, month, day, *time, tzinfo=dt.UTC)
        return (result.started_at - then) / dt.timedelta(hours=1)

    expected = {
        ("freshness(ts) < 24", None): age(2020, 1, 2, 0, 30),
        ("freshness(ts) < 24", "k=x"): age(2020, 1, 1, 12),
        ("freshness(ts) < 24", "k=y"): age(2020, 1, 2, 0, 30),
        ("freshness > 0", None): age(2020, 1, 3),
        ("freshness > 0", "k=x"): age(2020, 1, 3),
        ("freshness > 0", "k=y"): None,
    }
    for key, hours in expected.items():
        observed = found[key].observed
        assert (observed is None) if hours is None else abs((observed or 0) - hours) < 1e-7, key
    assert found["freshness(ts) < 24", None].status is Status.FAIL
    assert " hours, expected freshness(ts) < 24" in found["freshness(ts) < 24", None].message
    # A check of the whole batch only: two rows and one are too few.
    assert [k for k in found if k[0] == "row_count > 2"] == [("row_count > 2", None)]
    assert found["row_count > 2", None].status is Status.PASS
    assert found["freshness > 0", "k=y"].status is Status.NO_DATA


def test_no_rows_is_no_data(project: Project, table: Table) -> None:
    table("a_t", "select timestamp'2020-01-01' as ts where false")
    project.write("a", "select ts -- @freshness < 24\nfrom a_t")
    (found,) = project.run().results
    assert found.status is Status.NO_DATA


def test_a_session_whose_timestamps_have_no_time_zone(project: Project, table: Table) -> None:
    """`timestamp` is a word of the session's there; the tables' types do not hang on it."""
    table("a_t", "select timestamp_ltz'2020-01-01' as ts, timestamp_ntz'2020-01-01' as local")
    project.write("a", "select ts, -- @freshness > 24\nlocal -- @freshness > 24\nfrom a_t")
    with configured(project.spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        found = {r.column: r for _ in (1, 2) for r in project.run().results}
    assert [r.status for r in found.values()] == [Status.PASS, Status.PASS]
    assert found["ts"].observed == found["local"].observed
    assert all(r["started_at"].tzinfo is not None for r in project.rows("dq_runs"))


def test_only_the_newest_batch_grows_old(project: Project, table: Table) -> None:
    days = "values (date'2020-01-01', 1), (date'2020-01-02', 2) t(d, x)"
    table("a_t", f"select * from {days}")
    project.write(
        "a", "{{ config(batch_by='d') }}\nselect x, -- @not_null\nd -- @freshness < 24\nfrom a_t"
    )
    for expected_batches in (("2020-01-01", "2020-01-02"), ("2020-01-02",), ("2020-01-02",)):
        result = project.run()
        assert result.models[0].batches == expected_batches
        old = [r.batch for r in result.results if r.check_name == "freshness < 24"]
        assert old == ["2020-01-02"]
        assert [r.batch for r in result.results if r.check_name == "not_null"] == [
            *expected_batches
        ]
    assert "2020-01-02 is checked again" in result.models[0].notes[0]

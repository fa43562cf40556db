"""Batches, segments, values and numbers that are not there any more are found."""

from __future__ import annotations

import datetime as dt
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import dqsql
from dqsql.model.results import Result, Status
from dqsql.runner.explain import explain

from .conftest import NewProject

DOCS = (Path(__file__).parents[2] / "docs" / "silence.md").read_text("utf-8")
MODEL = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)[0].replace("'orders')", "'t')")
DAYS = 14
LAST = "2024-03-14"


def orders(days: int, *, odd: bool, first: str = "2024-03-01") -> str:
    """Days of 3 countries; with `odd` the fifth is not there, and of the last much is missing."""
    last = f"id div 300 = {days - 1}" if odd else "false"
    return f"""
        select date_add(date '{first}', cast(id div 300 as int)) as day,
            element_at(array('DE', 'FR', 'IT'), cast(id % 3 + 1 as int)) as country,
            case when {last} then double('NaN') else cast(id % 17 as double) end as price,
            element_at(array('EUR', 'USD', if({last}, 'EUR', 'CHF')), cast(id % 7 % 3 + 1 as int))
                as currency
        from range({days * 300})
        where not ({str(odd).lower()} and id div 300 = 4) and not ({last} and id % 3 = 2)
    """


def told(results: tuple[Result, ...]) -> dict[tuple[str, str, str | None], Result]:
    found = {}
    for r in results:
        if r.is_finding:
            found[r.batch or "", f"{r.column or ''}:{r.check_name[:9]}", r.segment] = r
    return found


def test_what_is_missing(new_project: NewProject) -> None:
    model = MODEL.replace("@row_count > 10", "@row_count > 10 @anomaly(row_count) {segments: true}")
    project = new_project(model, orders(DAYS, odd=True))
    found = told(project.run().results)
    gap = found.pop(("2024-03-06", ":cadence('", None))
    assert (gap.status, gap.message) == (
        Status.WARN,
        "1 batch is missing before this one: 2024-03-05; one comes every day, as declared",
    )
    vanished = found.pop((LAST, ":expected_", None))
    assert vanished.status is Status.FAIL
    assert vanished.message == "1 segment without rows: country=IT (in all of 12 batches before)"
    none = found.pop((LAST, ":row_count", "country=IT"))
    assert (none.status, none.observed) == (Status.FAIL, 0)
    assert found.pop((LAST, ":anomaly(r", "country=IT")).observed == 0
    # To Spark NaN is a value, so that the column is complete.
    nan = found.pop((LAST, "price:alive", None)).message
    assert "price: 100% of the rows are NaN, at most 0.0% before" in nan
    lost = found.pop((LAST, "currency:alive", None)).message
    assert lost.startswith("currency: no longer occurs: CHF (in all of 12 batches before)")
    # The declared rhythm has ended years ago.
    assert found.pop((LAST, ":cadence('", None)).message.startswith("no batch has come since")
    # The whole batch has fewer rows, too.
    assert not [key for key in found if key[2] is not None or not key[1].startswith(":anomaly")]
    rows: list[dict[str, Any]] = project.rows("dq_metrics")
    zero = [r for r in rows if r["metric"] == "row_count" and r["value"] == 0]
    assert [(r["batch"], r["segment"]) for r in zero] == [(LAST, "country=IT")]
    # Batch by batch it is the same.
    apart = new_project(model, orders(DAYS, odd=True), name="apart")
    batches = sorted({r["batch"] for r in project.rows("dq_batches")})
    apart.run(batches=batches[:9])
    apart.run()
    assert apart.rows("dq_metrics") != []
    for table in ("dq_metrics", "dq_results"):
        keys = ("batch", "segment", "metric", "check_id", "value", "status", "message")
        both = [
            # Whether the newest batch is late depends on the day.
            [str([r.get(k) for k in keys]) for r in p.rows(table) if r.get("detector") != "cadence"]
            for p in (apart, project)
        ]
        assert sorted(both[0]) == sorted(both[1])


def test_new_values_in_many_rows(new_project: NewProject) -> None:
    model = """{{ config(batch_by = 'day') }}
    select day,
      carrier, -- @alive
      code -- @alive
    from {{ source('raw', 't') }}
    """

    def flights(days: int, odd: str) -> str:
        return f"""
            select date_add(date '2024-03-01', cast(id div 200 as int)) as day,
                if(id div 200 = 15 and id % 20 = 0, '{odd}',
                    element_at(array('AA', 'UA'), cast(id % 2 + 1 as int))) as carrier,
                concat('c', id) as code
            from range({days * 200})
        """

    project = new_project(model, flights(16, "ZZ"))
    (found,) = told(project.run().results).values()
    assert (found.batch, found.column, found.status) == ("2024-03-16", "carrier", Status.WARN)
    assert found.message == "carrier: 5.0% of the values are in no batch before: 'ZZ' 5%"
    explained = explain(
        f"{found.check_id}@{found.batch}", project_dir=project.root, spark=project.spark
    )
    assert explained.same is True
    # The batch is accepted, and what it had is no news in the next one.
    project.data(flights(18, "ZZ"))
    assert not told(project.run().results)


GONE = """\
{{ config(batch_by = 'day', segment_by = ['country']) }}
select day, country from {{ source('raw', 't') }}
-- @row_count > 10
"""


def without_italy(days: int, empty: int | None = None) -> str:
    """Days of two countries; one of them, and of the `empty` day both, have no rows from day 8."""
    left_out = f"id div 60 >= 8 and id % 2 = 1 or id div 60 = {-1 if empty is None else empty}"
    return f"""
        select date_add(date '2024-03-01', cast(id div 60 as int)) as day,
            element_at(array('DE', 'IT'), cast(id % 2 + 1 as int)) as country
        from range({days * 60}) where not ({left_out})
    """


def test_a_segment_is_missed_until_a_person_accepts_that(new_project: NewProject) -> None:
    project = new_project(GONE, without_italy(8))
    for day in (9, 10, 11):
        project.data(without_italy(day))
        failed = [(r.batch, r.segment) for r in project.run().findings]
        assert failed == [(f"2024-03-{day:02}", "country=IT")]
    (finding,) = project.rows("dq_findings")
    assert (finding["state"], len(finding["batches"])) == ("open", 3)
    # So it is with all in one run, and with one again.
    once = new_project(GONE, without_italy(11), name="once")
    assert len(once.run().findings) == 3
    assert len(once.run(batches=["2024-03-10", "2024-03-11"]).findings) == 2
    for made in (project, once):
        days = [f"2024-03-{day:02}" for day in (9, 10, 11)]
        dqsql.review("m", days, "accept", "no more orders from there", project_dir=made.root)
        made.data(without_italy(12))
        assert not made.run().findings
    # Checked once more, none is missed that was not.
    assert not [r for r in once.run(full_refresh=True).findings if r.batch == "2024-03-12"]


def test_a_batch_without_rows_says_nothing_of_segments(new_project: NewProject) -> None:
    project = new_project(GONE, without_italy(9, empty=6))
    failed = [(r.batch, r.segment) for r in project.run().findings]
    assert failed == [("2024-03-09", "country=IT")]


def test_a_lost_column_is_told_in_the_first_week(new_project: NewProject) -> None:
    asked = MODEL.replace("price,    -- @alive", "price,    -- @alive(min_history => 4)")
    assert asked != MODEL
    project = new_project(MODEL, orders(4, odd=True), {"checks/m_asked.sql": asked})
    of_model, of_asked = project.run().models
    found = told(of_model.results)
    lost = found["2024-03-04", "price:alive", None]
    # It may be so each weekend: the batch is not flagged for it.
    assert lost.status is Status.WARN
    assert lost.message == "price: 100% of the rows are NaN, at most 0.0% before"
    # That a value of a text is gone takes a week, and so does all else.
    assert ("2024-03-04", "currency:alive", None) not in found
    # Two batches say nothing, and neither do three where more are asked for.
    young = told(new_project(MODEL, orders(3, odd=True), name="young").run().results)
    assert not [key for key in young if "alive" in key[1]]
    assert not [key for key in told(of_asked.results) if "alive" in key[1]]


def test_dates_that_pass_are_not_lost(new_project: NewProject) -> None:
    """Dates of the last days, weeks or months move on with the batches; what goes back is told."""
    model = """{{ config(batch_by = 'day') }}
        select day,
            ordered_on, -- @alive
            seen_at,    -- @alive {pii: true}
            month,      -- @alive
            back,       -- @alive
            held,       -- @alive
            newest      -- @alive
        from {{ source('raw', 't') }}"""
    days = 45
    data = f"""
        select day, date_sub(day, age) as ordered_on, timestamp(date_sub(day, age)) as seen_at,
            date_format(date_sub(day, age), 'yyyy-MM') as month,
            date_format(add_months(date '2023-06-15', n), 'yyyy-MM') as back,
            add_months(date '2022-01-01', if(last and age = 7, 8, age)) as held,
            add_months(date '2022-01-01', if(last and age > 16, 3, age)) as newest
        from (select date_add(date '2024-01-01', cast(id div 600 as int)) as day,
            cast(id * 7919 % 20 as int) as age,
            id div 600 = {days - 1} as last,
            if(id div 600 = {days - 1}, -1, cast(id % 3 as int)) as n from range({days * 600}))
    """
    found = told(new_project(model, data).run().results)
    lost = found.pop(("2024-02-14", "back:alive", None))
    assert lost.status is Status.FAIL
    assert lost.message.startswith("back has become constant: 600 rows have one value")
    assert "no longer occurs: 2023-06 (in all of 30 batches before)" in lost.message
    # A hole between the others, and the newest: they have not passed.
    hole = found.pop(("2024-02-14", "held:alive", None)).message
    assert hole == "held: no longer occurs: 2022-08-01 (in all of 30 batches before)"
    older = found.pop(("2024-02-14", "newest:alive", None)).message
    assert older.startswith("newest: no longer occurs: 2023-06-01 (in all of 30 batches before)")
    assert not found


def test_a_late_batch_is_told_though_nothing_is_new(new_project: NewProject) -> None:
    today = dt.datetime.now(dt.UTC).date()
    first = (today - dt.timedelta(days=12)).isoformat()
    project = new_project(MODEL, orders(8, odd=False, first=first))
    project.run()
    again = project.run()
    newest = (today - dt.timedelta(days=5)).isoformat()
    assert again.models[0].batches == (newest,)
    assert "because another should have come by now" in again.models[0].notes[0]
    (late,) = [r for r in again.results if r.detector == "cadence"]
    assert late.status is Status.WARN
    assert late.message.startswith(f"no batch has come since {newest}")
    assert again.exit_code == 0
    # As soon as it comes, all is well.
    project.data(orders(13, odd=False, first=first))
    assert not [r for r in project.run().results if r.detector == "cadence" and r.is_finding]


def test_a_row_of_a_time_to_come_hides_no_late_batch(new_project: NewProject) -> None:
    today = dt.datetime.now(dt.UTC).date()
    first = (today - dt.timedelta(days=12)).isoformat()
    newest = (today - dt.timedelta(days=5)).isoformat()
    stray = "date '2099-01-01', 'DE', double(1), 'EUR'"
    model = MODEL.replace("@row_count > 10", "@row_count > 10 @freshness(day) < 50")
    assert model != MODEL
    project = new_project(model, f"{orders(8, odd=False, first=first)} union all select {stray}")

    def late() -> set[tuple[str, str]]:
        results = project.run().results
        kinds = {"cadence": "cadence", "freshness(day) < 50": "age"}
        told = ((kinds.get(r.detector) or kinds.get(r.check_name), r) for r in results)
        return {(kind, r.batch or "") for kind, r in told if kind and r.is_finding}

    every = {("cadence", newest), ("age", newest)}
    assert late() == every | {("cadence", "2099-01-01")}
    assert late() == every
    # What somebody checked after it was gone is empty, and no sign of life either.
    project.data(orders(8, odd=False, first=first))
    project.run(batches=["2099-01-01"])
    assert late() == every
    # As soon as the next ones come, nothing is late.
    project.data(orders(13, odd=False, first=first))
    assert late() == set()


def test_a_gap_is_closed_by_a_batch_that_comes_late(new_project: NewProject) -> None:
    def rows(*days: int) -> str:
        listed = ", ".join(map(str, days))
        return f"select make_date(2024, 3, d) as day from values {listed} as t(d)"

    model = """{{ config(batch_by = 'day') }}
    select day from {{ source('raw', 't') }} -- @row_count > 0 @anomaly(row_count)
    -- @cadence('daily') {severity: error}
    """
    project = new_project(model, rows(1, 2, 4, 5, 6))
    first = project.run(event_time_end="2024-03-07")
    (gap,) = [r for r in first.results if r.is_finding]
    assert (gap.batch, gap.observed) == ("2024-03-04", 1.0)
    project.data(rows(1, 2, 3, 4, 5, 6, 7))
    (late,) = project.run(event_time_end="2024-03-08", event_time_start="2024-03-07").models
    assert late.notes == ()
    closed = project.run()
    (model_result,) = closed.models
    assert model_result.batches == ("2024-03-03", "2024-03-04")
    assert model_result.notes == (
        "2024-03-04 is checked again: the batch before it came late",
        "monitors judged 3 later batches before this run; judge them again with"
        " --event-time-start 2024-03-03",
    )
    assert not [r for r in closed.results if r.is_finding]
    statuses = {r["batch"]: r["status"] for r in project.rows("dq_batches")}
    assert set(statuses.values()) == {"accepted"}
    assert {row["state"] for row in project.rows("dq_findings")} == {"resolved"}


def test_a_late_batch_is_no_fault_of_the_newest(new_project: NewProject) -> None:
    first = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=12)).isoformat()
    model = MODEL.replace(", cadence = 'daily'", "") + "-- @cadence('daily') {severity: error}\n"
    project = new_project(model, orders(8, odd=False, first=first))
    late = project.run()
    assert late.exit_code == 1
    assert {row["status"] for row in project.rows("dq_batches")} == {"accepted"}
    # It is late until it comes; then there is nothing to review.
    assert project.run().exit_code == 1
    project.data(orders(13, odd=False, first=first))
    assert project.run().exit_code == 0
    assert {row["status"] for row in project.rows("dq_batches")} == {"accepted"}
    assert {row["state"] for row in project.rows("dq_findings")} == {"resolved"}


def rows(*days_ago: int) -> str:
    """One row of each of some days."""
    listed = ", ".join(f"(current_timestamp() - interval {d} days)" for d in days_ago)
    return f"select at, to_date(at) as day from values {listed} as t(at)"


def test_a_newest_batch_that_is_old_is_no_bad_one(new_project: NewProject) -> None:
    model = """{{ config(batch_by = 'day') }}
    select day, at -- @freshness(at) < 30
    from {{ source('raw', 't') }} -- @row_count > 0 {scope: cumulative}
    """
    project = new_project(model, rows(5, 4))
    late = project.run()
    assert late.exit_code == 1
    (fresh,) = [r for r in late.results if r.is_finding]
    assert (fresh.check_name, fresh.status) == ("freshness(at) < 30", Status.FAIL)
    assert project.run().exit_code == 1
    assert {row["status"] for row in project.rows("dq_batches")} == {"accepted"}
    project.data(rows(5, 4, 0))
    found = project.run()
    assert found.exit_code == 0
    assert [r.observed for r in found.results if r.check_name == "row_count > 0"] == [3]
    assert {row["state"] for row in project.rows("dq_findings")} == {"resolved"}


def test_runs_that_find_the_newest_batch_too_old_are_counted(new_project: NewProject) -> None:
    """However many batches come between them, and if none does.

    Also if only older batches come, and if a newest one is gone: then it is an open finding.
    """
    model = """{{ config(batch_by = 'day') }}
    select day, at -- @freshness(at) < 30 {after: 3}
    from {{ source('raw', 't') }}
    """
    other = model.replace("'t'", "'u'")
    project = new_project(files={"checks/many.sql": model, "checks/older.sql": other})
    many = ((30, 20), (30, 20), (30, 20, 15, 14, 13), (30, 20, 15, 14, 13, 0), (30, 20, 0))
    # Fresh for a run, with a batch that is then rolled back; then late batches alone come.
    older = ((9,), (9,), (9, 0), (9, 0), (9,), (12, 9), (13, 12, 9), (13, 12, 9))
    told: dict[str, list[tuple[str, ...]]] = {"many": [], "older": []}
    for of_many, of_older in zip_longest(many, older, fillvalue=many[-1]):
        project.data(rows(*of_many))
        project.data(rows(*of_older), "u")
        for found in project.run().models:
            (fresh,) = [r for r in found.results if r.status is not Status.SKIPPED]
            run = re.findall(r"run (\d) in a row", fresh.message)
            told[found.model].append((fresh.status.value, *run))
    assert told["many"][: len(many)] == [
        ("warn", "1"),
        ("warn", "2"),
        ("fail", "3"),
        ("pass",),
        ("pass",),
    ]
    assert told["older"] == [
        ("warn", "1"),
        ("warn", "2"),
        ("pass",),
        ("pass",),
        ("warn", "1"),
        ("warn", "2"),
        ("fail", "3"),
        ("fail", "4"),
    ]
    rows_of = [r for r in project.rows("dq_findings") if r["status"] == "fail"]
    assert {r["state"] for r in rows_of if r["model"] == "older"} == {"open"}


def test_the_age_is_that_of_the_newest_batch_that_has_rows(new_project: NewProject) -> None:
    """Not of a batch whose rows are gone; nor of an inner one, where a run checks in parts."""

    def kinds(*days_ago: int) -> str:
        listed = ", ".join(f"({d}, {'A' * (1 + (d < 20))!r})" for d in days_ago)
        at = "current_timestamp() - make_interval(0, 0, 0, d)"
        return f"select {at} as at, to_date({at}) as day, c from values {listed} as t(d, c)"

    model = """{{ config(batch_by = 'day') }}
    select day,
        c, -- @pattern {severity: warn}
        at -- @freshness(at) < 30 {after: 3}
    from {{ source('raw', 't') }}
    """
    project = new_project(model, kinds(*range(40, 1, -1), 0))

    def fresh() -> list[tuple[str, str]]:
        found = [r for r in project.run().results if r.check_name.startswith("freshness")]
        return [(r.status.value, r.message[-40:]) for r in found if r.status is not Status.SKIPPED]

    assert [status for status, _ in fresh()] == ["pass"]
    project.data(kinds(*range(40, 1, -1)))
    told = [fresh() for _ in range(3)]
    assert [[status for status, _ in found] for found in told] == [["warn"], ["warn"], ["fail"]]
    assert ["run 1 in" in told[0][0][1], "run 3 in" in told[2][0][1]] == [False, True]


def test_the_age_of_a_table_that_lost_its_rows_is_no_pass(new_project: NewProject) -> None:
    model = """{{ config(segment_by = ['c']) }}
    select c, at -- @freshness(at) < 30
    from {{ source('raw', 't') }}
    """
    rows = "select 'a' as c, current_timestamp() as at"
    project = new_project(model, rows)
    assert {r.status for r in project.run().results} == {Status.PASS}
    project.data(f"{rows} where false")
    (fresh,) = [r for r in project.run().results if r.segment is None]
    assert fresh.status is Status.NO_DATA


def test_what_is_of_a_time_to_come_is_bad(new_project: NewProject) -> None:
    model = """{{ config(batch_by = 'day') }}
    select date'2024-01-01' as day, at -- @expect(freshness(at) between 0 and 48)
    from {{ source('raw', 't') }}
    """
    project = new_project(model, "select current_timestamp() + interval 365 days as at")
    assert project.run().exit_code == 1
    assert {row["status"] for row in project.rows("dq_batches")} == {"flagged"}


def test_a_declared_rhythm_of_names_that_are_no_times_is_told(new_project: NewProject) -> None:
    model = "{{ config(batch_by = 'n') }}\nselect n from {{ source('raw', 't') }}\n-- @cadence"
    data = "select * from values (1001), (1003) as t(n)"
    declared = new_project(f"{model}('daily')", data).run().results
    assert {r.status for r in declared} == {Status.NO_DATA}
    assert "not named by a time: '1001'" in declared[0].message
    learned = new_project(model, data, name="learned").run().results
    assert {r.status for r in learned} == {Status.SKIPPED}


@pytest.mark.parametrize("kind", ["int", "string"])
def test_partitions_named_by_days_have_a_rhythm(new_project: NewProject, kind: str) -> None:
    model = "{{ config(batch_by = 'ds') }}\nselect ds from {{ source('raw', 't') }}\n-- @cadence"
    days = ", ".join(f"({day})" for day in (*range(20240101, 20240120), 20240121))
    data = f"select cast(ds as {kind}) as ds from values {days} as t(ds)"
    project = new_project(model, data)
    newest = project.run().results[-1]
    assert (newest.batch, newest.status) == ("20240121", Status.WARN)
    assert newest.message.startswith("1 batch is missing before this one: 2024-01-20")
    start = "2024-01-19" if kind == "string" else "20240119"
    again = project.run(event_time_start=start).models[0]
    assert again.batches == ("20240119", "20240121")


def test_a_number_that_looks_like_a_day_is_no_day_among_numbers(new_project: NewProject) -> None:
    model = "{{ config(batch_by = 'n') }}\nselect n from {{ source('raw', 't') }}\n-- @cadence"
    data = "select explode(sequence(20240120, 20240201)) as n"
    assert {r.status for r in new_project(model, data).run().results[32:]} == {Status.SKIPPED}


def test_a_column_that_cannot_be_read_is_no_column_as_before(new_project: NewProject) -> None:
    model = """
        {{ config(batch_by = 'day') }}
        select day,
            if(x = 'a', raise_error('no number'), cast(x as int)) as x -- @avh {severity: warn}
        from {{ source('raw', 't') }}
        """
    data = "select date'2024-01-01' + cast(id div 50 as int) as day, {} as x from range({})"
    project = new_project(model, data.format("string(id % 5)", 50 * 9))
    assert project.run().results[-1].status is Status.PASS
    project.data(data.format("if(id < 450, string(id % 5), 'a')", 50 * 10))
    (found,) = project.run().results
    assert (found.batch, found.status) == ("2024-01-10", Status.ERROR)


@pytest.mark.parametrize(
    ("written", "told"), [("date_format(day, 'dd/MM/yyyy')", True), ("day || ' 00'", False)]
)
def test_batches_that_are_named_in_another_way_are_told(
    new_project: NewProject, written: str, told: bool
) -> None:
    model = """
        {{ config(batch_by = 'name') }}
        select name from {{ source('raw', 't') }}
        -- @row_count > 0
        """
    days = "select date'2024-01-01' + int(id) as day from range({})"
    first = f"select string(day) as name from ({days.format(8)})"
    project = new_project(model, first)
    assert project.run().models[0].notes == ()
    later = f"{first} union all select {written} from ({days.format(9)}) where day = '2024-01-09'"
    project.data(later)
    notes = project.run().models[0].notes
    said = "batches are named in another way now: 09/01/2024, and 2024-01-08 before."
    assert [note.startswith(said) for note in notes] == ([True] if told else [])
    # Once.
    assert project.run().models[0].notes == ()


def test_todays_batch_is_judged_by_all_its_rows(new_project: NewProject) -> None:
    model = """
        {{ config(batch_by = 'day') }}
        select day from {{ source('raw', 't') }}
        -- @row_count >= 10
        """
    today = dt.datetime.now(dt.UTC).date().isoformat()
    data = f"select date'{today}' as day from range({{}})"
    project = new_project(model, data.format(4))
    assert [r.status for r in project.run().results] == [Status.FAIL]
    project.data(data.format(12))
    again = project.run().models[0]
    assert [(r.status, r.observed) for r in again.results] == [(Status.PASS, 12)]
    assert again.notes == (
        f"{today} was not over when it was checked, and has other rows now: checked again",
    )

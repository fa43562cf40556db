"""`@schema`: columns added, dropped and retyped since the last accepted batch's run."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql
from dqsql.decisions.contract import compare, decide_schema
from dqsql.model.project import Severity
from dqsql.model.results import Status

from .conftest import Project, Table

MODEL = """{{ config(batch_by='day', segment_by=['odd`"name']) }}
-- @schema {allow: [added]} @column_count < 5
select * from a_t
"""


def test_changes_between_runs(project: Project, table: Table) -> None:
    project.write("a", MODEL)

    def run(sql: str, **options: object) -> tuple[Status, str, int]:
        table("a_t", sql)
        (result,) = [r for r in project.run(**options).results if r.detector == "schema"]
        assert result.segment is None
        return result.status, result.message, int(result.observed or 0)

    odd = "'x' as `odd``\"name`"
    assert run(f"select 1 as day, {odd}, 1 as a, 1 as b") == (
        Status.PASS,
        "4 columns; nothing to compare with",
        4,
    )
    # A new order is noted, and the batch is accepted.
    assert run(f"select 2 as day, {odd}, 1 as b, 1 as a") == (
        Status.PASS,
        "4 columns, as before; in another order",
        4,
    )
    broken = f"select 3 as day, {odd}, 1.5D as b, 'n' as c"
    said = "dropped a (int); retyped b (int -> double); added c (string) (allowed)"
    changed = (Status.FAIL, said, 4)
    assert run(broken) == changed
    # The flagged batch is not what the next one, or itself, is compared with.
    assert run(broken, batches=["3"]) == changed
    assert run(broken.replace("3 as day", "4 as day")) == changed
    # What is allowed passes and is the schema from then on (and another check is flagged by it).
    added = f"select 5 as day, {odd}, 1 as b, 1 as a, 1 as z"
    assert run(added)[:2] == (Status.PASS, "added z (int) (allowed)")
    stored = project.metrics("schema")
    value, text = stored["5", None]
    assert value == 5
    assert json.loads(text) == {
        "day": "int",
        'odd`"name': "string",
        "b": "int",
        "a": "int",
        "z": "int",
    }
    assert set(project.metrics("column_count")) == {(str(b), None) for b in range(1, 6)}


def test_a_batch_that_is_checked_again_is_compared_with_those_before_it(
    project: Project, table: Table
) -> None:
    """Its check on the column that was gone could not be computed."""
    project.write("a", MODEL.replace("@column_count < 5", "@sum(n) > 0").replace('odd`"name', "s"))

    def run(*days: int, n: str = "") -> dict[str, str]:
        rows = " union all ".join(f"select {day} as day, 's' as s{n}" for day in days)
        table("a_t", rows)
        return {r.batch: r.message for r in project.run().results if r.detector == "schema"}

    run(1, n=", 5 as n")
    assert run(1, 2) == {"2": "dropped n (int)"}
    assert run(1, 2, 3)["3"] == "dropped n (int)"
    # The column is back, in the batches that had lost it, too.
    assert set(run(1, 2, 3, 4, n=", 5 as n").values()) == {"3 columns, as before"}


def test_a_change_is_told_once_however_often_batches_are_checked_again(
    project: Project, table: Table
) -> None:
    model = (
        "{{ config(batch_by='day', lookback=3) }}\n-- @schema {severity: warn}\nselect * from a_t"
    )
    project.write("a", model)

    def run(days: int, name: str, **options: object) -> dict[str, Status]:
        table("a_t", " union all ".join(f"select {d} as day, 1 as {name}" for d in range(1, days)))
        return {r.batch or "": r.status for r in project.run(**options).results}

    def told() -> list[tuple[str, list[str]]]:
        return [(r["state"], r["batches"]) for r in project.rows("dq_findings")]

    run(6, "amount")
    assert run(7, "amt") == {"4": Status.PASS, "5": Status.PASS, "6": Status.WARN}
    assert told() == [("open", ["6"])]
    # The batch that told it keeps its verdict.
    assert run(8, "amt") == {"5": Status.PASS, "6": Status.WARN, "7": Status.PASS}
    assert told() == [("resolved", ["6"])]
    everything = run(8, "amt", full_refresh=True)
    assert [b for b, status in everything.items() if status is Status.WARN] == ["6"]
    assert told() == [("resolved", ["6"])]
    # Where nothing is new, the newest batch tells it.
    assert run(8, "paid", batches=["2", "3"]) == {"2": Status.PASS, "3": Status.WARN}


def test_a_change_that_fails_is_told_until_a_person_accepts_it(
    project: Project, table: Table
) -> None:
    model = "{{ config(batch_by='day', lookback=3) }}\n-- @schema\nselect * from a_t"
    project.write("a", model)

    def run(days: int, columns: str, **options: object) -> dict[str, str]:
        rows = (f"select {day} as day, 1 as {columns}" for day in range(1, days + 1))
        table("a_t", " union all ".join(rows))
        return {r.batch or "": r.status.value for r in project.run(**options).results}

    run(4, "a")
    assert run(5, "a, 2 as b") == {"3": "pass", "4": "pass", "5": "fail"}
    assert run(6, "a, 2 as b") == {"4": "pass", "5": "fail", "6": "fail"}
    # Even where all that passed was checked again.
    assert run(7, "a, 2 as b", full_refresh=True)["7"] == "fail"
    statuses = {r["batch"]: r["status"] for r in project.rows("dq_batches")}
    assert [b for b, status in sorted(statuses.items()) if status == "flagged"] == ["5", "6", "7"]
    at = {"project_dir": project.root, "spark": project.spark}
    dqsql.review("a", ["5", "6", "7"], "accept", "as announced", **at)
    assert run(8, "a, 2 as b") == {"8": "pass"}


def test_one_run_tells_a_change_as_daily_runs_do(project: Project, table: Table) -> None:
    project.write(
        "a", "{{ config(batch_by='day') }}\n-- @schema {severity: warn}\nselect * from a_t"
    )
    days = "select explode(sequence(1, {})) as day{}"
    table("a_t", days.format(3, ""))
    project.run()
    table("a_t", days.format(6, ", 1 as x"))
    assert [(r.batch, r.status) for r in project.run().results] == [
        ("4", Status.WARN),
        ("5", Status.PASS),
        ("6", Status.PASS),
    ]


def test_another_type_of_the_batches_is_told(project: Project, table: Table) -> None:
    project.write("a", "{{ config(batch_by='day') }}\n-- @schema\nselect * from a_t")
    days = "values date '2024-01-01', date '2024-01-02' as t(day)"
    table("a_t", f"select day from {days}")
    project.run()
    table("a_t", f"select cast(day as timestamp) as day from {days}")
    found = project.run().results
    # One change is told once, of the newest batch.
    assert [(r.batch, r.status, r.message) for r in found] == [
        ("2024-01-01 00:00:00", Status.PASS, "1 column; nothing to compare with"),
        ("2024-01-02 00:00:00", Status.FAIL, "retyped day (date -> timestamp)"),
    ]


def test_other_batches_are_compared_with_one_that_passed(project: Project, table: Table) -> None:
    model = "{{ config(batch_by='day') }}\n-- @schema\nselect * from a_t"
    project.write("a", model)
    days = "values date '2024-01-01', date '2024-01-02' as t(day)"
    table("a_t", f"select day from {days} limit 1")
    project.run()
    table("a_t", f"select day, 1 as x from {days}")
    (found,) = project.run().results
    assert found.message == "added x (int)"
    project.write("a", model.replace("'day'", "\"date_trunc('month', day)\""))
    table("a_t", f"select day from {days}")
    (month,) = project.run().results
    assert (month.status, month.message) == (Status.PASS, "1 column, as before")
    # What is told of a check is about the batches that it has now.
    newest = dqsql.explain("a.schema", project_dir=project.root, spark=project.spark)
    assert newest.row["batch"] == "2024-01-01 00:00:00"


def test_a_column_that_the_newest_file_lacks(project: Project) -> None:
    folder = project.root / "feed"
    folder.mkdir()

    def write(day: int, **columns: list[int]) -> None:
        pq.write_table(pa.table({"day": [day], **columns}), folder / f"{day}.parquet")

    sources = "sources: [{name: raw, tables: [{name: feed, path: feed}]}]"
    model = "{{ config(batch_by='day') }}\n-- @schema\nselect * from {{ source('raw', 'feed') }}"
    project.write("a", model)
    # What a model computes is there all the same.
    derived = (
        "-- @column_count = 2\nselect day, coalesce(a, 0) as a from {{ source('raw', 'feed') }}"
    )
    project.write("b", derived)
    (project.root / "checks" / "sources.yml").write_text(sources)
    write(1, A=[1], b=[1])
    assert {r.status for r in project.run().results} == {Status.PASS}
    write(2, b=[2])
    found = project.run()
    assert [r.status for r in found.results if r.model == "b"] == [Status.PASS]
    assert [(r.batch, r.status, r.message) for r in found.results if r.model == "a"] == [
        ("2", Status.FAIL, "dropped A (bigint)")
    ]
    assert list(found.warnings) == [
        "feed/2.parquet, the newest file of raw.feed, has no column A, which older files have:"
        " null there"
    ]


def test_an_empty_relation_has_a_schema(project: Project, table: Table) -> None:
    table("a_t", "select 1 as a where false")
    project.write("a", "-- @schema @column_count = 1\nselect * from a_t")
    found = project.run().results
    assert [r.status for r in found] == [Status.PASS, Status.PASS]


def test_unknown_words_are_refused(project: Project) -> None:
    project.write("a", "-- @schema {allow: [aded]}\nselect 1 as a")
    (error,) = dqsql.compile_project(project.root).errors
    assert error.message == "@schema: allow cannot be 'aded'"
    assert error.hint == "did you mean 'added'?"


def test_names_are_compared_as_spark_does() -> None:
    changes = compare({"A": "int", "b": "int"}, {"a": "int", "B": "int"})
    assert not (changes.added or changes.dropped or changes.retyped or changes.reordered)


@pytest.mark.parametrize(("severity", "status"), [("error", Status.FAIL), ("warn", Status.WARN)])
def test_severity(severity: str, status: Status) -> None:
    verdict = decide_schema(
        {"a": "int"}, {"a": "bigint"}, allow=("added",), severity=Severity(severity)
    )
    assert (verdict.status, verdict.message) == (status, "retyped a (bigint -> int)")

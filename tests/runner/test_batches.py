"""Which rows are checked: batches, segments, models, and data that changes between runs."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.engine.batches import batch_of_run
from dqsql.errors import ConfigError, QueryError, SourceNotFoundError, UsageError
from dqsql.model.batches import batch_order
from dqsql.model.project import Severity
from dqsql.model.results import BatchRecord, BatchStatus, Status
from dqsql.runner.upkeep import doctor
from tests.conftest import PROFILES_YML, PROJECT_YML
from tests.tables import table_rows

from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_DAY = """\
{{ config(batch_by = 'day') }}
select
    day,
    x   -- @not_null @mean > 0 @max < 9
from {{ source('raw', 't') }}
-- @row_count > 0
"""
DAYS = "select * from values ('d1', 1), ('d1', 3), ('d2', 2) as t(day, x)"


@pytest.fixture(scope="module")
def two_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which a run has checked both batches."""
    project = Project(tmp_path_factory.mktemp("batches") / "project", spark)
    project.write({"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML})
    project.write({"checks/sources.yml": SOURCES, "checks/m.sql": BY_DAY})
    project.data(DAYS)
    assert project.run().warnings == ()
    return project.root


@pytest.fixture
def checked(two_days: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of it."""
    return Project(shutil.copytree(two_days, tmp_path / "project"), spark)


def test_named_batches_without_rows(new_project: NewProject) -> None:
    project = new_project(BY_DAY, DAYS)
    result = project.run(batches=["d1", "d9"])
    statuses = {(r.batch, r.check_name): r.status for r in result.results}
    assert statuses == {
        ("d1", "not_null"): Status.PASS,
        ("d1", "mean > 0"): Status.PASS,
        ("d1", "max < 9"): Status.PASS,
        ("d1", "row_count > 0"): Status.PASS,
        ("d9", "not_null"): Status.NO_DATA,
        ("d9", "mean > 0"): Status.NO_DATA,
        ("d9", "max < 9"): Status.NO_DATA,
        ("d9", "row_count > 0"): Status.FAIL,
    }
    assert result.exit_code == 1
    told = {r.check_name: r.message for r in result.results if r.batch == "d9"}
    assert told["mean > 0"] == "no rows, so mean(x) cannot be measured"
    # Nothing is kept of a day that may be mistyped, and that may come.
    assert {r["batch"]: r["rows"] for r in project.rows("dq_batches")} == {"d1": 2}
    assert {r["batch"] for r in project.rows("dq_results")} == {"d1"}
    assert project.rows("dq_findings") == []
    assert result.warnings == (
        "m has no rows of batch 'd9': nothing of it is stored, and once it has rows, it is new",
    )


def test_a_total_that_leaves_batches_out_says_so(new_project: NewProject) -> None:
    text = BY_DAY.replace("-- @row_count > 0", "-- @row_count >= 4 {scope: cumulative}")
    rows = "('d1', 1), ('d1', null), ('d2', 2), ('d3', 3), ('d4', null)"
    project = new_project(text, f"select * from values {rows} as t(day, x)")
    result = project.run()
    totals = {r.batch: r.status for r in result.results if r.check_name.startswith("row_count")}
    assert set(totals.values()) == {Status.FAIL}
    (note,) = (n for n in result.models[0].notes if "a cumulative check fails" in n)
    assert "leave out 1 of 4 batches because other checks failed on them" in note
    project.data("select * from values ('d5', 1) as t(day, x)")
    result = project.run()
    assert any("leave out 2 of 5 batches" in n for n in result.models[0].notes)


def test_a_batch_that_lost_its_rows_is_kept_where_it_fails(checked: Project) -> None:
    checked.data("select * from values ('d2', 2) as t(day, x)")
    again = checked.run(batches=["d1"])
    assert (again.exit_code, again.warnings) == (1, ())
    assert {r["batch"]: (r["rows"], r["status"]) for r in checked.rows("dq_batches")} == {
        "d1": (0, "flagged"),
        "d2": (1, "accepted"),
    }


def test_a_batch_that_is_mistyped_is_told_and_leaves_nothing(new_project: NewProject) -> None:
    text = BY_DAY.replace("-- @row_count > 0", "-- @anomaly(row_count, min_history => 2)")
    project = new_project(text, DAYS)
    project.run()
    other = Project(shutil.copytree(project.root, project.root.parent / "other"), project.spark)
    wanted = project.tables()
    told = project.run(batches=["d9"])
    assert [w.partition(":")[0] for w in told.warnings] == ["m has no rows of batch 'd9'"]
    assert {(r.batch, r.status) for r in told.results} == {
        ("d9", Status.NO_DATA),
        ("d9", Status.SKIPPED),
    }
    tables = project.tables()
    assert tables == {**wanted, "dq_models": tables["dq_models"]}
    # What it was judged by is not what the next batch is judged by; with rows it is new.
    verdicts = []
    for each in (project, other):
        each.data(DAYS.replace("('d2', 2)", "('d2', 2), ('d9', 1), ('d9', 2), ('d9', 3)"))
        result = each.run()
        assert result.models[0].batches == ("d9",)
        verdicts.append([(r.check_id, r.status, r.message, r.details) for r in result.results])
    assert verdicts[0] == verdicts[1]


def test_batches_may_be_named_as_their_type_reads(new_project: NewProject) -> None:
    """Another spelling is no batch of its own, which would be without rows."""
    project = new_project(BY_DAY, "select date '2024-01-31' as day, 1 as x")
    result = project.run(batches=["2024-1-31", "2024-01-31T06:00", "2024-01-31"])
    assert result.models[0].batches == ("2024-01-31",)
    assert {r.status for r in result.results} == {Status.PASS}
    wanted = project.tables()
    (model,) = project.attempt(batches=["2024-01-31", "31.1."]).models
    assert model.error is not None
    assert model.error.message.startswith("--batch 31.1. does not fit m, whose batches are of type")
    (model,) = project.attempt(batches=["2024-01"]).models
    assert model.error is not None
    assert model.error.hint == "--event-time-start and --event-time-end name all batches of a time"
    assert project.tables() == wanted


def test_batches_of_doubles_are_told_apart_by_their_texts(new_project: NewProject) -> None:
    data = "select * from values (0d, 1), (-0d, 2), (double('NaN'), 3), (1.5d, 4) as t(day, x)"
    project = new_project(BY_DAY, data)
    assert project.run().exit_code == 0
    means = {"0.0": 1, "-0.0": 2, "NaN": 3}
    for named in (("0.0", "NaN"), ("-0.0",)):
        (model,) = project.run(batches=[*named], quarantine=True).models
        assert ({*model.batches}, model.rows) == ({*named}, len(named))
        found = {k[0]: value for k, value in project.metrics().items() if k[3] == "mean()"}
        assert found == {**means, "1.5": 4}
    assert {r["batch"]: r["rows"] for r in project.rows("dq_batches")} == {
        **{"0.0": 1, "-0.0": 1, "NaN": 1, "1.5": 1}
    }


def test_runs_that_start_in_the_same_second_are_two_batches() -> None:
    started = dt.datetime(2024, 1, 31, 10, 0, 0, 250_000, dt.UTC)
    first = batch_of_run(started, {})
    assert first == "2024-01-31 10:00:00"
    record = BatchRecord("m", first, BatchStatus.ACCEPTED, 1, "run", "sum")
    second = batch_of_run(started, {first: record})
    assert second == "2024-01-31 10:00:00.250000"
    assert sorted([second, first], key=batch_order) == [first, second]


def test_a_sum_of_no_values_was_computed(new_project: NewProject) -> None:
    project = new_project(
        """{{ config(batch_by = 'day') }}
        select day, x -- @sum(x) > 0 {scope: cumulative, no_data: ignore}
        from {{ source('raw', 't') }}
        """,
        "select * from values (date'2024-01-01', null), (date'2024-01-02', 5) as t(day, x)",
    )
    project.run()
    again = project.run(batches=["2024-01-02"]).models[0]
    assert again.notes == ()
    assert again.results[0].observed == 5.0


def test_named_batches_without_rows_and_with_segments(new_project: NewProject) -> None:
    project = new_project(
        BY_DAY.replace("'day'", "'day', segment_by = ['x']"), DAYS.replace("d1', 3", "d1', null")
    )
    result = project.run(batches=["d9"])
    assert {(r.batch, r.segment) for r in result.results} == {("d9", None)}


def test_no_data_settings(new_project: NewProject) -> None:
    project = new_project(
        BY_DAY.replace(
            "@mean > 0", "@mean > 0 {severity: warn, no_data: error} @min > 0 {no_data: ignore}"
        ),
        DAYS,
    )
    result = project.run(batches=["d9"])
    found = {r.check_name: (r.status, r.severity) for r in result.results}
    assert found["mean > 0"] == (Status.FAIL, Severity.ERROR)
    assert found["min > 0"] == (Status.SKIPPED, Severity.ERROR)


def test_a_table_without_rows(new_project: NewProject) -> None:
    project = new_project(BY_DAY, f"{DAYS} where false")
    result = project.run()
    assert result.results == ()
    assert result.exit_code == 0
    assert result.models[0].skipped == "no rows, so nothing was checked"
    assert project.tables()["dq_metrics"] == []
    # Its first rows are its first batches.
    project.data(DAYS)
    assert project.run().models[0].batches == ("d1", "d2")


def test_a_table_without_rows_nor_batches(new_project: NewProject) -> None:
    project = new_project(BY_DAY.split("\n", 1)[1], f"{DAYS} where false")
    result = project.run()
    assert {r.check_name: r.status for r in result.results} == {
        "not_null": Status.NO_DATA,
        "mean > 0": Status.NO_DATA,
        "max < 9": Status.NO_DATA,
        "row_count > 0": Status.FAIL,
    }


def test_rows_without_a_batch(new_project: NewProject) -> None:
    project = new_project(BY_DAY, f"{DAYS} union all select null, 100 union all select null, 200")
    result = project.run()
    assert result.exit_code == 0
    assert result.models[0].batches == ("d1", "d2")
    assert result.models[0].rows == 3
    assert result.warnings == ("m: 2 rows belong to no batch, because batch_by is null there",)
    assert result.models[0].status is Status.WARN


NOT_NULL = BY_DAY.replace("    day,", "    day,  -- @not_null", 1).replace(
    "-- @not_null @mean", "-- @mean"
)


def test_not_null_of_batch_by_fails_for_rows_without_a_batch(new_project: NewProject) -> None:
    project = new_project(NOT_NULL, f"{DAYS} union all select null, 100 union all select null, 200")
    result = project.run()
    assert result.exit_code == 1
    found = {r.batch: r for r in result.results if r.check_name == "not_null"}
    assert {b: r.status for b, r in found.items()} == {"d1": Status.PASS, "d2": Status.FAIL}
    # Of the newest batch with those that have none.
    rows = result.models[0].rows
    assert found["d2"].observed == pytest.approx(1 / 3) and rows == 3
    assert "2 of 3 rows" in found["d2"].message


def test_rows_without_a_batch_that_come_later_fail_the_newest_one(new_project: NewProject) -> None:
    project = new_project(NOT_NULL, DAYS)
    assert project.run().exit_code == 0
    project.data(f"{DAYS} union all select null, 100")
    result = project.run()
    assert result.exit_code == 1
    assert [(r.batch, r.status) for r in result.results if r.check_name == "not_null"] == [
        ("d2", Status.FAIL)
    ]


def test_a_table_of_rows_without_a_batch(new_project: NewProject) -> None:
    project = new_project(NOT_NULL, "select cast(null as string) as day, 1 as x")
    with pytest.raises(ConfigError, match="batch_by is null in 1 row"):
        project.run()


def test_times_without_a_batch_are_null_where_batch_by_is_a_function_of_them(
    new_project: NewProject,
) -> None:
    model = """\
{{ config(batch_by = "%s") }}
select at -- @not_null @null_count < 1 {severity: warn}
from {{ source('raw', 't') }}
"""
    files = {
        "checks/of_nulls.sql": model % "to_date(at)",
        "checks/of_others.sql": model % "nullif(to_date(at), date '2024-01-01')",
    }
    rows = "select explode(array(timestamp '2024-01-01', timestamp '2024-01-02', null)) as at"
    found = {m.model: m.results[-2:] for m in new_project(data=rows, files=files).run().models}
    statuses = {name: {r.check_name: r.status for r in last} for name, last in found.items()}
    assert statuses == {
        "of_nulls": {"not_null": Status.FAIL, "null_count < 1": Status.WARN},
        "of_others": {"not_null": Status.PASS, "null_count < 1": Status.PASS},
    }


def test_a_model_without_batch_by_is_checked_whole_by_each_run(new_project: NewProject) -> None:
    project = new_project(BY_DAY.split("\n", 1)[1], DAYS)
    first = project.run()
    assert len(first.models[0].batches) == 1
    assert project.metrics()[(*first.models[0].batches, None, "x", "mean()")] == 2
    assert first.exit_code == 0


def test_segments_with_nulls(new_project: NewProject) -> None:
    model = """
    {{ config(batch_by = 'day', segment_by = ['kind', 'n']) }}
    select
        day,
        kind,
        n,
        x -- @sum > 0 @median > 0 @expect(mode(x) > 0)
    from {{ source('raw', 't') }}
    """
    project = new_project(
        model,
        "select * from values ('d', 'a', 1, 1), ('d', null, 1, 2), ('d', 'a', null, 4),"
        " ('d', null, null, 8), ('d', 'a', 1, 1) as t(day, kind, n, x)",
    )
    project.run()
    sums = {k[1]: v for k, v in project.metrics().items() if k[3] == "sum()"}
    assert sums == {
        None: 16,
        "kind=a, n=1": 2,
        "kind is null, n=1": 2,
        "kind=a, n is null": 4,
        "kind is null, n is null": 8,
    }
    medians = {k[1]: v for k, v in project.metrics().items() if k[3] == "median()"}
    assert medians["kind is null, n is null"] == 8
    modes = {k[1]: v for k, v in project.metrics().items() if k[3].startswith("mode")}
    assert modes[None] == 1
    assert modes["kind=a, n is null"] == 4


def test_segments_are_told_apart_by_their_texts(new_project: NewProject) -> None:
    """Whichever of two that Spark takes for equal comes first."""
    segments = {"text": ("p collate UTF8_LCASE", "de", "DE"), "zero": ("z", "0.0", "-0.0")}
    files: dict[str, str | None] = {}
    for table in ("t", "u"):
        for name, (segment, _, _) in segments.items():
            files[f"checks/{name}_{table}.sql"] = f"""
                {{{{ config(batch_by = 'day', segment_by = ['c']) }}}}
                select day, {segment} as c,
                    i -- @unique @count_distinct > 0
                from {{{{ source('raw', '{table}') }}}}
                -- @row_count > 0
            """
    project = new_project(files=files)
    rows = "('x', 'de', 0.0D, 1), ('x', 'DE', -0.0D, 7), ('x', 'DE', -0.0D, 7)"
    project.data(f"select * from values {rows} as t(day, p, z, i) order by i asc", "t")
    project.data(f"select * from values {rows} as t(day, p, z, i) order by i desc", "u")
    project.run()
    found = {(r["model"], r["segment"], r["metric"]): r for r in project.rows("dq_metrics")}
    results = {(r["model"], r["segment"], r["check_name"]): r for r in project.rows("dq_results")}
    for name, (_, one, two) in segments.items():
        labels = f"c={one}", f"c={two}", None
        for model in (f"{name}_t", f"{name}_u"):
            counts = [found[model, s, "row_count"]["value"] for s in labels]
            distinct = [found[model, s, "count_distinct"]["value"] for s in labels]
            assert (counts, distinct) == ([1, 2, 3], [1, 1, 2]), model
            statuses = [results[model, s, "unique"]["status"] for s in labels[:2]]
            assert statuses == ["pass", "fail"], model


def test_a_segment_whose_value_is_the_text_null(new_project: NewProject) -> None:
    project = new_project(
        BY_DAY.replace("'day'", "'day', segment_by = ['day2']").replace("day,", "day,\n    day2,"),
        "select * from values ('d', 'null', 1), ('d', null, 2) as t(day, day2, x)",
    )
    project.run()
    means = [r for r in project.rows("dq_metrics") if r["metric"] == "mean" and r["segment"]]
    assert len({r["segment"] for r in means}) == 2


def test_two_models_and_a_ref(new_project: NewProject) -> None:
    files = {
        "checks/a_last.sql": """
            {{ config(batch_by = 'day') }}
            select day, total -- @max(total) < 10
            from {{ ref('z_first') }} where total > 2
        """,
        "checks/z_first.sql": """
            {{ config(batch_by = 'day') }}
            select day, sum(x) as total -- @max(total) < 4
            from {{ source('raw', 't') }} group by day
        """,
    }
    project = new_project(data=DAYS, files=files)
    result = project.run()
    assert {m.model: m.batches for m in result.models} == {
        "z_first": ("d1", "d2"),
        "a_last": ("d1",),
    }
    assert result.exit_code == 1
    assert {(r.model, r.batch) for r in result.findings} == {("z_first", "d1")}
    only = project.run(select=["a_last"], full_refresh=True)
    assert [m.model for m in only.models] == ["a_last"]
    # The other model's rows stay.
    assert {r["model"] for r in project.rows("dq_metrics")} == {"a_last", "z_first"}


def test_two_models_share_tables_without_touching_each_other(new_project: NewProject) -> None:
    both = new_project(data=DAYS, files={"checks/a.sql": BY_DAY, "checks/b.sql": BY_DAY})
    both.run()
    wanted = both.tables()
    both.run(select=["a"], batches=["d1"])
    assert both.tables() == wanted
    assert both.run().exit_code == 0


def test_a_check_that_is_added_later(new_project: NewProject) -> None:
    project = new_project(BY_DAY, DAYS)
    project.run()
    project.write({"checks/m.sql": BY_DAY.replace("@max < 9", "@max < 9 @min > 0 @median > 0")})
    (note,) = project.run().models[0].notes
    assert note.startswith("2 checks (min > 0, median > 0) have not run on any batch yet")
    assert "--batch d2," in note
    project.data(f"{DAYS} union all select 'd3', 7")
    result = project.run()
    assert result.models[0].batches == ("d3",)
    assert {r.check_name for r in result.results} >= {"min > 0", "median > 0"}
    # Batches from before do not have it, until they are checked again.
    mins = {k[0]: v for k, v in project.metrics().items() if k[3] == "min()"}
    assert mins == {"d3": 7}
    assert project.run().models[0].notes == ()
    project.run(full_refresh=True)
    mins = {k[0]: v for k, v in project.metrics().items() if k[3] == "min()"}
    assert mins == {"d1": 1, "d2": 2, "d3": 7}


def test_a_check_that_is_taken_away(checked: Project) -> None:
    checked.write({"checks/m.sql": BY_DAY.replace("@mean > 0", "")})
    checked.data(f"{DAYS} union all select 'd3', 7")
    checked.run()
    means = {k[0] for k in checked.metrics() if k[3] == "mean()"}
    assert means == {"d1", "d2"}
    ended = {r["check_id"]: r["valid_to"] is not None for r in checked.rows("dq_checks")}
    assert ended["m.x.mean_gt_0"]
    assert not ended["m.x.max_lt_9"]


def test_a_column_that_disappears(checked: Project) -> None:
    wanted = checked.tables()
    checked.data("select 'd3' as day")
    result = checked.attempt()
    assert result.exit_code == 2
    error = result.models[0].error
    assert error is not None
    assert "`x`" in error.message
    assert str(error.span).startswith("checks/m.sql:4:5")
    assert checked.tables() == wanted


def test_a_column_that_disappears_behind_a_star(new_project: NewProject) -> None:
    model = BY_DAY.replace("    day,\n    x   -- @not_null @mean > 0 @max < 9", "    *")
    model += "-- @mean(x) > 0\n"
    project = new_project(model, DAYS)
    project.run()
    project.data("select 'd3' as day")
    result = project.attempt()
    assert result.exit_code == 2
    statuses = {r.check_name: r.status for r in result.results}
    assert statuses == {"mean(x) > 0": Status.ERROR, "row_count > 0": Status.PASS}


def test_a_column_whose_type_changes(checked: Project) -> None:
    checked.data("select 'd3' as day, 2.5D as x union all select 'd1', 7.5D")
    assert checked.run().models[0].batches == ("d3",)
    means = {k[0]: v for k, v in checked.metrics().items() if k[3] == "mean()"}
    assert means == {"d1": 2, "d2": 2, "d3": 2.5}
    # To text and back, and the state of all batches can still be replaced.
    checked.data("select 'd4' as day, 'abc' as x")
    text = checked.run()
    assert {r.check_name: r.status for r in text.results if r.check_name == "not_null"} == {
        "not_null": Status.PASS
    }
    checked.data(DAYS)
    checked.run(batches=["d1"])
    maxima = {k[0]: v for k, v in checked.metrics().items() if k[3] == "max()"}
    assert maxima["d1"] == 3


def test_batches_whose_type_changes(new_project: NewProject) -> None:
    project = new_project(BY_DAY, "select date '2024-01-01' as day, 1 as x")
    project.run()
    project.data("select '2024-01-01' as day, 1 as x")
    assert project.run().models[0].skipped == "nothing new"
    # Now its name is written in another way.
    project.data("select timestamp '2024-01-01 00:00:00' as day, 1 as x")
    (found,) = project.run().models
    assert found.batches == ("2024-01-01 00:00:00",)
    assert any("1 earlier batch is retired" in note for note in found.notes)


def test_a_run_of_some_batches_leaves_the_others_to_the_next(new_project: NewProject) -> None:
    """What a run was not asked for is no less new because its files were seen."""
    project = new_project(BY_DAY, DAYS)
    project.run(batches=["d1"])
    assert project.run().models[0].batches == ("d2",)
    assert project.run().models[0].skipped == "nothing new"


def test_odd_rows_of_a_csv_file_are_told_when_they_are_checked(new_project: NewProject) -> None:
    sources = "sources: [{name: raw, tables: [{name: t, path: data/t.csv, format: csv}]}]\n"
    files = {"checks/sources.yml": sources, "data/t.csv": "day,x\nd1,1\nd1\nd2,2,3\n"}
    project = new_project(BY_DAY, files=files)
    (warning,) = project.run().warnings
    assert warning.startswith("data/t.csv: 2 rows do not have 2 values like the header; the")
    assert project.run().warnings == ()


def test_lines_that_are_no_json_are_told(new_project: NewProject) -> None:
    sources = "sources: [{name: raw, tables: [{name: t, path: data/t.json, format: json}]}]\n"
    text = '{"day": "d1", "x": 1}\n{"day": "d1", "x"\n'
    project = new_project(BY_DAY, files={"checks/sources.yml": sources, "data/t.json": text})
    assert any(
        w.startswith("raw.t: some lines are no JSON objects") for w in project.run().warnings
    )
    project.write({"data/t.json": '{\n"day":\n"d1",\n"x":\n1\n}\n'})
    with pytest.raises(SourceNotFoundError, match="no line that is a JSON object") as caught:
        project.run()
    assert caught.value.hint is not None and "multiLine: true" in caught.value.hint


def test_a_struct_names_no_batch(new_project: NewProject) -> None:
    project = new_project(
        "{{ config(batch_by = 'a') }}\nselect struct(1 as x) as a\n-- @row_count > 0"
    )
    with pytest.raises(QueryError, match=r"batch_by, a, is of type struct<x:int>") as caught:
        project.run()
    assert str(caught.value.span).startswith("checks/m.sql")


def test_an_interval_names_no_batch(new_project: NewProject) -> None:
    project = new_project(BY_DAY, "select make_dt_interval(1) as day, 1 as x")
    with pytest.raises(QueryError, match="batch_by, day, is of type interval day to second, which"):
        project.run()


def test_batch_by_with_a_function_that_there_is_not(new_project: NewProject) -> None:
    project = new_project(BY_DAY.replace("'day'", "'to_dat(day)'"), DAYS)
    with pytest.raises(QueryError, match=r"checks/m\.sql:1:1: batch_by of m .* `to_dat`") as error:
        project.run()
    assert error.value.hint == "did you mean 'to_date' or 'try_to_date' or 'to_time'?"


def test_batches_that_differ_whenever_they_are_read_are_an_error(new_project: NewProject) -> None:
    text = (
        "{{ config(batch_by = '%s') }}\n"
        "select id, -- @not_null\n current_timestamp() as loaded from {{ source('raw', 't') }}"
    )
    files = {"checks/a.sql": text % "loaded", "checks/b.sql": text % "rand()"}
    project = new_project(data="select id from range(3)", files=files)
    models = project.attempt().models
    assert {m.model for m in models} == {"a", "b"}
    for model in models:
        assert model.error is not None and "not when they were read again" in model.error.message
        assert model.status is Status.ERROR
    assert project.rows("dq_batches") == []


def test_rows_without_a_batch_count_whenever_batches_begin(new_project: NewProject) -> None:
    """Whatever the type of the batches is."""
    text = (
        "{{ config(batch_by = 'batch', begin = '2024-01-02') }}\n"
        "select id, day, %s as batch -- @not_null(batch)\n from {{ source('raw', 't') }}"
    )
    types = {
        "date": "day",
        "timestamp": "date_trunc('day', cast(day as timestamp))",
        "text": "concat(day)",
    }
    project = new_project(
        data="select * from values (1, date'2024-01-01'), (2, date'2024-01-02'), (3, null)"
        " t(id, day)",
        files={f"checks/{name}.sql": text % day for name, day in types.items()},
    )
    first = {m.model: m for m in project.run().models}
    assert first.keys() == types.keys()
    for model in first.values():
        assert model.unbatched == 1
        assert [(r.batch or "")[:10] for r in model.results] == ["2024-01-02"]
        assert model.results[0].status is Status.FAIL
    older = project.run(event_time_start="2024-01-01", event_time_end="2024-01-02").models
    assert [m.unbatched for m in older] == [0, 0, 0]
    newest = project.run(event_time_start="2024-01-02").models
    assert [(m.unbatched, m.results[0].status) for m in newest] == [(1, Status.FAIL)] * 3
    # A name that fits all three types.
    asked = project.run(batches=["2024-01-02"]).models
    assert {m.model: m.batches for m in asked} == {n: m.batches for n, m in first.items()}
    assert [(m.unbatched, m.results[0].status) for m in asked] == [(1, Status.FAIL)] * 3


def test_a_batch_by_of_another_type_writes_other_names(new_project: NewProject) -> None:
    model = """
        {{ config(batch_by = 'day') }}
        select %s as day
        from {{ source('raw', 't') }}
        -- @row_count > 0 {scope: cumulative}
        """
    data = "select date'2024-01-01' + cast(id as int) as at from range(14)"
    project = new_project(model % "at", data)
    project.run()
    project.write({"checks/m.sql": model % "date_trunc('week', at)"})
    (found,) = project.run().models
    assert (
        "batch_by is of type timestamp, and was date: 14 earlier batches are retired, and checks"
        " start again" in found.notes
    )
    seen = {r.batch: r.observed for r in found.results if r.check_name == "row_count > 0"}
    assert seen == {"2024-01-01 00:00:00": 7, "2024-01-08 00:00:00": 14}
    (again,) = project.run(batches=["2024-01-08 00:00:00"]).models
    assert not any("retired" in n for n in again.notes)


def test_rows_of_retired_batches_leave_the_tables_of_rows(new_project: NewProject) -> None:
    model = """
        {{ config(batch_by = "%s", quarantine = true) }}
        select at, x  -- @not_null(x)
        from {{ source('raw', 't') }}
        """
    data = "select date'2024-01-01' + cast(id as int) as at, nullif(id, 3) as x from range(14)"
    project = new_project(model % "at", data)
    project.run()
    project.write({"checks/m.sql": model % "date_trunc('month', at)"})
    project.run()
    folder = project.root / "warehouse" / "dq_rows"
    rows = {t: table_rows(folder, t) for t in ("m_good", "m_quarantined")}
    assert {t: len(found) for t, found in rows.items()} == {"m_good": 13, "m_quarantined": 1}


def test_two_projects_do_not_share_the_batches_of_a_model(new_project: NewProject) -> None:
    project = new_project(BY_DAY, DAYS)
    project.run(batches=["d1"])
    file = project.root / "dqsql_project.yml"
    file.write_text(file.read_text().replace("name: test", "name: other"))
    with pytest.raises(UsageError, match="the project 'test_project' has checked a model m into"):
        project.run()
    # That is what a project does that was renamed.
    assert project.run(full_refresh=True).models[0].batches == ("d1", "d2")
    assert project.run().models[0].skipped == "nothing new"


def dated(*numbers: int) -> str:
    rows = ", ".join(f"(date'2024-01-0{n}', {n})" for n in numbers)
    return f"select * from values {rows} as t(day, x)"


@pytest.fixture(scope="module")
def four_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which a run has checked four days: two models, one of which looks back."""
    project = Project(tmp_path_factory.mktemp("vanished") / "project", spark)
    project.write({"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML})
    project.write({"checks/sources.yml": SOURCES})
    for lookback in (0, 2):
        text = (
            f"{{{{ config(batch_by = 'day', lookback = {lookback}) }}}}\n"
            "select day, x from {{ source('raw', 't') }}\n"
            "-- @row_count >= 1 @sum(x) >= 0 {scope: cumulative}"
        )
        project.write({f"checks/lookback_{lookback}.sql": text})
    project.data(dated(1, 2, 3, 4))
    assert project.run().exit_code == 0
    return project.root


@pytest.mark.parametrize(
    ("lookback", "options"),
    [
        (2, {}),
        (0, {"full_refresh": True}),
        (0, {"event_time_start": "2024-01-01"}),
        (0, {"event_time_start": "2024-01-03"}),
    ],
)
def test_a_batch_that_vanished_is_an_empty_one(
    four_days: Path, spark: SparkSession, tmp_path: Path, lookback: int, options: dict[str, Any]
) -> None:
    project = Project(shutil.copytree(four_days, tmp_path / "project"), spark)
    model = [f"lookback_{lookback}"]
    project.data(dated(1, 2, 4))
    result = project.run(select=model, **options)
    found = {(r.check_name, r.batch): (r.status, r.observed) for r in result.results}
    assert found["row_count >= 1", "2024-01-03"] == (Status.FAIL, 0)
    assert found["sum(x) >= 0", "2024-01-04"] == (Status.PASS, 7)
    assert any("has no rows any more: 2024-01-03" in note for note in result.models[0].notes)
    again = project.run(select=model)
    assert again.models[0].waiting == ("2024-01-03",)
    assert not again.results


def test_what_was_restated_in_as_many_rows_is_found_by_lookback(new_project: NewProject) -> None:
    project = new_project(
        "{{ config(batch_by = 'day', lookback = 2) }}\n"
        "select day, x from {{ source('raw', 't') }}\n-- @max(x) < 9",
        dated(1, 2, 3),
    )
    assert project.run().exit_code == 0
    project.data(f"select day, if(x = 2, 10, x) as x from ({dated(1, 2, 3)})")
    result = project.run()
    assert {r.batch: r.status for r in result.results} == {
        "2024-01-02": Status.FAIL,
        "2024-01-03": Status.PASS,
    }
    project.data(dated(1, 2, 3))
    assert project.run().exit_code == 0
    assert project.run().models[0].skipped == "nothing new"


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_lookback_does_not_undo_a_review(new_project: NewProject, verdict: str) -> None:
    project = new_project(
        "{{ config(batch_by = 'day', lookback = 3) }}\n"
        "select day, x from {{ source('raw', 't') }}\n-- @max(x) != 2",
        dated(1, 2, 3),
    )
    assert project.run().exit_code == 1
    dqsql.review("m", ["2024-01-02"], verdict, "a storm", project_dir=project.root)
    project.data(dated(1, 2, 3, 4))
    result = project.run()
    assert (result.exit_code, result.models[0].batches) == (0, ("2024-01-03", "2024-01-04"))
    status = {r["batch"]: r["status"] for r in project.rows("dq_batches")}
    assert status["2024-01-02"] == f"{verdict}ed"


def test_the_history_of_a_renamed_model(checked: Project) -> None:
    old, new = (checked.root / "checks" / f"{name}.sql" for name in "mn")
    old.rename(new)
    (warning,) = checked.run().warnings
    assert warning.startswith("n has the text of m, which is gone: if you renamed it, the history")
    assert "of 2 batches stays under the name m" in warning
    assert checked.run().warnings == ()
    new.rename(old)
    back = checked.run()
    assert back.models[0].skipped == "nothing new"
    assert back.warnings == ("n is no longer in the project: its history of 2 batches stays",)
    in_force = {r["model"] for r in checked.rows("dq_models") if r["valid_to"] is None}
    assert in_force == {"m"}


@pytest.mark.parametrize("table", ["dq_models", "dq_checks", "dq_columns"])
def test_descriptions_that_were_lost_are_written_again(checked: Project, table: str) -> None:
    before = checked.rows(table)
    shutil.rmtree(checked.root / "warehouse" / "dq" / table)
    doctor(project_dir=checked.root, repair=True)
    assert checked.rows(table) == []
    assert checked.run().models[0].skipped == "nothing new"
    assert len(checked.rows(table)) == len(before) > 0


def test_a_model_that_is_gone_and_back(new_project: NewProject) -> None:
    project = new_project(BY_DAY + "-- @row_count > 5\n", DAYS)
    project.write({"checks/other.sql": "select 1 as x -- @not_null\n"})
    assert project.run().exit_code == 1
    file = project.root / "checks" / "m.sql"
    away = file.rename(project.root / "m.sql")
    (warning,) = project.run().warnings
    assert warning == (
        "m is no longer in the project: 1 finding of it is resolved, 2 batches of it need no"
        " review any more, its history of 2 batches stays"
    )
    assert project.run().warnings == ()
    away.rename(file)
    assert project.run().models[0].skipped == "nothing new"
    for table in ("dq_models", "dq_checks", "dq_columns"):
        assert any(r["model"] == "m" for r in project.rows(table) if r["valid_to"] is None)
    assert {r["state"] for r in project.rows("dq_findings")} == {"open"}
    file.unlink()
    project.run()
    assert {r["state"] for r in project.rows("dq_findings")} == {"resolved"}


@pytest.mark.parametrize(
    "more", [{"event_time_start": "2024-01-01"}, {"event_time_end": "5"}, {"full_refresh": True}]
)
def test_batches_are_chosen_in_one_way(new_project: NewProject, more: dict[str, object]) -> None:
    project = new_project(BY_DAY)
    with pytest.raises(UsageError, match="are two choices of batches"):
        project.run(batches=["d1"], **more)


def test_what_notes_say_to_type_means_the_same_in_a_shell(new_project: NewProject) -> None:
    project = new_project(BY_DAY, "select * from values ('A&B', 1), ('$(x)', 1) as t(day, x)")
    project.run()
    project.data("select * from values ('A&B', 1), ('A&B', 1), ('$(x)', 1), ('$(x)', 2) t(day, x)")
    (found,) = project.run().models
    assert found.notes == (
        "2 checked batches have other rows now; check them again with --batch '$(x)' --batch 'A&B'",
    )


def test_dates_as_arguments_and_variables(new_project: NewProject) -> None:
    project = new_project(
        BY_DAY,
        "select * from values (date'2024-01-01', 1), (date'2024-01-02', 2), (date'2024-01-03', 3)"
        " as t(day, x)",
    )
    file = project.root / "dqsql_project.yml"
    file.write_text(f"{file.read_text()}\nstore_vars: true\n")
    day = dt.date(2024, 1, 2)
    assert project.run(batches=[day], vars={"day": day}).models[0].batches == ("2024-01-02",)
    start = dt.datetime(2024, 1, 3, tzinfo=dt.UTC)
    assert project.run(event_time_start=start).models[0].batches == ("2024-01-03",)
    kept = [json.loads(r["arguments"])["vars"] for r in project.rows("dq_runs")]
    assert {"day": "2024-01-02"} in kept
    with pytest.raises(UsageError, match="vars is a mapping or a text, not list"):
        project.run(vars=["x"])


def test_numbers_of_another_width_name_the_same_batches(new_project: NewProject) -> None:
    rows = "select cast(id as %s) as day, nullif(id, 8) as x from range(8, 12)"
    project = new_project(BY_DAY.replace("@max < 9", "@max < 99"), rows % "decimal(10,0)")
    project.run()
    for kind in ("decimal(12,0)", "bigint", "string"):
        project.data(rows % kind)
        (found,) = project.run(event_time_start="10" if kind != "string" else None).models
        assert not any("retired" in note for note in found.notes)
        ledger = {r["batch"]: r["status"] for r in project.rows("dq_batches")}
        assert ledger == {"8": "flagged", "9": "accepted", "10": "accepted", "11": "accepted"}


def test_a_table_beside_a_file_is_read_again(new_project: NewProject) -> None:
    """That the file is as it was says nothing of the table, whatever WITH calls it."""
    model = BY_DAY.replace(
        "{{ source('raw', 't') }}",
        "(with fresh as (select * from fresh) select * from {{ source('raw', 't') }}"
        " union all select * from fresh)",
    )
    assert model != BY_DAY
    project = new_project(model, DAYS)
    spark = project.spark
    spark.sql("select 'd3' as day, 1 as x").createOrReplaceTempView("fresh")
    assert project.run().models[0].batches == ("d1", "d2", "d3")
    spark.sql("select stack(2, 'd3', 1, 'd4', null) as (day, x)").createOrReplaceTempView("fresh")
    assert project.run().models[0].batches == ("d4",)
    spark.catalog.dropTempView("fresh")

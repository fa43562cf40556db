"""What a person edits in a model that has history, and what becomes of it."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dqsql.runner.explain import explain
from tests.conftest import PROFILES_YML, PROJECT_YML

from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = """
select date'2025-01-01' + cast(id / 24 as int) as day, cast(id as int) as id,
  cast(id % 7 + 1 as double) as amount, if(id % 2 = 0, 'DE', 'FR') as country,
  if(id % 3 = 0, 'a', 'b') as kind,
  timestamp'2025-01-01 00:00:00' + make_dt_interval(0, cast(id as int)) as ts
from range({days} * 24)
"""


def next_day(project: Project, days: int) -> None:
    project.data(DATA.format(days=days))


def edit(project: Project, old: str, new: str, model: str = "m") -> None:
    path = project.root / "checks" / f"{model}.sql"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# What the tests below edit, one model each.
MODELS = {
    "segmented": """\
{{ config(batch_by = 'day', segment_by = ['country', 'kind']) }}
select day, id, country, kind,
  amount -- @sum > 0 {scope: cumulative}
from {{ source('raw', 't') }}
-- @expected_segments {min_history: 7}
""",
    "watched": """\
{{ config(batch_by = 'day') }}
select day, id,
  amount -- @anomaly(mean(amount))
from {{ source('raw', 't') }}
""",
    "summed": """\
{{ config(batch_by = 'day') }}
select day, id,
  amount -- @anomaly(mean(amount)) @sum > 0 {scope: cumulative}
from {{ source('raw', 't') }}
""",
    "joined": """\
{{ config(batch_by = 'day') }}
select o.day, o.id,
  datediff(timestamp'2025-02-05 03:10:22', o.day) + o.amount as age -- @anomaly(mean(age))
from {{ source('raw', 't') }} o
-- @anomaly(mean(id))
""",
    "counted": """\
{{ config(batch_by = 'day') }}
select day, ts, id from {{ source('raw', 't') }}
-- @anomaly(row_count)
""",
}


@pytest.fixture(scope="module")
def nine_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which a run has checked nine days by all of these models."""
    project = Project(tmp_path_factory.mktemp("edits") / "project", spark)
    project.write({"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML})
    project.write({"checks/sources.yml": SOURCES})
    project.write({f"checks/{name}.sql": text for name, text in MODELS.items()})
    next_day(project, 9)
    assert project.run().exit_code == 0
    return project.root


@pytest.fixture
def project(nine_days: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of it."""
    return Project(shutil.copytree(nine_days, tmp_path / "project"), spark)


@pytest.mark.parametrize(
    ("segments", "note"),
    [
        ("'kind', 'country'", "segment_by is kind, country, and was country, kind: its segments"),
        ("'Country', 'kind'", "segment_by is Country, kind, and was country, kind: its segments"),
    ],
)
def test_segments_that_are_called_otherwise_begin_anew(
    project: Project, segments: str, note: str
) -> None:
    edit(project, "'country', 'kind'", segments, "segmented")
    next_day(project, 10)
    result = project.run(select=["segmented"])
    assert note in str(result.models[0].notes)
    assert {r.status.value for r in result.results} <= {"pass", "skipped", "no_data"}
    labels = {k[1] for k in project.metrics("segmented") if k[0] == "2025-01-10"}
    assert len(labels) == 5
    # The batch as a whole goes on.
    whole = project.metrics("segmented")["2025-01-10", None, "amount", "sum()"]
    assert whole == sum(i % 7 + 1 for i in range(240))


def test_another_expression_is_told_where_monitors_compare_with_the_old_one(
    project: Project,
) -> None:
    edit(project, "amount --", "amount * 100 as amount --", "watched")
    next_day(project, 10)
    told = "the SELECT computes amount by another expression than before: monitors compare"
    assert told in str(project.run(select=["watched"]).models[0].notes)
    next_day(project, 11)
    assert told not in str(project.run(select=["watched"]).models[0].notes)


def test_what_a_run_renders_and_a_join_are_no_other_expression(project: Project) -> None:
    edit(project, "2025-02-05 03:10:22", "2025-02-06 03:12:59", "joined")
    edit(project, "}} o", "}} o left join (select 1 as one) b on o.id = b.one", "joined")
    next_day(project, 10)
    (found,) = project.run(select=["joined"]).models
    assert found.batches == ("2025-01-10",)
    assert "computes age" not in str(found.notes)


def test_a_column_under_its_own_name_is_the_same(project: Project) -> None:
    edit(project, "amount --", "amount as amount --", "summed")
    next_day(project, 10)
    assert "another expression" not in str(project.run(select=["summed"]).models[0].notes)
    sums = [r for r in project.rows("dq_results") if r["check_id"] == "summed.amount.sum_gt_0"]
    values = [r["observed"] for r in sums]
    assert max(values) == sum(i % 7 + 1 for i in range(240))


def test_retired_batches_are_no_history_of_a_verdict(project: Project) -> None:
    edit(project, "'day'", "\"date_trunc('day', ts)\"", "counted")
    next_day(project, 12)
    project.run(select=["counted"])
    last = dt.datetime(2025, 1, 12).strftime("%Y-%m-%d %H:%M:%S")
    found = explain(
        f"counted.anomaly_row_count@{last}", project_dir=project.root, spark=project.spark
    )
    assert found.same is True
    assert not any(len(batch) == 10 for batch in found.past)


def test_verdicts_of_retired_batches_are_kept_where_others_take_their_names(
    new_project: NewProject,
) -> None:
    sql = (
        "{{ config(batch_by = 'day') }}\nselect day, ts, id from {{ source('raw', 't') }}\n"
        "-- @row_count >= 1\n"
    )
    project = new_project(sql, DATA.format(days=3))
    project.run()
    before = project.rows("dq_results")
    edit(project, "'day'", "'date(ts)'")
    edit(project, "row_count >= 1", "row_count >= 2")
    project.run()
    assert len(project.rows("dq_results")) == len(before) == 3
    replaced = project.rows("dq_result_history")
    places = {(r["check_id"], r["batch"], r["status"]) for r in before}
    assert {(r["check_id"], r["batch"], r["status"]) for r in replaced} == places


def test_a_column_in_two_letter_cases_is_one(new_project: NewProject) -> None:
    sql = """\
{{ config(batch_by = 'day') }}
select day, kind as `it's`,
  amount as Amount -- @mean(Amount) > 0 @mean(amount) > 0.5 @anomaly(mean) @anomaly(max(AMOUNT))
from {{ source('raw', 't') }}
-- @duplicate_count(Amount) > 1 {scope: cumulative} @entropy(amount) > 0.1 {scope: cumulative}
-- @unique(day, amount) {severity: warn} @duplicate_count(day, Amount) > 1
-- @anomaly(row_count) {where: "`it's` = 'a'"} @anomaly(row_count) {where: "`it's` = 'A'"}
-- @expect(frequency(count_if(VALUE = '1.0') + count(n), AMOUNT) > 0) {scope: cumulative}
-- @expect(frequency(1000000 * sum(n * 0.0000001), amount) > 0.1) {scope: cumulative}
-- @expect(frequency(count(n, n), amount) > 1) {scope: cumulative}
"""
    project = new_project(sql, DATA.format(days=3))
    result = project.run()
    assert result.models[0].error is None
    observed = {
        r["check_id"].removeprefix("m."): r["observed"]
        for r in project.rows("dq_results")
        if r["batch"] == "2025-01-03" and r["observed"] is not None
    }
    # 72 rows of seven values.
    assert [v for k, v in observed.items() if "duplicate_count_amount" in k] == [65.0]
    statuses = {r.status.value for r in result.results if r.detector == "constraint"}
    assert statuses == {"pass", "warn"}


SPELLED = """\
{{ config(batch_by = 'day') }}
select day, kind,
  amount, -- @anomaly(mean) {min_history: 5} @avh {min_history: 7} @sum > 0 {scope: cumulative}
  id -- @unique {scope: cumulative} @duplicate_count(id, amount) = 0
from {{ source('raw', 't') }}
-- @row_count > 0 {where: "amount > 2 and kind = 'a'"} @novelty {min_history: 7} @schema
"""


def test_a_column_in_another_letter_case_goes_on(new_project: NewProject) -> None:
    project = new_project(SPELLED.replace("kind =", "KIND ="), DATA.format(days=12))
    project.run()
    next_day(project, 13)
    edit(project, "amount", "Amount")
    edit(project, "KIND = 'a'", "Kind = 'a'")
    result = project.run()
    assert not result.models[0].notes
    assert {r.status.value for r in result.results} == {"pass"}
    values = [r["observed"] for r in project.rows("dq_results") if "sum" in r["check_id"]]
    assert max(values) == sum(i % 7 + 1 for i in range(13 * 24))
    for check in ("m.amount.avh", "m.amount.anomaly_mean", "m.novelty"):
        again = explain(f"{check}@2025-01-13", project_dir=project.root, spark=project.spark)
        assert again.same is True
        assert len(again.past) == 12

"""What columns and batches are made of may change: cumulative metrics do not mix the two."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.results import ModelResult
from tests.conftest import PROFILES_YML, PROJECT_YML

from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKS = (
    "-- @expect(sum(x) > 0) {scope: cumulative}\n"
    "-- @expect(row_count > 0) {scope: cumulative}\n"
    "-- @expect(max(x) is not null) {scope: cumulative}\n"
    "-- @expect(count_distinct(x) > 0) {scope: cumulative}\n"
    "-- @expect(stddev(y) is not null) {scope: cumulative}\n"
)
DAYS = ("2024-01-30", "2024-01-31", "2024-02-01")


def write(project: Project, select: str, batch_by: str = "day") -> None:
    head = f"{{{{ config(batch_by='{batch_by}') }}}}\n"
    source = "{{ source('raw', 't') }}"
    text = f"{head}select {select} from {source}\n{CHECKS}"
    (project.root / "checks/m.sql").write_text(text)


def put(project: Project, days: tuple[str, ...], kind: pa.DataType) -> None:
    """Each day has x = 1.5, 2.5 and 3.5."""
    (project.root / "data").mkdir(exist_ok=True)
    for day in days:
        xs = pa.array([1.5, 2.5, 3.5]).cast(kind)
        table = pa.table({"day": [day] * 3, "x": xs, "y": [1.0, 2.0, 3.0]})
        pq.write_table(table, project.root / "data" / f"{day}.parquet")


def values(result: ModelResult) -> dict[str, float | str | None]:
    """What was observed, by the first word of each check."""
    return {
        re.findall(r"\w+", r.check_name)[1]: r.observed_text or r.observed for r in result.results
    }


def third(project: Project) -> ModelResult:
    (found,) = project.run(DAYS[2]).models
    assert {r.status.value for r in found.results} == {"pass"}
    return found


@pytest.fixture(scope="module")
def two_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which two of three days are checked."""
    root = tmp_path_factory.mktemp("meaning") / "project"
    for name, text in (
        ("dqsql_project.yml", PROJECT_YML),
        ("profiles.yml", PROFILES_YML),
        ("checks/sources.yml", SOURCES),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    project = Project(root, spark)
    put(project, DAYS, pa.float64())
    write(project, "day, x, y")
    project.run(*DAYS[:2])
    return root


@pytest.fixture
def begun(two_days: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of that project, to be changed."""
    return Project(shutil.copytree(two_days, tmp_path / "project"), spark)


def test_comments_and_columns_that_nothing_reads_change_nothing(begun: Project) -> None:
    write(begun, "day, /* the price */ x, y, x * 2 as twice -- new\n")
    found = third(begun)
    assert found.notes == ()
    assert values(found)["sum"] == 3 * 7.5


def test_another_spelling_changes_nothing(begun: Project) -> None:
    source = "{{ source('raw', 't') }}"
    path = begun.root / "checks/m.sql"
    head = "{{ config(batch_by='day') }}\n"
    path.write_text(f"{head}select day, x + 1 as x, y from {source}\n{CHECKS}")
    begun.run(full_refresh=True)
    path.write_text(f"{head}select o.day, O.X  + 1 as x, o.y from {source} as o\n{CHECKS}")
    found = third(begun)
    assert found.notes == ()
    assert values(found)["sum"] == 3 * 7.5 + 9


def test_another_expression(begun: Project) -> None:
    write(begun, "day, x * 1000 as x, y")
    found = third(begun)
    assert any("the SELECT computes x by another expression" in n for n in found.notes)
    assert any("cumulative metrics leave out 2 earlier batches" in n for n in found.notes)
    told = values(found)
    assert (told["sum"], told["max"], told["count_distinct"]) == (7500, 3500, 3)
    # The other column is what it was.
    assert told["stddev"] == pytest.approx((6 / 8) ** 0.5)


RATIOS = (
    "-- @completeness(x) = 1 {scope: cumulative}\n"
    "-- @expect(sum(x) / sum(y) = 1.25) {scope: cumulative}\n"
    "-- @expect(sum(x) / count(*) = 2.5) {scope: cumulative}\n"
    "-- @mean(x) = 2.5 {scope: cumulative}\n"
    "-- @most_frequent_share(x) = 0.3333333333333333 {scope: cumulative}\n"
    "-- @dependency_violations(x, y) = 0 {scope: cumulative}\n"
)


def test_what_is_divided_begins_with_the_same_batch(begun: Project) -> None:
    path = begun.root / "checks/m.sql"
    path.write_text(path.read_text() + RATIOS)
    found = third(begun)
    assert any("cumulative metrics leave out 2 earlier batches" in n for n in found.notes)
    assert values(found)["row_count"] == 9
    # From now on all of them are kept, also in segments that come later.
    put(begun, ("2024-02-02",), pa.float64())
    (again,) = begun.run("2024-02-02").models
    assert {r.status.value for r in again.results} == {"pass"}
    assert not again.notes


def test_the_other_side_of_a_join(begun: Project) -> None:
    source = "{{ source('raw', 't') }}"
    joined = f"{source} as a join (select 10 * x as x, y as z from {source}) as b on a.y = b.z"
    head = "{{ config(batch_by='day') }}\n"
    path = begun.root / "checks/m.sql"
    path.write_text(f"{head}select a.day, a.x, a.y from {joined}\n{CHECKS}")
    begun.run(*DAYS[:2])
    # Another name for the relation changes nothing.
    renamed = joined.replace(" as a ", " as c ").replace("a.y", "c.y")
    path.write_text(f"{head}select c.day, c.x, c.y from {renamed}\n{CHECKS}")
    assert not third(begun).notes
    path.write_text(f"{head}select a.day, b.x, a.y from {joined}\n{CHECKS}")
    found = third(begun)
    assert any("the SELECT computes x by another expression" in n for n in found.notes)
    assert values(found)["max"] == 35


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("{t}", "{t} where x > 2", True),
        ("{t} where x > 2", "{t} WHERE  t.X > 2 -- large ones", False),
        ("{t} where day >= '2024-01-01'", "{t} where day >= '2023-12-31'", False),
        ("{t} where day <> 'x'", "{t} where day <> 'y'", True),
        ("{t}", "(select * from {t} where x > 2)", True),
        ("(select day, x, y from {t})", "(select x, y, day from {t}) as s", False),
    ],
)
def test_other_rows_are_told_and_counted_on(
    begun: Project, before: str, now: str, told: bool
) -> None:
    head, source = "{{ config(batch_by='day') }}\n", "{{ source('raw', 't') }}"
    path = begun.root / "checks/m.sql"

    def select(rows: str) -> None:
        rows = rows.format(t=f"{source} as t").replace("as t)", ")")
        path.write_text(f"{head}select day, x, y from {rows}\n{CHECKS}")

    select(before)
    begun.run(full_refresh=True)
    select(now)
    notes = third(begun).notes
    assert any("the SELECT has another FROM, WHERE or the like" in n for n in notes) == told
    assert not any("leave out" in n for n in notes)


def test_another_model_upstream(begun: Project) -> None:
    source, stage = "{{ source('raw', 't') }}", begun.root / "checks/stage.sql"
    head = "{{ config(batch_by='day') }}\n"
    mart = f"{head}select day, x, y + 1 as y from {{{{ ref('middle') }}}}\n{CHECKS}"
    (begun.root / "checks/m.sql").write_text(mart)
    middle = "select day, x, y from {{ ref('stage') }}\n"
    (begun.root / "checks/middle.sql").write_text(middle)
    stage.write_text(f"select day, x, y from {source}\n")
    begun.run(full_refresh=True)
    # What no cumulative metric reads may change.
    stage.write_text(f"select day, x, y, x * 3 as z from {source} as renamed\n")
    assert not run_of(begun, "m").notes
    stage.write_text(f"select day, x, 100 * y as y, x * 3 as z from {source}\n")
    (note,) = run_of(begun, "m").notes
    assert "stage, which the SELECT reads, is another than before" in note
    assert "--full-refresh" in note
    # The next batch follows one of the new SELECT.
    put(begun, ("2024-02-02",), pa.float64())
    (again,) = (m for m in begun.run("2024-02-02").models if m.model == "m")
    assert not again.notes


def run_of(project: Project, name: str) -> ModelResult:
    """The result of one of several models, for the third day."""
    return next(m for m in project.run(DAYS[2]).models if m.model == name)


def test_batches_under_a_name_in_other_letters(begun: Project) -> None:
    write(begun, "day, x, y", "DAY")
    assert values(third(begun))["row_count"] == 9


def test_an_expression_below_the_select(begun: Project) -> None:
    source = "{{ source('raw', 't') }}"
    head = "{{ config(batch_by='day') }}\n"
    below = f"with made as (select day, x * 10 as x, y from {source})\n"
    (begun.root / "checks/m.sql").write_text(f"{head}{below}select day, x, y from made\n{CHECKS}")
    assert values(third(begun))["sum"] == 75


def test_another_batch_by(begun: Project) -> None:
    write(begun, "day, x, y", "substr(day, 1, 7)")
    (found,) = begun.run("2024-02").models
    assert any("batch_by is" in n and "2 earlier batches are retired" in n for n in found.notes)
    assert values(found)["row_count"] == 3
    assert values(found)["sum"] == 7.5


def test_segments_that_come_later(begun: Project) -> None:
    text = (begun.root / "checks/m.sql").read_text()
    (begun.root / "checks/m.sql").write_text(
        text.replace("batch_by='day'", "batch_by='day', segment_by=['y']")
    )
    (found,) = begun.run(DAYS[2]).models
    note = "segment_by is y, and was not set: its segments begin anew"
    assert any(n.startswith(note) for n in found.notes)


def test_a_batch_without_rows_is_not_compared_with(begun: Project) -> None:
    """No full refresh would find it."""
    (begun.root / "data" / f"{DAYS[1]}.parquet").unlink()
    begun.run(DAYS[1])
    put(begun, DAYS[:1], pa.string())
    (found,) = begun.run(DAYS[0]).models
    assert not any("is now" in n for n in found.notes)


def test_another_type(begun: Project) -> None:
    put(begun, DAYS, pa.string())
    found = third(begun)
    assert any("x is now string, before it was double" in n for n in found.notes)
    told = values(found)
    assert (told["sum"], told["max"], told["count_distinct"]) == (7.5, "3.5", 3)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_that_do_not_fit(new_project: NewProject, spark: SparkSession, ansi: str) -> None:
    large = 2**62
    project = new_project(
        sql="{{ config(batch_by='day') }}\n"
        f"select * from values ('a', {large}L), ('b', {large}L), ('b', 1L), ('c', {large}L),"
        f" ('c', {large}L) as t(day, n)\n"
        "-- @expect(sum(n) > 0)\n"
        "-- @expect(sum(n) filter (where n > 1) > 0) {scope: cumulative}\n"
        "-- @expect(try_sum(n) > 0)\n"
        "-- @expect(count(n) > 0)\n"
    )
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        (found,) = project.run("a").models
        assert {r.status.value for r in found.results} == {"pass"}
        (found,) = project.run("b").models
        (whole,) = project.run("c").models
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    told = {r.check_name: (r.status.value, r.message) for r in found.results}
    assert told["expect(sum(n) > 0)"][0] == "pass"
    status, message = told["expect(sum(n) filter (where n > 1) > 0)"]
    assert status == "error"
    assert "the sum of n does not fit into its type" in message
    told = {r.check_name: (r.status.value, r.message) for r in whole.results}
    assert told["expect(sum(n) > 0)"][0] == "error"
    assert told["expect(try_sum(n) > 0)"][0] == "no_data"
    assert told["expect(count(n) > 0)"][0] == "pass"

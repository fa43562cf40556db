"""What columns and batches are made of may change: cumulative metrics do not mix the two."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.results import ModelResult
from tests.conftest import PROFILES_YML, PROJECT_YML

from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMS = "-- @expect(sum(x) > 0) {scope: cumulative}\n-- @expect(row_count > 0) {scope: cumulative}\n"
CHECKS = (
    SUMS + "-- @expect(max(x) is not null) {scope: cumulative}\n"
    "-- @expect(stddev(y) is not null) {scope: cumulative}\n"
)
DISTINCT = "-- @expect(count_distinct(x) > 0) {scope: cumulative}\n"
RATIOS = (
    "-- @completeness(x) = 1 {scope: cumulative}\n"
    "-- @expect(sum(x) / sum(y) = 1.25) {scope: cumulative}\n"
    "-- @expect(sum(x) / count(*) = 2.5) {scope: cumulative}\n"
    "-- @mean(x) = 2.5 {scope: cumulative}\n"
    "-- @most_frequent_share(x) = 0.3333333333333333 {scope: cumulative}\n"
    "-- @dependency_violations(x, y) = 0 {scope: cumulative}\n"
)
DAYS = ("2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02")
SOURCE = "{{ source('raw', 't') }}"
JOINED = f"{SOURCE} as a join (select 10 * x as x, y as z from {SOURCE}) as b on a.y = b.z"


def sql(query: str, checks: str = CHECKS, config: str = "batch_by='day'") -> str:
    return f"{{{{ config({config}) }}}}\n{query}\n{checks}"


def select(columns: str, rows: str = SOURCE, checks: str = CHECKS) -> str:
    return sql(f"select {columns} from {rows}", checks)


class Edited(NamedTuple):
    """A model of which two days are checked, and its texts when the third is checked, and again."""

    before: str
    now: str
    later: str = ""


PLAIN = select("day, x, y")
# A model that reads another one of another one, and what that is.
MART = sql("select day, x, y + 1 as y from {{ ref('middle') }}")
STAGE = Edited(
    f"select day, x, y from {SOURCE}\n",
    f"select day, x, y, x * 3 as z from {SOURCE} as renamed\n",
    f"select day, x, 100 * y as y, x * 3 as z from {SOURCE}\n",
)
# Of one project, so that a run checks them all.
EDITED = {
    "spelling": Edited(
        select("day, x + 1 as x, y"), select("o.day, O.X  + 1 as x, o.y", f"{SOURCE} as o")
    ),
    "joined": Edited(
        select("a.day, a.x, a.y", JOINED),
        # Another name for the relation.
        select("c.day, c.x, c.y", JOINED.replace(" as a ", " as c ").replace("a.y", "c.y")),
        select("a.day, b.x, a.y", JOINED),
    ),
    "stage": STAGE,
}
# FROM and WHERE before and now, and whether that is told.
OTHER_ROWS = (
    ("{t}", "{t} where x > 2", True),
    ("{t} where x > 2", "{t} WHERE  t.X > 2 -- large ones", False),
    ("{t} where day >= '2024-01-01'", "{t} where day >= '2023-12-31'", False),
    ("{t} where day <> 'x'", "{t} where day <> 'y'", True),
    ("{t}", "(select * from {t} where x > 2)", True),
    ("(select day, x, y from {t})", "(select x, y, day from {t}) as s", False),
)
for _number, (_before, _now, _) in enumerate(OTHER_ROWS):
    EDITED[f"rows_{_number}"] = Edited(
        *(
            select("day, x, y", rows.format(t=f"{SOURCE} as t").replace("as t)", ")"), SUMS)
            for rows in (_before, _now)
        )
    )


class Third(NamedTuple):
    """The results of the third day, of the third day again, and of the fourth one, by model."""

    first: dict[str, ModelResult]
    again: dict[str, ModelResult]
    fourth: dict[str, ModelResult]


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


def new(root: Path, spark: SparkSession, models: Mapping[str, str]) -> Project:
    for name, text in (
        ("dqsql_project.yml", PROJECT_YML),
        ("profiles.yml", PROFILES_YML),
        ("checks/sources.yml", SOURCES),
        *((f"checks/{name}.sql", text) for name, text in models.items()),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    project = Project(root, spark)
    put(project, DAYS[:3], pa.float64())
    return project


def run(project: Project, day: str, *models: str) -> dict[str, ModelResult]:
    found = {m.model: m for m in project.run(day, select=models).models}
    assert {r.status.value for m in found.values() for r in m.results} == {"pass"}
    return found


def third_of(project: Project) -> ModelResult:
    return run(project, DAYS[2])["m"]


@pytest.fixture(scope="module")
def third(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Third:
    """What became of the edited models."""
    upstream = {"middle": "select day, x, y from {{ ref('stage') }}\n", "mart": MART}
    before = {name: edited.before for name, edited in EDITED.items()}
    root = tmp_path_factory.mktemp("edited") / "project"
    project = new(root, spark, {**before, **upstream})
    models = [name for name in (*EDITED, "mart") if name != "stage"]
    project.run(*DAYS[:2], select=models)
    for name, edited in EDITED.items():
        (root / f"checks/{name}.sql").write_text(edited.now)
    first = run(project, DAYS[2], *models)
    for name, edited in EDITED.items():
        (root / f"checks/{name}.sql").write_text(edited.later or edited.now)
    again = run(project, DAYS[2], "joined", "mart")
    put(project, DAYS[3:], pa.float64())
    return Third(first, again, run(project, DAYS[3], "mart"))


@pytest.fixture(scope="module")
def two_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one model, of which two of three days are checked."""
    root = tmp_path_factory.mktemp("meaning") / "project"
    new(root, spark, {"m": PLAIN}).run(*DAYS[:2])
    return root


@pytest.fixture(scope="module")
def two_counted_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose values are counted, too."""
    root = tmp_path_factory.mktemp("counted") / "project"
    new(root, spark, {"m": PLAIN + DISTINCT}).run(*DAYS[:2])
    return root


@pytest.fixture
def begun(two_days: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of the first one, to be changed."""
    return Project(shutil.copytree(two_days, tmp_path / "project"), spark)


@pytest.fixture
def counted(two_counted_days: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of the second one, to be changed."""
    return Project(shutil.copytree(two_counted_days, tmp_path / "project"), spark)


def write(project: Project, text: str) -> None:
    (project.root / "checks/m.sql").write_text(text)


def test_comments_and_columns_that_nothing_reads_change_nothing(begun: Project) -> None:
    write(begun, select("day, /* the price */ x, y, x * 2 as twice -- new\n"))
    found = third_of(begun)
    assert found.notes == ()
    assert values(found)["sum"] == 3 * 7.5


def test_another_spelling_changes_nothing(third: Third) -> None:
    found = third.first["spelling"]
    assert found.notes == ()
    assert values(found)["sum"] == 3 * 7.5 + 9


def test_another_expression(counted: Project) -> None:
    write(counted, select("day, x * 1000 as x, y") + DISTINCT)
    found = third_of(counted)
    assert any("the SELECT computes x by another expression" in n for n in found.notes)
    assert any("cumulative metrics leave out 2 earlier batches" in n for n in found.notes)
    told = values(found)
    assert (told["sum"], told["max"], told["count_distinct"]) == (7500, 3500, 3)
    # The other column is what it was.
    assert told["stddev"] == pytest.approx((6 / 8) ** 0.5)


def test_what_is_divided_begins_with_the_same_batch(begun: Project) -> None:
    write(begun, PLAIN + RATIOS)
    found = third_of(begun)
    assert any("cumulative metrics leave out 2 earlier batches" in n for n in found.notes)
    assert values(found)["row_count"] == 9
    # From now on all of them are kept, also in segments that come later.
    put(begun, DAYS[3:], pa.float64())
    assert not run(begun, DAYS[3])["m"].notes


def test_the_other_side_of_a_join(third: Third) -> None:
    # Another name for the relation changes nothing.
    assert not third.first["joined"].notes
    found = third.again["joined"]
    assert any("the SELECT computes x by another expression" in n for n in found.notes)
    assert values(found)["max"] == 35


@pytest.mark.parametrize("number", range(len(OTHER_ROWS)))
def test_other_rows_are_told_and_counted_on(third: Third, number: int) -> None:
    notes = third.first[f"rows_{number}"].notes
    told = any("the SELECT has another FROM, WHERE or the like" in n for n in notes)
    assert told == OTHER_ROWS[number][2]
    assert not any("leave out" in n for n in notes)


def test_another_model_upstream(third: Third) -> None:
    # What no cumulative metric reads may change.
    assert not third.first["mart"].notes
    (note,) = third.again["mart"].notes
    assert "stage, which the SELECT reads, is another than before" in note
    assert "--full-refresh" in note
    # The next batch follows one of the new SELECT.
    assert not third.fourth["mart"].notes


def test_batches_under_a_name_in_other_letters(begun: Project) -> None:
    write(begun, PLAIN.replace("'day'", "'DAY'"))
    assert values(third_of(begun))["row_count"] == 9


def test_an_expression_below_the_select(begun: Project) -> None:
    below = f"with made as (select day, x * 10 as x, y from {SOURCE})"
    write(begun, sql(f"{below}\nselect day, x, y from made"))
    assert values(third_of(begun))["sum"] == 75


def test_segments_that_come_later(begun: Project) -> None:
    write(begun, PLAIN.replace("'day'", "'day', segment_by=['y']"))
    (found,) = begun.run(DAYS[2]).models
    note = "segment_by is y, and was not set: its segments begin anew"
    assert any(n.startswith(note) for n in found.notes)


def test_another_batch_by(begun: Project) -> None:
    write(begun, PLAIN.replace("'day'", "'substr(day, 1, 7)'"))
    (found,) = begun.run("2024-02").models
    assert any("batch_by is" in n and "2 earlier batches are retired" in n for n in found.notes)
    assert values(found)["row_count"] == 3
    assert values(found)["sum"] == 7.5


def test_a_batch_without_rows_is_not_compared_with(begun: Project) -> None:
    """No full refresh would find it."""
    (begun.root / "data" / f"{DAYS[1]}.parquet").unlink()
    begun.run(DAYS[1])
    put(begun, DAYS[:1], pa.string())
    (found,) = begun.run(DAYS[0]).models
    assert not any("is now" in n for n in found.notes)


def test_another_type(counted: Project) -> None:
    put(counted, DAYS[:3], pa.string())
    found = third_of(counted)
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

"""Models without annotations are watched; what is watched is listed, bounded and can be pinned."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import dqsql
from dqsql.cli.main import cli
from dqsql.compiler import auto
from dqsql.errors import ConfigError, DqsqlError
from dqsql.model.results import Result
from dqsql.runner.compilation import Where
from dqsql.runner.report import read_page
from dqsql.runner.review import review
from dqsql.runner.tables import compile_tables

from ..conftest import PROFILES_YML, PROJECT_YML
from .conftest import SOURCES, NewProject, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day', monitors = 'auto') }}
select
    day,
    cast(date_format(day, 'yyyyMMdd') as int) as date_key,
    date_format(day, 'yyyy-MM') as month,
    order_id,
    price,
    currency,
    note
from {{ source('raw', 't') }}
"""
DAYS, ROWS = 30, 80
LAST = "2024-02-09"


def orders(days: int, *, odd: bool = False) -> str:
    """Days of 80 rows; the last one repeats keys, has one currency and prices in cents."""
    last = f"id div {ROWS} = {days - 1}" if odd else "false"
    return f"""
        select date_add(date '2024-01-11', cast(id div {ROWS} as int)) as day,
            if({last}, id div 2, id) as order_id,
            (10 + (id * 7919) % 101 / 10.0D) * if({last}, 100, 1) as price,
            if({last}, 'EUR', element_at(array('EUR', 'USD', 'CHF'), cast(id % 3 + 1 as int)))
                as currency,
            array(id) as note
        from range({days * ROWS}) where not (id div {ROWS} = 15)
    """


def call(project: Project, *words: str) -> str:
    result = CliRunner().invoke(cli, [*words, "--project-dir", str(project.root)])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_nobody_has_annotated_is_watched(new_project: NewProject) -> None:
    project = new_project(MODEL, orders(DAYS, odd=True))
    result = project.run()
    assert result.exit_code == 0  # It warns.
    found: dict[str, Any] = {}
    for verdict in result.results:
        if verdict.is_finding:
            found.setdefault(verdict.batch or "", {})[verdict.check_name, verdict.column] = verdict
    # The budget is one false alarm a week.
    assert {"2024-01-27", LAST} <= set(found)
    assert len(found) <= 2 + DAYS / 7, {b: list(f) for b, f in found.items()}
    assert "2024-01-26" in found["2024-01-27"]["cadence", None].message
    last = found[LAST]
    assert last["stays_unique", "order_id"].message.startswith(f"{ROWS // 2} rows repeat a value")
    assert "has become constant" in last["alive", "currency"].message
    assert ("avh", "price") in last
    # January ends.
    assert not [r for r in result.results if r.is_finding and r.column in ("date_key", "month")]
    assert not [v for v in found.get("2024-02-01", {}) if v[0] == "novelty"]
    # Of arrays nothing is said, least of all an error.
    assert not [r for r in result.results if r.column == "note"]
    listed = call(project, "ls")
    assert "m.price.avh" in listed
    assert "m.cadence" in listed
    # What cannot be replayed is told as it was decided.
    (tested,) = dqsql.backtest(project.root, spark=project.spark, rates=[0.01], newest=5)
    assert {r.monitor.id for r in tested.replayed} == {r.check_id for r in result.results}
    decided = {r.monitor.id: r for r in tested.replayed if r.fpr is None}
    keys = decided["m.order_id.stays_unique"]
    assert (keys.accepted + keys.flagged, [*keys.alarms, *keys.found]) == (5, [LAST])
    assert decided["m.schema"].alarms == decided["m.schema"].found == ()
    assert "m.price.avh" not in decided
    call(project, "suggest", "m", "--monitors", "--write", "--yes")
    pinned = (project.root / "checks" / "m.sql").read_text("utf-8")
    assert "@stays_unique {severity: warn}" in pinned
    assert "@" not in pinned.split("currency,")[1].split("from")[0]
    before = {m.id for m in dqsql.compile_project(project.root).plans[0].monitors}
    before -= {"m.note.avh", "m.note.alive"}
    project.write({"checks/m.sql": pinned.replace(", monitors = 'auto'", "")})
    assert {m.id for m in dqsql.compile_project(project.root).plans[0].monitors} == before


def test_a_young_model_says_that_nothing_is_judged_yet(new_project: NewProject) -> None:
    project = new_project(MODEL, orders(2))
    (note,) = (n for n in project.run().models[0].notes if "learning" in n)
    assert re.fullmatch(
        r"\d+ monitors are still learning and judge nothing yet, most of them: 1 of 7 accepted"
        r" batches",
        note,
    ), note
    project.data(orders(10))
    assert not [n for n in project.run().models[0].notes if "learning" in n]


def test_what_is_not_watched_is_told(make_project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert auto.MAX_COLUMNS == 150
    monkeypatch.setattr(auto, "MAX_COLUMNS", 5)
    columns = ",\n".join(f"c{i:03}" for i in range(15))
    wide = (
        f"{{{{ config(batch_by = 'day', monitors = 'auto') }}}}\nselect day,\n{columns}\nfrom t\n"
        "-- @avh(c010)\n"
    )
    few = (
        wide.replace("'auto'", "'auto', scan_budget = 2")
        .replace(columns, "id")
        .replace("(c010)", "(id)")
    )
    compiled = dqsql.compile_project(make_project({"checks/wide.sql": wide, "checks/few.sql": few}))
    notes = {p.model.name: p.notes for p in compiled.plans}
    assert notes["wide"] == (
        "`monitors` watches 5 columns by itself: c005, c006, c007 and 6 more are not watched,"
        " for which @avh beside the column is needed",
    )
    (note,) = notes["few"]
    assert note.startswith("scan_budget leaves no room for ")


# On the last of 20 days the times are lost.
AT = "timestamp_seconds(1704067200 + 86400 * (id div 200) + 400 * (id % 200))"
LOST = f"""
    select if(id < 3800, {AT}, date_trunc('day', {AT})) as at, 'x' as kind, id % 7 as n
    from range(4000)
"""
# On the last of 20 days all is an hour and a half later, at noon of the same day.
HOURS = "36000 + 40 * (id % 200) + pmod(hash(id), 30) + if(id >= 3800, 5400, 0)"
MOVED = f"""
    select timestamp_seconds(1704067200 + 86400 * (id div 200) + {HOURS}) as at, id % 7 as n
    from range(4000)
"""
TIMES = {
    "checks/lost.sql": """
        {{ config(batch_by = "concat(date(at), kind)", monitors = 'auto') }}
        select at, kind, n from {{ source('raw', 't') }}
    """,
    "checks/moved.sql": """
        {{ config(batch_by = 'date(at)', monitors = 'auto') }}
        select at, n from {{ source('raw', 'u') }}
    """,
}


@pytest.fixture(scope="module")
def of_times(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> dict[str, tuple[Result, ...]]:
    """What is said of two models of times, checked by one run."""
    project = Project(tmp_path_factory.mktemp("times"), spark)
    settings = {"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML}
    project.write({**settings, "checks/sources.yml": SOURCES, **TIMES})
    project.data(LOST)
    project.data(MOVED, "u")
    return {m.model: m.results for m in project.run().models}


def test_the_time_whose_day_is_the_batch_is_watched(
    of_times: dict[str, tuple[Result, ...]],
) -> None:
    results = of_times["lost"]
    watched = {r.check_id for r in results}
    assert {"lost.at.avh", "lost.at.alive", "lost.n.avh"} <= watched
    assert not {c for c in watched if ".kind." in c}
    found = {(r.check_id, r.batch) for r in results if r.is_finding}
    assert ("lost.at.avh", "2024-01-20x") in found or ("lost.at.alive", "2024-01-20x") in found
    assert {batch for _, batch in found} == {"2024-01-20x"}


def test_a_time_of_the_day_that_moves_is_found(of_times: dict[str, tuple[Result, ...]]) -> None:
    results = of_times["moved"]
    found = {(r.check_id, r.batch) for r in results if r.is_finding}
    assert found == {("moved.novelty", "2024-01-20")}
    (message,) = (r.message for r in results if r.is_finding)
    assert "days_to_min(at) is 0.479" in message


def test_a_model_whose_columns_spark_knows_and_the_project_file(new_project: NewProject) -> None:
    model = "{{ config(batch_by = 'day') }}\nselect * from {{ source('raw', 't') }}\n"
    project = new_project(model, orders(9))
    file = project.root / "dqsql_project.yml"
    text = file.read_text("utf-8")
    file.write_text(f"{text}\nmonitors: [volume, columns]\n", encoding="utf-8")
    names = {(r.check_name, r.column) for r in project.run().results}
    assert names == {("anomaly(row_count)", None)} | {
        ("avh", c) for c in ("order_id", "price", "currency")
    }
    # Known from now on, without Spark.
    assert "m.price.avh" in call(project, "ls")
    file.write_text(f"{text}\nmonitors: [volume, colums]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no 'colums'"):
        dqsql.compile_project(project.root)


def test_scans_are_bounded(make_project: Any, tmp_path: Path) -> None:
    def monitors(budget: str) -> tuple[set[str], int]:
        text = MODEL.replace("'auto'", f"'auto', scan_budget = {budget}")
        root = make_project(
            {
                "checks/m.sql": text,
                "checks/sources.yml": "sources: [{name: raw, tables: [{name: t, path: d}]}]",
            },
            f"p{budget}",
        )
        compiled = dqsql.compile_project(root)
        assert not compiled.errors
        # All of them share one budget, which they know of as if it was written.
        assert compiled.project.settings["false_alarm_budget"] == "1 per week"
        (plan,) = compiled.plans
        return {m.kind for m in plan.monitors}, sum(q.scans for q in compiled.queries["m"])

    everything, scans = monitors("20")
    assert {"anomaly", "cadence", "schema", "avh", "alive", "stays_unique", "novelty"} == everything
    few, fewer_scans = monitors(str(scans - 1))
    assert "novelty" not in few
    assert "avh" in few
    assert fewer_scans < scans
    assert monitors("2") == ({"anomaly", "cadence", "schema"}, 2)


def test_what_would_have_caught_rejected_batches(new_project: NewProject) -> None:
    model = MODEL.replace("'auto'", "['volume', 'schema']").replace("price,", "price, -- @max > 0")
    project = new_project(model, orders(DAYS, odd=True))
    project.run()
    refused = CliRunner().invoke(
        cli, ["suggest", "m", "--from-incidents", "--project-dir", str(project.root)]
    )
    assert "no batch of m was rejected" in refused.output
    options: Any = {"project_dir": project.root, "spark": project.spark}
    review("m", [LAST], "reject", "prices in cents", **options)
    told = call(project, "suggest", "m", "--from-incidents")
    assert "@max <= 20.01" in told
    assert f"finds 1 of 1 rejected batch ({LAST}); 0 false alarms on 28 accepted" in told
    assert "@row_count" not in told


def test_tables_that_have_no_check_file(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partitioned table of Spark's catalog: its days are the batches."""
    project = new_project("select 1 as a -- @not_null\n")
    spark = project.spark
    spark.sql("create database if not exists sales")
    try:
        spark.sql(
            "create table sales.orders using parquet partitioned by (day)"
            f" as select order_id, price, day from ({orders(9)})"
        )
        compiled = compile_tables(project.root, ["sales.*"], spark)
        (plan,) = compiled.plans
        assert plan.model.name == "sales__orders"
        assert plan.model.config.batch_by == "`day`"
        result = dqsql.run(project.root, spark=spark, compiled=compiled)
        assert len(result.models[0].batches) == 9
        assert not [r for r in result.results if r.is_finding]
        assert not [w for w in result.warnings if "no model has an annotation" in w]
        # The session of the tests is not one that a command may stop.
        known = lambda *_: nullcontext((compiled, spark))  # noqa: E731
        monkeypatch.setattr("dqsql.cli.commands.ls.watched_tables", known)
        listed = call(project, "ls", "--auto", "sales.*")
        assert f"{plan.model.name}.price.avh" in listed.split()
        assert {m.kind for m in plan.monitors} >= {"avh", "cadence", "schema", "stays_unique"}
        # The report knows them by what is stored, and so does a selection.
        for select in ((), ("sales__orders",)):
            page = read_page(Where(project.root).project(), select=select, spark=spark)
            assert [(f.name, len(f.batches)) for f in page.models] == [("sales__orders", 9)]
            assert {r.batch for r in page.models[0].results} == set(result.models[0].batches)
        where: Any = {"project_dir": project.root, "spark": spark}
        review("sales__orders", ["2024-01-15"], "accept", "a sale", **where)
        (facts,) = read_page(Where(project.root).project(), spark=spark).models
        assert set(facts.reviews) == {"2024-01-15"}
    finally:
        spark.sql("drop database sales cascade")


def test_a_broken_view_does_not_keep_tables_from_being_watched(new_project: NewProject) -> None:
    project = new_project("select 1 as a -- @not_null\n")
    spark = project.spark
    spark.sql("create database if not exists wares")
    try:
        spark.sql("create table wares.gone using parquet as select 1 as id")
        spark.sql("create view wares.broken as select id from wares.gone")
        spark.sql("drop table wares.gone")
        spark.sql("create table wares.kept using parquet as select id from range(20)")
        for _ in range(2):
            compiled = compile_tables(project.root, ["wares.*"], spark)
            result = project.attempt(compiled=compiled)
            found = {m.model: m for m in result.models}
            assert found["wares__kept"].error is None
            assert found["wares__kept"].rows == 20
            error = found["wares__broken"].error
            assert error is not None
            assert "gone" in error.message
            assert result.exit_code == 2
        # Asked for by its name, there is nothing else to do.
        with pytest.raises(DqsqlError, match="gone"):
            compile_tables(project.root, ["wares.broken"], spark)
    finally:
        spark.sql("drop database wares cascade")


def test_of_select_star_what_has_a_place_is_pinned(new_project: NewProject) -> None:
    config = "{{ config(batch_by = 'day', monitors = 'auto') }}"
    model = f"{config}\nselect * from {{{{ source('raw', 't') }}}}\n"
    project = new_project(model, orders(9))
    project.run()
    told = call(project, "suggest", "m", "--monitors", "--write", "--yes")
    assert "list the columns in the SELECT instead of *" in told
    written = (project.root / "checks" / "m.sql").read_text("utf-8")
    for name in ("@anomaly(row_count)", "@cadence", "@schema"):
        assert name in written
    assert "@novelty" not in written
    assert "@avh" not in written
    assert not dqsql.compile_project(project.root).errors

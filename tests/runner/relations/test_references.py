"""Foreign keys: `@references` and the metrics below it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql
from dqsql.engine.failures import SPARK_FAILURES
from dqsql.engine.preparation import _comparable
from dqsql.engine.session import runtime_conf
from dqsql.engine.session_settings import configured
from dqsql.errors import CompileError, IncomparableError
from dqsql.model.project import Target
from dqsql.model.results import Status

from .conftest import Project, Table, statuses, verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS = """
select * from values
    (date'2020-01-01', 'EWR', 'ABQ', 1), (date'2020-01-01', 'EWR', 'XXX', 2),
    (date'2020-01-01', 'JFK', null, 3), (date'2020-01-02', 'JFK', 'YYY', 4),
    (date'2020-01-02', 'JFK', 'YYY', 5), (date'2020-01-02', 'EWR', 'BOS', 6)
    as t(day, origin, dest, n)
"""
# Duplicate keys and a null: rows must not be multiplied, and null is no key.
AIRPORTS = "select * from values ('ABQ', 1L), ('ABQ', 1L), ('BOS', 2L), (null, null) t(faa, id)"


@pytest.fixture(autouse=True)
def tables(table: Table) -> None:
    table("flights_t", FLIGHTS)
    table("airports_t", AIRPORTS)


def test_rules_that_a_session_excludes_stay_excluded(spark: SparkSession) -> None:
    key, ours = "spark.sql.optimizer.excludedRules", runtime_conf(Target("t", "p"))
    before = spark.conf.get(key, None)
    spark.conf.set(key, "a.Rule")
    try:
        with configured(spark, ours), configured(spark, ours):
            assert spark.conf.get(key) == f"a.Rule,{ours[key]}"
        assert spark.conf.get(key) == "a.Rule"
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def test_orphans_in_a_union(project: Project) -> None:
    project.write(
        "flights",
        "select n,\n dest -- @references(airports_t, faa)\n"
        "from flights_t where day = '2020-01-01' union all select 7, 'ZZZ'",
    )
    result = project.run(store_failures=True)
    (found,) = result.results
    assert found.status is Status.FAIL
    assert found.message.startswith("2 of 4 rows have no match for dest in airports_t.faa;")
    failing = [json.loads(r["row"]) for r in project.rows("dq_failures")]
    assert sorted(r["dest"] for r in failing) == ["XXX", "ZZZ"]


def test_orphans_by_batch_and_segment(project: Project) -> None:
    """Counts as plain Spark gives them; other metrics of the same scan stay as they are."""
    project.write(
        "flights",
        "{{ config(batch_by='day', segment_by=['origin']) }}\n"
        "select day, origin,\n n, -- @sum > 0\n"
        " dest -- @references(airports_t, faa) @orphan_ratio(airports_t, faa) <= 0.5\n"
        "from flights_t",
    )
    result = project.run()
    expected = {
        (str(r["day"]), None if r["origin"] is None else f"origin={r['origin']}"): r
        for r in project.spark.sql(
            "select day, origin, count_if(dest is not null and dest not in"
            " (select faa from airports_t where faa is not null)) as orphans,"
            " count(*) as rows, sum(n) as n from flights_t"
            " group by grouping sets ((day), (day, origin))"
        ).collect()
    }
    assert project.metrics("orphan_count") == {k: r["orphans"] for k, r in expected.items()}
    assert project.metrics("sum") == {k: r["n"] for k, r in expected.items()}
    ratios = {k: r["orphans"] / r["rows"] for k, r in expected.items()}
    assert project.metrics("orphan_ratio") == pytest.approx(ratios, rel=1e-12)
    found = verdicts(result)
    failed = found["references(airports_t, faa)", "2020-01-02", None]
    assert failed.status is Status.FAIL
    assert failed.message == "2 of 3 rows have no match for dest in airports_t.faa"
    fine = found["references(airports_t, faa)", "2020-01-02", "origin=EWR"]
    assert (fine.status, fine.message) == (
        Status.PASS,
        "0 of 1 rows have no match for dest in airports_t.faa",
    )


def test_names_of_relations(project: Project, table: Table, tmp_path: Path) -> None:
    """Models, sources, tables, odd names, the model itself, several columns."""
    project.spark.sql(AIRPORTS).write.mode("overwrite").parquet(str(tmp_path / "airports"))
    (project.root / "checks").mkdir()
    (project.root / "checks" / "sources.yml").write_text(
        f"sources:\n  - name: nyc\n    tables:\n      - name: airports\n"
        f"        path: {tmp_path / 'airports'}\n"
    )
    table("odd name-é", "select 'ABQ' as `k y`, 2.0D as `select`")
    project.write("codes", "select faa from airports_t")
    project.write(
        "flights",
        """
        -- @references((origin, flights_t), flights, (origin, flights_t))
        select
            origin, -- @references(flights, origin)
            -- @references(codes, faa) @references(ref('codes'), faa)
            -- @references(airports, faa) @references(nyc.airports, faa)
            -- @references(source('nyc', 'airports'), faa)
            -- @references({{ source('nyc', 'airports') }}, upper(faa))
            -- @references(`odd name-é`, `k y`) @references('codes', upper(faa))
            -- @references(`odd name-é`, 'k y') @references(codes, '`faa`')
            dest,
            n as flights_t -- @references(flights_t, n) @references(`odd name-é`, `select`)
        from flights_t where dest is null or dest = 'ABQ'
        """,
    )
    result = project.run(select=["flights"])
    found = statuses(result)
    assert len(found) == 14
    assert found.pop("references(`odd name-é`, `select`)") is Status.FAIL
    assert set(found.values()) == {Status.PASS}


@pytest.mark.parametrize("check", ["unique", "unique(faa)", "primary_key"])
def test_keys_that_should_be_unique_and_are_not(project: Project, check: str) -> None:
    """They are looked up as they are, without a distinct: no row is counted twice."""
    project.write("airports", f"select faa, -- @{check}\n id from airports_t")
    project.write(
        "flights",
        "select n, -- @sum = 21\n dest -- @orphan_count(airports, faa) = 3\nfrom flights_t",
    )
    assert {s for n, s in statuses(project.run(select=["flights"])).items()} == {Status.PASS}


def test_values_within_values(project: Project, table: Table) -> None:
    """Fields of structs, elements of arrays, dates, decimals and NaN are looked up, too."""
    table(
        "flights_t",
        "select named_struct('code', dest) as at, array(n, null) as ns, day,"
        " cast(n as decimal(10, 2)) as price, if(n = 2, double('NaN'), -0.0D) as x from values"
        " (date'2020-01-01', 'ABQ', 1), (date'2020-01-02', 'XXX', 2) t(day, dest, n)",
    )
    table(
        "keys_t",
        "select * from values ('ABQ', 1, date'2020-01-02', 2.00BD, double('NaN')),"
        " ('ABQ', 1, null, 7.5BD, 0.0D) t(faa, n, day, price, x)",
    )
    project.write(
        "flights",
        """
        -- @orphan_count(at.code, keys_t, faa) = 1 @orphan_count(ns[0], keys_t, n) = 1
        -- @orphan_count((at.code, day), keys_t, (faa, day)) = 2
        select at, ns,
            day, -- @orphan_count(keys_t, day) = 1
            price, -- @orphan_count(keys_t, price) = 1
            x -- @references(keys_t, x)
        from flights_t
        """,
    )
    assert {s for n, s in statuses(project.run()).items()} == {Status.PASS}


def test_no_rows_is_no_pass(project: Project) -> None:
    project.write("none", "select dest -- @references(airports_t, faa)\nfrom flights_t where n < 0")
    project.write(
        "absent",
        "{{ config(batch_by='day') }}\nselect day,\n dest -- @references(airports_t, faa)\n"
        "from flights_t",
    )
    result = project.run(batches=["2020-03-01"])
    assert [r.status for r in result.results] == [Status.NO_DATA, Status.NO_DATA]


def test_an_empty_reference_matches_nothing(project: Project, table: Table) -> None:
    table("airports_t", "select * from values ('ABQ', 1L) t(faa, id) where id < 0")
    project.write("flights", "select dest -- @references(airports_t, faa)\nfrom flights_t")
    (found,) = project.run().results
    assert found.message == "5 of 6 rows have no match for dest in airports_t.faa"


def test_what_cannot_be_compared_is_one_error(project: Project) -> None:
    project.write(
        "flights",
        "select\n  dest, -- @references(airport_t, faa)\n"
        "  -- @references(airports_t, fa) @references(airports_t, id) @completeness > 0.5\n"
        "  dest as other\nfrom flights_t",
    )
    found = {r.check_name: r for r in project.run().results}
    assert found["completeness > 0.5"].status is Status.PASS
    unknown = found["references(airport_t, faa)"]
    assert unknown.status is Status.ERROR
    assert unknown.message == (
        "checks/flights.sql:2:12: references(airport_t, faa):"
        " there is no check model, source or table airport_t"
    )
    assert "airports_t has no fa" in found["references(airports_t, fa)"].message
    assert "cannot be compared safely" in found["references(airports_t, id)"].message


@pytest.mark.parametrize(
    ("check", "message", "column"),
    [
        ("references(ref('nope'), a)", "there is no check model 'nope'", 27),
        ("references(source('a', 'b'), a)", "there is no source a.b", 35),
        ("references((dest, n), airports_t, faa)", "2 columns cannot refer to 1 keys", 10),
        ("references(1 + 1, faa)", "expected a check model, a source or a table", 10),
    ],
)
def test_errors_of_compiling(project: Project, check: str, message: str, column: int) -> None:
    project.write("flights", f"select n,\n dest -- @{check}\nfrom flights_t")
    (error,) = dqsql.compile_project(project.root).errors
    assert isinstance(error, CompileError)
    assert message in error.message
    assert error.span is not None and (error.span.line, error.span.column) == (2, column)


def test_names_in_quotes_are_taken_as_they_are(project: Project) -> None:
    project.write("my-airports", AIRPORTS)
    project.write("flights", "select n,\n dest -- @references('my-airports', faa)\nfrom flights_t")
    compiled = dqsql.compile_project(project.root)
    compiled.raise_errors()
    results = dqsql.run(project.root, spark=project.spark).results
    (found,) = (r for r in results if r.check_name == "references('my-airports', faa)")
    assert (found.status, found.observed) == (Status.FAIL, 3)


def test_one_lookup_for_all_checks_of_a_key(project: Project) -> None:
    project.write(
        "flights",
        "select\n dest -- @references(airports_t, faa) @orphan_ratio(airports_t, faa) < 1\n"
        "from flights_t",
    )
    queries = dqsql.compile_project(project.root).queries["flights"]
    (scan,) = [q for q in queries if q.purpose.startswith("scan")]
    assert scan.sql.lower().count("exists(") == 1
    assert scan.scans == 1


def test_samples_of_orphans(project: Project) -> None:
    project.write(
        "flights",
        "select n,\n dest -- @references(airports_t, faa) @references(airports_t, upper(faa))\n"
        "from flights_t",
    )
    project.run(store_failures=True)
    found = {json.loads(r["row"])["n"] for r in project.rows("dq_failures")}
    assert found == {2, 4, 5}


@pytest.mark.usefixtures("compiled_plans")
def test_keys_too_large_to_be_broadcast(project: Project, table: Table) -> None:
    """Spark takes five million keys in a small file for small; the scan and the sample sort."""
    table("keys_t", "select id from range(5000)")
    table("rows_t", "select id * 10 as id from range(600)")
    project.write("rows", "select\n id -- @references(keys_t, id)\nfrom rows_t")
    limits = {
        "spark.sql.maxBroadcastTableSize": "1000",
        "spark.sql.autoBroadcastJoinThreshold": "10485760",
    }
    with configured(project.spark, limits):
        with pytest.raises(SPARK_FAILURES, match="Cannot broadcast the table"):
            project.spark.sql("select * from rows_t join keys_t using (id)").collect()
        (found,) = project.run(store_failures=True).results
        left = {name: project.spark.conf.get(name) for name in limits}
    assert found.status is Status.FAIL
    assert found.message.startswith("100 of 600 rows have no match for id in keys_t.id")
    assert len(project.rows("dq_failures")) == 100
    assert left == limits


@pytest.mark.parametrize("kind", ["char(3)", "varchar(5)", "string"])
def test_texts_of_all_types_are_compared_as_they_are(kind: str) -> None:
    """With `spark.sql.preserveCharVarcharTypeInfo`, char and varchar are types of their own."""
    assert _comparable("a", kind, "k", "string", "r") == ("a", "k")
    assert _comparable("a", "varchar(9)", "k", kind, "r") == ("a", "k")
    with pytest.raises(IncomparableError, match="cannot be compared safely"):
        _comparable("a", kind, "k", "int", "r")

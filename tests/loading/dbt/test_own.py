"""Tests that a project wrote itself are adopted where their query only filters rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.loading.dbt.failing import Unadoptable
from dqsql.loading.dbt.own import MODEL, failing_rows, generic_query, plainly_named
from dqsql.runner.compilation import compile_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

M = MODEL


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        (f"select * from {M} where a < 0", "(a < 0)"),
        (f"select * from {M} m\nwhere m.a < 0 -- why\norder by a desc;", "(a < 0)"),
        (
            f"with v as (select a as x from {M}), e as (select x from v where (x % 2) = 1)\n"
            "select * from e",
            "(((a) % 2) = 1)",
        ),
        (
            f"select 1 from (select *, length(s) as l from {M} where z) as t where t.l > 5 or q.r",
            "(z) and ((length(s)) > 5 OR q.r)",
        ),
        # A name of an inner SELECT hides that of the relation.
        (f"select a from (select b as a, c as b from {M}) where a < b", "((b) < (c))"),
        (f"select `a b`, upper(c) as d from {M} x where x.`a b` is null", "(`a b` IS NULL)"),
        (f"select * from {M}", "true"),
    ],
)
def test_conditions_of_queries(query: str, condition: str) -> None:
    assert failing_rows(query).count == f"count_if({condition})"
    assert failing_rows(query).by_row


@pytest.mark.parametrize(
    ("query", "keys", "where"),
    [
        (f"select a, count(*) as n from {M} group by a having count(*) > 1", "a", None),
        (f"select m.a, b from {M} m group by m.a, 2 having count( 1 )>=2 order by 1", "a, b", None),
        (
            f"with d as (select lower(a) as x, count(*) from {M} where b > 0 group by 1"
            " having count(*) > 1) select x from d",
            "lower(a)",
            "(b > 0)",
        ),
        (f"select f(a, b) from {M} group by coalesce(a, b) having count(*) > 1",
         "coalesce(a, b)", None),
    ],
)  # fmt: skip
def test_groups_of_several_rows(query: str, keys: str, where: str | None) -> None:
    found = failing_rows(query)
    assert found.count.startswith(f"coalesce(frequency(count_if(n > 1), {keys}), 0)")
    assert (found.where, found.by_row) == (where, False)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"select a from {M} group by a having count(*) > 2", "does more than filter"),
        (f"select a from {M} group by a having sum(b) > 1", "does more"),
        (f"select a from {M} where Rand() > 0.5", "gives something else each time"),
        (f"select a from {M} group by all having count(*) > 1", "does more"),
        (f"select a from {M} group by rollup(a) having count(*) > 1", "does more"),
        (f"select a from {M} group by a having count(*) > 1 limit 5", "does more"),
        (f"select explode(a) as b from {M} group by a having count(*) > 1", "does more"),
        (f"select lower(a) as a from {M} group by a having count(*) > 1", "which column 'a'"),
        (
            f"select * from (select a, count(*) as n from {M} group by a having count(*) > 1)"
            " where n > 2",
            "does more",
        ),
        (f"select * from (select s.* from {M}) where a < 1", "a star that"),
        (f"select distinct a from {M} where a < 1", "does more"),
        (f"select count(*) as n from {M} where a < 1", "does more"),
        (f"select biggest(a) as n from {M} where a < 1", "does more"),
        (f"select explode(xs) as x from {M} where a < 1", "does more"),
        (f"select * from {M} where a < 1 order by a limit 10", "does more"),
        (f"select * from {M} where a < 1 union all select * from {M} where b", "does more"),
        (f"select * from {M} join other on x = y where a < 1", "does more"),
        (f"select * from {M}, other where a < 1", "does more"),
        (f"select * from {M} lateral view explode(xs) t as x where x < 1", "does more"),
        (f"select * from {M} where a in (select b from other)", "does more"),
        (f"select row_number() over (order by a) as n from {M} where a < 1", "does more"),
        (f"select * from {M} qualify row_number() over (order by a) > 1", "does more"),
        ("select * from elsewhere where a < 1", "reads elsewhere"),
        (f"select * from (select a from {M}) where b < 1", "uses a column 'b'"),
        (f"select * from (select f(a) as s from {M}) where s.x < 1", "does more"),
        (f"select * from (select a as x, x + 1 as y from {M}) where y < 1", "which column 'x'"),
        (f"select * from {M} where a < 1 order by a |> where b < 1", "does more"),
        (f"select * from {M} tablesample (1 rows) where a < 1", "does more"),
        (f"with v (x) as (select a from {M}) select * from v where x < 1", "in a list"),
        ("delete from t", "is not understood"),
    ],
)
def test_queries_that_do_more(query: str, reason: str) -> None:
    with pytest.raises(Unadoptable, match=reason):
        failing_rows(query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("{% test t(model, column_name) %}{{ column_name }} of {{ model }}{% endtest %}", "a"),
        ("{%- test t(model, column_name, n=1) -%}\n{{ column_name * n }} of {{ model }}"
         "{%- endtest -%}", "a"),
        ("{% macro test_t(model, column_name) %}{{ config(limit=1) }}a of {{ model }}"
         "{% endmacro %}", "a"),
    ],
)  # fmt: skip
def test_macros_of_tests(text: str, query: str) -> None:
    context = {"config": lambda **_: ""}
    found = generic_query("t", "tests/t.sql", text, {"column_name": "a"}, context)
    assert found.strip() == f"{query} of {M}"


def test_what_only_dbt_can_render() -> None:
    text = "{% test t(model) %}{{ adapter.dispatch('t')(model) }}{% endtest %}"
    with pytest.raises(Unadoptable, match="only dbt can render it"):
        generic_query("t", "tests/t.sql", text, {}, {})


def test_names_of_the_relation_before_columns() -> None:
    names = {"words", "dbt_subquery"}
    text = "count_if(not (`Words`.id < 5 and upper(dbt_subquery.`a b`) <> 'words.id'))"
    assert plainly_named(text, names) == "count_if(NOT (id < 5 AND upper(`a b`) <> 'words.id'))"
    for same in ("count_if(word.id < 5)", "words < 5", "'words.id' = id"):
        assert plainly_named(same, names) == same
    assert plainly_named("words.address.city = 'x'", names) == "address.city = 'x'"
    assert plainly_named("words.flag", names) == "flag"
    with pytest.raises(Unadoptable, match=r"rand\(\) gives something else each time"):
        plainly_named("count_if(not (rand() < 2))", names)


EVEN = """{% test is_even(model, column_name) %}
with validation as (select {{ column_name }} as n from {{ model }})
select n from validation where n % {{ var('divisor', 2) }} <> 0
{% endtest %}"""
PAIRED = """{% test is_paired(model, column_name) %}
select * from {{ model }} a left join {{ model }} b on a.n = -b.n where b.n is null
{% endtest %}"""
REPEATED = "select abs(n) from {{ ref('numbers') }} where n <> 4 group by 1 having count(*) > 1"
WARN = {"severity": "warn"}
SINGULAR = "{{ config(severity = 'warn') }} select * from {{ ref('numbers') }} where n < 0"


def node(kind: str, name: str, **more: Any) -> dict[str, Any]:
    uid = f"{kind}.own_tests.{name}"
    own = {"unique_id": uid, "name": name, "resource_type": kind, "package_name": "own_tests"}
    return {**own, "original_file_path": f"{name}.sql", **more}


def own_test(name: str, namespace: str | None = None, **config: Any) -> dict[str, Any]:
    """A test of a project's or package's own on the column n."""
    metadata = {"name": name, "namespace": namespace, "kwargs": {"column_name": "n"}}
    return {
        "test_metadata": metadata,
        "attached_node": "model.own_tests.numbers",
        "depends_on": {
            "nodes": ["model.own_tests.numbers"],
            "macros": [f"macro.{namespace or 'own_tests'}.test_{name}"],
        },
        "config": config,
    }


def nodes() -> list[dict[str, Any]]:
    numbers = {"nodes": ["model.own_tests.numbers"]}
    config = {"materialized": "table"}
    return [
        node("model", "numbers", relation_name="own_tests.numbers", config=config),
        node("test", "even", **own_test("is_even")),
        node("test", "even_above", **own_test("is_even", where="n > 2", error_if="> 1")),
        node("test", "of_a_package", **own_test("is_even", "evens")),
        node("test", "of_a_package_that_joins", **own_test("is_paired", "evens")),
        node("test", "of_no_macro", **own_test("is_odd")),
        node(
            "test", "negative", raw_code=SINGULAR, depends_on=numbers, config={"severity": "warn"}
        ),
        node("test", "repeated", raw_code=REPEATED, depends_on=numbers),
        node("test", "two", raw_code=SINGULAR, depends_on={"nodes": ["model.own_tests.a", "b"]}),
        node("test", "this", raw_code="select * from {{ this }}", depends_on=numbers),
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A dbt project whose tests are its own."""
    metadata = {"dbt_schema_version": "https://x/manifest/v12.json", "project_name": "own_tests"}
    macros = {
        f"macro.{package}.test_is_even": {"macro_sql": EVEN, "original_file_path": "even.sql"}
        for package in ("own_tests", "evens")
    }
    macros["macro.evens.test_is_paired"] = {"macro_sql": PAIRED, "original_file_path": "p.sql"}
    manifest = {
        "metadata": metadata,
        "nodes": {n["unique_id"]: n for n in nodes()},
        "macros": macros,
    }
    profile = "own_tests: {target: t, outputs: {t: {type: spark, method: session, schema: o}}}\n"
    files = {
        "dbt_project.yml": "name: own_tests\nprofile: own_tests\n",
        "profiles.yml": profile,
        "target/manifest.json": json.dumps(manifest),
        "numbers.sql": "select 1 as n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_which_tests_are_left(project: Path) -> None:
    left = compile_project(project, dbt_tests=True).project.left_tests
    assert {t.name: t.reason for t in left} == {
        "of_a_package_that_joins": (
            "dqsql does not know the generic test evens.is_paired:"
            " its query does more than filter the rows of one relation"
        ),
        "of_no_macro": "the project defines a test is_odd of its own",
        "two": "it is a singular test, and not about one relation",
        "this": "only dbt can render it: Jinja: 'this' is undefined",
    }


def test_failing_rows_are_those_of_the_queries(project: Path, spark: SparkSession) -> None:
    spark.sql("create schema own_tests")
    try:
        numbers = spark.sql("select * from values (-3), (1), (2), (3), (4), (null) as t(n)")
        numbers.write.saveAsTable("own_tests.numbers")
        result = dqsql.run(project, spark=spark, dbt_tests=True)
        assert [m.error for m in result.models] == [None]
        found = {r.check_name: (r.status.value, r.message) for r in result.results}
    finally:
        spark.sql("drop schema own_tests cascade")
        spark.sql("drop schema if exists o_dq cascade")
    assert found["even"] == ("fail", "3 failing rows by dbt's test is_even")
    assert found["of_a_package"] == found["even"]
    assert found["even_above"][0] == "pass"
    # 3 and -3; the missing value is left out by the condition.
    assert found["repeated"][0] == "fail"
    assert found["negative"] == ("warn", "1 failing row by dbt's test negative")

"""Adopted tests of dbt_expectations count what the package's own SQL counts, on awkward rows.

The queries are those of https://github.com/metaplane/dbt-expectations, shortened: a test's number
is that of the rows that its query gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.errors import DqsqlError
from dqsql.loading.dbt.failing import Arguments, Unadoptable
from dqsql.loading.dbt.generic import ADOPTED, build
from dqsql.model.results import Result, RunResult, Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = """
select * from values
  (1, 'a', 1.5d, 2.50bd, current_timestamp() - interval 9 days, '1'),
  (2, 'b', double('NaN'), -1.25bd, current_timestamp() - interval 5 days, '2'),
  (3, 'b', null, 0.00bd, current_timestamp() + interval 5 days, '3'),
  (null, null, -3d, null, null, null),
  (5, 'it''s', double('inf'), 7bd, current_timestamp() - interval 20 days, '05'),
  (5, '', 0d, 1bd, timestamp '1999-01-01', 'x')
as t (id, s, n, d, ts, code)
"""
NOT_IN = """
select v.x from (select distinct {column} as x from m where {where}) v
left join (select distinct x from ({values})) s on v.x = s.x where s.x is null
"""
RECENT = """
select * from (select max(cast(ts as timestamp)) as t from m
               where cast(ts as timestamp) <= current_timestamp() and {where})
where coalesce(t, timestamp '1970-01-01') < current_timestamp() - interval {interval}
"""
TEXTS = "select '7' as x union all select '2.5'"
LETTERS = "select 'a' as x union all select 'b'"
NOBODYS = """
select * from (select distinct x from ({values})) s
left join (select distinct {column} as v from m where {where}) v on s.x = v.v where v.v is null
"""
UNEQUAL = """
select * from (select distinct {column} as v from m) v
full outer join (select distinct x from ({values})) s on v.v = s.x
where v.v is null or s.x is null
"""
CASING = """
select * from (select count(1) as n, count(distinct lower(v)) as lower_n
               from (select distinct {column} as v from m)) where n != lower_n
"""
LATE = "case when id < 3 then ts end"


def truth(expression: str, condition: str = "= true", where: str = "true") -> str:
    return f"""select * from (select {expression} as expression from m where {where})
               where not (expression {condition})"""


def regex(pattern: str, sign: str) -> str:
    return f"length(regexp_extract(s, '{pattern}', 0)) {sign} 0"


@dataclass(frozen=True)
class Case:
    """A test with its arguments, and its number: a query whose rows are counted, or the number."""

    name: str
    arguments: Mapping[str, Any]
    number: str | int
    namespace: str = "dbt_expectations"
    other: str | None = None


def about(column: str, name: str, number: str | int, **more: Any) -> Case:
    return Case(f"expect_{name}", {"column_name": column, **more}, number)


RECENT_DATA, IN_SET = "row_values_to_have_recent_data", "column_distinct_values_to_be_in_set"
EQUAL, COUNT = "expect_multicolumn_sum_to_equal", "expect_table_column_count_to"
BETWEEN = "expect_multicolumn_sum_to_be_between"
CASES = [
    about(
        "s", IN_SET, NOT_IN.format(column="s", where="true", values=LETTERS), value_set=list("ab")
    ),
    about(
        "s",
        IN_SET,
        NOT_IN.format(column="s", where="id < 5", values=LETTERS),
        value_set=["a", "b"],
        row_condition="id < 5",
    ),
    about(
        "id",
        IN_SET,
        NOT_IN.format(column="id", where="true", values="select 1 as x union all select 5"),
        value_set=[1, 5],
        quote_values=False,
    ),
    # The tests join, so that texts are cast to the type of the column.
    about("d", IN_SET, NOT_IN.format(column="d", where="true", values=TEXTS), value_set=[7, 2.5]),
    about(
        "d",
        "column_values_to_be_in_set",
        f"select * from m left join ({TEXTS}) s on m.d = s.x where s.x is null",
        value_set=[7, 2.5],
    ),
    about(
        "id",
        "column_values_to_not_be_in_set",
        "select * from m join (select '01' as x union all select '5') s on m.id = s.x",
        value_set=["01", 5],
    ),
    *(
        about(
            "ts",
            RECENT_DATA,
            RECENT.format(where=where or "true", interval=f"{n} {part}s"),
            datepart=part,
            interval=n,
            row_condition=where,
        )
        for n, part, where in [
            (6, "day", None),
            (4, "day", None),
            (200, "hour", "id <> 2"),
            (1, "year", "s = 'nothing'"),
            (90, "year", "s = 'nothing'"),
        ]
    ),
    *(
        Case(EQUAL, {"column_list": ["id", "d"], "sum_total": n}, truth(f"sum(id) + sum(d) = {n}"))
        for n in (25, 25.25)
    ),
    Case(
        EQUAL,
        {"column_list": ["id"], "sum_total": "d", "row_condition": "id is null"},
        truth("sum(id) = sum(d)", where="id is null"),
    ),
    Case(EQUAL, {"column_list": ["n"], "sum_total": "id"}, truth("sum(n) = sum(id)")),
    Case(
        BETWEEN,
        {"column_list": ["id", "d"], "min_value": "id", "max_value": 25},
        truth("(1 = 1 and sum(id) + sum(d) >= sum(id) and sum(id) + sum(d) <= 25)"),
    ),
    Case(
        BETWEEN,
        {"column_list": ["id"], "max_value": 16, "strictly": True},
        truth("(1 = 1 and sum(id) < 16)"),
    ),
    *(
        about(
            "s",
            "column_values_to_not_match_regex_list",
            truth(f"{regex('^a', '=')} {word} {regex('b', '=')}"),
            regex_list=["^a", "b"],
            match_on=match_on,
        )
        for match_on, word in (("any", "or"), ("all", "and"))
    ),
    about(
        "s",
        "column_values_to_match_like_pattern_list",
        truth("s like 'a%' or s like 'i%'"),
        like_pattern_list=["a%", "i%"],
    ),
    about(
        "s",
        "column_values_to_not_match_like_pattern_list",
        truth("s not like 'a%' and s not like 'i%'"),
        like_pattern_list=["a%", "i%"],
        match_on="all",
    ),
    Case(f"{COUNT}_equal", {"value": 6}, 0),
    Case(f"{COUNT}_equal", {"value": 5}, 1),
    Case(f"{COUNT}_be_between", {"min_value": 6}, 0),
    Case(f"{COUNT}_be_between", {"min_value": 1, "max_value": 5}, 1),
    about("S", "column_to_exist", 0),
    about("gone", "column_to_exist", 1),
    about("t", "column_to_exist", 1),
    about("id", "column_values_to_be_of_type", 0, column_type="int"),
    about("id", "column_values_to_be_of_type", 1, column_type="bigint"),
    about("ID", "column_values_to_be_in_type_list", 0, column_type_list=["Bigint", "INT"]),
    about("d", "column_values_to_be_of_type", 0, column_type="decimal(3,2)"),
    about("gone", "column_values_to_be_of_type", 0, column_type="int"),
    Case("expression_is_true", {"expression": "id > 1"}, truth("id > 1")),
    Case(
        "expression_is_true",
        {"expression": "n > 0", "row_condition": "s > ''"},
        truth("n > 0", where="s > ''"),
    ),
    Case(
        "expression_is_true",
        {"expression": "id > 1", "test_condition": "= false"},
        truth("id > 1", "= false"),
    ),
    Case("expression_is_true", {"expression": "sum(id) > 99"}, truth("sum(id) > 99")),
    Case(
        "expression_is_true",
        {"expression": "sum(id) > 9 or max(d) = 0"},
        truth("sum(id) > 9 or max(d) = 0"),
    ),
    *(
        about(column, f"column_distinct_values_to_{name}_set", query, value_set=values)
        for column, values in [("s", ["a", "b", "z", "z"]), ("id", [1, 2, 9]), ("s", ["a"])]
        for name, template in [("contain", NOBODYS), ("equal", UNEQUAL)]
        for query in [
            template.format(
                column=column,
                where="true",
                values=" union all ".join(f"select '{v}' as x" for v in values),
            )
        ]
    ),
    about(
        "id",
        "column_distinct_values_to_contain_set",
        NOBODYS.format(column="id", where="id > 1", values="select 1 as x union all select 5"),
        value_set=[1, 5],
        quote_values=False,
        row_condition="id > 1",
    ),
    *(
        about(column, "column_values_to_have_consistent_casing", CASING.format(column=column))
        for column in ("s", "coalesce(code, 'X')", "concat(code, s)", "coalesce(s, '')")
    ),
    Case(
        "expect_column_pair_values_to_be_in_set",
        {"column_A": "id", "column_B": "s", "value_pairs_set": [[1, "'a'"], [2, "'b'"]]},
        truth("(id = 1 and s = 'a') or (id = 2 and s = 'b')"),
    ),
    Case(
        "not_accepted_values",
        {"column_name": "s", "values": ["a", "b", "z"]},
        "select distinct s from m where s in ('a', 'b', 'z')",
        "dbt_utils",
    ),
    # On Spark the package reads its patterns without regard to these.
    about(
        "s",
        "column_values_to_match_regex",
        truth(regex("^[A-Z]", ">")),
        regex="^[A-Z]",
        is_raw=True,
        flags="i",
    ),
    *(
        Case(
            "recency",
            {"field": LATE, "datepart": "day", "interval": 5, "ignore_time_component": ignored},
            number,
            "dbt_utils",
        )
        for ignored, number in [(True, 0), (False, 1)]
    ),
    *(
        Case(f"expect_table_columns_to_{name}", {"column_list": columns.split()}, number)
        for name, columns, number in [
            ("contain_set", "ID x y x", 3),
            ("contain_set", "ts Code", 0),
            ("not_contain_set", "id x", 1),
            ("not_contain_set", "x y", 0),
            ("match_set", "code d id n s ts", 0),
            ("match_set", "id id x x", 7),
            ("match_ordered_list", "id S n d ts code", 0),
            ("match_ordered_list", "s id n", 7),
            ("match_ordered_list", "id s n d ts code more", 1),
        ]
    ),
    *(
        about("s", "column_to_exist", number, column_index=index)
        for index, number in [(2, 0), (1, 1), (9, 1)]
    ),
    *(
        Case(
            "expect_table_row_count_to_equal_other_table_times_factor",
            {"compare_model": "ref('other')", "factor": factor},
            number,
            other="other",
        )
        for factor, number in [(6, 0), (2, 1)]
    ),
    # Its percentiles are window functions on Spark: each row fails.
    about(
        "id",
        "column_median_to_be_between",
        truth("(1 = 1 and percentile(id, 0.5) over() >= 4)"),
        min_value=4,
    ),
    about(
        "id",
        "column_quantile_values_to_be_between",
        truth("(1 = 1 and percentile(id, 0.9) over() < 2)", where="id < 5"),
        quantile=0.9,
        max_value=2,
        strictly=True,
        row_condition="id < 5",
    ),
    *(
        about(
            "s",
            "column_proportion_of_unique_values_to_be_between",
            truth(
                "(1 = 1 and case when count(s) = 0 then 1"
                " else cast(count(distinct s) as float) / count(s) end <= 0.9)",
                where=condition,
            ),
            max_value=0.9,
            row_condition=condition,
        )
        for condition in ("true", "s is null")
    ),
    # Version 1.3 of the tests of two counts groups by a key: of a relation without rows there is no
    # group, and the test passes. The version after it takes what is not there for 0 rows.
    *(
        Case(name, {"compare_model": f"ref('{other}')"}, number, "dbt_utils", other)
        for name, other, number in [
            ("equal_rowcount", "other", 5),
            ("equal_rowcount", "empty", 0),
            ("fewer_rows_than", "other", 5),
            ("fewer_rows_than", "empty", 6),
        ]
    ),
]
MACROS = {
    "equal_rowcount": "abs(count_a - count_b) as diff_count from a\nfull join b on a.id = b.id",
    "fewer_rows_than": "coalesce(count_our_model, 0) as n from a full outer join b on a.id = b.id",
}
MODEL = "model.edges.m"
METADATA = {"dbt_schema_version": "https://x/manifest/v12.json", "project_name": "edges"}
FAIL_CALCS = {
    "equal_rowcount": "sum(coalesce(diff_count, 0))",
    "fewer_rows_than": "sum(coalesce(row_count_delta, 0))",
}
PROFILE = "edges:\n  target: t\n  outputs:\n    t: {type: spark, method: session, schema: edges}\n"


def generic_test(name: str, test: Mapping[str, Any], **config: Any) -> dict[str, Any]:
    return {
        "unique_id": f"test.edges.{name}",
        "name": name,
        "resource_type": "test",
        "package_name": "edges",
        "original_file_path": "models/m.yml",
        "attached_node": MODEL,
        "depends_on": {"nodes": [MODEL]},
        "test_metadata": test,
        "config": {"severity": "error", **config},
    }


def nodes() -> Iterator[dict[str, Any]]:
    """Each case twice: as it is, and with a threshold, so that its number is told."""
    node = {"resource_type": "model", "package_name": "edges", "config": {"materialized": "table"}}
    for name in ("m", "other", "empty"):
        own = {"unique_id": f"model.edges.{name}", "name": name, "relation_name": f"edges.{name}"}
        yield {**node, **own, "original_file_path": f"models/{name}.sql"}
    for number, case in enumerate(CASES):
        test = {"namespace": case.namespace, "name": case.name, "kwargs": dict(case.arguments)}
        others = [f"model.edges.{case.other}"] if case.other else []
        parents = {"depends_on": {"nodes": [MODEL, *others]}}
        calc = {"fail_calc": FAIL_CALCS[case.name]} if case.name in FAIL_CALCS else {}
        yield {**generic_test(f"plain_{number}", test, **calc), **parents}
        many = {"error_if": "> 1000", "warn_if": "> 1000"}
        # A limit is about rows, of which a test that adds up numbers has one.
        many |= {"limit": 1} if calc else {}
        yield {**generic_test(f"count_{number}", test, **calc, **many), **parents}
    kwargs = {"column_name": "code", "to": "ref('other')", "field": "id"}
    related = generic_test("related", {"name": "relationships", "kwargs": kwargs})
    yield {**related, "depends_on": {"nodes": [MODEL, "model.edges.other"]}}


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunResult]:
    root = tmp_path_factory.mktemp("edges")
    project = "name: edges\nprofile: edges\nvars: {'dbt_date:time_zone': UTC}\n"
    manifest = {
        "metadata": METADATA,
        "nodes": {n["unique_id"]: n for n in nodes()},
        "macros": {
            f"macro.dbt_utils.default__test_{name}": {"macro_sql": text}
            for name, text in MACROS.items()
        },
    }
    files = {"dbt_project.yml": project, "profiles.yml": PROFILE}
    for path, text in {**files, "target/manifest.json": json.dumps(manifest)}.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    spark.sql("create schema edges")
    spark.sql(ROWS).coalesce(1).write.saveAsTable("edges.m")
    spark.sql("select 1 as id").write.saveAsTable("edges.other")
    spark.sql("create table edges.empty (id int) using parquet")
    yield dqsql.run(root, spark=spark, dbt_tests=True)
    spark.sql("drop schema edges cascade")
    spark.sql("drop schema if exists edges_dq cascade")


def test_numbers_are_those_of_the_package(result: RunResult, spark: SparkSession) -> None:
    assert not [m.error for m in result.models if m.error is not None]
    found: dict[str, Result] = {r.check_name: r for r in result.results}
    spark.table("edges.m").createOrReplaceTempView("m")
    queries = {i: c.number for i, c in enumerate(CASES) if isinstance(c.number, str)}
    counts = " union all ".join(f"select {i}, count(*) from ({q})" for i, q in queries.items())
    expected = {i: c.number for i, c in enumerate(CASES)} | dict(
        tuple(row) for row in spark.sql(counts).collect()
    )
    ours = {i: found[f"count_{i}"].observed for i in expected}
    names = {i: f"{i} {case.name}" for i, case in enumerate(CASES)}
    assert {names[i]: n for i, n in ours.items()} == {names[i]: n for i, n in expected.items()}
    assert {i: found[f"plain_{i}"].status for i in expected} == {
        i: Status.FAIL if n else Status.PASS for i, n in expected.items()
    }
    assert {bool(n) for n in expected.values()} == {True, False}


def test_tabs_are_blanks_where_the_package_makes_blanks_of_them(spark: SparkSession) -> None:
    def failing(text: str) -> int:
        given = Arguments({"column_name": "c"}, text_of_test=text)
        count = build("dbt_utils", "not_empty_string", given).count
        values = "('a'), (''), (' '), ('\\t'), (' \\n\\r'), (null), ('\\ta')"
        (row,) = spark.sql(f"select {count} as n from values {values} as t(c)").collect()
        return int(row["n"])

    assert failing("trim({{ column_name }}) as c") == 2
    assert failing("trim(translate({{ column_name }}, chr(9), ' ')) = ''") == 4


def test_relationships_by_a_cast_are_left_to_dbt(result: RunResult) -> None:
    (left,) = [r for r in result.results if r.check_name == "related"]
    assert left.status is Status.SKIPPED
    assert "cannot be compared safely" in left.message
    assert result.exit_code == 1
    assert any(w.startswith("related is left to `dbt test`: code is of") for w in result.warnings)


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("column_values_to_be_of_type", {"column_type": "string"}, "differently"),
        ("column_values_to_be_of_type", {"column_type": "array<int>"}, "differently"),
        ("column_to_exist", {"transform": "trim"}, "neither upper nor lower"),
        ("table_columns_to_match_set", {"column_list": ["a b"]}, "not a plain name"),
        ("column_pair_values_to_be_in_set", {"value_pairs_set": [[1]]}, "other than pairs"),
        ("row_values_to_have_recent_data", {"datepart": "day", "interval": 1}, "time_zone"),
        ("column_most_common_value_to_be_in_set", {"value_set": [1], "top_n": 1}, "at random"),
        ("multicolumn_sum_to_equal", {"column_list": ["a"]}, "total is missing"),
        ("column_values_to_not_be_in_set", {"value_set": [1, "1.0"]}, "contains a value twice"),
        ("column_values_to_be_unique", {"row_condition": "a or b"}, "without parentheses"),
        ("column_values_to_match_regex_list", {"regex_list": "ab"}, "is not a list"),
        ("column_values_to_match_regex", {"regex": ["a"]}, "is not a pattern"),
        (
            "table_column_count_to_be_between",
            {"min_value": 1, "max_value": 0},
            "ignores a limit of 0",
        ),
    ],
)
def test_what_is_not_sure_is_left(name: str, arguments: dict[str, Any], reason: str) -> None:
    given = Arguments({"column_name": "c", **arguments})
    with pytest.raises(Unadoptable, match=reason):
        build("dbt_expectations", f"expect_{name}", given)


def test_every_case_is_adopted() -> None:
    assert {f"{case.namespace}.{case.name}" for case in CASES} <= ADOPTED
    assert not issubclass(Unadoptable, DqsqlError)

"""`@matches_relation`, metrics of other relations, reconciliation, functional dependencies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas
import pytest

import dqsql
from dqsql.errors import DqsqlError
from dqsql.model.results import Status
from dqsql.runner.compilation import compile_project

from .conftest import Project, Table, statuses, verdicts

DOCS = Path(__file__).parents[3] / "docs" / "between-relations.md"


def documented() -> str:
    """The check model of the documentation, over a table."""
    found = re.search(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1).replace("{{ source('raw', 't') }}", "orders_t")


# Arguments of `@reconciles`, and whether they do: columns hold the ends of their types.
RECONCILED = (
    ("max(i), min(j), tolerance => 1", "fail"),
    ("max(t), min(u), tolerance => 1", "fail"),
    ("max(u), min(o), tolerance => 1", "fail"),
    ("max(b), min(c), tolerance => 1", "fail"),
    ("max(o) - 127, min(u), relative => 0.01", "pass"),
    ("max(d), max(e), tolerance => 1", "fail"),
    ("max(d), max(e), relative => 0.1", "fail"),
    ("max(d), max(f), tolerance => 1", "fail"),
    ("max(d), max(f), relative => 0.1", "fail"),
    ("max(h), max(g)", "fail"),
    ("max(h), max(g), relative => 0.02", "pass"),
    ("max(h), max(g), relative => 0.01", "fail"),
    ("-max(h), -max(g), relative => 0.02", "pass"),
    ("max(h), max(g), tolerance => 1", "pass"),
    ("max(g), max(h), tolerance => 1", "pass"),
    ("max(h), max(g), tolerance => 1, relative => 0.001", "pass"),
    ("max(p), max(q), tolerance => 0.01", "pass"),
    ("max(p), max(q), tolerance => 0.009", "fail"),
    ("max(p), max(q), relative => 0.01", "pass"),
    ("max(h), max(z), tolerance => 1", "no_data"),
    ("max(z), max(h), relative => 0.1", "no_data"),
)


def test_what_reconciles(project: Project) -> None:
    frame = project.spark.sql(
        "select 2147483647 i, -2147483648 j, tinyint(127) t, tinyint(-128) u, 0 o,"
        " 9223372036854775807 b, -9223372036854775808 c, 5d d, double('infinity') e,"
        " double('nan') f, 99 g, 100 h, 1.5bd p, 1.49bd q, int(null) z"
    )
    found = dqsql.check(frame, [f"@reconciles({given})" for given, _ in RECONCILED])
    statuses = [r.status.value for r in found.results]
    told = [(given, status) for (given, _), status in zip(RECONCILED, statuses, strict=True)]
    assert told == list(RECONCILED)


def rows_of(project: Project, check: str, batch: str | None = None) -> list[dict[str, Any]]:
    """The stored rows of a check, of a batch where it is given."""
    found = [r for r in project.rows("dq_failures") if check in r["check_id"]]
    found = [r for r in found if batch in (None, r["batch"])]
    return sorted((json.loads(r["row"]) for r in found), key=str)


def test_the_example_of_the_documentation(project: Project, table: Table) -> None:
    # Row counts, sums and keys of the second day are as they should be: only rows differ.
    table(
        "orders_t",
        "select * from values ('a', 1, 'Z1', 'Ulm', 10.0d), ('a', 2, 'Z2', 'Bonn', 20.0d),"
        " ('b', 1, 'Z1', 'Ulm', 5.0d), ('b', 2, 'Z1', 'Neu-Ulm', 6.0d),"
        " ('b', 3, null, 'Rom', 1.0d), ('b', 4, null, 'Oslo', 1.0d), ('c', 1, 'Z1', 'Ulm', 1.0d)"
        " t(day, order_id, zip, city, amount)",
    )
    table(
        "ledger_t",
        "select * from values ('a', 1L, 'Ulm', 10.0f), ('a', 2L, 'Bonn', 20.005f),"
        " ('b', 1L, 'Ulm', 6.0f), ('b', 2L, 'Neu-Ulm', 6.0f), ('b', 5L, 'Rom', 0.0f),"
        " ('b', 4L, 'Oslo', 1.0f) t(dt, order_id, city, amount)",
    )
    project.write("m", documented())
    project.write("ledger", "{{ config(batch_by='dt') }}\nselect * from ledger_t")
    found = verdicts(project.run(select=["m"], store_failures=True))
    by_check = {
        name.partition("(")[0]: [found[name, b, None].status.value for b in "abc"]
        for name, _, _ in found
    }
    assert by_check == {
        "matches_relation": ["pass", "fail", "fail"],
        "expect": ["fail", "pass", "no_data"],
        "reconciles": ["pass", "pass", "no_data"],
        "functional_dependency": ["pass", "fail", "pass"],
    }
    name = next(n for n, _, _ in found if n.startswith("matches"))
    assert found[name, "b", None].message == (
        "3 rows differ: 1 of ledger is missing, 1 is not in ledger, 1 is changed (amount 1)"
        " (4 rows here, 4 in ledger); 3 differing rows are in dq_failures"
    )
    assert found[name, "a", None].message == "2 rows here, 2 in ledger: all the same"
    details = found[name, "b", None].details
    assert details["differences"] == {"missing": 1, "extra": 1, "changed": 1}
    stored = rows_of(project, "matches", "b")
    assert {k: v for k, v in stored[0].items() if k not in ("here", "there")} == {
        "difference": "changed",
        "columns": ["amount"],
        "order_id": 1,
    }
    assert stored[0]["here"]["amount"] == 5.0
    assert stored[0]["there"]["amount"] == 6.0
    assert {r["difference"] for r in stored} == {"missing", "extra", "changed"}
    assert project.metrics("differing_rows") == {("a", None): 0, ("b", None): 3, ("c", None): 1}
    # Both rows of the zip code with two cities; those without a zip code pass.
    assert {r["city"] for r in rows_of(project, "functional", "b")} == {"Neu-Ulm", "Ulm"}
    assert found["expect(sum(amount) = metric('ledger', 'sum(amount)'))", "a", None].message == (
        "sum(amount) is 30; metric('ledger', 'sum(amount)') is 30.005,"
        " expected sum(amount) = metric('ledger', 'sum(amount)')"
    )


ODD = """
select * from values
  (1, 'a', cast(1 as double), 'x', null), (2, null, 2, null, 'y'), (null, 'n', 3, 'x', 'y'),
  (4, 'd', cast('NaN' as double), 'x', 'y'), (5, 'e', 0.0, '', null), (6, 'f', 1e300, 'x', 'y'),
  (7, 'g', 7, 'p', 'p'), (7, 'g', 7, 'q', 'q'), (8, 'h', 8, 'r', 'r'), (8, 'h', 8, 'r', 'r')
  t(k, kk, v, s, u)
"""


# What is made of these rows, how it differs from them, and in which columns.
CHANGES: tuple[tuple[str, str | None, set[str]], ...] = (
    ("select * from o", None, set()),
    # A value that moves to the next column, and one that swaps with a null.
    ("select k, kk, v, if(k = 2, 'y', s) s, if(k = 2, null, u) u from o", "changed", {"s", "u"}),
    ("select k, kk, if(k = 4, 0, v) v, s, u from o", "changed", {"v"}),
    ("select k, kk, if(k = 5, -0.0, v) v, s, u from o", None, set()),
    ("select k, kk, if(k = 6, 2e300, v) v, s, u from o", "changed", {"v"}),
    ("select k, kk, v + 0.05 as v, s, u from o", None, set()),
    ("select k, kk, if(k = 1, v + 0.2, v) v, s, u from o", "changed", {"v"}),
    ("select k, kk, v, nullif(s, '') s, u from o", "changed", {"s"}),
    ("select k, if(k is null, 'm', kk) kk, v, s, u from o", "missing", set()),
    # Of two rows with one key, one is another; two equal rows of it instead of one.
    ("select k, kk, v, if(s = 'q', 'p', s) s, u from o", "changed", {"s"}),
    ("select * from o union all select * from o where k = 1", "missing", set()),
    ("select distinct * from o", "extra", set()),
    ("select * from o where k <> 1 or k is null", "extra", set()),
)


def test_odd_values(project: Project, table: Table) -> None:
    """With a tolerance of 0.1; `here` is the original. Each change is a batch of its own."""
    table("o", ODD)
    originals, changes = [], []
    for number, (change, _, _) in enumerate(CHANGES):
        originals.append(f"select {number} as c, * from o")
        changes.append(f"select {number} as c, * from ({change})")
    table("original", " union all ".join(originals))
    table("changed", " union all ".join(changes))
    project.write(
        "m",
        "{{ config(batch_by='c') }}\n"
        "-- @matches_relation(changed, keys => (k, kk), tolerance => 0.1)\n"
        "select * from original",
    )
    results = {r.batch: r for r in project.run().results}
    assert len(results) == len(CHANGES)
    for number, (change, difference, columns) in enumerate(CHANGES):
        found = results[str(number)]
        wanted = Status.PASS if difference is None else Status.FAIL
        assert found.status is wanted, (change, found.message)
        if difference is not None:
            assert found.details["differences"][difference], change
            assert set(found.details["changed"]) == columns, change


NESTED = (
    # Ours, theirs, whether they are the same.
    ("array(0.0D)", "array(-0.0D)", True),
    ("array(1, 2)", "array(1, 2, null)", False),
    ("array(null, 1)", "array(1, null)", False),
    ("cast(array() as array<int>)", "array(cast(null as int))", False),
    ("named_struct('x', null, 'y', 5)", "named_struct('x', 5, 'y', null)", False),
    ("array('null', null)", "array(null, 'null')", False),
    ("array(timestamp'2024-01-01 00:00:00.000001')", "array(timestamp'2024-01-01')", False),
    (
        "named_struct('x', null, 'y', array(null))",
        "named_struct('x', null, 'y', array(null))",
        True,
    ),
)


def test_nulls_within_values(project: Project, table: Table) -> None:
    """A batch for each pair, so that nothing but the pair can differ in it."""
    numbers = range(len(NESTED))
    for name, side in (("o", 0), ("c", 1)):
        values = ", ".join(f"if(n = {i}, {NESTED[i][side]}, null) as v{i}" for i in numbers)
        # Batches of one row, and batches in which the key occurs twice.
        times = "explode(if(c < 100, array(1), array(1, 1))) as k"
        cases = f"select id + h as c, id as n from range({len(NESTED)}) lateral view"
        cases += " explode(array(0, 100)) as h"
        table(name, f"select c, {times}, {values} from ({cases})")
    check = "-- @matches_relation(c, keys => k)\n"
    project.write("m", f"{{{{ config(batch_by='c') }}}}\n{check}select * from o")
    found = {r.batch: (r.status, set(r.details["changed"])) for r in project.run().results}
    assert len(found) == 2 * len(NESTED)
    for number, (ours, theirs, same) in enumerate(NESTED):
        wanted = (Status.PASS, set()) if same else (Status.FAIL, {f"v{number}"})
        assert found[str(number)] == wanted, (ours, theirs)
        assert found[str(100 + number)] == wanted, (ours, theirs)


AMOUNTS = (
    # Type, ours, theirs, whether they are a cent apart at most.
    ("decimal(18,2)", "3.01", "3.02", True),
    ("decimal(18,2)", "1.10", "1.12", False),
    ("decimal(38,10)", "100000000000000000.25", "100000000000000003.25", False),
    ("decimal(38,10)", "99999999999999999999.99", "100000000000000000000", True),
    ("bigint", "9007199254740993", "9007199254740992", False),
    ("bigint", "-9223372036854775808", "9223372036854775807", False),
    ("tinyint", "-128", "0", False),
    ("double", "3.01", "3.02", True),
    ("double", "3.01", "3.0201", False),
    ("double", "1e300", "2e300", False),
    ("double", "'nan'", "5", False),
    ("double", "'inf'", "5", False),
    ("float", "3.01", "3.02", True),
    ("float", "3.01", "3.03", False),
)


def test_a_tolerance_of_a_cent(project: Project, table: Table) -> None:
    """A batch for each pair: its other columns have no values."""
    rows = f"select id % {len(AMOUNTS)} as c, id as k from range({50 * len(AMOUNTS)})"
    for name, side in (("ours", 1), ("theirs", 2)):
        columns = ", ".join(
            f"if(c = {i}, cast({amount[side]} as {amount[0]}), null) as a{i}"
            for i, amount in enumerate(AMOUNTS)
        )
        table(name, f"select *, {columns} from ({rows})")
    check = "-- @matches_relation(theirs, keys => k, tolerance => 0.01)\n"
    project.write("m", f"{{{{ config(batch_by='c') }}}}\n{check}select * from ours")
    found = {r.batch: r.details["changed"] for r in project.run().results}
    assert found == {
        str(i): {} if is_near else {f"a{i}": 50} for i, (*_, is_near) in enumerate(AMOUNTS)
    }


def test_as_pandas_finds_it(project: Project, table: Table) -> None:
    """Many rows with random differences: the counts are those of an outer join by pandas."""
    text = (
        "select id, cast(id * 7919 % 1000 as int) as v, concat('t', id % 13) as s from range(3000)"
    )
    table("here_t", f"select * from ({text}) where id % 97 <> 0")
    table(
        "there_t",
        "select id + if(id % 501 = 0, 10000, 0) as id, if(id % 89 = 0, v + 1, v) as v,"
        f" if(id % 211 = 0, null, s) as s from ({text})",
    )
    project.write("m", "-- @matches_relation(there_t, keys => id)\nselect * from here_t")
    (found,) = project.run().results
    here, there = (project.spark.table(t).toPandas() for t in ("here_t", "there_t"))
    both = here.merge(there, on="id", how="outer", suffixes=("_h", "_t"), indicator=True)
    matched = both[both["_merge"] == "both"]
    v = matched["v_h"] != matched["v_t"]
    s = (matched["s_h"] != matched["s_t"]) & ~(matched["s_h"].isna() & matched["s_t"].isna())
    assert found.details["differences"] == {
        "missing": int((both["_merge"] == "right_only").sum()),
        "extra": int((both["_merge"] == "left_only").sum()),
        "changed": int((v | s).sum()),
    }
    assert found.details["changed"] == {"v": int(v.sum()), "s": int(s.sum())}
    assert isinstance(here, pandas.DataFrame)


def test_limits_private_columns_and_what_cannot_be_compared(project: Project, table: Table) -> None:
    table("a_t", "select 1 as k, 'secret' as p, 2 as v, 9 as only_here")
    table("b_t", "select 1 as k, 'hidden' as p, 3 as v")
    table("none_t", "select 1 as k, 2 as v where false")
    project.write(
        "a",
        "{{ config(pii=['p']) }}\n"
        "-- @matches_relation(b_t, keys => k) {warn_if: '> 0', error_if: '> 1', name: few}\n"
        "-- @matches_relation(b_t, keys => k, columns => v, tolerance => 1) {name: near}\n"
        "-- @matches_relation(b_t, keys => only_here) {name: absent}\n"
        "-- @matches_relation(none_t, keys => k) {name: none, where: k > 1}\n"
        "-- @row_count > metric(b_t, 'count_if(v > 3)') {name: counted}\n"
        "-- @expect(mean(v) + 1 = metric(b_t, 'mean(v)')) {name: mean, where: v > 0}\n"
        "select * from a_t",
    )
    result = project.run(store_failures=True)
    found = statuses(result)
    assert {k: v.value for k, v in found.items()} == {
        "few": "warn",
        "near": "pass",
        "absent": "error",
        "none": "no_data",
        "counted": "pass",
        "mean": "pass",
    }
    text = str(project.rows("dq_failures")) + str(project.rows("dq_results"))
    assert "secret" not in text
    assert "hidden" not in text
    (row,) = rows_of(project, "few")
    assert (row["columns"], row["here"]) == (["p", "v"], {"v": 2})
    told = next(r for r in result.results if r.check_name == "absent").message
    assert "b_t has no column only_here, and the comparison needs it" in told


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@matches_relation(b)", "takes a relation and the keys"),
        ("@matches_relation(b, keys => z)", "the model m has no column 'z'"),
        ("@matches_relation(b, key => a)", "has no argument 'key'"),
        ("@matches_relation(b, keys => a + 1)", "keys takes names of columns"),
        ("@matches_relation(b, keys => a, tolerance => -1)", "the tolerance must be a number"),
        ("@matches_relation(b, keys => a) {mostly: 0.9}", "has no setting 'mostly'"),
        ("@matches_relation(b, keys => a) {error_if: some}", "must be a number of differing rows"),
        ("@matches_relation(b, keys => a) {warn_if: '> 3'}", "the warning would never appear"),
        ("@expect(max(a) = metric(other, 'max(who)'))", "who is a private column of other"),
        ("@expect(max(a) = metric(source('s', 'u'), 'max(who)'))", "who is a private column of u"),
        ("@expect(max(a) = metric(other))", "metric takes a relation and a metric of it"),
        ("@expect(max(a) = metric(other, 'entropy(x)'))", "does not count the values"),
        ("@expect(max(a) = metric(other, '1'))", "is not a metric"),
        ("@expect(max(a) = metric(other, 'maxx(x)'))", "unknown check, metric or function 'maxx'"),
    ],
)
def test_what_makes_no_sense(project: Project, annotation: str, message: str) -> None:
    project.write("m", f"-- {annotation}\nselect a from t")
    project.write("other", "{{ config(pii=['who']) }}\nselect who, x from {{ source('s', 'u') }}")
    declared = "sources: [{name: s, schema: default, tables: [{name: u}]}]"
    (project.root / "checks" / "sources.yml").write_text(declared, encoding="utf-8")
    errors: list[DqsqlError] = list(compile_project(project.root).errors)
    assert [message in str(e) for e in errors] == [True], errors
    assert errors[0].span is not None

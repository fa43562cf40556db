"""Cumulative metrics over frequency tables are those of the union of batches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql

from .conftest import SOURCES, NewProject, Row, assert_same

# Texts, whole numbers, dates, doubles, tuples of both kinds, trigrams in both forms, own metrics.
METRICS = (
    "uniqueness(name)",
    "distinctness(name)",
    "entropy(name)",
    "most_frequent_ratio(id)",
    "most_frequent_share(name)",
    "most_frequent_share(nothing)",
    "count_distinct(born)",
    "duplicate_count(id)",
    "histogram(name)",
    "entropy(weight)",
    "mutual_information(name, id)",
    "uniqueness(id, born)",
    "count_distinct(nothing)",
    "histogram(nothing)",
    "index_of_peculiarity(name)",
    "index_of_peculiarity(name, form => 'text')",
    "histogram_binned(weight, 0, 2, 4)",
    "frequency(sum(if(n < 2, n, 0)) / sum(n), name)",
    "frequency(count_if(n > 1) + sum(n + 1) - min(n), id)",
    "frequency(count(nullif(n, 2)) filter (where n > 1), id)",
    "frequency(max(n) filter (where value <> 'ann'), name) filter (where id > 2)",
)
SQL = """\
{{{{ config({config}) }}}}
select day, kind, name, id, born, weight, nothing from {{{{ source('raw', 't') }}}}
{checks}
"""
NAMES = ("ann", "Ann", "bob", None, "", "ann b", "zoë 🎈🎈", "^ab", "$", "=a=")


def model(config: str, scope: str) -> str:
    checks = (f"-- @expect(({m}) is not null or true) {{{{scope: {scope}}}}}" for m in METRICS)
    text = SQL.format(config=config, checks="\n".join(checks))
    return text.replace("{{scope", "{scope").replace(f"{scope}}}}}", f"{scope}}}")


def rows_of(number: int) -> list[Row]:
    return [
        {
            "day": dt.date(2024, 1, 30) + dt.timedelta(days=number),
            "kind": "ab"[i % 2] if number else "a",
            "name": NAMES[(i * (number + 2)) % (4 + 2 * number)],
            "id": (i * 7 + number) % 5,
            "born": dt.date(1970, 1, 1) + dt.timedelta(days=i - 3),
            "weight": (0.0, -0.0, float("nan"), 1.5, None)[(i + number) % 5],
            "nothing": None,
        }
        for i in range(8)
    ]


SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("id", pa.int32()),
        ("born", pa.date32()),
        ("weight", pa.float64()),
        ("nothing", pa.string()),
    ]
)


def put(root: Path, *numbers: int) -> list[str]:
    (root / "data").mkdir(exist_ok=True)
    for number in numbers:
        table = pa.Table.from_pylist(rows_of(number), SCHEMA)
        pq.write_table(table, root / "data" / f"{number}.parquet")
    return [str(rows_of(n)[0]["day"]) for n in numbers]


def values(rows: list[Row], batch: str | None = None) -> dict[tuple[Any, ...], Any]:
    found = {}
    for row in rows:
        if batch is None or row["batch"] == batch:
            key = (row["segment"] or "", row["column_name"], row["metric"], row["parameters"])
            found[key] = row["value_text"] if row["value"] is None else row["value"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("segmented", [False, True])
def test_values_of_a_union(new_project: NewProject, segmented: bool) -> None:
    config = "segment_by=['kind']" if segmented else ""
    cumulative = model(f"batch_by='day', {config}", "cumulative")
    grown = new_project("grown", cumulative)
    first = put(grown.root, 0)
    later = put(grown.root, 1, 2)
    for batches in (first, later):
        assert not grown.run(*batches).models[0].notes
    if segmented:
        filled = new_project("filled", cumulative)
        put(filled.root, 0, 1, 2)
        filled.run()
        assert_same(filled.tables(), grown.tables())

    union = new_project("union", model(config, "delta"))
    put(union.root, 0, 1, 2)
    union.run()
    wanted = values(union.rows("dq_metrics"))
    found = values(grown.rows("dq_metrics"), later[-1])
    assert len(found) >= len(METRICS) * (2 if segmented else 1)
    assert_same(found, {k: wanted[k] for k in found})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "why"),
    [
        ("entropy(name) > 0", "these values were not counted"),
        ("completeness(name) > 0", "these were not measured"),
        ("max(day) is not null", "these were not measured"),
    ],
)
def test_a_check_that_is_new_says_what_it_leaves_out(
    new_project: NewProject, check: str, why: str
) -> None:
    head = "{{ config(batch_by='day') }}\nselect day, name from {{ source('raw', 't') }}\n"
    project = new_project("grown", f"{head}-- @row_count > 0\n")
    days = put(project.root, 0, 1, 2)
    project.run(days[0])
    added = f"-- @{check} {{scope: cumulative}}\n"
    (project.root / "checks/m.sql").write_text(head + added)
    (note,) = project.run(days[1]).models[0].notes
    assert f"leave out 1 earlier batch, in which {why}" in note
    assert project.run(days[2]).models[0].notes == ()


def test_a_value_that_cannot_be_counted_is_an_error_of_its_check(
    make_project: Any, spark: Any
) -> None:
    sql = (
        "{{ config(batch_by='day') }}\nselect day, name from {{ source('raw', 't') }}\n"
        "-- @entropy(raise_error(name)) > 0 {scope: cumulative}\n"
        "-- @entropy(name) > 0 {scope: cumulative}\n"
    )
    root = make_project({"checks/sources.yml": SOURCES, "checks/m.sql": sql})
    put(root, 0)
    results = dqsql.run(root, spark=spark).models[0].results
    assert [r.status.value for r in results] == ["pass", "error"]


def test_private_values_are_not_stored(new_project: NewProject) -> None:
    head = "{{ config(batch_by='day', pii=['name']) }}\nselect day, name, id from"
    head += " {{ source('raw', 't') }}\n"
    checks = "-- @count_distinct(name) > 0 {scope: cumulative}\n"
    checks += "-- @count_distinct(name, id) > 0 {scope: cumulative}\n"
    checks += "-- @max(name) <> 'zzz' @histogram(name) > 0\n"
    checks += "-- @data_type(name) = 'string' @max(id) < 9\n"
    project = new_project("private", head + checks + "-- @entropy(id) > 0 {scope: cumulative}\n")
    put(project.root, 0, 1)
    project.run()
    rows = [r for r in project.rows("dq_frequency__m") if r["value"] is not None]
    assert {len(r["value"]) for r in rows if "name" in r["counted"]} == {64}
    assert {r["value"] for r in rows if "name" not in r["counted"]} == set("01234")
    distinct = {
        metric: {row["name"] for n in numbers for row in rows_of(n) if row["name"] is not None}
        for metric, numbers in (("2024-01-30", (0,)), ("2024-01-31", (0, 1)))
    }
    texts = {r["metric"]: r["value_text"] for r in project.rows("dq_metrics")}
    assert (texts["histogram"], texts["data_type"]) == ("(private)", "string")
    told = [r["message"] for r in project.rows("dq_results") if "max(name)" in r["check_name"]]
    assert set(told) == {"max(name) is (private)"}
    assert not [r for r in project.rows("dq_results") if "zoë" in str(r)]
    found = project.cumulative()
    for batch, names in distinct.items():
        assert found[batch, None, "count_distinct(name)"] == len(names)


def test_trigrams_of_private_values_are_refused(make_project: Any) -> None:
    sql = (
        "{{ config(batch_by='day', pii=['name']) }}\nselect day, name from {{ source('raw', 't') }}"
        "\n-- @index_of_peculiarity(name) < 9 {scope: cumulative}\n"
    )
    root = make_project({"checks/sources.yml": SOURCES, "checks/m.sql": sql})
    (error,) = dqsql.compile_project(root).errors
    assert "private" in error.message

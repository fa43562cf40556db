"""Who reads what a finding is about: along dbt's graph, by columns where the SQL tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dqsql.compiler.impact import Impacts, flow_of, relation_key, with_impact
from dqsql.loading import load_project
from dqsql.model.project import CheckModel, ModelConfig, Reader

ORDERS = ("db", "orders")
COLUMNS = ("id", "amount", "note", "day")
IMPORTED = """
with o as (select * from db.orders), c as (select * from db.customers)
select o.id, o.amount * 2 as doubled, c.name, 1 as one
from o join c on c.id = o.id
"""


def leaves(sql: str, column: str) -> set[str]:
    flow = flow_of(sql, {ORDERS: COLUMNS})
    assert flow is not None
    return {".".join((*key, name)) for key, name in flow.columns[column]}


def rows(sql: str) -> set[str]:
    flow = flow_of(sql, {ORDERS: COLUMNS})
    assert flow is not None
    return {".".join((*key, name)) for key, name in flow.rows}


def test_columns_are_followed_through_ctes_and_stars() -> None:
    assert leaves(IMPORTED, "doubled") == {"db.orders.amount"}
    # The columns of customers are not known: a star lets all of them pass.
    assert leaves(IMPORTED, "name") == {"db.customers.name"}
    assert leaves(IMPORTED, "one") == set()
    assert rows(IMPORTED) == {"db.orders.id", "db.customers.id"}


@pytest.mark.parametrize(
    ("sql", "column", "wanted"),
    [
        ("select id as x from db.orders union all select day from db.orders", "x", "id day"),
        ("select sum(amount) over (partition by day) as s from db.orders", "s", "amount day"),
        ("select (select max(note) from db.orders) as n, id from db.orders", "id", "id"),
        ("select * except (note) from db.orders", "id", "id"),
        ("select t.* from (select id, upper(note) as up from db.orders) t", "up", "note"),
    ],
)
def test_where_a_column_comes_from(sql: str, column: str, wanted: str) -> None:
    assert leaves(sql, column) == {f"db.orders.{name}" for name in wanted.split()}


def test_filters_groups_and_subqueries_decide_on_rows() -> None:
    sql = "select id from db.orders where day > '2024' and id in (select amount from db.orders)"
    assert rows(sql) == {"db.orders.day", "db.orders.id", "db.orders.amount"}
    assert rows("select day, count(*) from db.orders group by day") == {"db.orders.day"}
    assert flow_of("no sql at all (", {}) is None
    assert relation_key("`Db`.`Orders`") == ORDERS


def reader(name: str, sql: str | None, *parents: str, kind: str = "model") -> Reader:
    relation = None if kind == "exposure" or name.startswith("eph") else f"`db`.`{name}`"
    return Reader(name, name, kind, parents, relation, sql)


READERS = (
    reader("orders", "select 1 as id", kind="model"),
    reader("ids", "select id from db.orders", "orders"),
    reader("money", "with o as (select * from db.orders) select id, amount from o", "orders"),
    reader("monthly", "select sum(amount) as total, 1 as k from db.money", "money"),
    reader("keys", "select k from db.monthly", "monthly"),
    reader("recent", "select id from db.orders where amount > 0", "orders"),
    reader("python", None, "keys"),
    reader("board", None, "monthly", "ids", kind="exposure"),
    reader("other", None, "keys", kind="exposure"),
)


def of(column: str | None) -> list[str]:
    model = CheckModel(
        "orders", "o.sql", "", "", ModelConfig(extra={"dbt": {"unique_id": "orders"}}), (), (), ()
    )
    return [r.name for r in Impacts(READERS).of(model, column, COLUMNS).readers]


def test_a_finding_reaches_what_reads_its_column() -> None:
    assert of("amount") == ["money", "monthly", "recent", "board"]
    assert of("note") == []
    assert "ids" in of("id")
    assert "monthly" not in of("id")
    # Of the model as a whole, all that is downstream.
    assert of(None) == [r.name for r in READERS[1:]]


def test_the_words_and_the_row_of_the_finding() -> None:
    model = CheckModel(
        "orders", "o.sql", "", "", ModelConfig(extra={"dbt": {"unique_id": "orders"}}), (), (), ()
    )
    base: dict[str, Any] = {"state": "open", "impact": None, "readers": None}
    found = with_impact(
        [
            {**base, "column_name": "amount"},
            {**base, "column_name": "note"},
            {**base, "column_name": None, "state": "resolved"},
        ],
        model,
        READERS,
        dict.fromkeys(COLUMNS, "string"),
    )
    assert found[0]["impact"] == (
        "3 models and 1 exposure read this column: money, monthly, recent, board"
    )
    assert (found[1]["impact"], found[1]["readers"]) == (None, [])
    assert found[2]["impact"] is None


def test_readers_of_a_manifest(shop: Path) -> None:
    file = shop / "target" / "manifest.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    data["exposures"] = {
        "exposure.shop.board": {
            "unique_id": "exposure.shop.board",
            "name": "board",
            "label": "The board's numbers",
            "depends_on": {"nodes": ["model.shop.customers"]},
        }
    }
    file.write_text(json.dumps(data), encoding="utf-8")
    project = load_project(shop)
    model = next(m for m in project.models if m.name == "stg_customers")
    impact = Impacts(project.readers).of(model, "name", ("customer_id", "name", "country"))
    assert impact.words is not None
    assert impact.words.startswith("1 model and 1 exposure read this column")
    assert [r.name for r in impact.readers] == ["customers", "The board's numbers"]

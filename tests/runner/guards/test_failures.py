"""Samples of failing rows: which, how many, replaced by re-runs, without private columns."""

from __future__ import annotations

import json

from tests.tables import table_rows

from .conftest import MakeShop, Values

MODEL = """\
{{ config(batch_by = 'to_date(at)', pii = ['EMAIL']) }}
select
    id,     -- @unique
    at,
    price,  -- @not_null @positive {severity: warn}
    email,  -- @matches('@') {severity: warn, store_failures: false}
    shop    -- @accepted_values('a', 'b') {where: "price > 5", pii: true}
from {{ source('shop', 'orders') }}
-- @completeness(price) >= 0.5 {name: enough prices}
-- @row_count >= 1000
"""
ROWS: Values = [
    (1, "2024-01-01 10:00:00", None, "x@y", "a"),
    (1, "2024-01-01 11:00:00", -1.0, "x@y", "z"),
    (2, "2024-01-01 12:00:00", 9.0, "nobody", "z"),
    (None, "2024-01-01 13:00:00", 9.0, "x@y", "a"),  # type: ignore[list-item]
    (None, "2024-01-01 14:00:00", 9.0, "x@y", "b"),  # type: ignore[list-item]
    (1, "2024-01-02 10:00:00", 9.0, "x@y", "a"),
    (2, "2024-01-02 10:00:00", None, "x@y", "a"),
    (3, "2024-01-03 10:00:00", 1.0, "x@y", "a"),
]


def test_failing_rows_are_sampled_and_replaced(make_shop: MakeShop) -> None:
    shop = make_shop(MODEL, ROWS)
    result = shop.run(store_failures=True)
    assert result.error is None
    found = shop.failures()
    ids = {key: [r["id"] for r in rows] for key, rows in found.items()}
    assert ids == {
        ("2024-01-01", "id.unique"): [1, 1],
        ("2024-01-01", "price.not_null"): [1],
        ("2024-01-01", "price.positive"): [1],
        ("2024-01-01", "shop.accepted_values_a_b_where_price_gt_5"): [2],
        ("2024-01-02", "price.not_null"): [2],
    }
    # Nulls are written, private columns are not.
    assert found[("2024-01-02", "price.not_null")] == [
        {"id": 2, "at": "2024-01-02T10:00:00.000Z", "price": None}
    ]
    messages = {(r.batch, r.check_id): r.message for r in result.results}
    assert messages[("2024-01-01", "orders.id.unique")].endswith(
        "; 2 failing rows are in dq_failures"
    )
    assert "dq_failures" not in messages[("2024-01-03", "orders.id.unique")]
    assert "dq_failures" not in messages[("2024-01-01", "orders.row_count_ge_1000")]
    # Discovery, the scan of counts, the one of frequencies, and the sample.
    assert result.scans == 4

    late = "2024-01-02 11:00:00"
    shop.add([(7, late, None, "x@y", "a"), (8, late, 9.0, "x@y", "a")])
    shop.run(store_failures=True, batches=["2024-01-02"])
    again = shop.failures()
    assert [r["id"] for r in again.pop(("2024-01-02", "price.not_null"))] == [2, 7]
    assert set(again) == {k for k in found if k[0] == "2024-01-01"}

    # A run that keeps no samples leaves none that would be out of date.
    shop.run(batches=["2024-01-01", "2024-01-02"])
    assert shop.failures() == {}


def test_settings_choose_the_checks_and_the_number(make_shop: MakeShop) -> None:
    sql = """\
    {{ config(store_failures = false) }}
    select id,
    price, -- @positive {store_failures: true} @not_null
    email, batch_ as `batch`, row_ as `row`
    from (select *, 'b' as batch_, 'r' as row_ from {{ source('shop', 'orders') }})
    """
    rows: Values = [(i, "2024-01-01 10:00:00", -1.0, "e", "s") for i in range(20)]
    rows.append((99, "2024-01-01 10:00:00", None, "e", "s"))
    shop = make_shop(sql, rows, "failures_limit: 7\nstore_failures: true")
    result = shop.run()
    assert result.error is None and result.notes == ()
    (sampled,) = shop.failures().values()
    assert len(sampled) == 7
    assert {(r["batch"], r["row"]) for r in sampled} == {("b", "r")}


def test_all_failing_rows_are_kept_by_spark(make_shop: MakeShop) -> None:
    sql = """\
    {{ config(batch_by = 'to_date(at)', failures_limit = 'all', pii = ['email']) }}
    select id, at, email,
    price -- @positive @not_null
    from {{ source('shop', 'orders') }}
    """
    rows: Values = [(i, "2024-01-01 10:00:00", -1.0, "e", "s") for i in range(250)]
    rows += [(i, "2024-01-02 10:00:00", 1.0, "e", "s") for i in range(5)]
    shop = make_shop(sql, rows, "store_failures: true")
    result = shop.run()
    (failed,) = (r for r in result.results if r.status == "fail")
    assert failed.message.endswith("; 250 failing rows are in dq_failures__orders")
    name, warehouse = "dq_failures__orders", shop.root / "warehouse" / "dq"
    every = table_rows(warehouse, name)
    assert {json.loads(r["row"])["id"] for r in every} == set(range(250))
    assert {(r["batch"], r["check_id"]) for r in every} == {("2024-01-01", "orders.price.positive")}
    assert "email" not in json.loads(every[0]["row"])
    # A sample of them is where samples are.
    assert [len(found) for found in shop.failures().values()] == [100]
    shop.add([(1, "2024-01-02 10:00:00", None, "e", "s")])
    shop.run(batches=["2024-01-02"])
    assert len(table_rows(warehouse, name)) == 251
    # Whoever takes back the word leaves no rows that are out of date.
    (file,) = (shop.root / "checks").glob("*.sql")
    file.write_text(file.read_text().replace("'all'", "7"))
    shop.run(batches=["2024-01-01"])
    assert {r["batch"] for r in table_rows(warehouse, name)} == {"2024-01-02"}


def test_a_sample_that_cannot_be_taken_is_a_note(make_shop: MakeShop) -> None:
    sql = """\
    select id,
    price, -- @positive
    raise_error('no') as odd
    from {{ source('shop', 'orders') }}
    """
    rows: Values = [(1, "2024-01-01 10:00:00", -1.0, "e", "s")]
    shop = make_shop(sql, rows, "store_failures: true")
    result = shop.run()
    assert result.error is None
    assert [r.status for r in result.results] == ["fail"]
    assert any("cannot sample failing rows of orders" in note for note in result.notes)

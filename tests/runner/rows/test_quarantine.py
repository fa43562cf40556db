"""Rows are split into good and quarantined ones: which, why, once, also after a run that died."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import ConfigError
from dqsql.model.table import Table
from dqsql.model.tables import BATCHES

from .conftest import MakeShop, Shop

MODEL = """\
{{ config(batch_by = 'day', pii = ['email']) }}
select
    id,     -- @unique @not_null {quarantine: false}
    day,
    price,  -- @in_range(0, 100) @completeness >= 0.6
    email,  -- @matches('@')
    shop    -- @references(source('shop', 'shops'), shop)
from {{ source('shop', 'orders') }}
-- @satisfies_if(shop = 'a', price < 50) {severity: warn}
-- @satisfies(price is not null) {mostly: 0.55, warn: ">= 0.9", name: some_prices}
-- @compliance(not (id <=> 7)) = 1 {severity: warn, quarantine: true, name: no_sevens}
-- @row_count >= 1000 {severity: warn}
"""
ONE, TWO = "2024-01-01", "2024-01-02"
ROWS = [
    (1, ONE, 9.0, "x@y", "a"),
    (1, ONE, 9.0, "x@y", "b"),
    (2, ONE, -1.0, "nobody", "a"),
    (3, ONE, None, "x@y", "a"),
    (4, ONE, 60.0, "x@y", "a"),
    (5, ONE, 9.0, "x@y", "gone"),
    (6, ONE, 999.0, "x@y", "a"),
    (None, ONE, 9.0, "x@y", "a"),
    (7, ONE, 9.0, "x@y", "b"),
    # Not even 60 % of this day's prices are there.
    (1, TWO, None, "x@y", "a"),
    (2, TWO, None, "x@y", "a"),
    (3, TWO, 1.0, "x@y", "a"),
]
GOOD = [(ONE, 0), (ONE, 3), (ONE, 4), (TWO, 3)]
SATISFIES = "satisfies_if_shop_eq_a_price_lt_50"
BAD = [
    (ONE, 1, ["id.unique"]),
    (ONE, 1, ["id.unique"]),
    (ONE, 2, ["email.matches", "price.in_range_0_100"]),
    (ONE, 5, ["shop.references_source_shop_shops_shop"]),
    (ONE, 6, ["price.in_range_0_100", SATISFIES]),
    (ONE, 7, ["no_sevens"]),
    (TWO, 1, ["price.completeness_ge_0_6", SATISFIES, "some_prices"]),
    (TWO, 2, ["price.completeness_ge_0_6", SATISFIES, "some_prices"]),
]


def test_rows_are_split_once_with_reasons(make_shop: MakeShop) -> None:
    shop = make_shop(MODEL, ROWS)
    shop.shops("a", "b", "c")
    model = shop.run(quarantine=True)
    assert (shop.good(), shop.bad()) == (GOOD, BAD)
    assert "8 of 12 rows are quarantined in dq_rows.orders_quarantined" in model.notes
    ledger = {r["batch"]: r["quarantined"] for r in shop.table("dq_batches", "dq")}
    assert ledger == {ONE: 6, TWO: 2}
    # Whole rows, but for private values: equal ones stay equal, none can be read.
    (row,) = (r for r in shop.table("orders_quarantined") if r["id"] == 5)
    assert (row["day"], row["price"], row["shop"]) == (ONE, 9.0, "gone")
    others = {r["email"] for r in shop.table("orders_good")}
    assert others == {row["email"]} and len(row["email"]) == 64
    assert set(shop.table("orders_good")[0]) == {
        *("id", "day", "price", "email", "shop", "dqsql_batch")
    }

    # A batch that is checked again replaces its part, others stay.
    shop.add([r for r in ROWS if r[0] != 1], replace=True)
    shop.run(quarantine=True, batches=[ONE])
    assert shop.good() == GOOD
    assert shop.bad() == [row for row in BAD if row[:2] != (ONE, 1)]
    # Of a batch without rows, no row is left.
    shop.add([r for r in ROWS if r[1] == ONE], replace=True)
    shop.run(quarantine=True, batches=[TWO])
    assert {batch for batch, *_ in (*shop.good(), *shop.bad())} == {ONE}
    # Without a word nothing is split, and the ledger says so.
    model = shop.run(batches=[ONE])
    assert [n for n in model.notes if "quarantine" in n] == [
        f"the good and quarantined rows of {ONE} of orders are those of an earlier run: check with"
        " --quarantine, or set `quarantine` in the model, to replace them"
    ]
    assert {r["batch"]: r["quarantined"] for r in shop.table("dq_batches", "dq")}[ONE] is None


def test_runs_in_two_threads_split_rows_once(make_shop: MakeShop) -> None:
    shop = make_shop(MODEL, ROWS)
    shop.shops("a", "b", "c")
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(shop.run, quarantine=True) for _ in range(2)]
        # Who comes second finds that nothing is new.
        assert sorted(len(run.result().batches) for run in runs) == [0, 2]
    assert (shop.good(), shop.bad()) == (GOOD, BAD)


@pytest.mark.parametrize(
    "check", ["@row_count > 0", "@unique(id) {severity: warn}", "@anomaly(row_count)"]
)
def test_without_a_check_that_routes_all_rows_are_good(make_shop: MakeShop, check: str) -> None:
    sql = "{{ config(batch_by = 'day') }}\nselect * from {{ source('shop', 'orders') }}\n-- "
    shop = make_shop(f"{sql}{check}\n", ROWS[:2])
    model = shop.run(quarantine=True)
    assert (shop.good(), shop.bad()) == ([(ONE, 1), (ONE, 1)], [])
    assert "0 of 2 rows are quarantined in dq_rows.orders_quarantined" in model.notes
    assert [r["quarantined"] for r in shop.table("dq_batches", "dq")] == [0]


SETTINGS = """\
quarantine:
  warehouse: rows
  schema: shop
  good: "{model}"
  quarantined: "{model}_bad"
  private: keep
"""


def test_a_model_without_batches_keeps_the_rows_of_its_last_run(make_shop: MakeShop) -> None:
    sql = """\
    {{ config(pii = ['email']) }}
    select *, null as nothing, interval '1' day as wait from {{ source('shop', 'orders') }}
    -- @positive(price) @matches(email, '@')
    """
    shop = make_shop(sql, ROWS[:3], SETTINGS)
    shop.warehouse = shop.root / "rows"
    for _ in range(2):
        shop.run()
        assert sorted(r["id"] for r in shop.table("orders", "shop")) == [1, 1]
        (row,) = shop.table("orders_bad", "shop")
        assert (row["id"], row["email"], row["nothing"]) == (2, "nobody", None)
    # The command line has the last word, a column that is new is added.
    shop.run(quarantine=False)
    file = shop.root / "checks" / "orders.sql"
    file.write_text(file.read_text().replace("select *", "select *, 1 as one"))
    shop.run()
    assert {r["one"] for r in shop.table("orders", "shop")} == {1}
    file.write_text(file.read_text().replace("1 as one", "'x' as one"))
    (model,) = shop.result().models
    assert "the column one has another type" in str(model.error)


@pytest.mark.parametrize(
    ("sql", "settings", "message"),
    [
        ("select 1 as dqsql_batch -- @not_null\n", "quarantine: true", "a column dqsql_batch"),
        ("select 1 as x -- @not_null\n", "quarantine: {good: rows, quarantined: rows}", "the same"),
        ("select 1 as x -- @not_null\n", "quarantine: {good: ../x}", "is not a table name"),
        ("select 1 as x -- @not_null\n", "quarantine: {private: none}", "cannot be 'none'"),
        ("select 1 as x -- @not_null\n", "quarantine: {pii: hash}", "no part 'pii'"),
    ],
)
def test_what_cannot_be_split_is_told(
    make_shop: MakeShop, sql: str, settings: str, message: str
) -> None:
    shop = make_shop(sql, ROWS[:1], settings)
    try:
        (model,) = shop.result().models
        told = str(model.error)
    except ConfigError as error:
        told = str(error)
    assert message in told


class Killed(BaseException):
    """The process dies; no handler of errors may swallow it."""


def _dying(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Let write number `at` of rows, or of the ledger, never happen; the names of those begun."""
    begun: list[str] = []
    rows, partition = DeltaFolderStore.replace_rows, DeltaFolderStore.replace_partition

    def begin(name: str) -> None:
        begun.append(name)
        if len(begun) > at:
            raise Killed(name)

    def replace_rows(self: DeltaFolderStore, name: str, *args: Any) -> None:
        begin(name)
        rows(self, name, *args)

    def replace_partition(self: DeltaFolderStore, table: Table, given: Any) -> None:
        if table is BATCHES:
            begin(table.name)
        partition(self, table, given)

    monkeypatch.setattr(DeltaFolderStore, "replace_rows", replace_rows)
    monkeypatch.setattr(DeltaFolderStore, "replace_partition", replace_partition)
    return begun


def _state(shop: Shop) -> tuple[Any, ...]:
    return shop.good(), shop.bad(), sorted(r["batch"] for r in shop.table("dq_batches", "dq"))


PRICES = """\
{{ config(batch_by = 'day') }}
select
    id,
    day,
    price -- @in_range(0, 100) @completeness >= 0.6
from {{ source('shop', 'orders') }}
"""


def test_a_run_that_died_between_writes_is_healed_by_the_next(make_shop: MakeShop) -> None:
    shop = make_shop(PRICES, ROWS)
    late = (8, TWO, -5.0, "x@y", "a")
    for number, name in enumerate(("orders_quarantined", "orders_good", "dq_batches")):
        with pytest.MonkeyPatch.context() as patch:
            begun = _dying(patch, number)
            with pytest.raises(Killed):
                shop.run(quarantine=True)
        assert begun[-1] == name
        assert shop.table("dq_batches", "dq") == []
    # New rows come between death and healing.
    shop.add([late])
    shop.run(quarantine=True)
    out_of_range, incomplete = "price.in_range_0_100", "price.completeness_ge_0_6"
    routed = [
        *((ONE, 2, [out_of_range]), (ONE, 6, [out_of_range])),
        # Two of four prices are there: still too few.
        *((TWO, 1, [incomplete]), (TWO, 2, [incomplete]), (TWO, 8, [out_of_range])),
    ]
    good = [*((ONE, number) for number in (0, 1, 1, 3, 4, 5, 7)), (TWO, 3)]
    assert _state(shop) == (good, routed, [ONE, TWO])
    # A batch that is checked again dies, too: reopened, first half, second half, ledger.
    for number in range(4):
        with pytest.MonkeyPatch.context() as patch:
            _dying(patch, number)
            with pytest.raises(Killed):
                shop.run(quarantine=True, batches=[TWO])
        shop.run(quarantine=True)
        assert _state(shop) == (good, routed, [ONE, TWO])

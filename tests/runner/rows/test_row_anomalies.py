"""`@row_anomalies` in runs: verdicts, reasons, rows that are kept, whatever the way to score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dqsql
from dqsql.model.results import Result
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: shop
    tables:
      - {name: orders, path: data, format: parquet}
"""
MODEL = """\
{{ config(batch_by = 'day', pii = ['email']) }}
select
    day,
    id,
    at,
    email,
    price,
    quantity,
    total,
    country -- @not_null
from {{ source('shop', 'orders') }}
-- @row_anomalies {severity: warn, store_failures: true}
-- @row_anomalies(price, quantity, total) {sample_size: 150, name: in_spark, severity: warn}
-- @row_anomalies(country) {name: others, where: "quantity > 2", severity: warn}
"""
DAYS, ROWS, ODD = 7, 300, 12
LAST = f"2024-01-{DAYS:02d}"


def write_orders(root: Path) -> None:
    """Days of orders; in twelve of the last day the decimal point of the total slipped."""
    (root / "data").mkdir()
    for day in range(1, DAYS + 1):
        random = np.random.default_rng(day)
        price, quantity = random.lognormal(3, 0.5, ROWS), random.poisson(3, ROWS) + 1.0
        total = price * quantity
        if day == DAYS:
            total[:ODD] *= 100
        orders = {
            "day": [f"2024-01-{day:02d}"] * ROWS,
            "id": np.arange(ROWS) + ROWS * day,
            "at": [f"2024-01-{day:02d}"] * ROWS,
            "email": [f"{i}@x" for i in range(ROWS)],
            "price": price,
            "quantity": quantity,
            "total": total,
            "country": random.choice(["DE", "FR", "IT"], ROWS).tolist(),
        }
        pq.write_table(pa.table(orders), root / "data" / f"{day}.parquet")


def test_odd_rows_are_told_with_their_columns(
    make_project: Callable[..., Path], spark: SparkSession
) -> None:
    root = make_project({"checks/orders.sql": MODEL, "checks/sources.yml": SOURCES})
    write_orders(root)
    run = dqsql.run(root, spark=spark)
    run.raise_for_status()
    verdicts: dict[tuple[str, str], Result] = {
        (r.batch or "", r.check_name): r for r in run.results if r.detector == "row_anomalies"
    }
    first, second = "row_anomalies", "in_spark"
    assert verdicts[("2024-01-05", first)].message == "still learning: 4 of 5 accepted batches"
    for day in range(6, DAYS):
        for name in (first, second, "others"):
            assert verdicts[(f"2024-01-{day:02d}", name)].status == "pass", (day, name)
    for name in (first, second):
        odd = verdicts[(LAST, name)]
        assert odd.status == "warn"
        assert f"{ODD} of {ROWS} rows (4.00%) are unlike the rows before, mostly by total" in (
            odd.message
        )
        assert odd.observed == ODD / ROWS
        assert odd.upper is not None and odd.upper < odd.observed
    assert verdicts[(LAST, "others")].status == "pass"
    details = verdicts[(LAST, first)].details
    # Ids grow from batch to batch; what names batches, and what is private, takes no part.
    assert details["left_out"] == {
        "id": "its values keep moving from batch to batch",
        "at": "its values change from batch to batch",
    }

    warehouse = root / "warehouse" / "dq"
    kept = table_rows(warehouse, "dq_failures")
    assert {(r["batch"], r["check_id"]) for r in kept} == {(LAST, "orders.row_anomalies")}
    rows = [json.loads(r["row"]) for r in kept]
    assert {r["id"] for r in rows} == set(range(ROWS * DAYS, ROWS * DAYS + ODD))
    assert "email" not in rows[0]
    for row, stored in zip(rows, kept, strict=True):
        reason = json.loads(stored["reasons"])[0]
        assert reason["column"] == "total" and reason["value"] == row["total"]
        assert stored["score"] > 0
    shares = {
        r["batch"]: r["value"]
        for r in table_rows(warehouse, "dq_metrics")
        if r["metric"] == "row_anomaly_share" and r["parameters"] is None
    }
    assert shares[LAST] == ODD / ROWS

    told = dqsql.explain("orders.row_anomalies", project_dir=root, batch=LAST, spark=spark)
    assert json.loads(told.failures[0])["odd by"].startswith("total ")
    assert len(told.failures) == ODD and told.same

    # Day by day it is the same.
    wanted = {key: _comparable(r) for key, r in verdicts.items()}
    again = dqsql.run(root, spark=spark, batches=[LAST])
    found = {
        (r.batch or "", r.check_name): _comparable(r)
        for r in again.results
        if r.detector == "row_anomalies"
    }
    assert found == {key: wanted[key] for key in found} and len(found) == 3


SPLIT = """\
{{ config(batch_by = 'day', pii = ['email']) }}
select
    *,
    map('a', price) as `a map`,
    case when id = 2105 then -1 else 1 end as sign -- @positive
from {{ source('shop', 'orders') }}
-- @row_anomalies(price, quantity, total, country) {name: odd}
-- @row_anomalies(total) {sample_size: 150, where: "id < 2103", severity: warn, name: some}
-- @row_anomalies(total, at) {name: left_out, quarantine: false}
"""
IDS = range(ROWS * DAYS, ROWS * DAYS + ODD)


def test_odd_rows_go_to_quarantine_with_their_reasons(
    make_project: Callable[..., Path], spark: SparkSession
) -> None:
    root = make_project({"checks/orders.sql": SPLIT, "checks/sources.yml": SOURCES})
    write_orders(root)
    for batches in ((), (LAST,)):
        (model,) = dqsql.run(root, spark=spark, quarantine=True, batches=batches).models
        failed = {(r.check_name, r.status) for r in model.results if r.batch == LAST}
        assert failed >= {(n, "fail") for n in ("odd", "left_out", "positive")}
        assert ("some", "warn") in failed
        warehouse = root / "warehouse" / "dq_rows"
        bad = {r["id"]: r for r in table_rows(warehouse, "orders_quarantined")}
        good = [r["id"] for r in table_rows(warehouse, "orders_good")]
        # Twelve rows of the one batch that failed; of other batches none.
        assert set(bad) == set(IDS)
        assert sorted([*good, *bad]) == list(range(ROWS, ROWS * (DAYS + 1)))
        for id, row in bad.items():
            names = ["odd"] + ["sign.positive"] * (id == 2105) + ["some"] * (id < 2103)
            assert sorted(row["dqsql_failed_checks"]) == sorted(names)
            reasons = json.loads(row["dqsql_reasons"])
            assert set(reasons) == set(names) - {"sign.positive"}
            for found in reasons.values():
                assert (found[0]["column"], found[0]["value"]) == ("total", row["total"])
            assert len(row["email"]) == 64
        assert f"{ODD} of {ROWS * (1 if batches else DAYS):,} rows are quarantined" in (
            " ".join(model.notes)
        )
        functions = spark.sql("show user functions like 'dqsql_odd*'").count()
        assert functions == 0


def test_odd_rows_of_a_warning_are_good_rows(
    make_project: Callable[..., Path], spark: SparkSession
) -> None:
    sql = SPLIT.replace("{name: odd", "{severity: warn, name: odd")
    root = make_project({"checks/orders.sql": sql, "checks/sources.yml": SOURCES})
    write_orders(root)
    warehouse = root / "warehouse" / "dq_rows"
    dqsql.run(root, spark=spark, quarantine=True)
    (row,) = table_rows(warehouse, "orders_quarantined")
    assert row["id"] == 2105
    assert sorted(row["dqsql_failed_checks"]) == ["odd", "sign.positive"]
    assert set(json.loads(row["dqsql_reasons"])) == {"odd"}
    assert len(table_rows(warehouse, "orders_good")) == ROWS * DAYS - 1
    # Until somebody wants them put aside all the same.
    file = root / "checks" / "orders.sql"
    file.write_text(sql.replace("{severity: warn, n", "{severity: warn, quarantine: true, n"))
    dqsql.run(root, spark=spark, quarantine=True, batches=[LAST])
    assert {r["id"] for r in table_rows(warehouse, "orders_quarantined")} == set(IDS)
    # With whole batches, neither odd rows nor what is left out take good ones along.
    config = "config(quarantine = {'whole_batches': true}, "
    file.write_text(SPLIT.replace("config(", config))
    dqsql.run(root, spark=spark, batches=[LAST])
    assert {r["id"] for r in table_rows(warehouse, "orders_quarantined")} == set(IDS)


def _comparable(result: Result) -> tuple[Any, ...]:
    return (result.status, result.message, result.observed, result.upper)

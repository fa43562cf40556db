"""Micro-batches are batches: what they let pass, and what is left after a query died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql
from dqsql.errors import DqsqlError, UsageError
from dqsql.runner.upkeep import clean_tables
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
SOURCES = """\
sources:
  - name: shop
    schema: raw
    tables:
      - name: orders
      - name: shops
"""
MODEL = """\
{{ config(batch_by = 'day') }}
select
    id,
    day,
    price -- @in_range(0, 100)
from {{ source('shop', 'orders') }}
-- @row_count >= 2
"""
SCHEMA = "id bigint, day string, price double"
NOW = {"availableNow": True}


class Orders:
    """Files of orders, one a micro-batch, and a query that checks them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "arriving").mkdir()
        self.sent: list[int] = []

    def arrive(self, *prices: float) -> None:
        """A file with orders of these prices."""
        ids = range(len(self.sent), len(self.sent) + len(prices))
        table = pa.table({"id": [*ids], "day": ["d"] * len(prices), "price": [*prices]})
        # Spark takes files in the order of their times.
        number = len([*(self.root / "arriving").iterdir()])
        file = self.root / "arriving" / f"{number:05d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_700_000_000 + number,) * 2)
        self.sent += ids

    def start(self, spark: SparkSession, checkpoint: str = "checkpoint", **options: Any) -> None:
        """Check what is there, until the end or an error."""
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        stream = rows.parquet(str(self.root / "arriving"))
        where = {"checkpoint": str(self.root / checkpoint), "source": "shop.orders"}
        given = {**where, "trigger": NOW, **options}
        query = dqsql.stream(stream, "orders", self.root, **given)
        query.awaitTermination()

    def ids(self, table: str) -> list[int]:
        """The orders in a table of rows."""
        return sorted(r["id"] for r in table_rows(self.root / "warehouse" / "dq_rows", table))

    def ledger(self) -> dict[str, str]:
        """Status by batch."""
        rows = table_rows(self.root / "warehouse" / "dq", "dq_batches")
        return {r["batch"]: r["status"] for r in rows}


@pytest.fixture
def orders(make_project: Callable[..., Path]) -> Orders:
    files = {"checks/orders.sql": MODEL, "checks/sources.yml": SOURCES}
    return Orders(make_project(files))


def name(number: int) -> str:
    return f"{number:012d}"


def test_a_batch_that_fails_stops_the_stream_until_it_is_accepted(
    orders: Orders, spark: SparkSession
) -> None:
    passed: list[tuple[int, list[int]]] = []

    def then(rows: Any, number: int) -> None:
        passed.append((number, sorted(r.id for r in rows.collect())))

    orders.arrive(1.0, 2.0)
    orders.arrive(3.0, -4.0)
    orders.arrive(5.0, 6.0)
    for _ in range(2):
        with pytest.raises(Exception, match=r"000000000001 of orders is held back: 1 of 2 rows"):
            orders.start(spark, then=then)
        assert passed == [(0, [0, 1])]
        assert orders.ledger() == {name(0): "accepted", name(1): "flagged"}
    # Another checkpoint would begin with batch 0 again, and replace what is stored of it.
    with pytest.raises(Exception, match="was checked by another query"):
        orders.start(spark, "other")
    # Nor where `clean` has deleted the run that says so.
    assert any(c.table == "dq_runs" and c.rows for c in clean_tables(orders.root, older_than="0d"))
    with pytest.raises(Exception, match="was checked by another query"):
        orders.start(spark, "other")
    dqsql.review("orders", [name(1)], "accept", "a refund", project_dir=orders.root)
    orders.start(spark, then=then)
    assert passed == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
    assert set(orders.ledger().values()) == {"accepted"}
    # A stream of another name has batches of its own.
    orders.start(spark, "other", name="late", on_failure="warn")
    assert orders.ledger()[f"late-{name(1)}"] == "flagged"
    assert len(orders.ledger()) == 6


def test_a_batch_without_rows_goes_on_also_in_segments(orders: Orders, spark: SparkSession) -> None:
    model = MODEL.replace("batch_by = 'day'", "segment_by = ['day']").replace(">= 2", "<= 9")
    model += "-- @schema @row_anomalies\n"
    (orders.root / "checks" / "orders.sql").write_text(model, encoding="utf-8")
    passed: list[int] = []
    orders.arrive(1.0, 2.0)
    orders.arrive()
    orders.arrive(3.0, 4.0)
    for on_failure in ("stop", "quarantine", "warn"):
        passed.clear()
        orders.start(
            spark,
            on_failure,
            name=on_failure,
            on_failure=on_failure,
            then=lambda rows, number: passed.append(rows.count()),
        )
        assert passed == [2, 0, 2]
    assert set(orders.ledger().values()) == {"accepted"} and len(orders.ledger()) == 9


def test_bad_rows_and_bad_batches_are_quarantined(orders: Orders, spark: SparkSession) -> None:
    passed: list[int] = []

    def then(rows: Any, number: int) -> None:
        passed.extend(r.id for r in rows.collect())
        if number == 2 and passed.count(4) == 1:
            raise OSError("the sink is full")

    orders.arrive(1.0, 2.0)
    orders.arrive(3.0, -4.0)
    orders.arrive(5.0, 600.0)
    orders.arrive(7.0)
    with pytest.raises(Exception, match="the sink is full"):
        orders.start(spark, on_failure="quarantine", then=then)
    orders.start(spark, on_failure="quarantine", then=then)
    assert orders.ids("orders_good") == [0, 1, 2, 4]
    # The last batch is too small: no row of it is to blame.
    assert orders.ids("orders_quarantined") == [3, 5, 6]
    rows = table_rows(orders.root / "warehouse" / "dq_rows", "orders_quarantined")
    reasons = {r["id"]: r["dqsql_failed_checks"] for r in rows}
    assert reasons[6] == ["row_count_ge_2"] and reasons[3] == ["price.in_range_0_100"]
    # What is handed on is told twice where a batch is repeated; its number says so.
    assert Counter(passed) == {0: 1, 1: 1, 2: 1, 4: 2}


def test_what_cannot_be_streamed_is_told(orders: Orders, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="not a stream"):
        dqsql.stream(spark.range(1), "orders", orders.root, checkpoint="c")
    for options, message in (
        ({"on_failure": "drop"}, "on_failure is 'drop'"),
        ({"source": "shop.order"}, "there is no source shop.order"),
        ({"model": "order"}, "there is no check model order"),
    ):
        given = {"model": "orders", **options}
        with pytest.raises(UsageError, match=message):
            dqsql.stream_checker(project_dir=orders.root, checkpoint="c", **given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a stream"):
        dqsql.stream([1], "orders", orders.root, checkpoint="c")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{{ config(enabled = false) }}\n" + MODEL.split("\n", 1)[1], "no checks that are enabled"),
        ("select id\nfrom {{ source('shop', 'orders') }}\n", "no checks that are enabled"),
        ("select 1 as id -- @not_null\n", "itself reads no source"),
        ("select id -- @not_null\nfrom {{ source('shop', 'order') }}\n", "has no table 'order'"),
        (
            "select o.id -- @not_null\nfrom {{ source('shop', 'orders') }} o"
            " join {{ source('shop', 'shops') }} s on o.id = s.id\n",
            "reads several sources",
        ),
    ],
)
def test_models_that_no_stream_can_be_checked_by_are_told(
    orders: Orders, model: str, message: str
) -> None:
    (orders.root / "checks" / "orders.sql").write_text(model, encoding="utf-8")
    with pytest.raises(DqsqlError, match=message):
        dqsql.stream_checker("orders", orders.root, checkpoint="c")


@pytest.mark.parametrize("on_failure", ["stop", "quarantine", "warn"])
def test_what_cannot_be_checked_does_not_go_on(
    orders: Orders, spark: SparkSession, on_failure: str
) -> None:
    model = MODEL.replace("-- @row_count >= 2", "-- @expect(max(sqrt(array(price))) > 0)")
    (orders.root / "checks" / "orders.sql").write_text(model, encoding="utf-8")
    orders.arrive(1.0)
    passed: list[int] = []
    with pytest.raises(Exception, match="is held back"):
        orders.start(spark, on_failure=on_failure, then=lambda rows, number: passed.append(number))
    assert not passed
    assert orders.ledger() == {name(0): "incomplete"}


STREAM = """\
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.runner.rows.test_stream import Orders
orders = Orders.__new__(Orders)
orders.root = Path(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("ready", flush=True)
orders.start(spark, on_failure="quarantine")
"""


@pytest.mark.slow
def test_a_query_that_is_killed_again_and_again_loses_no_row(
    orders: Orders, spark: SparkSession
) -> None:
    for number in range(8):
        orders.arrive(float(number), -1.0, 2.0)
    command = [sys.executable, "-c", STREAM, str(orders.root)]
    for attempt in range(12):
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(4.0 + 1.3 * attempt)
            # Python and its JVM at once.
            os.killpg(process.pid, signal.SIGKILL)
        both = Counter(orders.ids("orders_good")) + Counter(orders.ids("orders_quarantined"))
        assert max(both.values(), default=1) == 1
        if len(orders.ledger()) == 8:
            break
    orders.start(spark, on_failure="quarantine")
    assert orders.ids("orders_quarantined") == [i for i in orders.sent if i % 3 == 1]
    assert orders.ids("orders_good") == [i for i in orders.sent if i % 3 != 1]
    assert orders.ledger() == {name(n): "flagged" for n in range(8)}

"""A shop whose orders lie in files by day; its rows are split, scored and streamed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.model.results import ModelResult, RunResult
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: shop
    tables:
      - {name: orders, path: data/orders, format: parquet}
      - {name: shops, path: data/shops, format: parquet}
"""
Row = Sequence[Any]


class Shop:
    """A project with one model, `orders`, over orders of (id, day, price, email, shop)."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.warehouse = root / "warehouse"

    def add(self, rows: Sequence[Row], *, replace: bool = False) -> None:
        """Add orders, or put these in place of all others."""
        columns = "id bigint, day string, price double, email string, shop string"
        frame = self.spark.createDataFrame([tuple(r) for r in rows], columns)
        writer = frame.coalesce(1).write.mode("overwrite" if replace else "append")
        writer.parquet(str(self.root / "data" / "orders"))

    def shops(self, *names: str) -> None:
        """The shops that there are."""
        frame = self.spark.createDataFrame([(n,) for n in names], "shop string").coalesce(1)
        frame.write.mode("overwrite").parquet(str(self.root / "data" / "shops"))

    def result(self, **arguments: Any) -> RunResult:
        """Check it."""
        return dqsql.run(self.root, spark=self.spark, **arguments)

    def run(self, **arguments: Any) -> ModelResult:
        """Check it; what became of the model."""
        (model,) = self.result(**arguments).models
        assert model.error is None, model.error
        return model

    def table(self, name: str, schema: str = "dq_rows") -> list[dict[str, Any]]:
        """The rows of a table in the warehouse."""
        return table_rows(self.warehouse / schema, name)

    def good(self) -> list[tuple[str, int]]:
        """Batch and id of the good rows."""
        return sorted((r["dqsql_batch"], r["id"] or 0) for r in self.table("orders_good"))

    def bad(self) -> list[tuple[str, int, list[str]]]:
        """Batch and id of the quarantined rows, with the checks that they failed."""
        return sorted(
            (r["dqsql_batch"], r["id"] or 0, sorted(r["dqsql_failed_checks"]))
            for r in self.table("orders_quarantined")
        )


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop(make_project: Callable[..., Path], spark: SparkSession) -> MakeShop:
    """`make_shop("select ..", rows, settings="quarantine: true")`."""

    def make(sql: str, rows: Sequence[Row], settings: str = "", name: str = "shop") -> Shop:
        root = make_project(
            {
                "dqsql_project.yml": f"name: shop\nprofile: test\n{settings}\n",
                "checks/sources.yml": SOURCES,
                "checks/orders.sql": sql,
            },
            name=name,
        )
        shop = Shop(root, spark)
        shop.add(rows)
        return shop

    return make

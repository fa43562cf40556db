"""A shop whose orders lie in files by day, and runs of it in the tests' own session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.model.results import ModelResult
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: shop
    tables:
      - name: orders
        path: data/orders
        format: parquet
"""
COLUMNS = "id bigint, at timestamp, price double, email string, shop string"
Values = list[tuple[int, str, float | None, str, str]]


class Shop:
    """A project with one model, `orders`."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self._spark = spark

    def add(self, values: Values) -> None:
        """Add orders (id, at, price, email, shop)."""
        frame = self._spark.createDataFrame(
            [(i, at, p, e, s) for i, at, p, e, s in values],
            "id bigint, at string, price double, email string, shop string",
        )
        frame = frame.selectExpr("id", "cast(at as timestamp) at", "price", "email", "shop")
        frame.coalesce(1).write.mode("append").parquet(str(self.root / "data" / "orders"))

    def run(self, **arguments: Any) -> ModelResult:
        """Check it."""
        (model,) = dqsql.run(self.root, spark=self._spark, **arguments).models
        return model

    def failures(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """The stored rows by batch and check, each check without the name of its model."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        rows = table_rows(self.root / "warehouse" / "dq", "dq_failures")
        for row in sorted(rows, key=lambda r: str(r["row"])):
            key = (str(row["batch"]), row["check_id"].removeprefix("orders."))
            found.setdefault(key, []).append(json.loads(row["row"]))
        return found


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop(make_project: Callable[..., Path], spark: SparkSession, tmp_path: Path) -> MakeShop:
    """`make_shop("select ..", settings="lookback: 2")`."""

    def make(sql: str, values: Values, settings: str = "", name: str = "shop") -> Shop:
        project = f"name: shop\nprofile: test\n{settings}\n"
        root = make_project(
            {"dqsql_project.yml": project, "checks/sources.yml": SOURCES, "checks/orders.sql": sql},
            name=name,
        )
        shop = Shop(root, spark)
        shop.add(values)
        return shop

    return make

"""The examples of the documentation do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import MakeShop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """The code of one language on a page, in order."""
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_quarantine(make_shop: MakeShop) -> None:
    sql = blocks("rows.md", "sql")[0]
    day = "2024-01-01"
    shop = make_shop(sql, [(1, day, 9.0, "x@y", "z"), (2, day, -1.0, "x@y", "z")])
    shop.run(quarantine=True)
    assert shop.good() == [(day, 1)]
    assert shop.bad() == [(day, 2, ["price.in_range_0_100", "shop.accepted_values_a_b"])]


def test_streams(make_shop: MakeShop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    day = "2024-01-01"
    shop = make_shop(blocks("streams.md", "sql")[0], [])
    monkeypatch.chdir(shop.root)
    columns = "id bigint, day string, price double"
    rows = spark.createDataFrame([(1, day, 9.0), (2, day, -1.0)], columns)
    rows.coalesce(1).write.parquet(str(shop.root / "arriving"))
    code = blocks("streams.md", "python")[0]
    for folder in ("arriving", "checked", "checkpoint"):
        # Spark's own folder is not the one that Python is in.
        code = code.replace(f'"{folder}"', f'"{shop.root / folder}"')
    exec(code, {"spark": spark})
    assert [r.id for r in spark.read.parquet(str(shop.root / "checked")).collect()] == [1]
    batch = "000000000000"
    assert shop.good() == [(batch, 1)]
    assert shop.bad() == [(batch, 2, ["price.in_range_0_100"])]

"""Exchanges batches of a table of users' rows and puts its files together, in its own process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from dqsql.engine.storage import Store, open_store
from dqsql.model.project import Target

NAME, BY = "orders_good", "dqsql_batch"


def opened(spark: SparkSession, root: Path) -> Store:
    """The store of the tables."""
    return open_store(spark, Target("t", "t", warehouse=str(root / "warehouse")))


def replace(spark: SparkSession, store: Store, batches: range, add: int) -> None:
    """Replace batches, each by a row that has its number and `add` to it."""
    sql = f"select id + {add} as id, string(id) as {BY} from range({batches.start}, {batches.stop})"
    store.replace_rows(NAME, spark.sql(sql), BY, [*map(str, batches)])


def main(root: Path) -> None:
    """Write 18 small batches; put them together; replace three of them."""
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    store = opened(spark, root)
    for number in range(1, 18):
        replace(spark, store, range(number, number + 1), 0)
    store.tidy()
    replace(spark, store, range(3, 6), 100)
    # As a crash ends: no handler runs.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Makes the table of the scan benchmark: mixed types, Parquet.

    python tests/benchmarks/make_scan_data.py FOLDER [ROWS]

Columns: id (unique key), i1 i2 (integers), f1 f2 (doubles, f2 with nulls), m1 (decimal as double),
s1 (5 values), s2 (20), s3 (1,000), s4 (about 1.3 million), d (365 days), ts.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

_COLUMNS = """
    id,
    cast(rand(1) * 1000 as int) as i1,
    cast(randn(2) * 1e6 as bigint) as i2,
    randn(3) * 10 + 100 as f1,
    case when rand(4) > 0.05 then exp(randn(5)) end as f2,
    round(rand(6) * 1e4, 2) as m1,
    element_at(array('red', 'green', 'blue', 'black', 'white'), cast(rand(7) * 5 as int) + 1) as s1,
    concat('code-', cast(rand(8) * 20 as int)) as s2,
    concat('K', lpad(cast(cast(rand(9) * 1000 as int) as string), 6, '0')) as s3,
    case when rand(10) > 0.02 then concat('u', cast(rand(11) * 1300000 as int)) end as s4,
    date_add(date'2023-01-01', cast(id * 365 / {rows} as int)) as d,
    timestamp_seconds(1672531200 + cast(id * 31536000D / {rows} as bigint)) as ts
"""


def make(spark: SparkSession, folder: str, rows: int) -> None:
    """Write the table to `folder`, replacing what is there."""
    frame = spark.range(0, rows, 1, 8).selectExpr(
        *(c.strip() for c in _split(_COLUMNS.format(rows=rows)))
    )
    frame.write.mode("overwrite").parquet(folder)


def _split(text: str) -> list[str]:
    """Split a select list at commas outside parentheses."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]


def main() -> None:
    """Command line."""
    folder = sys.argv[1]
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    make(spark.config("spark.driver.memory", "4g").getOrCreate(), folder, rows)


if __name__ == "__main__":
    main()

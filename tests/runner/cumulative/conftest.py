"""Small projects with cumulative checks, and their metrics as Spark gives them directly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqsql
from dqsql.model.results import RunResult
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: raw
    tables:
      - name: t
        path: data
        format: parquet
"""
# Every metric with the aggregate that Spark is asked directly.
METRICS = {
    "row_count": "count(*)",
    "sum(x)": "sum(x)",
    "sum(price)": "sum(price)",
    "mean(x)": "avg(x)",
    "mean(price)": "avg(cast(price as double))",
    "stddev(x)": "stddev(x)",
    "quantile(x, 0.5)": "percentile(x, 0.5)",
    "approx_count_distinct(k)": "count(distinct k)",
    "min(x)": "min(x)",
    "max(x)": "max(x)",
    "min(shop)": "min(shop)",
    "expect(corr(x, y) is not null or true)": "corr(x, y)",
    "expect(kurtosis(x) is not null or true)": "kurtosis(x)",
    "expect(count_if(k > 20) >= 0)": "count_if(k > 20)",
    "count_distinct(k)": "count(distinct k)",
    "entropy(price)": (
        "aggregate(transform(array_distinct(collect_list(price)), v -> size(filter("
        "collect_list(price), x -> x = v)) / count(price)), 0D, (a, p) -> a - p * ln(p))"
    ),
}
OF_THE_RUN = frozenset(
    {
        "run_id",
        "computed_at",
        "evaluated_at",
        "checked_at",
        "grown_at",
        "lacked_at",
        "versions",
        "made_of",
        "message",
        "details",
    }
)
TABLES = (
    *("dq_batches", "dq_metrics", "dq_results", "dq_state__m", "dq_total__m"),
    *("dq_frequency__m", "dq_frequency_total__m"),
)
Values = dict[tuple[str, str | None, str], Any]


def model_sql(segments: Sequence[str] = ("shop",)) -> str:
    lines = []
    for metric in METRICS:
        condition = "" if metric.startswith("expect") else " is not null or true"
        text = metric if not condition else f"expect({metric}{condition})"
        lines.append(f"-- @{text} {{scope: cumulative}}")
    checks = "\n".join(lines)
    return (
        f"{{{{ config(batch_by='day', segment_by={list(segments)}) }}}}\n"
        "select day, shop, x, y, price, k from {{ source('raw', 't') }}\n"
        "-- @max(k) < 1000\n"
        f"{checks}\n"
    )


Row = dict[str, Any]


def rows_of(day: str, *, bad: bool = False, seed: int | None = None, count: int = 40) -> list[Row]:
    """Rows of a day; `bad` ones fail the check on k. Only every other day has the shop c."""
    rng = random.Random(f"{day} {seed}")
    shops = ["a", "b", "c"] if int(day[-2:]) % 2 else ["a", "b"]
    rows = [
        {
            "day": day,
            "shop": rng.choice(shops),
            "x": None if rng.random() < 0.2 else 1000 + rng.gauss(0, 1),
            "y": None if rng.random() < 0.1 else rng.gauss(0, 1),
            "price": rng.randrange(10_000) / 100,
            "k": rng.randrange(60),
        }
        for _ in range(count)
    ]
    if bad:
        rows[0]["k"] = 5000
    return rows


class Project:
    """A project on disk; its data is one file a day."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.days: dict[str, list[Row]] = {}

    def put(self, *days: str, **options: Any) -> None:
        """Write the rows of some days, in place of what was there of them."""
        folder = self.root / "data"
        folder.mkdir(exist_ok=True)
        for day in days:
            rows = rows_of(day, **options)
            table = pa.Table.from_pylist(rows)
            price = table["price"].cast(pa.decimal128(10, 2))
            table = table.set_column(table.schema.get_field_index("price"), "price", price)
            pq.write_table(table, folder / f"{day}.parquet")
            self.days[day] = rows

    def run(self, *batches: str, **options: Any) -> RunResult:
        """Check some batches, or what is new; an error is raised."""
        result = dqsql.run(self.root, spark=self.spark, batches=batches, **options)
        for model in result.models:
            if model.error is not None:
                raise model.error
        return result

    def rows(self, table: str) -> list[Row]:
        """The rows of a warehouse table."""
        found = table_rows(self.root / "warehouse" / "dq", table)
        return sorted(found, key=lambda r: str([r.get(k) for k in KEYS]))

    def tables(self) -> dict[str, list[Row]]:
        """The warehouse without what is the single run's."""
        return {
            name: [{k: v for k, v in r.items() if k not in OF_THE_RUN} for r in self.rows(name)]
            for name in TABLES
        }

    def cumulative(self) -> Values:
        """Cumulative metric values by batch, segment and aggregate."""
        found: Values = {}
        for row in self.rows("dq_metrics"):
            if row["scope"] == "cumulative":
                column = row["column_name"]
                inside = ", ".join(p for p in (column, row["parameters"]) if p)
                name = f"{row['metric']}({inside})" if inside else row["metric"]
                value = row["value_text"] if row["value"] is None else row["value"]
                found[row["batch"], row["segment"], name] = value
        return found

    def direct(self, unions: Mapping[str, Iterable[str]]) -> Values:
        """The metrics asked of the rows of the days in each union, whole and by shop."""
        pairs = ", ".join(f"('{name}', '{d}')" for name, days in unions.items() for d in days)
        aggregates = ", ".join(f"{sql} as a{i}" for i, sql in enumerate(METRICS.values()))
        data = self.spark.read.parquet(str(self.root / "data"))
        data.createOrReplaceTempView("direct_data")
        rows = self.spark.sql(
            "select u.name, case when grouping(shop) = 0 then concat('shop=', shop) end as segment,"
            f" count_if(u.name = t.day) as own, {aggregates} from direct_data t"
            f" join (values {pairs}) as u(name, day) on u.day = t.day"
            " group by grouping sets ((u.name), (u.name, shop))"
        ).toArrow()
        return {
            (r["name"], r["segment"], metric): r[f"a{i}"]
            for r in rows.to_pylist()
            if r["own"]
            for i, metric in enumerate(METRICS)
        }


KEYS = (
    *("batch", "segment", "column_name", "metric", "parameters", "scope", "check_id"),
    *("counted", "value"),
)
NewProject = Callable[..., Project]


@pytest.fixture
def new_project(make_project: Callable[..., Path], spark: SparkSession) -> NewProject:
    def make(name: str = "project", sql: str | None = None) -> Project:
        files = {"checks/sources.yml": SOURCES, "checks/m.sql": sql or model_sql()}
        return Project(make_project(files, name), spark)

    return make


def same(left: Any, right: Any) -> bool:
    """Equal up to the rounding of sums in another order; sketches are random in their bytes."""
    if isinstance(left, bytes) and isinstance(right, bytes):
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(left == right)


def assert_same(left: Any, right: Any) -> None:
    if not same(left, right):
        assert left == right  # shows the difference

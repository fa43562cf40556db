"""Whether the cost of a batch grows with the history, and what a backfill costs.

    python tests/benchmarks/history_bench.py [--batches 1000] [--rows 2000000]

- Batches of a day each are checked one after another against a history that was backfilled up to
  batch 10 and up to batch t. Printed is the median time of a whole run (discovery, scan, merge of
  the state, metrics, writing) at batch t over that at batch 10, in an interleaved order.
- 365 daily batches are backfilled in one run; printed is its time over that of a run of the same
  checks on the same rows without batches.

Asserts nothing.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

import dqsql

CHECKS = """\
    -- @completeness is not null @mean > -1e300 @stddev is not null @max > -1e300
    -- @approx_count_distinct is not null
    -- @mean > -1e300 {scope: cumulative} @stddev is not null {scope: cumulative}
    -- @approx_count_distinct is not null {scope: cumulative}
    v,
    -- @median > -1e300 @quantile(0.9) > -1e300 @min > -1e300
    w,
    -- @completeness is not null @entropy is not null @mean_length is not null
    -- @entropy is not null {scope: cumulative}
    s
"""
PROFILE = """\
bench:
  target: dev
  outputs:
    dev: {{type: spark, method: session, schema: dq, warehouse: "{root}/warehouse"}}
"""


def project(root: Path, data: Path, config: str) -> None:
    """A project with one model over the Parquet files of `data`."""
    (root / "checks").mkdir(parents=True)
    (root / "dqsql_project.yml").write_text("name: bench\nprofile: bench\n")
    (root / "profiles.yml").write_text(PROFILE.format(root=root))
    text = f"{config}\nselect day,\n{CHECKS}from parquet.`{data}`\n"
    (root / "checks" / "events.sql").write_text(text)


def make_data(spark: SparkSession, folder: Path, days: int, rows: int) -> None:
    """`days` days of rows from 2023-01-01 on, a folder each."""
    frame = spark.range(rows).selectExpr(
        f"date_add(date'2023-01-01', cast(id * {days} / {rows} as int)) as day",
        "randn(1) * 10 + 100 as v",
        "exp(randn(2)) as w",
        "concat('code-', cast(rand(3) * 50 as int)) as s",
    )
    frame.repartition("day").write.partitionBy("day").mode("overwrite").parquet(str(folder))


def run(root: Path, spark: SparkSession, **options: object) -> float:
    """Seconds of a run; raises what went wrong."""
    start = time.perf_counter()
    result = dqsql.run(root, spark=spark, **options)  # type: ignore[arg-type]
    took = time.perf_counter() - start
    for model in result.models:
        if model.error is not None:
            raise model.error
    return took


def day(number: int) -> str:
    """The batch with that number, from 0."""
    import datetime as dt

    return str(dt.date(2023, 1, 1) + dt.timedelta(days=number))


def history(spark: SparkSession, folder: Path, batches: int, rounds: int) -> None:
    """Print what the last batches cost over what the tenth and its neighbours cost."""
    data = folder / "history"
    make_data(spark, data, batches, batches * 200)
    daily = "{{ config(batch_by='day') }}"
    places = {10: folder / "p10", batches: folder / "pt"}
    for last, root in places.items():
        project(root, data, daily)
        run(root, spark, event_time_start=day(0), event_time_end=day(last - rounds - 1))
    times: dict[int, list[float]] = {last: [] for last in places}
    for number in range(rounds):
        for last, root in places.items():
            at = last - rounds - 1 + number
            took = run(root, spark, event_time_start=day(at), event_time_end=day(at + 1))
            times[last].append(took)
    early, late = (statistics.median(times[last]) for last in places)
    print(
        f"{late / early:6.2f}x  batch {batches}: {late:.2f} s, batch 10: {early:.2f} s", flush=True
    )
    for last, root in places.items():
        size = sum(p.stat().st_size for p in (root / "warehouse").rglob("*") if p.is_file())
        print(f"         {size / 1e6:.1f} MB stored with {last} batches")


def backfill(spark: SparkSession, folder: Path, rows: int) -> None:
    """Print what 365 batches in one run cost over one run without batches."""
    data = folder / "year"
    make_data(spark, data, 365, rows)
    times: dict[str, list[float]] = {"once": [], "daily": []}
    for number in range(2):
        for name, config in (("once", ""), ("daily", "{{ config(batch_by='day') }}")):
            root = folder / f"{name}{number}"
            project(root, data, config)
            times[name].append(run(root, spark))
    once, daily = min(times["once"]), min(times["daily"])
    print(f"{daily / once:6.2f}x  365 batches: {daily:.2f} s, no batches: {once:.2f} s", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "8")
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        backfill(spark, folder, arguments.rows)
        history(spark, folder, arguments.batches, arguments.rounds)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

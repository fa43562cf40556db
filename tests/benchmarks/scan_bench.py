"""What a profile costs, as a multiple of reading the table.

    python tests/benchmarks/scan_bench.py FOLDER [--rounds N] [--conf key=value ..]

FOLDER holds the table of `make_scan_data.py`. The floor is `select bit_xor(hash(all columns))` in
the same session; every figure is the median over the rounds of (time / time of the floor run next
to it), so that a machine that changes its speed does not change the figures. Asserts nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from dqsql.compiler.scan import BatchFilter, Scan, scan_groups
from dqsql.dialect import to_sql
from dqsql.runner.api import compile_project

_FIRST_DAY = dt.date(2023, 1, 1)
NUMERIC = ("i1", "i2", "f1", "f2", "m1")
STRINGS = ("s1", "s2", "s3", "s4")
COLUMNS = {
    "id": "bigint",
    "i1": "int",
    "i2": "bigint",
    **dict.fromkeys(("f1", "f2", "m1"), "double"),
    **dict.fromkeys(STRINGS, "string"),
    "d": "date",
    "ts": "timestamp",
}

COUNTS = [f"@completeness({c}) is not null" for c in COLUMNS]
COUNTS += [f"@{m}({c}) is not null" for c in NUMERIC for m in ("min", "max", "mean", "stddev")]
COUNTS += [f"@{m}_length({c}) is not null" for c in STRINGS for m in ("min", "max", "mean")]
SKETCHES = [f"@approx_count_distinct({c}) is not null" for c in COLUMNS]
SKETCHES += [f"@median({c}) is not null" for c in NUMERIC]
# Where a frequency table is counted anyway, the distinct count comes from there.
COUNTED = {"s1", "s2", "s3", "s4", "id"}
SKETCHES_REST = [s for s in SKETCHES if not any(f"distinct({c})" in s for c in COUNTED)]
FREQUENCIES = [f"@entropy({c}) is not null" for c in STRINGS]
FREQUENCIES += [f"@count_distinct({c}) is not null" for c in STRINGS]
FREQUENCIES += [f"@most_frequent_ratio({c}) is not null" for c in STRINGS]
FREQUENCIES += ["@uniqueness(id) = 1", "@count_distinct(id) is not null"]

PROFILES = {
    "counts, nulls, min/max/mean/stddev, lengths": (COUNTS, ""),
    "+ HLL of every column, KLL of every numeric": (COUNTS + SKETCHES, ""),
    "+ exact entropy of 4 columns, uniqueness of a key": (COUNTS + SKETCHES_REST + FREQUENCIES, ""),
    "counts, 365 daily batches": (COUNTS, "{{ config(batch_by='d') }}"),
    "all, 365 daily batches": (COUNTS + SKETCHES_REST + FREQUENCIES, "{{ config(batch_by='d') }}"),
}


def scan_sql(folder: str, checks: list[str], config: str) -> str:
    """The scan statement of a check model with the given annotations."""
    with tempfile.TemporaryDirectory() as root:
        project = Path(root)
        (project / "checks").mkdir()
        (project / "dqsql_project.yml").write_text("name: bench\n")
        comments = "\n".join(f"-- {c}" for c in checks)
        text = f"{config}\nselect {', '.join(COLUMNS)} from bench\n{comments}\n"
        (project / "checks" / "bench_model.sql").write_text(text)
        compiled = compile_project(project)
        compiled.raise_errors()
        plan = compiled.plans[0]
        types = {s.name: "double" for s in plan.states}
        groups = scan_groups(plan.states, types, COLUMNS)
        days = (str(_FIRST_DAY + dt.timedelta(days=n)) for n in range(365))
        batches = BatchFilter(tuple(days), "date", COLUMNS) if config else None
        return to_sql(Scan(plan.model, groups, batches, label="all", columns=COLUMNS).query())


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g")
    builder = builder.config("spark.sql.shuffle.partitions", "8")
    for pair in arguments.conf:
        builder = builder.config(*pair.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.read.parquet(arguments.folder).createOrReplaceTempView("bench")
    spark.sql(f"select {', '.join(COLUMNS)} from bench").createOrReplaceTempView(
        "dqsql__bench_model"
    )
    floor = f"select bit_xor(hash({', '.join(COLUMNS)})) from bench"
    spark.sql(floor).collect()
    for name, (checks, config) in PROFILES.items():
        if arguments.only and arguments.only not in name:
            continue
        sql = scan_sql(arguments.folder, checks, config)
        ratios, seconds = [], []
        for _ in range(arguments.rounds):
            base = timed(lambda: spark.sql(floor).collect())
            took = timed(
                lambda sql=sql: spark.sql(sql).write.format("noop").mode("overwrite").save()
            )
            ratios.append(took / base)
            seconds.append(took)
        print(f"{statistics.median(ratios):6.2f}x  {min(seconds):7.2f} s  {name}", flush=True)


if __name__ == "__main__":
    main()

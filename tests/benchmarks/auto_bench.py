"""Zero configuration on a dbt project: what it costs, what it finds, how often it cries wolf.

Makes a dbt project (manifest and tables of a Hive catalog) of so many models without a single
check, each with days of a shop's rows: weekly season, growth, autocorrelation, optional values.
Nothing is wrong in them but the faults planted in the last days of some. All of it is watched by
`monitors: auto`, first in one go, then the day after.

    python tests/benchmarks/auto_bench.py --models 20 --days 120
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

START = dt.date(2026, 1, 1)
COUNTRIES = np.array(["DE", "FR", "IT", "ES", "NL", "PL"])
STATES = np.array(["new", "paid", "sent", "returned"])
Table = dict[str, np.ndarray]


def day_of(random: np.random.Generator, day: int, rows: int, level: float) -> Table:
    """A day of a table: its number of rows and amounts follow the week and grow."""
    season = 1.0 + 0.2 * np.sin(2 * np.pi * day / 7) + (0.3 if day % 7 == 5 else 0.0)
    size = int(random.poisson(rows * season * (1 + day / 600)))
    share = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    ids = np.arange(size) + day * 100_000 + 10_000_000
    return {
        "order_id": ids,
        "customer": random.integers(1, 5_000, size),
        "country": random.choice(COUNTRIES, size, p=share),
        "status": random.choice(STATES, size, p=[0.1, 0.3, 0.5, 0.1]),
        "amount": np.round(random.gamma(2.0, 20.0 + level, size), 2),
        "discount": np.where(random.random(size) < 0.7, np.nan, np.round(random.random(size), 2)),
        "rating": random.integers(1, 6, size),
        "sku": np.array(
            [
                f"{a}-{b:05d}"
                for a, b in zip(
                    random.choice(["AB", "CD", "XY"], size),
                    random.integers(0, 99_999, size),
                    strict=True,
                )
            ]
        ),
        "note": np.where(random.random(size) < 0.02, None, "order of " + ids.astype(str)),
    }


def _nulls(table: Table) -> None:
    table["amount"][: len(table["amount"]) // 5] = np.nan


def _cents(table: Table) -> None:
    table["amount"] = table["amount"] * 100


def _lower_case(table: Table) -> None:
    table["sku"] = np.char.lower(table["sku"].astype(str))


def _one_country(table: Table) -> None:
    table["country"][table["country"] == "DE"] = "FR"


def _twice(table: Table) -> None:
    table["order_id"][::3] = table["order_id"][0]


def _half(table: Table) -> None:
    for name in table:
        table[name] = table[name][: len(table[name]) // 3]


FAULTS: dict[str, Callable[[Table], None]] = {
    "a fifth of the amounts is null": _nulls,
    "amounts in cents": _cents,
    "codes in lower case": _lower_case,
    "the largest country is missing": _one_country,
    "a key that repeats": _twice,
    "a third of the rows": _half,
}


def write_tables(root: Path, models: int, days: int, rows: int) -> dict[str, str]:
    """The tables; what is wrong on the last day of each, by its name."""
    wrong = {}
    for number in range(models):
        random = np.random.default_rng(number)
        level, parts = 0.0, []
        name = f"orders_{number}"
        for day in range(days):
            level = 0.6 * level + random.normal()
            part = day_of(random, day, rows, level)
            if day == days - 1 and number < len(FAULTS):
                wrong[name], spoil = list(FAULTS.items())[number]
                spoil(part)
            date = pa.array([START + dt.timedelta(days=day)] * len(part["order_id"]), pa.date32())
            columns = {k: pa.array(v, from_pandas=True) for k, v in part.items()}
            parts.append(pa.table({"day": date, **columns}))
        folder = root / "data" / name
        folder.mkdir(parents=True)
        pq.write_table(pa.concat_tables(parts), folder / "all.parquet")
    return wrong


def conf(root: Path) -> dict[str, str]:
    """Settings of a session with a Hive catalog in the project's folder."""
    derby = f"jdbc:derby:;databaseName={root}/metastore;create=true"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(root / "spark-warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
    }


def write_project(root: Path, models: int) -> None:
    """The dbt project, as `dbt compile` would leave it."""
    lines = "".join(f'        {key}: "{value}"\n' for key, value in conf(root).items())
    (root / "profiles.yml").write_text(
        "shop:\n  target: local\n  outputs:\n    local:\n      type: spark\n"
        f"      method: session\n      schema: shop\n      dqsql:\n       spark_conf:\n{lines}"
    )
    (root / "dbt_project.yml").write_text(
        "name: shop\nversion: '1.0'\nprofile: shop\nvars:\n  dqsql: {monitors: auto}\n"
    )
    nodes = {}
    for number in range(models):
        name = f"orders_{number}"
        meta = {"dqsql": {"batch_by": "day"}}
        nodes[f"model.shop.{name}"] = {
            "unique_id": f"model.shop.{name}",
            "name": name,
            "alias": name,
            "resource_type": "model",
            "package_name": "shop",
            "language": "sql",
            "schema": "shop",
            "relation_name": f"shop.{name}",
            "original_file_path": f"models/{name}.sql",
            "compiled_code": "select 1",
            "fqn": ["shop", name],
            "config": {"materialized": "table", "enabled": True, "meta": meta},
            "meta": meta,
            "columns": {},
            "depends_on": {"nodes": []},
        }
        (root / "models").mkdir(exist_ok=True)
        (root / "models" / f"{name}.sql").write_text("select 1\n")
    version = "https://schemas.getdbt.com/dbt/manifest/v12.json"
    manifest = {
        "metadata": {"dbt_schema_version": version, "project_name": "shop"},
        "nodes": nodes,
        "sources": {},
        "macros": {},
        "disabled": {},
        "groups": {},
    }
    (root / "target").mkdir()
    (root / "target" / "manifest.json").write_text(json.dumps(manifest))


def put(root: Path, models: int, last: int) -> None:
    """Tables of a process of its own: Derby serves one JVM at a time."""
    arguments = (root, models, last)
    process = multiprocessing.get_context("spawn").Process(target=put_before_spark, args=arguments)
    process.start()
    process.join()


def put_before_spark(root: Path, models: int, last: int) -> None:
    """Tables with the days before the given one."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in conf(root).items():
        builder = builder.config(key, value)
    spark = builder.enableHiveSupport().getOrCreate()
    spark.sql("create database if not exists shop")
    until = START + dt.timedelta(days=last)
    for number in range(models):
        name = f"orders_{number}"
        rows = spark.read.parquet(str(root / "data" / name)).where(f"day < date'{until}'")
        rows.coalesce(1).write.mode("overwrite").format("parquet").saveAsTable(f"shop.{name}")
    spark.stop()


def run(root: Path, *options: str) -> tuple[float, str]:
    """Seconds and output of `dqsql run`."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "dqsql", "run", *options]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return time.perf_counter() - start, done.stdout


def false_alarms(root: Path, last: int, wrong: Mapping[str, str]) -> int:
    """Batches and models of which something was told though nothing is wrong."""
    folder = next((root / "warehouse").glob("*/dq_results"))
    rows = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    spoilt = {(name, str(START + dt.timedelta(days=last))) for name in wrong}
    told = {(r["model"], r["batch"]) for r in rows if r["status"] in ("warn", "fail")}
    return len(told - spoilt)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="a folder that is kept")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = args.keep or Path(folder) / "shop"
        root.mkdir(parents=True)
        wrong = write_tables(root, args.models, args.days, args.rows)
        write_project(root, args.models)
        put(root, args.models, args.days - 1)
        seconds, text = run(root, "--threads", "2")
        print(f"first run, {args.days - 1} days of {args.models} models: {seconds:.0f} s")
        print("\n".join(text.splitlines()[-4:]))
        put(root, args.models, args.days)
        seconds, text = run(root, "--threads", "2")
        print(f"the day after: {seconds:.0f} s")
        print(text)
        for name, fault in wrong.items():
            print(f"{name}: {fault}")
        print(f"alarms on days without a fault: {false_alarms(root, args.days - 1, wrong)}")


if __name__ == "__main__":
    main()

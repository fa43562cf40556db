"""Tests of a dbt project, by `dbt test` and `dqsql run --dbt-tests`, on one Spark server.

dbt talks to the server by Thrift, dqsql by Spark Connect. Each model has 11 generic tests on six
columns. Prints seconds of whole commands, the best of several rounds in turn, and their ratio.

    python -m tests.benchmarks.dbt_bench --dbt dbt/bin/dbt                        # 440 tests
    python -m tests.benchmarks.dbt_bench --dbt dbt/bin/dbt --models 1 --rows 5000000
    python -m tests.benchmarks.dbt_bench --dbt dbt/bin/dbt --models 1 --rows 5000000 --csv --views

dbt has an environment of its own with `dbt-core<1.12`, `dbt-spark[PyHive]`; dqsql needs the extra
`connect`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tests.engine.servers import thrift_and_connect_server
from tests.loading.dbt.test_with_dbt import results, run_dbt, run_dqsql

PROJECT = """\
name: bench
version: "1.0"
profile: bench
model-paths: [models]
models: {{bench: {{+materialized: {kind}}}}}
"""
PROFILE = """\
bench:
  target: server
  outputs:
    server:
      type: spark
      method: thrift
      host: 127.0.0.1
      port: {thrift}
      poll_interval: 1
      schema: bench
      threads: {threads}
      dqsql: {{method: connect, url: "sc://127.0.0.1:{connect}"}}
"""
TESTS = """\
  - name: {name}
    columns:
      - {{name: id, data_tests: [not_null, unique]}}
      - {{name: day, data_tests: [not_null]}}
      - {{name: kind, data_tests: [not_null, {{accepted_values: {{values: [a, b, c]}}}}]}}
      - {{name: amount, data_tests: [not_null]}}
      - name: shop
        data_tests: [not_null, {{relationships: {{to: ref('shops'), field: shop}}}}]
      - {{name: name, data_tests: [not_null, unique]}}
      - {{name: code, data_tests: [not_null]}}
"""


def rows_of(rows: int, seed: int) -> pa.Table:
    """A table whose tests all pass."""
    random = np.random.default_rng(seed)
    numbers = np.arange(rows)
    return pa.table(
        {
            "id": pa.array(numbers),
            "day": pa.array(numbers % 365 + 19_000, pa.int32()).cast(pa.date32()),
            "kind": pa.array(["a", "b", "c"]).take(pa.array(random.integers(0, 3, rows))),
            "amount": pa.array(random.gamma(4.0, 20.0, rows)),
            "shop": pa.array(random.integers(0, 100, rows)),
            "name": pa.array([f"name {n}" for n in numbers]),
            "code": pa.array(random.integers(0, 10_000, rows)),
        }
    )


def write_project(root: Path, options: argparse.Namespace) -> None:
    """A project of dbt's with its files."""
    (root / "models").mkdir(parents=True)
    (root / "data").mkdir()
    kind = "view" if options.views else "table"
    (root / "dbt_project.yml").write_text(PROJECT.format(kind=kind))
    names = [f"m{i}" for i in range(options.models)]
    schema = "".join(TESTS.format(name=name) for name in names)
    (root / "models" / "schema.yml").write_text(f"models:\n{schema}")
    shops = "select explode(sequence(0, 99)) as shop"
    (root / "models" / "shops.sql").write_text(f"{{{{ config(materialized='table') }}}} {shops}\n")
    for seed, name in enumerate(names):
        table = rows_of(options.rows, seed)
        file = root / "data" / f"{name}.{'csv' if options.csv else 'parquet'}"
        if options.csv:
            pa_csv.write_csv(table, file)
            columns = "id bigint, day date, kind string, amount double, shop bigint, name string"
            ddl = f"create table csv_{name} ({columns}, code bigint) using csv"
            hook = f"{ddl} options (path '{file}', header 'true')"
            head = f'{{{{ config(pre_hook=["drop table if exists csv_{name}", "{hook}"]) }}}}\n'
            (root / "models" / f"{name}.sql").write_text(f"{head}select * from csv_{name}\n")
        else:
            pq.write_table(table, file)
            (root / "models" / f"{name}.sql").write_text(f"select * from parquet.`{file}`\n")


def timed(what: str, rounds: int, *commands: tuple[str, object]) -> None:
    """Time commands in turn, and print the best of each."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, run in commands:
            start = time.perf_counter()
            done = run()  # type: ignore[operator]
            seconds = time.perf_counter() - start
            if done.returncode:
                sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
            print(f"  {name}: {seconds:.1f} s", flush=True)
            best[name] = min(best.get(name, seconds), seconds)
    (first, slow), *others = best.items()
    for name, seconds in others:
        print(f"{what}: {first} {slow:.1f} s, {name} {seconds:.1f} s: {slow / seconds:.2f} times")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dbt", type=Path, required=True)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--views", action="store_true")
    options = parser.parse_args()
    dbt = options.dbt.absolute()
    with TemporaryDirectory() as folder:
        root, home = Path(folder) / "bench", Path(folder) / "server"
        home.mkdir()
        write_project(root, options)
        with thrift_and_connect_server(home) as (thrift, connect):
            given = {"thrift": thrift, "connect": connect, "threads": options.threads}
            (root / "profiles.yml").write_text(PROFILE.format(**given))
            built = run_dbt(dbt, root, "run")
            if built.returncode:
                sys.exit(built.stdout[-3000:])
            timed(
                f"{options.models} models of {options.rows:,} rows, {options.models * 11} tests",
                options.rounds,
                ("dbt test", lambda: run_dbt(dbt, root, "test")),
                ("dqsql run --dbt-tests", lambda: run_dqsql(root, "run", "--dbt-tests")),
            )
        ours = results(root / "target" / "dqsql" / "run_results.json")
        statuses = {r["status"] for uid, r in ours.items() if uid.startswith("test.")}
        print(f"{sum(uid.startswith('test.') for uid in ours)} tests of dqsql: {statuses}")


if __name__ == "__main__":
    main()

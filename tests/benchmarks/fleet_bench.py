"""Many small models: what a first run, a run of one new batch each, and a run of nothing new cost.

Each model reads a Parquet file of 2,000 rows in 20 daily batches and has 11 checks. Prints seconds,
and ratios to a bare start of dqsql (`dqsql --help`) in the same sitting.

    python tests/benchmarks/fleet_bench.py --models 40
    python tests/benchmarks/fleet_bench.py --models 40 --warm
    python tests/benchmarks/fleet_bench.py --models 1000 --columns 100 --only ls compile
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PROJECT = 'name: fleet\nversion: "1.0"\nprofile: fleet\n'
PROFILE = """\
fleet:
  target: local
  outputs:
    local: {type: spark, method: session, schema: dq}
"""
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,      -- @not_null
    id,       -- @not_null @unique
    kind,     -- @accepted_values('a', 'b', 'c') @completeness > 0.9
    amount,   -- @mean between 0 and 200 @min >= 0 @max < 1000 @stddev < 100
    name      -- @max_length < 20
{more}from {{{{ source('fleet', 'm{number}') }}}}

-- @row_count > 10
"""
WIDE = "    , c{number} -- @not_null @mean between -10 and 10\n"
START = dt.date(2026, 1, 1)


def write_project(root: Path, models: int, columns: int) -> None:
    """A project of so many models; those of more than 5 columns have checks only to be compiled."""
    (root / "checks").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "dqsql_project.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILE)
    tables = "".join(
        f"      - name: m{i}\n        external: {{location: data/m{i}.parquet}}\n"
        for i in range(models)
    )
    sources = f"sources:\n  - name: fleet\n    tables:\n{tables}"
    (root / "checks" / "sources.yml").write_text(sources)
    more = "".join(WIDE.format(number=i) for i in range(max(0, columns - 5)))
    for i in range(models):
        (root / "checks" / f"m{i}.sql").write_text(MODEL.format(number=i, more=more))


def write_data(root: Path, models: int, days: int, rows: int = 2_000) -> None:
    """The files of the models, with so many days."""
    for i in range(models):
        random = np.random.default_rng(i)
        day = np.repeat(np.arange(20), rows // 20)
        table = pa.table(
            {
                "day": pa.array([START + dt.timedelta(days=int(d)) for d in day], pa.date32()),
                "id": pa.array(range(rows), pa.int64()),
                "kind": pa.array(random.choice(["a", "b", "c"], rows)),
                "amount": pa.array(random.gamma(4.0, 20.0, rows)),
                "name": pa.array([f"name {n % 97}" for n in range(rows)]),
            }
        )
        pq.write_table(table.slice(0, days * (rows // 20)), root / "data" / f"m{i}.parquet")


def timed(root: Path, *command: str) -> float:
    """Seconds of a command of dqsql."""
    start = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dqsql")), *command],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"dqsql {' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return time.perf_counter() - start


@contextmanager
def warm_session(root: Path, models: int) -> Iterator[None]:
    """A warm session that suits the data."""
    write_data(root, models, 1)
    timed(root, "session", "start")
    try:
        yield
    finally:
        timed(root, "session", "stop")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--columns", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="commands to time, instead of three runs")
    parser.add_argument("--options", nargs="*", default=[], help="options of the runs")
    parser.add_argument("--warm", action="store_true", help="the runs use a warm session")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder) / "fleet"
        write_project(root, args.models, args.columns)
        floor = min(timed(root, "--help") for _ in range(3))
        print(f"{args.models} models, {args.columns} columns; floor (dqsql --help): {floor:.2f} s")

        def show(what: str, seconds: float) -> None:
            each = seconds / args.models
            ratio = seconds / floor
            print(f"{what:<20} {seconds:8.1f} s, floor times {ratio:6.1f}, a model {each:7.3f} s")

        if args.only:
            for command in args.only:
                show(command, timed(root, command))
                show(f"{command} again", timed(root, command))
            return
        with warm_session(root, args.models) if args.warm else nullcontext():
            for what, days in (("first run", 19), ("one new batch each", 20), ("nothing new", 20)):
                if what != "nothing new":
                    write_data(root, args.models, days)
                show(what, timed(root, "run", *args.options))


if __name__ == "__main__":
    main()

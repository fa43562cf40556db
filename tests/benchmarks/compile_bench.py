"""How long a wide check model takes to compile, and to run.

    python tests/benchmarks/compile_bench.py [--columns 300] [--run]

The model has ten metrics on each column (four fifths of the columns are numbers, the rest texts),
all in one file. With `--run` it is also run on a small table, and Spark's log is searched for
aggregates whose generated code was too large. Asserts nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import dqsql
from dqsql.runner.api import compile_project

NUMBER = (
    "completeness is not null",
    "null_count is not null",
    "min > -1e300",
    "max > -1e300",
    "mean > -1e300",
    "sum > -1e300",
    "stddev is not null",
    "approx_count_distinct is not null",
    "median > -1e300",
    "in_range(-1e300, 1e300)",
)
TEXT = (
    "completeness is not null",
    "null_count is not null",
    "min_length is not null",
    "max_length is not null",
    "mean_length is not null",
    "approx_count_distinct is not null",
    "compliance(length({c}) < 9) is not null",
    "count_distinct is not null",
    "type_consistency is not null",
    "matches('.*')",
)
PROFILE = """\
bench:
  target: dev
  outputs:
    dev:
      type: spark
      method: session
      schema: dq
      warehouse: {root}/warehouse
"""
SOURCES = """\
sources:
  - name: bench
    tables:
      - name: wide
        path: data
        format: parquet
"""
_TOO_LARGE = ("grows beyond 64 KB", "Whole-stage codegen disabled", "failed to compile")


def write_project(root: Path, columns: int) -> None:
    """A project with one check model of ten metrics on each of `columns` columns."""
    lines = []
    for i in range(columns):
        name = f"c{i}"
        metrics = TEXT if i % 5 == 4 else NUMBER
        comments = "\n".join(f"    -- @{m.format(c=name)}" for m in metrics)
        lines.append(f"{comments}\n    {name}")
    (root / "checks").mkdir()
    (root / "dqsql_project.yml").write_text("name: bench\nprofile: bench\n")
    (root / "profiles.yml").write_text(PROFILE.format(root=root))
    (root / "checks" / "sources.yml").write_text(SOURCES)
    body = ",\n".join(lines)
    text = f"select\n{body}\nfrom {{{{ source('bench', 'wide') }}}}\n"
    (root / "checks" / "wide.sql").write_text(text)


def write_data(root: Path, columns: int, rows: int) -> None:
    """The table that the model reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {}
    for i in range(columns):
        numbers = [(i * 7 + row * 13) % 101 for row in range(rows)]
        table[f"c{i}"] = (
            pa.array(map(str, numbers)) if i % 5 == 4 else pa.array(numbers, pa.float64())
        )
    (root / "data").mkdir()
    pq.write_table(pa.table(table), root / "data" / "part.parquet")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--run", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, arguments.columns)
        start = time.perf_counter()
        compiled = compile_project(root)
        took = time.perf_counter() - start
        compiled.raise_errors()
        (plan,) = compiled.plans
        print(f"{took:6.2f} s  compile: {len(plan.metrics)} metrics, {len(plan.states)} states")
        start = time.perf_counter()
        statements = compiled.queries[plan.model.name]
        took = time.perf_counter() - start
        print(f"{took:6.2f} s  write {len(statements)} statements", flush=True)
        if not arguments.run:
            return
        write_data(root, arguments.columns, arguments.rows)
        start = time.perf_counter()
        result = dqsql.run(root)
        took = time.perf_counter() - start
        for model in result.models:
            if model.error is not None:
                raise model.error
        print(f"{took:6.2f} s  run: {len(result.results)} verdicts")
        log = (root / "target" / "logs" / "spark.log").read_text(errors="replace")
        for words in _TOO_LARGE:
            print(f"{log.count(words):6d}    times {words!r} in Spark's log")


if __name__ == "__main__":
    main()

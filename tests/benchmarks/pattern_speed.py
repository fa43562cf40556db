"""Speed and size of the pattern index and of inference, against the targets.

    python -m tests.benchmarks.pattern_speed --data FOLDER [--columns 400]

FOLDER (or the environment variable DQSQL_EVAL_DATA) holds `patterns/corpus_columns.parquet`. Every
k-th column of the corpus is indexed; the index is written, read again, and asked for patterns of
columns of 1,000 values. One process, one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import load_index
from dqsql.patterns.infer import LearnedPattern, infer_pattern
from tests.patterns.indexes import Contribution, index_of, save_index

MAX_MILLISECONDS = 40.0
MIN_COLUMNS_PER_SECOND = 100.0
MAX_SIZE_SHARE = 0.01


def columns_of(folder: Path) -> list[list[str]]:
    """Return the values of all columns of the corpus."""
    table = pq.read_table(folder / "corpus_columns.parquet", columns=["values"])
    return [[v for v in values if v is not None] for values in table["values"].to_pylist()]


def sampled(columns: list[list[str]], number: int) -> list[list[str]]:
    """Return about `number` of the columns, evenly spread."""
    return columns[:: max(1, len(columns) // number)]


def is_text(values: list[str]) -> bool:
    """Whether a column is none of numbers, which nobody would learn a pattern of."""
    return any(not v.replace(".", "").replace("-", "").isdecimal() for v in values[:50])


def seconds_to_add(columns: list[list[str]]) -> float:
    """Return how long it takes to index the columns."""
    total = Contribution.empty()
    start = time.process_time()
    for values in columns:
        total.add_column(values, IndexSettings())
    return time.process_time() - start


def line(what: str, value: str, target: str, ok: bool) -> None:
    """Print one figure with its target."""
    print(f"{what:48} {value:>14}   target {target:12} {'ok' if ok else 'MISSED'}")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("DQSQL_EVAL_DATA"))
    parser.add_argument("--columns", type=int, default=400)
    options = parser.parse_args(arguments)
    if not options.data or not (Path(options.data) / "patterns").is_dir():
        print("skipped: no evaluation data (give --data or set DQSQL_EVAL_DATA)")
        return 0
    everything = columns_of(Path(options.data) / "patterns")
    timed = sampled([c for c in everything if len(c) >= 1_000], options.columns)
    speed = len(timed) / seconds_to_add(timed)
    line(
        f"index: columns/s ({len(timed)} columns of 1,000 values)",
        f"{speed:,.0f}",
        ">= 100",
        speed >= MIN_COLUMNS_PER_SECOND,
    )

    total = Contribution.empty()
    for values in everything:
        total.add_column(values, IndexSettings())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_index(index_of(total), folder)
        size = (folder / "patterns.parquet").stat().st_size
        start = time.process_time()
        index = load_index(folder)
        loading = time.process_time() - start
    line(
        f"index: bytes of {total.value_bytes / 1e6:.1f} MB of values read",
        f"{size / 1e3:,.0f} KB",
        "<= 1/100",
        size <= MAX_SIZE_SHARE * total.value_bytes,
    )
    print(f"{'reading the index once':48} {1000 * loading:11.0f} ms")

    asked = sampled([c for c in everything if len(c) >= 1_000 and is_text(c)], options.columns)
    spent: list[float] = []
    found = 0
    for values in asked:
        start = time.process_time()
        found += isinstance(infer_pattern(values, index), LearnedPattern)
        spent.append(1000 * (time.process_time() - start))
    mean = float(np.mean(spent))
    line(
        f"inference: ms a column ({len(asked)} text columns)",
        f"{mean:.1f}",
        "<= 40",
        mean <= MAX_MILLISECONDS,
    )
    print(f"{'95 % below, most':48} {np.percentile(spent, 95):.1f}, {max(spent):.1f} ms")
    print(f"{'columns with a pattern':48} {found / len(asked):.0%}")
    print(f"{'load of the machine, cores':48} {os.getloadavg()[0]:.1f}, {os.cpu_count()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

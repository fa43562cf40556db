"""How long profiles and suggestions take, as multiples of reading the rows once.

    python -m tests.benchmarks.suggest_bench FOLDER [--rows 1000000] [--columns 50]

Writes a project with one Parquet file into FOLDER (once), then times the floor
`bit_xor(hash(all columns))`, the profile and the suggestions, each warm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.runner.compilation import Where
from dqsql.runner.profile import profile
from dqsql.runner.suggest import suggest
from dqsql.runner.warehouse import open_warehouse

FILES = {
    "dqsql_project.yml": "name: bench\nprofile: bench\n",
    "profiles.yml": "bench:\n  target: local\n  outputs:\n    local: {type: spark}\n",
    "sources.yml": "sources:\n  - name: lake\n    tables:\n"
    "      - {name: wide, path: data/wide.parquet, format: parquet}\n",
}


def columns(rows: int, count: int) -> dict[str, pa.Array]:
    """Ten kinds of columns in turn."""
    draw = np.random.default_rng(0)
    cities = np.array(["Berlin", "Hamburg", "Lyon", "Paris", "Rome"])
    seconds = np.datetime64("2024-01-01T00:00:00", "us")
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.array(draw.permutation(rows).astype(np.int64)),
        lambda: pa.array(cities[draw.integers(0, 5, rows)]),
        lambda: pa.array(draw.normal(100, 20, rows)),
        lambda: pa.array(draw.integers(0, 1000, rows).astype(np.int32)),
        lambda: pa.array([f"N{n:05d}" for n in draw.integers(0, 20_000, rows)]),
        lambda: pa.array(draw.gamma(2, 30, rows), mask=draw.random(rows) < 0.1),
        lambda: pa.array(seconds + draw.integers(0, 10**7, rows).astype("timedelta64[s]")),
        lambda: pa.array(draw.random(rows) < 0.3),
        lambda: pa.array([str(n) for n in draw.integers(0, 10**6, rows)]),
        lambda: pa.array(draw.integers(0, 8, rows).astype(np.int64)),
    ]
    return {f"column_{i:02d}": kinds[i % len(kinds)]() for i in range(count)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    given = parser.parse_args()
    folder: Path = given.folder
    data = folder / "data" / "wide.parquet"
    for name, text in FILES.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not data.exists():
        data.parent.mkdir()
        table = pa.table(columns(given.rows, given.columns))
        pq.write_table(table, data, row_group_size=125_000)
    where = Where(folder)
    with open_warehouse(where.project(), None) as (spark, _):
        frame = spark.read.parquet(str(data))
        names = ", ".join(f"`{c}`" for c in frame.columns)

        def floor() -> None:
            frame.selectExpr(f"bit_xor(hash({names}))").collect()

        times: dict[str, list[float]] = {}
        passes = 0
        for _ in range(2):
            for what, work in (
                ("floor", floor),
                ("profile", lambda: profile(where, ["lake.wide"], spark=spark)),
                ("suggest", lambda: suggest(where, "lake.wide", spark=spark)),
            ):
                start = time.monotonic()
                result = work()
                times.setdefault(what, []).append(time.monotonic() - start)
                if what == "profile" and result is not None:
                    passes = result[0].passes  # type: ignore[union-attr,index]
    least = min(times["floor"])
    print(f"{data.stat().st_size:,} bytes, profile in {passes} passes")
    for what, seconds in times.items():
        best = min(seconds)
        print(
            f"{what:8} {best:6.1f} s  {best / least:4.1f} x the floor  (first {seconds[0]:.1f} s)"
        )


if __name__ == "__main__":
    main()

"""Alarms of a first run over days of which two in each week are unlike the others, for good.

    python -m tests.benchmarks.weekends [--days 365] [--columns 12] [--shift 1.0]

Numbers of weekends lie `shift` standard deviations higher, and texts are of other kinds. Nothing is
wrong on any day. A batch that fails is not learned from, so that one alarm may bring others: what
is counted is what a person sees who writes `-- @avh` behind each column and runs.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import dqsql
from dqsql.model.results import Status
from tests.benchmarks.fleet_decisions import START, write_watched

ROWS = 60


def table(days: int, columns: int, shift: float) -> pa.Table:
    """So many rows a day; of five columns four are numbers and one is a text."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(days), ROWS)
    weekend = place % 7 > 4
    data: dict[str, Any] = {"day": [START + dt.timedelta(days=int(i)) for i in place]}
    for i in range(columns):
        if i % 5 < 4:
            data[f"n{i}"] = 100 + 10 * (rng.normal(size=place.size) + shift * weekend)
        else:
            kinds = rng.integers(0, 5, place.size) + np.where(weekend, 3, 0)
            data[f"s{i}"] = [f"K-{kind:03d}" for kind in kinds]
    return pa.table(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--shift", type=float, default=1.0)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_watched(root, table(options.days, options.columns, options.shift))
        results = dqsql.run(root).results
    decided = [r for r in results if r.status is not Status.SKIPPED]
    failed = [r for r in decided if r.status is not Status.PASS]
    dates = [dt.date.fromisoformat(r.batch) for r in failed if r.batch is not None]
    weekends = Counter((date - START).days % 7 > 4 for date in dates)[True]
    share = len(failed) / max(len(decided), 1)
    print(f"{len(failed)} of {len(decided)} verdicts are alarms: {share:.2%}")
    print(f"{len(set(dates))} of {options.days} days have one; {weekends} alarms on weekends")


if __name__ == "__main__":
    main()

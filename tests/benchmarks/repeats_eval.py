"""Batches delivered again: how many are found, and how many good batches are told of.

    DQSQL_EVAL_DATA=.. python -m tests.benchmarks.repeats_eval [--days N]

FBPosts (weeks) and Online Retail (days). From the ninth batch on, each good one is judged with all
before it, and so is, in its place, a copy of one of these. With the first two, four and all
attributes, at the part of the default rate that `@novelty` has for it and at that of 1 in 1,000.
Made-up small tables, which are equal by chance, come last. Without data these are all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from dqsql.decisions.repeats import repeated
from tests.benchmarks.novelty_data import FBPOSTS, data_folder, fbposts, online_retail

START = 8
RATES = (0.005, 0.0001)


def counted(columns: np.ndarray, values: np.ndarray, rate: float) -> tuple[int, int, int]:
    """How many batches were judged, and how many good ones and copies were told of."""
    rng = np.random.default_rng(0)
    good = copies = 0
    places = range(START, len(values))
    for place in places:
        past = values[:place]
        good += repeated(columns, past, values[place], rate) is not None
        copies += repeated(columns, past, past[rng.integers(place)], rate) is not None
    return len(places), good, copies


def small_tables(rows: int, batches: int, rate: float, tables: int = 400) -> tuple[int, int]:
    """How many tables of six columns were judged, two of which follow from others, and told of."""
    told = 0
    for seed in range(tables):
        rng = np.random.default_rng([seed, rows, batches])
        drawn = [rng.binomial(rows, p, size=batches + 1) for p in (0.05, 0.2, 0.5, 0.9)]
        counts = np.array([*drawn, drawn[1] * 2, drawn[2] + drawn[3]], dtype=float).T
        told += repeated(np.arange(6), counts[:-1], counts[-1], rate) is not None
    return tables, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--days", type=int, help="of Online Retail; by default all")
    options = parser.parse_args(arguments)
    folder = data_folder()
    if folder is None:
        print("skipped: no evaluation data; set DQSQL_EVAL_DATA to the folder that has novelty/")
    else:
        parts = {
            "fbposts": fbposts(folder, FBPOSTS["all 14"])[0],
            "online retail": online_retail(folder, options.days),
        }
        for name, data in parts.items():
            values = data.metrics()
            numbers = {column: i for i, column in enumerate(data.kinds)}
            columns = np.array([numbers[f.column or ""] for f in data.features])
            for most in (2, 4, len(numbers)):
                for rate in RATES:
                    here = columns < most
                    judged, good, copies = counted(columns[here], values[:, here], rate)
                    print(
                        f"{name:14} {most:3} attributes, rate {rate:g}: of {judged} good batches"
                        f" {good} told of, of as many copies {copies}",
                        flush=True,
                    )
    for rows in (1, 5, 20, 100):
        for batches in (8, 30, 100):
            tables, told = small_tables(rows, batches, RATES[0])
            print(f"{rows:4} rows, {batches:3} batches: {told} of {tables} good batches told of")
    return 0


if __name__ == "__main__":
    sys.exit(main())

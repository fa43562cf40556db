"""How long programs of `@avh` take to be learned and to decide, in CPU seconds; needs no data.

    python -m tests.benchmarks.avh_speed [--columns 1000]

Made-up numeric columns: 30 batches, 14 metrics, 60 variants, half of which move a few metrics.
The goal is 1,000 programs that decide on a batch within 1 s.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dqsql.decisions.avh import ColumnHistory, evaluate, fit_programs
from dqsql.model.metric_traits import NUMERIC_DISTANCES

SINGLE = ("min", "max", "mean", "median", "sum", "range", "row_count", "unique_ratio")
METRICS = (*SINGLE, "complete_ratio", *NUMERIC_DISTANCES)
BATCHES, VARIANTS = 30, 60


def column(seed: int) -> ColumnHistory:
    """A column with its history."""
    rng = np.random.default_rng(seed)
    level = np.where(np.isin(METRICS, NUMERIC_DISTANCES), 0.1, 100.0)
    level[[METRICS.index(m) for m in ("unique_ratio", "complete_ratio")]] = 0.9
    values = level * rng.lognormal(0, 0.05, size=(BATCHES, len(METRICS)))
    values[:, METRICS.index("complete_ratio")] = 1.0
    moved = rng.random((VARIANTS, len(METRICS))) < 0.2
    moved[::2] = False
    issues = values[-1] * np.where(moved, rng.lognormal(0, 1, moved.shape), 1.0)
    issues[:, METRICS.index("complete_ratio")] = 1.0
    names = tuple(f"unit_{n}" for n in range(VARIANTS))
    return ColumnHistory(f"c{seed}", METRICS, values, names, issues)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=1000)
    options = parser.parse_args()
    columns = [column(seed) for seed in range(options.columns)]
    started = time.process_time()
    programs = fit_programs(columns)
    learned = time.process_time()
    for past, program in zip(columns, programs, strict=True):
        history = dict(zip(METRICS, past.values.T, strict=True))
        evaluate(program, history, dict(zip(METRICS, past.values[-1].tolist(), strict=True)))
    decided = time.process_time()
    clauses = np.mean([len(program.clauses) for program in programs])
    print(
        f"{len(columns)} programs of {len(METRICS)} metrics, {clauses:.1f} clauses each: "
        f"learned in {learned - started:.1f} s, decided in {decided - learned:.2f} s (goal 1 s)"
    )


if __name__ == "__main__":
    main()

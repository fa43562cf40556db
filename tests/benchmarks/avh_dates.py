"""Catches and false alarms of `@avh` on made-up columns of dates and times.

    python tests/benchmarks/avh_dates.py [--columns N] [--fpr RATE]

Each kind of column is drawn N times: 30 batches of 400 rows to learn from, 30 good ones after them,
each decided with the 30 before it, and faults in the first of these. Bounds are chosen by the
variants that `@avh` injects into days since 1970-01-01, faults have seeds and forms of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from avh_issues import BOTH, inject

from dqsql.decisions.avh import AvhConfig, ColumnHistory, fit_programs
from dqsql.decisions.program import breaks

METRICS = (
    *("days_to_min", "days_to_max", "days_to_median"),
    *("row_count", "unique_ratio", "complete_ratio", "dist_val_count"),
)
ROWS, WINDOW, AFTER = 400, 30, 30
FIRST_DAY = 19_700
YEARS = (0.01, 0.1, 0.5)
Draw = Callable[[np.random.Generator, int], np.ndarray]
# Days from the batch of the rows of one batch.
KINDS: dict[str, Draw] = {
    "times of the day": lambda rng, rows: rng.uniform(0, 1, rows),
    "the day itself": lambda rng, rows: np.zeros(rows),
    "due in 20 to 30 days": lambda rng, rows: rng.integers(20, 31, rows).astype(float),
    "shipped, Poisson": lambda rng, rows: -rng.poisson(2, rows).astype(float),
    "late, exponential": lambda rng, rows: -rng.exponential(3, rows),
    "late, log-normal": lambda rng, rows: -rng.lognormal(0, 1.5, rows),
    "dates of birth": lambda rng, rows: rng.integers(-30_000, -6_500, rows).astype(float),
}
# What happens to a share of the rows.
FAULTS: dict[str, tuple[float, Callable[[np.ndarray, int], np.ndarray]]] = {
    "one 1970-01-01": (1 / ROWS, lambda days, day: np.full(days.size, float(-day))),
    "one 2099-12-31": (1 / ROWS, lambda days, day: np.full(days.size, 47_481.0 - day)),
    "one in a year": (1 / ROWS, lambda days, day: days + 365),
    "5 % a year ago": (0.05, lambda days, day: days - 365),
    "stale by 10 days": (1.0, lambda days, day: days - 10),
    "stale by a day": (1.0, lambda days, day: days - 1),
}


def metrics(days: np.ndarray) -> list[float]:
    """The metrics of one batch, of days from it; NaN are nulls."""
    kept = days[~np.isnan(days)]
    if not kept.size:
        return [np.nan] * 3 + [days.size, np.nan, 0.0, 0.0]
    distinct = np.unique(kept).size
    ends = [kept.min(), kept.max(), float(np.median(kept))]
    return [*ends, days.size, distinct / kept.size, kept.size / days.size, distinct]


def variants(days: np.ndarray, day: int, seed: int) -> tuple[tuple[str, ...], np.ndarray]:
    """What `@avh` injects, by name, and its metrics."""
    made = inject(days + day, "numeric", None, seed, BOTH)
    rng = np.random.default_rng(seed)
    for share in YEARS:
        for to, move in (("later", 365), ("earlier", -365)):
            hit = rng.random(days.size) < share
            made[f"year_{to}_{share}"] = days + day + np.where(hit, move, 0)
    for share in (0.5, 1.0):
        made[f"stale_{share}"] = days + day - np.where(rng.random(days.size) < share, 7, 0)
        made[f"late_{share}"] = days + day - np.where(rng.random(days.size) < share, 1, 0)
    return tuple(made), np.array([metrics(values - day) for values in made.values()])


def evaluate(draw: Draw, columns: int, fpr: float) -> tuple[float, list[float]]:
    """The share of good batches flagged, and of each fault."""
    histories, tested = [], []
    for column in range(columns):
        rng = np.random.default_rng([column, 11])
        sizes = rng.poisson(ROWS, WINDOW + AFTER)
        batches = [draw(rng, int(size)) for size in sizes]
        measured = np.array([metrics(days) for days in batches])
        for start in range(AFTER):
            newest = start + WINDOW - 1
            names, issues = variants(batches[newest], FIRST_DAY + newest, column)
            past = measured[start : start + WINDOW]
            histories.append(ColumnHistory("c", METRICS, past, names, issues))
            news = [measured[start + WINDOW]]
            if not start:
                news += _faulty(rng, batches[WINDOW], FIRST_DAY + WINDOW)
            tested.append(np.array(news))
    alarms, caught = 0, np.zeros(len(FAULTS))
    programs = fit_programs(histories, AvhConfig(fpr=fpr))
    for program, history, news in zip(programs, histories, tested, strict=True):
        before = dict(zip(METRICS, history.values.T, strict=True))
        flagged = breaks(program, before, dict(zip(METRICS, news.T, strict=True)), len(news))
        alarms += int(flagged[0])
        if len(news) > 1:
            caught += flagged[1:]
    return alarms / len(histories), list(caught / columns)


def _faulty(rng: np.random.Generator, days: np.ndarray, day: int) -> list[list[float]]:
    made = []
    for share, change in FAULTS.values():
        hit = rng.permutation(days.size) < max(1, round(share * days.size))
        made.append(metrics(np.where(hit, change(days, day), days)))
    return made


def main() -> None:
    """Print a line for each kind of column."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--fpr", type=float, default=0.01)
    arguments = parser.parse_args()
    print(f"fpr {arguments.fpr:g}: false alarms; caught: {', '.join(FAULTS)}")
    for name, draw in KINDS.items():
        alarms, caught = evaluate(draw, arguments.columns, arguments.fpr)
        print(f"{name:22}{alarms:8.4f}  " + "  ".join(f"{c:5.2f}" for c in caught), flush=True)


if __name__ == "__main__":
    main()

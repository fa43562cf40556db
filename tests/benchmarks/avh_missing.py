"""Catches and false alarms of the bounds on missing values, by share before, share after and rows.

    python tests/benchmarks/avh_missing.py [--columns N] [--fpr RATE]

Each cell draws N columns: 30 batches with a share of nulls (NaN, infinite or empty text: the same
model), a next good batch and a bad one. `varying` shares follow a Beta distribution with an
over-dispersion of 0.01. The bounds are those of `@avh` with `bounds => 'calibrated'`.
"""

from __future__ import annotations

import argparse

import numpy as np

from dqsql.decisions.avh import ColumnHistory
from dqsql.decisions.completeness import BUDGET_SHARE, clauses_of
from dqsql.decisions.program import outside

KINDS = {"null": "complete_ratio", "NaN": "nan_ratio", "empty": "empty_ratio"}
BEFORE = (0.0, 0.02, 0.1, 0.3)
RISES = (0.01, 0.05, 0.1, 0.2, 0.5)
ROWS = (100, 400, 4000)
BATCHES = (8, 30)
OVERDISPERSION = 0.01


def shares(draw: np.random.Generator, mean: float, size: int, varying: bool) -> np.ndarray:
    if not varying or mean == 0.0:
        return np.full(size, mean)
    precision = 1 / OVERDISPERSION - 1
    return draw.beta(mean * precision, (1 - mean) * precision, size)


def cell(
    kind: str, before: float, rows: int, batches: int, columns: int, fpr: float, varying: bool
) -> tuple[float, list[float]]:
    """Return the share of good batches flagged, and of bad ones by rise."""
    metric = KINDS[kind]
    # As in a column of floats or of texts, where other shares have a part of the budget.
    others = [m for m in KINDS.values() if m not in (metric, "complete_ratio")][:1]
    names = ("row_count", "complete_ratio", *([] if metric == "complete_ratio" else [metric]))
    names = tuple(dict.fromkeys((*names, *others)))
    alarms, caught = 0, np.zeros(len(RISES))
    for seed in range(columns):
        draw = np.random.default_rng((seed, rows, batches, int(1000 * before)))
        latent = shares(draw, before, batches + 1, varying)
        counts = draw.binomial(rows, latent) / rows
        worse = np.minimum(1.0, latent[-1] + np.array(RISES))
        news = np.concatenate([counts[-1:], draw.binomial(rows, worse) / rows])
        sign = (lambda s: 1 - s) if metric == "complete_ratio" else (lambda s: s)
        values = np.zeros((batches, len(names)))
        values[:, 0] = rows
        values[:, names.index("complete_ratio")] = 1.0
        values[:, names.index(metric)] = sign(counts[:-1])
        history = ColumnHistory("c", names, values, (), np.zeros((0, len(names))))
        flagged = np.zeros(len(news), dtype=bool)
        for clause in clauses_of(history, fpr * BUDGET_SHARE, 8):
            if clause.metric == metric:
                flagged |= outside(clause, sign(news), np.full(len(news), float(rows)))[0]
        alarms += int(flagged[0])
        caught += flagged[1:]
    return alarms / columns, list(caught / columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--fpr", type=float, default=0.01)
    arguments = parser.parse_args()
    rises = "  ".join(f"+{100 * r:.0f} %".rjust(6) for r in RISES)
    print(
        f"fpr {arguments.fpr:g}: kind, shares, before, rows, batches: false alarms; caught {rises}"
    )
    for varying in (False, True):
        for kind in KINDS:
            if varying and kind != "null":
                continue
            for before in BEFORE[1:] if varying else BEFORE:
                for rows in ROWS:
                    for batches in BATCHES:
                        alarms, caught = cell(
                            kind, before, rows, batches, arguments.columns, arguments.fpr, varying
                        )
                        told = "  ".join(f"{c:6.2f}" for c in caught)
                        print(
                            f"{kind:6}{'varying' if varying else 'steady':8}{before:5.2f}"
                            f"{rows:6}{batches:4}  {alarms:.3f}  {told}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()

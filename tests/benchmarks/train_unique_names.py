"""Trains the classifier of unique columns' names, and says how good it is.

    python -m tests.benchmarks.train_unique_names SCHEMAS.csv [--evaluate] [--write]

The CSV has the columns project, table, column, type, is_unique (0 or 1), with the columns of a
table in order. `--evaluate` prints the area under the ROC curve, by random
5-fold cross-validation and by leaving out one project at a time; `--write` trains on everything
and writes the weights.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, StratifiedKFold

from dqsql.suggestions.names import BUCKETS, WEIGHTS_FILE, ColumnName, features, hashed

SEED = 0
STRENGTH = 2.0


def read_rows(path: Path) -> tuple[list[ColumnName], npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    """The columns, whether each is unique, and the project of each."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    tables: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        tables[(row["project"], row["table"])].append(row["column"])
    names = [
        ColumnName(r["table"], r["column"], r["type"], tuple(tables[(r["project"], r["table"])]))
        for r in rows
    ]
    labels = np.array([int(r["is_unique"]) for r in rows])
    return names, labels, np.array([r["project"] for r in rows])


def matrix(names: Iterable[ColumnName]) -> csr_matrix:
    """One row a column, scaled to length 1."""
    rows = [hashed(features(name)) for name in names]
    ends = np.cumsum([0, *(len(r) for r in rows)])
    values = np.concatenate([np.full(len(r), 1 / np.sqrt(len(r))) for r in rows])
    return csr_matrix((values, np.concatenate(rows), ends), shape=(len(rows), BUCKETS))


def model() -> LogisticRegression:
    """L1, as in the paper: few weights are not 0, and the file stays small."""
    return LogisticRegression(
        C=STRENGTH, l1_ratio=1.0, solver="liblinear", tol=1e-3, random_state=SEED, max_iter=300
    )


def cross_validated(
    x: csr_matrix, y: npt.NDArray[np.int64], splits: Iterable[tuple[np.ndarray, np.ndarray]]
) -> float:
    """The area under the ROC curve of all left-out predictions together."""
    scores = np.zeros(len(y))
    for train, test in splits:
        scores[test] = model().fit(x[train], y[train]).predict_proba(x[test])[:, 1]
    return float(roc_auc_score(y, scores))


def evaluate(x: csr_matrix, y: npt.NDArray[np.int64], projects: npt.NDArray[np.str_]) -> None:
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED).split(x, y)
    print(f"random 5-fold AUC              {cross_validated(x, y, folds):.4f}", flush=True)
    left_out = LeaveOneGroupOut().split(x, y, projects)
    print(f"leave-one-project-out AUC      {cross_validated(x, y, left_out):.4f}", flush=True)


def write(x: csr_matrix, y: npt.NDArray[np.int64], path: Path) -> None:
    fitted = model().fit(x, y)
    weights = np.round(fitted.coef_[0], 3)
    index = np.flatnonzero(weights)
    record = {
        "buckets": BUCKETS,
        "intercept": round(float(fitted.intercept_[0]), 4),
        "index": index.tolist(),
        "weight": weights[index].tolist(),
    }
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{len(index):,} weights, {path.stat().st_size:,} bytes: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--output", type=Path, default=WEIGHTS_FILE)
    arguments = parser.parse_args()
    names, y, projects = read_rows(arguments.schemas)
    print(f"{len(names):,} columns of {len(set(projects)):,} projects, {y.sum():,} unique")
    x = matrix(names)
    if arguments.evaluate:
        evaluate(x, y, projects)
    if arguments.write:
        write(x, y, arguments.output)


if __name__ == "__main__":
    main()

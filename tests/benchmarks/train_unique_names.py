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
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, vstack
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


@dataclass(frozen=True)
class Examples:
    """Columns with their features, once in the table's order and once without any order."""

    ordered: csr_matrix
    unordered: csr_matrix
    labels: npt.NDArray[np.int64]
    projects: npt.NDArray[np.str_]

    def fitted(self, rows: npt.NDArray[np.int64]) -> LogisticRegression:
        """A model of some of the columns, which it sees in both ways."""
        x = vstack([self.ordered[rows], self.unordered[rows]])
        return model().fit(x, np.concatenate([self.labels[rows]] * 2))


def read_examples(path: Path) -> Examples:
    """Read the CSV and compute the features."""
    names, labels, projects = read_rows(path)
    unordered = (replace(name, ordered=False) for name in names)
    return Examples(matrix(names), matrix(unordered), labels, projects)


def cross_validated(
    examples: Examples, splits: Iterable[tuple[np.ndarray, np.ndarray]]
) -> tuple[float, float]:
    """The areas under the ROC curve of all left-out predictions, with and without the order."""
    scores = np.zeros((2, len(examples.labels)))
    for train, test in splits:
        fitted = examples.fitted(train)
        for i, x in enumerate((examples.ordered, examples.unordered)):
            scores[i, test] = fitted.predict_proba(x[test])[:, 1]
    known, unknown = (float(roc_auc_score(examples.labels, s)) for s in scores)
    return known, unknown


def evaluate(examples: Examples) -> None:
    y = examples.labels
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED).split(y, y)
    left_out = LeaveOneGroupOut().split(y, y, examples.projects)
    for what, splits in (("random 5-fold", folds), ("leave one project out", left_out)):
        known, unknown = cross_validated(examples, splits)
        print(f"{what:24} AUC {known:.4f}, without order {unknown:.4f}", flush=True)


def write(examples: Examples, path: Path) -> None:
    fitted = examples.fitted(np.arange(len(examples.labels)))
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
    examples = read_examples(arguments.schemas)
    y, projects = examples.labels, examples.projects
    print(f"{len(y):,} columns of {len(set(projects)):,} projects, {y.sum():,} unique", flush=True)
    if arguments.write:
        write(examples, arguments.output)
    if arguments.evaluate:
        evaluate(examples)


if __name__ == "__main__":
    main()

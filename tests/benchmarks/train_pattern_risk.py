"""Train the model of the risk of a false alarm that `@pattern` ships with.

    python -m tests.benchmarks.train_pattern_risk --data FOLDER [--write]

FOLDER (or the environment variable DQSQL_EVAL_DATA) holds `patterns/corpus_columns.parquet` and the
benches. Each column of the corpus that is no query column of a bench is rehearsed: cut after some
rows, each level of the ladder learned from the first part, and judged on the rest. Precision and
recall on the benches are cross-validated by source: the trees that judge a column have seen no
column of its source. The model that is written has seen the whole corpus, never a query column.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from dqsql.patterns.ladder import LEVELS, Ladder
from dqsql.patterns.regex import matches
from dqsql.patterns.risk import RISK_MODEL, RiskModel, features, load_model
from dqsql.patterns.validate import alarm_threshold

TREES, LEAVES, SEED = 60, 15, 2021
#: `@pattern` is for texts; of the columns of numbers this share is rehearsed.
_NUMERIC_SHARE = 0.2
_LARGE_SOURCE = 0.04
_NUMERIC_WEIGHT = 0.5
_POWER_COLUMNS, _POWER_TRAIN, _POWER_TEST = 120, 100, 60

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rehearsals:
    """Features, shape (rehearsals, levels, features); alarms, sources and weights of each."""

    features: Array
    alarms: Array
    sources: Array
    weights: Array


def corpus(folder: Path) -> Iterator[tuple[str, list[str], bool]]:
    """Yield source, values and whether they are numbers of each column that no bench holds."""
    held: set[str] = set()
    for bench in sorted(folder.glob("bench_*.jsonl")):
        with bench.open(encoding="utf-8") as lines:
            held.update(json.loads(line)["id"] for line in lines)
    names = ["id", "source", "values", "numeric"]
    for batch in pq.ParquetFile(folder / "corpus_columns.parquet").iter_batches(500, columns=names):
        for row in batch.to_pylist():
            if row["id"] not in held:
                values = [value for value in row["values"] if value is not None]
                yield row["source"], values, row["numeric"] > 0.5


def cuts(rows: int) -> list[tuple[int, int]]:
    """Return how a column is rehearsed: rows used, and rows to learn from."""
    if rows < 40:
        return []
    if rows >= 1_000:
        return [(1_000, 100), (100, 10), (1_000, 30), (1_000, 300)]
    plan = [(rows, max(10, rows // 10))]
    if rows >= 60:
        plan.append((rows, max(10, rows // 3)))
    if rows > 200:
        plan.append((100, 10))
    return plan


def rehearse(values: Sequence[str], train: int) -> tuple[Array, Array]:
    """Return the features of the first `train` values, and at which levels the rest alarms."""
    times = Ladder(values).accepted_from()
    rest = len(values) - train
    missed = (times[:, train:] >= train).sum(axis=1)
    first = Ladder(values[:train])
    return features(first, times[:, :train]), missed >= alarm_threshold(0, train, rest)


def rehearsals(folder: Path) -> Rehearsals:
    """Rehearse the corpus; the result is kept beside the model for the next run of this script."""
    rng = np.random.default_rng(SEED)
    rows: list[tuple[Array, Array, str, float]] = []
    for source, values, numeric in corpus(folder):
        if numeric and rng.random() > _NUMERIC_SHARE:
            continue
        for used, train in cuts(len(values)):
            table, alarms = rehearse(values[:used], train)
            rows.append((table, alarms, source, _NUMERIC_WEIGHT if numeric else 1.0))
    tables, alarms, sources, weights = zip(*rows, strict=True)
    return Rehearsals(
        np.array(tables, dtype=np.float32), np.array(alarms), np.array(sources), np.array(weights)
    )


def fit(data: Rehearsals, chosen: Array) -> dict[str, Any]:
    """Fit trees to some rehearsals; return base, depth and trees as they are stored."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    levels = len(LEVELS)
    classifier = HistGradientBoostingClassifier(
        max_leaf_nodes=LEAVES, max_iter=TREES, learning_rate=0.1, min_samples_leaf=100,
        l2_regularization=5, early_stopping=False, random_state=SEED,
    )  # fmt: skip
    classifier.fit(
        data.features[chosen].reshape(-1, data.features.shape[2]),
        data.alarms[chosen].ravel(),
        sample_weight=np.repeat(data.weights[chosen], levels),
    )
    trees = [predictors[0].nodes for predictors in classifier._predictors]
    return {
        "base": round(float(classifier._baseline_prediction[0, 0]), 5),
        "depth": int(max(tree["depth"].max() for tree in trees)),
        "trees": [[_node(tree, number) for number in range(len(tree))] for tree in trees],
    }


def _node(tree: Array, number: int) -> list[float]:
    node = tree[number]
    if node["is_leaf"]:
        return [0, 0, number, number, round(float(node["value"]), 4)]
    threshold = float(f"{node['num_threshold']:.6g}")
    return [int(node["feature_idx"]), threshold, int(node["left"]), int(node["right"]), 0]


def power(folder: Path) -> list[float]:
    """Return for each level the share of other columns of the corpus that its rules flag."""
    texts = [values for _, values, numeric in corpus(folder) if not numeric and len(values) >= 200]
    rng = np.random.default_rng(SEED)
    chosen = [texts[i] for i in rng.choice(len(texts), _POWER_COLUMNS, replace=False)]
    others = [rng.choice(values, _POWER_TEST).tolist() for values in chosen]
    limit = alarm_threshold(0, _POWER_TRAIN, _POWER_TEST)
    shares = []
    for level in LEVELS:
        flagged, pairs = 0, 0
        for own, values in enumerate(chosen):
            pattern = Ladder(values[:_POWER_TRAIN]).pattern(level)
            if pattern is None:
                continue
            for other, test in enumerate(others):
                if other != own:
                    flagged += sum(not matches(pattern, value) for value in test) >= limit
                    pairs += 1
        shares.append(round(flagged / pairs, 3))
    return shares


def folds(sources: Array) -> list[list[str]]:
    """Return the sources by fold: the large ones alone, the small ones together."""
    names, counts = np.unique(sources, return_counts=True)
    large = counts >= _LARGE_SOURCE * len(sources)
    return [[str(name)] for name in names[large]] + [list(map(str, names[~large]))]


def model_of(fitted: dict[str, Any], powers: list[float]) -> dict[str, Any]:
    """Return the content of the model's file."""
    return {"levels": list(LEVELS), "power": powers, **fitted}


def write(content: dict[str, Any], file: Path) -> RiskModel:
    """Write a model, and read it back."""
    file.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    return load_model(file)


def main(arguments: list[str] | None = None) -> int:
    """Train; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default=os.environ.get("DQSQL_EVAL_DATA"))
    parser.add_argument("--write", action="store_true", help="replace the model that ships")
    parser.add_argument("--folds", help="folder for a model that has not seen a source, for each")
    options = parser.parse_args(arguments)
    if not options.data or not (Path(options.data) / "patterns").is_dir():
        print("skipped: no evaluation data (give --data or set DQSQL_EVAL_DATA)")
        return 0
    folder = Path(options.data) / "patterns"
    data = rehearsals(folder)
    powers = power(folder)
    print(f"{len(data.alarms)} rehearsals; power {dict(zip(LEVELS, powers, strict=True))}")
    print(f"share of alarms {dict(zip(LEVELS, data.alarms.mean(axis=0).round(3), strict=True))}")
    if options.folds:
        for left_out in folds(data.sources):
            fitted = fit(data, ~np.isin(data.sources, left_out))
            for source in left_out:
                write(model_of(fitted, powers), Path(options.folds) / f"{source}.json")
    if options.write:
        everything = np.ones(len(data.alarms), dtype=bool)
        write(model_of(fit(data, everything), powers), RISK_MODEL)
        print(f"{RISK_MODEL}: {RISK_MODEL.stat().st_size / 1_000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

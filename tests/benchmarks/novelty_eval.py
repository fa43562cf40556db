"""Evaluation of the novelty detector, after Redyuk et al. (EDBT 2021), section 5.

    DQSQL_EVAL_DATA=... python tests/benchmarks/novelty_eval.py [--quick] [--json FILE]

Every batch from the eighth on is decided with all clean batches before it as history: its clean
version, and its corrupted ones. Figures are in the paper's convention: TP = erroneous and flagged,
FP = erroneous and missed, FN = clean and flagged, TN = clean and accepted; ROC AUC of the labels =
(TP / (TP + FP) + TN / (FN + TN)) / 2.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dqsql.decisions.novelty import decide_novelty
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, novelty_config
from tests.benchmarks.novelty_data import FBPOSTS, Partitions, data_folder, fbposts, online_retail
from tests.benchmarks.novelty_errors import inject, inject_pair

# The partition to start with, and so the number of batches before it (the first is number 1).
START = 7
SHARES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MODES: dict[str, dict[str, object]] = {
    "paper": {"mode": "paper"},
    "paper, adaptive": {"mode": "paper", "adaptive_contamination": True},
    "default": {},
    "fpr 0.02": {"fpr": 0.02},
    "fpr 0.01": {"fpr": 0.01},
}
DETECTORS = ("lof", "isolation_forest", "one_class_svm", "hbos", "abod")
TARGETS = (
    *(("explicit missing", c) for c in ("CustomerID", "Description", "Quantity", "UnitPrice")),
    *(("implicit missing", c) for c in ("CustomerID", "Description", "Quantity", "UnitPrice")),
    ("numeric anomalies", "Quantity"),
    ("numeric anomalies", "UnitPrice"),
    ("swapped numeric", "Quantity/UnitPrice"),
    ("swapped text", "Country/CustomerID"),
    ("swapped text", "StockCode/Description"),
    ("typos", "Country"),
    ("typos", "Description"),
    ("typos", "StockCode"),
)
# Kinds that strike a single column can be combined in it.
PAIRED = {
    "Quantity": ("explicit missing", "implicit missing", "numeric anomalies"),
    "Description": ("explicit missing", "implicit missing", "typos"),
}


@dataclass(frozen=True)
class Confusion:
    """Counts in the paper's convention."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def auc(self) -> float:
        """ROC AUC of the labels."""
        return (self.tp / (self.tp + self.fp) + self.tn / (self.fn + self.tn)) / 2

    def __str__(self) -> str:
        return f"AUC {self.auc:.3f}  TP {self.tp} FP {self.fp} FN {self.fn} TN {self.tn}"


def confusion(clean: np.ndarray, dirty: np.ndarray) -> Confusion:
    """Counts from what was flagged of the clean and of the dirty batches."""
    return Confusion(int(dirty.sum()), int((~dirty).sum()), int(clean.sum()), int((~clean).sum()))


def flags(
    features: Sequence[Feature], clean: np.ndarray, tested: np.ndarray, config: NoveltyConfig
) -> np.ndarray:
    """Per batch from START on, whether its tested version is flagged, given the clean history."""
    other = "most_frequent_ratio" if config.mode == "paper" else "most_frequent_share"
    mine = [i for i, feature in enumerate(features) if feature.metric != other]
    watched, past, now = [features[i] for i in mine], clean[:, mine], tested[:, mine]
    return np.array(
        [
            decide_novelty(watched, past[:t], now[t], config).status == "anomalous"
            for t in range(max(START, config.min_history), len(clean))
        ]
    )


def settings(options: dict[str, object]) -> NoveltyConfig:
    """A mode's settings, with a history as short as the protocol's first."""
    return novelty_config(**{"min_history": START, **options})


def evaluate_fbposts(folder: Path, modes: dict[str, dict[str, object]]) -> Iterable[dict[str, Any]]:
    """FBPosts: real errors."""
    for label, kinds in FBPOSTS.items():
        clean, dirty = fbposts(folder, kinds)
        good, bad, features = clean.metrics(), dirty.metrics(), clean.features
        for mode, options in modes.items():
            config = settings(options)
            found = confusion(
                flags(features, good, good, config), flags(features, good, bad, config)
            )
            print(f"fbposts, {label:20} {mode:16} {found}", flush=True)
            yield {"data": "fbposts", "attributes": label, "mode": mode, **_row(found)}


def corrupted(
    parts: Partitions, rows: np.ndarray, kind: str, name: str, share: float
) -> np.ndarray:
    """Metrics of all batches after an injection of one kind, K x F."""
    rng = np.random.default_rng([7, round(100 * share)])
    return np.array(
        [
            parts.replaced(row, inject(batch, kind, name, share, rng))
            for row, batch in zip(rows, parts.batches, strict=True)
        ]
    )


def corrupted_twice(
    parts: Partitions, rows: np.ndarray, kinds: tuple[str, str], name: str, share: float
) -> np.ndarray:
    """Metrics of all batches after a pair of injections into one column, K x F."""
    rng = np.random.default_rng(11)
    return np.array(
        [
            parts.replaced(row, inject_pair(batch, kinds, name, share, rng))
            for row, batch in zip(rows, parts.batches, strict=True)
        ]
    )


def evaluate_retail(
    parts: Partitions, modes: dict[str, dict[str, object]], shares: Sequence[float]
) -> Iterable[dict[str, Any]]:
    """Online Retail: injected errors by kind and magnitude, pairs of them, quality over time."""
    rows, features = parts.metrics(), parts.features
    configs = {mode: novelty_config(**options) for mode, options in modes.items()}
    clean = {mode: flags(features, rows, rows, c) for mode, c in configs.items()}
    for mode, flagged in clean.items():
        print(f"online retail, clean: {mode:16} {flagged.sum()} of {flagged.size} flagged")
    single: dict[tuple[str, str, str], float] = {}
    monthly: dict[tuple[str, str], list[np.ndarray]] = {}
    for kind, name in TARGETS:
        for share in shares:
            bad = corrupted(parts, rows, kind, name, share)
            for mode, config in configs.items():
                flagged = flags(features, rows, bad, config)
                found = confusion(clean[mode], flagged)
                monthly.setdefault((mode, kind), []).append(flagged)
                if share == 0.5:
                    single[mode, kind, name] = found.auc
                yield {
                    "data": "online retail",
                    "kind": kind,
                    "column": name,
                    "share": share,
                    "mode": mode,
                    **_row(found),
                }
    yield from _over_time(parts.names, clean, monthly)
    yield from _pairs(parts, rows, configs, clean, single)


def _over_time(
    names: Sequence[str],
    clean: dict[str, np.ndarray],
    monthly: dict[tuple[str, str], list[np.ndarray]],
) -> Iterable[dict[str, Any]]:
    """Section 5.5: per kind of error and month, over all magnitudes and columns."""
    for (mode, kind), flagged in monthly.items():
        good, bad = clean[mode], np.array(flagged)
        months = np.array([name[:7] for name in names[-good.size :]])
        for month in np.unique(months):
            here = months == month
            found = confusion(np.tile(good[here], len(bad)), bad[:, here].ravel())
            yield {"data": "over time", "kind": kind, "month": month, "mode": mode, **_row(found)}


def _pairs(
    parts: Partitions,
    rows: np.ndarray,
    configs: dict[str, NoveltyConfig],
    clean: dict[str, np.ndarray],
    single: dict[tuple[str, str, str], float],
) -> Iterable[dict[str, Any]]:
    """Section 5.4: pairs of errors at 50 % against the better of the two alone."""
    for name, kinds in PAIRED.items():
        for pair in itertools.permutations(kinds, 2):
            bad = corrupted_twice(parts, rows, (pair[0], pair[1]), name, 0.5)
            for mode, config in configs.items():
                found = confusion(clean[mode], flags(parts.features, rows, bad, config))
                alone = [single[mode, kind, name] for kind in pair if (mode, kind, name) in single]
                yield {
                    "data": "pairs",
                    "kind": " + ".join(pair),
                    "column": name,
                    "mode": mode,
                    "best_alone": max(alone, default=None),
                    **_row(found),
                }


def _row(found: Confusion) -> dict[str, Any]:
    return {"auc": found.auc, "tp": found.tp, "fp": found.fp, "fn": found.fn, "tn": found.tn}


def report_retail(rows: Sequence[dict[str, Any]], modes: Iterable[str]) -> None:
    """Tables of the injected errors."""
    for mode in modes:
        mine = [r for r in rows if r["mode"] == mode]
        print(f"\nonline retail, {mode}: ROC AUC by share of corrupted rows")
        table: dict[tuple[str, str], list[str]] = {}
        for r in (r for r in mine if r["data"] == "online retail"):
            cell = f"{r['share']:.0%} {r['auc']:.2f}"
            table.setdefault((r["kind"], r["column"]), []).append(cell)
        for (kind, column), cells in table.items():
            print(f"  {kind:18} {column:22} {'  '.join(cells)}")
        every = [r["auc"] for r in mine if r["data"] == "online retail"]
        print(f"  mean over all {len(every)} cells: {np.mean(every):.3f}")
        pairs = [r for r in mine if r["data"] == "pairs" and r["best_alone"] is not None]
        if pairs:
            error = np.mean([(r["auc"] - r["best_alone"]) ** 2 for r in pairs])
            print(f"  pairs at 50 %: mean squared difference to the better alone {error:.4f}")
        months: dict[str, list[float]] = {}
        for r in (r for r in mine if r["data"] == "over time"):
            months.setdefault(r["month"], []).append(r["auc"])
        over = "  ".join(f"{month} {np.mean(aucs):.2f}" for month, aucs in sorted(months.items()))
        print(f"  over time, mean over kinds: {over}")


def with_pyod(modes: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The modes and, if the extra is installed, the paper's other detectors."""
    try:
        import pyod  # noqa: F401
    except ImportError:
        print("the extra 'novelty' is not installed: kNN only")
        return modes
    return modes | {name: {"detector": name} for name in DETECTORS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation; 0 also if the data are absent, with a word about it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder with the evaluation data")
    parser.add_argument("--quick", action="store_true", help="three magnitudes, 100 days")
    parser.add_argument("--json", type=Path, help="write all figures to a file")
    options = parser.parse_args(arguments)
    folder = data_folder(options.data)
    if folder is None:
        print("skipped: no evaluation data; set DQSQL_EVAL_DATA to the folder that has novelty/")
        return 0
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    rows = list(evaluate_fbposts(folder, with_pyod(MODES)))
    parts = online_retail(folder, 100 if options.quick else None)
    shares = (0.01, 0.2, 0.5) if options.quick else SHARES
    rows += evaluate_retail(parts, MODES, shares)
    report_retail(rows, MODES)
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Evaluation of AVH on real column sequences with injected issues (KDD 2023, section 5).

    python tests/benchmarks/avh_eval.py FOLDER [--quick | --rates] [--json FILE]

FOLDER (or DQSQL_EVAL_DATA) holds `avh/sequences_{numeric,categorical}.parquet`. False positives:
30 sliding windows of 30 batches, each held against the real next batch. Recall: the first window
against the injected variants of batch 30. With --rates, promised and realised rates of each source
by itself, also without what really happened (avh_events.py). Without data it says SKIPPED and
exits 0.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from avh_data import KINDS, data_folder, load_sequences
from avh_events import batch_labels, events
from avh_metrics import METRICS, WINDOW, Traced, cache_key, trace
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from dqsql.decisions.avh import AvhConfig, ColumnHistory, fit_programs
from dqsql.decisions.program import Program
from dqsql.decisions.program import breaks as breaks_program

REFIT_EVERY = 5
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Row:
    """One line of the report; rates in [0, 1], precision and F1 micro-averaged."""

    kind: str
    method: str
    false_positive_rate: float
    recall: float
    precision: float
    f1: float
    clauses: float = 0.0


def row(kind: str, method: str, alarms: np.ndarray, hits: np.ndarray, clauses: float = 0) -> Row:
    true, false = hits.sum(), alarms.sum()
    precision = float(true / max(1, true + false))
    recall = float(hits.mean())
    f1 = 2 * precision * recall / max(1e-12, precision + recall)
    return Row(kind, method, float(alarms.mean()), recall, precision, f1, clauses)


def traces(folder: Path, kind: str) -> list[Traced]:
    """Return the traced sequences, from the cache where it is fresh."""
    data = folder / "avh" / f"sequences_{kind}.parquet"
    stat = data.stat()
    key = cache_key(kind, data, stat.st_size, stat.st_mtime_ns, REFIT_EVERY)
    path = Path(tempfile.gettempdir()) / f"dqsql_avh_{key}.pickle"
    if path.exists():
        loaded: list[Traced] = pickle.loads(path.read_bytes())
        return loaded
    sequences = load_sequences(folder, kind)
    made = [
        trace(s, sequences[s.neighbor] if s.neighbor else None, kind, REFIT_EVERY)
        for s in sequences.values()
    ]
    path.write_bytes(pickle.dumps(made))
    return made


def breaks(program: Program, history: np.ndarray, new: np.ndarray, kind: str) -> np.ndarray:
    """Return which rows of `new` (n x metrics) break the program."""
    names = METRICS[kind]
    past, now = (dict(zip(names, values.T, strict=True)) for values in (history, new))
    return breaks_program(program, past, now, len(new))


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions of AVH: alarms on good batches by column (columns x batches), hits on issues."""

    alarms: np.ndarray
    hits: list[np.ndarray]
    clauses: float


def decide(sequences: list[Traced], kind: str, config: AvhConfig, history: int = WINDOW) -> Decided:
    windows = []
    for traced in sequences:
        for start in range(len(traced.values) - WINDOW):
            names, variants = traced.training[start - start % REFIT_EVERY]
            past = traced.values[start + WINDOW - history : start + WINDOW]
            windows.append(
                (traced, start, ColumnHistory(traced.seq_id, METRICS[kind], past, names, variants))
            )
    programs = fit_programs([window[2] for window in windows], config)
    alarms, hits = [], []
    for (traced, start, past), program in zip(windows, programs, strict=True):
        new = traced.values[start + WINDOW : start + WINDOW + 1]
        alarms.append(breaks(program, past.values, new, kind))
        if start == 0:
            hits.append(breaks(program, past.values, traced.tests, kind))
    clauses = float(np.mean([len(program.clauses) for program in programs]))
    return Decided(np.concatenate(alarms).reshape(len(sequences), -1), hits, clauses)


def evaluate_avh(
    sequences: list[Traced], kind: str, name: str, config: AvhConfig, history: int = WINDOW
) -> Row:
    found = decide(sequences, kind, config, history)
    return row(kind, name, found.alarms.ravel(), np.concatenate(found.hits), found.clauses)


def report_rates(folder: Path) -> list[Row]:
    """Promised and realised rates, and recall, of all columns and of each source."""
    rows: list[Row] = []
    for kind in KINDS:
        data, labels = traces(folder, kind), batch_labels(folder, kind)
        happened = np.stack([events(t, kind, labels[t.seq_id])[WINDOW:] for t in data])
        sources = np.array([traced.source for traced in data])
        for fpr in (0.001, 0.003, 0.01, 0.1):
            found = decide(data, kind, AvhConfig(fpr=fpr))
            for source in ("all", *sorted(set(sources))):
                mine = (sources == source) | (source == "all")
                alarms, good = found.alarms[mine], found.alarms[mine] & ~happened[mine]
                hits = np.concatenate([h for h, use in zip(found.hits, mine, strict=True) if use])
                rows.append(row(kind, f"{source}, fpr {fpr:g}", alarms.ravel(), hits))
                print(
                    f"{kind:12}{source:14}promised {fpr:<6g}realised {alarms.mean():.2%} "
                    f"({alarms.sum()} of {alarms.size}), without events {good.mean():.2%} "
                    f"({good.sum()})  recall {hits.mean():.3f}",
                    flush=True,
                )
    return rows


def three_sigma(history: np.ndarray, new: np.ndarray) -> np.ndarray:
    center, spread = history.mean(axis=0), history.std(axis=0, ddof=1)
    away = np.abs(new - center)
    away = np.where(away <= 1e-9 * np.maximum(1, np.abs(center)), 0.0, away)
    return np.asarray((away / np.maximum(spread, 1e-12)).max(axis=1))


def k_neighbors(history: np.ndarray, new: np.ndarray) -> np.ndarray:
    model = NearestNeighbors(n_neighbors=5).fit(history)
    return np.asarray(model.kneighbors(new)[0].mean(axis=1))


def local_outlier_factor(history: np.ndarray, new: np.ndarray) -> np.ndarray:
    model = LocalOutlierFactor(n_neighbors=5, novelty=True).fit(history)
    return np.asarray(-model.score_samples(new))


def isolation_forest(history: np.ndarray, new: np.ndarray) -> np.ndarray:
    model = IsolationForest(n_estimators=30, random_state=0).fit(history)
    return np.asarray(-model.score_samples(new))


BASELINES: dict[str, Scorer] = {
    "k sigma": three_sigma,
    "average kNN": k_neighbors,
    "LOF": local_outlier_factor,
    "isolation forest": isolation_forest,
}


def evaluate_baseline(
    sequences: list[Traced], kind: str, name: str, rates: tuple[float, ...]
) -> list[Row]:
    """Return the baseline at thresholds that realise the given false-positive rates.

    The threshold is set with hindsight, on the evaluated batches: the best it can do at that rate.
    """
    scorer = BASELINES[name]
    on_good, on_bad = [], []
    for traced in sequences:
        for start in range(len(traced.values) - WINDOW):
            past = traced.values[start : start + WINDOW]
            news = traced.values[start + WINDOW : start + WINDOW + 1]
            if start == 0:
                news = np.concatenate([news, traced.tests])
            past, news = _scaled(past, news)
            scores = scorer(past, news)
            on_good.append(scores[0])
            if start == 0:
                on_bad.append(scores[1:])
    good, bad = np.array(on_good), np.concatenate(on_bad)
    rows = []
    for rate in rates:
        threshold = np.sort(good)[::-1][int(rate * good.size)]
        rows.append(row(kind, f"{name} at FPR {rate:g}", good > threshold, bad > threshold))
    return rows


def _scaled(history: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale to [0, 1] on history; a missing metric or a break of a constant is far away."""
    history = np.where(np.isnan(history), np.nanmedian(history, axis=0), history)
    low, high = history.min(axis=0), history.max(axis=0)
    width = np.where(high > low, high - low, np.maximum(1e-9, np.abs(low)) * 0.01)
    scaled = np.clip(np.nan_to_num((new - low) / width, nan=1e3), -1e3, 1e3)
    return (history - low) / width, scaled


def report(folder: Path, quick: bool) -> list[Row]:
    rows: list[Row] = []

    def add(*made: Row) -> None:
        for line in made:
            rows.append(line)
            print(
                f"{line.kind:12}{line.method:36}FPR {line.false_positive_rate:.4f}  "
                f"recall {line.recall:.4f}  precision {line.precision:.4f}  F1 {line.f1:.4f}  "
                f"clauses {line.clauses:.1f}",
                flush=True,
            )

    for kind in KINDS:
        data = traces(folder, kind)
        for bounds in ("paper", "calibrated"):
            for fpr in (0.01, 0.05) if quick else (0.001, 0.01, 0.05, 0.1):
                config = AvhConfig(fpr=fpr, bounds=bounds)  # type: ignore[arg-type]
                add(evaluate_avh(data, kind, f"{bounds}, fpr {fpr:g}", config))
        for bounds in ("paper", "calibrated"):
            config = AvhConfig(bounds=bounds, stationarity=False)  # type: ignore[arg-type]
            add(evaluate_avh(data, kind, f"{bounds}, 0.01, no stationarity", config))
        if quick:
            continue
        add(evaluate_avh(data, kind, "0.01, single only", AvhConfig(two_distribution=False)))
        for limit in (1, 3):
            add(evaluate_avh(data, kind, f"0.01, {limit} clauses", AvhConfig(max_clauses=limit)))
        for length in (7, 14, 21, 28):
            config = AvhConfig(min_history=7)
            add(evaluate_avh(data, kind, f"0.01, history {length}", config, length))
        for name in BASELINES:
            add(*evaluate_baseline(data, kind, name, (0.01, 0.05)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--quick", action="store_true", help="the main settings only")
    parser.add_argument("--rates", action="store_true", help="rates of each source")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    arguments = parser.parse_args()
    folder = data_folder(arguments.folder)
    if folder is None:
        print("SKIPPED: no evaluation data; give the folder or set DQSQL_EVAL_DATA")
        return
    rows = report_rates(folder) if arguments.rates else report(folder, arguments.quick)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(line) for line in rows], indent=1))


if __name__ == "__main__":
    main()

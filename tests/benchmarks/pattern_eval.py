"""Precision and recall of learned patterns, by the protocol of Auto-Validate, section 5.1.

    python -m tests.benchmarks.pattern_eval --data FOLDER [--bench NAME ..] [--sensitivity]

FOLDER (or the environment variable DQSQL_EVAL_DATA) holds `patterns/corpus_columns.parquet` and
`patterns/bench_*.jsonl`. A rule learned from the first tenth of a column should stay silent on the
rest of it (precision) and speak up on every other column (recall, 0 where it did not stay silent).
The query columns of all benches are left out of the corpus. `precision` and `recall` are means over
all columns, those without a rule included (precision 1, recall 0); `ruled_*` over columns with one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from dqsql.patterns import (
    Contribution,
    IndexSettings,
    InferenceSettings,
    LearnedPattern,
    PatternIndex,
    alarm_threshold,
    infer_pattern,
    matcher,
    parse_pattern,
)
from dqsql.patterns.generation import column_sample, hypotheses
from dqsql.patterns.language import Token

BENCHES = ("bench_values1000_pat", "bench_values100_pat")

#: For each column of the bench, how many of its test values conform.
Conforming = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bench:
    """Query columns, and their test values as counts over the distinct values of all of them.

    `owners[k]` and `texts[k]` say that test column `owners[k]` holds value number `texts[k]`,
    `counts[k]` times.
    """

    name: str
    train: list[list[str]]
    values: list[str]
    owners: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]

    def conforming(self, accepts: Callable[[str], bool]) -> Conforming:
        """Return for each column how many test values are accepted."""
        accepted = np.fromiter(map(accepts, self.values), dtype=np.float64, count=len(self.values))
        weights = self.counts * accepted[self.texts]
        return np.bincount(self.owners, weights, minlength=len(self.rows)).astype(np.float64)


def load_bench(folder: Path, name: str) -> Bench:
    """Read a bench; its test values are stored once for all columns."""
    train: list[list[str]] = []
    numbers: dict[str, int] = {}
    entries: list[tuple[int, int, int]] = []
    rows: list[int] = []
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for owner, line in enumerate(lines):
            column = json.loads(line)
            train.append(column["train"])
            rows.append(len(column["test"]))
            for value, count in Counter(column["test"]).items():
                entries.append((owner, numbers.setdefault(value, len(numbers)), count))
    table = np.array(entries, dtype=np.int64)
    return Bench(
        name,
        train,
        list(numbers),
        table[:, 0],
        table[:, 1],
        table[:, 2].astype(np.float64),
        np.array(rows, dtype=np.int64),
    )


def corpus_index(folder: Path, settings: IndexSettings) -> tuple[PatternIndex, float, int]:
    """Return the index of the corpus without query columns, columns per second, and value bytes."""
    excluded: set[str] = set()
    for bench in sorted(folder.glob("bench_*.jsonl")):
        with bench.open(encoding="utf-8") as lines:
            excluded.update(json.loads(line)["id"] for line in lines)
    total = Contribution.empty()
    spent = 0.0
    corpus = pq.ParquetFile(folder / "corpus_columns.parquet")
    for batch in corpus.iter_batches(500, columns=["id", "values"]):
        for name, values in zip(
            batch.column("id").to_pylist(), batch.column("values").to_pylist(), strict=True
        ):
            if name not in excluded:
                start = time.perf_counter()
                total.add_column(values, settings)
                spent += time.perf_counter() - start
    return (
        PatternIndex.from_contribution(total, settings),
        total.columns / spent,
        total.value_bytes,
    )


#: A method learns from training values; the result says for a bench which columns it flags.
Rule = Callable[[Bench], npt.NDArray[np.bool_]]
Method = Callable[[list[str]], Rule | None]


def _strict(accepts: Callable[[str], bool]) -> Rule:
    return lambda bench: bench.conforming(accepts) < bench.rows


def _tested(accepts: Callable[[str], bool], rows: int, nonconforming: int) -> Rule:
    def flags(bench: Bench) -> npt.NDArray[np.bool_]:
        found = bench.rows - bench.conforming(accepts)
        limits = [alarm_threshold(nonconforming, rows, int(n)) for n in bench.rows]
        flagged: npt.NDArray[np.bool_] = found >= np.array(limits)
        return flagged

    return flags


def dictionary(train: list[str]) -> Rule:
    """Deequ's CategoricalRangeRule: every value comes from the training values."""
    return _strict(set(train).__contains__)


def fractional_dictionary(train: list[str]) -> Rule:
    """Deequ's FractionalCategoricalRangeRule: most values come from the most frequent 90 %."""
    kept: set[str] = set()
    covered = 0
    for value, count in Counter(train).most_common():
        if covered >= 0.9 * len(train):
            break
        kept.add(value)
        covered += count
    share = covered / len(train)
    bound = share - 1.96 * math.sqrt(share * (1 - share) / len(train))
    return lambda bench: bench.conforming(kept.__contains__) < bound * bench.rows


def potters_wheel(train: list[str]) -> Rule | None:
    """The pattern of least description length that matches all training values."""
    sample = column_sample(train)
    candidates = hypotheses(sample, tau=13)
    if not candidates:
        return None
    best = min(candidates, key=lambda text: (description_length(text, train), text))
    return _strict(matcher(parse_pattern(best)))


_BITS = {"digit": math.log2(10), "upper": 4.7, "lower": 4.7, "letter": 5.7, "alphanum": 5.95}
_BITS_OF_TOKEN, _BITS_OF_CHARACTER, _BITS_OF_LENGTH, _BITS_OF_NUMBER = 4.0, 8.0, 4.0, 3.6


def description_length(text: str, values: list[str]) -> float:
    """Return the bits of a pattern and of the values given the pattern (Potter's Wheel)."""
    tokens = [e for e in parse_pattern(text).branches[0] if isinstance(e, Token)]
    pattern = sum(_BITS_OF_TOKEN + _BITS_OF_CHARACTER * len(t.text) for t in tokens)
    fixed = sum(len(t.text) if t.kind == "const" else t.count or 0 for t in tokens)
    known = sum(_BITS[t.kind] * t.count for t in tokens if t.count is not None)
    open_kinds = [t.kind for t in tokens if t.unbounded]
    dearest = max((_BITS.get(kind, _BITS_OF_NUMBER) for kind in open_kinds), default=0.0)
    data = sum(
        known + _BITS_OF_LENGTH * len(open_kinds) + dearest * max(0, len(value) - fixed)
        for value in values
    )
    return pattern + data


def token_union(train: list[str]) -> Rule:
    """All coarse token sequences of the training values, judged by Fisher's test."""
    from dqsql.patterns.alignment import token_sequence
    from dqsql.patterns.characters import shape

    sequence = lru_cache(maxsize=None)(lambda value: token_sequence(shape(value))[0])
    seen = {sequence(value) for value in train}
    return _tested(lambda value: sequence(value) in seen, len(train), 0)


class AutoValidate:
    """FMDV with given settings; remembers what patterns accept, for repeated evaluation."""

    def __init__(self, index: PatternIndex, settings: InferenceSettings) -> None:
        self._index = index
        self._settings = settings
        self.seconds = 0.0

    def __call__(self, train: list[str]) -> Rule | None:
        """Learn a pattern."""
        start = time.perf_counter()
        learned = infer_pattern(train, self._index, self._settings)
        self.seconds += time.perf_counter() - start
        if not isinstance(learned, LearnedPattern):
            return None
        return lambda bench: _flags_of_pattern(bench, learned)


_CONFORMING: dict[tuple[str, str], Conforming] = {}


def _flags_of_pattern(bench: Bench, learned: LearnedPattern) -> npt.NDArray[np.bool_]:
    key = (bench.name, learned.pattern)
    if key not in _CONFORMING:
        _CONFORMING[key] = bench.conforming(matcher(learned.parsed))
    limits = [alarm_threshold(learned.nonconforming, learned.rows, int(n)) for n in bench.rows]
    flagged: npt.NDArray[np.bool_] = bench.rows - _CONFORMING[key] >= np.array(limits)
    return flagged


@dataclass(frozen=True)
class Score:
    """Means over all columns, and over those with a rule."""

    precision: float
    recall: float
    f1: float
    ruled: int
    ruled_precision: float
    ruled_recall: float
    milliseconds: float


def evaluate(bench: Bench, method: Method) -> Score:
    """Return the score of a method on a bench."""
    silent: list[bool] = []
    recall: list[float] = []
    start = time.perf_counter()
    rules = [method(train) for train in bench.train]
    milliseconds = 1000 * (time.perf_counter() - start) / len(rules)
    for own, rule in enumerate(rules):
        if rule is None:
            continue
        flagged = rule(bench)
        silent.append(not flagged[own])
        others = int(flagged.sum()) - int(flagged[own])
        recall.append(others / (len(rules) - 1) if silent[-1] else 0.0)
    alarms = len(silent) - sum(silent)
    precision, mean = 1 - alarms / len(rules), sum(recall) / len(rules)
    ruled = max(1, len(silent))
    f1 = 2 * precision * mean / (precision + mean) if mean else 0.0
    return Score(
        precision, mean, f1, len(silent), 1 - alarms / ruled, sum(recall) / ruled, milliseconds
    )


VARIANTS = {"FMDV": (False, False), "V": (True, False), "H": (False, True), "VH": (True, True)}


def methods(index: PatternIndex) -> Iterator[tuple[str, Method]]:
    """Yield the variants, with rehearsals and with the paper's impurity, and the baselines."""
    for evidence in ("rehearsal", "impurity"):
        for name, (vertical, horizontal) in VARIANTS.items():
            settings = InferenceSettings(
                vertical=vertical,
                horizontal=horizontal,
                evidence=evidence,
            )
            yield f"{name} ({evidence})", AutoValidate(index, settings)
    yield "dictionary", dictionary
    yield "fractional dictionary", fractional_dictionary
    yield "Potter's Wheel", potters_wheel
    yield "token union", token_union


def sensitivity(
    index: PatternIndex, others: dict[int, PatternIndex]
) -> Iterator[tuple[str, Method]]:
    """Yield FMDV-VH with one setting changed at a time."""
    for r in (0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1):
        yield f"VH rehearsal r={r}", AutoValidate(index, InferenceSettings(r=r))
    for r in (0.01, 0.05, 0.1, 0.2, 0.3, 0.4):
        yield (
            f"VH impurity r={r}",
            AutoValidate(index, InferenceSettings(r=r, evidence="impurity")),
        )
    for m in (5, 10, 20, 50, 100):
        yield f"VH rehearsal m={m}", AutoValidate(index, InferenceSettings(m=m))
    for theta in (0.0, 0.01, 0.05, 0.1, 0.2):
        yield f"VH rehearsal theta={theta}", AutoValidate(index, InferenceSettings(theta=theta))
    for tau, other in others.items():
        for name, (vertical, horizontal) in VARIANTS.items():
            settings = InferenceSettings(vertical=vertical, horizontal=horizontal)
            yield f"{name} rehearsal tau={tau}", AutoValidate(other, settings)


def main(arguments: list[str] | None = None) -> int:
    """Run the evaluation; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default=os.environ.get("DQSQL_EVAL_DATA"))
    parser.add_argument("--bench", nargs="*", default=list(BENCHES))
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--tau", type=int, default=8)
    options = parser.parse_args(arguments)
    if not options.data or not (Path(options.data) / "patterns").is_dir():
        print("skipped: no evaluation data (give --data or set DQSQL_EVAL_DATA)")
        return 0
    folder = Path(options.data) / "patterns"
    index, speed, size = corpus_index(folder, IndexSettings(tau=options.tau))
    print(f"index: {index.columns} columns, {len(index)} patterns, {speed:.0f} columns/s, "
          f"{size / 1e6:.1f} MB of values")  # fmt: skip
    chosen = list(methods(index))
    if options.sensitivity:
        taus = (4, 13)
        others = {tau: corpus_index(folder, IndexSettings(tau=tau))[0] for tau in taus}
        chosen += sensitivity(index, others)
    for name in options.bench:
        bench = load_bench(folder, name)
        print(f"\n{name}: {len(bench.train)} columns")
        print(f"{'method':32} precision recall    F1  rules ruled_precision ruled_recall    ms")
        for label, method in chosen:
            s = evaluate(bench, method)
            print(
                f"{label:32} {s.precision:9.4f} {s.recall:6.4f} {s.f1:5.3f} {s.ruled:6d} "
                f"{s.ruled_precision:15.4f} {s.ruled_recall:12.4f} {s.milliseconds:5.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

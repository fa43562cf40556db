"""Precision and recall of learned patterns, by the protocol of Auto-Validate, section 5.1.

    python -m tests.benchmarks.train_pattern_risk --data FOLDER --folds FOLDS
    python -m tests.benchmarks.pattern_eval --data FOLDER --folds FOLDS [--bench NAME ..]

FOLDER (or the environment variable DQSQL_EVAL_DATA) holds `patterns/corpus_columns.parquet` and
`patterns/bench_*.jsonl`. A rule learned from the first tenth of a column should stay silent on the
rest of it (precision) and speak up on every other column (recall, 0 where it did not stay silent).
The query columns of all benches are left out of the corpus. `precision` and `recall` are means over
all columns, those without a rule included (precision 1, recall 0); `ruled_*` over columns with one.
With --folds, the risk of a column is judged by trees that have seen no column of its source (cross-
validation by source); without, by the model that ships, which has seen the corpus.
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
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import general_index, with_general
from dqsql.patterns.generation import column_sample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.infer import InferenceSettings, LearnedPattern, infer_pattern
from dqsql.patterns.ladder import LEVELS, Ladder
from dqsql.patterns.language import Token
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches
from dqsql.patterns.risk import RiskModel, load_model
from dqsql.patterns.validate import alarm_threshold
from tests.patterns.indexes import Contribution, index_of

BENCHES = (
    "bench_values1000_pat",
    "bench_values100_pat",
    "bench_values1000_str",
    "bench_values100_str",
    "bench_values100_all",
)

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
    sources: list[str]
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
    sources: list[str] = []
    numbers: dict[str, int] = {}
    entries: list[tuple[int, int, int]] = []
    rows: list[int] = []
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for owner, line in enumerate(lines):
            column = json.loads(line)
            train.append(column["train"])
            sources.append(column["source"])
            rows.append(len(column["test"]))
            for value, count in Counter(column["test"]).items():
                entries.append((owner, numbers.setdefault(value, len(numbers)), count))
    table = np.array(entries, dtype=np.int64)
    return Bench(
        name,
        train,
        sources,
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
    return (index_of(total, settings), total.columns / spent, total.value_bytes)


#: A method learns from a source's training values; the result says which columns it flags.
Rule = Callable[[Bench], npt.NDArray[np.bool_]]
Method = Callable[[list[str], str], Rule | None]


def _ignoring_source(method: Callable[[list[str]], Rule | None]) -> Method:
    return lambda train, source: method(train)


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
    return _strict(partial(matches, parse_pattern(best)))


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
    from dqsql.patterns.characters import shape
    from dqsql.patterns.vertical import token_sequence

    sequence = lru_cache(maxsize=None)(lambda value: token_sequence(shape(value))[0])
    seen = {sequence(value) for value in train}
    return _tested(lambda value: sequence(value) in seen, len(train), 0)


class Learned:
    """What `infer_pattern` learns with given settings, and models by source."""

    def __init__(
        self,
        index: PatternIndex,
        settings: InferenceSettings,
        models: dict[str, RiskModel] | None = None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._models = models or {}
        self.levels: Counter[str] = Counter()

    def __call__(self, train: list[str], source: str) -> Rule | None:
        """Learn a pattern."""
        learned = infer_pattern(train, self._index, self._settings, self._models.get(source))
        if not isinstance(learned, LearnedPattern):
            self.levels[learned.code] += 1
            return None
        self.levels[learned.method] += 1
        return lambda bench: _flags_of_pattern(bench, learned)


_CONFORMING: dict[tuple[str, str], Conforming] = {}


def _flags_of_pattern(bench: Bench, learned: LearnedPattern) -> npt.NDArray[np.bool_]:
    key = (bench.name, learned.pattern)
    if key not in _CONFORMING:
        _CONFORMING[key] = bench.conforming(partial(matches, learned.parsed))
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
    rules = [
        method(train, source) for train, source in zip(bench.train, bench.sources, strict=True)
    ]
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


def methods(
    index: PatternIndex, models: dict[str, RiskModel], rates: list[float]
) -> Iterator[tuple[str, Method]]:
    """Yield the default with both indexes and some rates, FMDV with its cuts, and the baselines."""
    for r in rates:
        settings = InferenceSettings(r=r)
        yield f"rehearsal r={r}", Learned(general_index(), settings, models)
    yield "rehearsal, index of the corpus", Learned(index, InferenceSettings(), models)
    for r in (0.1, 0.3):
        for name, (vertical, horizontal) in VARIANTS.items():
            settings = InferenceSettings(
                vertical=vertical, horizontal=horizontal, evidence="impurity", r=r
            )
            yield f"{name} (impurity, r={r})", Learned(index, settings)
    yield "dictionary", _ignoring_source(dictionary)
    yield "fractional dictionary", _ignoring_source(fractional_dictionary)
    yield "Potter's Wheel", _ignoring_source(potters_wheel)
    yield "token union", _ignoring_source(token_union)


def print_levels(bench: Bench) -> None:
    """Print what each level alone would give, and the ceiling: the best level of each column."""
    own = np.arange(len(bench.train))
    best = np.zeros(len(own))
    for level in LEVELS:
        silent, recall = np.ones(len(own), dtype=bool), np.zeros(len(own))
        for column, train in enumerate(bench.train):
            pattern = Ladder(train).pattern(level)
            if pattern is not None:
                flagged = _tested(partial(matches, pattern), len(train), 0)(bench)
                silent[column] = not flagged[column]
                recall[column] = (flagged.sum() - flagged[column]) / (len(own) - 1)
        best = np.maximum(best, recall * silent)
        print(f"{level:32} {silent.mean():9.4f} {(recall * silent).mean():6.4f}", flush=True)
    print(f"{'the best level of each column':32} {'':9} {best.mean():6.4f}")


def main(arguments: list[str] | None = None) -> int:
    """Run the evaluation; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default=os.environ.get("DQSQL_EVAL_DATA"))
    parser.add_argument("--bench", nargs="*", default=list(BENCHES[:2]))
    parser.add_argument("--folds", help="models by source, see train_pattern_risk")
    parser.add_argument("--r", nargs="*", type=float, default=[InferenceSettings().max_rate])
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--levels", action="store_true", help="each level alone, and the ceiling")
    parser.add_argument("--tau", type=int, default=8)
    options = parser.parse_args(arguments)
    if not options.data or not (Path(options.data) / "patterns").is_dir():
        print("skipped: no evaluation data (give --data or set DQSQL_EVAL_DATA)")
        return 0
    folder = Path(options.data) / "patterns"
    index, speed, size = corpus_index(folder, IndexSettings(tau=options.tau))
    index = with_general(index)
    print(f"index: {index.columns} columns, {len(index)} patterns, {speed:.0f} columns/s, "
          f"{size / 1e6:.1f} MB of values")  # fmt: skip
    files = sorted(Path(options.folds).glob("*.json")) if options.folds else []
    models = {file.stem: load_model(file) for file in files}
    chosen = [m for m in methods(index, models, options.r) if options.only in m[0]]
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
        if options.levels:
            print_levels(bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Metric vectors of raw batches, in numpy, for the AVH evaluation (paper, Tables 3 and 4)."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from avh_data import Sequence
from avh_issues import BOTH, CODE, Variants, from_codes, inject, is_digit, is_letter, to_codes
from avh_states import numeric_state

from dqsql.decisions.distances import CategoricalState, NumericState, numeric_distances
from dqsql.decisions.running_numbers import TextState, text_distances
from dqsql.model.metric_traits import CATEGORICAL_DISTANCES, NUMERIC_DISTANCES, PATTERN_PREFIX

SINGLE = {
    "numeric": (
        *("min", "max", "mean", "median", "p25", "p75", "sum", "range"),
        *("row_count", "unique_ratio", "complete_ratio", "negative_ratio"),
    ),
    "categorical": (
        *("str_len", "char_len", "digit_len", "punc_len", "upper_ratio", "lower_ratio"),
        *("row_count", "unique_ratio", "complete_ratio", "empty_ratio", "dist_val_count"),
    ),
}
TWO = {
    "numeric": NUMERIC_DISTANCES,
    "categorical": (
        *CATEGORICAL_DISTANCES,
        *(PATTERN_PREFIX + name for name in CATEGORICAL_DISTANCES),
    ),
}
METRICS = {kind: SINGLE[kind] + TWO[kind] for kind in SINGLE}
TOP_VALUES = 1000
WINDOW = 30


@dataclass(frozen=True, eq=False)
class Summary:
    """Single-distribution metrics of a batch and the state for the two-distribution ones."""

    single: np.ndarray
    states: tuple[NumericState, ...] | tuple[CategoricalState, ...]


def summarize(values: np.ndarray, kind: str) -> Summary:
    return _numeric(values) if kind == "numeric" else _categorical(values)


def metric_vector(summary: Summary, before: Summary | None, kind: str) -> np.ndarray:
    """Return the metrics in the order of METRICS[kind]; two-distribution ones NaN at a start."""
    if before is None:
        return np.concatenate([summary.single, np.full(len(TWO[kind]), np.nan)])
    if kind == "numeric":
        distances = numeric_distances(before.states[0], summary.states[0])
    else:
        distances = text_distances(TextState(*before.states), TextState(*summary.states))
    return np.concatenate([summary.single, [distances[name] for name in TWO[kind]]])


def _numeric(values: np.ndarray) -> Summary:
    kept = values[~np.isnan(values)]
    rows = len(values)
    state = numeric_state(kept)
    if not len(kept):
        single = [np.nan] * 8 + [rows, np.nan, *([0.0 if rows else np.nan] * 2)]
        return Summary(np.array(single), (state,))
    low, high = kept.min(), kept.max()
    middle = np.quantile(kept, (0.5, 0.25, 0.75))
    single = [low, high, kept.mean(), *middle, kept.sum(), high - low, rows]
    single += [len(np.unique(kept)) / len(kept), len(kept) / rows, (kept < 0).sum() / rows]
    return Summary(np.array(single, dtype=float), (state,))


def _categorical(values: np.ndarray) -> Summary:
    counts = Counter(v for v in values.tolist() if v is not None)
    kept, rows = sum(counts.values()), len(values)
    if not kept:
        share = 0.0 if rows else np.nan
        single = [*[np.nan] * 6, rows, np.nan, share, share, 0.0]
        empty = CategoricalState({})
        return Summary(np.array(single), (empty, empty))
    texts, weights = list(counts), np.array(list(counts.values()), dtype=float)
    codes = to_codes(texts)
    letters, digits = is_letter(codes), is_digit(codes)
    punctuation = (codes > 32) & (codes < 127) & ~letters & ~digits
    per_text = [(codes > 0), letters, digits, punctuation]
    lengths = [float(weights @ mask.sum(axis=1)) / kept for mask in per_text]
    upper = float(weights @ ((codes >= ord("A")) & (codes <= ord("Z"))).sum(axis=1)) / kept
    length = lengths[0] or 1.0
    cases = [upper / length, (lengths[1] - upper) / length]
    empty = sum(n for text, n in counts.items() if not text.strip(" "))
    single = [*lengths, *cases, rows, len(texts) / kept, kept / rows, empty / rows, len(texts)]
    classes = codes.astype(np.uint32)
    for mask, wildcard in ((letters, "l"), (digits, "d"), (punctuation, ".")):
        classes[mask] = ord(wildcard)
    patterns: Counter[str] = Counter()
    for pattern, weight in zip(from_codes(classes), weights, strict=True):
        patterns[pattern] += weight
    return Summary(np.array(single, dtype=float), (_top(counts), _top(patterns)))


def _top(counts: Counter[str]) -> CategoricalState:
    kept = dict(counts.most_common(TOP_VALUES))
    return CategoricalState(kept, float(sum(counts.values()) - sum(kept.values())))


@dataclass(frozen=True, eq=False)
class Traced:
    """A sequence as metrics.

    Attributes:
        values: batches x metrics.
        tests: metrics of the variants of batch 30, variants x metrics, and their names.
        training: per start of a 30-batch window at which programs are refitted, the names and
            metrics of the variants of the window's newest batch.
    """

    seq_id: str
    source: str
    column: str
    values: np.ndarray
    test_names: tuple[str, ...]
    tests: np.ndarray
    training: dict[int, tuple[tuple[str, ...], np.ndarray]]


def trace(sequence: Sequence, neighbor: Sequence | None, kind: str, refit_every: int) -> Traced:
    """Compute a sequence's metrics, the test variants, and the training variants."""
    summaries = [summarize(batch, kind) for batch in sequence.batches]
    values = np.array(
        [
            metric_vector(summary, summaries[t - 1] if t else None, kind)
            for t, summary in enumerate(summaries)
        ]
    )

    def vectors(variants: Variants, at: int) -> np.ndarray:
        before = summaries[at - 1]
        return np.array(
            [metric_vector(summarize(v, kind), before, kind) for v in variants.values()]
        )

    def variants(at: int, purpose: str, magnitudes: object) -> Variants:
        source = neighbor.batches[at] if neighbor is not None else None
        seed = zlib.crc32(f"{purpose}/{sequence.seq_id}/{at}".encode())
        return inject(sequence.batches[at], kind, source, seed, magnitudes)  # type: ignore[arg-type]

    tests = variants(WINDOW, "test", CODE)
    training = {}
    for start in range(0, len(values) - WINDOW, refit_every):
        newest = start + WINDOW - 1
        made = variants(newest, "training", BOTH)
        training[start] = (tuple(made), vectors(made, newest))
    return Traced(
        sequence.seq_id,
        sequence.source,
        sequence.column,
        values,
        tuple(tests),
        vectors(tests, WINDOW),
        training,
    )


def cache_key(*parts: object) -> str:
    """Return a key over the arguments and the sources that metrics depend on."""
    from dqsql.decisions import distances, running_numbers

    folder = Path(__file__).parent
    texts = [(folder / f"avh_{name}.py").read_text() for name in ("data", "issues", "metrics")]
    texts += [Path(module.__file__).read_text() for module in (distances, running_numbers)]
    return hashlib.sha256("\0".join([*map(str, parts), *texts]).encode()).hexdigest()[:16]

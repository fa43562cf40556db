"""Metrics of a batch for the novelty evaluation, by pandas and numpy; they stand for the scan.

The definitions are those of the macros: completeness, approx_count_distinct (counted exactly here),
most_frequent_ratio (of which mode 'paper' has most_frequent_share in its place), min, max, mean,
stddev, index_of_peculiarity.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

NUMERIC_METRICS = ("max", "mean", "min", "stddev")
GENERAL_METRICS = (
    "completeness",
    "approx_count_distinct",
    "most_frequent_ratio",
    "most_frequent_share",
)

# Code points are below 2**21, so three of them fit into 63 bits.
_BITS = 21


def metric_names(kind: str) -> tuple[str, ...]:
    """Names of the metrics of a column: kind is numeric, categorical or text."""
    own = {"numeric": NUMERIC_METRICS, "text": ("index_of_peculiarity",)}
    return GENERAL_METRICS + own.get(kind, ())


def column_metrics(values: pd.Series, kind: str) -> list[float]:
    """Values of `metric_names(kind)`; NaN where there is nothing to measure."""
    present = values.dropna()
    counts = present.value_counts()
    found = [
        len(present) / len(values) if len(values) else np.nan,
        float(len(counts)),
        counts.iloc[0] / len(present) if len(counts) else np.nan,
        (counts.iloc[0] if len(counts) else 0) / len(values) if len(values) else np.nan,
    ]
    if kind == "numeric":
        numbers = present.to_numpy(dtype=float)
        spread = numbers.std(ddof=1) if numbers.size > 1 else np.nan
        empty = not numbers.size
        found += [
            np.nan if empty else numbers.max(),
            np.nan if empty else numbers.mean(),
            np.nan if empty else numbers.min(),
            spread,
        ]
    if kind == "text":
        found.append(index_of_peculiarity(present, per_text=True))
    return [float(value) for value in found]


def index_of_peculiarity(texts: Iterable[object], per_text: bool = False) -> float:
    """Root mean square of 1/2 (ln n(xy) + ln n(yz)) - ln n(xyz) over all trigrams of the column.

    With `per_text` the mean over texts of each text's root mean square, as in the paper.
    """
    rows = [np.array([ord(c) for c in str(text)], dtype=np.int64) for text in texts]
    rows = [row for row in rows if row.size >= 3]
    if not rows:
        return float("nan")
    bigrams = np.concatenate([_grams(row, 2) for row in rows])
    trigrams = np.concatenate([_grams(row, 3) for row in rows])
    two, n_two = np.unique(bigrams, return_counts=True)
    three, position, n_three = np.unique(trigrams, return_inverse=True, return_counts=True)
    first = n_two[np.searchsorted(two, three >> _BITS)]
    last = n_two[np.searchsorted(two, three & ((1 << 2 * _BITS) - 1))]
    index = 0.5 * (np.log(first) + np.log(last)) - np.log(n_three)
    squares = np.square(index)[position]
    if not per_text:
        return float(np.sqrt(squares.mean()))
    starts = np.concatenate([[0], np.cumsum([row.size - 2 for row in rows])[:-1]])
    sums = np.add.reduceat(squares, starts)
    return float(np.sqrt(sums / [row.size - 2 for row in rows]).mean())


def _grams(codes: np.ndarray, size: int) -> np.ndarray:
    grams = codes[: codes.size - size + 1].copy()
    for offset in range(1, size):
        grams = (grams << _BITS) | codes[offset : codes.size - size + 1 + offset]
    return grams

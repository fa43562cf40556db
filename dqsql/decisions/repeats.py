"""Whether a batch is one of the batches before, delivered again: equal in all that was measured.

That two batches are equal in all metrics says little of small tables, of constant columns and of
columns that follow from one another. So its probability is counted from the history. Of each column
that varies: how often two batches were equal in all of its metrics (plus one such pair: Laplace's
rule of succession). These are multiplied, but only those of half of the columns, which were equal
most often: a column may follow from another one. Where three batches were equal to one before in
all metrics, it is at least as probable as that was frequent.

A batch that is equal to one of K others is told of if that is rarer than the rate. Pure functions
of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import BoolArray, FloatArray

# Metrics are stored in 13 digits.
_ROUNDING = 1e-11
# Pairs are made of so many of the newest batches: nearly 5,000, which is as rare as it needs to be.
_NEWEST = 100
# So many batches that were equal to one before them are usual for a table.
_USUAL = 3


@dataclass(frozen=True, slots=True)
class Repeat:
    """A batch that is equal to one before.

    Attributes:
        place: which of the batches before; the newest of them.
        chance: how probable it is that a good batch is equal to one of them, in (0, 1].
        metrics: how many metrics have a value in both, and are equal.
        columns: of how many columns.
    """

    place: int
    chance: float
    metrics: int
    columns: int


def repeated(
    columns: npt.ArrayLike, history: FloatArray, new: FloatArray, fpr: float
) -> Repeat | None:
    """The batch before that a batch is equal to, where that is no chance.

    Args:
        columns: F, the number of each metric's column.
        history: K x F metrics of batches before; NaN for no value.
        new: F.
        fpr: how often a good batch may be told of, in (0, 1).

    Returns:
        None if it is equal to none, or if good batches may be, too.
    """
    places = np.flatnonzero(_equal(history, new).all(axis=1))
    known = np.isfinite(new)
    if not places.size or not known.any() or len(history) < 2:
        return None
    chance = _chance(np.asarray(columns), history)
    if chance >= fpr:
        return None
    named = np.unique(np.asarray(columns)[known]).size
    return Repeat(int(places[-1]), chance, int(known.sum()), named)


def _chance(columns: npt.NDArray[np.int64], history: FloatArray) -> float:
    """How probable it is that the next batch is equal to one of these."""
    newest = history[-_NEWEST:]
    first, second = np.triu_indices(len(newest), 1)
    alike = _equal(newest[first], newest[second])
    by_column = np.stack([alike[:, columns == c].all(axis=1) for c in np.unique(columns)])
    odds = np.sort((1 + by_column.sum(axis=1)) / (1 + first.size))[::-1]
    varying = odds[odds < 1]
    together = float(np.prod(varying[: varying.size // 2]))
    equal = by_column.all(axis=0)
    # One or two copies are no chance yet: who delivers old rows once does it again.
    copies = np.unique(second[equal]).size
    seen = int(equal.sum()) / first.size if copies >= _USUAL else 0.0
    return min(1.0, len(history) * max(together, seen))


def _equal(one: FloatArray, other: FloatArray) -> BoolArray:
    """Which numbers are equal, up to how they are stored; what has no value is equal to another."""
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(one), np.abs(other))
        near = np.abs(one - other) <= _ROUNDING * size
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)), dtype=np.bool_)

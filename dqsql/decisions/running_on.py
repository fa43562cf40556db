"""Numbers that only ever grow, as an id does: where they are now is no news, how far they came is.

After a batch that was odd, or was missing, such a number is further on than its history says, and
stays so. What can be told of the next batch is whether it moved on by a usual step.
"""

from __future__ import annotations

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.bounds import EQUALITY_TOLERANCE

_FEWEST = 5
# How much smaller than all before a step may be, and larger than nearly all: one jump allows none.
_SLACK, _NEARLY_ALL = 1.5, 0.9


def moved_on(
    past: FloatArray, before: FloatArray, now: FloatArray, counts: FloatArray, count: int = 1
) -> bool:
    """Whether numbers that have grown with every batch grew by usual steps since one before.

    Args:
        past: K x F values of batches, oldest first, of which each F grows; a few may repeat it.
        before: F values of a batch after these, or of the last of them.
        now: F values of a batch after that.
        counts: K - 1, how many steps lie between each two of `past`.
        count: how many between these two.
    """
    steps = np.diff(past, axis=0) / counts[:, None]
    # A batch that was delivered again does not move on, and the one behind it twice as far.
    grew = (steps > 0).all(axis=1)
    if len(steps) < _FEWEST or grew.mean() < _NEARLY_ALL or (steps < 0).any():
        return False
    steps = steps[grew]
    step = (now - before) / count
    most = np.quantile(steps, _NEARLY_ALL, axis=0)
    return bool(((step > steps.min(axis=0) / _SLACK) & (step < most * _SLACK)).all())


def is_furthest(distances: FloatArray) -> bool:
    """Whether the last of some batches was further from the one before it than any other."""
    return bool(distances[-1] > np.nanmax(distances[:-1], initial=0.0))


def is_repeat(distances: FloatArray) -> bool:
    """Whether the last of some batches alone is the one before it, delivered again."""
    others = np.nanmin(distances[:-1], initial=np.inf)
    return bool(distances[-1] <= EQUALITY_TOLERANCE < others < np.inf)

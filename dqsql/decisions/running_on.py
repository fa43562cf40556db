"""Numbers that only ever grow, as an id does: where they are now is no news, how far they came is.

After a batch that was odd, or was missing, such a number is further on than its history says, and
stays so. What can be told of the next batch is whether it moved on by a usual step.
"""

from __future__ import annotations

import numpy as np

from dqsql.decisions.arrays import FloatArray

_FEWEST = 5
# How much smaller than all before a step may be, and larger than nearly all: one jump allows none.
_SLACK, _NEARLY_ALL = 1.5, 0.9


def moved_on(
    past: FloatArray, before: FloatArray, now: FloatArray, counts: FloatArray, count: int = 1
) -> bool:
    """Whether numbers that have grown with every batch grew by usual steps since one before.

    Args:
        past: K x F values of batches, oldest first, of which each F grows.
        before: F values of a batch after these, or of the last of them.
        now: F values of a batch after that.
        counts: K - 1, how many steps lie between each two of `past`.
        count: how many between these two.
    """
    steps = np.diff(past, axis=0) / counts[:, None]
    if len(steps) < _FEWEST or not (steps > 0).all():
        return False
    step = (now - before) / count
    most = np.quantile(steps, _NEARLY_ALL, axis=0)
    return bool(((step > steps.min(axis=0) / _SLACK) & (step < most * _SLACK)).all())

"""Numbers that only ever grow, as an id does: where they are now is no news, how far they came is.

After a batch that was odd, or was missing, such a number is further on than its history says, and
stays so. What can be told of the next batch is whether it moved on by a usual step.
"""

from __future__ import annotations

import numpy as np

from dqsql.decisions.arrays import FloatArray

_FEWEST = 5
# How much smaller or larger than all before a step may be.
_SLACK = 1.5


def moved_on(past: FloatArray, before: FloatArray, now: FloatArray) -> bool:
    """Whether numbers that have grown with every batch grew by a usual step since the one before.

    Args:
        past: K x F values of batches, oldest first, of which each F grows.
        before: F values of the batch just before, which may be none of these.
        now: F values.
    """
    steps = np.diff(past, axis=0)
    if len(steps) < _FEWEST or not (steps > 0).all():
        return False
    step = now - before
    return bool(((step > steps.min(axis=0) / _SLACK) & (step < steps.max(axis=0) * _SLACK)).all())

"""Which of many decisions on one batch stand, and what a history can promise without a model.

`dqsql.decisions.budget` shares a project's budget of false alarms out to single decisions, which
keeps the expected number of alarms whatever the correlation. `discoveries` is the complement for
one batch: the step-up procedure of Benjamini & Hochberg (1995, Journal of the Royal Statistical
Society B 57, 289-300) and, for metrics that depend on each other, of Benjamini & Yekutieli (2001,
Annals of Statistics 29, 1165-1188).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dqsql.errors import DecisionError


def least_history(rate: float, two_sided: bool = True) -> int:
    """Return the history from which a rate can be promised without a model of the tail.

    Among K + 1 exchangeable batches the newest is the most extreme once in K + 1; K must reach
    1 / rate - 1 per side. Shorter histories rest on the shape of the tail
    (`dqsql.decisions.bounds`).

    Raises:
        DecisionError: the rate is not in (0, 1).
    """
    if not 0 < rate < 1:
        raise DecisionError(f"a false-positive rate lies between 0 and 1, not at {rate!r}")
    return max(0, math.ceil((2 if two_sided else 1) / rate) - 1)


def discoveries(
    p_values: npt.ArrayLike, rate: float, dependent: bool = True
) -> npt.NDArray[np.bool_]:
    """Return which of many decisions stand when at most a share `rate` of them shall be false.

    Args:
        p_values: n p-values; NaN for decisions without one, which never stand.
        rate: expected share of false ones among those that stand, in (0, 1).
        dependent: whether the metrics depend on each other in unknown ways (Yekutieli's factor
            1 + 1/2 + .. + 1/n), as those of one batch do.
    """
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    stands: npt.NDArray[np.bool_] = np.zeros(p.shape, dtype=np.bool_)
    if not known.size:
        return stands
    size = known.size
    factor = float(np.sum(1.0 / np.arange(1, size + 1))) if dependent else 1.0
    order = known[np.argsort(p[known], kind="stable")]
    below = p[order] <= rate * np.arange(1, size + 1) / (size * factor)
    if below.any():
        stands[order[: int(np.flatnonzero(below)[-1]) + 1]] = True
    return stands

"""Algorithm 1 of "Auto-Validate by History" (KDD 2023): which clauses make a program.

The problem is budgeted maximum coverage: clauses cost their FPR bound, and cover the injected
issues that they flag.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_BUDGET_SLACK = 1e-12


def select_clauses(
    fpr: FloatArray, covers: BoolArray, budget: float, max_clauses: int | None = None
) -> list[int]:
    """Choose clauses whose FPR bounds sum to at most the budget and that cover much.

    Greedy by newly covered / FPR, clauses of FPR 0 first; then the best single clause if it alone
    covers more (Proposition 4: at least (1/2 - 1/2e) of the optimum, without a clause limit).
    Ties go to the smaller FPR, then to the lower index.

    Args:
        fpr: FPR bound per candidate, n, >= 0.
        covers: whether candidate i catches issue j, n x issues.
        budget: largest sum of FPR bounds, >= 0.
        max_clauses: largest number of clauses, None for no limit.

    Returns:
        Indices of the chosen candidates in the order chosen; possibly none.
    """
    limit = budget * (1.0 + _BUDGET_SLACK)
    open_issues = np.ones(covers.shape[1], dtype=bool)
    affordable = fpr <= limit
    chosen: list[int] = []
    spent = 0.0
    gains = covers.sum(axis=1).astype(float)
    while affordable.any() and (max_clauses is None or len(chosen) < max_clauses):
        best = _best(gains, fpr, affordable)
        if best is None:
            break
        chosen.append(best)
        spent += float(fpr[best])
        newly = covers[best] & open_issues
        gains = gains - covers[:, newly].sum(axis=1)
        open_issues &= ~newly
        affordable &= fpr + spent <= limit
        affordable[best] = False
    single = _best_single(fpr, covers, limit)
    covered = int((~open_issues).sum())
    if single is not None and covers[single].sum() > covered:
        return [single]
    return chosen


def _best(gains: FloatArray, fpr: FloatArray, affordable: BoolArray) -> int | None:
    useful = np.flatnonzero(affordable & (gains > 0))
    if not useful.size:
        return None
    free = useful[fpr[useful] == 0.0]
    if free.size:
        return int(free[gains[free].argmax()])
    ratio = gains[useful] / fpr[useful]
    ties = useful[ratio >= ratio.max()]
    return int(ties[fpr[ties].argmin()])


def _best_single(fpr: FloatArray, covers: BoolArray, limit: float) -> int | None:
    feasible = np.flatnonzero(fpr <= limit)
    if not feasible.size:
        return None
    return int(feasible[covers[feasible].sum(axis=1).argmax()])

"""Which clauses make a program (Algorithm 1): budgeted maximum coverage.

Clauses cost their FPR bound, and cover the injected issues that they flag. Source: He et al.,
"Auto-Validate by History", KDD 2023.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import BoolArray, FloatArray

_BUDGET_SLACK = 1e-12


def select_clauses(
    fpr: FloatArray,
    covers: BoolArray,
    budget: float,
    max_clauses: int | None = None,
    nests: npt.NDArray[np.int64] | None = None,
) -> list[int]:
    """Choose clauses whose FPR bounds sum to at most the budget and that cover much.

    Greedy by newly covered / FPR, clauses of FPR 0 first; then the best single clause if it alone
    covers more (Proposition 4: at least (1/2 - 1/2e) of the optimum, without a clause limit).
    Ties go to the smaller FPR, then to the lower index.

    Candidates of one nest are thresholds on the same side of the same quantity: a batch that
    breaks the wider also breaks the tighter, so both together cost no more than the tighter. Such
    a candidate replaces its wider sibling and pays the difference (choice; the paper sums over
    nested clauses too).

    Args:
        fpr: FPR bound per candidate, n, >= 0.
        covers: whether candidate i catches issue j, n x issues.
        budget: largest sum of FPR bounds, >= 0.
        max_clauses: largest number of clauses, None for no limit.
        nests: nest of each candidate, n; within one, a larger FPR covers a superset. None: all
            candidates stand alone.

    Returns:
        Indices of the chosen candidates in the order chosen, at most one of a nest; possibly none.
    """
    limit = budget * (1.0 + _BUDGET_SLACK)
    nests = np.arange(len(fpr)) if nests is None else nests
    cost = fpr.astype(float)
    open_issues = np.ones(covers.shape[1], dtype=bool)
    chosen: dict[int, int] = {}
    spent = 0.0
    # Counted as integers, by issue: each issue's row is read twice at most, however many clauses
    # are chosen, and a product of matrices may flag a floating-point error that never happened.
    by_issue = np.ascontiguousarray(covers.T)
    gains = by_issue.sum(axis=0)
    while True:
        allowed = cost + spent <= limit
        if max_clauses is not None and len(chosen) >= max_clauses:
            allowed &= np.isin(nests, list(chosen))
        best = _best(gains, cost, allowed)
        if best is None:
            break
        siblings = nests == nests[best]
        chosen[int(nests[best])] = best
        spent += float(cost[best])
        cost[siblings] = np.maximum(0.0, fpr[siblings] - fpr[best])
        newly = covers[best] & open_issues
        gains -= by_issue[newly].sum(axis=0)
        open_issues &= ~newly
    single = _best_single(fpr, covers, limit)
    covered = int((~open_issues).sum())
    if single is not None and covers[single].sum() > covered:
        return [single]
    return list(chosen.values())


def _best(gains: npt.NDArray[np.int64], fpr: FloatArray, affordable: BoolArray) -> int | None:
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
    covered = covers[feasible].sum(axis=1)
    ties = feasible[covered == covered.max()]
    return int(ties[fpr[ties].argmin()])

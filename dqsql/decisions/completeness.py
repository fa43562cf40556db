"""Bounds on how many rows of a batch have no proper value (null, NaN, infinite, empty text).

And on how many numbers are negative, of which none may be left where a sign was lost.

They stand beside the bounds that injected issues choose, so that every column has them: by the
beta-binomial model of `dqsql.decisions.beta_binomial`, and out of the same budget for false alarms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.beta_binomial import learn
from dqsql.decisions.program import COMPLETE, COUNTED, ROWS, Clause, bounds_for, outside
from dqsql.decisions.stationarity import Transform
from dqsql.model.metric_traits import COUNTED_SHARES

if TYPE_CHECKING:
    from dqsql.decisions.avh import ColumnHistory


# Part of a program's rate that goes to these bounds; half of it to nulls where there are others.
BUDGET_SHARE = 0.25
_NEGATIVE, _NEGATIVE_SHARE = "negative_ratio", 0.2
# A column that is fuller than ever is rarely a fault.
_FULLNESS_SHARE = 0.2
_LEAST_FOR_FULLNESS = 0.05


def clauses_of(history: ColumnHistory, fpr: float, min_history: int) -> list[Clause]:
    """Return the bounds on a column's shares of rows without a proper value, as many as it has.

    Without `row_count` among its metrics there are none. `fpr` is the rate that these bounds may
    use together.
    """
    metrics = [m for m in COUNTED_SHARES if m in history.metrics]
    if ROWS not in history.metrics or not metrics:
        return []
    clauses: list[Clause] = []
    for metric in metrics:
        values, rows = _shares(history, history.values, metric)
        if values.size < min_history:
            continue
        usual, rate = float(np.median(values)), _rate(metric, metrics, fpr)
        if history.beside is not None:
            further, further_rows = _shares(history, history.beside, metric)
            low, high = np.quantile(further, (0.25, 0.75)) if further.size else (1.0, 0.0)
            if low <= usual <= high:
                # A rate that is rare takes more batches than there are of one time of day.
                values = np.concatenate((further, values))
                rows = np.concatenate((further_rows, rows))
        for side, part in _sides(metric, usual):
            clauses += _clause(history, metric, values, rows, rate * part, side)
    return clauses


def _shares(
    history: ColumnHistory, table: FloatArray, metric: str
) -> tuple[FloatArray, FloatArray]:
    """A share in batches of some rows where it is known, and their numbers of rows."""
    values = table[:, history.metrics.index(metric)]
    rows = table[:, history.metrics.index(ROWS)]
    known = np.isfinite(values) & (rows > 0)
    return values[known], rows[known]


def _sides(metric: str, usual: float) -> tuple[tuple[float, float], ...]:
    """The sides of a share that are bounded, -1 for below, each with its part of the rate."""
    if metric == COMPLETE and 1.0 - usual >= _LEAST_FOR_FULLNESS:
        return ((-1.0, 1.0 - _FULLNESS_SHARE), (1.0, _FULLNESS_SHARE))
    if metric == COMPLETE:
        return ((-1.0, 1.0),)
    if metric == _NEGATIVE and usual > 0:
        return ((-1.0, 0.5), (1.0, 0.5))
    return ((1.0, 1.0),)


def _rate(metric: str, metrics: Sequence[str], fpr: float) -> float:
    """A fifth goes to negative numbers, half of the rest to nulls where there are others."""
    if metric == _NEGATIVE:
        return _NEGATIVE_SHARE * fpr
    rest = fpr * (1.0 - _NEGATIVE_SHARE) if _NEGATIVE in metrics else fpr
    others = len(set(metrics) - {COMPLETE, _NEGATIVE})
    if metric == COMPLETE:
        return rest / 2.0 if others else rest
    return rest / 2.0 / others if COMPLETE in metrics else rest / others


def _clause(
    history: ColumnHistory,
    metric: str,
    values: FloatArray,
    rows: FloatArray,
    rate: float,
    side: float,
) -> list[Clause]:
    first, last = history.extent
    clause = Clause(
        metric=metric,
        transform=Transform(),
        lower=-np.inf if side > 0 else 0.0,
        upper=np.inf if side < 0 else 1.0,
        center=0.0,
        spread=0.0,
        fpr=rate,
        method=COUNTED,
        catches=(),
        history_size=int(values.size),
        first_batch=first,
        last_batch=last,
    )
    learned = refit(clause, values, rows)
    return [] if learned is None else [learned]


def refit(clause: Clause, values: FloatArray, rows: FloatArray) -> Clause | None:
    """Return a bound with its numbers learned from a history; None where there is none.

    Its rate and its side are kept; the `values` are finite, and all batches have `rows`.
    """
    shares = 1.0 - values if np.isinf(clause.upper) else values
    # Where 97 % are not negative always, all of them are too many.
    of_sign = clause.metric == _NEGATIVE and bool(np.isinf(clause.upper))
    limit = {"largest": 1.0} if of_sign else {}
    model = learn(np.rint(shares * rows), rows, clause.fpr, **limit)
    if model is None:
        return None
    known = replace(clause, shape=(model.alpha, model.beta), history_size=int(values.size))
    lower, upper = bounds_for(known, float(np.median(rows)))
    if of_sign and lower <= 0:
        # None of them may be chance.
        return None
    return replace(
        known,
        lower=lower,
        upper=upper,
        center=1.0 - model.mean if np.isinf(clause.upper) else model.mean,
        spread=float(values.std(ddof=1)) if values.size > 1 else 0.0,
    )


def with_catches(
    clauses: Sequence[Clause],
    names: Sequence[str],
    issues: Mapping[str, FloatArray],
    factors: Sequence[float],
) -> tuple[list[Clause], npt.NDArray[np.bool_]]:
    """Return the bounds with the issues that they catch, and which goals they reach.

    An issue is one goal for each of the `factors`: how much further out it must lie.
    """
    goals = np.zeros((len(factors), len(names)), dtype=np.bool_)
    catching_clauses = []
    for clause in clauses:
        broken = outside(clause, issues[clause.metric], issues[ROWS], factors)
        goals |= broken
        caught = tuple(n for n, hit in zip(names, broken[0], strict=True) if hit)
        catching_clauses.append(replace(clause, catches=caught))
    return catching_clauses, goals.ravel()

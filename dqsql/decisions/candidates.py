"""Candidate clauses of one column: half-widths, their FPR bounds, and the issues they catch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dqsql.decisions import bounds as fpr_bounds
from dqsql.decisions.program import Clause
from dqsql.decisions.stationarity import Transform

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# The paper leaves the grid open: half-widths of 1 to 30 standard deviations.
PAPER_GRID = np.arange(1.0, 30.25, 0.25)
# Issues can lie anywhere beyond, and among clauses that catch the same, the widest is the safest.
CALIBRATED_GRID = np.geomspace(1.5, 1e7, 140)
# How much further out than the bound an injected issue must lie. Each is a covering goal of its
# own: an issue of the same kind in tomorrow's batch will be weaker or stronger than the sample.
SAFETY_FACTORS = (1.0, 1.5, 2.2)
_DEEPEST = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One metric of one column under one transform.

    Attributes:
        metric: name of the metric.
        transform: the transform.
        values: transformed history, K values.
        issues: transformed metric of the injected variants, V values; NaN if it has no value.
        floor: resolution to add to the spread, 0 in paper mode.
        null_rate: probability that a good batch has no value, see `Clause.null_rate`.
    """

    metric: str
    transform: Transform
    values: FloatArray
    issues: FloatArray
    floor: float
    null_rate: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidate clauses of one series.

    Attributes:
        series: where they come from.
        center: mean of the transformed history.
        spread: standard deviation that half-widths count in.
        method: which bound.
        lower: n thresholds, -inf for none.
        upper: n thresholds, inf for none.
        fpr: n bounds on the false-positive rate.
        covers: n x goals, whether the candidate catches the issue (V goals in paper mode, V per
            safety factor in calibrated mode).
    """

    series: Series
    center: float
    spread: float
    method: fpr_bounds.Method
    lower: FloatArray
    upper: FloatArray
    fpr: FloatArray
    covers: BoolArray


def paper_candidates(series: Series, budget: float) -> list[Candidates]:
    """Return the clauses of the paper's Algorithm 3 with an FPR within the budget."""
    center, spread = float(series.values.mean()), float(series.values.std(ddof=1))
    unknown = np.isnan(series.issues)
    tolerance = equality_tolerance(series.values)
    if spread <= tolerance:
        covers = ~(np.abs(series.issues - center) <= tolerance) & ~unknown
        lower, upper = np.array([center - tolerance]), np.array([center + tolerance])
        found = Candidates(
            series, center, 0.0, "equality", lower, upper, np.zeros(1), covers[None, :]
        )
        return [found] if covers.any() else []
    method = fpr_bounds.paper_method(series.metric)
    fpr = fpr_bounds.paper_fpr(method, PAPER_GRID)
    width = PAPER_GRID * spread
    upper = center + width
    lower = np.zeros_like(width) if method == "cantelli" else center - width
    if method == "cantelli" and series.transform != Transform():
        lower = np.full_like(width, -np.inf)
    inside = (series.issues >= lower[:, None]) & (series.issues <= upper[:, None])
    inside |= unknown
    low, high = fpr_bounds.possible_range(
        series.metric, series.transform.log, series.transform.lag > 0
    )
    keep = (fpr <= budget) & ~inside.all(axis=1) & ((lower > low) | (upper < high))
    if not keep.any():
        return []
    return [
        Candidates(
            series, center, spread, method, lower[keep], upper[keep], fpr[keep], ~inside[keep]
        )
    ]


def equality_tolerance(values: FloatArray) -> float:
    """Return by how much a value may differ from a constant history's for rounding's sake."""
    tolerance = fpr_bounds.EQUALITY_TOLERANCE * float(np.abs(values).max())
    return max(tolerance, float(np.finfo(float).tiny))


def calibrated_candidates(series: Series, budget: float) -> list[Candidates]:
    """Return one-sided clauses with calibrated FPR bounds within the budget.

    Distances get an upper side only. Of clauses that catch the same issues, only the widest is
    returned: it has the smallest FPR, so no other can be chosen.
    """
    center = float(series.values.mean())
    spread = float(np.hypot(series.values.std(ddof=1), series.floor))
    sides = (1.0,) if series.metric in fpr_bounds.DISTANCE_METRICS else (1.0, -1.0)
    low, high = fpr_bounds.possible_range(
        series.metric, series.transform.log, series.transform.lag > 0
    )
    issues = series.issues
    if series.transform.log:
        # The logarithm of zero is no deeper fall than that to a thousandth of what was seen.
        issues = np.maximum(issues, series.values.min() - np.log(_DEEPEST))
    out = []
    for side in sides:
        extreme = float((side * (series.values - center)).max()) / spread
        fpr = fpr_bounds.calibrated_fpr(
            CALIBRATED_GRID, series.values.size, extreme, difference=series.transform.lag > 0
        )
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = side * (issues - center) / spread
        # Missing values have bounds of their own: that a batch without any has no minimum either
        # says nothing of what a bound on the minimum is good for.
        deviation[np.isnan(deviation)] = -np.inf
        goals = np.concatenate([deviation / factor for factor in SAFETY_FACTORS])
        threshold = center + side * CALIBRATED_GRID * spread
        # Nothing lies beyond a bound that is wider than what the metric can be.
        possible = threshold < high if side > 0 else threshold > low
        keep = np.flatnonzero((fpr <= budget) & possible)
        # Nested: the wider the clause, the fewer it catches.
        counts = np.searchsorted(np.sort(-goals), -CALIBRATED_GRID[keep], side="left")
        widest = (counts > 0) & (np.append(counts[1:], 0) != counts)
        keep = keep[widest]
        if not keep.size:
            continue
        k = CALIBRATED_GRID[keep]
        unbounded = np.full(k.size, -side * np.inf)
        bound = threshold[keep]
        lower, upper = (unbounded, bound) if side > 0 else (bound, unbounded)
        covers = goals[None, :] > k[:, None]
        out.append(Candidates(series, center, spread, "student_t", lower, upper, fpr[keep], covers))
    return out


def refit(clause: Clause, values: FloatArray, bounds: fpr_bounds.Bounds, floor: float) -> Clause:
    """Return a clause with all its numbers computed again, at the half-widths that it has.

    A half-width is the candidate's whose bound is nearest. For the history that the clause was
    learned from the same clause comes out, up to rounding.

    Args:
        clause: the clause.
        values: transformed history, finite.
        bounds: how it was learned.
        floor: resolution to add to the spread, of 'calibrated' bounds.
    """
    center, spread = float(values.mean()), float(values.std(ddof=1))
    size = int(values.size)
    if clause.method == "equality":
        tolerance = equality_tolerance(values)
        lower, upper = center - tolerance, center + tolerance
        return replace(clause, lower=lower, upper=upper, center=center, history_size=size)
    if bounds == "paper":
        width = _width(clause, clause.upper, PAPER_GRID)
        method = fpr_bounds.paper_method(clause.metric)
        # Distances have an upper side only; 0 is their least value, not a bound that was learned.
        lower = clause.lower if method == "cantelli" else center - width * spread
        upper, fpr = center + width * spread, float(fpr_bounds.paper_fpr(method, width))
        known = replace(clause, center=center, spread=spread, history_size=size)
        return replace(known, lower=lower, upper=upper, fpr=fpr)
    spread = float(np.hypot(spread, floor))
    sides: list[float] = []
    fpr = 0.0
    for side, bound in ((-1.0, clause.lower), (1.0, clause.upper)):
        if np.isinf(bound):
            sides.append(bound)
            continue
        width = _width(clause, bound, CALIBRATED_GRID)
        extreme = float((side * (values - center)).max()) / spread
        sides.append(center + side * width * spread)
        fpr += float(fpr_bounds.calibrated_fpr(width, size, extreme, clause.transform.lag > 0))
    known = replace(clause, center=center, spread=spread, history_size=size)
    return replace(known, lower=sides[0], upper=sides[1], fpr=fpr)


def _width(clause: Clause, bound: float, grid: FloatArray) -> float:
    """The half-width of the grid that is nearest to that of a bound."""
    return float(grid[np.abs(grid - abs(bound - clause.center) / clause.spread).argmin()])

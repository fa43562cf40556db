"""Candidate clauses of one column: half-widths, their FPR bounds, and the issues they catch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dqsql.decisions import bounds as fpr_bounds
from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.program import Clause
from dqsql.decisions.stationarity import Transform
from dqsql.model.metric_traits import DISTANCE_METRICS

# The paper leaves the grid open: half-widths of 1 to 30 standard deviations.
_PAPER_GRID = np.arange(1.0, 30.25, 0.25)
# A share of the rate that costs a bound nothing.
_NEGLIGIBLE = 1e-3
# Issues can lie anywhere beyond, and among clauses that catch the same, the widest is the safest.
_CALIBRATED_GRID = np.geomspace(1.5, 1e7, 140)
# How much further out than the bound an injected issue must lie. Each is a covering goal of its
# own: an issue of the same kind in tomorrow's batch will be weaker or stronger than the sample.
SAFETY_FACTORS = (1.0, 1.5, 2.2)
_DEEPEST = 1000.0
# How many series are looked at together: larger tables would leave the processor's cache.
_TOGETHER = 256


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSeries:
    """One metric of one column under one transform.

    Attributes:
        metric: name of the metric.
        transform: the transform.
        values: transformed history, K values.
        issues: transformed metric of the injected variants, V values; NaN if it has no value.
        floor: resolution to add to the spread, 0 in paper mode.
        null_rate: probability that a good batch has no value, see `Clause.null_rate`.
        steady: whether the metric never changed.
    """

    metric: str
    transform: Transform
    values: FloatArray
    issues: FloatArray
    floor: float
    null_rate: float = 0.0
    steady: bool = False


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

    series: CandidateSeries
    center: float
    spread: float
    method: fpr_bounds.Method
    lower: FloatArray
    upper: FloatArray
    fpr: FloatArray
    covers: BoolArray


def paper_candidates(series: CandidateSeries, budget: float) -> list[Candidates]:
    """Return the clauses of the paper's Algorithm 3 with an FPR within the budget."""
    center, spread = float(series.values.mean()), float(series.values.std(ddof=1))
    unknown = np.isnan(series.issues)
    tolerance = equality_tolerance(series.values)
    if spread <= tolerance:
        covers = ~(np.abs(series.issues - center) <= tolerance) & ~unknown
        lower, upper = np.array([center - tolerance]), np.array([center + tolerance])
        candidates = Candidates(
            series, center, 0.0, "equality", lower, upper, np.zeros(1), covers[None, :]
        )
        return [candidates] if covers.any() else []
    method = fpr_bounds.paper_method(series.metric)
    fpr = fpr_bounds.paper_fpr(method, _PAPER_GRID)
    width = _PAPER_GRID * spread
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


def calibrated_candidates(
    many: Sequence[CandidateSeries], budgets: Sequence[float]
) -> list[list[Candidates]]:
    """Return, per series, one-sided clauses with calibrated FPR bounds within its budget.

    Distances get an upper side only. Of clauses that catch the same issues, only the widest is
    returned: it has the smallest FPR, so no other can be chosen.
    """
    candidate_lists: list[list[Candidates]] = [[] for _ in many]
    alike: dict[tuple[int, int, float], list[int]] = defaultdict(list)
    for place, one in enumerate(many):
        degrees = fpr_bounds.tail_dof(one.values.size, one.metric, one.transform.lag > 0)
        alike[one.values.size, one.issues.size, degrees].append(place)
    for (size, _, degrees), places in alike.items():
        for start in range(0, len(places), _TOGETHER):
            some = places[start : start + _TOGETHER]
            group = _AlikeSeries.of([many[i] for i in some], np.array([budgets[i] for i in some]))
            tail = _tail(size, degrees)
            for side in (1.0, -1.0):
                for place, candidates in group.candidates(side, tail):
                    candidate_lists[some[place]].append(candidates)
    return candidate_lists


@lru_cache(maxsize=1024)
def _tail(size: int, degrees: float) -> FloatArray:
    """The false-positive rates of the grid outside of what was seen, for so many values."""
    return fpr_bounds.calibrated_fpr(_CALIBRATED_GRID, size, 0.0, degrees)


@dataclass(frozen=True, slots=True, eq=False)
class _AlikeSeries:
    """Series of equally many values and issues, n of them, and their budgets."""

    many: Sequence[CandidateSeries]
    budgets: FloatArray
    values: FloatArray
    issues: FloatArray
    center: FloatArray
    spread: FloatArray
    bands: FloatArray
    steady: BoolArray

    @classmethod
    def of(cls, many: Sequence[CandidateSeries], budgets: FloatArray) -> _AlikeSeries:
        """Reckon their centres and spreads."""
        values = np.stack([one.values for one in many])
        issues = np.stack([one.issues for one in many])
        # The logarithm of zero is no deeper fall than that to a thousandth of what was seen.
        deepest = np.where(
            [one.transform.log for one in many], values.min(axis=1) - np.log(_DEEPEST), -np.inf
        )
        spread = np.hypot(values.std(axis=1, ddof=1), [one.floor for one in many])
        issues = np.maximum(issues, deepest[:, None])
        bands = [
            fpr_bounds.dead_bands(one.metric, one.values, one.transform.lag > 0) for one in many
        ]
        steady = np.array([one.steady for one in many])
        center = values.mean(axis=1)
        return cls(many, budgets, values, issues, center, spread, np.array(bands), steady)

    def band(self, side: float) -> FloatArray:
        """How far from the centre a value may be on one side before that counts."""
        return self.bands[:, 1 if side > 0 else 0]

    def candidates(self, side: float, tail: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """Yield the candidates of one side, with the place of their series."""
        fpr, threshold, keep = self._thresholds(side, tail)
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = side * (self.issues - self.center[:, None])
            deviation -= self.band(side)[:, None]
            deviation /= self.spread[:, None]
        # Missing values have bounds of their own: that a batch without any has no minimum either
        # says nothing of what a bound on the minimum is good for.
        deviation[np.isnan(deviation)] = -np.inf
        goals = np.concatenate([deviation / factor for factor in SAFETY_FACTORS], axis=1)
        # Nested: of the grid's clauses the first so many catch a goal.
        reached = np.searchsorted(_CALIBRATED_GRID, goals, side="left")
        widest = keep & self._loses(reached, keep)
        rows, steps = np.nonzero(widest)
        covers = reached[rows] > steps[:, None]
        ends = np.searchsorted(rows, np.arange(len(self.many) + 1))
        for row in np.flatnonzero(np.diff(ends)).tolist():
            mine = slice(ends[row], ends[row + 1])
            bound = threshold[row, steps[mine]]
            unbounded = np.full(bound.size, -side * np.inf)
            lower, upper = (unbounded, bound) if side > 0 else (bound, unbounded)
            yield (
                row,
                Candidates(
                    self.many[row],
                    float(self.center[row]),
                    float(self.spread[row]),
                    "student_t",
                    lower,
                    upper,
                    fpr[row, steps[mine]],
                    covers[mine],
                ),
            )

    def _thresholds(
        self, side: float, tail: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Rates and thresholds of the grid, and which are within the budget and possible."""
        furthest = (side * (self.values - self.center[:, None])).max(axis=1)
        band = self.band(side)
        extreme = (furthest - band) / self.spread
        size = self.values.shape[1]
        fpr = fpr_bounds.fpr_of_tail(
            tail, _CALIBRATED_GRID, size, extreme[:, None], self.steady[:, None]
        )
        half_widths = band[:, None] + _CALIBRATED_GRID * self.spread[:, None]
        threshold = self.center[:, None] + side * half_widths
        ranges = np.array(
            [
                fpr_bounds.possible_range(o.metric, o.transform.log, o.transform.lag > 0)
                for o in self.many
            ]
        )
        # Nothing lies beyond a bound that is wider than what the metric can be.
        low, high = ranges[:, :1], ranges[:, 1:]
        possible = threshold < high if side > 0 else threshold > low
        if side < 0:
            possible &= ~np.array([[o.metric in DISTANCE_METRICS] for o in self.many])
        # A bound that is wider than one which hardly ever errs is no better: it would let pass what
        # no injected issue resembles.
        rare = fpr <= _NEGLIGIBLE * self.budgets[:, None]
        wider = np.cumsum(rare, axis=1) > 1
        return fpr, threshold, (fpr <= self.budgets[:, None]) & possible & ~wider

    @staticmethod
    def _loses(reached: npt.NDArray[np.int64], keep: BoolArray) -> BoolArray:
        """Which clauses of the grid catch more than the next wider one that is kept."""
        size, width = keep.shape
        places = (np.arange(size)[:, None] * (width + 1) + reached).ravel()
        ends = np.bincount(places, minlength=size * (width + 1)).reshape(size, width + 1)
        counts = np.cumsum(ends[:, ::-1], axis=1)[:, ::-1][:, 1:]
        wider = np.zeros_like(counts)
        wider[:, :-1] = np.where(keep[:, 1:], counts[:, 1:], 0)
        return np.asarray((counts > 0) & (wider != counts), dtype=np.bool_)


def refit(
    clause: Clause,
    values: FloatArray,
    bounds: fpr_bounds.Bounds,
    floor: float,
    *,
    steady: bool = False,
) -> Clause:
    """Return a clause with all its numbers computed again, at the half-widths that it has.

    A half-width is the candidate's whose bound is nearest. For the history that the clause was
    learned from the same clause comes out, up to rounding. `floor` is the resolution to add to the
    spread, of 'calibrated' bounds; `steady` says whether the metric never changed.
    """
    center, spread = float(values.mean()), float(values.std(ddof=1))
    size = int(values.size)
    known = replace(clause, center=center, history_size=size)
    if clause.method == "equality":
        tolerance = equality_tolerance(values)
        return replace(known, lower=center - tolerance, upper=center + tolerance)
    if bounds == "paper":
        width = _width(clause, clause.upper, _PAPER_GRID)
        method = fpr_bounds.paper_method(clause.metric)
        # Distances have an upper side only; 0 is their least value, not a bound that was learned.
        lower = clause.lower if method == "cantelli" else center - width * spread
        upper, fpr = center + width * spread, float(fpr_bounds.paper_fpr(method, width))
        return replace(known, lower=lower, upper=upper, spread=spread, fpr=fpr)
    spread = float(np.hypot(spread, floor))
    sides: list[float] = []
    fpr, difference = 0.0, clause.transform.lag > 0
    bands = fpr_bounds.dead_bands(clause.metric, values, difference)
    for side, bound, band in ((-1.0, clause.lower, bands[0]), (1.0, clause.upper, bands[1])):
        if np.isinf(bound):
            sides.append(bound)
            continue
        width = _width(clause, bound, _CALIBRATED_GRID, band)
        extreme = (float((side * (values - center)).max()) - band) / spread
        sides.append(center + side * (band + width * spread))
        degrees = fpr_bounds.tail_dof(size, clause.metric, difference)
        fpr += float(fpr_bounds.calibrated_fpr(width, size, extreme, degrees, steady))
    return replace(known, lower=sides[0], upper=sides[1], spread=spread, fpr=fpr)


def _width(clause: Clause, bound: float, grid: FloatArray, band: float = 0.0) -> float:
    """The half-width of the grid that is nearest to that of a bound beyond its dead band."""
    width = (abs(bound - clause.center) - band) / clause.spread
    return float(grid[np.abs(grid - width).argmin()])

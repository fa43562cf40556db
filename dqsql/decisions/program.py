"""Conjunctive data-quality programs, and what they say of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.beta_binomial import BetaBinomial, share_limit
from dqsql.decisions.magnitudes import finite_values, without_outliers
from dqsql.decisions.stationarity import Transform
from dqsql.model.metric_traits import (
    COUNTED_SHARES,
    DISTANCE_METRICS,
    PROPORTIONAL_METRICS,
    QUARTILES,
    ROW_DRIVEN_METRICS,
)

Status = Literal["pass", "fail", "null"]
_FORMAT_VERSION = 2
# The method of bounds on counted rows, which depend on the number of rows of the batch.
COUNTED = "beta_binomial"
ROWS, COMPLETE = "row_count", "complete_ratio"
# How probable it must be that no row of a batch has a value, for nothing to be made of it.
_BY_CHANCE = 0.001
SHARE_TOLERANCE = 1e-9
# A batch of fewer rows than this part of the least before says little but that they are few.
_FEW = 0.05
# Where there are batches of fewer rows than this part of the median, bounds are not learned from
# them, if so many others are left.
_SMALL, _FEWEST_USUAL = 0.1, 8
# By so many of its standard deviations a mean may move while a quartile goes on by one.
_STEADY = 4.0
# Fewer rows are hardly any.
_HARDLY_ANY = 6
# Metrics that say how many rows there are, or whose bounds count them.
BY_ROWS = PROPORTIONAL_METRICS | ROW_DRIVEN_METRICS | frozenset(COUNTED_SHARES)
# Fewer rows alone raise the first, and lower the others.
_RAISED = frozenset({"min", "days_to_min", "unique_ratio"})
_LOWERED = frozenset({"max", "days_to_max", "range"})
_COUNTS = frozenset({"dist_val_count"})


@dataclass(frozen=True, slots=True)
class Clause:
    """One bound of a program: lower <= transform(metric) <= upper.

    Attributes:
        metric: name of the metric.
        transform: what is done to the metric before the bounds apply.
        lower: least allowed transformed value; -inf for none.
        upper: largest allowed transformed value; inf for none.
        center: mean of the transformed history.
        spread: standard deviation of the transformed history that the bound counts in, >= 0.
        fpr: upper bound on the clause's false-positive rate, in [0, 1].
        method: equality, chebyshev, cantelli, clt, student_t or beta_binomial.
        catches: names of the injected issues that the clause flagged in training.
        history_size: number of transformed values it was learned from.
        first_batch: name of the oldest batch learned from.
        last_batch: name of the newest batch learned from.
        null_rate: probability that a good batch has no value of the metric, in [0, 1], by Laplace's
            rule of succession: (m + 1) / (K + 2) if m of the K batches learned from had none, and 0
            if all had one (choice: the first null is a finding). Above the program's rate, no value
            is no finding.
        shape: parameters of the distribution of a counted share, of beta_binomial only. `lower` and
            `upper` are then those of a batch with as many rows as usual, see `bounds_for`.
    """

    metric: str
    transform: Transform
    lower: float
    upper: float
    center: float
    spread: float
    fpr: float
    method: str
    catches: tuple[str, ...]
    history_size: int
    first_batch: str
    last_batch: str
    null_rate: float = 0.0
    shape: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form; an open bound is None."""
        data = asdict(self) | {"catches": list(self.catches)}
        for name in ("lower", "upper"):
            data[name] = None if abs(data[name]) == float("inf") else data[name]
        return data


@dataclass(frozen=True, slots=True)
class Program:
    """A conjunction of clauses for one column.

    Attributes:
        column: name of the column.
        clauses: the bounds; a batch passes if it keeps all of them. None means that nothing could
            be promised at this rate.
        fpr: the false-positive rate asked for; the clauses' bounds sum to at most this.
        bounds: 'paper' or 'calibrated'.
        issues: how many injected issues it was trained on.
        caught: how many of them it flags.
    """

    column: str
    clauses: tuple[Clause, ...]
    fpr: float
    bounds: str
    issues: int
    caught: int

    @property
    def fpr_bound(self) -> float:
        """Sum of the clauses' bounds: the union bound on the program's false-positive rate."""
        return sum(clause.fpr for clause in self.clauses)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form."""
        data: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name != "clauses"
        }
        clauses = [clause.to_dict() for clause in self.clauses]
        return {"version": _FORMAT_VERSION, **data, "clauses": clauses}


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """One clause on one batch.

    Attributes:
        clause: the clause.
        observed: the metric's value in its own unit; NaN if it is null.
        lower: least allowed value in the metric's own unit, for this batch.
        upper: largest allowed value in the metric's own unit, for this batch.
        score: distance from the centre over the distance of the broken or nearer bound from it;
            above 1 is outside. NaN if the metric is null.
        status: pass, fail, or null for a metric without a value where good batches have one.
        explanation: one sentence for a data engineer.
    """

    clause: Clause
    observed: float
    lower: float
    upper: float
    score: float
    status: Status
    explanation: str


@dataclass(frozen=True, slots=True)
class ProgramVerdict:
    """A program on one batch.

    Attributes:
        program: the program.
        status: fail if any clause fails, else null if any metric is null, else pass.
        score: largest score of the clauses; 0 without clauses, NaN if all metrics are null.
        clauses: the verdicts of the clauses, worst first.
        explanation: the failing clauses' sentences, or that all bounds are kept.
    """

    program: Program
    status: Status
    score: float
    clauses: tuple[ClauseVerdict, ...]
    explanation: str


def bounds_for(clause: Clause, rows: float) -> tuple[float, float]:
    """Return the least and the largest value of the metric for a batch of so many rows.

    Those of a usual batch if it has none or their number is unknown.
    """
    if clause.shape is None or not rows > 0:
        return clause.lower, clause.upper
    share = share_limit(BetaBinomial(*clause.shape), rows, clause.fpr)
    return (1.0 - share, np.inf) if np.isinf(clause.upper) else (-np.inf, share)


class UsualRows(NamedTuple):
    """How many rows batches usually have.

    Attributes:
        least: of the batches that bounds are learned from; 0 if it is not known.
        few: batches of fewer have wider bounds; 0 if it is not known.
        last: of the batch before; NaN if it is not known.
        middle: their median; 0 if it is not known.
    """

    least: float = 0.0
    few: float = 0.0
    last: float = float("nan")
    middle: float = 0.0

    def are_hardly_any(self, rows: FloatArray) -> BoolArray:
        """Whether rows are so few that values hardly say anything, where most have many more."""
        return np.asarray((rows < _HARDLY_ANY) & (rows < self.middle / 2))

    @property
    def some_left_out(self) -> bool:
        """Whether bounds are not learned from batches of few rows."""
        return self.few == self.least > 0

    @classmethod
    def of(cls, rows: npt.ArrayLike) -> UsualRows:
        """Those of the batches before, oldest first; NaN for one that is left out."""
        known = finite_values(rows)
        if not known.size:
            return cls()
        last, middle = float(known[-1]), float(np.median(known))
        usual = known[known >= _SMALL * middle]
        if usual.size == known.size or usual.size < _FEWEST_USUAL:
            return cls(float(known.min()), _FEW * float(known.min()), last, middle)
        return cls(float(usual.min()), float(usual.min()), last, middle)


def of_usual_rows(metric: str, values: FloatArray, rows: FloatArray) -> FloatArray:
    """Return a metric's history with NaN for batches of so few rows that it says little there.

    A Sunday of ten rows among days of a thousand would widen the bounds of all days. What the
    number of rows moves by itself is left as it is, and so is what too few others have. A distance
    says little after such a batch, too. Of a batch that is left out the number of `rows` is NaN.
    """
    if metric in BY_ROWS | _RAISED | _LOWERED:
        return values
    small = rows < UsualRows.of(rows).few
    if metric in DISTANCE_METRICS:
        known = np.flatnonzero(np.isfinite(rows))
        after = known[1:][small[known[:-1]]]
        small = small.copy()
        small[after] = True
    usual_values = np.where(small, np.nan, values)
    return usual_values if np.isfinite(usual_values).sum() >= _FEWEST_USUAL else values


def limits_by_rows(
    clause: Clause, rows: FloatArray, usual: UsualRows
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds for batches, wider for those of far fewer rows than are usual.

    What is estimated from fewer rows varies more: by the square root of how much fewer they are,
    of distances by as much. Nothing is said where their number alone moves the metric: the least
    of few values is larger, and more of them are distinct. Hardly any rows are compared with the
    median of the others: the fewest may be hardly any, too. Unknown numbers of `rows` are NaN.
    """
    lower, upper = np.full(rows.shape, clause.lower), np.full(rows.shape, clause.upper)
    hardly_any = usual.are_hardly_any(rows)
    if clause.metric in _COUNTS or (clause.transform.log and clause.metric not in BY_ROWS):
        # They may well have no value, or none that is above 0.
        lower = np.where(hardly_any, -np.inf, lower)
    if clause.metric in BY_ROWS or clause.method == COUNTED or not usual.least > 0:
        return lower, upper
    if clause.metric in DISTANCE_METRICS:
        rows = np.fmin(rows, usual.last)
        hardly_any = usual.are_hardly_any(rows)
    few = rows < usual.few
    if usual.some_left_out:
        # Days of few rows may differ from others, and bounds were not learned from them.
        return np.where(few, -np.inf, lower), np.where(few, np.inf, upper)
    few |= hardly_any
    others = np.where(hardly_any, usual.middle, usual.least)
    fewer = np.where(few, others / np.maximum(rows, 1.0), 1.0)
    if clause.metric in _RAISED:
        return lower, np.where(few, np.inf, upper)
    if clause.metric in _LOWERED:
        return np.where(few, -np.inf, lower), upper
    factor = fewer if clause.metric in DISTANCE_METRICS else np.sqrt(fewer)
    center = clause.center
    return center + (lower - center) * factor, center + (upper - center) * factor


def limit_after_odd(clause: Clause, history: npt.ArrayLike, upper: FloatArray) -> FloatArray:
    """Return upper bounds on a distance, wider if the batch before was itself beyond them.

    A distance hangs on two batches. The one after an odd batch is far from it too, at most by as
    much as it may be from the one before both: by the triangle inequality, which holds for most of
    the distances, and nearly for the others. The bounds in `upper` are transformed, `history` is
    not.
    """
    if clause.metric not in DISTANCE_METRICS or clause.transform.lag:
        return upper
    values = np.asarray(history, dtype=float)
    values = values[~np.isnan(values)]
    bounds = clause.transform.undo((), upper)
    if not values.size or not (values[-1] > bounds).any():
        return upper
    echo = np.where(values[-1] > bounds, bounds + values[-1], bounds)
    return clause.transform.apply((), echo)


def outside(
    clause: Clause, values: FloatArray, rows: FloatArray, factors: Sequence[float] = (1.0,)
) -> BoolArray:
    """Return which values break the bound, one row for each factor; NaN does not.

    `rows` are those of the batches that the values are of; a factor says how much further out than
    the bound a value must lie.
    """
    lower, upper = _limits_of_shares(clause, rows).T
    moved = clause.center + (values - clause.center) / np.array(factors)[:, None]
    low, high = lower - SHARE_TOLERANCE, upper + SHARE_TOLERANCE
    return np.asarray((moved < low) | (moved > high), dtype=np.bool_)


def _limits_of_shares(clause: Clause, rows: FloatArray) -> FloatArray:
    """Return the bounds for batches of so many rows each, N x 2; see `bounds_for`."""
    sizes, which = np.unique(np.nan_to_num(rows), return_inverse=True)
    return np.array([bounds_for(clause, size) for size in sizes.tolist()]).reshape(-1, 2)[which]


def compared(
    clause: Clause, history: npt.ArrayLike, bounds: str, warned: BoolArray | None = None
) -> tuple[npt.ArrayLike, ...]:
    """Return the histories that a difference may be taken against: without a lone odd batch first.

    Then with it, unless it is among those `warned` of (None is all): what is like a batch that
    passed, or that a person accepted, is no news, as where a level has changed.
    """
    if not clause.transform.lag or bounds == "paper":
        return (history,)
    usual = without_outliers(history, clause.metric in DISTANCE_METRICS)
    if not clause.transform.reaches(usual):
        return (history,)
    if warned is None:
        return (usual,)
    told = warned & np.isnan(usual)
    passed = np.where(told, np.nan, np.asarray(history, dtype=float))
    return (usual, passed) if clause.transform.reaches(passed) else (usual,)


class Held(NamedTuple):
    """One clause held against N possible next batches.

    `values` are transformed, R x N for each of R `references` (see `compared`), and the bounds on
    them for each batch: wider than the clause's `by_rows` if it has few, `after_odd` ones if the
    batch before was odd. `within` says which values keep them, `broken` which batches do not pass.
    """

    clause: Clause
    references: tuple[npt.ArrayLike, ...]
    values: FloatArray
    lower: FloatArray
    upper: FloatArray
    within: BoolArray
    broken: BoolArray
    by_rows: BoolArray
    after_odd: BoolArray


def held(
    program: Program,
    history: Mapping[str, npt.ArrayLike],
    new: Mapping[str, FloatArray],
    size: int,
    warned: BoolArray | None = None,
) -> list[Held]:
    """Hold a program's clauses against many possible next batches.

    There are `size` of them, with as many values of each metric in `new`: NaN for none, which
    passes only where good batches have none either. `history` and `warned` are as for
    `dqsql.decisions.avh.evaluate`.
    """
    none = np.full(size, np.nan)
    rows, calibrated = new.get(ROWS, none), program.bounds != "paper"
    usual = UsualRows.of(history.get(ROWS, ())) if calibrated else UsualRows()
    empty = empty_by_chance(program, history, new.get(COMPLETE, none), rows)
    clauses = []
    for clause in program.clauses:
        past, observed = history.get(clause.metric, ()), new.get(clause.metric, none)
        references = compared(clause, past, program.bounds, warned)
        values = np.array([clause.transform.apply(p, observed) for p in references])
        by_rows = after_odd = np.zeros(size, dtype=np.bool_)
        slack, next_whole = 0.0, np.zeros(size, dtype=np.bool_)
        if clause.method == COUNTED:
            (lower, upper), slack = _limits_of_shares(clause, rows).T, SHARE_TOLERANCE
        else:
            lower, upper = limits_by_rows(clause, rows, usual)
            by_rows = (lower != clause.lower) | (upper != clause.upper)
            if calibrated:
                wider = limit_after_odd(clause, past, upper)
                upper, after_odd = wider, wider > upper
                next_whole = is_next_whole(clause.metric, history, new)
        within = (values >= lower - slack) & (values <= upper + slack)
        may_be_null = empty | (clause.null_rate > program.fpr)
        broken = ~(within.any(axis=0) | next_whole | (np.isnan(observed) & may_be_null))
        clauses.append(
            Held(clause, references, values, lower, upper, within, broken, by_rows, after_odd)
        )
    return clauses


def breaks(
    program: Program,
    history: Mapping[str, npt.ArrayLike],
    new: Mapping[str, FloatArray],
    size: int,
    warned: BoolArray | None = None,
) -> BoolArray:
    """Return which of many possible next batches a program would not pass; see `held`."""
    out = np.zeros(size, dtype=np.bool_)
    for one in held(program, history, new, size, warned):
        out |= one.broken
    return out


def is_next_whole(
    metric: str, history: Mapping[str, npt.ArrayLike], new: Mapping[str, Any]
) -> BoolArray:
    """Return which quartiles of whole numbers are no more than one away from one of before.

    Where a quarter of the ratings are 3 or less, the quartile is 3 on one day and 4 on the next.
    The mean then hardly moves. Of other metrics than quartiles it is none; `new` has the values of
    possible next batches, or of one.
    """
    values = np.asarray(new.get(metric, np.nan), dtype=float)
    past, means = (finite_values(history.get(name, ())) for name in (metric, "mean"))
    if metric not in QUARTILES or not past.size or (past != np.rint(past)).any() or not means.size:
        return np.zeros(values.shape, dtype=np.bool_)
    nearest = np.abs(values[..., None] - np.unique(past)).min(axis=-1)
    moved = np.abs(np.asarray(new.get("mean", np.nan), dtype=float) - means.mean())
    steady = moved <= _STEADY * means.std()
    return np.asarray((nearest <= 1) & (values == np.rint(values)) & steady)


def empty_by_chance(
    program: Program,
    history: Mapping[str, npt.ArrayLike],
    complete: npt.ArrayLike,
    rows: npt.ArrayLike,
) -> BoolArray:
    """Return which batches may have no value of the column by chance.

    Few rows of a column that is mostly null may have none: then its other metrics have none, too.
    So it is if the shares before make that as probable as 1 in 1,000, or if a bound on nulls would.
    `complete` is the share of rows with a value of each batch.
    """
    complete, rows = np.asarray(complete, dtype=float), np.asarray(rows, dtype=float)
    before, sizes = (np.asarray(history.get(m, ()), dtype=float) for m in (COMPLETE, ROWS))
    counted = before * sizes if before.size == sizes.size else np.array([])
    known, null = np.isfinite(counted), 0.0
    if known.any() and sizes[known].sum() > 0:
        null = max(0.0, 1.0 - float(counted[known].sum() / sizes[known].sum()))
    by_chance = null ** np.maximum(rows, 1.0) >= _BY_CHANCE
    for clause in program.clauses:
        if clause.metric == COMPLETE and clause.method == COUNTED and np.isinf(clause.upper):
            rare = replace(clause, fpr=max(clause.fpr, _BY_CHANCE))
            by_chance |= ~outside(rare, complete, rows)[0]
    return np.asarray(by_chance & (complete == 0), dtype=np.bool_)

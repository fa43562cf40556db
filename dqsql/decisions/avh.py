"""Auto-Validate by History: bounds on a column's metrics, learned from its accepted batches.

Source: He et al., "Auto-Validate by History", KDD 2023. `fit_programs` learns one conjunctive
program per column from metric histories and from the metrics of injected issues; `evaluate` holds
a new batch against it. Pure functions of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dqsql.decisions import bounds as fpr_bounds
from dqsql.decisions import completeness
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.avh_series import changed_row, is_constant, series_of, transforms_of, usable_of
from dqsql.decisions.candidates import (
    SAFETY_FACTORS,
    Candidates,
    CandidateSeries,
    calibrated_candidates,
    paper_candidates,
)
from dqsql.decisions.coverage import select_clauses
from dqsql.decisions.magnitudes import finite_values, usable
from dqsql.decisions.program import (
    BY_ROWS,
    ROWS,
    Clause,
    ClauseVerdict,
    Held,
    Program,
    ProgramVerdict,
    Status,
    UsualRows,
    held,
)
from dqsql.decisions.program_words import describe
from dqsql.decisions.stationarity import Transform
from dqsql.errors import DecisionError
from dqsql.model.metric_traits import LENGTH_METRICS

_MIN_HISTORY = 8
# Variants with NULLs, by which no bound is chosen: bounds on them are there anyway.
MISSING = "missing_"
_ALL_MISSING = "missing_1.0"
# Issues that leave less than this part of the rows of the smallest batch are about their number.
_FEWER = 0.2
# By how many standard deviations all numbers are moved, and which share of texts is exchanged.
_SHIFTS = (1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
_EXCHANGED = (0.25, 0.5)
# Of a column whose values differ far more than its batches do, by how many of their deviations.
_LEVELS = ("mean", "median", "str_len")
_FAR = (12.0, -12.0, 25.0, -25.0)
# By which part texts are longer that always had one length.
_LONGER = (0.03, -0.03, 0.1, -0.1)
_MOVED = frozenset({"mean", "median", "p25", "p75", "min", "max"})
_QUARTILES_APART = 1.349
# What the names of issues begin with that nobody injects.
_LEVEL = "level_"
_COMPUTED = ("all_", "exchanged_", "length_", _LEVEL)


@dataclass(frozen=True, slots=True)
class AvhConfig:
    """Settings of a fit.

    Attributes:
        fpr: false-positive rate asked for per column and batch, in (0, 1).
        bounds: 'calibrated' (default) or 'paper'; see `dqsql.decisions.bounds`.
        stationarity: whether histories are tested and transformed first.
        two_distribution: whether distances to the batch before take part.
        max_clauses: largest number of clauses, None for no limit.
        min_history: fewest batches to learn from.
    """

    fpr: float = 0.01
    bounds: fpr_bounds.Bounds = "calibrated"
    stationarity: bool = True
    two_distribution: bool = True
    max_clauses: int | None = None
    min_history: int = _MIN_HISTORY


@dataclass(frozen=True, slots=True, eq=False)
class ColumnHistory:
    """What a program is learned from.

    Attributes:
        column: name of the column.
        metrics: names of the metrics, M; distances by the names in
            `model.metric_traits`.
        values: P x M metrics of the batches before, oldest first. A row of NaN stands for a batch
            that was left out (flagged, rejected): it keeps seasons in step. K rows are left. NaN
            is a metric without a value; one with fewer than `min_history` values is not used.
        issues: names of the injected variants, V, as `kind_parameters`.
        issue_values: V x M metrics of the variants of one of the batches, distances against the
            batch before it; NaN for a metric without a value.
        batches: names of the P batches; empty for numbers from 1.
        changed: the row of the batch that the variants are of; None for the newest.
        beside: B x M metrics of the newest batches of other times of day. Shares of rows without a
            proper value are learned from them too, if they are like those of `values`.
    """

    column: str
    metrics: tuple[str, ...]
    values: FloatArray
    issues: tuple[str, ...]
    issue_values: FloatArray
    batches: tuple[str, ...] = ()
    changed: int | None = None
    beside: FloatArray | None = None

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows of the K batches that were not left out."""
        return np.flatnonzero(np.isfinite(self.values).any(axis=1))

    @property
    def extent(self) -> tuple[str, str]:
        """The names of the first and the last of these."""
        names = self.batches or tuple(str(i + 1) for i in range(len(self.values)))
        return names[self.rows[0]], names[self.rows[-1]]


def fit_programs(
    histories: Sequence[ColumnHistory], config: AvhConfig | None = None
) -> list[Program]:
    """Learn the programs of many columns, one each, in the order given.

    Raises:
        DecisionError: a history shorter than `min_history`, shapes that do not fit, or settings
            out of range.
    """
    config = config or AvhConfig()
    _check(histories, config)
    if config.bounds == "calibrated":
        histories = [_with_shifts(_without_few(history)) for history in histories]
    columns = [usable_of(history, config) for history in histories]
    series = series_of(histories, columns, transforms_of(histories, columns, config), config)
    missing = [_completeness(history, config) for history in histories]
    column_candidates = _candidates(series, [budget for _, _, budget in missing], config)
    return [
        _fit(history, candidates, *bounded, config)
        for history, candidates, bounded in zip(histories, column_candidates, missing, strict=True)
    ]


def evaluate(
    program: Program,
    history: Mapping[str, npt.ArrayLike],
    new: Mapping[str, float],
    warned: npt.NDArray[np.bool_] | None = None,
) -> ProgramVerdict:
    """Hold a new batch against a program.

    Args:
        program: what was learned for the column.
        history: per metric, values of the batches before this one, oldest first, NaN for one that
            was left out; only distances, quartiles with the mean, metrics that are differenced and
            `row_count` are looked at.
        new: per metric, the value of the new batch; NaN or absent if it has none. Bounds on
            counted shares are those of its `row_count`.
        warned: which of the batches before were warned of; None where that is not known.

    Raises:
        DecisionError: a differenced metric has too short a history.
    """
    batch = {name: np.array([value], dtype=float) for name, value in new.items()}
    verdicts = [
        _clause_verdict(one, history, batch) for one in held(program, history, batch, 1, warned)
    ]
    rank: dict[Status, int] = {"fail": 0, "null": 1, "pass": 2}
    verdicts.sort(key=lambda v: (rank[v.status], -np.nan_to_num(v.score)))
    status: Status = verdicts[0].status if verdicts else "pass"
    scores = [verdict.score for verdict in verdicts if not np.isnan(verdict.score)]
    score = max(scores) if scores else (float("nan") if verdicts else 0.0)
    explanations = [verdict.explanation for verdict in verdicts if verdict.status != "pass"]
    if not explanations:
        explanations = [
            f"all {len(verdicts)} learned bounds are kept." if verdicts else "no bounds."
        ]
    return ProgramVerdict(program, status, score, tuple(verdicts), " ".join(explanations))


def _check(histories: Sequence[ColumnHistory], config: AvhConfig) -> None:
    if not 0 < config.fpr < 1:
        raise DecisionError(f"fpr must be between 0 and 1, got {config.fpr}")
    if config.bounds not in ("paper", "calibrated"):
        raise DecisionError(f"unknown bounds {config.bounds!r}", hint="use 'calibrated' or 'paper'")
    for history in histories:
        size, width = np.shape(history.values)
        if history.rows.size < config.min_history:
            raise DecisionError(
                f"column {history.column!r} has {history.rows.size} accepted batches, "
                f"avh needs at least {config.min_history}"
            )
        if width != len(history.metrics) or np.shape(history.issue_values) != (
            len(history.issues),
            width,
        ):
            raise DecisionError(f"column {history.column!r}: metrics and issues do not fit")
        if history.batches and len(history.batches) != size:
            raise DecisionError(f"column {history.column!r}: {size} batches need as many names")


def _without_few(history: ColumnHistory) -> ColumnHistory:
    """The history with issues that take most rows away to be caught by the number of rows alone."""
    if ROWS not in history.metrics or not len(history.issue_values):
        return history
    place = history.metrics.index(ROWS)
    few = history.issue_values[:, place] < _FEWER * UsualRows.of(history.values[:, place]).least
    others = np.array([m not in BY_ROWS for m in history.metrics])
    return replace(
        history, issue_values=np.where(few[:, None] & others, np.nan, history.issue_values)
    )


def _with_shifts(history: ColumnHistory) -> ColumnHistory:
    """The history with more issues: all numbers moved, some texts exchanged, or longer than all.

    Injected issues are faults of orders of magnitude, or of single values. By them alone no bound
    needs to lie near enough to see that every number has moved, as degrees of another scale, or
    that yes and no have changed places, or that identifiers have lost their dashes.
    """
    newest = history.values[changed_row(history)]
    known = dict(zip(history.metrics, newest, strict=True))
    # As a normal distribution has it; between infinities there is no distance.
    with np.errstate(invalid="ignore", over="ignore"):
        size = (known.get("p75", np.nan) - known.get("p25", np.nan)) / _QUARTILES_APART
    shifts: dict[str, dict[str, float]] = {}
    if 0 < size < np.inf:
        for by in _SHIFTS:
            moved = {m: known[m] + by * size for m in _MOVED if m in known}
            shifts[f"all_{by:+g}"] = {**moved, "emd": abs(by) * size, "cohen_d": abs(by)}
    if "l_1" in known:
        shifts |= {f"exchanged_{share}": {"l_1": 2 * share, "l_inf": share} for share in _EXCHANGED}
    usual = history.values[history.rows]
    for name in (n for n in _LEVELS if n in known):
        series = usual[:, history.metrics.index(name)]
        series = series[usable(series)]
        spread = float(series.std()) if series.size else 0.0
        if spread > 0:
            shifts |= {f"{_LEVEL}{by:+g}_{name}": {name: known[name] + by * spread} for by in _FAR}
    fixed = [
        name
        for name, series in zip(history.metrics, usual.T, strict=True)
        if name in LENGTH_METRICS and is_constant(finite_values(series)) and known[name] > 0
    ]
    if fixed:
        shifts |= {f"length_{by:+g}": {m: known[m] * (1 + by) for m in fixed} for by in _LONGER}
    if not shifts or not len(history.issue_values):
        return history
    rows = [[{**known, **changed}[m] for m in history.metrics] for changed in shifts.values()]
    return replace(
        history,
        issues=(*history.issues, *shifts),
        issue_values=np.concatenate([history.issue_values, rows]),
    )


def _candidates(
    series: Sequence[Sequence[CandidateSeries]], budgets: Sequence[float], config: AvhConfig
) -> list[list[Candidates]]:
    """Return per column the candidates of its series."""
    if config.bounds == "paper":
        return [
            [candidates for one in column for candidates in paper_candidates(one, budget)]
            for column, budget in zip(series, budgets, strict=True)
        ]
    flat = [one for column in series for one in column]
    each = [b for column, b in zip(series, budgets, strict=True) for _ in column]
    flat_candidates = iter(calibrated_candidates(flat, each))
    return [
        [candidates for _ in column for candidates in next(flat_candidates)] for column in series
    ]


def _fit(
    history: ColumnHistory,
    candidate_sets: Sequence[Candidates],
    clauses: list[Clause],
    covered: npt.NDArray[np.bool_],
    budget: float,
    config: AvhConfig,
) -> Program:
    chosen: list[Clause] = []
    if candidate_sets:
        owner = np.repeat(np.arange(len(candidate_sets)), [len(c.fpr) for c in candidate_sets])
        first = np.concatenate([[0], np.cumsum([len(c.fpr) for c in candidate_sets])])
        fpr = np.concatenate([c.fpr for c in candidate_sets])
        covers = np.concatenate([c.covers for c in candidate_sets])
        nests = owner if config.bounds == "calibrated" else None
        # What is left of the budget is for levels.
        levels = np.array([name.startswith(_LEVEL) for name in history.issues], dtype=np.bool_)
        last = np.tile(levels, len(covered) // max(len(levels), 1))
        picks = select_clauses(fpr, covers[:, ~covered & ~last], budget, config.max_clauses, nests)
        if config.max_clauses is None and levels.any():
            left, reached = budget - float(fpr[picks].sum()), covers[picks].any(axis=0)
            picks += select_clauses(fpr, covers[:, last & ~reached], left, None, nests)
        # Of two on one side of a metric, the tighter has the larger rate.
        by_series = {int(owner[p]): p for p in sorted(picks, key=lambda p: fpr[p])}
        for pick in by_series.values() if nests is not None else picks:
            candidates = candidate_sets[owner[pick]]
            chosen.append(_clause(history, candidates, pick - int(first[owner[pick]])))
    clauses += _join_sides(chosen)
    injected = {i for i in history.issues if not i.startswith(_COMPUTED)}
    caught = injected.intersection(issue for clause in clauses for issue in clause.catches)
    return Program(
        history.column, tuple(clauses), config.fpr, config.bounds, len(injected), len(caught)
    )


def _completeness(
    history: ColumnHistory, config: AvhConfig
) -> tuple[list[Clause], npt.NDArray[np.bool_], float]:
    """Return the bounds on values that are missing, the goals that they reach, and what is left.

    They stand in every calibrated program, whatever the injected issues; the paper has none.
    """
    missing = np.array([name.startswith(MISSING) for name in history.issues], dtype=np.bool_)
    count = len(history.issues)
    if config.bounds == "paper":
        return [], missing, config.fpr
    share = config.fpr * completeness.BUDGET_SHARE
    clauses = completeness.clauses_of(history, share, config.min_history)
    columns = dict(zip(history.metrics, history.issue_values.T, strict=True))
    clauses, goals = completeness.with_catches(clauses, history.issues, columns, SAFETY_FACTORS)
    # Where shares follow a season, or nearly all may be missing, a bound of the others has to do.
    lost = np.array([name == _ALL_MISSING for name in history.issues], dtype=np.bool_)
    missing &= ~lost | goals[:count]
    goals |= np.tile(missing, len(SAFETY_FACTORS))
    return clauses, goals, config.fpr - sum(clause.fpr for clause in clauses)


def _clause(history: ColumnHistory, candidates: Candidates, index: int) -> Clause:
    series = candidates.series
    first, last = history.extent
    caught = candidates.covers[index][: len(history.issues)]
    return Clause(
        metric=series.metric,
        transform=series.transform,
        lower=float(candidates.lower[index]),
        upper=float(candidates.upper[index]),
        center=candidates.center,
        spread=candidates.spread,
        fpr=float(candidates.fpr[index]),
        method=candidates.method,
        catches=tuple(np.array(history.issues, dtype=object)[caught]),
        history_size=series.values.size,
        first_batch=first,
        last_batch=last,
        null_rate=series.null_rate,
    )


def _join_sides(clauses: Sequence[Clause]) -> list[Clause]:
    """Join a lower and an upper bound of the same transformed metric into one interval."""
    joined: dict[tuple[str, Transform, str], Clause] = {}
    for number, clause in enumerate(clauses):
        is_separate = clause.method != "student_t"
        key = (clause.metric, clause.transform, str(number) if is_separate else "")
        one = joined.get(key)
        joined[key] = (
            clause
            if one is None
            else replace(
                one,
                lower=max(one.lower, clause.lower),
                upper=min(one.upper, clause.upper),
                fpr=one.fpr + clause.fpr,
                catches=tuple(dict.fromkeys([*one.catches, *clause.catches])),
            )
        )
    return list(joined.values())


def _clause_verdict(
    one: Held, history: Mapping[str, npt.ArrayLike], new: Mapping[str, FloatArray]
) -> ClauseVerdict:
    """What a clause says of the one batch that it was held against."""
    clause, transform = one.clause, one.clause.transform
    observed, rows = (float(new.get(m, (np.nan,))[0]) for m in (clause.metric, ROWS))
    least, largest = float(one.lower[0]), float(one.upper[0])
    # The first reference by which it passes, if there is one.
    place = int(one.within[:, 0].argmax())
    value, reference = float(one.values[place, 0]), one.references[place]
    lower, upper = (float(transform.undo(reference, bound)) for bound in (least, largest))
    if transform.log and least == -np.inf:
        lower = -np.inf
    lower, upper = fpr_bounds.shown(clause.metric, lower, upper)
    is_null = np.isnan(observed)
    status: Status = "pass" if not one.broken[0] else "null" if is_null else "fail"
    score = np.nan if is_null else fpr_bounds.score(value, clause.center, least, largest)
    text = describe(clause, observed, lower, upper, status)
    if one.after_odd[0]:
        text += " The range is wider than usual: the batch before was odd, and a distance is to it."
    if one.by_rows[0]:
        text += _few_rows(UsualRows.of(history[ROWS]), rows)
    return ClauseVerdict(clause, observed, lower, upper, score, status, text)


def _few_rows(usual: UsualRows, rows: float) -> str:
    """Why bounds are wider for a batch of so many rows, or for the batch before."""
    own = rows < usual.few or bool(usual.are_hardly_any(np.array(rows)))
    which, rows = ("this batch", rows) if own else ("the batch before", usual.last)
    half, at_least = ("", usual.least) if rows < usual.few else ("half of ", usual.middle)
    return (
        f" The range is wider than usual: {which} has {rows:,.0f} rows, and {half}those learned"
        f" from have at least {at_least:,.0f}."
    )

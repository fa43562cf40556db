"""What `@avh` says of its verdicts and programs, in words and as details of dq_results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.bounds import EQUALITY_TOLERANCE
from dqsql.decisions.drift import are_few_values, categorical_drift, new_categories
from dqsql.decisions.program import COMPLETE, COUNTED, ClauseVerdict, Program, ProgramVerdict
from dqsql.decisions.program_words import share_words, transform_words
from dqsql.decisions.running_numbers import TextState, counted_on
from dqsql.model.metric_traits import (
    CATEGORICAL_DISTANCES,
    COMPLETENESS_METRICS,
    COUNTED_SHARES,
    DISTANCE_METRICS,
    PATTERN_DISTANCES,
    metric_words,
)
from dqsql.model.wording import number_text, range_words
from dqsql.monitors.context import finite
from dqsql.monitors.history import MetricKey
from dqsql.monitors.recompute import shown_key

_SHOWN_CLAUSES = 3
# What says in numbers where a distribution moved, if by so many of its standard deviations.
_PLACES = ("min", "p25", "median", "p75", "max")
_FAR_OUT, _TINY = 3.0, 1e-300
_LARGE_FACTOR, _LARGEST_FACTOR = 5.0, 1e12
# Bounds on metrics that were always 0 are less.
_ZERO = 1e-6


def message(
    column: str, program: Program, verdict: ProgramVerdict, shifts: Sequence[str] = ()
) -> str:
    """What a person reads first: which bounds were broken, and what was seen.

    `shifts` say what moved, in values. They come first, and of the distances that follow from them
    one is enough.
    """
    broken = [c for c in verdict.clauses if c.status != "pass"]
    if not program.clauses:
        return f"{column}: no bound could be learned at a false-positive rate of {program.fpr:g}"
    if not broken:
        empty = sum(math.isnan(c.observed) for c in verdict.clauses)
        if not empty:
            return f"{column} keeps all {len(program.clauses)} learned bounds"
        kept = len(program.clauses) - empty
        return (
            f"{column} keeps {kept} of {len(program.clauses)} learned bounds;"
            " the others' metrics have no value, as in accepted batches before"
        )
    # Shares of rows come first, missing values before others: other bounds often follow from them,
    # as an infinite mean does, and no number below zero where there is none at all.
    broken = sorted(
        _each_share_once(broken),
        key=lambda c: (c.clause.method != COUNTED, c.clause.metric not in COMPLETENESS_METRICS),
    )
    if any(c.clause.metric == COMPLETE and c.observed == 0 for c in broken):
        # Of a column without any value no other metric has one.
        broken = [c for c in broken if c.status != "null"]
    shown = broken[:_SHOWN_CLAUSES]
    if shifts:
        distance = [c for c in shown if c.clause.metric in DISTANCE_METRICS]
        shown = [c for c in shown if c not in distance[1:]]
    more = len(broken) - len(shown)
    rest = f" and {more} more bound{'s' if more > 1 else ''} broken" if more > 0 else ""
    clause = broken[0].clause
    return (
        f"{column} is unlike its history: {', '.join((*shifts, *map(_short, shown)))}{rest};"
        f" learned from {clause.first_batch} to {clause.last_batch}"
    )


def moved(verdict: ProgramVerdict, before: TextState, now: TextState) -> Sequence[str]:
    """The values, or else shapes of texts, whose shares differ most: `'DE' 70% -> 40%`.

    Of few values the shares say more than those of their shapes. Of other bounds than those on
    values, the values that are new in a column of few are told first.
    """
    broken = {c.clause.metric for c in verdict.clauses if c.status != "pass"}
    if not broken.isdisjoint(CATEGORICAL_DISTANCES):
        return categorical_drift("js", before.values, now.values).shifts
    if broken.issubset({*COMPLETENESS_METRICS, "row_count"}):
        return ()
    if new := new_categories(before.values, now.values):
        return new
    if broken.isdisjoint(PATTERN_DISTANCES):
        return ()
    if are_few_values(before.values, now.values):
        return categorical_drift("js", before.values, now.values).shifts
    # Running numbers are compared without their widths.
    if not counted_on(before, now):
        return categorical_drift("js", before.patterns, now.patterns).shifts
    return ()


def shifted(
    verdict: ProgramVerdict, series: Mapping[str, FloatArray], new: Mapping[str, float]
) -> Sequence[str]:
    """Which of least value, quartiles and largest value is furthest out: `max 843 -> 900`.

    With the factor, if it is large: `max 843 -> 84300 (100 times as much)`. Nothing where no
    distance is beyond its bounds, or one of these is told as a bound.
    """
    broken = {c.clause.metric for c in verdict.clauses if c.status != "pass"}
    if broken.isdisjoint(DISTANCE_METRICS) or not broken.isdisjoint(_PLACES):
        return ()
    best = _FAR_OUT
    words: tuple[str, ...] = ()
    for name in _PLACES:
        past, now = series.get(name, np.zeros(0)), new.get(name, math.nan)
        past = past[np.isfinite(past)]
        if past.size < 2 or not math.isfinite(now):
            continue
        moved_by = abs(now - past[-1]) / max(
            float(past.std()), EQUALITY_TOLERANCE * abs(now), _TINY
        )
        before, after = number_text(past[-1]), number_text(now)
        if moved_by > best and before != after:
            best = moved_by
            words = (f"{name} {before} -> {after}{_factor_words(float(past[-1]), now)}",)
    return words


def _factor_words(before: float, now: float) -> str:
    """How many times as much it is, for factors that another unit makes."""
    ratio = now / before if before else 0.0
    if _LARGE_FACTOR <= ratio <= _LARGEST_FACTOR:
        return f" ({number_text(float(f'{ratio:.2g}'))} times as much)"
    if 1 / _LARGEST_FACTOR <= ratio <= 1 / _LARGE_FACTOR:
        return f" (1/{number_text(float(f'{1 / ratio:.2g}'))} of it)"
    return ""


def _each_share_once(broken: Sequence[ClauseVerdict]) -> list[ClauseVerdict]:
    """Without further bounds on a share of values, or on a lack of one, that is told already.

    Of a share, the bound on the counted values is the one that is told.
    """
    counted = {c.clause.metric: c for c in reversed(broken) if c.clause.method == COUNTED}
    verdicts: dict[object, ClauseVerdict] = {}
    for number, verdict in enumerate(broken):
        metric = verdict.clause.metric
        once = metric in COUNTED_SHARES or verdict.status == "null"
        key = metric if once else number
        verdicts.setdefault(key, counted.get(metric, verdict))
    return list(verdicts.values())


def _short(verdict: ClauseVerdict) -> str:
    name = metric_words(verdict.clause.metric)
    if verdict.status == "null":
        return f"{name} has no value"
    low, high = verdict.lower, verdict.upper
    transform = verdict.clause.transform
    # Bounds are told in the metric's own unit; a scale would only puzzle.
    words = transform_words(transform) if transform.lag else ""
    if verdict.clause.metric in COUNTED_SHARES:
        return share_words(verdict.clause.metric, verdict.observed, low, high) + words
    expected = range_words(low, high, number_text)
    if not transform.lag and verdict.clause.center == 0 and high is not None and 0 < high < _ZERO:
        # The bound is where rounding ends.
        expected = "0, as always before"
    return f"{name} is {number_text(verdict.observed)} (expected {expected}{words})"


def describe_program(program: Program) -> str:
    """The bounds of a program in words, for BI."""
    if not program.clauses:
        return "no bounds"
    parts = []
    for clause in program.clauses:
        transform, metric = clause.transform, clause.metric
        lower, upper = clause.lower, clause.upper
        if transform.lag:
            metric = f"[{metric}{transform_words(transform)}]"
        else:
            lower, upper = (float(transform.undo((), bound)) for bound in (lower, upper))
        low = "" if math.isinf(clause.lower) else f"{number_text(lower)} <= "
        high = "" if math.isinf(clause.upper) else f" <= {number_text(upper)}"
        parts.append(f"{low}{metric}{high}")
    return "; ".join(parts)


def clause_details(verdict: ClauseVerdict, key: MetricKey) -> dict[str, Any]:
    """What dq_results keeps of one bound; `key` is the series of its metric."""
    clause = verdict.clause
    return {
        "metric": clause.metric,
        "series": shown_key(key),
        "observed": finite(verdict.observed),
        "lower": finite(verdict.lower),
        "upper": finite(verdict.upper),
        "score": finite(verdict.score),
        "status": verdict.status,
        "transform": clause.transform.name,
        "lag": clause.transform.lag,
        # As learned: of the transformed metric.
        "bounds": [finite(clause.lower), finite(clause.upper)],
        "fpr": clause.fpr,
        "method": clause.method,
        "center": finite(clause.center),
        "spread": finite(clause.spread),
        "history": clause.history_size,
        "null_rate": clause.null_rate,
        "shape": list(clause.shape) if clause.shape else None,
        "catches": list(clause.catches),
    }

"""A stored verdict of `@avh`, decided again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dqsql.decisions import completeness
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.avh import evaluate
from dqsql.decisions.avh_series import resolution
from dqsql.decisions.candidates import refit
from dqsql.decisions.magnitudes import usable, without_outliers
from dqsql.decisions.program import COUNTED, ROWS, Clause, Program
from dqsql.decisions.stationarity import Transform
from dqsql.model.batches import batch_order
from dqsql.model.metric_traits import DISTANCE_METRICS
from dqsql.monitors.recompute import Compared, Recomputed, StoredVerdict, stored_key

# A spread needs two values.
_FEWEST = 2
_LABELS = {"center": "mean of history", "spread": "spread of history"}


def recomputed(stored: StoredVerdict) -> Recomputed:
    """Decide again by the bounds as learned, whose numbers are computed again."""
    details, history = stored.details, stored.history
    clauses = details.get("clauses")
    if not clauses:
        return Recomputed(note="it had learned no bounds")
    keys = {c["metric"]: stored_key(c["series"]) for c in clauses}
    steps = _steps(stored)
    series = {name: history.in_step(key, stored.past, steps) for name, key in keys.items()}
    if details.get("rows"):
        keys = {ROWS: stored_key(details["rows"]), **keys}
    new = {name: history.value(key, stored.batch) for name, key in keys.items()}
    program = Program(
        str(stored.row["column_name"]),
        tuple(_again(c, series[c["metric"]], stored) for c in clauses),
        details["fpr"],
        details["bounds"],
        details["issues"],
        details["caught"],
    )
    verdict = evaluate(program, series, new)
    # Two clauses may be about one metric; both lists have the worst clause first.
    now = {(v.clause.metric, v.clause.transform.name, v.clause.lower): v for v in verdict.clauses}
    compared: tuple[Compared, ...] = ()
    for one, clause in zip(clauses, program.clauses, strict=True):
        again = now[clause.metric, clause.transform.name, clause.lower]
        found = {
            "status": again.status,
            "observed": again.observed,
            "lower": again.lower,
            "upper": again.upper,
            "score": again.score,
            "center": clause.center,
            "spread": clause.spread,
            "fpr": clause.fpr,
            "history": clause.history_size,
        }
        for name, value in found.items():
            label = f"{clause.metric}: {_LABELS.get(name, name)}"
            compared += (Compared(label, one[name], value),)
    return Recomputed(compared, series=keys[clauses[0]["metric"]])


def _steps(stored: StoredVerdict) -> Sequence[str]:
    """The batches that were checked from the first it was learned from up to its own."""
    details = stored.details
    between = {*stored.past, *(details.get("left_out") or ()), *details["since"]}
    return sorted(between, key=batch_order)


def _again(data: Mapping[str, Any], values: FloatArray, stored: StoredVerdict) -> Clause:
    """A bound as stored, with its numbers computed again from the metric's stored values."""
    clause = _clause(data, stored.past)
    if clause.method == COUNTED:
        return _counted(clause, stored)
    values = np.where(usable(values), values, np.nan)
    if stored.details["bounds"] == "calibrated":
        values = without_outliers(values, clause.metric in DISTANCE_METRICS)
    past = clause.transform.series(values)
    past = past[np.isfinite(past)]
    details = stored.details
    if past.size < _FEWEST:
        center = float(past.mean()) if past.size else math.nan
        return replace(clause, center=center, history_size=int(past.size))
    ranges: FloatArray = np.array([])
    if details["ranges"]:
        ranges = stored.history.series(stored_key(details["ranges"]), stored.past)
    floor = resolution(clause.metric, clause.transform, values, ranges)
    return refit(clause, past, details["bounds"], floor)


def _counted(clause: Clause, stored: StoredVerdict) -> Clause:
    """A bound on counted rows, learned again from the batches that have any."""
    series = {c["metric"]: c["series"] for c in stored.details["clauses"]}
    shares = stored.history.series(stored_key(series[clause.metric]), stored.past)
    rows = stored.history.series(stored_key(stored.details["rows"]), stored.past)
    known = np.isfinite(shares) & (rows > 0)
    again = completeness.refit(clause, shares[known], rows[known])
    return replace(clause, shape=None, history_size=0) if again is None else again


def _clause(data: Mapping[str, Any], past: Sequence[str]) -> Clause:
    lower, upper = data["bounds"]
    return Clause(
        metric=data["metric"],
        transform=Transform("log" in data["transform"], data["lag"]),
        lower=-math.inf if lower is None else lower,
        upper=math.inf if upper is None else upper,
        center=data["center"],
        spread=data["spread"],
        fpr=data["fpr"],
        method=data["method"],
        catches=tuple(data["catches"]),
        history_size=data["history"],
        first_batch=past[0] if past else "",
        last_batch=past[-1] if past else "",
        null_rate=data.get("null_rate", 0.0),
        shape=tuple(data["shape"]) if data.get("shape") else None,
    )

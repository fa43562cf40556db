"""A stored verdict of a monitor, decided again from stored metrics by the stored settings.

Everything but the metrics comes from the verdict's `details` in dq_results: strategy, settings,
bounds as learned, the metrics' keys, and which batches the verdict rests on. Reads nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dqsql.decisions import completeness
from dqsql.decisions.anomaly import evaluate_many, strategy
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.avh import evaluate
from dqsql.decisions.avh_series import resolution
from dqsql.decisions.bounds import DISTANCE_METRICS
from dqsql.decisions.candidates import refit
from dqsql.decisions.magnitudes import usable, without_outliers
from dqsql.decisions.novelty import decide_novelty, feature_vector
from dqsql.decisions.novelty_config import novelty_config
from dqsql.decisions.novelty_metrics import Feature
from dqsql.decisions.program import COUNTED, ROWS, Clause, Program
from dqsql.decisions.stationarity import Transform
from dqsql.errors import DecisionError
from dqsql.model.batches import batch_order
from dqsql.monitors.anomaly import input_of, places
from dqsql.monitors.history import FloatArray, History, MetricKey
from dqsql.monitors.novelty import wall_times
from dqsql.patterns.validate import decide

# Stored numbers are read back as they were; what is fitted may differ in the last digits.
_TOLERANCE = 1e-9
# A spread needs two values.
_FEWEST = 2
_LABELS = {"center": "mean of history", "spread": "spread of history"}
_BOUNDS = ("lower", "upper", "error_lower", "error_upper")
_ANOMALY = ("status", "severity", "value", "expected", *_BOUNDS, "score", "p_value", "history_size")
_NOVELTY = ("status", "score", "threshold", "expected", "p_value", "history_size")


@dataclass(frozen=True)
class Compared:
    """One number or word of a verdict: as stored, and computed again."""

    name: str
    stored: Any
    again: Any

    @property
    def same(self) -> bool:
        """Whether both are equal, numbers up to rounding."""
        return _equal(self.stored, self.again)


@dataclass(frozen=True)
class Recomputed:
    """A verdict computed again.

    Attributes:
        compared: what was compared; empty where nothing could be computed.
        note: why not, or what to know of it.
        series: the series of stored values that the verdict is about, None without a single one.
    """

    compared: tuple[Compared, ...] = ()
    note: str | None = None
    series: MetricKey | None = None

    @property
    def same(self) -> bool | None:
        """Whether all is as stored; None where nothing was computed."""
        return all(c.same for c in self.compared) if self.compared else None


@dataclass(frozen=True)
class Stored:
    """A verdict as stored, and the metrics that are stored of its batch and those before.

    `past` are the batches that it rests on, oldest first. `novelty` are the metrics that a vector
    consists of, which the project's files say.
    """

    row: Mapping[str, Any]
    details: Mapping[str, Any]
    history: History
    past: Sequence[str]
    novelty: Mapping[Feature, MetricKey]

    @property
    def batch(self) -> str:
        """The batch that was decided on."""
        return str(self.row["batch"])


def recompute(stored: Stored) -> Recomputed:
    """Decide again, as far as the verdict's kind allows it."""
    how = _KINDS.get(stored.row["detector"])
    if how is None:
        return Recomputed(note="its bounds were written, not learned: nothing to compute again")
    try:
        return how(stored)
    except (KeyError, TypeError) as error:
        return Recomputed(note=f"its details lack what is needed ({error}): an older version's")
    except DecisionError as error:
        return Recomputed(note=f"it cannot be computed again: {error.message}")


def batches_of(details: Mapping[str, Any], checked: Sequence[str]) -> list[str]:
    """The batches that a verdict rests on, oldest first, of all that were checked."""
    extent = details.get("history")
    if not extent:
        return []
    first, last, _ = extent
    out = set(details.get("left_out") or ())
    low, high = batch_order(first), batch_order(last)
    found = [b for b in checked if low <= batch_order(b) <= high and b not in out]
    return sorted(found, key=batch_order)


# --- by kind -----------------------------------------------------------------------------------


def _anomaly(stored: Stored) -> Recomputed:
    details, history = stored.details, stored.history
    then = details.get("decision")
    if then is None:
        return Recomputed(note="it was not decided")
    key = _key(details["series"])._replace(segment=stored.row["segment"])
    given = dict(details["strategy"])
    chosen = strategy(str(given.pop("name")), **{k: _number(v) for k, v in given.items()})
    odd, left_out = set(details.get("excluded") or ()), list(details.get("left_out") or ())
    asked = replace(
        input_of(chosen, history, key, stored.past, left_out, stored.batch),
        exclude=[b in odd for b in places(chosen, stored.past, left_out)],
        excluded=then["status"] == "excluded",
    )
    now = evaluate_many(chosen, [asked], AnomalySettings(**details["settings"]))[0].to_dict()
    return Recomputed(_compared(_ANOMALY, then, now), series=key)


def _novelty(stored: Stored) -> Recomputed:
    then, history = stored.details.get("decision"), stored.history
    if then is None:
        return Recomputed(note="it was not decided")
    if not stored.novelty:
        return Recomputed(note="the check is not in the project any more, which names its metrics")
    features = list(stored.novelty)
    matrix = np.column_stack([history.series(stored.novelty[f], stored.past) for f in features])
    new = {f: history.value(k, stored.batch) for f, k in stored.novelty.items()}
    config = novelty_config(**stored.details["settings"])
    times = wall_times((*stored.past, stored.batch))
    row = feature_vector(features, new)
    now = decide_novelty(features, matrix, row, config, times).to_dict()
    compared = _compared(_NOVELTY, then, now)
    by_name = {(c["column"], c["metric"]): c for c in now["contributions"]}
    for one in then["contributions"]:
        again = by_name.get((one["column"], one["metric"]), {})
        label = one["metric"] if one["column"] is None else f"{one['metric']}({one['column']})"
        compared += (Compared(f"distance of {label}", one["score"], again.get("score")),)
    return Recomputed(compared)


def _avh(stored: Stored) -> Recomputed:
    details, history = stored.details, stored.history
    clauses = details.get("clauses")
    if not clauses:
        return Recomputed(note="it had learned no bounds")
    keys = {c["metric"]: _key(c["series"]) for c in clauses}
    steps = _steps(stored)
    series = {name: history.in_step(key, stored.past, steps) for name, key in keys.items()}
    if details.get("rows"):
        keys = {ROWS: _key(details["rows"]), **keys}
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


def _steps(stored: Stored) -> Sequence[str]:
    """The batches that were checked from the first it was learned from up to its own.

    Older versions counted in accepted batches, and did not say which came after the last of them.
    """
    details = stored.details
    if "since" not in details:
        return stored.past
    between = {*stored.past, *(details.get("left_out") or ()), *details["since"]}
    return sorted(between, key=batch_order)


def _again(data: Mapping[str, Any], values: FloatArray, stored: Stored) -> Clause:
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
    if past.size < _FEWEST or "ranges" not in details:
        # Versions before did not say which metric has the column's range.
        center = float(past.mean()) if past.size else math.nan
        return replace(clause, center=center, history_size=int(past.size))
    ranges: FloatArray = np.array([])
    if details["ranges"]:
        ranges = stored.history.series(_key(details["ranges"]), stored.past)
    floor = resolution(clause.metric, clause.transform, values, ranges)
    return refit(clause, past, details["bounds"], floor)


def _counted(clause: Clause, stored: Stored) -> Clause:
    """A bound on counted rows, learned again from the batches that have any."""
    series = {c["metric"]: c["series"] for c in stored.details["clauses"]}
    shares = stored.history.series(_key(series[clause.metric]), stored.past)
    rows = stored.history.series(_key(stored.details["rows"]), stored.past)
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


def _pattern(stored: Stored) -> Recomputed:
    details, row = stored.details, stored.row
    if "pattern" not in details:
        return Recomputed(note="it was not decided")
    keys = [_key(series) for series in details["series"]]
    rows, matching = (stored.history.value(key, stored.batch) for key in keys)
    if math.isnan(rows) or math.isnan(matching):
        return Recomputed(note="the counts of its values are not stored any more")
    decision = decide(
        details["pattern"],
        training_rows=details["training_rows"],
        training_nonconforming=details["training_nonconforming"],
        rows=int(rows),
        nonconforming=int(rows - matching),
        significance=details["significance"],
        test=details["test"],
    )
    failed = {"pass": ("pass",), "fail": ("fail", "warn"), "empty": ("no_data",)}[decision.status]
    return Recomputed(
        (
            Compared("status", row["status"], row["status"] if row["status"] in failed else failed),
            Compared("values", details["rows"], int(rows)),
            Compared("not matching", details["nonconforming"], int(rows - matching)),
            Compared("share not matching", row["observed"], decision.nonconforming_share),
            Compared("limit", row["upper_bound"], decision.threshold_share),
            Compared("p_value", details["p_value"], decision.p_value),
        )
    )


_KINDS: Mapping[str, Callable[[Stored], Recomputed]] = {
    "anomaly": _anomaly,
    "novelty": _novelty,
    "avh": _avh,
    "pattern": _pattern,
}


# --- numbers -----------------------------------------------------------------------------------


def _key(series: Sequence[str]) -> MetricKey:
    column, metric, parameters, scope = series
    return MetricKey(column, metric, parameters, scope)


def _compared(
    names: Sequence[str], then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[Compared, ...]:
    found = (Compared(name, then.get(name), now.get(name)) for name in names)
    return tuple(c for c in found if c.stored is not None or c.again is not None)


def _equal(one: Any, other: Any) -> bool:
    first, second = (_number(v) for v in (one, other))
    if isinstance(first, float | int) and isinstance(second, float | int):
        return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-12)
    # What is not finite is stored as null.
    return bool(_finite(first) == _finite(second))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    """JSON's stand-ins for what it has no numbers for, as numbers."""
    return float(value) if value in ("inf", "-inf", "nan") else value

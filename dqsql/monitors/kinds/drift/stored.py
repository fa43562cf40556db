"""Distributions as they are stored, how far apart they are, and stored verdicts computed again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dqsql.decisions.distances import CategoricalState
from dqsql.decisions.drift import (
    Drift,
    Numbers,
    categorical_drift,
    numeric_drift,
    pooled_categories,
)
from dqsql.model.plan import Bounds
from dqsql.model.project import Severity
from dqsql.model.results import MetricProfile
from dqsql.monitors.context import finite
from dqsql.monitors.demands import Demand, Demands
from dqsql.monitors.history import History, MetricKey
from dqsql.monitors.kinds.drift.call import P_VALUE
from dqsql.monitors.recompute import NOT_DECIDED, Compared, Recomputed, StoredVerdict, stored_key

PROFILE, COUNT, QUANTILES = "profile", "count", "quantile_profile"
# A distribution and its number of values.
Distribution = tuple[MetricProfile, float]


def distributions(
    history: History, profile: MetricKey, count: MetricKey | None, batches: Sequence[str]
) -> list[Distribution]:
    """The distributions of some batches, without those that have no values."""
    profiles = []
    for batch in batches:
        stored = history.profile(profile, batch)
        if stored is None:
            continue
        rows = CategoricalState.of(stored).size if count is None else history.value(count, batch)
        if rows > 0:
            profiles.append((stored, rows))
    return profiles


def drift_of(
    measure: str, parts: Sequence[Distribution], now: Distribution, *, shows_values: bool = True
) -> Drift:
    """How far a distribution is from others together; whether values may be shown."""
    if now[0].quantiles:
        old = Numbers.pooled([(p.quantiles, n) for p, n in parts])
        return numeric_drift(measure, old, Numbers.pooled([(now[0].quantiles, now[1])]))
    reference = pooled_categories([CategoricalState.of(p) for p, _ in parts])
    return categorical_drift(
        measure, reference, CategoricalState.of(now[0]), shows_values=shows_values
    )


def reported_value(drift: Drift, kind: str) -> float:
    """The number that `@drift` or `@drift_pvalue` compares; NaN for none."""
    value = drift.p_value if kind == P_VALUE else drift.value
    return math.nan if value is None else value


def recomputed(stored: StoredVerdict) -> Recomputed:
    """Decide again by stored distributions; those of other relations are not stored."""
    details, row = stored.details, stored.row
    if "measure" not in details:
        return NOT_DECIDED
    if not stored.past:
        note = (
            f"the distribution of {details['against']} is not stored: only the verdict on the"
            " stored value is computed again"
        )
        return Recomputed((_status_again(stored, row["observed"]),), note)
    drift = _drift_again(stored)
    if drift is None:
        return Recomputed(note="the distributions that it compared are not stored any more")
    value = finite(reported_value(drift, row["detector"]))
    return Recomputed(
        (
            _status_again(stored, value),
            Compared("observed", row["observed"], value),
            Compared(details["measure"], details["value"], finite(drift.value)),
            Compared("p-value", details["p_value"], drift.p_value),
            Compared("shifts", details["shifts"], list(drift.shifts)),
        )
    )


def _drift_again(stored: StoredVerdict) -> Drift | None:
    details, segment = stored.details, stored.row["segment"]
    keys = {
        name: None if key is None else stored_key(key)._replace(segment=segment)
        for name, key in details["series"].items()
    }
    profile = keys[PROFILE]
    if profile is None:
        return None
    parts, now = (
        distributions(stored.history, profile, keys[COUNT], batches)
        for batches in (stored.past, [stored.batch])
    )
    if not parts or not now:
        return None
    return drift_of(details["measure"], parts, now[0], shows_values=bool(details["shifts"]))


def _status_again(stored: StoredVerdict, value: float | None) -> Compared:
    """The verdict on a value, by what was demanded when it was decided."""
    row, texts = stored.row, stored.details["thresholds"]
    fails = _demand(texts.get("fails", texts.get("warns", "")), row, "")
    warns = _demand(texts["warns"], row, "warn_") if {"fails", "warns"} <= texts.keys() else None
    number = math.nan if value is None else value
    again = Demands(fails, warns).status(number, Severity(row["severity"]))[0].value
    # `after` makes a warning of what fails.
    waits = again == "fail" and row["status"] == "warn"
    return Compared("status", row["status"], row["status"] if waits else again)


def _demand(text: str, row: Mapping[str, Any], prefix: str) -> Demand:
    return Demand(text, Bounds(row[f"{prefix}lower_bound"], row[f"{prefix}upper_bound"]))

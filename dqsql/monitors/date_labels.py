"""Which columns say nothing but the date of their batch, as stored metrics tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dqsql.decisions.date_labels import is_date_label
from dqsql.decisions.distances import CategoricalState
from dqsql.model.batches import wall_time_of
from dqsql.monitors.history import History, MetricKey

# So many of the batches before are looked at.
_BATCHES = 7


def says_the_date(
    history: History, keys: Mapping[str, MetricKey], batch: str, past: Sequence[str]
) -> bool:
    """Whether a column says the date of a batch and no more, as it did in the batches before.

    `keys` are metrics of the column by name, of which `min` and `max`, or `value_profile`, tell it.
    """
    observations = []
    for each in (*past[-_BATCHES:], batch):
        time, value = wall_time_of(each), _only_value(history, keys, each)
        if time is None or value is None:
            return False
        observations.append((time, value))
    return is_date_label(observations)


def _only_value(history: History, keys: Mapping[str, MetricKey], batch: str) -> str | float | None:
    """The one value of all rows of a batch that have one; None where there are more."""
    if "min" in keys and "max" in keys:
        low, high = (history.value(keys[name], batch) for name in ("min", "max"))
        return low if low == high and math.isfinite(low) else None
    profile = history.profile(keys["value_profile"], batch) if "value_profile" in keys else None
    state = CategoricalState.of(profile)
    shares = state.shares
    return next(iter(shares)) if len(shares) == 1 and not state.other else None

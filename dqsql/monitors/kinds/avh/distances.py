"""Two-distribution metrics of a column: how far a batch is from the accepted one before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dqsql.decisions.distances import (
    CategoricalState,
    NumericState,
    categorical_distances,
    numeric_distances,
)
from dqsql.model.metric_traits import CATEGORICAL_DISTANCES, PATTERN_DISTANCES, PATTERN_PREFIX
from dqsql.model.results import MetricProfile

TEXT_DISTANCES = (*CATEGORICAL_DISTANCES, *PATTERN_DISTANCES)


class ColumnDistribution:
    """One batch of a column: its profiles, and for numbers its count, mean and deviation.

    Args:
        numeric: whether the column holds numbers.
        value: gives the value of a metric; NaN for none.
        profile: gives a profile by name; None for none.
    """

    def __init__(
        self,
        numeric: bool,
        value: Callable[[str], float],
        profile: Callable[[str], MetricProfile | None],
    ) -> None:
        self.numeric = numeric
        if numeric:
            quantiles = profile("quantile_profile")
            self.state = NumericState(
                np.array(quantiles.quantiles if quantiles else (), dtype=float),
                value("count"),
                value("mean"),
                value("stddev"),
            )
        else:
            self.values = _categorical(profile("value_profile"))
            self.patterns = _categorical(profile("pattern_profile"))


def _categorical(profile: MetricProfile | None) -> CategoricalState:
    if profile is None:
        return CategoricalState({})
    return CategoricalState(dict(zip(profile.labels, profile.counts, strict=True)), profile.other)


def distances(before: ColumnDistribution, now: ColumnDistribution) -> Mapping[str, float]:
    """The two-distribution metrics by name; NaN where either batch has no values."""
    if now.numeric:
        return numeric_distances(before.state, now.state)
    return {
        **categorical_distances(before.values, now.values),
        **categorical_distances(before.patterns, now.patterns, PATTERN_PREFIX),
    }

"""Findings of `@avh` name every metric that is a short form in words."""

from __future__ import annotations

import pytest

from dqsql.model.metric_traits import (
    CATEGORICAL_DISTANCES,
    NUMERIC_DISTANCES,
    OWN_METRICS,
    PATTERN_DISTANCES,
    metric_words,
)
from dqsql.monitors.kinds.avh import _NUMERIC, _TEXT

_SPEAKS = {"min", "max", "mean", "median", "sum", "count"}
_WATCHED = {*_NUMERIC, *_TEXT, *NUMERIC_DISTANCES, *CATEGORICAL_DISTANCES, *PATTERN_DISTANCES}


@pytest.mark.parametrize(
    "metric",
    sorted(m for m in _WATCHED | OWN_METRICS if m not in _SPEAKS and "profile" not in m),
)
def test_a_short_form_is_told_in_words(metric: str) -> None:
    assert metric_words(metric).endswith(f" ({metric})")


def test_a_name_that_speaks_for_itself_stays() -> None:
    assert [metric_words(m) for m in sorted(_SPEAKS)] == sorted(_SPEAKS)
    assert metric_words("pat_kl_div") == "distance of the distribution of text shapes (pat_kl_div)"

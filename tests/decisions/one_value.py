"""Decisions of `@anomaly` on single values, which the package makes many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy.typing as npt

from dqsql.decisions.anomaly import AnomalyDecision, AnomalyInput, evaluate_many
from dqsql.decisions.anomaly_settings import AnomalySettings
from dqsql.decisions.strategies import Strategy


def evaluate(
    chosen: Strategy,
    history_values: npt.ArrayLike | Sequence[float | None],
    history_times: npt.ArrayLike | Sequence[datetime] | None,
    value: float | None,
    time: Any = None,
    *,
    settings: AnomalySettings | None = None,
    exclude: npt.ArrayLike | None = None,
    excluded: bool = False,
) -> AnomalyDecision:
    """The decision on one value; see `AnomalyInput` for the arguments."""
    given = AnomalyInput(history_values, history_times, value, time, exclude, excluded)
    return evaluate_many(chosen, [given], settings)[0]

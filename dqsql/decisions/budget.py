"""A project's budget for false alarms, and what it leaves for a single decision.

A budget such as `1 per week` is an expected number of false alarms of all monitors together. By
linearity of expectation a rate per decision of budget / decisions keeps it, whatever the
correlation between the metrics (Bonferroni's argument for the expected number; Dunn 1961, Journal
of the American Statistical Association 56, 52-64).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.errors import DecisionError, nearest

DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "quarter": 365.25 / 4}
DAYS["year"] = 365.25
LARGEST_RATE = 0.05
# Of the budget, at least, for decisions on whole models: there are few of them, and what they find
# is all of a batch.
_MODEL_SHARE = 0.5
# Of the budget, so much is divided among models in equal parts, however often their batches come:
# else a feed of each hour leaves one of each month next to nothing.
_EQUAL_SHARE = 0.5

_WORDS = {"a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}
_EXAMPLE = "for example: '1 per week', '3 per month', '0.5 a day'"
_TEXT = re.compile(
    r"(?P<count>\d+(?:\.\d+)?|\.\d+|[a-z]+)\s*(?:/|\s(?:per|an?|every)\s)\s*"
    r"(?:(?P<times>\d+(?:\.\d+)?)\s+)?(?P<unit>[a-z]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """An expected number of false alarms, > 0, over a number of days, > 0."""

    alarms: float
    days: float

    @property
    def per_day(self) -> float:
        """Expected false alarms a day."""
        return self.alarms / self.days


def parse_budget(text: str) -> Budget:
    """Read a budget such as '1 per week', '2 / month', 'one a day' or '1 every 2 weeks'.

    Raises:
        DecisionError: it cannot be read, or allows nothing.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise DecisionError(f"cannot read the false-alarm budget {text!r}", hint=_EXAMPLE)
    written = match["count"].lower()
    count = _WORDS.get(written)
    if count is None:
        try:
            count = float(written)
        except ValueError:
            count = math.nan
    if not math.isfinite(count):
        raise DecisionError(
            f"false-alarm budget {text!r}: {match['count']!r} is not a number", hint=_EXAMPLE
        )
    unit = match["unit"].lower()
    days = DAYS.get(unit, DAYS.get(unit.removesuffix("s")))
    if days is None:
        raise DecisionError(
            f"false-alarm budget {text!r}: {match['unit']!r} is not a length of time",
            hint=nearest(unit, DAYS) or f"one of {', '.join(DAYS)}",
        )
    times = float(match["times"] or 1)
    if count <= 0 or times <= 0:
        raise DecisionError(
            f"false-alarm budget {text!r} allows no false alarm at all",
            hint="no monitor can promise that; leave monitors out instead, or write '1 per year'",
        )
    return Budget(count, times * days)


def rate_of_decisions(budget: Budget, decisions_per_day: float) -> float:
    """Return the false-positive rate per decision for so many decisions a day, in (0, 0.05].

    More than 1 in 20 is no monitoring, however few the decisions.

    Raises:
        DecisionError: the number is not positive.
    """
    if not (math.isfinite(decisions_per_day) and decisions_per_day > 0):
        raise DecisionError(f"decisions per day must be above 0, not {decisions_per_day!r}")
    return min(LARGEST_RATE, budget.per_day / decisions_per_day)


def rates_of_decisions(budget: Budget, of_columns: float, of_models: float) -> tuple[float, float]:
    """Return the rates per decision on a column and on a whole model, each in (0, 0.05].

    All have the same, unless decisions on models would have less than their share of the budget.
    Raises DecisionError: there is no decision a day of either.
    """
    same = rate_of_decisions(budget, of_columns + of_models)
    if not (of_columns > 0 and of_models > 0):
        return same, same
    reserved = rate_of_decisions(Budget(budget.alarms * _MODEL_SHARE, budget.days), of_models)
    if reserved <= same:
        return same, same
    left = budget.per_day - reserved * of_models
    return min(LARGEST_RATE, left / of_columns), reserved


def budget_of_model(budget: Budget, decisions_per_day: float, of_all: Sequence[float]) -> Budget:
    """Return the part of a budget that one of several models has; together they have all of it.

    Half is divided among the models that decide, half by how many decisions each makes: a day,
    above 0, and `of_all` of them, itself included.
    """
    models = sum(number > 0 for number in of_all)
    share = _EQUAL_SHARE / models + (1 - _EQUAL_SHARE) * decisions_per_day / sum(of_all)
    return Budget(budget.alarms * share, budget.days)


def batches_per_day(days: Sequence[float] | npt.ArrayLike) -> float:
    """Return how often batches come, from their times in days: 1 / median distance.

    One batch a day if there are fewer than two times.
    """
    times = np.unique(np.asarray(days, dtype=float))
    if times.size < 2:
        return 1.0
    return float(1.0 / np.median(np.diff(times)))

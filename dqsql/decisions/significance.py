"""A project's budget for false alarms, and what it leaves for a single decision.

A budget such as `1 per week` is an expected number of false alarms of all monitors together. By
linearity of expectation a rate per decision of budget / decisions keeps it, whatever the
correlation between the metrics (Bonferroni's argument for the expected number; Dunn 1961, Journal
of the American Statistical Association 56, 52-64). `discoveries` is the step-up procedure of
Benjamini & Hochberg (1995) and Benjamini & Yekutieli (2001) over the decisions of one batch.
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
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise DecisionError(f"cannot read the false-alarm budget {text!r}", hint=_EXAMPLE)
    written = found["count"].lower()
    count = _WORDS.get(written)
    if count is None:
        try:
            count = float(written)
        except ValueError as error:
            raise DecisionError(
                f"false-alarm budget {text!r}: {found['count']!r} is no number", hint=_EXAMPLE
            ) from error
    unit = found["unit"].lower()
    days = DAYS.get(unit, DAYS.get(unit.removesuffix("s")))
    if days is None:
        raise DecisionError(
            f"false-alarm budget {text!r}: {found['unit']!r} is no length of time",
            hint=nearest(unit, DAYS) or f"there are {', '.join(DAYS)}",
        )
    times = float(found["times"] or 1)
    if count <= 0 or times <= 0:
        raise DecisionError(
            f"false-alarm budget {text!r} allows no false alarm at all",
            hint="no monitor can promise that; leave monitors out instead, or write '1 per year'",
        )
    return Budget(count, times * days)


def rate_per_decision(
    budget: Budget, monitors: int, batches_per_day: float, segments: int = 1
) -> float:
    """Return the false-positive rate that each decision may have, in (0, 0.05].

    Args:
        budget: what all of them together may do.
        monitors: number of monitors (one per check, or per metric that it decides on).
        batches_per_day: batches of the model a day, > 0.
        segments: segments that each of them decides on, >= 1.

    Raises:
        DecisionError: a number that is not positive.
    """
    for name, number in (
        ("monitors", monitors),
        ("batches per day", batches_per_day),
        ("segments", segments),
    ):
        if not (math.isfinite(number) and number > 0):
            raise DecisionError(f"the number of {name} must be above 0, not {number!r}")
    return rate_of_decisions(budget, monitors * batches_per_day * segments)


def rate_of_decisions(budget: Budget, decisions_per_day: float) -> float:
    """Return the false-positive rate per decision for so many decisions a day, in (0, 0.05].

    More than 1 in 20 is no monitoring, however few the decisions.

    Raises:
        DecisionError: the number is not positive.
    """
    if not (math.isfinite(decisions_per_day) and decisions_per_day > 0):
        raise DecisionError(f"decisions per day must be above 0, not {decisions_per_day!r}")
    return min(LARGEST_RATE, budget.per_day / decisions_per_day)


def batches_per_day(days: Sequence[float] | npt.ArrayLike) -> float:
    """Return how often batches come, from their times in days: 1 / median distance.

    One batch a day if there are fewer than two times.
    """
    times = np.unique(np.asarray(days, dtype=float))
    if times.size < 2:
        return 1.0
    return float(1.0 / np.median(np.diff(times)))


def least_history(rate: float, two_sided: bool = True) -> int:
    """Return the history from which a rate can be promised without a model of the tail.

    Among K + 1 exchangeable batches the newest is the most extreme once in K + 1; K must reach
    1 / rate - 1 per side. Shorter histories rest on the shape of the tail
    (`dqsql.decisions.bounds`).
    """
    return max(0, math.ceil((2 if two_sided else 1) / rate) - 1)


def discoveries(
    p_values: npt.ArrayLike, rate: float, dependent: bool = True
) -> npt.NDArray[np.bool_]:
    """Return which of many decisions stand when at most a share `rate` of them shall be false.

    Args:
        p_values: n p-values; NaN for decisions without one, which never stand.
        rate: expected share of false ones among those that stand, in (0, 1).
        dependent: whether the metrics depend on each other in unknown ways (Yekutieli's factor
            1 + 1/2 + .. + 1/n), as those of one batch do.
    """
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    stands: npt.NDArray[np.bool_] = np.zeros(p.shape, dtype=np.bool_)
    if not known.size:
        return stands
    size = known.size
    factor = float(np.sum(1.0 / np.arange(1, size + 1))) if dependent else 1.0
    order = known[np.argsort(p[known], kind="stable")]
    below = p[order] <= rate * np.arange(1, size + 1) / (size * factor)
    if below.any():
        stands[order[: int(np.flatnonzero(below)[-1]) + 1]] = True
    return stands

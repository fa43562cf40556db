"""Deciding whether a batch still follows its pattern.

Auto-Validate, section 4, "Distributional test of non-conforming values": the share of values that
do not match is compared between training and now by a two-sample homogeneity test, two-tailed, and
an issue is raised where the hypothesis of equal shares is rejected. Only an increase is an issue:
a batch in which more values match than in training is no reason to wake anybody (the paper is
silent on this).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from dqsql.errors import PatternError
from dqsql.model.wording import plural

HomogeneityTest = Literal["fisher", "chi_squared"]

# Counts whose probabilities differ by less than this are equally extreme (as in R and SciPy).
_RELATIVE_TOLERANCE = 1e-7
# Where the exact sum has more terms, each margin of the table is at least as large.
_MAX_TERMS = 100_000
# By how many counts at most the p-value rises again.
_REACH = 8
# Of fewer training values the test decides hardly anything: with 10, 43 of 100 values may be wrong.
ENOUGH_VALUES = 100
_MAX_SHOWN_VALUES = 5
_MAX_SHOWN_LENGTH = 60


def fisher_p_value(nonconforming0: int, rows0: int, nonconforming1: int, rows1: int) -> float:
    """Return the two-tailed p-value of Fisher's exact test, in [0, 1].

    Exact where one of the samples, the values that conform or those that do not are at most
    100,000. Beyond, the chi-squared test says the same, without arrays of the size of a batch.
    """
    _check_counts(nonconforming0, rows0)
    _check_counts(nonconforming1, rows1)
    if rows0 > rows1:
        return fisher_p_value(nonconforming1, rows1, nonconforming0, rows0)
    total = nonconforming0 + nonconforming1
    low, high = max(0, total - rows1), min(total, rows0)
    if high - low > _MAX_TERMS:
        return chi_squared_p_value(nonconforming0, rows0, nonconforming1, rows1)
    counts = np.arange(low, high + 1, dtype=np.float64)
    log_weights = -(
        scipy.special.gammaln(counts + 1)
        + scipy.special.gammaln(rows0 - counts + 1)
        + scipy.special.gammaln(total - counts + 1)
        + scipy.special.gammaln(rows1 - total + counts + 1)
    )
    weights = np.exp(log_weights - log_weights.max())
    observed = weights[nonconforming0 - low]
    extreme = weights[weights <= observed * (1 + _RELATIVE_TOLERANCE)]
    return float(min(1.0, extreme.sum() / weights.sum()))


def chi_squared_p_value(nonconforming0: int, rows0: int, nonconforming1: int, rows1: int) -> float:
    """Return the p-value of Pearson's chi-squared test with Yates' correction, in [0, 1].

    1 where no value, or every value, of both samples conforms.
    """
    _check_counts(nonconforming0, rows0)
    _check_counts(nonconforming1, rows1)
    bad, rows = nonconforming0 + nonconforming1, rows0 + rows1
    good = rows - bad
    if not (bad and good and rows0 and rows1):
        return 1.0
    conforming0, conforming1 = rows0 - nonconforming0, rows1 - nonconforming1
    cross = abs(nonconforming0 * conforming1 - nonconforming1 * conforming0)
    corrected = max(0.0, cross - rows / 2)
    statistic = rows * corrected**2 / (float(bad) * good * rows0 * rows1)
    return float(scipy.special.chdtrc(1, statistic))


def _check_counts(nonconforming: int, rows: int) -> None:
    if not 0 <= nonconforming <= rows:
        raise PatternError(f"{nonconforming} non-conforming of {rows} values is impossible")


_P_VALUES = {"fisher": fisher_p_value, "chi_squared": chi_squared_p_value}


@lru_cache(maxsize=65_536)
def alarm_threshold(
    nonconforming0: int,
    rows0: int,
    rows1: int,
    significance: float = 0.01,
    test: HomogeneityTest = "fisher",
) -> int:
    """Return the least number of non-conforming values among `rows1` that raises an alarm.

    In [0, rows1 + 1]; rows1 + 1 means that no count does.
    """

    def alarms(count: int) -> bool:
        return _P_VALUES[test](nonconforming0, rows0, count, rows1) < significance

    # The p-value falls as the share grows beyond that of training, so bisection finds the place.
    least = math.floor(nonconforming0 * rows1 / rows0) + 1 if rows0 else rows1 + 1
    low, high = least, rows1 + 1
    while low < high:
        middle = (low + high) // 2
        if alarms(middle):
            high = middle
        else:
            low = middle + 1
    # But for a little: the p-value of a larger count may have a term more of the other tail. That
    # such a count is an alarm, too, leaves the rate of false alarms below `significance`.
    while earlier := [k for k in range(max(least, low - _REACH), low) if alarms(k)]:
        low = earlier[0]
    return low


@dataclass(frozen=True, slots=True)
class PatternDecision:
    """The verdict on one batch.

    Attributes:
        status: "pass", "fail", or "empty" (no non-null value, nothing can be said).
        p_value: of the two-tailed test, in [0, 1]; 1 for an empty batch.
        nonconforming_share: share of non-null values that do not match, in [0, 1]; None if empty.
        largest_passing_share: the largest share that raises no alarm in a batch of this size, in
            [0, 1]; None if empty.
        message: for people; holds sample values unless they are to be kept private.
    """

    status: Literal["pass", "fail", "empty"]
    p_value: float
    nonconforming_share: float | None
    largest_passing_share: float | None
    message: str


def decide(
    pattern: str,
    *,
    training_rows: int,
    training_nonconforming: int,
    rows: int,
    nonconforming: int,
    significance: float = 0.01,
    test: HomogeneityTest = "fisher",
    samples: Sequence[str] = (),
    pii: bool = False,
) -> PatternDecision:
    """Decide whether a batch follows the pattern as its training values did; nulls do not count.

    Args:
        pattern: the pattern in printable form, for the message.
        training_rows: at least 1.
        training_nonconforming: those that did not match.
        rows: of the batch; 0 gives the status "empty".
        nonconforming: those that do not match.
        significance: the alarm's false-positive rate under equal shares, in (0, 1).
        test: Fisher's exact test, or chi-squared with Yates' correction.
        samples: non-conforming values of the batch, shown in the message.
        pii: whether values must not be shown.

    Raises:
        PatternError: impossible counts, significance or test.
    """
    if not 0 < significance < 1:
        raise PatternError(f"significance {significance} is not in (0, 1)")
    if test not in _P_VALUES:
        raise PatternError(f"unknown test {test!r}", hint="use 'fisher' or 'chi_squared'")
    _check_counts(nonconforming, rows)
    _check_counts(training_nonconforming, training_rows)
    if training_rows == 0:
        raise PatternError("a pattern learned from no values decides nothing")
    then = training_nonconforming / training_rows
    if rows == 0:
        return PatternDecision(
            "empty", 1.0, None, None, f"no values to compare with pattern {pattern}"
        )
    p_value = _P_VALUES[test](training_nonconforming, training_rows, nonconforming, rows)
    now = nonconforming / rows
    threshold = alarm_threshold(training_nonconforming, training_rows, rows, significance, test)
    failed = nonconforming >= threshold
    return PatternDecision(
        status="fail" if failed else "pass",
        p_value=p_value,
        nonconforming_share=now,
        largest_passing_share=(threshold - 1) / rows,
        message=_message(pattern, training_rows, then, now, failed, () if pii else samples),
    )


def _message(
    pattern: str, training: int, then: float, now: float, failed: bool, samples: Sequence[str]
) -> str:
    before = f"{then:.2%}"
    if training < ENOUGH_VALUES:
        before += f" of only {plural(training, 'value')}"
    if not failed:
        return f"{now:.2%} of values do not match {pattern}, in line with training ({before})"
    text = f"{now:.2%} of values do not match {pattern} (training: {before})"
    shown = [_shortened(value) for value in list(dict.fromkeys(samples))[:_MAX_SHOWN_VALUES]]
    return f"{text}, for example {', '.join(shown)}" if shown else text


def _shortened(value: str) -> str:
    if len(value) > _MAX_SHOWN_LENGTH:
        return repr(value[:_MAX_SHOWN_LENGTH]) + ".."
    return repr(value)

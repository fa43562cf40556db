"""What programs of `@avh` and their bounds say, in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from dqsql.decisions.program import COMPLETE, COUNTED, Clause, Status
from dqsql.decisions.stationarity import Transform
from dqsql.model.wording import number_text, range_words

# A share below it is none.
_NONE = 1e-6


def describe(clause: Clause, observed: float, lower: float, upper: float, status: Status) -> str:
    """Return the sentence that explains a clause's verdict."""
    if status == "pass" and np.isnan(observed):
        if clause.null_rate:
            return f"{clause.metric} has no value, as in accepted batches before."
        return f"{clause.metric} has no value: the column has none, which may be chance."
    seen = "has no value" if status == "null" else f"is {number_text(observed)}"
    relation = {
        "fail": "outside the expected range",
        "pass": "within the expected range",
        "null": "so it cannot be compared with the expected range",
    }[status]
    learned = (
        f"learned from {clause.history_size} values of batches {clause.first_batch} to "
        f"{clause.last_batch}{transform_words(clause.transform)}"
    )
    catches = ", ".join(_issue_words(clause.catches))
    aim = f"; this bound is there to catch {catches}" if catches else ""
    range_ = range_words(lower, upper, number_text, "exactly {}") or "any value"
    sentence = f"{clause.metric} {seen}, {relation} of {range_}"
    if clause.method == COUNTED and status != "null":
        sentence = share_words(clause.metric, observed, lower, upper)
    return (
        f"{sentence}, {learned}; "
        f"a good batch breaks it with probability at most {clause.fpr:.2g} "
        f"({_METHOD_WORDS.get(clause.method, clause.method)}){aim}."
    )


_METHOD_WORDS = {
    "equality": "it never varied",
    "chebyshev": "Chebyshev bound",
    "cantelli": "Cantelli bound",
    "clt": "normal bound",
    "student_t": "calibrated Student t tail",
    COUNTED: "beta-binomial tail",
}


_COUNTED_WORDS = {
    COMPLETE: "null",
    "nan_ratio": "NaN",
    "infinite_ratio": "infinite",
    "empty_ratio": "empty",
    "negative_ratio": "negative",
}


def share_words(metric: str, observed: float, lower: float, upper: float) -> str:
    """Return what was seen of a share of values, and what was expected, in percent.

    `metric` is one of `COUNTED_SHARES`.
    """
    if metric == COMPLETE:
        observed, lower, upper = 1.0 - observed, 1.0 - upper, 1.0 - lower
    # A bound is where rounding ends.
    expected = "none" if 0 < upper < _NONE else range_words(lower, upper, _percent)
    return f"{_percent(observed)} of values are {_COUNTED_WORDS[metric]}, expected {expected}"


def _percent(share: float) -> str:
    return f"{100 * max(0.0, share):.3g}%"


def transform_words(transform: Transform) -> str:
    """Return what a transform means for a bound, to stand behind it; empty for identity."""
    what = "the logarithm of the metric" if transform.log else "the metric"
    if transform.lag:
        batches = "the batch before" if transform.lag == 1 else f"{transform.lag} batches before"
        return f", as the change of {what} against {batches}"
    return ", on a logarithmic scale" if transform.log else ""


# What an injected issue stands for, by the longest of these that its name begins with.
# Kinds of issues that a description names.
_MOST_WORDS = 4
_ISSUE_WORDS = {
    "missing": "missing values",
    "null": "empty or zero values",
    "schema": "values of another column",
    "unit": "another unit",
    "case": "changed case",
    "perturb": "typos",
    "insert": "inserted characters",
    "delete": "lost characters",
    "pad": "padding",
    "dist": "a shifted distribution",
    "volume": "a changed volume",
    "all": "values that are all higher or lower",
    "exchanged": "exchanged values",
    "length": "texts of another length",
    "level": "values on another level",
    "year": "dates in another year",
    "stale": "dates of a week ago",
    "late": "dates of a day ago",
    "cut": "texts that are cut off",
    "shrunk": "numbers that are too small",
    "sign": "another sign",
    "minus": "-1 in place of values",
}


@cache
def issue_word(name: str) -> str:
    """Return in words what kind of issue a variant is of, `null_0.5` for example."""
    known = (words for start, words in _ISSUE_WORDS.items() if name.startswith(f"{start}_"))
    return next(known, name.split("_", maxsplit=1)[0])


def _issue_words(names: Sequence[str]) -> list[str]:
    kinds = list(dict.fromkeys(issue_word(name) for name in names))
    more = len(kinds) - _MOST_WORDS
    shown = kinds[:_MOST_WORDS]
    return [*shown, f"{more} more kind{'s' if more > 1 else ''}"] if more > 0 else kinds

"""What is known of metrics by their names: the one place for lists of them.

Detectors treat a metric by what it is: whether it grows with the number of rows, has the column's
unit, may be negative. A metric that is in no list is an ordinary number. In which range its values
lie is said by the documentation of its macro, so that a user's own metric can say it too.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

# Distances between two batches' distributions; those of patterns have a prefix.
NUMERIC_DISTANCES = ("emd", "js_div", "kl_div", "ks_dist", "cohen_d")
CATEGORICAL_DISTANCES = ("l_1", "l_inf", "cosine", "chi_squared", "js_div", "kl_div")
PATTERN_PREFIX = "pat_"
PATTERN_DISTANCES = tuple(PATTERN_PREFIX + name for name in CATEGORICAL_DISTANCES)
DISTANCE_METRICS = frozenset((*NUMERIC_DISTANCES, *CATEGORICAL_DISTANCES, *PATTERN_DISTANCES))

# What is about how values are distributed, not about single ones.
DISTRIBUTION_METRICS = DISTANCE_METRICS | {
    "entropy",
    "histogram",
    "mutual_information",
    "index_of_peculiarity",
}

# Means of values or of rows, for which the central limit theorem holds.
CLT_METRICS = frozenset(
    ["row_count", "mean", "str_len", "char_len", "digit_len", "punc_len", "complete_ratio"]
)
COUNT_METRICS = frozenset(["row_count", "dist_val_count"])
# Shares of rows without a proper value.
COMPLETENESS_METRICS = ("complete_ratio", "nan_ratio", "infinite_ratio", "empty_ratio")
# Shares that `@avh` bounds by counting rows.
COUNTED_SHARES = (*COMPLETENESS_METRICS, "negative_ratio")
# Of how many values a learned pattern holds; the pattern is its parameter.
PATTERN_MATCHES = "pattern_matches"
# Metrics in the column's own unit, whose level says nothing about what is a small change.
UNIT_METRICS = frozenset(["min", "max", "mean", "median", "p25", "p75", "range", "stddev"])
# Metrics that a single row decides.
EXTREME_METRICS = frozenset(["min", "max", "range", "days_to_min", "days_to_max"])
# Days from the batch to dates and times.
DAY_METRICS = frozenset(["days_to_min", "days_to_max", "days_to_median"])
QUARTILES = frozenset(["p25", "median", "p75"])
# Metrics that may be negative.
SIGNED_METRICS = DAY_METRICS | {"min", "max", "mean", "median", "p25", "p75", "sum"}

# Metrics that the paper of `@avh` has not: its mode `paper` does without them.
OWN_METRICS = DAY_METRICS | {
    *("p25", "p75", "upper_ratio", "lower_ratio", "nan_ratio", "infinite_ratio", "empty_ratio"),
    "negative_ratio",
}

# Metrics, and aggregates of SQL, that take only the numbers among values.
NUMBERS_ONLY = frozenset(
    {"mean", "median", "quantile", "p25", "p75", "sum", "range", "stddev", "variance", "avg"}
    | {"approx_percentile", "kll_quantile", "skewness", "kurtosis", "stddev_samp", "stddev_pop"}
    | {"var_samp", "var_pop", "corr", "covar_samp", "covar_pop", "histogram_binned"}
)

# Means over texts of how long they are, or how many characters of a kind they have.
LENGTH_METRICS = frozenset({"str_len", "char_len", "digit_len", "punc_len"})

# What the error of a sum says, whatever else it says.
TOO_LARGE_SUM = "does not fit into its type"

# Metrics that are multiplied as the number of rows is, if the rows are like those that are there.
PROPORTIONAL_METRICS = frozenset({"row_count", "count", "null_count", "sum"})
# Metrics that an issue in a sample changes by the same factor in a whole batch.
FACTOR_METRICS = PROPORTIONAL_METRICS | {"dist_val_count"}
# Metrics of a column that move when the number of rows does, though not in proportion.
ROW_DRIVEN_METRICS = frozenset(
    [
        "sum",
        "null_count",
        "duplicate_count",
        "other_value_count",
        "orphan_count",
        "approx_count_distinct",
        "count_distinct",
        "dist_val_count",
        "type_count",
    ]
)

# Metrics that people bound from below; the others they bound from above.
_AT_LEAST = frozenset(
    {"min", "min_length", "row_count", "count", "count_distinct", "approx_count_distinct"}
    | {"dist_val_count", "column_count", "completeness", "complete_ratio", "compliance"}
    | {"uniqueness", "unique_ratio", "unique_value_ratio", "distinctness", "type_consistency"}
    | {"predictability"}
)
# Metrics whose every unit is a row (or value) that ought not to be.
BAD_ROW_METRICS = frozenset({"duplicate_count", "orphan_count", "null_count", "other_value_count"})
# Numbers of rows or values that ought not to be there.
_OUGHT_TO_BE_NONE = BAD_ROW_METRICS | {"dependency_violations"}

# What people call metrics whose names are short forms; the other names speak for themselves.
_METRIC_WORDS = {
    **dict.fromkeys(CATEGORICAL_DISTANCES, "distance of the shares of values"),
    # js_div and kl_div are of numbers and of texts: the words fit both.
    **dict.fromkeys(NUMERIC_DISTANCES, "distance of the distribution of values"),
    **dict.fromkeys(PATTERN_DISTANCES, "distance of the distribution of text shapes"),
    "cohen_d": "distance of means in standard deviations",
    "p25": "lower quartile",
    "p75": "upper quartile",
    "stddev": "standard deviation",
    "days_to_min": "days from the batch to the earliest value",
    "days_to_max": "days from the batch to the latest value",
    "days_to_median": "days from the batch to the median",
    "range": "distance from least to largest value",
    "row_count": "number of rows",
    "dist_val_count": "number of distinct values",
    "unique_ratio": "share of distinct values",
    "complete_ratio": "share of values that are not null",
    "nan_ratio": "share of NaN",
    "infinite_ratio": "share of infinite values",
    "negative_ratio": "share of numbers below zero",
    "empty_ratio": "share of empty or blank texts",
    "str_len": "mean length of texts",
    "char_len": "mean number of letters",
    "digit_len": "mean number of digits",
    "punc_len": "mean number of punctuation marks",
    "upper_ratio": "share of characters that are upper-case letters",
    "lower_ratio": "share of characters that are lower-case letters",
}


def metric_words(metric: str) -> str:
    """Return a metric's name in words with the name behind it, or the name if it needs none."""
    words = _METRIC_WORDS.get(metric)
    return metric if words is None else f"{words} ({metric})"


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The numbers that a metric can be; an end that is `open` is not reached."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is that of shares."""
        return self.low >= 0 and self.high == 1

    def __str__(self) -> str:
        """In words: `between 0 and 1`, `never below 0`."""
        if math.isinf(self.high):
            return f"never below {self.low:g}"
        return (
            f"never above {self.high:g}"
            if math.isinf(self.low)
            else f"between {self.low:g} and {self.high:g}"
        )


_RANGE = re.compile(r"\bRange ([\[(])\s*([^\s,]+)\s*,\s*([^\])]+?)\s*([\])])")


def declared_range(documentation: str) -> ValueRange | None:
    """The range that a metric's documentation names: `Range [0, 1]`, `Range (0, inf)`, or None.

    An end that is no number, such as `about 1`, is not taken for one.
    """
    match = _RANGE.search(documentation)
    if match is None:
        return None
    low, high = _end(match[2], -math.inf), _end(match[3], math.inf)
    if math.isinf(low) and math.isinf(high):
        return None
    return ValueRange(low, high, match[1] == "(", match[4] == ")")


def _end(text: str, unknown: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return unknown
    return unknown if math.isnan(value) else value


def usual_operator(metric: str) -> str:
    """How people bound a metric by one number: `>=` or `<=`."""
    return ">=" if metric in _AT_LEAST else "<="


def usual_demand(metric: str, within: ValueRange | None) -> str:
    """A comparison as people make them of a metric, for hints: `>= 0.95`."""
    if within is not None and within.is_share:
        return ">= 0.95" if metric in _AT_LEAST else "<= 0.05"
    if metric in _OUGHT_TO_BE_NONE:
        return "= 0"
    if metric == "freshness":
        return "< 24"
    return "<= 100" if metric in ("max", "max_length") else "> 0"

"""What is known of metrics by their names: the one place for lists of them.

Detectors treat a metric by what it is: whether it grows with the number of rows, has the column's
unit, may be negative. A metric that is in no list is an ordinary number.
"""

from __future__ import annotations

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
# Metrics that the paper of `@avh` has not: its mode `paper` does without them.
OWN_METRICS = frozenset(
    ["p25", "p75", "upper_ratio", "lower_ratio", "nan_ratio", "infinite_ratio", "empty_ratio"]
)

# Metrics in the column's own unit, whose level says nothing about what is a small change.
UNIT_METRICS = frozenset(["min", "max", "mean", "median", "p25", "p75", "range", "stddev"])
# Metrics that may be negative.
SIGNED_METRICS = frozenset({"min", "max", "mean", "median", "p25", "p75", "sum"})

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
    "range": "distance from least to largest value",
    "row_count": "number of rows",
    "dist_val_count": "number of distinct values",
    "unique_ratio": "share of distinct values",
    "complete_ratio": "share of values that are not null",
    "nan_ratio": "share of NaN",
    "infinite_ratio": "share of infinite values",
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

"""`@avh`: Auto-Validate by History (KDD 2023): bounds on many metrics of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dqsql.compiler.monitors import batch_argument
from dqsql.compiler.privacy import hides_values
from dqsql.dialect import quoted
from dqsql.model.metric_traits import NUMERIC_DISTANCES
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.monitors.context import MonitorContext, Workplace
from dqsql.monitors.history import RECURS
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.avh.detector import AvhDetector
from dqsql.monitors.kinds.avh.evidence import TEXT_DISTANCES
from dqsql.monitors.kinds.avh.learning import AvhLearner, recomputed
from dqsql.monitors.kinds.avh.settings import NAME, SETTINGS, avh_settings, rate_note

# Metrics of Tables 3 and 4 of "Auto-Validate by History" (KDD 2023), by the paper's names, and
# quartiles, shares of letters' cases and of rows without a proper value beside them; what their
# two-distribution metrics are computed from is in the profiles.
_NUMERIC = {
    "min": "min({c})",
    "max": "max({c})",
    "mean": "mean({c})",
    "median": "median({c})",
    "p25": "quantile({c}, 0.25)",
    "p75": "quantile({c}, 0.75)",
    "sum": "sum({c})",
    "range": "range({c})",
    "row_count": "row_count()",
    "unique_ratio": "unique_ratio({c})",
    "complete_ratio": "complete_ratio({c})",
    "nan_ratio": "nan_ratio({c})",
    "infinite_ratio": "infinite_ratio({c})",
    "count": "count({c})",
    "stddev": "stddev({c})",
    "quantile_profile": "quantile_profile({c})",
}
_TEXT = {
    "str_len": "str_len({c})",
    "char_len": "char_len({c})",
    "digit_len": "digit_len({c})",
    "punc_len": "punc_len({c})",
    "upper_ratio": "upper_ratio({c})",
    "lower_ratio": "lower_ratio({c})",
    "row_count": "row_count()",
    "unique_ratio": "unique_ratio({c})",
    "complete_ratio": "complete_ratio({c})",
    "empty_ratio": "empty_ratio({c})",
    "dist_val_count": "dist_val_count({c})",
    "value_profile": "value_profile({c}, {hashed})",
    "pattern_profile": "pattern_profile({c})",
}
# Values of dates and times are told by how far they are from their batch.
_TIME = {
    "days_to_min": "days_to_min({c}{batch})",
    "days_to_max": "days_to_max({c}{batch})",
    "days_to_median": "days_to_median({c}{batch})",
    "row_count": "row_count()",
    "unique_ratio": "unique_ratio({c})",
    "complete_ratio": "complete_ratio({c})",
    "dist_val_count": "dist_val_count({c})",
}
# No other number is NaN or infinite.
_FLOAT_ONLY = frozenset({"nan_ratio", "infinite_ratio"})


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    hidden = hides_values(use.model, column, use.annotation.settings)
    names = {
        "c": quoted(column or ""),
        "hashed": "true" if hidden else "false",
        "batch": batch_argument(use.model),
    }
    families = {name: Family.NUMERIC for name in _NUMERIC} | dict.fromkeys(
        _FLOAT_ONLY, Family.FLOATING
    )
    return [
        *(
            WatchedMetric(families[name], name, text.format_map(names), column)
            for name, text in _NUMERIC.items()
        ),
        *(
            WatchedMetric(Family.TIME, name, text.format_map(names), column)
            for name, text in _TIME.items()
        ),
        *(
            WatchedMetric(Family.TEXT, name, text.format_map(names), column)
            for name, text in _TEXT.items()
        ),
    ]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    settings = avh_settings(monitor, defaults)
    if settings.exclude_where is not None:
        # How many batches it leaves out is known only when Spark was asked.
        return Reach(None)
    # Batches that it found far out count for nothing, unless there are many of them.
    return Reach(settings.window + settings.refit_every + RECURS)


def _detector(place: Workplace, context: MonitorContext) -> AvhDetector:
    return AvhDetector(context, place.injector(), place.matching)


def _learner(place: Workplace, context: MonitorContext) -> AvhLearner:
    return AvhLearner(_detector(place, context))


KIND = MonitorKind(
    MonitorSpec(
        name=NAME,
        settings=SETTINGS,
        watches=_watches,
        about_column=True,
        symptom="distribution",
    ),
    detector=_detector,
    order=20,
    reach=_reach,
    derived=frozenset({*NUMERIC_DISTANCES, *TEXT_DISTANCES}),
    replayer=_learner,
    learner=_learner,
    recompute=recomputed,
    note=rate_note,
)

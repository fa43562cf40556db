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
from dqsql.model.results import BatchStatus
from dqsql.monitors.context import MonitorContext, Workplace
from dqsql.monitors.history import SPAN
from dqsql.monitors.injection import Injector
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.avh.detector import AvhDetector
from dqsql.monitors.kinds.avh.evidence import TEXT_DISTANCES
from dqsql.monitors.kinds.avh.learning import AvhLearner, recomputed
from dqsql.monitors.kinds.avh.settings import NAME, SETTINGS, avh_settings, rate_note

# Metrics of Tables 3 and 4 of "Auto-Validate by History" (KDD 2023), by the paper's names, and
# quartiles, shares of letters' cases and of rows without a proper value beside them; what their
# two-distribution metrics are computed from is in the profiles.
_NAMES = {
    Family.NUMERIC: "min max mean median p25 p75 sum range row_count unique_ratio complete_ratio"
    " negative_ratio nan_ratio infinite_ratio count stddev quantile_profile",
    # Values of dates and times are told by how far they are from their batch.
    Family.TIME: "days_to_min days_to_max days_to_median row_count unique_ratio complete_ratio"
    " dist_val_count",
    Family.TEXT: "str_len char_len digit_len punc_len upper_ratio lower_ratio row_count"
    " unique_ratio complete_ratio empty_ratio dist_val_count value_profile pattern_profile",
}
# What is more than the metric of that name of the column.
_CALLS = {
    **dict.fromkeys(("days_to_min", "days_to_max", "days_to_median"), "{name}({c}{batch})"),
    "p25": "quantile({c}, 0.25)",
    "p75": "quantile({c}, 0.75)",
    "row_count": "row_count()",
    "value_profile": "value_profile({c}, {hashed})",
}
# No other number is NaN or infinite.
_FLOAT_ONLY = frozenset({"nan_ratio", "infinite_ratio"})


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    hashed = "true" if hides_values(use.model, column, use.annotation.settings) else "false"
    about = {"c": quoted(column or ""), "hashed": hashed, "batch": batch_argument(use.model)}
    return [
        WatchedMetric(
            Family.FLOATING if name in _FLOAT_ONLY else family,
            name,
            _CALLS.get(name, "{name}({c})").format(name=name, **about),
            column,
        )
        for family, names in _NAMES.items()
        for name in names.split()
    ]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    settings = avh_settings(monitor, defaults)
    if settings.exclude_where is not None:
        # How many batches it leaves out is known only when Spark was asked.
        return Reach(None)
    # Batches that it found far out count for nothing, unless there are many of them.
    depth = settings.window + SPAN
    return Reach(depth + settings.refit_every, alike=depth)


def _detector(place: Workplace, context: MonitorContext) -> AvhDetector:
    def accepted(batch: str) -> bool:
        record = place.ledger.get(batch)
        return record is not None and record.status is BatchStatus.ACCEPTED

    return AvhDetector(context, Injector(place), accepted)


def _learner(place: Workplace, context: MonitorContext) -> AvhLearner:
    return AvhLearner(_detector(place, context))


KIND = MonitorKind(
    MonitorSpec(
        name=NAME, settings=SETTINGS, watches=_watches, about_column=True, symptom="distribution"
    ),
    detector=_detector,
    order=20,
    reach=_reach,
    awaits_rows=True,
    derived=frozenset({*NUMERIC_DISTANCES, *TEXT_DISTANCES}),
    replayer=_learner,
    learner=_learner,
    recompute=recomputed,
    note=rate_note,
)

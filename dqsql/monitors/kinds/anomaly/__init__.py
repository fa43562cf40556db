"""`@anomaly(metric, strategy)`: one metric against its own history, by a named strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dqsql.errors import CompileError
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.anomaly.detector import NAME, SETTINGS, AnomalyDetector, anomaly_call
from dqsql.monitors.kinds.anomaly.replay import AnomalyReplay, recomputed


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    if not use.arguments:
        raise CompileError(
            "@anomaly needs a metric",
            span=use.annotation.span,
            hint="for example @anomaly(row_count), or @anomaly(mean) beside a column",
        )
    column = use.annotation.column
    return [WatchedMetric(Family.ANY, "metric", use.arguments[0], column, in_context=True)]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    call = anomaly_call(monitor, defaults)
    return Reach(call.reach, call.segments)


KIND = MonitorKind(
    MonitorSpec(
        name=NAME,
        settings=SETTINGS,
        watches=_watches,
        several=True,
        # Parameters of strategies.
        mistaken=("limit", "period", "threshold"),
    ),
    detector=lambda place, context: AnomalyDetector(context),
    order=40,
    reach=_reach,
    awaits_rows=True,
    read=anomaly_call,
    replayer=lambda place, context: AnomalyReplay(AnomalyDetector(context)),
    recompute=recomputed,
)

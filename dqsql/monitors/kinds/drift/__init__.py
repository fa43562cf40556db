"""`@drift(column, measure, against => ..) < x`: how far a distribution has moved."""

from __future__ import annotations

from functools import partial

from dqsql.compiler.privacy import hides_values
from dqsql.decisions.drift import OF_CATEGORIES, OF_NUMBERS
from dqsql.dialect import quoted
from dqsql.errors import CompileError
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.project import Scope
from dqsql.model.settings import as_bool, as_given
from dqsql.monitors.demands import demands_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.drift.call import DRIFT, drift_call
from dqsql.monitors.kinds.drift.detector import ROWS, VALUES, DriftDetector
from dqsql.monitors.kinds.drift.stored import COUNT, QUANTILES, recomputed
from dqsql.monitors.settings import read_braces

_SETTINGS = {"warn": as_given, "segments": as_bool}


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    annotation = use.annotation
    call = drift_call(annotation.expression, annotation.column, annotation.span)
    if annotation.settings.scope is not Scope.DELTA:
        raise CompileError(
            "drift is about one batch: scope cumulative has nothing to compare",
            span=annotation.span,
            hint="compare it with several batches: against => 'last 30'",
        )
    about = call.column or ""
    name = quoted(about)
    hidden = "true" if hides_values(use.model, about, annotation.settings) else "false"
    quantiles = [
        WatchedMetric(Family.NUMERIC, QUANTILES, f"{QUANTILES}({name})", about),
        WatchedMetric(Family.NUMERIC, COUNT, f"{COUNT}({name})", about),
    ]
    family = Family.ANY if call.measure in OF_CATEGORIES else Family.TEXT
    values = [WatchedMetric(family, VALUES, f"{VALUES}({name}, {hidden})", about)]
    metrics = [WatchedMetric(Family.ANY, ROWS, "row_count()", about)]
    metrics += quantiles if call.measure not in OF_CATEGORIES else []
    metrics += values if call.measure not in OF_NUMBERS else []
    return metrics


def _relations(use: MonitorUse) -> list[str]:
    annotation = use.annotation
    to = drift_call(annotation.expression, annotation.column, annotation.span).against
    return [] if to.relation is None else [to.relation]


def _read(monitor: Monitor) -> object:
    read_braces(monitor, _SETTINGS)
    return demands_of(monitor)


def drift_kind(name: str) -> MonitorKind:
    """The kind of `@drift` or `@drift_pvalue`."""
    return MonitorKind(
        MonitorSpec(
            name=name,
            settings=_SETTINGS,
            watches=_watches,
            configurable=False,
            several=True,
            symptom="distribution",
            relations=_relations,
            compared=True,
        ),
        detector=partial(DriftDetector, kind=name),
        reach=lambda monitor, defaults: Reach(
            drift_call(monitor.expression, monitor.column, monitor.span).against.batches,
            segments=True,
        ),
        awaits_rows=True,
        read=_read,
        recompute=recomputed,
    )


KIND = drift_kind(DRIFT)

"""`@pattern`: a data pattern learned from a column's values, then counted in every scan.

A pattern is learned before the scan, from a sample of accepted batches, or of the oldest batch of
the run where there are none yet. If that one fails another check, the pattern judges nothing, and
is learned again once a batch was accepted. Its matches are a state like any other; the batches of a
backfill behind one at which another pattern is learned are scanned once more. A batch is judged by
comparing its share of values that do not match with that of the training batches (Song & He,
"Auto-Validate", SIGMOD 2021, section 4).
"""

from __future__ import annotations

from dqsql.dialect import quoted
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.pattern import training
from dqsql.monitors.kinds.pattern.detector import PatternDetector, PatternReplay, recomputed


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    return [WatchedMetric(Family.ANY, "count", f"count({quoted(column or '')})", column)]


KIND = MonitorKind(
    MonitorSpec(
        name=training.NAME,
        settings=training.SETTINGS,
        watches=_watches,
        about_column=True,
        symptom="types and patterns",
    ),
    detector=PatternDetector,
    order=30,
    reach=lambda monitor, defaults: Reach(1),
    replayer=lambda place, context: PatternReplay(PatternDetector(place, context)),
    recompute=recomputed,
    before_scan=training.learn_before_scan,
    with_learned=training.with_known_patterns,
)

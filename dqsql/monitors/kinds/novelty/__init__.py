"""`@novelty`: whether a batch as a whole is unlike the accepted batches before it."""

from __future__ import annotations

from dqsql.compiler.auto import same_in_a_batch
from dqsql.compiler.monitors import batch_argument, key_columns
from dqsql.dialect import quoted
from dqsql.errors import CompileError
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.novelty import detector
from dqsql.monitors.kinds.novelty.stored import NoveltyReplay, recomputed

# The features of "Automating Data Quality Validation for Dynamic Data Ingestion" (EDBT 2021).
_ANY = ("completeness({c})", "approx_count_distinct({c})")
# The paper's divisor is the batch size. Among rows with a value it says nothing of those without,
# of which the completeness tells: metrics of which one moves at a time are told apart better.
_FREQUENT = "most_frequent_ratio({c})"
_PAPER = "most_frequent_share({c})"
_NUMERIC = ("min({c})", "max({c})", "mean({c})", "stddev({c})")
_TIME = tuple(f"days_to_{what}({{c}}{{batch}})" for what in ("min", "max", "median"))
_TEXT = "index_of_peculiarity({c})"
_BY_TEXT = "index_of_peculiarity({c}, 'text')"


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    model, span = use.model, use.annotation.span
    if use.annotation.column is not None:
        raise CompileError(
            "@novelty is about the whole model",
            span=span,
            hint="write it after the FROM clause, or before the SELECT",
        )
    if model.columns is None:
        raise CompileError(
            "@novelty needs the names of the columns",
            span=span,
            hint="list the columns in the SELECT instead of *",
        )
    by_text = use.options.get("peculiarity") == "text"
    paper = str(use.options.get("mode")).lower() == "paper"
    by_family = {
        Family.ANY: (*_ANY, _PAPER if paper else _FREQUENT),
        Family.NUMERIC: _NUMERIC,
        Family.TIME: () if paper else _TIME,
        Family.STRING: (_BY_TEXT if by_text else _TEXT,),
    }
    key, batch = key_columns(model), batch_argument(model)
    # Of a time whose day is the batch, only where it is in its batch says something.
    of_times = {Family.TIME: by_family[Family.TIME]}
    segments = {c.lower() for c in model.config.segment_by}
    constant = same_in_a_batch(model) | segments
    return [
        WatchedMetric(family, text, text.format(c=quoted(name), batch=batch), name)
        for name in model.columns
        if name.lower() not in constant
        for family, texts in (of_times if name.lower() in key else by_family).items()
        for text in texts
    ]


KIND = MonitorKind(
    MonitorSpec(
        name=detector.NAME,
        settings=detector.SETTINGS,
        watches=_watches,
        symptom="all metrics together",
    ),
    detector=lambda place, context: detector.NoveltyDetector(context),
    order=50,
    reach=lambda monitor, defaults: Reach(detector.novelty_reach(monitor, defaults)),
    awaits_rows=True,
    read=detector.novelty_settings,
    replayer=lambda place, context: NoveltyReplay(detector.NoveltyDetector(context)),
    recompute=recomputed,
)

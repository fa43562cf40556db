"""Statements that look at batches and segments before a scan: which there are, and how many."""

from __future__ import annotations

from sqlglot import exp

from dqsql.compiler.keys import (
    BATCH,
    batch_text,
    model_table,
    segment_label,
)
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import aliased, call, column
from dqsql.model.project import CheckModel

SEGMENTS = "segments"
SKETCH = "sketch"
_N = "dqsql_n"
_LABEL = "dqsql_segment"


def batches_query(model: CheckModel, condition: exp.Expr | None = None) -> exp.Select | None:
    """Batches with their row counts, and with `segment_by` also their numbers of segments.

    The segments of a batch also come as a sketch, so that those of several batches can be counted
    together without reading anything again. None for a model without `batch_by`.
    """
    batch = batch_text(model)
    if batch is None:
        return None
    if not model.config.segment_by:
        query = exp.select(aliased(batch, BATCH))
        query = query.select(aliased(call("count", exp.Star()), "rows"))
        query = query.from_(model_table(model)).group_by(batch.copy())
        return query if condition is None else query.where(condition)
    label = segment_label(model.config.segment_by)
    fine = exp.select(
        aliased(batch, BATCH),
        aliased(label, _LABEL),
        aliased(call("count", exp.Star()), _N),
    )
    fine = fine.from_(model_table(model))
    fine = fine if condition is None else fine.where(condition)
    fine = fine.group_by(batch.copy(), label.copy())
    query = exp.select(
        column(BATCH),
        aliased(call("sum", column(_N)), "rows"),
        aliased(call("count", exp.Star()), SEGMENTS),
        aliased(call("hll_sketch_agg", column(_LABEL)), SKETCH),
    )
    return query.from_(fine.subquery("by_segment")).group_by(column(BATCH))


def segment_count_query(model: CheckModel, batches: BatchFilter) -> exp.Select:
    """The exact number of segments in some batches; reads the segment columns only."""
    label = segment_label(model.config.segment_by)
    distinct = exp.select(aliased(label, _LABEL)).distinct()
    distinct = distinct.from_(model_table(model))
    condition = batches.condition(model)
    distinct = distinct if condition is None else distinct.where(condition)
    count = aliased(call("count", exp.Star()), SEGMENTS)
    return exp.select(count).from_(distinct.subquery("distinct_segments"))

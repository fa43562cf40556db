"""Statements that look at batches and segments before a scan: which there are, and how many."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from dqsql.compiler.keys import (
    BATCH,
    batch_key,
    batch_text,
    check_batch_by,
    model_table,
    segment_label,
)
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import aliased, call, column, parse_statement
from dqsql.model.project import CheckModel

SEGMENTS = "segments"
SKETCH = "sketch"
_N = "dqsql_n"
_LABEL = "dqsql_segment"
# Functions that give one value for each row; of others, some give several rows, or one for all.
_OF_A_ROW = frozenset(
    re.findall(
        r"\w+",
        "abs ceil coalesce concat concat_ws date date_add date_format date_sub date_trunc day floor"
        " greatest hour ifnull initcap least left length lower lpad ltrim md5 minute month nullif"
        " nvl regexp_extract regexp_replace replace right round rpad rtrim sha2 split substr"
        " substring to_date to_timestamp trim trunc try_cast upper year",
    )
)


def batches_query(
    model: CheckModel, condition: exp.Expr | None = None, spark_type: str = "string"
) -> exp.Select | None:
    """Batches with their row counts, and with `segment_by` also their numbers of segments.

    Only the columns of `batch_by` and `segment_by` are read, and those of a `condition`.
    The segments of a batch also come as a sketch, so that those of several batches can be counted
    together without reading anything again. None for a model without `batch_by`.
    `spark_type` is the Spark type of `batch_by`.
    """
    batch, key = batch_text(model), batch_key(model, spark_type)
    if batch is None or key is None:
        return None
    if not model.config.segment_by:
        query = exp.select(aliased(batch, BATCH))
        query = query.select(aliased(call("count", exp.Star()), "rows"))
        query = query.from_(model_table(model)).group_by(key)
        return query if condition is None else query.where(condition)
    label = segment_label(model.config.segment_by)
    fine = exp.select(
        aliased(batch, BATCH), aliased(label, _LABEL), aliased(call("count", exp.Star()), _N)
    )
    fine = fine.from_(model_table(model))
    fine = fine if condition is None else fine.where(condition)
    fine = fine.group_by(key, label.copy())
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


def batch_source(model: CheckModel) -> tuple[str, str] | None:
    """The relation and its column that the batches of a model are the values of, row by row.

    None where the SELECT does more than to name columns of one relation, as far as they matter.
    """
    batch_by, read = check_batch_by(model), _of_one_relation(model, "expressions", "from_")
    if not isinstance(batch_by, exp.Column) or batch_by.table or read is None:
        return None
    query, table = read
    if not all(map(is_of_a_row, query.expressions)):
        return None
    source_column = _handed_on(query, batch_by.name, table.alias_or_name)
    return None if source_column is None else (table.name, source_column)


def handed_on(model: CheckModel, relation: str, names: Iterable[str]) -> list[str]:
    """Those columns of a relation that a model hands on as they are, under their names.

    None where its SELECT does more than to name columns of that relation and to choose rows.
    """
    read = _of_one_relation(model, "expressions", "from_", "where")
    if read is None or read[1].name.lower() != relation.lower():
        return []
    query, table = read
    at = table.alias_or_name
    return [n for n in names if (_handed_on(query, n, at) or "").lower() == n.lower()]


def _of_one_relation(model: CheckModel, *parts: str) -> tuple[exp.Select, exp.Table] | None:
    """The SELECT of a model and the relation it reads; None where it has more than these parts."""
    query = parse_statement(model.sql)
    if not isinstance(query, exp.Select) or not has_only(query, *parts):
        return None
    source = query.args.get("from_")
    table = None if source is None else source.this
    if not isinstance(table, exp.Table) or not has_only(table, "this", "alias"):
        return None
    alias = table.args.get("alias")
    return None if alias and alias.columns else (query, table)


def _handed_on(query: exp.Select, name: str, table: str) -> str | None:
    """The column of a table that is an output column as it is; None where that is not clear."""
    stars = [p for p in query.expressions if p.is_star]
    named = [p for p in query.expressions if p.alias_or_name.lower() == name.lower()]
    if stars:
        plain = len(stars) == 1 and isinstance(stars[0], exp.Star) and has_only(stars[0])
        return name if plain and not named else None
    value = named[0].unalias() if len(named) == 1 else None
    if not isinstance(value, exp.Column) or not has_only(value, "this", "table"):
        return None
    return value.name if value.table.lower() in ("", table.lower()) else None


def is_of_a_row(value: exp.Expr) -> bool:
    """Whether the functions in an expression are known to give one value for each row."""
    return _OF_A_ROW.issuperset(c.name.lower() for c in value.find_all(exp.Anonymous))


def has_only(node: exp.Expr, *parts: str) -> bool:
    """Whether a node has no other parts than those."""
    return all(name in parts for name, part in node.args.items() if part)

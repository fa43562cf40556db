"""The statements that count the rows of other relations, by batch where they have batches."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dqsql.compiler.keys import BATCH, SEGMENT, not_null, relation_table, segment_label
from dqsql.compiler.pruning import typed
from dqsql.dialect import call, column, literal
from dqsql.model.plan import Relation, StateColumn


def relation_query(
    state: StateColumn, relation: Relation, batches: Sequence[str] | None, spark_type: str
) -> exp.Select:
    """Batch, segment null, and the state; one row without a batch for a relation without any."""
    batch = _batch_text(relation)
    query = exp.select(exp.alias_(batch or segment_label(()), BATCH, quoted=True))
    query = query.select(exp.alias_(segment_label(()), SEGMENT, quoted=True))
    query = query.select(exp.alias_(state.scan, state.name, quoted=True))
    query = query.from_(relation_table(relation.sql))
    if relation.batch is None or batch is None:
        return query
    if batches is None:
        condition = not_null(relation.batch.copy())
    else:
        values = [typed(b, spark_type) for b in batches]
        condition = exp.In(this=exp.Paren(this=relation.batch.copy()), expressions=values)
        condition = condition if values else exp.false()
    return query.where(condition).group_by(batch.copy())


def belongs_to(relation: Relation, rows: str, counted: str) -> exp.Expr:
    """Which rows of the scan `rows` a row of the relation's query `counted` belongs to."""
    whole = exp.Is(this=column(SEGMENT, rows), expression=exp.Null())
    if relation.batch is None:
        return whole
    same = exp.EQ(this=column(BATCH, rows), expression=column(BATCH, counted))
    return exp.and_(whole, same)


def counted_state(state: StateColumn, rows: str, counted: str) -> exp.Expr:
    """The state in the joined row: 0 for a batch that the relation does not have."""
    whole = exp.Is(this=column(SEGMENT, rows), expression=exp.Null())
    value = call("coalesce", column(state.name, counted), literal(0))
    return exp.alias_(exp.Case(ifs=[exp.If(this=whole, true=value)]), state.name, quoted=True)


def rows_in_batch(state: StateColumn, relation: Relation, label: str) -> exp.Expr:
    """The state for one batch by itself, as a scalar subquery."""
    query = exp.select(state.scan.copy()).from_(relation_table(relation.sql))
    batch = _batch_text(relation)
    if batch is not None:
        query = query.where(exp.EQ(this=batch, expression=exp.Literal.string(label)))
    return query.subquery()


def _batch_text(relation: Relation) -> exp.Expr | None:
    if relation.batch is None:
        return None
    return exp.Cast(this=relation.batch.copy(), to=exp.DataType.build("string"))

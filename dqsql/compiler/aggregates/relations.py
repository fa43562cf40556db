"""`relation_rows(relation)`: the rows of another relation, by batch where both have batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.aggregates.base import (
    Aggregate,
    AggregateCall,
    Component,
    Lowering,
    Relations,
    RowSource,
    SourcePass,
    first_state,
    merge_with,
    scan_pass,
)
from dqsql.compiler.keys import BATCH, SEGMENT, not_null, relation_table, segment_label
from dqsql.compiler.pruning import typed
from dqsql.dialect import call, column, literal
from dqsql.model.plan import Relation, StateColumn


def _relation_rows(aggregate: AggregateCall, relations: Relations) -> Lowering:
    relation = relations[aggregate.args[0].this]
    merge = merge_with("max" if relation.batch is None else "sum")
    rows = call("count", exp.Star())
    component = Component("rows", rows, merge, source=relation, whole_only=True)
    return Lowering((component,), first_state)


@dataclass(frozen=True)
class _RelationPass(SourcePass):
    """Counts the rows of other relations, each by a query of its own."""

    def query(self, scan: RowSource, states: Sequence[StateColumn]) -> exp.Select:
        """Batch, segment null, and the state; one row without a batch where there are none."""
        (state,) = states
        relation = _relation(state)
        batch = _batch_text(relation)
        query = exp.select(exp.alias_(batch or segment_label(()), BATCH, quoted=True))
        query = query.select(exp.alias_(segment_label(()), SEGMENT, quoted=True))
        query = query.select(exp.alias_(state.scan, state.name, quoted=True))
        query = query.from_(relation_table(relation.sql))
        if relation.batch is None or batch is None:
            return query
        if scan.listed is None:
            condition = not_null(relation.batch.copy())
        else:
            values = [typed(b, scan.batch_type) for b in scan.listed]
            condition = exp.In(this=exp.Paren(this=relation.batch.copy()), expressions=values)
            condition = condition if values else exp.false()
        return query.where(condition).group_by(batch.copy())

    def join_condition(
        self, states: Sequence[StateColumn], rows: str, counted: str, *, one_batch: bool
    ) -> exp.Expr:
        """Rows of whole batches; of the same batch, where the relation has batches."""
        whole = exp.Is(this=column(SEGMENT, rows), expression=exp.Null())
        if _relation(states[0]).batch is None:
            return whole
        same = exp.EQ(this=column(BATCH, rows), expression=column(BATCH, counted))
        return exp.and_(whole, same)

    def joined_state(self, state: StateColumn, rows: str, counted: str) -> exp.Expr:
        """The state in the joined row: 0 for a batch that the relation does not have."""
        whole = exp.Is(this=column(SEGMENT, rows), expression=exp.Null())
        value = call("coalesce", column(state.name, counted), literal(0))
        return exp.alias_(exp.Case(ifs=[exp.If(this=whole, true=value)]), state.name, quoted=True)

    def without_rows(self, state: StateColumn, batch: str) -> exp.Expr:
        """The state for one batch by itself, as a scalar subquery."""
        relation = _relation(state)
        query = exp.select(state.scan.copy()).from_(relation_table(relation.sql))
        own = _batch_text(relation)
        if own is not None:
            query = query.where(exp.EQ(this=own, expression=exp.Literal.string(batch)))
        return query.subquery()


def _relation(state: StateColumn) -> Relation:
    assert isinstance(state.source, Relation)
    return state.source


def _batch_text(relation: Relation) -> exp.Expr | None:
    if relation.batch is None:
        return None
    return exp.Cast(this=relation.batch.copy(), to=exp.DataType.build("string"))


_PASS = _RelationPass("rows of another relation", 100, reads=0, apart=True)


@scan_pass.register
def _(source: Relation, columns: Mapping[str, str]) -> SourcePass:
    return _PASS


AGGREGATES = (
    Aggregate(
        ("relation_rows",),
        _relation_rows,
        own=True,
        over_rows=lambda args: (),
        subject=lambda aggregate: str(aggregate.args[0].this).strip("`"),
        names_relation=True,
    ),
)

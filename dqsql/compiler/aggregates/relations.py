"""What is measured of another relation, by batch where both have batches.

`relation_rows(relation)` counts its rows, `metric(relation, 'expression')` is any expression of
aggregates over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler import trees
from dqsql.compiler.aggregates import base
from dqsql.compiler.keys import BATCH, SEGMENT, not_null, relation_table, segment_label
from dqsql.compiler.pruning import typed
from dqsql.dialect import aliased, as_type, call, column, literal, parse_expression
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Relation, StateColumn

if TYPE_CHECKING:
    from dqsql.compiler.scan import Scan

METRIC_OF, RELATION_ROWS = "metric", "relation_rows"
_HINT = "for example: metric('ledger', 'sum(amount)')"


def _relation_rows(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    if len(aggregate.args) != 1:
        raise UnsupportedExpressionError("relation_rows takes one relation")
    relation = relations[aggregate.args[0].this]
    merge = base.merge_with("max" if relation.batch is None else "sum")
    rows = call("count", exp.Star())
    if aggregate.where is not None:
        rows = call("count_if", aggregate.where.copy())
    component = base.Component("rows", rows, merge, source=relation, whole_only=True)
    return base.Lowering((component,), base.first_state)


def _metric(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    """The states of the aggregates in the expression, each taken over the relation."""
    # The registry finds this file.
    from dqsql.compiler.aggregates.registry import lower

    if len(aggregate.args) != 2:
        message = f"{METRIC_OF} takes a relation and a metric of it"
        raise UnsupportedExpressionError(message, hint=_HINT)
    relation, text = relations[aggregate.args[0].this], aggregate.args[1].this
    expression = parse_expression(str(text))
    inner = list(dict.fromkeys(trees.outermost_aggregates(expression)))
    if not inner:
        raise UnsupportedExpressionError(f"{text} is not a metric", hint=_HINT)
    restricted = {a: trees.filtered_by(a, aggregate.where) for a in inner}
    lowered = {a: lower(base.AggregateCall.of(r), relations) for a, r in restricted.items()}
    if any(c.source is not None for one in lowered.values() for c in one.components):
        raise UnsupportedExpressionError(
            f"{METRIC_OF} does not count the values of another relation",
            hint="take sums, counts, extremes, moments and sketches of another relation",
        )
    components: list[base.Component] = []
    places: dict[exp.Expr, slice] = {}
    for node, one in lowered.items():
        places[node] = slice(len(components), len(components) + len(one.components))
        components += [_of_relation(c, places[node], relation) for c in one.components]

    def finish(states: Sequence[exp.Expr]) -> exp.Expr:
        return trees.map_aggregates(
            expression, lambda a: exp.Paren(this=lowered[a].finish(states[places[a]]))
        )

    return base.Lowering(tuple(components), finish)


def _of_relation(component: base.Component, place: slice, relation: Relation) -> base.Component:
    """A state over the relation; what is not told by batch does not add up over batches."""
    inner = component.merge
    merge = None
    if inner is not None and relation.batch is not None:

        def merge(name: str, group: Sequence[str]) -> exp.Expr:
            return inner(name, group[place])

    return replace(component, source=relation, merge=merge, whole_only=True)


@dataclass(frozen=True)
class _RelationPass(base.SourcePass):
    """Measures one other relation by a query of its own."""

    relation: str = ""

    def query(self, scan: Scan, states: Sequence[StateColumn]) -> exp.Select:
        """Batch, segment null, and the states; one row without a batch where there are none."""
        relation = _relation(states[0])
        batch = _batch_text(relation)
        query = exp.select(aliased(batch or segment_label(()), BATCH))
        query = query.select(aliased(segment_label(()), SEGMENT))
        values = (aliased(trees.guarded(s.scan), s.name) for s in states)
        query = query.select(*values)
        query = query.from_(relation_table(relation.sql))
        if relation.batch is None or batch is None:
            return query
        if scan.listed is None:
            condition = not_null(relation.batch.copy())
        else:
            listed = [typed(b, scan.batch_type) for b in scan.listed]
            condition = exp.In(this=exp.Paren(this=relation.batch.copy()), expressions=listed)
            condition = condition if listed else exp.false()
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
        """The state in the joined row; a count is 0 for a batch that the relation does not have."""
        whole = exp.Is(this=column(SEGMENT, rows), expression=exp.Null())
        value: exp.Expr = column(state.name, counted)
        if trees.function_name(state.scan) in ("count", "count_if"):
            value = call("coalesce", value, literal(0))
        return aliased(exp.Case(ifs=[exp.If(this=whole, true=value)]), state.name)

    def without_rows(self, state: StateColumn, batch: str) -> exp.Expr:
        """The state for one batch by itself, as a scalar subquery."""
        relation = _relation(state)
        query = exp.select(trees.guarded(state.scan.copy())).from_(relation_table(relation.sql))
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
    return as_type(relation.batch.copy(), "string")


@base.scan_pass.register
def _(source: Relation, columns: Mapping[str, str]) -> base.SourcePass:
    return _RelationPass("rows of another relation", 100, reads=0, relation=source.sql)


AGGREGATES = tuple(
    base.Aggregate(
        (name,),
        lowered,
        own=True,
        over_rows=lambda args: (),
        subject=lambda aggregate: str(aggregate.args[0].this).strip("`"),
        names_relation=True,
    )
    for name, lowered in ((RELATION_ROWS, _relation_rows), (METRIC_OF, _metric))
)

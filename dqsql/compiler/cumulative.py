"""Scope `cumulative`: a metric over all accepted batches up to and including the one under test.

The state of a prefix of batches is merged from state rows, never scanned again. The statements
here read a view `history`: state rows of batches, and possibly one row per segment with the
running total of everything before them. Its further columns say of each row where it stands
(`position`, in the order of batches; `block`, neighbouring positions), whether it counts for later
batches (`counts`), and whether its batch is under test (`tested`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from sqlglot import exp

from dqsql.compiler.keys import BATCH, SEGMENT, identifier_table, union_all
from dqsql.compiler.privacy import is_private, withheld
from dqsql.compiler.scan import merge_columns, with_fields_last
from dqsql.compiler.states import ROWS
from dqsql.compiler.trees import function_name, map_aggregates, where_met
from dqsql.dialect import aliased, call, column, formula, to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Entries, Metric, StateColumn
from dqsql.model.project import Scope

POSITION = "position"
_BLOCK = "block"
COUNTS = "counts"
TESTED = "tested"
BATCHES = "batches"
_NEVER_NULL = frozenset({"count", "count_if", "hll_sketch_agg", "kll_sketch_agg_double"})


def cumulative_states(
    states: Sequence[StateColumn], metrics: Iterable[Metric]
) -> tuple[StateColumn, ...]:
    """The states that the cumulative ones among `metrics` need, with what their merges read.

    Empty when no metric is cumulative. States over frequency tables are not among them: see
    `dqsql.compiler.counts`.
    """
    wanted = {name for m in metrics if m.scope is Scope.CUMULATIVE for name in (*m.states, ROWS)}
    wanted |= {name for s in states if s.name in wanted for name in s.group}
    return tuple(s for s in states if s.name in wanted and s.frequency is None)


def prefix_query(states: Sequence[StateColumn], batches: int, history: str) -> exp.Select:
    """The merged state of each tested batch and segment and of all that counts before it.

    Columns: batch, segment, states. A segment that a batch does not have has no row. `batches` is
    the number of tested batches: one is merged with a group by, several with window functions.
    """
    rows = identifier_table(history)
    return _one_prefix(states, rows) if batches == 1 else _all_prefixes(states, rows)


def total_query(states: Sequence[StateColumn], history: str) -> exp.Select:
    """The merged state of everything that counts, one row per segment: segment, states."""
    query = exp.select(column(SEGMENT)).select(*merge_columns(states))
    query = query.from_(identifier_table(history)).where(column(COUNTS))
    return with_fields_last(query.group_by(column(SEGMENT)))


def missing_query(states: Sequence[StateColumn], history: str) -> exp.Select:
    """Of how many batches before the tested ones there is no value of a state.

    One row: `batches`, and a column for each state.
    """
    query = exp.select(aliased(call("count", exp.Star()), BATCHES))
    query = query.select(
        *(aliased(formula("count_if({0} is null)", column(s.name)), s.name) for s in states)
    )
    whole = exp.Is(this=column(SEGMENT), expression=exp.Null())
    return query.from_(identifier_table(history)).where(exp.Not(this=column(TESTED)), whole)


def batches_without(missing: Mapping[str, int], states: Sequence[StateColumn]) -> int:
    """How many batches before have not computed all states, from the row of `missing_query`.

    A sum or an extreme is null, too, where a batch has no values. Whether a sum was computed is
    said by its number of values; what has none was not computed where no batch has it.
    """
    before = missing[BATCHES]
    certain = {s.name for s in states if function_name(s.scan) in _NEVER_NULL}
    alone = {s.name for s in states if certain.isdisjoint((s.name, *s.group))}
    never = {name for name in alone if missing[name] == before}
    return max((missing[name] for name in certain | never), default=0)


def _one_prefix(states: Sequence[StateColumn], history: exp.Table) -> exp.Select:
    tested, position = column(TESTED), column(POSITION)
    batch = formula("max(case when {0} then {1} end)", tested, column(BATCH))
    last = exp.select(call("max", position)).from_(history.copy()).where(tested)
    until = exp.LTE(this=position.copy(), expression=last.subquery())
    query = exp.select(aliased(batch, BATCH), column(SEGMENT))
    query = query.select(*merge_columns(states)).from_(history.copy())
    query = query.where(exp.and_(exp.or_(column(COUNTS), tested.copy()), until))
    query = query.group_by(column(SEGMENT)).having(call("bool_or", tested.copy()))
    return with_fields_last(query)


def _all_prefixes(states: Sequence[StateColumn], history: exp.Table) -> exp.Select:
    """All prefixes in one statement.

    Some merges fold all rows of a window again for every row, so windows must not grow with the
    history: what comes before a batch is merged from its block up to it and from the blocks
    before. With blocks of the square root of n batches that is n * sqrt(n) merges, not n * n.
    """
    segment, block, tested = column(SEGMENT), column(_BLOCK), column(TESTED)
    keys, values = [column(BATCH), segment], [column(s.name) for s in states]
    own = exp.select(*keys, *values).from_(history.copy()).where(tested)

    counting = exp.select(*keys, column(POSITION), block, tested).select(
        *(aliased(where_met(column(COUNTS), column(s.name)), s.name) for s in states)
    )
    counting = counting.from_(history.copy())
    in_block = exp.select(*keys, tested, *_merged_before(states, [segment, block], POSITION))
    in_block = with_fields_last(in_block.from_(counting.subquery("counting")))
    near = exp.select(*keys, *values).from_(in_block.subquery("in_block")).where(tested)

    blocks = exp.select(segment, block, *merge_columns(states))
    blocks = blocks.from_(counting.subquery("counting")).group_by(segment, block)
    blocks = with_fields_last(blocks)
    before = exp.select(segment, block, *_merged_before(states, [segment], _BLOCK))
    before = with_fields_last(before.from_(blocks.subquery("blocks")))
    same = exp.and_(
        exp.NullSafeEQ(this=column(SEGMENT, "h"), expression=column(SEGMENT, "b")),
        exp.EQ(this=column(_BLOCK, "h"), expression=column(_BLOCK, "b")),
    )
    far = exp.select(column(BATCH, "h"), column(SEGMENT, "h"))
    far = far.select(*(column(s.name, "b") for s in states))
    far = far.from_(exp.alias_(history.copy(), "h", table=True))
    far = far.join(before.subquery("b"), on=same).where(column(TESTED, "h"))

    parts = union_all(union_all(own, near), far)
    query = exp.select(*keys, *merge_columns(states))
    return with_fields_last(query.from_(parts.subquery("parts")).group_by(*keys))


def over_rows_before(aggregate: exp.Expr, partition: Sequence[exp.Expr], order: str) -> exp.Window:
    """An aggregate over the rows of the partition that come before a row."""
    window = over_partition(aggregate, partition, order)
    spec = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "1", "end_side": "PRECEDING"}
    window.set("spec", exp.WindowSpec(kind="ROWS", **spec))
    return window


def over_partition(function: exp.Expr, partition: Sequence[exp.Expr], order: str) -> exp.Window:
    """A window function over rows with equal `partition`, in the order of the column `order`."""
    return exp.Window(
        this=function.copy(),
        partition_by=[p.copy() for p in partition],
        order=exp.Order(expressions=[exp.Ordered(this=column(order), nulls_first=True)]),
    )


def _merged_before(
    states: Sequence[StateColumn], partition: Sequence[exp.Expr], order: str
) -> list[exp.Expr]:
    """The merged states of the rows before a row, as window functions."""
    before = partial(over_rows_before, partition=partition, order=order)
    return [aliased(map_aggregates(s.merge, before), s.name) for s in states if s.merge is not None]


_INSTEAD = {
    "median": "quantile(0.5) merges",
    "percentile": "quantile merges",
    "percentile_cont": "quantile merges",
    "percentile_disc": "quantile merges",
}


def require_mergeable(
    text: str,
    metric: Metric,
    states: Sequence[StateColumn],
    span: Span,
    private: Collection[str] = (),
) -> None:
    """Refuse a cumulative metric with a state that does not merge. Raises CompileError.

    `text` is the metric as a user wrote it, `states` are its own. `private` are columns whose
    values must not be stored, in lower case.
    """
    advice = "leave out scope: cumulative to check each batch separately"
    tables = (s.frequency for s in states if s.frequency is not None)
    cut_up = any(t.entries is not Entries.VALUES and is_private(t, private) for t in tables)
    if cut_up or withheld([metric], states, private):
        raise CompileError(
            f"{text} cannot be cumulative: private values would have to be stored",
            span=span,
            hint=advice,
        )
    for state in states:
        if state.mergeable or state.frequency is not None:
            # Frequency tables are stored and added up: see `dqsql.compiler.counts`.
            continue
        instead = _INSTEAD.get(function_name(state.scan), "")
        raise CompileError(
            f"{text} cannot be cumulative: the values of {to_sql(state.scan)} for single batches"
            " cannot be merged",
            span=span,
            hint=f"{instead}; or {advice}" if instead else advice,
        )

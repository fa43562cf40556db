"""What an aggregate declares: how it is split into state columns, and what scans these.

A file of this folder lists its `AGGREGATES`; nothing else knows them by name. States that are not
taken over the model's rows as they are have a source (`StateColumn.source`), and the file says with
`scan_pass.register` which query computes states over such a source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.keys import BATCH, SEGMENT
from dqsql.compiler.trees import filtered_by
from dqsql.dialect import as_type, call, column, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Buffer, Relation, StateColumn, StateSource

if TYPE_CHECKING:
    from dqsql.compiler.scan import Scan

_Finish = Callable[[Sequence[exp.Expr]], exp.Expr]
Merge = Callable[[str, Sequence[str]], exp.Expr]
Relations = Mapping[str, Relation]
# A map is the same whatever the order of its entries.
SORTED_ENTRIES = "array_sort(map_entries({0}))"


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate call as the user wrote it: `name(distinct args) filter (where ..)`."""

    name: str
    args: tuple[exp.Expr, ...]
    distinct: bool = False
    where: exp.Expr | None = None
    within_group: exp.Expr | None = None

    @classmethod
    def of(cls, node: exp.Expr) -> AggregateCall:
        """Take an aggregate node apart. Raises UnsupportedExpressionError."""
        where = within = None
        if isinstance(node, exp.Filter):
            where, node = node.expression.this, node.this
        if isinstance(node, exp.WithinGroup):
            within, node = node.expression, node.this
        if not isinstance(node, exp.Anonymous):
            raise UnsupportedExpressionError(f"dqsql cannot split the aggregate {to_sql(node)}")
        args = tuple(node.expressions)
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = tuple(args[0].expressions)
        return cls(str(node.this).lower(), args, distinct, where, within)

    def aggregate(self, name: str, *args: exp.Expr) -> exp.Expr:
        """The aggregate `name(args)` over the rows that this call is about."""
        return filtered_by(call(name, *(a.copy() for a in args)), self.where)


@dataclass(frozen=True)
class Component:
    """One state column of an aggregate: what to scan, how to merge, and the kind of its buffer."""

    suffix: str
    scan: exp.Expr
    merge: Merge | None
    buffer: Buffer = Buffer.FIXED
    source: StateSource | None = None
    whole_only: bool = False


@dataclass(frozen=True)
class Lowering:
    """An aggregate split into state columns and the expression that finishes them."""

    components: tuple[Component, ...]
    finish: _Finish


@dataclass(frozen=True)
class Aggregate:
    """An aggregate that decomposes, under all its names.

    Attributes:
        names: what it is called, in lower case.
        lower: splits a call; None where this call does not decompose. Raises
            UnsupportedExpressionError.
        own: it is a word of dqsql's own, not Spark's. Its first argument is never the context's
            column, and `lower` gets all calls of it.
        distinct: `lower` takes calls with DISTINCT, too.
        in_state: the arguments that enter the state; the others only its finish.
        over_rows: the arguments that are expressions over the model's rows.
        subject: what the state is about, as a word for its name, where it is not its arguments.
        names_relation: its only argument is the name of another relation.
        words: functions that mean something among its arguments only, in lower case.
        scores: computes by queries of its own what the finishes of metrics say only as a word:
            takes finishes and the relation of state rows, gives both anew.
    """

    names: tuple[str, ...]
    lower: Callable[[AggregateCall, Relations], Lowering | None]
    own: bool = False
    distinct: bool = False
    in_state: Callable[[Sequence[exp.Expr]], Sequence[exp.Expr]] = lambda args: args
    over_rows: Callable[[Sequence[exp.Expr]], Sequence[exp.Expr]] = lambda args: args
    subject: Callable[[AggregateCall], str | None] = lambda aggregate: None
    names_relation: bool = False
    words: tuple[str, ...] = ()
    scores: Callable[[Finishes, exp.Expr], tuple[Finishes, exp.Expr]] | None = None


Finishes = tuple[exp.Expr, ...]


def own_value(
    scan_name: str, merge: Merge, buffer: Buffer = Buffer.FIXED
) -> Callable[[AggregateCall, Relations], Lowering]:
    """The way to split an aggregate that is its own state: count, sum, min, bool_and, .."""

    def lower(aggregate: AggregateCall, relations: Relations) -> Lowering:
        scan = aggregate.aggregate(scan_name, *aggregate.args)
        return Lowering((Component(scan_name, scan, merge, buffer),), first_state)

    return lower


def first_state(states: Sequence[exp.Expr]) -> exp.Expr:
    """The finish of an aggregate whose state is its value."""
    return states[0]


def merge_with(function: str) -> Merge:
    """State rows merged by `function` of their values."""
    return lambda name, group: call(function, column(name))


def as_double(value: exp.Expr) -> exp.Expr:
    """The value as a double."""
    return as_type(value.copy(), "double")


# --- scanning ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanPass:
    """A query that computes the states of one kind together.

    `title` says what, for people; passes run in the order of `order`. The model's rows are read
    `reads` times. States of a pass that is `apart` have a query each. With `one_row` the query of
    a single batch without segments has at most one row.
    """

    title: str
    order: int
    reads: int = 1
    apart: bool = False
    one_row: bool = False

    def __str__(self) -> str:
        """What the query computes."""
        return self.title


class SourcePass(ScanPass, ABC):
    """A pass that computes states over a source of their own, by a query of its own.

    The query gives a row for each batch and segment: batch, segment, states. Batches and segments
    of which the source has nothing may be missing.
    """

    @abstractmethod
    def query(self, scan: Scan, states: Sequence[StateColumn]) -> exp.Select:
        """The query that computes the states; segments have rows besides the whole batch."""

    def join_condition(
        self, states: Sequence[StateColumn], rows: str, counted: str, *, one_batch: bool
    ) -> exp.Expr:
        """Which rows of the other passes, aliased `rows`, the query's, `counted`, belong to.

        With `one_batch` all rows are of the same batch.
        """
        # The batch's text is the label there, where there is but one.
        return same_key(rows, counted, (SEGMENT,) if one_batch else (BATCH, SEGMENT))

    def joined_state(self, state: StateColumn, rows: str, counted: str) -> exp.Expr:
        """The state in the joined row."""
        return column(state.name, counted)

    def without_rows(self, state: StateColumn, batch: str) -> exp.Expr:
        """The state of a batch that the model has no rows of: an aggregate over no rows."""
        return state.scan.copy()


@singledispatch
def scan_pass(source: StateSource, columns: Mapping[str, str]) -> SourcePass:
    """The pass that computes states over a source; `columns` are the model's, with Spark types."""
    raise NotImplementedError(type(source).__name__)


def same_key(one: str, other: str, keys: Sequence[str]) -> exp.Expr:
    """Rows of two queries that agree in the columns `keys`; nulls do."""
    return exp.and_(
        *(exp.NullSafeEQ(this=column(k, one), expression=column(k, other)) for k in keys)
    )

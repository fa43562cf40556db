"""What splitting an aggregate into state columns gives, and what all ways of splitting share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.dialect import call, column
from dqsql.model.plan import Buffer, Classification, FrequencyTable, Relation

Finish = Callable[[Sequence[exp.Expr]], exp.Expr]
Merge = Callable[[str, Sequence[str]], exp.Expr]


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate call as the user wrote it: `name(distinct args) filter (where ..)`."""

    name: str
    args: tuple[exp.Expr, ...]
    distinct: bool = False
    where: exp.Expr | None = None
    within_group: exp.Expr | None = None

    def aggregate(self, name: str, *args: exp.Expr) -> exp.Expr:
        """The aggregate `name(args)` over the rows that this call is about."""
        return filtered(call(name, *(a.copy() for a in args)), self.where)


@dataclass(frozen=True)
class Component:
    """One state column of an aggregate: what to scan, how to merge, and the kind of its buffer."""

    suffix: str
    scan: exp.Expr
    merge: Merge | None
    buffer: Buffer = Buffer.FIXED
    frequency: FrequencyTable | None = None
    relation: Relation | None = None
    whole_only: bool = False
    classification: Classification | None = None


@dataclass(frozen=True)
class Lowering:
    """An aggregate split into state columns and the expression that finishes them."""

    components: tuple[Component, ...]
    finish: Finish


def filtered(aggregate: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE where)`, or the aggregate itself."""
    if where is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=where.copy()))


def merge_with(function: str) -> Merge:
    """State rows merged by `function` of their values."""
    return lambda name, group: call(function, column(name))


def as_double(value: exp.Expr) -> exp.Expr:
    """The value as a double."""
    return exp.Cast(this=value.copy(), to=exp.DataType.build("double"))

"""Inputs of aggregates as columns of a query below them.

Spark generates code for a projection, but evaluates the arguments of an aggregate whose buffer is
not of fixed width node by node for every row. With its arguments (a hash of the value where it is
not null, a cast) as columns of a query below, sketches of 12 columns cost two thirds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from sqlglot import exp

from dqsql.dialect import call, column


class Inputs:
    """Collects the inputs of aggregates; equal ones are one column.

    `taken` are the names of the other columns of the query below.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        taken = {name.lower() for name in taken}
        self._free = (name for i in count() if (name := f"input__{i}") not in taken)
        self._names: dict[exp.Expr, str] = {}

    def aggregate(self, over_rows: exp.Expr) -> exp.Expr:
        """`aggregate(arguments) filter (where ..)` over the columns instead of the rows."""
        if isinstance(over_rows, exp.Filter):
            where = exp.Where(this=self._column(over_rows.expression.this))
            return exp.Filter(this=self.aggregate(over_rows.this), expression=where)
        # Sizes of sketches must stay literals.
        arguments = (
            self._column(a) if a.find(exp.Column) else a.copy() for a in over_rows.expressions
        )
        return call(over_rows.this, *arguments)

    def columns(self) -> list[exp.Expr]:
        """The inputs of all aggregates so far, by the names that these use."""
        return [exp.alias_(e, name, quoted=True) for e, name in self._names.items()]

    def _column(self, value: exp.Expr) -> exp.Expr:
        if value not in self._names:
            self._names[value] = next(self._free)
        return column(self._names[value])

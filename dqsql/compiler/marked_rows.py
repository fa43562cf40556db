"""The rows of a model with marks of what is wrong with them: what statements about rows share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.guards import where_met
from dqsql.compiler.keys import batch_text, model_table, not_null
from dqsql.compiler.rowchecks import FailingRows
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import call, column, formula, literal
from dqsql.model.plan import FrequencyTable, Plan
from dqsql.model.types import type_of

# The batch of a row as text, beside the model's own columns.
ROW_BATCH = "dqsql_batch"
_DUPLICATE = "dqsql_duplicate"


@dataclass(frozen=True)
class MarkedRows:
    """The rows of some batches of a model, and the conditions under which they fail checks.

    `label` is the batch of a model without `batch_by`.
    """

    plan: Plan
    failing: Sequence[FailingRows]
    batches: BatchFilter
    label: str

    def rows(self) -> exp.Select:
        """The rows of the batches, with the batch as text and flags of duplicates."""
        batch = batch_text(self.plan.model)
        name = literal(self.label) if batch is None else batch
        query = exp.select(exp.Star(), exp.alias_(name, ROW_BATCH, quoted=True))
        for failing in self.failing:
            marks = [self._repeats(t) for t in failing.unique]
            marks += [self._conflicts(t) for t in failing.dependent]
            for flag, mark in zip(self._flags(failing), marks, strict=True):
                query = query.select(exp.alias_(mark, flag, quoted=True))
        query = query.from_(model_table(self.plan.model))
        condition = self.batches.condition(self.plan.model)
        return query if condition is None else query.where(condition)

    def duplicates(self, failing: FailingRows) -> list[exp.Expr]:
        """The flags of `rows` that say that a row's values occur twice."""
        return [column(name) for name in self._flags(failing)]

    def _flags(self, failing: FailingRows) -> list[str]:
        number = self.failing.index(failing)
        flags = len(failing.unique) + len(failing.dependent)
        return [f"{_DUPLICATE}_{number}_{i}" for i in range(flags)]

    def _repeats(self, table: FrequencyTable) -> exp.Expr:
        """Whether the row's value (or tuple) occurs in another row of the batch, too."""
        batch = batch_text(self.plan.model)
        some = exp.Paren(this=exp.or_(*(not_null(c.copy()) for c in table.columns)))
        counted = some if table.where is None else where_met(table.where, some)
        mark = formula("case when {0} then 1 end", exp.Paren(this=counted))
        values = [self._comparable(c) for c in table.columns]
        if table.where is not None:
            values = [where_met(table.where, value) for value in values]
        keys = [*([batch] if batch is not None else []), *values]
        times = exp.Window(this=call("count", mark), partition_by=keys)
        return formula("coalesce({0}, false) and {1} > 1", exp.Paren(this=counted.copy()), times)

    def _conflicts(self, table: FrequencyTable) -> exp.Expr:
        """Whether the determinant of the row has several values in the batch."""
        batch = batch_text(self.plan.model)
        values = [self._comparable(c) for c in table.columns]
        counted = exp.true() if table.where is None else table.where
        keys = [where_met(counted, v) for v in values]
        partition = [*([batch] if batch is not None else []), *keys[:-1]]
        least, most = (
            exp.Window(this=call(name, keys[-1].copy()), partition_by=[k.copy() for k in partition])
            for name in ("min", "max")
        )
        return formula(
            "coalesce({0} and {1} <> {2}, false)", exp.Paren(this=counted.copy()), least, most
        )

    def _comparable(self, value: exp.Expr) -> exp.Expr:
        """A value as rows can be grouped by it: maps and variants as texts, as they are counted."""
        kind = type_of(value.name, self.batches.types) if isinstance(value, exp.Column) else ""
        if "map<" in kind or "variant" in kind:
            return exp.Cast(this=value.copy(), to=exp.DataType.build("string"))
        return value.copy()

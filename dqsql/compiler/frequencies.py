"""The statement that counts all frequency tables of a model in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sqlglot import exp

from dqsql.compiler.keys import BATCH, SEGMENT, not_null, segment_label, union_all
from dqsql.compiler.trees import filtered_by, map_aggregates
from dqsql.dialect import call, column, formula, identifier, literal, to_sql
from dqsql.model.plan import FrequencyTable, StateColumn

TABLE = "dqsql_table"
VALUE = "value"
N = "n"


class RowSource(Protocol):
    """The rows that a scan is about."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The segment columns."""

    @property
    def batch_value(self) -> exp.Expr:
        """The batch of a row as text."""

    def from_batches(self, query: exp.Select) -> exp.Select:
        """Let a query read the rows."""


@dataclass(frozen=True)
class FrequencyScan:
    """Counts all frequency tables of a model in one pass over its rows.

    Each row is turned into one entry per table (its number and the value as text); entries are
    grouped and counted, and the aggregates over each table are taken from the counts. What is
    counted once for the segments is summed for the whole batch.
    """

    scan: RowSource
    states: tuple[StateColumn, ...]

    def query(self) -> exp.Select:
        """One row per batch and segment, as `Scan.query` gives it."""
        segments = self.scan.segments
        if not segments:
            return self._aggregates(self._counts(), ())
        counts = self._counts()
        return union_all(
            self._aggregates(counts, self._segment_key),
            self._aggregates(self._summed(counts), ()),
        )

    @property
    def _tables(self) -> tuple[FrequencyTable, ...]:
        by_text: dict[str, FrequencyTable] = {}
        for state in self.states:
            if state.frequency is not None:
                by_text.setdefault(table_text(state.frequency), state.frequency)
        return tuple(by_text.values())

    def _entries(self) -> exp.Select:
        """One row per row of the model and table: batch, segment columns, table, value."""
        segments = self.scan.segments
        pairs: list[exp.Expr] = []
        for number, table in enumerate(self._tables):
            pairs += [literal(number), value_text(table)]
        query = exp.select(exp.alias_(self.scan.batch_value, BATCH, quoted=True))
        if segments:
            # The label, since segment columns may have the names of the columns here.
            query = query.select(exp.alias_(segment_label(segments), SEGMENT, quoted=True))
        # A generator next to columns: Spark emits one row per table for every row.
        query = query.select(
            exp.Aliases(
                this=call("stack", literal(len(self._tables)), *pairs),
                expressions=[identifier(TABLE), identifier(VALUE)],
            )
        )
        return self.scan.from_batches(query)

    def _counts(self) -> exp.Select:
        keys = [column(k) for k in (BATCH, *self._segment_key, TABLE, VALUE)]
        query = exp.select(*keys).select(exp.alias_(call("count", exp.Star()), N, quoted=True))
        query = query.from_(self._entries().subquery("entries"))
        return query.where(not_null(column(VALUE))).group_by(*(k.copy() for k in keys))

    @property
    def _segment_key(self) -> tuple[str, ...]:
        return (SEGMENT,) if self.scan.segments else ()

    def _summed(self, counts: exp.Select) -> exp.Select:
        keys = [column(k) for k in (BATCH, TABLE, VALUE)]
        query = exp.select(*keys)
        query = query.select(exp.alias_(call("sum", column(N)), N, quoted=True))
        return query.from_(counts.subquery("counts")).group_by(*(k.copy() for k in keys))

    def _aggregates(self, counts: exp.Select, segment: Sequence[str]) -> exp.Select:
        numbers = {table_text(t): i for i, t in enumerate(self._tables)}
        query = exp.select(column(BATCH))
        query = query.select(
            *(column(s) for s in segment)
            if segment
            else [exp.alias_(segment_label(()), SEGMENT, quoted=True)]
        )
        for state in self.states:
            number = numbers[table_text(state.frequency)] if state.frequency else 0
            mine = exp.EQ(this=column(TABLE), expression=literal(number))
            aggregate = map_aggregates(state.scan, partial(filtered_by, condition=mine))
            query = query.select(exp.alias_(aggregate, state.name, quoted=True))
        query = query.from_(counts.copy().subquery("counts"))
        return query.group_by(column(BATCH), *(column(s) for s in segment))


def table_text(table: FrequencyTable) -> str:
    """A frequency table's identity as text."""
    where = f" where {to_sql(table.where)}" if table.where is not None else ""
    return ", ".join(to_sql(c) for c in table.columns) + where


def value_text(table: FrequencyTable) -> exp.Expr:
    """The value or tuple as text, null where all columns are null or the row is left out.

    Tuples are written with the length of each part in front, so that no two tuples look alike.
    """
    texts = [exp.Cast(this=c.copy(), to=exp.DataType.build("string")) for c in table.columns]
    if len(texts) == 1:
        value: exp.Expr = texts[0]
    else:
        parts = [formula("coalesce(concat(length({0}), ':', {0}), '-')", t) for t in texts]
        some = call("coalesce", *(t.copy() for t in texts))
        value = formula("case when {0} is not null then {1} end", some, call("concat", *parts))
    if table.where is None:
        return value
    return formula("case when {0} then {1} end", table.where, value)

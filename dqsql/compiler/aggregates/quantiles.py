"""Quantiles from counts of numbers: the same whatever the order of rows, batches and tasks.

The numbers of a batch of up to `EXACT_ROWS` rows are counted as they are, and quantiles are exact.
In larger batches numbers are rounded to their `BITS` leading binary digits first, so that there are
at most 2,048 of them for each doubling of the number, however many rows there are. A quantile is
then off by at most 2^-12 (0.024 %) of itself, besides the interpolation between neighbouring
numbers, and lies between the batch's extremes.

Where batches are added up for cumulative metrics, numbers are rounded to their `DIGITS` leading
decimal digits instead: at most 9,000 of them for each power of ten, off by at most 0.05 %, and
numbers that people write, as prices of three digits, stay as they are whatever the batch's size.

Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees" (PVLDB 12(12), 2019) bound the error in the same way; there the buckets are powers of a
base, here floating-point numbers and decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.aggregates.frequency_scan import TABLE, VALUE, FrequencyScan, N, table_text
from dqsql.compiler.aggregates.sketches import is_array, number
from dqsql.compiler.keys import BATCH, SEGMENT, not_null
from dqsql.compiler.trees import where_met
from dqsql.dialect import aliased, as_type, call, column, formula, literal
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.by_key import by_key
from dqsql.model.plan import Entries, FrequencyTable, StateColumn

EXACT_ROWS = 10_000
BITS, DIGITS = 12, 4
# Veltkamp's splitting (Dekker, "A floating-point technique for extending the available precision",
# Numerische Mathematik 18, 1971, section 5.8). Larger numbers would overflow, and stay as they are.
_SPLITTER = 2 ** (53 - BITS) + 1
_LARGEST = 1e290
_ROUNDED = "dqsql_rounded"


def _quantile(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering | None:
    if not 2 <= len(aggregate.args) <= 3:
        return None
    value, rank, *accuracy = aggregate.args
    if accuracy and number(accuracy[0]) <= 0:
        raise UnsupportedExpressionError(
            f"the accuracy {number(accuracy[0])} of a quantile is not positive"
        )
    table = FrequencyTable((value,), aggregate.where, Entries.NUMBERS)
    kind = "array<double>" if is_array(rank) else "double"
    return base.Lowering(
        (base.Component("quantile", _at(rank, kind), None, source=table),), base.first_state
    )


def _at(rank: exp.Expr, kind: str) -> exp.Expr:
    """The numbers of a table at one rank or, as `array<double>`, at several."""
    typed = as_type(rank.copy(), kind)
    return call("percentile", column(VALUE), typed, column(N))


def _ranks(state: StateColumn) -> list[exp.Expr]:
    rank = state.scan.expressions[1].this
    return list(rank.expressions) if is_array(rank) else [rank]


def _taken(state: StateColumn, of: str, start: int) -> exp.Expr:
    """The quantiles of a state out of all those of its table, which begin at a place from 0."""
    if not is_array(state.scan.expressions[1].this):
        return aliased(call("get", column(of), literal(start)), state.name)
    count = len(_ranks(state))
    return aliased(call("slice", column(of), literal(start + 1), literal(count)), state.name)


@dataclass(frozen=True)
class NumberScan(FrequencyScan):
    """Counts numbers as doubles, in one pass over the rows; NaN takes no part."""

    exact: bool = True

    def stored(self) -> exp.Select:
        """The counts as they are stored to be added up: of rounded numbers, as texts."""
        return super(NumberScan, replace(self, exact=False)).stored()

    def _storable(self) -> exp.Select:
        return self._with_texts(self._counts(), self._keys)

    def _texts_of_numbers(self) -> exp.Expr:
        return as_type(column(VALUE), "string")

    def _value(self, table: FrequencyTable) -> exp.Expr:
        numbers = formula("nullif({0}, cast('NaN' as double))", base.as_double(table.columns[0]))
        return where_met(table.where, numbers)

    def _entries(self) -> exp.Select:
        entries = super()._entries()
        if self.exact:
            return entries
        value = aliased(_decimal(column(VALUE)), VALUE)
        query = exp.select(*map(column, (*self._keys, TABLE)), value)
        return query.from_(entries.subquery("numbers"))

    def _counts(self) -> exp.Select:
        few = self.scan.few_rows(EXACT_ROWS)
        if not self.exact or few == exp.true():
            return super()._counts()
        rounded = _rounded(column(VALUE))
        if few != exp.false():
            rounded = formula("case when {0} then {1} else {2} end", few, column(VALUE), rounded)
        keys = [column(k) for k in (*self._keys, TABLE)]
        entries = exp.select(*keys, column(VALUE), aliased(rounded, _ROUNDED))
        entries = entries.from_(self._entries().subquery("entries")).where(not_null(column(VALUE)))
        # Rounded, all numbers may lie beyond the extremes.
        inside = formula(
            "greatest(min({0}), least({1}, max({0})))", *map(column, (VALUE, _ROUNDED))
        )
        query = exp.select(*keys, aliased(inside, VALUE), aliased(call("count", exp.Star()), N))
        return query.from_(entries.subquery("numbers")).group_by(*keys, column(_ROUNDED))

    def _aggregates(self, counts: exp.Select, segment: Sequence[str]) -> exp.Select:
        """The states, those of one table from one sort of its numbers."""
        by_table = by_key((table_text(cast(FrequencyTable, s.frequency)), s) for s in self.states)
        whole, taken = [], []
        for place, states in enumerate(by_table.values()):
            name = f"dqsql_quantiles{place}"
            ranks = [rank for state in states for rank in _ranks(state)]
            scan = _at(call("array", *ranks), "array<double>")
            whole.append(replace(states[0], name=name, scan=scan))
            start = 0
            for state in states:
                taken.append(_taken(state, name, start))
                start += len(_ranks(state))
        together = replace(self, states=tuple(whole))
        inner_query = super(NumberScan, together)._aggregates(counts, segment)
        query = exp.select(column(BATCH), column(SEGMENT), *taken)
        return query.from_(inner_query.subquery("quantiles"))


def _rounded(value: exp.Expr) -> exp.Expr:
    """A double rounded to its `BITS` leading binary digits."""
    return formula(
        f"case when abs({{0}}) < {_LARGEST}"
        f" then {{0}} * {_SPLITTER}D - ({{0}} * {_SPLITTER}D - {{0}}) else {{0}} end",
        value,
    )


def _decimal(value: exp.Expr) -> exp.Expr:
    """A double rounded to its `DIGITS` leading decimal digits.

    Small numbers are multiplied first, and divided then, which gives the double next to the
    decimal; powers of ten below 1 are none.
    """
    places = formula(f"{DIGITS - 1} - floor(log10(abs({{0}})))", value)
    return formula(
        f"case when {{0}} = 0 or not abs({{0}}) between {1 / _LARGEST} and {_LARGEST} then {{0}}"
        " when {1} >= 0 then rint({0} * power(10D, {1})) / power(10D, {1})"
        " else rint({0} / power(10D, -({1}))) * power(10D, -({1})) end",
        value,
        places,
    )


def counted_numbers(stored: exp.Select, keys: Sequence[str]) -> exp.Select:
    """The rows that quantiles read, from stored counts: `keys`, value, n."""
    value = aliased(base.as_double(column(VALUE)), VALUE)
    return exp.select(*map(column, keys), value, column(N)).from_(stored.subquery("stored"))


AGGREGATES = (
    base.Aggregate(
        ("approx_percentile", "percentile_approx"), _quantile, in_state=lambda args: args[:1]
    ),
)

"""`frequency(expression, columns..)`: an expression of aggregates over a frequency table.

The expression reads `n`, how often a value occurs, and `value`, the value as text; of
`trigrams(column, form)` in place of columns also `peculiarity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.aggregates.frequency_scan import FrequencyScan, whole_number, whole_tuple
from dqsql.compiler.aggregates.quantiles import NumberScan
from dqsql.compiler.aggregates.trigrams import TrigramScan
from dqsql.compiler.keys import not_null
from dqsql.compiler.trees import called, function_name, map_aggregates, outermost_aggregates
from dqsql.dialect import aliased, call, column, literal, parse_expression, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Entries, FrequencyTable, StateColumn

if TYPE_CHECKING:
    from dqsql.compiler.scan import Scan

_FREQUENCY = "frequency"
TRIGRAMS = "trigrams"
_FORMS = {"batch": Entries.TRIGRAMS, "text": Entries.TEXTS}


def _frequency(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    """`frequency(expression, columns..)`: an expression of aggregates over a frequency table."""
    expression, *columns = aggregate.args or (exp.null(),)
    if not columns:
        raise UnsupportedExpressionError(
            f"{_FREQUENCY} takes an expression over n and at least one column",
            hint=f"for example: {_FREQUENCY}(max(n) / sum(n), carrier)",
        )
    table = _table(tuple(columns), aggregate.where)
    aggregates = list(dict.fromkeys(to_sql(a) for a in outermost_aggregates(expression)))
    components = tuple(
        base.Component(f"freq{i}", a, None, source=table)
        for i, a in enumerate(parse_expression(text) for text in aggregates)
    )

    def finish(states: Sequence[exp.Expr]) -> exp.Expr:
        by_text = dict(zip(aggregates, states, strict=True))
        return map_aggregates(expression, lambda a: by_text[to_sql(a)].copy())

    return base.Lowering(components, finish)


def count_distinct(aggregate: base.AggregateCall) -> base.Lowering:
    """`count(distinct a, b)`: tuples with a null do not count."""
    conditions = [not_null(a.copy()) for a in aggregate.args] if len(aggregate.args) > 1 else []
    where = [exp.Paren(this=aggregate.where.copy())] if aggregate.where is not None else []
    restricted = exp.and_(*where, *conditions) if where or conditions else None
    args = (call("count", exp.Star()), *aggregate.args)
    return _frequency(replace(aggregate, args=args, where=restricted), {})


def _table(columns: tuple[exp.Expr, ...], where: exp.Expr | None) -> FrequencyTable:
    """The table of columns, or of the trigrams of one: `trigrams(column, form)`."""
    of = [c for c in columns if called(c) == TRIGRAMS]
    if not of:
        return FrequencyTable(columns, where)
    form = of[0].expressions[1] if len(of[0].expressions) == 2 else literal("batch")
    entries = _FORMS.get(str(form.this)) if isinstance(form, exp.Literal) else None
    if entries is None:
        raise UnsupportedExpressionError(
            f"{to_sql(form)} is not a form of the index of peculiarity",
            hint="'batch' is over all trigrams of a batch, 'text' the mean over its texts",
        )
    if len(columns) != 1 or not 1 <= len(of[0].expressions) <= 2:
        raise UnsupportedExpressionError(
            f"{TRIGRAMS} takes one column, and has no other column beside it"
        )
    return FrequencyTable((of[0].expressions[0],), where, entries)


# --- scanning ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrequencyPass(base.SourcePass):
    """A pass that counts values and takes states over the counts. `counter` makes what counts."""

    one_row: bool = True
    counter: Callable[[Scan, tuple[StateColumn, ...]], FrequencyScan] = FrequencyScan

    def counting(self, scan: Scan, states: Sequence[StateColumn]) -> FrequencyScan:
        """What counts the values."""
        return self.counter(scan, tuple(states))

    def query(self, scan: Scan, states: Sequence[StateColumn]) -> exp.Select:
        """One row per batch and segment."""
        return self.counting(scan, states).query()

    def joined_state(self, state: StateColumn, rows: str, counted: str) -> exp.Expr:
        """The state in the joined row; a count over a table without entries is 0."""
        return state_over_counts(state, counted)

    def without_rows(self, state: StateColumn, batch: str) -> exp.Expr:
        """Null: there are no values to count, and `n` is no column of the model."""
        return exp.Null()


def state_over_counts(state: StateColumn, counted: str) -> exp.Expr:
    """A state in a joined row; a count over a frequency table without entries is 0."""
    value = column(state.name, counted)
    if function_name(state.scan) not in ("count", "count_if"):
        return value
    return aliased(call("coalesce", value, literal(0)), state.name)


_TEXTS = FrequencyPass("frequency tables", 20)
_NUMBERS = FrequencyPass(
    "frequency tables of whole numbers", 30, counter=partial(FrequencyScan, whole_numbers=True)
)
_TUPLES = FrequencyPass(
    "frequency tables of tuples of whole numbers",
    40,
    counter=partial(FrequencyScan, whole_tuples=True),
)
_BY_ENTRIES = {
    Entries.NUMBERS: FrequencyPass("numbers counted for quantiles", 45, counter=NumberScan),
    Entries.TRIGRAMS: FrequencyPass("trigrams of texts", 60, counter=TrigramScan),
    # Texts are looked at once more when the trigrams have been counted.
    Entries.TEXTS: FrequencyPass(
        "texts by their trigrams", 70, reads=2, counter=partial(TrigramScan, by_text=True)
    ),
}


@base.scan_pass.register
def _(source: FrequencyTable, columns: Mapping[str, str]) -> FrequencyPass:
    if source.entries is not Entries.VALUES:
        return _BY_ENTRIES[source.entries]
    if whole_tuple(source, columns) is not None:
        return _TUPLES
    return _TEXTS if whole_number(source, columns) is None else _NUMBERS


AGGREGATES = (
    base.Aggregate(
        (_FREQUENCY,),
        _frequency,
        own=True,
        in_state=lambda args: args[1:],
        over_rows=lambda args: args[1:],
        words=(TRIGRAMS,),
    ),
)

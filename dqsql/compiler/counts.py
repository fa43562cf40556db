"""Scope `cumulative` over frequency tables: counts of values, stored by batch and added up.

What is taken over a frequency table (an entropy, a share of unique values) does not merge, but the
table itself does: counts of equal values are added. So of each batch the tables that cumulative
metrics need are stored, and those of a prefix of batches are added up and looked at again.

Stored rows have the columns batch, segment, `counted` (which table), value and n. A row without
value says that the table was counted in the batch, so that a table of nothing is not taken for
one that was never counted. The statements here read a view `history` of such rows with the further
columns that `dqsql.compiler.cumulative` describes, without `block`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from dqsql.compiler.aggregates.base import AggregateCall, same_key
from dqsql.compiler.aggregates.frequency import state_over_counts
from dqsql.compiler.aggregates.frequency_scan import COUNTED, VALUE, N, over_table, table_text
from dqsql.compiler.aggregates.quantiles import counted_numbers
from dqsql.compiler.aggregates.trigrams import peculiar_entries
from dqsql.compiler.cumulative import COUNTS, POSITION, TESTED, over_partition, over_rows_before
from dqsql.compiler.keys import BATCH, SEGMENT, identifier_table, not_null, segment_label, union_all
from dqsql.compiler.scan import Scan
from dqsql.compiler.trees import map_aggregates, outermost_aggregates, where_met
from dqsql.dialect import aliased, as_type, call, column, formula, identifier, literal
from dqsql.model.plan import Entries, Metric, StateColumn
from dqsql.model.project import Scope

# The columns of a stored row besides batch and segment.
COUNT_TYPES = {COUNTED: "string", VALUE: "string", N: "bigint"}
_BEFORE = "dqsql_before"
_FIRST = "dqsql_from"
_LAST = "dqsql_to"
_NEXT = "dqsql_next"
# Of how many values a count is, and the aggregates that can be had of such rows.
_VALUES = "dqsql_values"
_WEIGHED = frozenset(["count", "count_if", "sum", "max", "min"])
_NO_TEXT = as_type(exp.Null(), "string")


def counted_states(
    states: Iterable[StateColumn], metrics: Iterable[Metric]
) -> tuple[StateColumn, ...]:
    """The states over frequency tables that the cumulative ones among `metrics` need."""
    wanted = {name for m in metrics if m.scope is Scope.CUMULATIVE for name in m.states}
    return tuple(s for s in states if s.frequency is not None and s.name in wanted)


def scanned_states(
    states: Sequence[StateColumn], metrics: Sequence[Metric]
) -> tuple[StateColumn, ...]:
    """The states that a batch has: all but those that are only ever had from added counts."""
    delta = {name for m in metrics if m.scope is Scope.DELTA for name in m.states}
    counted = {s.name for s in counted_states(states, metrics)}
    return tuple(s for s in states if s.name in delta or s.name not in counted)


def tables_of(states: Iterable[StateColumn]) -> tuple[str, ...]:
    """The identities of the frequency tables of states, as column `counted` has them."""
    return tuple(dict.fromkeys(table_text(s.frequency) for s in states if s.frequency))


def stored_query(scan: Scan, batches: Sequence[str]) -> exp.Select:
    """The rows to store of `batches`; all groups of `scan` are of states over frequency tables."""
    states = [s for group in scan.groups for s in group.states]
    tables = exp.select(_exploded(tables_of(states), COUNTED))
    marks = exp.select(_exploded(batches, BATCH), column(COUNTED))
    marks = marks.from_(tables.subquery("tables"))
    none = as_type(literal(0), "bigint")
    rows = exp.select(column(BATCH), aliased(segment_label(()), SEGMENT))
    rows = rows.select(column(COUNTED), aliased(_NO_TEXT.copy(), VALUE), aliased(none, N))
    return reduce(union_all, scan.counts(), rows.from_(marks.subquery("marks")))


def marks_query(history: str) -> exp.Select:
    """In how many batches each table was counted that count for later ones: counted, batches."""
    batches = aliased(call("count", column(BATCH)), "batches")
    query = exp.select(column(COUNTED), batches).from_(identifier_table(history))
    marks = exp.and_(
        exp.Is(this=column(VALUE), expression=exp.Null()), exp.Not(this=column(TESTED))
    )
    return query.where(marks).group_by(column(COUNTED))


def total_counts(history: str) -> exp.Select:
    """The counts of everything that counts: segment, counted, value, n."""
    keys = [column(k) for k in (SEGMENT, COUNTED, VALUE)]
    query = exp.select(*keys, _summed(column(N))).from_(identifier_table(history))
    return query.where(column(COUNTS)).group_by(*(k.copy() for k in keys))


def with_counted(
    prefixes: exp.Select,
    states: Sequence[StateColumn],
    batches: Sequence[str],
    history: str,
    *,
    segmented: bool,
) -> exp.Select:
    """The rows of `prefixes` with the states that are taken over counts of values.

    `batches` are those under test. A state is what it is over the counts of its batch (and, where
    the model is `segmented`, segment) and of all that counts before.
    """
    query = exp.select(exp.Column(this=exp.Star(), table=identifier("p")))
    query = query.from_(prefixes.subquery("p"))
    # Where only one is tested, no count is repeated.
    groups = _by_entries(states, weighed=len(batches) > 1)
    for number, ((entries, alike), mine) in enumerate(groups.items()):
        name = f"c{number}"
        levels = ((), (SEGMENT,)) if segmented else ((),)
        parts = [
            _over_counts(entries, mine, batches, identifier_table(history), keys, alike=alike)
            for keys in levels
        ]
        counted = reduce(union_all, parts)
        same = same_key("p", name, (BATCH, SEGMENT))
        query = query.select(*(state_over_counts(s, name) for s in mine), copy=False)
        query = query.join(counted.subquery(name), on=same, join_type="left", copy=False)
    return query


# --- counts of prefixes --------------------------------------------------------------------------


def _prefix_counts(
    batches: Sequence[str], history: exp.Table, segment: Sequence[str], *, alike: bool
) -> exp.Select:
    """The added counts of each tested batch and all that counts before.

    Columns: batch, those of `segment`, counted, value, n. With `alike`, in place of the value, of
    how many values the count is.
    """
    keys = (*segment, COUNTED, VALUE)
    if len(batches) == 1:
        return _one_prefix(batches[0], history, keys)
    return _all_prefixes(history, keys, alike=alike)


def _one_prefix(batch: str, history: exp.Table, names: Sequence[str]) -> exp.Select:
    tested, position = column(TESTED), column(POSITION)
    last = exp.select(call("max", position)).from_(history.copy()).where(tested)
    until = exp.LTE(this=position.copy(), expression=last.subquery())
    keys = [column(k) for k in names]
    query = exp.select(aliased(literal(batch), BATCH), *keys, _summed(column(N)))
    counted = exp.or_(column(COUNTS), tested.copy())
    query = query.from_(history.copy()).where(exp.and_(not_null(column(VALUE)), counted, until))
    return query.group_by(*(k.copy() for k in keys))


def _all_prefixes(history: exp.Table, names: Sequence[str], *, alike: bool) -> exp.Select:
    """All prefixes in one statement.

    The count of a value changes only where the value occurs: from there to its next occurrence it
    is one span of batches. A batch that does not count for later ones is a span of its own. Spans
    that are `alike` are opened together: those of an id are as many as there are batches after it.
    """
    tested = exp.select(column(BATCH), column(POSITION)).distinct()
    tested = tested.from_(history.copy()).where(column(TESTED))
    placed = _placed(history, names)
    spans = union_all(_spans(placed, names, own=True), _spans(placed, names, own=False))
    ends = exp.select(
        aliased(call("min", column(POSITION)), "lo"), aliased(call("max", column(POSITION)), "hi")
    )
    ends = ends.from_(tested.copy().subquery("tested"))
    first = call("greatest", column(_FIRST), column("lo"))
    last = call("least", column(_LAST), column("hi"))
    kept = [*(k for k in names if not alike or k != VALUE), N]
    cut = exp.select(*map(column, kept), aliased(first, _FIRST), aliased(last, _LAST))
    cut = cut.from_(spans.subquery("spans")).join(ends.subquery("ends"), join_type="cross")
    cut = cut.where(exp.LTE(this=first.copy(), expression=last.copy()))
    if alike:
        same = [column(k) for k in (*kept, _FIRST, _LAST)]
        kept.append(_VALUES)
        values = aliased(call("count", exp.Star()), _VALUES)
        cut = exp.select(*same, values).from_(cut.subquery("cut")).group_by(*same)
    places = call("explode", call("sequence", column(_FIRST), column(_LAST)))
    opened = exp.select(*map(column, kept), aliased(places, POSITION)).from_(cut.subquery("cut"))
    at = exp.EQ(this=column(POSITION, "o"), expression=column(POSITION, "t"))
    query = exp.select(column(BATCH, "t"), *(column(k, "o") for k in kept))
    return query.from_(opened.subquery("o")).join(tested.subquery("t"), on=at)


def _spans(placed: exp.Select, names: Sequence[str], *, own: bool) -> exp.Select:
    """Spans of places with one count: those with a batch's own rows, or those without them.

    Counts are those of the batch and all that counts before it; where the batch itself does not
    count, its span is its place alone, and the places up to the next have the count before.
    """
    keys = [column(k) for k in names]
    counts, position, following = column(COUNTS), column(POSITION), column(_NEXT)
    spans = exp.select(*keys)
    if own:
        last = formula("case when {0} then {1} - 1 else {2} end", counts, following, position)
        value = formula("{0} + {1}", column(_BEFORE), column(N))
        first: exp.Expr = position
        wanted: exp.Expr = exp.true()
    else:
        first = formula("{0} + 1", position)
        last, value = formula("{0} - 1", following), column(_BEFORE)
        wanted = formula("not {0} and {1} > 0", counts, column(_BEFORE))
    named = ((first, _FIRST), (last, _LAST), (value, N))
    spans = spans.select(*(aliased(e, name) for e, name in named))
    return spans.from_(placed.subquery("placed")).where(wanted)


def _placed(history: exp.Table, names: Sequence[str]) -> exp.Select:
    """Counts with what was counted of the value before, and the place of its next one.

    Batches that had segments once are added up where there are none now.
    """
    keys = [column(k) for k in names]
    place = [*keys, column(POSITION), column(COUNTS)]
    added = exp.select(*(p.copy() for p in place), _summed(column(N))).from_(history.copy())
    added = added.where(not_null(column(VALUE))).group_by(*(p.copy() for p in place))
    counted = call("sum", formula("case when {0} then {1} end", column(COUNTS), column(N)))
    before = call("coalesce", over_rows_before(counted, keys, POSITION), literal(0))
    # Farther than any place.
    later = call("lead", column(POSITION), literal(1), literal(2**31 - 1))
    following = over_partition(later, keys, POSITION)
    query = exp.select(*keys, column(N), column(POSITION), column(COUNTS))
    query = query.select(aliased(before, _BEFORE), aliased(following, _NEXT))
    return query.from_(added.subquery("added"))


# --- states over counts --------------------------------------------------------------------------


def _by_entries(
    states: Iterable[StateColumn], *, weighed: bool
) -> dict[tuple[Entries, bool], list[StateColumn]]:
    """The states by their kind of entries, and whether values of one count are taken together."""
    groups: dict[tuple[Entries, bool], list[StateColumn]] = {}
    for state in states:
        if state.frequency is not None:
            entries = state.frequency.entries
            alike = weighed and entries is Entries.VALUES and _is_weighable(state)
            groups.setdefault((entries, alike), []).append(state)
    return groups


def _is_weighable(state: StateColumn) -> bool:
    """Whether a state is made of sums and numbers of values, and of counts alone."""
    if any(c.name.lower() != N for c in state.scan.find_all(exp.Column)):
        return False
    calls = [AggregateCall.of(a) for a in outermost_aggregates(state.scan)]
    return all(
        c.name in _WEIGHED
        and len(c.args) == 1
        and not c.distinct
        # A decimal loses digits when it is multiplied.
        and not (c.name == "sum" and _has_decimals(c.args[0]))
        for c in calls
    )


def _has_decimals(value: exp.Expr) -> bool:
    numbers = (n for n in value.find_all(exp.Literal) if not n.is_string)
    return value.find(exp.Cast) is not None or not all(n.is_int for n in numbers)


def _weighed(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate over values as one over rows that each stand for several of them."""
    call_of = AggregateCall.of(aggregate)
    (argument,) = call_of.args
    values: exp.Expr = column(_VALUES)
    if call_of.name == "sum":
        return call_of.aggregate("sum", formula("({0}) * {1}", argument, values))
    if call_of.name in ("max", "min"):
        return aggregate
    if call_of.name == "count_if":
        values = where_met(argument, values)
    elif not isinstance(argument, exp.Star):
        values = where_met(not_null(argument), values)
    return call("coalesce", call_of.aggregate("sum", values), literal(0))


def _over_counts(
    entries: Entries,
    states: Sequence[StateColumn],
    batches: Sequence[str],
    history: exp.Table,
    segment: Sequence[str],
    *,
    alike: bool,
) -> exp.Select:
    """The states over one kind of entries, of each batch and segment: batch, segment, states."""
    keys = (BATCH, *segment)
    counts = _prefix_counts(batches, history, segment, alike=alike)
    listed = exp.In(this=column(COUNTED), expressions=[*map(literal, tables_of(states))])
    rows = exp.select(*(column(k) for k in (*keys, COUNTED, _VALUES if alike else VALUE, N)))
    rows = rows.from_(counts.subquery("counts")).where(listed)
    if segment:
        # Rows from before the model had segments.
        rows = rows.where(not_null(column(SEGMENT)))
    if entries is Entries.NUMBERS:
        rows = counted_numbers(rows, (*keys, COUNTED))
    elif entries is not Entries.VALUES:
        rows = peculiar_entries(entries, rows, (*keys, COUNTED))
    label = column(SEGMENT) if segment else aliased(segment_label(()), SEGMENT)
    query = exp.select(column(BATCH), label)
    for state in states:
        if state.frequency is not None:
            table = literal(table_text(state.frequency))
            mine = exp.EQ(this=column(COUNTED), expression=table)
            scan = map_aggregates(state.scan, _weighed) if alike else state.scan
            query = query.select(over_table(replace(state, scan=scan), mine), copy=False)
    return query.from_(rows.subquery("counted")).group_by(*(column(k) for k in keys))


def _summed(value: exp.Expr) -> exp.Expr:
    return aliased(call("sum", value), N)


def _exploded(values: Sequence[str], name: str) -> exp.Expr:
    listed = call("array", *map(literal, values))
    return aliased(call("explode", listed), name)

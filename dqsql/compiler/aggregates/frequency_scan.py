"""The statements that count all frequency tables of a model: texts in one pass, numbers in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.aggregates.base import SORTED_ENTRIES
from dqsql.compiler.keys import BATCH, SEGMENT, not_null, segment_label, union_all
from dqsql.compiler.privacy import hashed, is_private
from dqsql.compiler.trees import filtered_by, map_aggregates, where_met
from dqsql.dialect import aliased, as_type, call, column, formula, identifier, literal, to_sql
from dqsql.model.by_key import by_key
from dqsql.model.plain_names import quoted_in_lower_case
from dqsql.model.plan import Entries, FrequencyTable, StateColumn
from dqsql.model.types import FLOATS, WHOLE_NUMBERS, type_of

if TYPE_CHECKING:
    from dqsql.compiler.scan import Scan

TABLE = "dqsql_table"
VALUE = "value"
N = "n"
COUNTED = "counted"
_BUCKET = "dqsql_bucket"
_SIDE = "dqsql_n"
# Neighbouring whole numbers are counted side by side in one row of the hash table: keys are mostly
# sequences, and a table of a unique key has a quarter of the rows then.
_LOG2_WIDTH = 2
_WIDTH = 1 << _LOG2_WIDTH
# What is asked of columns whose values should differ: whether any occurs again.
_OF_KEYS = ("sum(`n` - 1)", "count_if(`n` > 1)")
# The rows of one hash table that are counted fastest, and the tasks that a driver plans easily.
_TABLE_ROWS = 65_536
_MOST_PARTITIONS = 2_000

# Columns whose values are whole numbers: to a bigint, and from there to the text of the value.
_WHOLE_NUMBERS = {
    **dict.fromkeys(WHOLE_NUMBERS, ("cast({0} as bigint)", "cast({0} as string)")),
    "date": (
        "cast(unix_date({0}) as bigint)",
        "cast(date_from_unix_date(cast({0} as int)) as string)",
    ),
    "timestamp": ("unix_micros({0})", "cast(timestamp_micros({0}) as string)"),
}
# Tables are numbered from 0, elements of arrays from 1.
_NEXT = formula("{0} + 1", column(TABLE))


@dataclass(frozen=True)
class FrequencyScan:
    """Counts frequency tables of a model in one pass over its rows.

    Each row is turned into one entry per table (its number and the value); entries are grouped and
    counted, and the aggregates over each table are taken from the counts. What is counted once for
    the segments is summed for the whole batch. With `whole_numbers` all tables are of columns of
    whole numbers, which are counted as such; else values are texts. With `whole_tuples`
    all are of tuples of whole numbers, which are grouped by their columns: as texts, a unique pair
    of keys cost more than twice as much.
    """

    scan: Scan
    states: tuple[StateColumn, ...]
    whole_numbers: bool = False
    whole_tuples: bool = False
    _partitions: int | None = None

    def query(self) -> exp.Select:
        """One row per batch and segment, as `Scan.query` gives it."""
        counts = replace(self, _partitions=self._partitions_of_keys())._counted()
        if not self.scan.segments:
            return self._aggregates(counts, ())
        return union_all(
            self._aggregates(counts, self._segment_key), self._aggregates(self._summed(counts), ())
        )

    def stored(self) -> exp.Select:
        """The frequency tables themselves, a row for each batch, segment and value.

        Columns: batch, segment, `counted` (the table's identity), value, n. Values of private
        columns are hashed, which keeps equal ones equal.
        """
        counts = self._storable()
        batch, segment = self._labels(self._segment_key)
        texts = [literal(table_text(t)) for t in self._tables]
        counted = texts[0] if len(texts) == 1 else call("element_at", call("array", *texts), _NEXT)
        query = exp.select(batch, segment, aliased(counted.copy(), COUNTED))
        query = query.select(aliased(self._shown(), VALUE), column(N))
        return query.from_(counts.subquery("counts"))

    def _shown(self) -> exp.Expr:
        """The value, or its hash."""
        tables, private = self._tables, self.scan.private
        ours = [literal(i) for i, t in enumerate(tables) if is_private(t, private)]
        if not ours:
            return column(VALUE)
        mine = exp.In(this=column(TABLE), expressions=ours)
        secret = hashed(column(VALUE))
        return formula("case when {0} then {1} else {2} end", mine, secret, column(VALUE))

    def _storable(self) -> exp.Select:
        """The counts as they are stored, values as texts."""
        counts = self._counted()
        return self._with_texts(counts, self._keys) if self.whole_numbers else counts

    def _counted(self) -> exp.Select:
        """The counts of all tables: keys, number of the table, value, n."""
        if self.whole_tuples:
            return self._tuples_counted()
        # Of few rows, buckets are one more step.
        in_buckets = self.whole_numbers and not self.scan.is_small
        return self._buckets_opened() if in_buckets else self._counts()

    def _partitions_of_keys(self) -> int | None:
        """How many partitions to spread the values of keys over; None to count where they are.

        Where almost every value occurs once, counting a partition's values before they are sent
        fills a large hash table and saves nothing: with little memory it took twice as long.
        """
        rows = self.scan.rows
        if rows is None or self.scan.is_small:
            return None
        if not all(to_sql(state.scan) in _OF_KEYS for state in self.states):
            return None
        return min(1 + rows * len(self._tables) // _TABLE_ROWS, _MOST_PARTITIONS)

    def _labels(self, segment: Sequence[str]) -> tuple[exp.Expr, exp.Expr]:
        """The columns batch and segment of a row of counts; without `segment` it is null."""
        only = self.scan.only_batch
        return (
            self.scan.batch_column if only is None else aliased(only.copy(), BATCH),
            column(SEGMENT) if segment else aliased(segment_label(()), SEGMENT),
        )

    @property
    def _tables(self) -> tuple[FrequencyTable, ...]:
        by_text: dict[str, FrequencyTable] = {}
        for state in self.states:
            if state.frequency is not None:
                by_text.setdefault(table_text(state.frequency), state.frequency)
        return tuple(by_text.values())

    def _entries(self) -> exp.Select:
        """One row per row of the model and table: batch, segment, table, value."""
        query = self._keyed()
        values = [self._value(table) for table in self._tables]
        return unpivoted(
            lambda pairs: self.scan.from_batches(query.select(*pairs)),
            [(literal(i), value) for i, value in enumerate(values)],
            (TABLE, VALUE),
            self._keys,
            generated=not self.scan.is_small,
        )

    def _keyed(self) -> exp.Select:
        """The beginning of a query of the model's rows: batch and segment, where they are keys."""
        segments = self.scan.segments
        query = exp.Select()
        if self._batch_key:
            query = query.select(aliased(self.scan.batch_key, BATCH))
        if segments:
            # The label, since segment columns may have the names of the columns here.
            query = query.select(aliased(segment_label(segments), SEGMENT))
        return query

    def _value(self, table: FrequencyTable) -> exp.Expr:
        whole = whole_number(table, self.scan.columns) if self.whole_numbers else None
        return whole if whole is not None else value_text(table, self.scan.columns)

    def _counts(self) -> exp.Select:
        keys = [column(k) for k in (*self._keys, TABLE, VALUE)]
        query = exp.select(*keys).select(aliased(call("count", exp.Star()), N))
        entries = self._entries()
        if self._partitions is not None:
            spread = call("repartition", literal(self._partitions), column(VALUE))
            entries.set("hint", exp.Hint(expressions=[spread]))
        query = query.from_(entries.subquery("entries"))
        return query.where(not_null(column(VALUE))).group_by(*(k.copy() for k in keys))

    def _tuples_counted(self) -> exp.Select:
        """Counts of tuples of whole numbers, a row each; a short tuple is filled with nulls."""
        tables, types = self._tables, self.scan.columns
        width = max(len(t.columns) for t in tables)
        names = [f"{VALUE}{i}" for i in range(width)]
        fill = as_type(exp.Null(), "bigint")
        rows = [
            [literal(i), *values, *(fill.copy() for _ in range(width - len(values)))]
            for i, values in enumerate(whole_tuple(t, types) or [] for t in tables)
        ]
        entries = unpivoted(
            lambda pairs: self.scan.from_batches(self._keyed().select(*pairs)),
            rows,
            (TABLE, *names),
            self._keys,
            generated=not self.scan.is_small,
        )
        keys = [*map(column, (*self._keys, TABLE, *names))]
        query = exp.select(*map(column, (*self._keys, TABLE)))
        query = query.select(aliased(self._texts_of_tuples(names), VALUE))
        query = query.select(aliased(call("count", exp.Star()), N))
        some = exp.or_(*(not_null(column(n)) for n in names))
        return query.from_(entries.subquery("entries")).where(some).group_by(*keys)

    def _texts_of_tuples(self, names: Sequence[str]) -> exp.Expr:
        """The tuple as text; Spark computes it only where an aggregate reads it."""
        texts = []
        for table in self._tables:
            formats = (_WHOLE_NUMBERS[k][1] for k in _column_types(table, self.scan.columns))
            parts = [formula(f, column(n)) for f, n in zip(formats, names, strict=False)]
            texts.append(_tuple_text(parts))
        if len(texts) == 1:
            return texts[0]
        cases = (
            exp.If(this=exp.EQ(this=column(TABLE), expression=literal(i)), true=text)
            for i, text in enumerate(texts)
        )
        return exp.Case(ifs=list(cases))

    def _buckets_opened(self) -> exp.Select:
        """Counts of whole numbers: by neighbourhood first, then one row for each value."""
        keys = [column(k) for k in (*self._keys, TABLE)]
        bucket = call("shiftright", column(VALUE), literal(_LOG2_WIDTH))
        counts = [
            formula(f"count_if({{0}} & {_WIDTH - 1} = {i})", column(VALUE)) for i in range(_WIDTH)
        ]
        buckets = exp.select(*keys, aliased(bucket, _BUCKET))
        buckets = buckets.select(*(aliased(c, f"{_SIDE}{i}") for i, c in enumerate(counts)))
        buckets = buckets.from_(self._entries().subquery("entries")).where(not_null(column(VALUE)))
        buckets = buckets.group_by(*(k.copy() for k in keys), bucket.copy())
        pairs = [
            (
                formula(f"shiftleft({{0}}, {_LOG2_WIDTH}) | {i}", column(_BUCKET)),
                column(f"{_SIDE}{i}"),
            )
            for i in range(_WIDTH)
        ]
        names = (*self._keys, TABLE)
        opened = unpivoted(
            lambda pairs: exp.select(*map(column, names), *pairs).from_(
                buckets.subquery("buckets")
            ),
            pairs,
            (VALUE, N),
            names,
        )
        return opened.where(exp.GT(this=column(N), expression=literal(0)))

    def _with_texts(self, counts: exp.Select, keys: Sequence[str]) -> exp.Select:
        """The counts with the values as texts; Spark makes them only where an aggregate reads them.

        It is the last step, so that segments are summed by the numbers.
        """
        query = exp.select(*map(column, (*keys, TABLE)))
        query = query.select(aliased(self._texts_of_numbers(), VALUE), column(N))
        return query.from_(counts.subquery("numbers"))

    def _texts_of_numbers(self) -> exp.Expr:
        """The value as text; Spark computes it only where an aggregate reads it."""
        kinds = (column_type(table, self.scan.columns) for table in self._tables)
        formats = by_key((_WHOLE_NUMBERS[kind][1], literal(i)) for i, kind in enumerate(kinds))
        if len(formats) == 1:
            return formula(next(iter(formats)), column(VALUE))
        cases = [
            exp.If(
                this=exp.In(this=column(TABLE), expressions=numbers),
                true=formula(text, column(VALUE)),
            )
            for text, numbers in formats.items()
        ]
        return exp.Case(ifs=cases)

    @property
    def _batch_key(self) -> tuple[str, ...]:
        # A literal among the keys would be hashed, compared and shuffled with every value.
        return () if self.scan.only_batch is not None else (BATCH,)

    @property
    def _segment_key(self) -> tuple[str, ...]:
        return (SEGMENT,) if self.scan.segments else ()

    @property
    def _keys(self) -> tuple[str, ...]:
        return (*self._batch_key, *self._segment_key)

    def _summed(self, counts: exp.Select) -> exp.Select:
        keys = [column(k) for k in (*self._batch_key, TABLE, VALUE)]
        query = exp.select(*keys)
        query = query.select(aliased(call("sum", column(N)), N))
        return query.from_(counts.subquery("counts")).group_by(*(k.copy() for k in keys))

    def _aggregates(self, counts: exp.Select, segment: Sequence[str]) -> exp.Select:
        numbers = {table_text(t): i for i, t in enumerate(self._tables)}
        projections = list(self._labels(segment))
        for state in self.states:
            number = numbers[table_text(state.frequency)] if state.frequency else 0
            mine = exp.EQ(this=column(TABLE), expression=literal(number))
            projections.append(over_table(state, mine))
        query = exp.select(*projections)
        keys = (*self._batch_key, *segment)
        counts = self._with_texts(counts, keys) if self.whole_numbers else counts.copy()
        query = query.from_(counts.subquery("counts"))
        return query.group_by(*map(column, keys)) if keys else query


def over_table(state: StateColumn, mine: exp.Expr) -> exp.Expr:
    """A state's aggregates over the rows of its own frequency table, which are `mine`."""
    aggregate = map_aggregates(state.scan, partial(filtered_by, condition=mine))
    return aliased(aggregate, state.name)


def unpivoted(
    source: Callable[[Sequence[exp.Expr]], exp.Select],
    rows: Sequence[Sequence[exp.Expr]],
    names: Sequence[str],
    keys: Sequence[str],
    *,
    generated: bool = True,
) -> exp.Select:
    """Every row of a query as several: `keys`, and the tuples of `rows` in columns `names`.

    `source` builds the query from its further columns. UNPIVOT rather than the generator `stack`,
    since Spark generates code for it; not where that does not pay, if all rows are of the same
    types.
    """
    result = exp.select(*(column(k) for k in (*keys, *names)))
    if len(rows) == 1:
        one = [aliased(value, name) for value, name in zip(rows[0], names, strict=True)]
        return result.from_(source(one).subquery("wide"))
    if not generated:
        values = (value for row in rows for value in row)
        stacked = call("stack", literal(len(rows)), *values)
        stack = exp.Aliases(this=stacked, expressions=[identifier(n) for n in names])
        return result.from_(source([stack]).subquery("wide"))
    labels = [[f"{name}{i}" for name in names] for i in range(len(rows))]
    pairs = [
        aliased(value, label)
        for values, row in zip(rows, labels, strict=True)
        for value, label in zip(values, row, strict=True)
    ]
    pivot = exp.Pivot(
        expressions=[exp.Tuple(expressions=[identifier(n) for n in names])],
        fields=[
            exp.In(
                this=identifier("dqsql_row"),
                expressions=[exp.Tuple(expressions=[column(n) for n in row]) for row in labels],
            )
        ],
        unpivot=True,
        include_nulls=True,
    )
    wide = source(pairs).subquery("wide")
    wide.set("pivots", [pivot])
    return result.from_(wide)


def column_type(table: FrequencyTable, types: Mapping[str, str]) -> str:
    """The Spark type of the only column that a table is of; "" for what is not known as one."""
    return _column_types(table, types)[0] if len(table.columns) == 1 else ""


def _column_types(table: FrequencyTable, types: Mapping[str, str]) -> list[str]:
    """The Spark type of each part of a table's values; "" for what is not known as a column."""
    return [
        type_of(c.name, types) if isinstance(c, exp.Column) and len(c.parts) == 1 else ""
        for c in table.columns
    ]


def whole_number(table: FrequencyTable, types: Mapping[str, str]) -> exp.Expr | None:
    """The value as a bigint, null where the row is left out; None where it is no whole number."""
    kind = column_type(table, types)
    if kind not in _WHOLE_NUMBERS or table.entries is not Entries.VALUES:
        return None
    return where_met(table.where, formula(_WHOLE_NUMBERS[kind][0], table.columns[0]))


def whole_tuple(table: FrequencyTable, types: Mapping[str, str]) -> list[exp.Expr] | None:
    """The parts of a tuple as bigints, all null where the row is left out.

    None where the table is of one column, or not all are of whole numbers.
    """
    kinds = _column_types(table, types)
    if len(kinds) < 2 or not all(kind in _WHOLE_NUMBERS for kind in kinds):
        return None
    numbers = (formula(_WHOLE_NUMBERS[k][0], c) for k, c in zip(kinds, table.columns, strict=True))
    return [where_met(table.where, number) for number in numbers]


def table_text(table: FrequencyTable) -> str:
    """A frequency table's identity as text, in whatever letter case its columns are written.

    Where Spark tells columns apart by it, `about` differs.
    """
    where = f" where {to_sql(table.where)}" if table.where is not None else ""
    about = f" [{table.about}]" if table.about else ""
    text = f"{table.entries} {', '.join(to_sql(c) for c in table.columns)}{where}{about}"
    return quoted_in_lower_case(text)


def value_text(table: FrequencyTable, types: Mapping[str, str]) -> exp.Expr:
    """The value or tuple as text, null where all columns are null or the row is left out.

    Tuples are written with the length of each part in front, so that no two tuples look alike.
    """
    kinds = _column_types(table, types)
    # -0.0 and 0.0 are the same number.
    columns = [
        formula("({0} + 0)", c) if kind in FLOATS else c.copy()
        for c, kind in zip(table.columns, kinds, strict=True)
    ]
    texts = [_text(c, kind) for c, kind in zip(columns, kinds, strict=True)]
    if len(texts) == 1:
        value: exp.Expr = texts[0]
    else:
        some = call("coalesce", *(t.copy() for t in texts))
        value = formula("case when {0} is not null then {1} end", some, _tuple_text(texts))
    return where_met(table.where, value)


def _text(value: exp.Expr, kind: str) -> exp.Expr:
    """A value of a Spark type as text; no two values of a nested type have the same.

    A cast writes nested values without quotes, so that `['a, b']` and `['a', 'b']` look alike:
    they are written as JSON.
    """
    if not kind.startswith(_NESTED):
        return as_type(value, "string")
    entries = SORTED_ENTRIES if kind.startswith("map<") else "{0}"
    return formula(_JSON.replace("{v}", entries), value)


# JSON has milliseconds unless it is told.
_NESTED = ("array<", "struct<", "map<")
_JSON = (
    "case when {0} is not null then to_json({v}, map("
    "'ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX',"
    " 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')) end"
)


def _tuple_text(texts: Sequence[exp.Expr]) -> exp.Expr:
    parts = [formula("coalesce(concat(length({0}), ':', {0}), '-')", t) for t in texts]
    return call("concat", *parts)

"""The statement that computes state rows: physical groups of aggregates over the model's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count

from sqlglot import exp

from dqsql.compiler.aggregates.base import ScanPass, SourcePass, same_key, scan_pass
from dqsql.compiler.aggregates.frequency import FrequencyPass
from dqsql.compiler.keys import (
    BATCH,
    NO_BATCH,
    SEGMENT,
    batch_key,
    batch_text,
    check_batch_by,
    is_named_by_value,
    model_table,
    not_null,
    segment_label,
    union_all,
)
from dqsql.compiler.lookups import with_matches
from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.pruning import batches_condition, tried
from dqsql.compiler.trees import guarded
from dqsql.dialect import aliased, as_type, call, column, literal, parse_expression
from dqsql.errors import Span
from dqsql.model.by_key import by_key
from dqsql.model.plan import Buffer, StateColumn
from dqsql.model.project import CheckModel
from dqsql.model.types import FLOATS, TIMES, is_number, type_of


@dataclass(frozen=True)
class BatchFilter:
    """The batches a scan is about: all, or those listed, as values of the batch's Spark type.

    `types` gives the Spark types of the model's columns, as far as they are known.
    """

    batches: tuple[str, ...]
    spark_type: str
    types: Mapping[str, str] = field(default_factory=dict)

    def condition(self, model: CheckModel, where: str | None = None) -> exp.Expr | None:
        """The rows of the batches that meet `where`; None for all rows.

        Raises CompileError: `where` cannot be read.
        """
        batches = self._in_batches(model)
        if where is None:
            return batches
        restricted = parse_expression(where, Span(model.path))
        return restricted if batches is None else exp.and_(batches, restricted)

    def _in_batches(self, model: CheckModel) -> exp.Expr | None:
        """`batch_by in (..)` on the typed expression, so that Spark can prune partitions.

        Where it is implied, a range of the column below `batch_by` comes before it.
        """
        batch_by = check_batch_by(model)
        if batch_by is None:
            return None
        if not self.batches:
            return exp.false()
        # Batches are told apart by their texts, also where a collation takes some for equal, or
        # where numbers are: 0.0 and -0.0.
        as_text = "collate" in self.spark_type or self.spark_type in FLOATS
        # Those that monitors learned from may be of the time when batch_by had another type.
        values = [tried(b, "string" if as_text else self.spark_type) for b in self.batches]
        value = batch_text(model) if as_text else exp.Paren(this=batch_by)
        listed = exp.In(this=value, expressions=values)
        implied = batches_condition(batch_by, self.batches, self.types)
        return listed if implied is None else exp.and_(implied, listed)


_FIXED = ScanPass("counts, sums and moments", 0, one_row=True)
_OBJECTS = ScanPass("sketches and extremes", 10, one_row=True)
_DISTINCT = ScanPass("distinct values", 80, one_row=True)
_UNMERGED = ScanPass("aggregates that do not merge", 90, one_row=True)

SMALL_ROWS = 50_000
"""Rows of all batches together up to which a scan is a small one: fewer steps, no preparation."""
# Sends nothing to all tasks, for which Spark starts a job and waits.
_UNSENT = "SHUFFLE_REPLICATE_NL"


def rows_of(batches: Iterable[str], sizes: Mapping[str, int]) -> int | None:
    """The rows of batches together; None where they are not known of all."""
    known = [sizes.get(b) for b in batches]
    return None if None in known else sum(n for n in known if n is not None)


@dataclass(frozen=True)
class ScanGroup:
    """State columns that one query computes together."""

    states: tuple[StateColumn, ...]
    kind: ScanPass

    @property
    def mergeable(self) -> bool:
        """Whether the whole batch's row can be merged from its segments' rows."""
        return all(s.mergeable for s in self.states)


_PART = "part"


def as_part(query: exp.Query, alias: str) -> exp.Subquery:
    """A subquery that may be analysed apart from what reads it."""
    part = query.subquery(alias, copy=False)
    part.meta[_PART] = True
    return part


def is_part(query: exp.Subquery) -> bool:
    """Whether a subquery is one of `as_part`."""
    return _PART in query.meta


def scan_groups(
    states: Sequence[StateColumn],
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[ScanGroup, ...]:
    """Group state columns by the kind of their buffers.

    `types` gives the Spark type of each state column where it is known; it decides whether a
    min/max stays on the code-generated path. `columns` gives those of the model's columns; it
    decides which values are counted as texts and which as whole numbers.
    """
    states_by_pass = by_key((_pass_of(s, types or {}, columns or {}), s) for s in states)
    groups: list[ScanGroup] = []
    for kind in sorted(states_by_pass, key=lambda kind: kind.order):
        states = states_by_pass[kind]
        parts = [(s,) for s in states] if kind.apart else [tuple(states)]
        groups.extend(ScanGroup(part, kind) for part in parts)
    return tuple(groups)


def _pass_of(state: StateColumn, types: Mapping[str, str], columns: Mapping[str, str]) -> ScanPass:
    """The query that computes a state."""
    if state.source is not None:
        return scan_pass(state.source, columns)
    buffer, kind = state.buffer, types.get(state.name, "double")
    is_fixed = is_number(kind) or kind in TIMES or kind == "boolean"
    if buffer is Buffer.OBJECT or (buffer is Buffer.ORDERED and not is_fixed):
        # Their buffers may be large, and segments do not merge into the whole batch.
        return _OBJECTS if state.mergeable else _UNMERGED
    return _DISTINCT if buffer is Buffer.DISTINCT else _FIXED


@dataclass(frozen=True)
class Scan:
    """Builds the statement that computes state rows of some batches of one model.

    Without `groups` it says which rows are scanned, whichever the states; see `of`.
    `columns` gives the Spark types of the model's columns, as `scan_groups` got them, `sizes` the
    numbers of rows of batches, as far as they are known; without `batch_by` about what is expected.
    """

    model: CheckModel
    groups: tuple[ScanGroup, ...] = ()
    batches: BatchFilter | None = None
    label: str | None = None
    empty: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def of(self, states: Sequence[StateColumn], types: Mapping[str, str]) -> Scan:
        """The scan of some states; `types` are their Spark types, as far as they are known."""
        return replace(self, groups=scan_groups(states, types, self.columns))

    @property
    def rows(self) -> int | None:
        """How many rows are scanned; None where that is not known."""
        return None if self.listed is None else rows_of(self.listed, self.sizes)

    def query(self) -> exp.Select:
        """One row per batch and segment: batch, segment, segment columns, state columns.

        The row with segment null is the whole batch; with `segment_by` it is merged from the
        segments' rows where the states merge, and scanned by itself where they do not. Batches
        named in `empty` were asked for and have no rows: they get the states of no rows.
        """
        without_rows = [self._of_no_rows(batch) for batch in self.empty]
        # Without batch_by there is but one batch: either it has rows or not.
        whole_is_empty = without_rows and batch_text(self.model) is None
        parts = without_rows if whole_is_empty else [self._joined_groups(), *without_rows]
        return reduce(union_all, parts)

    def _of_no_rows(self, batch: str) -> exp.Select:
        states = [s for group in self.groups for s in group.states]
        query = exp.select(aliased(literal(batch), BATCH), aliased(segment_label(()), SEGMENT))
        query = query.select(*(aliased(call("any_value", column(s)), s) for s in self.segments))
        query = query.select(*(aliased(_without_rows(s, batch), s.name) for s in states))
        query = query.from_(model_table(self.model)).where(exp.false())
        return with_matches(query)

    def _joined_groups(self) -> exp.Select:
        parts = [self._group_query(group) for group in self.groups]
        if len(parts) == 1:
            return parts[0]
        query = exp.select(*(column(k, "g0") for k in (BATCH, SEGMENT, *self.segments)))
        query = query.from_(as_part(parts[0], "g0"), copy=False)
        crossed: list[exp.Expr] = []
        for i, (part, group) in enumerate(zip(parts, self.groups, strict=True)):
            kind, name = group.kind, f"g{i}"
            if isinstance(kind, SourcePass):
                values = [kind.joined_state(s, "g0", name) for s in group.states]
                one = self.only_batch is not None
                same = kind.join_condition(group.states, "g0", name, one_batch=one)
            else:
                values = [column(s.name, name) for s in group.states]
                same = same_key("g0", name, (BATCH, SEGMENT))
            query = query.select(*values, copy=False)
            if not i:
                continue
            joined = as_part(part, name)
            if self._has_one_row and kind.one_row:
                query = query.join(joined, join_type="cross", copy=False)
                crossed.append(column(name))
                continue
            # A frequency table of nothing but nulls has no entry; the batch must stay.
            join = "left" if isinstance(kind, SourcePass) else "inner"
            query = query.join(joined, on=same, join_type=join, copy=False)
        if crossed:
            query.set("hint", exp.Hint(expressions=[call(_UNSENT, *crossed)]))
        return query

    @property
    def _has_one_row(self) -> bool:
        """Whether passes have a row each, if any, in one partition of Spark's."""
        if self.only_batch is None or self.segments:
            return False
        return self.is_small or batch_text(self.model) is None

    @property
    def segments(self) -> tuple[str, ...]:
        """The segment columns."""
        return self.model.config.segment_by

    @property
    def private(self) -> frozenset[str]:
        """The columns whose values must not be stored, in lower case."""
        return pii_columns(self.model)

    @property
    def source_scans(self) -> int:
        """How often the statement reads the model's SELECT."""
        doubled = bool(self.segments)
        return sum(
            g.kind.reads
            if isinstance(g.kind, SourcePass) or g.mergeable or not doubled
            else 2 * g.kind.reads
            for g in self.groups
        )

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The batches that are scanned; None for all."""
        return self.batches.batches if self.batches else None

    def few_rows(self, most: int) -> exp.Expr:
        """Whether a batch has at most so many rows; TRUE or FALSE where that is known of all.

        A condition on the column `batch` with the values of `batch_key`. FALSE where the numbers of
        rows are not known.
        """
        if batch_text(self.model) is None:
            rows = exp.select(call("count", exp.Star())).from_(model_table(self.model))
            return exp.LTE(this=rows.subquery(), expression=literal(most))
        listed = self.listed or ()
        many = [b for b in listed if self.sizes.get(b, most + 1) > most]
        if len(many) == len(listed):
            return exp.false()
        if not many:
            return exp.true()
        kind = self.batch_type if is_named_by_value(self.batch_type) else "string"
        return exp.Not(this=exp.In(this=column(BATCH), expressions=[tried(b, kind) for b in many]))

    @property
    def is_small(self) -> bool:
        """Whether there are known to be at most `SMALL_ROWS` rows."""
        return self.rows is not None and self.rows <= SMALL_ROWS

    @property
    def batch_type(self) -> str:
        """The Spark type of batches."""
        return self.batches.spark_type if self.batches else "string"

    @property
    def only_batch(self) -> exp.Expr | None:
        """The batch of all rows as a literal, where there is but one."""
        if batch_text(self.model) is None:
            return self.batch_value
        listed = self.listed or ()
        return literal(listed[0]) if len(listed) == 1 else None

    def _group_query(self, group: ScanGroup) -> exp.Select:
        segments = self.segments
        if isinstance(group.kind, SourcePass):
            return group.kind.query(self, group.states)
        if not segments:
            return self._aggregate(group, ())
        fine = self._aggregate(group, segments)
        if not group.mergeable:
            return union_all(fine, self._aggregate(group, ()))
        return union_all(fine, self._merged(group, fine))

    def counts(self) -> tuple[exp.Select, ...]:
        """The frequency tables of the groups as they are stored: see `FrequencyScan.stored`."""
        return tuple(
            g.kind.counting(self, g.states).stored()
            for g in self.groups
            if isinstance(g.kind, FrequencyPass)
        )

    def _aggregate(self, group: ScanGroup, segments: Sequence[str]) -> exp.Select:
        if group.kind is _OBJECTS:
            return self._over_inputs(group, segments)
        keys = self._grouped_by(segments)
        query = self._keyed(self.batch_value, segments)
        states = (aliased(guarded(s.scan), s.name) for s in group.states)
        query = self.from_batches(query.select(*states, copy=False))
        group_by = [*([self.batch_key] if self.model.config.batch_by else []), *keys]
        return query.group_by(*group_by, copy=False) if group_by else query

    def _over_inputs(self, group: ScanGroup, segments: Sequence[str]) -> exp.Select:
        """`_aggregate` over a query that computes what the aggregates are computed from."""
        inputs = Inputs(segments)
        scans = ((s.name, guarded(s.scan)) for s in group.states)
        states = [aliased(inputs.aggregate(scan), name) for name, scan in scans]
        batch = batch_text(self.model)
        keys = [*([column(BATCH)] if batch is not None else []), *self._grouped_by(segments)]
        below = exp.select(*(column(s) for s in segments), *inputs.columns())
        if batch is not None:
            below = below.select(aliased(self.batch_key, BATCH), copy=False)
        rows = self.from_batches(below).subquery("inputs", copy=False)
        query = self._keyed(
            self.batch_value if batch is None else self.batch_column.unalias(), segments
        )
        query = query.select(*states, copy=False).from_(rows, copy=False)
        return query.group_by(*keys, copy=False) if keys else query

    def _grouped_by(self, segments: Sequence[str]) -> list[exp.Expr]:
        """Segment columns, and the texts of those in which some that differ are equal.

        Segments are told apart by their texts, as their labels are: where there is a collation, and
        0.0 and -0.0.
        """
        types = {s: type_of(s, self.columns) for s in segments}
        alike = [s for s, kind in types.items() if "collate" in kind or kind in FLOATS]
        return [*map(column, segments), *(as_type(column(s), "string") for s in alike)]

    def _keyed(self, batch: exp.Expr, segments: Sequence[str]) -> exp.Select:
        """The columns that name a row of states: batch, segment, segment columns."""
        query = exp.select(aliased(batch, BATCH), aliased(segment_label(segments), SEGMENT))
        return query.select(*self._segment_columns(segments), copy=False)

    def from_batches(self, query: exp.Select) -> exp.Select:
        """Let a query (changed in place) read the rows of the batches that the scan is about."""
        query = query.from_(model_table(self.model), copy=False)
        batch = batch_text(self.model)
        condition = self.batches.condition(self.model) if self.batches else None
        if condition is not None:
            query = query.where(condition, copy=False)
        elif batch is not None:
            query = query.where(not_null(batch), copy=False)
        return with_matches(query)

    @property
    def batch_value(self) -> exp.Expr:
        """The batch of a row: `batch_by` as text, or the label of the run's only batch."""
        batch = batch_text(self.model)
        return literal(self.label or NO_BATCH) if batch is None else batch

    @property
    def batch_key(self) -> exp.Expr:
        """What rows are grouped by, or the label of the run's only batch: see `batch_key`."""
        key = batch_key(self.model, self.batch_type)
        return self.batch_value if key is None else key

    @property
    def batch_column(self) -> exp.Expr:
        """The column `batch` as text, over a query where it is the `batch_key`."""
        key = column(BATCH)
        by_value = is_named_by_value(self.batch_type)
        return aliased(as_type(key, "string"), BATCH) if by_value else key

    def _segment_columns(self, segments: Sequence[str]) -> list[exp.Expr]:
        wanted = self.segments
        if segments:
            return [column(s) for s in wanted]
        return [aliased(exp.Null(), s) for s in wanted]

    def _merged(self, group: ScanGroup, fine: exp.Select) -> exp.Select:
        query = exp.select(column(BATCH), aliased(exp.Null(), SEGMENT))
        query = query.select(*self._segment_columns(()))
        query = query.select(*merge_columns(group.states))
        query = query.from_(fine.copy().subquery("segments")).group_by(column(BATCH))
        return with_fields_last(query)


def _without_rows(state: StateColumn, batch: str) -> exp.Expr:
    """What a state is in a batch that the model has no rows of."""
    if state.source is None:
        return state.scan
    return scan_pass(state.source, {}).without_rows(state, batch)


def merge_columns(states: Iterable[StateColumn]) -> list[exp.Expr]:
    """Aggregates over state rows that give the state of the union, under the same names."""
    return [aliased(s.merge.copy(), s.name) for s in states if s.merge is not None]


def with_fields_last(query: exp.Select) -> exp.Select:
    """The query, with structs of which it selects several fields made once, in a query below.

    The merged moments of a column are fields of one fold over its states, which Spark would plan
    and compute for each of them.
    """
    structs: dict[exp.Expr, str] = {}
    below, fields = [], []
    for selected in query.selects:
        name, value = selected.alias_or_name, selected.unalias()
        if isinstance(value, exp.Dot):
            struct = structs.setdefault(value.this, f"merged__{len(structs)}")
            field = exp.Dot(this=column(struct), expression=value.expression)
            fields.append(aliased(field, name))
        else:
            below.append(selected)
            fields.append(column(name))
    if not structs:
        return query
    below += [aliased(struct, name) for struct, name in structs.items()]
    inner = query.select(*below, append=False)
    return exp.select(*fields).from_(inner.subquery("merged"))


class Inputs:
    """Collects the inputs of aggregates; equal ones are one column.

    Spark generates code for a projection, but evaluates the arguments of an aggregate whose buffer
    is not of fixed width node by node for every row. With its arguments (a hash of the value where
    it is not null, a cast) as columns of a query below, sketches of 12 columns cost two thirds.

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
        return [aliased(e, name) for e, name in self._names.items()]

    def _column(self, value: exp.Expr) -> exp.Expr:
        if value not in self._names:
            self._names[value] = next(self._free)
        return column(self._names[value])

"""The SQL statements of a plan, as ASTs: scan, merge, metrics. The user's SELECT is read as a view.

Which batches a statement is about, the types of columns and the state relation are parameters, so
that the same plan serves compiling without Spark and running with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from dqsql.compiler.plan import check_batch_by
from dqsql.compiler.trees import filtered_by, map_aggregates
from dqsql.dialect import call, column, formula, identifier, literal, to_sql
from dqsql.model.plan import (
    Buffer,
    Check,
    FrequencyTable,
    Metric,
    Plan,
    Query,
    StateColumn,
)
from dqsql.model.project import CheckModel

BATCH = "batch"
SEGMENT = "segment"
CHUNK = "chunk"
TABLE = "dqsql_table"
VALUE = "value"
N = "n"
NO_BATCH = "the run's start"
_FIXED_TYPES = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "boolean",
)


def view_name(model: CheckModel | str) -> str:
    """The temporary view that holds a check model's SELECT."""
    return f"dqsql__{model if isinstance(model, str) else model.name}"


def batch_text(model: CheckModel) -> exp.Expr | None:
    """The batch of a row as text, as it is stored; None for a model without `batch_by`."""
    batch_by = check_batch_by(model)
    return None if batch_by is None else exp.Cast(this=batch_by, to=exp.DataType.build("string"))


def discovery_query(model: CheckModel) -> exp.Select | None:
    """Batches and their row counts; reads only the columns of `batch_by`."""
    batch = batch_text(model)
    if batch is None:
        return None
    return (
        exp.select(exp.alias_(batch, BATCH, quoted=True))
        .select(exp.alias_(call("count", exp.Star()), "rows", quoted=True))
        .from_(identifier_table(view_name(model)))
        .group_by(batch.copy())
    )


def identifier_table(name: str) -> exp.Table:
    """A table reference by quoted name."""
    return exp.Table(this=identifier(name))


@dataclass(frozen=True)
class BatchFilter:
    """The batches a scan is about: all, or those listed, as values of the batch's Spark type."""

    batches: tuple[str, ...]
    spark_type: str

    def condition(self, model: CheckModel) -> exp.Expr | None:
        """`batch_by in (..)` on the typed expression, so that Spark can prune partitions."""
        batch_by = check_batch_by(model)
        if batch_by is None:
            return None
        kind = exp.DataType.build(self.spark_type, dialect="spark")
        values = [
            exp.Cast(this=exp.Literal.string(b), to=kind.copy())
            if self.spark_type != "string"
            else exp.Literal.string(b)
            for b in self.batches
        ]
        return exp.In(this=exp.Paren(this=batch_by), expressions=values)


@dataclass(frozen=True)
class ScanGroup:
    """State columns that one query computes together."""

    states: tuple[StateColumn, ...]
    purpose: str

    @property
    def mergeable(self) -> bool:
        """Whether the whole batch's row can be merged from its segments' rows."""
        return all(s.mergeable for s in self.states)

    @property
    def counts_values(self) -> bool:
        """Whether the states are taken over frequency tables."""
        return any(s.frequency is not None for s in self.states)


def scan_groups(
    states: Sequence[StateColumn], types: Mapping[str, str] | None = None
) -> tuple[ScanGroup, ...]:
    """Group state columns by the kind of their buffers.

    `types` gives the Spark type of each state column where it is known; it decides whether a
    min/max stays on the code-generated path.
    """
    fixed: list[StateColumn] = []
    objects: list[StateColumn] = []
    frequencies: list[StateColumn] = []
    groups: list[ScanGroup] = []
    for state in states:
        kind = _physical_kind(state, types)
        if kind is Buffer.FREQUENCY:
            frequencies.append(state)
        elif kind is Buffer.DISTINCT:
            groups.append(ScanGroup((state,), "distinct values"))
        elif kind is Buffer.OBJECT and not state.mergeable:
            groups.append(ScanGroup((state,), "aggregate that does not merge"))
        else:
            (objects if kind is Buffer.OBJECT else fixed).append(state)
    first = [ScanGroup(tuple(fixed), "counts, sums and moments")] if fixed else []
    second = [ScanGroup(tuple(objects), "sketches and extremes")] if objects else []
    third = [ScanGroup(tuple(frequencies), "frequency tables")] if frequencies else []
    return (*first, *second, *third, *groups)


def _physical_kind(state: StateColumn, types: Mapping[str, str] | None) -> Buffer:
    if state.buffer is not Buffer.ORDERED:
        return state.buffer
    kind = (types or {}).get(state.name, "double")
    fixed = kind in _FIXED_TYPES or kind.startswith("decimal")
    return Buffer.FIXED if fixed else Buffer.OBJECT


@dataclass(frozen=True)
class Scan:
    """Builds the statement that computes state rows of some batches of one model."""

    model: CheckModel
    groups: tuple[ScanGroup, ...]
    batches: BatchFilter | None = None
    label: str | None = None
    empty: tuple[str, ...] = ()

    def query(self) -> exp.Select:
        """One row per batch and segment: batch, segment, segment columns, state columns.

        The row with segment null is the whole batch; with `segment_by` it is merged from the
        segments' rows where the states merge, and scanned by itself where they do not. Batches
        named in `empty` were asked for and have no rows: they get the states of no rows.
        """
        query = self._joined_groups()
        for batch in self.empty:
            query = _union_all(query, self._of_no_rows(batch))
        return query

    def _of_no_rows(self, batch: str) -> exp.Select:
        states = [s for group in self.groups for s in group.states]
        query = exp.select(exp.alias_(literal(batch), BATCH, quoted=True))
        query = query.select(exp.alias_(segment_label(()), SEGMENT, quoted=True))
        segments = self.model.config.segment_by
        query = query.select(
            *(exp.alias_(call("any_value", column(s)), s, quoted=True) for s in segments)
        )
        query = query.select(
            *(
                exp.alias_(
                    # There are no values to count, and `n` is no column of the model.
                    exp.Null() if s.frequency is not None else s.scan,
                    s.name,
                    quoted=True,
                )
                for s in states
            )
        )
        return query.from_(identifier_table(view_name(self.model))).where(exp.false())

    def _joined_groups(self) -> exp.Select:
        parts = [self._group_query(group) for group in self.groups]
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        query = exp.select(*(column(k, "g0") for k in self._key_names))
        query = query.from_(first.subquery("g0"))
        for i, (part, group) in enumerate(zip(parts, self.groups, strict=True)):
            query = query.select(*(_joined_state(s, f"g{i}") for s in group.states))
            if i:
                # A frequency table of nothing but nulls has no entry; the batch must stay.
                kind = "left" if group.counts_values else "inner"
                query = query.join(
                    part.subquery(f"g{i}"), on=self._same_key(f"g{i}"), join_type=kind
                )
        return query

    @property
    def _key_names(self) -> tuple[str, ...]:
        return (BATCH, SEGMENT, *self.model.config.segment_by)

    @property
    def source_scans(self) -> int:
        """How often the statement reads the model's SELECT."""
        doubled = bool(self.model.config.segment_by)
        once = [g.mergeable or g.counts_values or not doubled for g in self.groups]
        return sum(1 if one else 2 for one in once)

    def _same_key(self, other: str) -> exp.Expr:
        keys = (BATCH, SEGMENT)
        return exp.and_(
            *(exp.NullSafeEQ(this=column(k, "g0"), expression=column(k, other)) for k in keys)
        )

    def _group_query(self, group: ScanGroup) -> exp.Select:
        segments = self.model.config.segment_by
        if group.counts_values:
            return FrequencyScan(self, group).query()
        if not segments:
            return self._aggregate(group, ())
        fine = self._aggregate(group, segments)
        if not group.mergeable:
            return _union_all(fine, self._aggregate(group, ()))
        return _union_all(fine, self._merged(group, fine))

    def _aggregate(self, group: ScanGroup, segments: Sequence[str]) -> exp.Select:
        batch = batch_text(self.model)
        keys = [column(s) for s in segments]
        query = exp.select(
            exp.alias_(self.batch_value, BATCH, quoted=True),
            exp.alias_(segment_label(segments), SEGMENT, quoted=True),
        )
        query = query.select(*self._segment_columns(segments))
        query = query.select(*(exp.alias_(s.scan, s.name, quoted=True) for s in group.states))
        query = self.from_batches(query)
        group_by = [*([batch.copy()] if batch is not None else []), *keys]
        return query.group_by(*group_by) if group_by else query

    def from_batches(self, query: exp.Select) -> exp.Select:
        """Let a query read the rows of the batches that the scan is about."""
        query = query.from_(identifier_table(view_name(self.model)))
        batch = batch_text(self.model)
        condition = self.batches.condition(self.model) if self.batches else None
        if condition is not None:
            return query.where(condition)
        return query if batch is None else query.where(_not_null(batch))

    @property
    def batch_value(self) -> exp.Expr:
        """The batch of a row: `batch_by` as text, or the label of the run's only batch."""
        batch = batch_text(self.model)
        return literal(self.label or NO_BATCH) if batch is None else batch

    def _segment_columns(self, segments: Sequence[str]) -> list[exp.Expr]:
        wanted = self.model.config.segment_by
        if segments:
            return [column(s) for s in wanted]
        return [exp.alias_(exp.Null(), s, quoted=True) for s in wanted]

    def _merged(self, group: ScanGroup, fine: exp.Select) -> exp.Select:
        query = exp.select(column(BATCH), exp.alias_(exp.Null(), SEGMENT, quoted=True))
        query = query.select(*self._segment_columns(()))
        query = query.select(*merge_columns(group.states))
        return query.from_(fine.copy().subquery("segments")).group_by(column(BATCH))


@dataclass(frozen=True)
class FrequencyScan:
    """Counts all frequency tables of a model in one pass over its rows.

    Each row is turned into one entry per table (its number and the value as text); entries are
    grouped and counted, and the aggregates over each table are taken from the counts. What is
    counted once for the segments is summed for the whole batch.
    """

    scan: Scan
    group: ScanGroup

    def query(self) -> exp.Select:
        """One row per batch and segment, as `Scan.query` gives it."""
        segments = self.scan.model.config.segment_by
        if not segments:
            return self._aggregates(self._counts(), ())
        counts = self._counts()
        return _union_all(
            self._aggregates(counts, segments), self._aggregates(self._summed(counts), ())
        )

    @property
    def _tables(self) -> tuple[FrequencyTable, ...]:
        by_text: dict[str, FrequencyTable] = {}
        for state in self.group.states:
            if state.frequency is not None:
                by_text.setdefault(table_text(state.frequency), state.frequency)
        return tuple(by_text.values())

    def _entries(self) -> exp.Select:
        """One row per row of the model and table: batch, segment columns, table, value."""
        segments = self.scan.model.config.segment_by
        pairs: list[exp.Expr] = []
        for number, table in enumerate(self._tables):
            pairs += [literal(number), value_text(table)]
        query = exp.select(exp.alias_(self.scan.batch_value, BATCH, quoted=True))
        query = query.select(*(column(s) for s in segments))
        # A generator next to columns: Spark emits one row per table for every row.
        query = query.select(
            exp.Aliases(
                this=call("stack", literal(len(self._tables)), *pairs),
                expressions=[identifier(TABLE), identifier(VALUE)],
            )
        )
        return self.scan.from_batches(query)

    def _counts(self) -> exp.Select:
        keys = [column(k) for k in (BATCH, *self.scan.model.config.segment_by, TABLE, VALUE)]
        query = exp.select(*keys).select(exp.alias_(call("count", exp.Star()), N, quoted=True))
        query = query.from_(self._entries().subquery("entries"))
        return query.where(_not_null(column(VALUE))).group_by(*(k.copy() for k in keys))

    def _summed(self, counts: exp.Select) -> exp.Select:
        keys = [column(k) for k in (BATCH, TABLE, VALUE)]
        query = exp.select(*keys)
        query = query.select(exp.alias_(call("sum", column(N)), N, quoted=True))
        return query.from_(counts.subquery("counts")).group_by(*(k.copy() for k in keys))

    def _aggregates(self, counts: exp.Select, segments: Sequence[str]) -> exp.Select:
        numbers = {table_text(t): i for i, t in enumerate(self._tables)}
        query = exp.select(column(BATCH), exp.alias_(segment_label(segments), SEGMENT, quoted=True))
        for state in self.group.states:
            number = numbers[table_text(state.frequency)] if state.frequency else 0
            mine = exp.EQ(this=column(TABLE), expression=literal(number))
            aggregate = map_aggregates(state.scan, partial(filtered_by, condition=mine))
            query = query.select(exp.alias_(aggregate, state.name, quoted=True))
        query = query.from_(counts.copy().subquery("counts"))
        return query.group_by(column(BATCH), *(column(s) for s in segments))


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


def _joined_state(state: StateColumn, group: str) -> exp.Expr:
    """A state column in the joined row; a count over a frequency table without entries is 0."""
    value: exp.Expr = column(state.name, group)
    inner = state.scan.this if isinstance(state.scan, exp.Filter) else state.scan
    counts = isinstance(inner, exp.Anonymous) and str(inner.this).lower() in ("count", "count_if")
    if state.frequency is None or not counts:
        return value
    return exp.alias_(call("coalesce", value, literal(0)), state.name, quoted=True)


def segment_label(segments: Sequence[str]) -> exp.Expr:
    """A segment as text: `origin=EWR, carrier=UA`; null for the whole batch."""
    if not segments:
        return exp.Cast(this=exp.Null(), to=exp.DataType.build("string"))
    parts: list[exp.Expr] = []
    for name in segments:
        value = exp.Cast(this=column(name), to=exp.DataType.build("string"))
        parts.append(call("concat", f"{name}=", call("coalesce", value, "null")))
    return call("concat_ws", ", ", *parts)


def merge_columns(states: Iterable[StateColumn]) -> list[exp.Expr]:
    """Aggregates over state rows that give the state of the union, under the same names."""
    return [
        exp.alias_(s.merge.copy() if s.merge is not None else exp.Null(), s.name, quoted=True)
        for s in states
    ]


def metric_query(
    metrics: Sequence[Metric], checks: Sequence[Check], relation: exp.Expr
) -> exp.Select:
    """Metric values and verdicts of every state row of `relation`.

    Columns: batch, segment, rows, one per metric, one boolean per check.
    """
    keys = [column(BATCH), column(SEGMENT), column("rows")]
    values = exp.select(*keys).select(
        *(exp.alias_(m.finish, m.alias, quoted=True) for m in metrics)
    )
    values = values.from_(relation)
    query = exp.select(*(k.copy() for k in keys)).select(*(column(m.alias) for m in metrics))
    query = query.select(
        *(exp.alias_(exp.Paren(this=c.predicate), c.alias, quoted=True) for c in checks)
    )
    return query.from_(values.subquery("metric_values"))


def _union_all(first: exp.Select, second: exp.Select) -> exp.Select:
    return exp.select(exp.Star()).from_(
        exp.union(first, second, distinct=False).subquery("rows_of_batch")
    )


def _not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=value), expression=exp.Null()))


def compiled_queries(plan: Plan) -> tuple[Query, ...]:
    """The statements of a plan as `dqsql compile` shows them, for all batches."""
    model = plan.model
    view = (
        f"create or replace temporary view {to_sql(identifier(view_name(model)))} as\n{model.sql}"
    )
    queries = [Query("the check model's SELECT, verbatim", view, 0)]
    groups = scan_groups(plan.states)
    for group in groups:
        scan = Scan(model, (group,))
        queries.append(
            Query(
                f"scan: {group.purpose}",
                to_sql(scan.query(), pretty=True),
                scan.source_scans,
                columns_read(model, group.states),
            )
        )
    state = identifier_table(f"dq_state__{model.name}")
    metrics = metric_query(plan.metrics, plan.checks, state)
    queries.append(Query("metrics and verdicts", to_sql(metrics, pretty=True), 0))
    return tuple(queries)


def columns_read(model: CheckModel, states: Iterable[StateColumn]) -> tuple[str, ...]:
    """The columns of the model's SELECT that a scan of the given states reads, sorted."""
    names = {c.parts[0].name for s in states for c in s.scan.find_all(exp.Column)}
    batch_by = check_batch_by(model)
    if batch_by is not None:
        names |= {c.parts[0].name for c in batch_by.find_all(exp.Column)}
    return tuple(sorted(names | set(model.config.segment_by)))

"""Checks that are about rows: which rows fail them, and the statement that samples these.

A check is about rows where its predicate demands much of a share (`completeness`, `compliance`:
`count_if(condition) / count(*)`), little of a count (`count_if(condition) = 0`), or no duplicates.
What a share is, is told by the metric's states and not by its name, so that macros of users work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.bounds import bounds_of
from dqsql.compiler.guards import where_met
from dqsql.compiler.keys import (
    BATCH,
    batch_text,
    model_table,
    not_null,
)
from dqsql.compiler.lookups import with_matches
from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.trees import function_name
from dqsql.dialect import call, column, formula, literal
from dqsql.model.plan import Check, FrequencyTable, Metric, Plan, StateColumn
from dqsql.model.types import is_textless, type_of

CHECK = "check_id"
ROW = "row"
_BATCH = "dqsql_batch"
_FAILED = "dqsql_failed"
_DUPLICATE = "dqsql_duplicate"
_RANK = "dqsql_rank"


@dataclass(frozen=True)
class FailingRows:
    """The rows that fail a check.

    They meet `condition`, or have a value (or tuple) of one of `unique` that occurs more than once
    in the batch.
    """

    check: Check
    condition: exp.Expr | None
    unique: tuple[FrequencyTable, ...] = ()


def failing_rows(plan: Plan, check: Check) -> FailingRows | None:
    """Which rows fail a check, None for a check that is not about rows."""
    states = {s.name: s for s in plan.states}
    conditions: list[exp.Expr] = []
    unique: list[FrequencyTable] = []
    for part in _conjuncts(check.predicate if check.rows is None else check.rows):
        names = {c.name for c in part.find_all(exp.Column)}
        if len(names) != 1:
            continue
        alias = names.pop()
        bounds = bounds_of(part, alias)
        if bounds is None:
            continue
        metric = plan.metric(alias)
        much = bounds.lower is not None and bounds.lower > 0
        if much and (share := _share(metric, states)) is not None:
            conditions.append(share)
        elif bounds.upper is not None and (counted := _counted(metric, states)) is not None:
            conditions.append(counted)
        elif bounds.upper == 0 and (table := _duplicates(metric, states)) is not None:
            unique.append(table)
    if not conditions and not unique:
        return None
    return FailingRows(check, exp.or_(*conditions) if conditions else None, tuple(unique))


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    bare = node.unnest()
    if isinstance(bare, exp.And):
        yield from _conjuncts(bare.left)
        yield from _conjuncts(bare.right)
    else:
        yield bare


# --- what a metric counts ----------------------------------------------------------------------


def _share(metric: Metric, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The rows that are missing in `count(x) / nullif(count(*), 0)`."""
    ratio = metric.finish.unnest()
    if not isinstance(ratio, exp.Div):
        return None
    part = _count(ratio.this, states)
    whole = _count(_without_nullif(ratio.expression), states)
    if part is None or whole is None or not _counts_rows(whole):
        return None
    met = _met(part)
    outer, inner = _filter(whole), _filter(part)
    if met is None or inner != outer:
        return None
    missing = exp.Not(this=exp.Paren(this=call("coalesce", met, exp.false())))
    return missing if outer is None else where_met(outer, missing)


def _counted(metric: Metric, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The rows that `count_if(condition)` counts, also where it is null without rows."""
    finish = metric.finish.unnest()
    if (
        isinstance(finish, exp.Case)
        and len(finish.args["ifs"]) == 1
        and not finish.args.get("default")
    ):
        finish = finish.args["ifs"][0].args["true"]
    aggregate = _count(finish, states)
    if aggregate is None or function_name(aggregate) != "count_if":
        return None
    met, outer = _met(aggregate), _filter(aggregate)
    if met is None or outer is None:
        return met
    return where_met(outer, met)


def _duplicates(metric: Metric, states: Mapping[str, StateColumn]) -> FrequencyTable | None:
    """The table of `frequency(sum(n - 1), ..)`, the number of rows too many, or of values.

    What `+ case .. end` adds is left aside: rows without any value, which are in no table.
    """
    finish = metric.finish.unnest()
    if isinstance(finish, exp.Add) and _is_zero_or_one(finish.expression.unnest()):
        finish = finish.this
    state = _state(finish, states)
    if state is None or state.frequency is None:
        return None
    counted = [_plain(formula(text)) for text in ("sum(n - 1)", "count_if(n > 1)")]
    return state.frequency if _plain(state.scan) in counted else None


def _is_zero_or_one(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Case) or node.args.get("default") is None:
        return False
    values = [branch.args["true"] for branch in node.args["ifs"]] + [node.args["default"]]
    return all(v.is_number and v.to_py() in (0, 1) for v in values)


def _plain(node: exp.Expr) -> str:
    return node.sql().replace('"', "").replace("`", "").lower()


def _state(node: exp.Expr, states: Mapping[str, StateColumn]) -> StateColumn | None:
    node = node.unnest()
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "coalesce":
        node = node.expressions[0].unnest()
    return states.get(node.name) if isinstance(node, exp.Column) else None


def _count(node: exp.Expr, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The aggregate over the model's rows behind an operand."""
    state = _state(node, states)
    # What is taken over anything else has nothing to say about this relation's rows.
    return state.scan if state is not None and state.source is None else None


def _without_nullif(node: exp.Expr) -> exp.Expr:
    node = node.unnest()
    is_nullif = isinstance(node, exp.Anonymous) and str(node.this).lower() == "nullif"
    inner: exp.Expr = node.expressions[0] if is_nullif else node
    return inner


def _inner(aggregate: exp.Expr) -> exp.Expr:
    inner: exp.Expr = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
    return inner


def _filter(aggregate: exp.Expr) -> exp.Expr | None:
    where: exp.Expr | None = (
        aggregate.expression.this if isinstance(aggregate, exp.Filter) else None
    )
    return where


def _counts_rows(aggregate: exp.Expr) -> bool:
    args = _inner(aggregate).expressions
    return function_name(aggregate) == "count" and len(args) == 1 and isinstance(args[0], exp.Star)


def _met(aggregate: exp.Expr) -> exp.Expr | None:
    """The condition under which a row is counted, a FILTER aside."""
    args = _inner(aggregate).expressions
    if len(args) != 1 or isinstance(args[0], exp.Star | exp.Distinct):
        return None
    if function_name(aggregate) == "count_if":
        return exp.Paren(this=args[0].copy())
    return not_null(args[0].copy()) if function_name(aggregate) == "count" else None


# --- the statement -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleQuery:
    """Builds the statement that samples the failing rows of a model in one pass.

    `failed` are the batches in which each check failed; `columns` what is kept of a row. Of each
    check and batch at most `limit` rows are taken, the same ones whenever it runs.
    """

    plan: Plan
    failing: Sequence[FailingRows]
    failed: Mapping[str, Collection[str]]
    columns: Sequence[str]
    batches: BatchFilter
    label: str
    limit: int

    def query(self) -> exp.Select:
        """Rows of batch, check_id and the row as JSON text."""
        order = exp.Order(
            expressions=[
                exp.Ordered(this=call("xxhash64", column(ROW))),
                exp.Ordered(this=column(ROW)),
            ]
        )
        rank = exp.Window(
            this=call("row_number"), partition_by=[column(BATCH), column(CHECK)], order=order
        )
        keys = [column(BATCH), column(CHECK), column(ROW)]
        ranked = exp.select(*keys, exp.alias_(rank, _RANK, quoted=True))
        ranked = ranked.from_(self._by_check().subquery("by_check"))
        query = exp.select(*(k.copy() for k in keys)).from_(ranked.subquery("ranked"))
        return query.where(exp.LTE(this=column(_RANK), expression=literal(self.limit)))

    def _by_check(self) -> exp.Select:
        each = exp.alias_(call("explode", column(_FAILED)), CHECK, quoted=True)
        failing = self._failing()
        return exp.select(column(BATCH), each, column(ROW)).from_(failing.subquery("failing"))

    def _failing(self) -> exp.Select:
        """Rows with the ids of the checks that they fail, those that fail any."""
        marks = [
            formula("case when {0} then {1} end", self._fails(f), literal(f.check.id))
            for f in self.failing
        ]
        ids = call("array_compact", call("array", *marks))
        parts = [exp.alias_(self._written(name), name, quoted=True) for name in self.columns]
        options = call("map", literal("ignoreNullFields"), literal("false"))
        text = call("to_json", call("struct", *parts), options) if parts else literal("{}")
        batch = exp.alias_(column(_BATCH), BATCH, quoted=True)
        query = exp.select(
            batch, exp.alias_(ids, _FAILED, quoted=True), exp.alias_(text, ROW, quoted=True)
        )
        query = query.from_(self._rows().subquery("model_rows"))
        return with_matches(query.where(exp.or_(*(self._fails(f) for f in self.failing))))

    def _fails(self, failing: FailingRows) -> exp.Expr:
        conditions: list[exp.Expr] = [column(name) for name in self._flags(failing)]
        if failing.condition is not None:
            conditions.append(exp.Paren(this=failing.condition.copy()))
        fails = exp.or_(*conditions)
        wanted = set(self.failed[failing.check.id])
        if wanted == set(self.batches.batches) or batch_text(self.plan.model) is None:
            return fails
        names = [exp.Literal.string(b) for b in sorted(wanted)]
        return exp.and_(exp.In(this=column(_BATCH), expressions=names), exp.Paren(this=fails))

    def _rows(self) -> exp.Select:
        """The rows of the failing batches, with the batch as text and flags of duplicates."""
        batch = batch_text(self.plan.model)
        name = literal(self.label) if batch is None else batch
        query = exp.select(exp.Star(), exp.alias_(name, _BATCH, quoted=True))
        for failing in self.failing:
            for flag, table in zip(self._flags(failing), failing.unique, strict=True):
                query = query.select(exp.alias_(self._repeats(table), flag, quoted=True))
        query = query.from_(model_table(self.plan.model))
        condition = self.batches.condition(self.plan.model)
        return query if condition is None else query.where(condition)

    def _flags(self, failing: FailingRows) -> list[str]:
        number = self.failing.index(failing)
        return [f"{_DUPLICATE}_{number}_{i}" for i in range(len(failing.unique))]

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

    def _written(self, name: str) -> exp.Expr:
        """A column as JSON can hold it: of geometries the well-known binary, as hex digits."""
        textless = is_textless(type_of(name, self.batches.types))
        return call("hex", call("st_asbinary", column(name))) if textless else column(name)

    def _comparable(self, value: exp.Expr) -> exp.Expr:
        """A value as rows can be grouped by it: maps and variants as texts, as they are counted."""
        kind = type_of(value.name, self.batches.types) if isinstance(value, exp.Column) else ""
        if "map<" in kind or "variant" in kind:
            return exp.Cast(this=value.copy(), to=exp.DataType.build("string"))
        return value.copy()

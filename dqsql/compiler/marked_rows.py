"""Rows of a model with marks of what is wrong with them: sampled, or split into good and bad.

A row is quarantined when it fails a check that routes. Where a check allows no row to fail, every
row that does is routed; where it tolerates some, rows are routed in the batches that it failed on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dqsql.compiler.keys import (
    BATCH,
    as_json,
    batch_text,
    by_hash,
    model_table,
    not_null,
    row_number,
)
from dqsql.compiler.lookups import with_matches
from dqsql.compiler.privacy import hashed
from dqsql.compiler.rowchecks import FailingRows
from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.trees import where_met
from dqsql.dialect import aliased, as_type, call, column, formula, literal, parse_expression
from dqsql.model.plan import FrequencyTable, Plan
from dqsql.model.types import holds, is_textless, type_of

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
        query = exp.select(exp.Star(), aliased(name, ROW_BATCH))
        for failing in self.failing:
            marks = [self._repeats(t) for t in failing.unique]
            marks += [self._conflicts(t) for t in failing.dependent]
            for flag, mark in zip(self._flags(failing), marks, strict=True):
                query = query.select(aliased(mark, flag), copy=False)
        query = query.from_(model_table(self.plan.model))
        condition = self.batches.condition(self.plan.model)
        return query if condition is None else query.where(condition)

    def duplicates(self, failing: FailingRows) -> list[exp.Expr]:
        """The flags of `rows` that say that a row's values occur twice."""
        return [column(name) for name in self._flags(failing)]

    def inside(self, condition: exp.Expr, batches: Collection[str]) -> exp.Expr:
        """The condition, of rows of some of the batches."""
        if set(batches) == set(self.batches.batches) or batch_text(self.plan.model) is None:
            return condition
        names = [exp.Literal.string(b) for b in sorted(batches)]
        inside = exp.In(this=column(ROW_BATCH), expressions=names)
        return exp.and_(inside, exp.Paren(this=condition))

    def _flags(self, failing: FailingRows) -> list[str]:
        number = self.failing.index(failing)
        flags = len(failing.unique) + len(failing.dependent)
        return [f"{_DUPLICATE}_{number}_{i}" for i in range(flags)]

    def _repeats(self, table: FrequencyTable) -> exp.Expr:
        """Whether the row's value (or tuple) occurs in another row of the batch, too."""
        batch = batch_text(self.plan.model)
        some = exp.Paren(this=exp.or_(*(not_null(c.copy()) for c in table.columns)))
        counted = where_met(table.where, some)
        mark = formula("case when {0} then 1 end", exp.Paren(this=counted))
        values = [where_met(table.where, self._comparable(c)) for c in table.columns]
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
            return as_type(value.copy(), "string")
        return value.copy()


FAILED_CHECKS = "dqsql_failed_checks"
REASONS = "dqsql_reasons"
QUARANTINED = "dqsql_quarantined"
# Columns that a model's SELECT must not have if its rows are to be split.
OWN_COLUMNS = frozenset({ROW_BATCH, FAILED_CHECKS, REASONS, QUARANTINED})
_ODD = "dqsql_odd"


@dataclass(frozen=True)
class OddMark:
    """A function of Spark's says of rows of `batches` whether, and why, a monitor finds them odd.

    Its arguments are whether a row is asked about, which a row is that meets `where`, and `values`;
    it gives JSON, null for rows that are not odd. Such rows are quarantined if it `routes`.
    """

    check: str
    function: str
    batches: Collection[str]
    values: Sequence[exp.Expr]
    where: str | None
    routes: bool

    def reasons(self) -> exp.Expr:
        """The call of the function."""
        names = [exp.Literal.string(b) for b in sorted(self.batches)]
        asked: exp.Expr = exp.In(this=column(ROW_BATCH), expressions=names)
        if self.where is not None:
            asked = exp.and_(asked, exp.Paren(this=parse_expression(self.where)))
        return call(self.function, call("coalesce", asked, exp.false()), *self.values)


@dataclass(frozen=True)
class SplitQuery(MarkedRows):
    """Builds the statement that says of each row which checks it fails.

    `failed` are the batches in which each check failed; `routing` the ids of the checks whose
    failing rows are quarantined. Of a batch in `whole` every row is, for the checks named there.
    `columns` are kept of a row. `odd` says what else is wrong with rows.
    """

    failed: Mapping[str, Collection[str]]
    routing: Collection[str]
    columns: Sequence[str]
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict)
    odd: Sequence[OddMark] = ()

    def query(self) -> exp.Select:
        """The rows with batch, names of failed checks, and whether they are to be quarantined.

        Of odd rows also the reasons: a JSON object by check.
        """
        marks = [
            where_met(self._fails(f), literal(_short(f.check.id, self.plan))) for f in self.failing
        ]
        routed = [self._fails(f) for f in self.failing if f.check.id in self.routing]
        for batch, names in self.whole.items():
            inside = exp.EQ(this=column(ROW_BATCH), expression=exp.Literal.string(batch))
            routed.append(inside)
            marks += [where_met(inside, literal(n)) for n in names]
        for mark, column_name in self._odd():
            is_odd = not_null(column(column_name))
            routed += [is_odd] if mark.routes else []
            marks.append(where_met(is_odd, literal(_short(mark.check, self.plan))))
        # An array of nothing has no type.
        none = formula("cast(array() as array<string>)")
        ids = call("array_compact", call("array", *marks)) if marks else none
        # A model may have no check that routes: none of its rows is quarantined then.
        is_routed = exp.Paren(this=exp.or_(*routed)) if routed else exp.false()
        flag = call("coalesce", is_routed, exp.false())
        query = exp.select(
            *(column(name) for name in self.columns),
            column(ROW_BATCH),
            aliased(call("array_distinct", ids), FAILED_CHECKS),
            aliased(self._reasons(), REASONS),
            aliased(flag, QUARANTINED),
        )
        return with_matches(query.from_(self._scored().subquery("model_rows")))

    def _odd(self) -> list[tuple[OddMark, str]]:
        """What finds rows odd, and the column that says why."""
        return [(mark, f"{_ODD}_{i}") for i, mark in enumerate(self.odd)]

    def _scored(self) -> exp.Select:
        """The rows with the reasons why they are odd, each computed once."""
        if not self.odd:
            return self.rows()
        why = (aliased(mark.reasons(), name) for mark, name in self._odd())
        return exp.select(exp.Star(), *why).from_(self.rows().subquery("rows_to_score"))

    def _reasons(self) -> exp.Expr:
        parts = [
            formula("{0} || {1}", literal(f"{json.dumps(_short(m.check, self.plan))}:"), column(n))
            for m, n in self._odd()
        ]
        if not parts:
            return formula("cast(null as string)")
        listed = call("concat_ws", literal(","), *parts)
        return formula("nullif('{{' || {0} || '}}', '{{}}')", listed)

    def _fails(self, failing: FailingRows) -> exp.Expr:
        duplicates = self.duplicates(failing)
        tolerant = failing.check.rows is not None
        always = [] if tolerant else [*duplicates]
        if failing.strict is not None:
            always.append(exp.Paren(this=failing.strict.copy()))
        sometimes = [*duplicates] if tolerant else []
        if failing.condition is not None:
            sometimes.append(exp.Paren(this=failing.condition.copy()))
        batches = self.failed.get(failing.check.id)
        if sometimes and batches:
            always.append(exp.Paren(this=self.inside(exp.or_(*sometimes), batches)))
        return exp.or_(*always) if always else exp.false()


def kept_columns(
    columns: Sequence[str], types: Mapping[str, str], private: Collection[str]
) -> list[exp.Expr]:
    """The columns as the tables hold them; those in `private` (in lower case) as keyed hashes."""
    return [aliased(_kept(c, type_of(c, types), private), c) for c in columns]


def _kept(name: str, kind: str, private: Collection[str]) -> exp.Expr:
    if name.lower() in private:
        value = call("st_asbinary", column(name)) if is_textless(kind) else column(name)
        return hashed(as_type(value, "string"))
    # `interval day to second` is a number of microseconds; one of months and days is in no file.
    if kind == "void" or holds(kind, "interval"):
        return as_type(column(name), "string")
    return column(name)


def _short(check: str, plan: Plan) -> str:
    """The check's name with its column, without the model: `email.not_null`."""
    return check.removeprefix(f"{plan.model.name}.")


CHECK = "check_id"
ROW = "row"
_FAILED = "dqsql_failed"
RANK = "dqsql_rank"


@dataclass(frozen=True)
class SampleQuery(MarkedRows):
    """Builds the statement that samples the failing rows of a model in one pass.

    `failed` are the batches in which each check failed; `columns` what is kept of a row. Of each
    check and batch at most `limit` rows are taken, the same ones whenever it runs; all without one.
    """

    failed: Mapping[str, Collection[str]]
    columns: Sequence[str]
    limit: int | None

    def query(self) -> exp.Select:
        """Rows of batch, check_id, the row as JSON text, and its place in the sample from 1."""
        rank = aliased(row_number([BATCH, CHECK], *by_hash(ROW)), RANK)
        ranked = exp.select(*map(column, (BATCH, CHECK, ROW)), rank)
        ranked = ranked.from_(self._by_check().subquery("by_check"))
        if self.limit is None:
            return ranked
        query = exp.select(exp.Star()).from_(ranked.subquery("ranked"))
        return query.where(exp.LTE(this=column(RANK), expression=literal(self.limit)))

    def _by_check(self) -> exp.Select:
        each = aliased(call("explode", column(_FAILED)), CHECK)
        failing = self._failing()
        return exp.select(column(BATCH), each, column(ROW)).from_(failing.subquery("failing"))

    def _failing(self) -> exp.Select:
        """Rows with the ids of the checks that they fail, those that fail any."""
        marks = [where_met(self._fails(f), literal(f.check.id)) for f in self.failing]
        ids = call("array_compact", call("array", *marks))
        text = as_json([aliased(self._written(n), n) for n in self.columns])
        batch = aliased(column(ROW_BATCH), BATCH)
        query = exp.select(batch, aliased(ids, _FAILED), aliased(text, ROW))
        query = query.from_(self.rows().subquery("model_rows"))
        return with_matches(query.where(exp.or_(*(self._fails(f) for f in self.failing))))

    def _fails(self, failing: FailingRows) -> exp.Expr:
        conditions = self.duplicates(failing)
        if failing.condition is not None:
            conditions.append(exp.Paren(this=failing.condition.copy()))
        return self.inside(exp.or_(*conditions), self.failed[failing.check.id])

    def _written(self, name: str) -> exp.Expr:
        """A column as JSON can hold it: of geometries the well-known binary, as hex digits."""
        textless = is_textless(type_of(name, self.batches.types))
        return call("hex", call("st_asbinary", column(name))) if textless else column(name)

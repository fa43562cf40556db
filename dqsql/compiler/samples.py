"""The statement that samples the failing rows of a model in one pass."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.keys import BATCH, batch_text
from dqsql.compiler.lookups import with_matches
from dqsql.compiler.marked_rows import ROW_BATCH, MarkedRows
from dqsql.compiler.rowchecks import FailingRows
from dqsql.dialect import call, column, formula, literal
from dqsql.model.types import is_textless, type_of

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
        ranked = exp.select(*keys, exp.alias_(rank, RANK, quoted=True))
        ranked = ranked.from_(self._by_check().subquery("by_check"))
        if self.limit is None:
            return ranked
        query = exp.select(exp.Star()).from_(ranked.subquery("ranked"))
        return query.where(exp.LTE(this=column(RANK), expression=literal(self.limit)))

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
        batch = exp.alias_(column(ROW_BATCH), BATCH, quoted=True)
        query = exp.select(
            batch, exp.alias_(ids, _FAILED, quoted=True), exp.alias_(text, ROW, quoted=True)
        )
        query = query.from_(self.rows().subquery("model_rows"))
        return with_matches(query.where(exp.or_(*(self._fails(f) for f in self.failing))))

    def _fails(self, failing: FailingRows) -> exp.Expr:
        conditions = self.duplicates(failing)
        if failing.condition is not None:
            conditions.append(exp.Paren(this=failing.condition.copy()))
        fails = exp.or_(*conditions)
        wanted = set(self.failed[failing.check.id])
        if wanted == set(self.batches.batches) or batch_text(self.plan.model) is None:
            return fails
        names = [exp.Literal.string(b) for b in sorted(wanted)]
        return exp.and_(exp.In(this=column(ROW_BATCH), expressions=names), exp.Paren(this=fails))

    def _written(self, name: str) -> exp.Expr:
        """A column as JSON can hold it: of geometries the well-known binary, as hex digits."""
        textless = is_textless(type_of(name, self.batches.types))
        return call("hex", call("st_asbinary", column(name))) if textless else column(name)

"""The statement that splits the rows of batches into good ones and those to be quarantined.

A row is quarantined when it fails a check that routes. Where a check allows no row to fail, every
row that does is routed; where it tolerates some, rows are routed in the batches that it failed on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dqsql.compiler.keys import batch_text
from dqsql.compiler.lookups import with_matches
from dqsql.compiler.marked_rows import ROW_BATCH, MarkedRows
from dqsql.compiler.privacy import hashed
from dqsql.compiler.rowchecks import FailingRows
from dqsql.dialect import call, column, formula, literal
from dqsql.model.types import is_textless, type_of

FAILED_CHECKS = "dqsql_failed_checks"
QUARANTINED = "dqsql_quarantined"
# Columns that a model's SELECT must not have if its rows are to be split.
OWN_COLUMNS = frozenset({ROW_BATCH, FAILED_CHECKS, QUARANTINED})


@dataclass(frozen=True)
class SplitQuery(MarkedRows):
    """Builds the statement that says of each row which checks it fails.

    `failed` are the batches in which each check failed; `routing` the ids of the checks whose
    failing rows are quarantined. Of a batch in `whole` every row is, for the checks named there.
    `columns` are kept of a row.
    """

    failed: Mapping[str, Collection[str]]
    routing: Collection[str]
    columns: Sequence[str]
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def query(self) -> exp.Select:
        """The rows with batch, names of failed checks, and whether they are to be quarantined."""
        marks = [
            formula("case when {0} then {1} end", self._fails(f), literal(_name(f)))
            for f in self.failing
        ]
        routed = [self._fails(f) for f in self.failing if f.check.id in self.routing]
        for batch, names in self.whole.items():
            inside = exp.EQ(this=column(ROW_BATCH), expression=exp.Literal.string(batch))
            routed.append(inside)
            marks += [formula("case when {0} then {1} end", inside, literal(n)) for n in names]
        # An array of nothing has no type.
        none = formula("cast(array() as array<string>)")
        ids = call("array_compact", call("array", *marks)) if marks else none
        flag = call("coalesce", exp.Paren(this=exp.or_(*routed)), exp.false())
        query = exp.select(
            *(column(name) for name in self.columns),
            column(ROW_BATCH),
            exp.alias_(call("array_distinct", ids), FAILED_CHECKS, quoted=True),
            exp.alias_(flag if routed else exp.false(), QUARANTINED, quoted=True),
        )
        return with_matches(query.from_(self.rows().subquery("model_rows")))

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
            always.append(self._inside(exp.or_(*sometimes), batches))
        return exp.or_(*always) if always else exp.false()

    def _inside(self, condition: exp.Expr, batches: Collection[str]) -> exp.Expr:
        """The condition, of rows of some batches."""
        condition = exp.Paren(this=condition)
        if batch_text(self.plan.model) is None:
            return condition
        names = [exp.Literal.string(b) for b in sorted(batches)]
        inside = exp.In(this=column(ROW_BATCH), expressions=names)
        return exp.Paren(this=exp.and_(inside, condition))


def kept_columns(
    columns: Sequence[str], types: Mapping[str, str], private: Collection[str]
) -> list[exp.Expr]:
    """The columns as the tables hold them; those in `private` (in lower case) as keyed hashes."""
    return [exp.alias_(_kept(c, type_of(c, types), private), c, quoted=True) for c in columns]


def _kept(name: str, kind: str, private: Collection[str]) -> exp.Expr:
    if name.lower() in private:
        value = call("st_asbinary", column(name)) if is_textless(kind) else column(name)
        return hashed(exp.Cast(this=value, to=exp.DataType.build("string")))
    if kind == "void":
        return exp.Cast(this=column(name), to=exp.DataType.build("string"))
    return column(name)


def _name(failing: FailingRows) -> str:
    """The check's name with its column, without the model: `email.not_null`."""
    check = failing.check
    return check.id.removeprefix(f"{check.model}.")

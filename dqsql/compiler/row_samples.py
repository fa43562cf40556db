"""Statements that read rows to be compared with each other: a sample by batch, or all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dqsql.compiler.keys import as_json, row_number
from dqsql.compiler.marked_rows import ROW_BATCH, MarkedRows
from dqsql.dialect import aliased, as_type, call, column, formula, literal, parse_expression
from dqsql.model.types import is_number, type_of

ROW = "dqsql_row"
_RANK, _HASH = "dqsql_rank", "dqsql_hash"
_PARTS = 1_000_000
# So much more than the sample is ranked, since hashes do not fall quite evenly.
_SPARE = 2
_LONGEST = 200
_TEXTS = ("string", "char", "varchar", "boolean")
# Types of values that Spark hashes.
_UNHASHABLE = ("map<", "variant", "geometry", "geography", "interval")


def comparable(types: Mapping[str, str], without: Collection[str]) -> list[str]:
    """The columns whose values can be compared, but for those in `without` (in lower case)."""
    return [
        name
        for name, kind in types.items()
        if name.lower() not in without and _as_value(name, kind) is not None
    ]


def _as_value(name: str, kind: str) -> exp.Expr | None:
    """A column as a number or a text: of times, the hour of the day."""
    if is_number(kind):
        return as_type(column(name), "double")
    if kind.startswith("timestamp"):
        return formula("hour({0}) + minute({0}) / 60.0D", column(name))
    if kind.startswith(_TEXTS):
        text = as_type(column(name), "string")
        return call("left", text, literal(_LONGEST))
    return None


def compared_value(name: str, types: Mapping[str, str]) -> exp.Expr:
    """A column as it is compared."""
    return _as_value(name, type_of(name, types)) or column(name)


def is_textual(kind: str) -> bool:
    """Whether values of a Spark type are compared as texts."""
    return kind.startswith(_TEXTS)


@dataclass(frozen=True)
class RowSample(MarkedRows):
    """Builds statements that read `columns` of rows, as `comparable` names them.

    `where` restricts the rows.
    """

    columns: Sequence[str]
    where: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def sample(self, limit: int) -> exp.Select:
        """At most `limit` rows of each batch, the same ones whenever it runs.

        `sizes` are the batches' numbers of rows, where they are known: of large ones only a part,
        chosen by a hash of all values, is ranked.
        """
        hashed = [
            column(name)
            for name, kind in self.batches.types.items()
            if not any(word in kind for word in _UNHASHABLE)
        ]
        value = aliased(call("xxhash64", *hashed), _HASH)
        rows = self._values().select(value)
        share = {
            batch: int(_SPARE * limit * _PARTS / size)
            for batch, size in self.sizes.items()
            if size > _SPARE * limit
        }
        rank = row_number([ROW_BATCH], column(_HASH))
        ranked = exp.select(exp.Star(), aliased(rank, _RANK))
        ranked = ranked.from_(rows.subquery("values_of_rows"))
        if share:
            pairs = [literal(part) for pair in sorted(share.items()) for part in pair]
            part = formula(
                "pmod({0}, {1}) < coalesce({2}, {1})",
                column(_HASH),
                literal(_PARTS),
                call("element_at", call("map", *pairs), column(ROW_BATCH)),
            )
            ranked = ranked.where(part)
        query = exp.select(column(ROW_BATCH), *(column(name) for name in self.columns))
        query = query.from_(ranked.subquery("ranked"))
        return query.where(exp.LTE(this=column(_RANK), expression=literal(limit)))

    def whole(self, shown: Sequence[str]) -> exp.Select:
        """All rows, with the columns `shown` as JSON text beside the values."""
        text = as_json([aliased(column(name), name) for name in shown])
        return self._values().select(aliased(text, ROW))

    def _values(self) -> exp.Select:
        values = (aliased(compared_value(n, self.batches.types), n) for n in self.columns)
        query = exp.select(column(ROW_BATCH), *values).from_(self.rows().subquery("model_rows"))
        return query if self.where is None else query.where(parse_expression(self.where))

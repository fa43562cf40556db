"""The statements that compare the rows of two relations by key: `@matches_relation`.

First the rows of both fall into buckets by their keys, and each bucket has a checksum: one pass
over each relation, whatever they hold. Only rows of buckets whose checksums differ are then
compared, by a full join of their keys. So equal relations cost two scans, and a few differences
little more.

Floats that may differ by a tolerance enter checksums as the whole number of tolerances that they
hold. Two that differ by more always differ in it; two that do not may, and their bucket is looked
at. Whole numbers and decimals enter as they are, and their rows are compared without a rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from dqsql.compiler.aggregates.base import same_key
from dqsql.compiler.keys import as_json, by_hash, identifier_table, relation_table, row_number
from dqsql.compiler.trees import where_met
from dqsql.dialect import aliased, as_type, call, column, formula, literal
from dqsql.model.types import FLOATS, WHOLE_NUMBERS, is_number, is_textless, joint_digits

BATCH, BUCKET = "batch", "bucket"
MISSING, EXTRA, CHANGED = "missing", "extra", "changed"
DIFFERENCE, COLUMNS, ROW, COUNT = "difference", "columns", "row", "n"
BUCKETS = 1024

_LOW, _HIGH = "low", "high"
_KEY, _VALUE, _SUM = "k", "v", "s"
HERE, THERE = "here", "there"
_HERE_ROWS, _THERE_ROWS = "here_rows", "there_rows"
_RANK = "rank"
# Doubles hold so large whole numbers exactly.
_MOST = 1e15
_OURS, _THEIRS = "o", "t"
# The most that a decimal has.
_DIGITS = 38
_DIFFERENCE_TYPE = "decimal(20,0)"
_NEAR = "coalesce(abs(try_subtract({0}, {1})) <= {2}, false)"
# 3.02 is no further from 3.01 than 0.01, though the nearest doubles are: they are rounded by half
# of such a share.
_NEAR_FLOATS = (
    "coalesce(abs(cast({0} as double) - cast({1} as double))"
    " <= {2} + least({2}, {3} * (abs({0}) + abs({1}))), false)"
)
_PRECISIONS = {"float": 2.0**-23, "double": 2.0**-52}


@dataclass(frozen=True)
class ComparedColumn:
    """A column of both relations, and the Spark type in which its values are compared.

    `shown` is whether its values may be stored.
    """

    name: str
    spark_type: str
    shown: bool = True

    @property
    def is_number(self) -> bool:
        """Whether values may differ by a tolerance."""
        return is_number(self.spark_type)

    def exact(self, node: exp.Expr) -> exp.Expr:
        """A value to subtract: of whole numbers as a decimal, in which every difference fits."""
        is_whole = self.spark_type in WHOLE_NUMBERS
        return as_type(node.copy(), _DIFFERENCE_TYPE) if is_whole else node.copy()

    @property
    def is_float(self) -> bool:
        """Whether values are rounded to the nearest number that there is."""
        return self.spark_type in FLOATS


@dataclass(frozen=True)
class ComparedSide:
    """One of the two relations: its rows, and the batch of a row as text; None for no batches."""

    relation: str
    batch: exp.Expr | None
    condition: exp.Expr | None = None


@dataclass(frozen=True)
class RelationDiff:
    """Compares two relations: the check model and another.

    `keys` name a row in both; `values` are compared of rows with the same keys, numbers within
    `tolerance`.
    """

    ours: ComparedSide
    theirs: ComparedSide
    keys: tuple[ComparedColumn, ...]
    values: tuple[ComparedColumn, ...]
    tolerance: float = 0.0

    def _tolerance(self, value: ComparedColumn) -> exp.Expr:
        """The tolerance: of decimals as one, as it was written, where it has no more digits."""
        text = f"{Decimal(repr(self.tolerance)):f}"
        is_decimal = not value.is_float and len(text.replace(".", "")) <= _DIGITS
        return exp.Literal.number(text) if is_decimal else literal(self.tolerance)

    # --- buckets -------------------------------------------------------------------------------

    def buckets(self) -> exp.Select:
        """A row for each batch: the rows of both sides, and the buckets that are not the same."""
        ours, theirs = (self._checksums(side).subquery(name) for side, name in self._sides())
        on = same_key(_OURS, _THEIRS, (BATCH, BUCKET))
        differs = exp.or_(
            *(
                exp.Not(this=exp.Paren(this=_same(column(n, _OURS), column(n, _THEIRS))))
                for n in (COUNT, _LOW, _HIGH)
            )
        )
        batch, bucket = (
            call("coalesce", column(n, _OURS), column(n, _THEIRS)) for n in (BATCH, BUCKET)
        )
        here, there = (
            formula("coalesce(sum({0}), 0)", column(COUNT, name)) for _, name in self._sides()
        )
        query = exp.select(
            aliased(batch, BATCH),
            aliased(here, HERE),
            aliased(there, THERE),
            aliased(call("collect_list", where_met(differs, bucket)), BUCKET),
        )
        query = query.from_(ours).join(theirs, on=on, join_type="full")
        return query.group_by(batch.copy())

    def _sides(self) -> tuple[tuple[ComparedSide, str], tuple[ComparedSide, str]]:
        return (self.ours, _OURS), (self.theirs, _THEIRS)

    def _checksums(self, side: ComparedSide) -> exp.Select:
        """One row a batch and bucket: how many rows, and sums of their hashes.

        Sums, since rows that are there twice would cancel in an exclusive or; of halves, which do
        not overflow.
        """
        rows = self._rows(side)
        keys = [column(_name(_KEY, i)) for i in range(len(self.keys))]
        values = [self._rounded(v, column(_name(_VALUE, i))) for i, v in enumerate(self.values)]
        hashed = exp.select(
            column(BATCH),
            aliased(self._bucket(keys), BUCKET),
            aliased(_hashed((*self.keys, *self.values), (*keys, *values)), _LOW),
        ).from_(rows.subquery("rows"))
        return (
            exp.select(column(BATCH), column(BUCKET), *_checksum(column(_LOW)))
            .from_(hashed.subquery("hashed"))
            .group_by(column(BATCH), column(BUCKET))
        )

    def _bucket(self, keys: Sequence[exp.Expr]) -> exp.Expr:
        return call("pmod", call("xxhash64", *(k.copy() for k in keys)), literal(BUCKETS))

    def _rounded(self, value: ComparedColumn, node: exp.Expr) -> exp.Expr:
        if not (self.tolerance and value.is_float):
            return node
        # What is no number, or too large to be counted in tolerances, must be the same.
        return formula(
            "case when isnan({0}) or abs({0}) > {2} then {0} else floor({0} / {1}) end",
            as_type(node, "double"),
            literal(self.tolerance),
            literal(self.tolerance * _MOST),
        )

    def _rows(self, side: ComparedSide) -> exp.Select:
        """Batch, keys and values of a side's rows, in the types in which they are compared."""
        batch = as_type(exp.Null(), "string")
        query = exp.select(aliased(side.batch or batch, BATCH))
        for prefix, columns in ((_KEY, self.keys), (_VALUE, self.values)):
            query = query.select(
                *(aliased(_typed(c), _name(prefix, i)) for i, c in enumerate(columns))
            )
        query = query.from_(relation_table(side.relation))
        return query if side.condition is None else query.where(side.condition)

    # --- rows ----------------------------------------------------------------------------------

    def differences(self, buckets: str | None) -> exp.Select:
        """The keys whose rows differ: batch, kind, how many rows, names of changed columns, JSON.

        `buckets` names the view of the batches and buckets to look at; None for all.
        """
        ours, theirs = (self._by_key(s, buckets).subquery(name) for s, name in self._sides())
        names = [BATCH, *(_name(_KEY, i) for i in range(len(self.keys)))]
        on = same_key(_OURS, _THEIRS, names)
        either = (aliased(call("coalesce", column(n, _OURS), column(n, _THEIRS)), n) for n in names)
        numbers = (
            aliased(call("coalesce", column(COUNT, t), literal(0)), n)
            for t, n in ((_OURS, _HERE_ROWS), (_THEIRS, _THERE_ROWS))
        )
        changed = aliased(self._changed(), COLUMNS)
        joined = exp.select(*either, *numbers, changed, *self._structs())
        joined = joined.from_(ours).join(theirs, on=on, join_type="full")
        here, there = column(_HERE_ROWS), column(_THERE_ROWS)
        kind = formula(
            "case when {0} < {1} then {2} when {0} > {1} then {3} when size({4}) > 0 then {5} end",
            *(here, there, literal(MISSING), literal(EXTRA), column(COLUMNS), literal(CHANGED)),
        )
        rows = formula("case when {0} = {1} then {0} else abs({0} - {1}) end", here, there)
        comparison = exp.select(
            column(BATCH),
            column(COLUMNS),
            aliased(kind, DIFFERENCE),
            aliased(rows, COUNT),
            aliased(self._json(kind), ROW),
        ).from_(joined.subquery("joined"))
        condition = exp.Not(this=exp.Is(this=column(DIFFERENCE), expression=exp.Null()))
        return exp.select(exp.Star()).from_(comparison.subquery("told")).where(condition)

    def _by_key(self, side: ComparedSide, buckets: str | None) -> exp.Select:
        """One row a batch and key: how many rows, the values of one of them, checksums of all."""
        rows = self._rows(side).subquery("rows")
        keys = [column(_name(_KEY, i), "rows") for i in range(len(self.keys))]
        query = exp.select(
            aliased(column(BATCH, "rows"), BATCH),
            *(aliased(k, k.name) for k in keys),
            aliased(call("count", exp.Star()), COUNT),
        )
        for i, compared in enumerate(self.values):
            value = column(_name(_VALUE, i), "rows")
            query = query.select(
                aliased(call("any_value", value), _name(_VALUE, i)),
                aliased(_low_sum(_hashed([compared], [value.copy()])), _name(_SUM, i)),
                copy=False,
            )
        query = query.from_(rows)
        if buckets is not None:
            wanted = exp.and_(
                _same(column(BATCH, "rows"), column(BATCH, "wanted")),
                exp.EQ(this=self._bucket(keys), expression=column(BUCKET, "wanted")),
            )
            table = exp.alias_(identifier_table(buckets), "wanted", table=True)
            query = query.join(table, on=wanted, join_type="left semi")
        return query.group_by(column(BATCH, "rows"), *(k.copy() for k in keys))

    def _changed(self) -> exp.Expr:
        """The names of the columns whose values differ, of a key that both sides have."""
        names = [
            where_met(self._differs(i, value), literal(value.name))
            for i, value in enumerate(self.values)
        ]
        return call("array_compact", call("array", *names)) if names else formula("array()")

    def _differs(self, place: int, value: ComparedColumn) -> exp.Expr:
        here, there = (column(_name(_VALUE, place), side) for side in (_OURS, _THEIRS))
        same = _same(here, there)
        if self.tolerance and value.is_number:
            near = _NEAR_FLOATS if value.is_float else _NEAR
            precision = literal(_PRECISIONS.get(value.spark_type, 0.0))
            operands = (*map(value.exact, (here, there)), self._tolerance(value), precision)
            same = exp.or_(same, formula(near, *operands))
        sums = (column(_name(_SUM, place), side) for side in (_OURS, _THEIRS))
        # Rows that share a key are not told apart: what they hold together is compared.
        return formula(
            "case when {0} = 1 and {1} = 1 then not ({2}) else not ({3}) end",
            *(column(COUNT, _OURS), column(COUNT, _THEIRS), same, _same(*sums)),
        )

    def _structs(self) -> list[exp.Expr]:
        """The values of both sides that may be shown; null where a side has no such key."""
        structs = []
        for side, name in ((_OURS, HERE), (_THEIRS, THERE)):
            values = [
                aliased(column(_name(_VALUE, i), side), v.name)
                for i, v in enumerate(self.values)
                if v.shown
            ]
            if values:
                there = formula("{0} is not null", column(COUNT, side))
                struct = where_met(there, call("struct", *values))
                structs.append(aliased(struct, name))
        return structs

    def _json(self, kind: exp.Expr) -> exp.Expr:
        parts: list[exp.Expr] = [aliased(kind.copy(), DIFFERENCE), column(COLUMNS)]
        parts += [
            aliased(column(_name(_KEY, i)), key.name)
            for i, key in enumerate(self.keys)
            if key.shown
        ]
        parts += [column(s.alias) for s in self._structs()]
        return as_json(parts)


def counted_differences(view: str, values: Sequence[ComparedColumn]) -> exp.Select:
    """By batch and kind how many rows differ, and in how many each value does."""
    query = exp.select(
        column(BATCH), column(DIFFERENCE), aliased(call("sum", column(COUNT)), COUNT)
    )
    for i, value in enumerate(values):
        inside = call("array_contains", column(COLUMNS), literal(value.name))
        changed = formula("sum(case when {0} then {1} else 0 end)", inside, column(COUNT))
        query = query.select(aliased(changed, _name(_VALUE, i)), copy=False)
    return query.from_(identifier_table(view)).group_by(column(BATCH), column(DIFFERENCE))


def changed_counts(row: object, values: Sequence[ComparedColumn]) -> dict[str, int]:
    """How many rows differ in each value, by its name, in a row of `counted_differences`."""
    assert isinstance(row, dict)
    return {v.name: int(n) for i, v in enumerate(values) if (n := row[_name(_VALUE, i)])}


def sampled_differences(view: str, limit: int) -> exp.Select:
    """At most `limit` differing rows of each batch, the same ones whenever it is asked."""
    rank = aliased(row_number([BATCH], *by_hash(ROW)), _RANK)
    ranked = exp.select(column(BATCH), column(ROW), rank)
    ranked = ranked.from_(identifier_table(view))
    query = exp.select(column(BATCH), column(ROW)).from_(ranked.subquery("ranked"))
    return query.where(exp.LTE(this=column(_RANK), expression=literal(limit)))


def compared_type(ours: str, theirs: str) -> str:
    """The Spark type in which values of two types are compared, without loss where there is one."""
    types = {ours, theirs}
    if any(is_textless(t) for t in types):
        return "binary"
    if ours == theirs and not ours.startswith(("map", "variant")) and "map<" not in ours:
        return ours
    if types <= WHOLE_NUMBERS:
        return "bigint"
    if types & FLOATS and all(is_number(t) for t in types):
        return "double"
    if all(is_number(t) for t in types):
        # The decimal that holds the values of decimals and whole numbers. Where none does, it holds
        # all whole parts: one that did not fit would be null, on both sides.
        whole, scale = joint_digits(types)
        return f"decimal({min(whole + scale, _DIGITS)},{min(scale, _DIGITS - whole)})"
    if types <= {"date", "timestamp", "timestamp_ntz"}:
        return "timestamp" if "timestamp" in types else "timestamp_ntz"
    return "string"


def _typed(column_: ComparedColumn) -> exp.Expr:
    # A struct has the same type on both sides; what Spark calls it need not be SQL.
    if column_.spark_type == "binary" or "struct<" in column_.spark_type:
        return column(column_.name)
    return as_type(column(column_.name), column_.spark_type)


def _checksum(hashed: exp.Expr) -> list[exp.Expr]:
    low = _low_sum(hashed)
    high = formula("sum(shiftrightunsigned({0}, 32))", hashed.copy())
    return [aliased(call("count", exp.Star()), COUNT), aliased(low, _LOW), aliased(high, _HIGH)]


def _low_sum(hashed: exp.Expr) -> exp.Expr:
    return formula("sum({0} & 4294967295)", hashed)


def _hashed(columns: Iterable[ComparedColumn], values: Sequence[exp.Expr]) -> exp.Expr:
    """A hash of values of columns.

    Spark's own leaves nulls out, so that (a, null) would be (null, a), also within arrays and
    structs.
    """
    empty = (exp.Paren(this=exp.Is(this=v.copy(), expression=exp.Null())) for v in values)
    # -0.0 is 0.0 wherever it stands.
    nested = (
        formula(
            "replace(to_json(named_struct('value', {0}), map('ignoreNullFields', 'false')),"
            " '-0.0', '0.0')",
            v.copy(),
        )
        for v, c in zip(values, columns, strict=True)
        if "<" in c.spark_type
    )
    return call("xxhash64", *values, *empty, *nested)


def _same(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.NullSafeEQ(this=one, expression=other)


def _name(prefix: str, place: int) -> str:
    return f"{prefix}{place}"

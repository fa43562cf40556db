"""The statement that counts trigrams of texts, and how peculiar they are.

Of a trigram xyz the index of peculiarity is 1/2 (ln n(xy) + ln n(yz)) - ln n(xyz), with n the
counts among all values of the column in the batch (Morris & Cherry, "Computer detection of
typographical errors", IEEE Transactions on Professional Communication 18(1), 1975); of a text, the
root mean square over its trigrams (Redyuk et al., "Automating Data Quality Validation for Dynamic
Data Ingestion", EDBT 2021, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.aggregates.frequency_scan import TABLE, VALUE, FrequencyScan, N
from dqsql.compiler.keys import SEGMENT, not_null, union_all
from dqsql.dialect import aliased, call, column, formula
from dqsql.model.plan import Entries, FrequencyTable

# Characters of a value that are looked at, so that long texts need bounded memory.
_MAX_TEXT = 1_000
_PECULIARITY = "peculiarity"
_PLACE = "dqsql_place"
_FIRST = "dqsql_first"
_LAST = "dqsql_last"


@dataclass(frozen=True)
class TrigramScan(FrequencyScan):
    """Counts trigrams of columns, all in one pass over the rows.

    Distinct texts are counted first, and only they are cut up. Each of their characters is the
    middle of two bigrams, of which the first is missing at the start of a text and the last at its
    end; counting such pairs gives the counts of bigrams and trigrams alike. Aggregates read the
    columns `n`, `value` and `peculiarity`: of the trigrams, or by text (`by_text`) of the texts
    with at least one, whose trigrams are looked up in the counts.
    """

    by_text: bool = False

    def query(self) -> exp.Select:
        """One row per batch and segment, as `Scan.query` gives it."""
        texts = self._counts()
        if not self.scan.segments:
            return self._aggregates(self._rows(texts, self._batch_key), ())
        fine = self._rows(texts, (*self._batch_key, SEGMENT))
        return union_all(
            self._aggregates(fine, (SEGMENT,)),
            self._aggregates(self._rows(self._summed(texts), self._batch_key), ()),
        )

    def _storable(self) -> exp.Select:
        """Texts, or the places of characters as texts (see `_encoded`), with their counts."""
        texts, keys = self._counts(), (*self._keys, TABLE)
        return texts if self.by_text else _encoded(_counted(_places(texts, keys), keys), keys)

    def _value(self, table: FrequencyTable) -> exp.Expr:
        return formula(f"left({{0}}, {_MAX_TEXT})", super()._value(table))

    def _rows(self, texts: exp.Select, keys: Sequence[str]) -> exp.Select:
        keys = (*keys, TABLE)
        places = _places(texts, keys)
        return _by_text(places, keys) if self.by_text else _peculiar(_counted(places, keys), keys)


def peculiar_entries(entries: Entries, stored: exp.Select, keys: Sequence[str]) -> exp.Select:
    """The rows that aggregates over trigrams read, from stored counts that were added up.

    `stored` has the columns `keys`, none of them null, value and n.
    """
    if entries is Entries.TRIGRAMS:
        return _peculiar(_decoded(stored, keys), keys)
    return _by_text(_places(stored, keys), keys)


def _encoded(pairs: exp.Select, keys: Sequence[str]) -> exp.Select:
    """Places of characters as texts: `^ab` begins a text, `$yz` ends one, `=abc` lies between."""
    text = formula(
        "case when {0} is null then concat('^', {1}) when {1} is null then concat('$', {0})"
        " else concat('=', {0}, right({1}, 1)) end",
        column(_FIRST),
        column(_LAST),
    )
    query = exp.select(*map(column, keys), aliased(text, VALUE), column(N))
    return query.from_(pairs.subquery("pairs"))


def _decoded(stored: exp.Select, keys: Sequence[str]) -> exp.Select:
    """`_encoded` undone."""
    first = formula("case when left({0}, 1) <> '^' then substr({0}, 2, 2) end", column(VALUE))
    last = formula(
        "case left({0}, 1) when '^' then substr({0}, 2, 2) when '=' then substr({0}, 3, 2) end",
        column(VALUE),
    )
    pairs = aliased(first, _FIRST), aliased(last, _LAST)
    return exp.select(*map(column, keys), *pairs, column(N)).from_(stored.subquery("stored"))


def _places(texts: exp.Select, keys: Sequence[str]) -> exp.Select:
    """One row per character of each text: the bigrams that it ends and begins."""
    names = (*keys, VALUE, N)
    place = call("explode", formula("sequence(1, length({0}))", column(VALUE)))
    middles = exp.select(*map(column, names), aliased(place, _PLACE))
    middles = middles.from_(texts.copy().subquery("texts"))
    middles = middles.where(formula("length({0}) > 1", column(VALUE)))
    operands = column(VALUE), column(_PLACE)
    first = formula("case when {1} > 1 then substr({0}, {1} - 1, 2) end", *operands)
    last = formula("case when {1} < length({0}) then substr({0}, {1}, 2) end", *operands)
    pairs = aliased(first, _FIRST), aliased(last, _LAST)
    return exp.select(*map(column, names), *pairs).from_(middles.subquery("middles"))


def _counted(places: exp.Select, keys: Sequence[str]) -> exp.Select:
    names = (*keys, _FIRST, _LAST)
    query = exp.select(*map(column, names))
    query = query.select(aliased(call("sum", column(N)), N))
    return query.from_(places.subquery("places")).group_by(*map(column, names))


def _peculiar(pairs: exp.Select, keys: Sequence[str]) -> exp.Select:
    """Trigrams with their counts and their index."""

    def count_by(name: str) -> exp.Expr:
        parts = [column(k) for k in (*keys, name)]
        return exp.Window(this=call("sum", column(N)), partition_by=parts)

    index = formula(
        "(ln({0}) + ln({1})) / 2 - ln({2})", count_by(_FIRST), count_by(_LAST), column(N)
    )
    query = exp.select(*map(column, (*keys, _FIRST, _LAST, N)))
    query = query.select(aliased(index, _PECULIARITY)).from_(pairs.subquery("pairs"))
    text = formula("concat({0}, right({1}, 1))", column(_FIRST), column(_LAST))
    names = (*keys, _FIRST, _LAST, N, _PECULIARITY)
    trigrams = exp.select(*map(column, names), aliased(text, VALUE))
    whole = exp.and_(not_null(column(_FIRST)), not_null(column(_LAST)))
    return trigrams.from_(query.subquery("indexed")).where(whole)


def _by_text(places: exp.Select, keys: Sequence[str]) -> exp.Select:
    """Texts with their counts and the root mean square over their trigrams."""
    trigrams = _peculiar(_counted(places, keys), keys)
    names = (*keys, _FIRST, _LAST)
    same = exp.and_(
        *(exp.EQ(this=column(k, "places"), expression=column(k, "trigrams")) for k in names)
    )
    mean = formula("sqrt(avg({0} * {0}))", column(_PECULIARITY, "trigrams"))
    grouped = [column(k, "places") for k in (*keys, VALUE, N)]
    query = exp.select(*grouped, aliased(mean, _PECULIARITY))
    query = query.from_(places.copy().subquery("places"))
    query = query.join(trigrams.subquery("trigrams"), on=same)
    return query.group_by(*(g.copy() for g in grouped))

"""Rules about several columns: foreign keys, functional dependencies, the order of dates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from dqsql.model.plain_names import plain_name, plain_relation
from dqsql.suggestions.names import singular_of, words
from dqsql.suggestions.profiles import ColumnProfile, Kind, Profile
from dqsql.suggestions.rules import MIN_ROWS, SKETCH_ERROR, WARN
from dqsql.suggestions.suggestion import Suggestion

# At most so many foreign keys and dependencies are suggested, the best first.
_MAX_FOUND = 10
# A dependency must be this unlikely to be chance.
_CHANCE = 1e-9
# Each key that is verified exactly is one more join of the rows.
_MOST_KEYS = 3
# Sketches are counted for at most so many sets of columns.
_MAX_SETS = 150
_MAX_CATEGORICAL = 8
_PLAIN_WORDS = frozenset({"id", "key", "code", "no", "nr", "number", "fk", "pk", "name", "type"})


# --- foreign keys ------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyColumn:
    """A column of another relation whose values are unique there."""

    relation: str
    table: str
    column: str
    spark_type: str
    distinct: float
    sketch: bytes


def is_key(column: ColumnProfile) -> bool:
    """Whether the values may be the key of a relation."""
    if column.distinct is None or not column.rows or column.count != column.rows:
        return False
    return abs(1 - column.distinct / column.rows) <= SKETCH_ERROR and column.kind in (
        Kind.INTEGER,
        Kind.TEXT,
    )


def foreign_key_pairs(
    profile: Profile, table: str, keys: Sequence[KeyColumn]
) -> list[tuple[ColumnProfile, KeyColumn]]:
    """Columns and keys of other relations that they might refer to, before sketches are asked.

    Types must be the same, since sketches are of typed values. Small whole numbers lie in the range
    of any numbered key, so that there the names must agree.
    """
    pairs = []
    for column in profile.columns:
        if column.distinct is None or column.distinct < 2 or column.count < MIN_ROWS:
            continue
        if column.kind not in (Kind.INTEGER, Kind.TEXT):
            continue
        for key in keys:
            if key.spark_type != column.spark_type or key.distinct < column.distinct * 0.97:
                continue
            numbers = column.kind is Kind.INTEGER or column.detected == "integral"
            if _names_agree(column.name, table, key) or (not numbers and column.distinct >= 3):
                pairs.append((column, key))
    return pairs


def _names_agree(column: str, table: str, key: KeyColumn) -> bool:
    own = {singular_of(w) for w in words(column)} - _PLAIN_WORDS
    other = {singular_of(w) for w in (*words(key.table), *words(key.column))} - _PLAIN_WORDS
    return bool(own & (other - {singular_of(w) for w in words(table)}))


def foreign_key(
    column: ColumnProfile, key: KeyColumn, union: float, own: float
) -> Suggestion | None:
    """A reference where the key's values hold the column's: the union adds nothing.

    `union` is about how many distinct values both have together, `own` those of the key's sketch
    in union with itself. A union with a subset leaves the registers as they are, and with them the
    estimate, whatever the sketches' error.
    """
    if union > own:
        return None
    name = plain_name(column.name)
    relation = plain_relation(key.relation)
    arguments = (relation, plain_name(key.column))
    return Suggestion(
        "ForeignKey",
        f"references {key.relation}",
        column.name,
        "references",
        f"about {column.about_distinct:,.0f} values, all among the {key.distinct:,.0f} of"
        f" {key.relation}.{key.column}",
        arguments=arguments,
        coverage=f"1 - orphan_ratio({name}, {relation}, {plain_name(key.column)})",
    )


def foreign_keys(
    table: str,
    pairs: Sequence[tuple[ColumnProfile, KeyColumn]],
    unions: Sequence[float],
    owns: Sequence[float],
) -> list[Suggestion]:
    """One suggestion for each column that a key holds, by its sketch.

    Sketches err, so that the exact count may refute a key: others that hold the column follow as
    weaker forms. Keys whose names agree with the column's come first. For each pair of a column and
    a key, `unions` is the number of distinct values of both, `owns` that of the key's sketch by
    itself.
    """
    by_column: dict[str, list[tuple[bool, Suggestion]]] = {}
    for (column, key), union, own in zip(pairs, unions, owns, strict=True):
        suggestion = foreign_key(column, key, union, own)
        if suggestion is not None:
            is_guess = not _names_agree(column.name, table, key)
            suggestion = replace(suggestion, is_guess=is_guess)
            by_column.setdefault(column.name, []).append((is_guess, suggestion))
    chains = []
    for ranked in by_column.values():
        tried = [s for _, s in sorted(ranked, key=lambda r: r[0])][:_MOST_KEYS]
        chain = tried.pop()
        while tried:
            chain = replace(tried.pop(), weaker=chain)
        chains.append(chain)
    return chains


# --- functional dependencies -------------------------------------------------------------------


@dataclass(frozen=True)
class Dependency:
    """The columns of `determinant` may fix the value of `dependent`."""

    determinant: tuple[str, ...]
    dependent: str


def dependency_candidates(profile: Profile) -> list[Dependency]:
    """Dependencies worth counting: one determinant, or two categorical ones."""
    columns = [c for c in profile.columns if _may_determine(c, profile.rows)]
    single = [
        Dependency((a.name,), b.name)
        for a, b in permutations(columns, 2)
        if (b.distinct or 0) >= 2 and (b.distinct or 0) <= (a.distinct or 0) * 1.02
    ]
    few = sorted(
        (c for c in columns if c.distribution is not None), key=lambda c: c.distinct or 0.0
    )[-_MAX_CATEGORICAL:]
    double = [
        Dependency((a.name, b.name), c.name)
        for a, b in combinations(few, 2)
        for c in few
        if c not in (a, b) and (c.distinct or 0) >= 2
    ]
    return [*single[:_MAX_SETS], *double[:_MAX_SETS]]


def _may_determine(column: ColumnProfile, rows: int) -> bool:
    """Many rows a value, so that a dependency can be told from chance; no missing values."""
    if column.distinct is None or column.count != rows or rows < MIN_ROWS:
        return False
    return column.kind in (Kind.INTEGER, Kind.TEXT) and 2 <= column.distinct <= rows / 5


def column_sets(candidates: Sequence[Dependency]) -> list[tuple[str, ...]]:
    """The sets of columns whose distinct values must be counted, each once and sorted."""
    sets: dict[tuple[str, ...], None] = {}
    for dependency in candidates:
        sets[tuple(sorted((*dependency.determinant, dependency.dependent)))] = None
        if len(dependency.determinant) > 1:
            sets[tuple(sorted(dependency.determinant))] = None
    return list(sets)


def dependencies(
    profile: Profile, candidates: Sequence[Dependency], distinct: Mapping[tuple[str, ...], float]
) -> list[Suggestion]:
    """The dependencies that hold by the sketches and are no chance, the surest first."""
    known = {(c.name,): c.distinct or 0.0 for c in profile.columns} | dict(distinct)
    held: list[tuple[float, Dependency]] = []
    simple: set[tuple[str, str]] = set()
    for dependency in candidates:
        before = known[tuple(sorted(dependency.determinant))]
        both = known[tuple(sorted((*dependency.determinant, dependency.dependent)))]
        if both > before * 1.005:
            continue
        if any((d, dependency.dependent) in simple for d in dependency.determinant):
            continue
        chance = _log_chance(profile.column(dependency.dependent), profile.rows, before)
        if chance > math.log(_CHANCE):
            continue
        if len(dependency.determinant) == 1:
            simple.add((dependency.determinant[0], dependency.dependent))
        held.append((chance, dependency))
    held.sort(key=lambda h: (len(h[1].determinant), h[0]))
    return [_dependency(dependency, profile) for _, dependency in held[:_MAX_FOUND]]


def _log_chance(dependent: ColumnProfile, rows: int, groups: float) -> float:
    """The logarithm of an upper bound on the probability that independent columns look so."""
    values = dependent.distribution
    share = values.counts[0] / values.total if values and values.total else 0.5
    return max(0.0, rows - groups) * math.log(share) if share < 1 else 0.0


def _dependency(dependency: Dependency, profile: Profile) -> Suggestion:
    names = ", ".join(plain_name(d) for d in dependency.determinant)
    shown = " and ".join(dependency.determinant)
    condition = (
        f"count_distinct({names}, {plain_name(dependency.dependent)}) = count_distinct({names})"
    )
    return Suggestion(
        "FunctionalDependency",
        "expect",
        None,
        "expect",
        f"{shown} {'determine' if len(dependency.determinant) > 1 else 'determines'}"
        f" {dependency.dependent} in {profile.rows:,} rows",
        arguments=(condition,),
        settings=WARN,
        takes_column=False,
    )


# --- the order of dates ------------------------------------------------------------------------


def date_orders(profile: Profile) -> Iterator[Suggestion]:
    """One date or time that is never after another."""
    for order in profile.orders:
        if order.both < MIN_ROWS or order.equal == order.both:
            continue
        if order.ordered == order.both:
            first, second = order.first, order.second
        elif order.ordered == order.equal:
            first, second = order.second, order.first
        else:
            continue
        a, b = plain_name(first), plain_name(second)
        premise, condition = f"{a} is not null and {b} is not null", f"{a} <= {b}"
        yield Suggestion(
            "DateOrder",
            "satisfies_if",
            None,
            "satisfies_if",
            f"{first} is never after {second} in {order.both:,} rows",
            arguments=(premise, condition),
            takes_column=False,
            coverage=f"compliance(not ({premise}) or {condition})",
        )

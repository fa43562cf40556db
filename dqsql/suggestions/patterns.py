"""Patterns that were learned elsewhere, as suggestions."""

from __future__ import annotations

from dqsql.dialect import literal, quoted, to_sql
from dqsql.suggestions.profiles import ColumnProfile, Kind
from dqsql.suggestions.rules import MAX_CATEGORIES, MIN_ROWS, stands_in_comment
from dqsql.suggestions.suggestion import Suggestion


def wants_pattern(column: ColumnProfile) -> bool:
    """Whether a pattern may say something: texts that are no categories and no numbers."""
    if column.kind is not Kind.TEXT or column.count < MIN_ROWS or column.detected is not None:
        return False
    values = column.distribution
    return values is None or not values.complete or len(values.values) > MAX_CATEGORIES


def pattern_suggestion(
    column: ColumnProfile, pattern: str, regex: str, coverage: int, nonconforming: float
) -> Suggestion | None:
    """A learned pattern as a check; None where it cannot stand in a comment.

    `pattern` is in printable form, `regex` its Java regular expression, `coverage` the number of
    columns of the index that it is known from, `nonconforming` the share of training values in
    [0, 1] that do not match.
    """
    if nonconforming > 0 or not pattern_fits(pattern):
        return None
    name = quoted(column.name)
    return Suggestion(
        "Pattern",
        "pattern",
        column.name,
        "pattern",
        f"all values match; known from {coverage:,} columns",
        arguments=(to_sql(literal(pattern)),),
        coverage=f"compliance({name} is null or {name} rlike {to_sql(literal(regex))})",
    )


def pattern_fits(pattern: str) -> bool:
    """Whether a pattern can stand in a comment: its braces must not look like Jinja's."""
    plain = pattern.replace("{", "").replace("}", "")
    jinja = any(two in pattern for two in ("{{", "{%", "{#"))
    return stands_in_comment(plain) and not jinja

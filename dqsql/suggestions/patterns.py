"""Patterns that were learned elsewhere, as suggestions."""

from __future__ import annotations

from dqsql.dialect import literal, quoted, to_sql
from dqsql.suggestions.profiles import ColumnProfile, Kind
from dqsql.suggestions.rules import MAX_CATEGORIES, MIN_ROWS, stands_in_comment
from dqsql.suggestions.suggestion import Suggestion

_MAX_ALTERNATIVES = 3


def wants_pattern(column: ColumnProfile) -> bool:
    """Whether a pattern may say something: texts that are no categories and no numbers."""
    if column.kind is not Kind.TEXT or column.count < MIN_ROWS or column.detected is not None:
        return False
    if column.private:
        # A pattern may spell out what all values have in common.
        return False
    values = column.distribution
    return values is None or not values.complete or len(values.values) > MAX_CATEGORIES


def pattern_suggestion(
    column: ColumnProfile, pattern: str, regex: str, risk: float, nonconforming: float
) -> Suggestion | None:
    """A learned pattern as a check; None where it cannot stand in a comment.

    `pattern` is in printable form, `regex` its Java regular expression, `risk` the probability of a
    false alarm in [0, 1], `nonconforming` the share of training values in [0, 1] that do not match.
    Patterns of more than three alternatives are lists of values or forms, not formats.
    """
    if nonconforming > 0 or pattern.count("<|>") >= _MAX_ALTERNATIVES or not pattern_fits(pattern):
        return None
    name = quoted(column.name)
    return Suggestion(
        "Pattern",
        "pattern",
        column.name,
        "pattern",
        f"all values match; the risk of a false alarm is about {risk:.1%}",
        arguments=(to_sql(literal(pattern)),),
        coverage=f"compliance({name} is null or {name} rlike {to_sql(literal(regex))})",
    )


def pattern_fits(pattern: str) -> bool:
    """Whether a pattern can stand in a comment: its braces must not look like Jinja's."""
    plain = pattern.replace("{", "").replace("}", "")
    jinja = any(two in pattern for two in ("{{", "{%", "{#"))
    return stands_in_comment(plain) and not jinja

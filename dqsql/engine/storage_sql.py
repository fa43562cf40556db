"""Conditions and literals for the tables that Spark reads and writes."""

from __future__ import annotations

from collections.abc import Collection

from dqsql.dialect import quoted
from dqsql.engine.storage_base import Where


def among(name: str, values: Collection[str]) -> str:
    """The SQL condition that a text expression has one of some values; false without any."""
    if not values:
        return "false"
    return f"{name} in ({', '.join(text_literal(v) for v in sorted(set(values)))})"


def text_literal(value: str) -> str:
    """A text as a Spark SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def condition_of_where(where: Where) -> str:
    """The SQL condition that all of `where` holds."""
    parts = (
        f"{quoted(name)} is null" if values is None else among(quoted(name), values)
        for name, values in where.items()
    )
    return " and ".join(parts) or "true"

"""Spark's types by the names that `simpleString` gives them: `bigint`, `decimal(10,2)`."""

from __future__ import annotations

from collections.abc import Mapping

WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_SPATIAL = ("geometry", "geography")


def is_number(spark_type: str) -> bool:
    """Whether values are numbers: whole ones, floats or decimals, no booleans."""
    return spark_type in WHOLE_NUMBERS or spark_type in FLOATS or spark_type.startswith("decimal")


def is_textless(spark_type: str) -> bool:
    """Whether Spark casts values to no text."""
    return spark_type.startswith(_SPATIAL)


def type_of(name: str, types: Mapping[str, str]) -> str:
    """The type of a column, whose name may be written in other case; "" where it is not known."""
    if name in types:
        return types[name]
    return next((kind for known, kind in types.items() if known.lower() == name.lower()), "")

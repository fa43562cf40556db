"""Spark's types by the names that `simpleString` gives them: `bigint`, `decimal(10,2)`."""

from __future__ import annotations

import re
from collections.abc import Mapping

# How many digits a whole number has at most.
_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
WHOLE_NUMBERS = frozenset(_WHOLE_DIGITS)
FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_SPATIAL = ("geometry", "geography")


def is_number(spark_type: str) -> bool:
    """Whether values are numbers: whole ones, floats or decimals, no booleans."""
    return spark_type in WHOLE_NUMBERS or spark_type in FLOATS or spark_type.startswith("decimal")


def digits_of(spark_type: str) -> tuple[int, int] | None:
    """The precision and scale of a decimal or whole number; None of other types."""
    if spark_type in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[spark_type], 0
    match = _DECIMAL.fullmatch(spark_type)
    return None if match is None else (int(match[1]), int(match[2]))


def is_text(spark_type: str) -> bool:
    """Whether values are texts, also with a collation or a length."""
    return spark_type.startswith(("string", "varchar", "char"))


def is_textless(spark_type: str) -> bool:
    """Whether Spark casts values to no text."""
    return spark_type.startswith(_SPATIAL)


def type_of(name: str, types: Mapping[str, str]) -> str:
    """The type of a column, whose name may be written in other case; "" where it is not known."""
    if name in types:
        return types[name]
    return next((kind for known, kind in types.items() if known.lower() == name.lower()), "")

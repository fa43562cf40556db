"""Spark's types by the names that `simpleString` gives them: `bigint`, `decimal(10,2)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# How many digits a whole number has at most.
_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
WHOLE_NUMBERS = frozenset(_WHOLE_DIGITS)
FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
# How the type of a field begins.
_TYPE = re.compile(r"(struct|array|map)<|[a-z_]+( [a-z ]+)?(\(|$)|string collate ")
_SPATIAL = ("geometry", "geography")


def holds(spark_type: str, kind: str) -> bool:
    """Whether a type is `kind`, or has values of it within; names of fields are no types.

    >>> holds("struct<v:array<variant>>", "variant"), holds("struct<variant:string>", "variant")
    (True, False)
    """
    return re.search(rf"(?:^|[<,:]){kind}(?=[>,]|$)", spark_type) is not None


def is_number(spark_type: str) -> bool:
    """Whether values are numbers: whole ones, floats or decimals, no booleans."""
    return spark_type in WHOLE_NUMBERS or spark_type in FLOATS or spark_type.startswith("decimal")


def digits_of(spark_type: str) -> tuple[int, int] | None:
    """The precision and scale of a decimal or whole number; None of other types."""
    if spark_type in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[spark_type], 0
    match = _DECIMAL.fullmatch(spark_type)
    return None if match is None else (int(match[1]), int(match[2]))


def joint_digits(spark_types: Iterable[str]) -> tuple[int, int]:
    """How many digits before and behind the point hold the values of decimals and whole numbers.

    Other types among them are passed over; there must be one of these.

    >>> joint_digits(["bigint", "decimal(10,2)"])
    (19, 2)
    """
    digits = [parts for kind in spark_types if (parts := digits_of(kind)) is not None]
    return max(p - s for p, s in digits), max(scale for _, scale in digits)


def fields_of(spark_type: str) -> dict[str, str] | None:
    """The fields of a struct, or of the structs in an array, with their types; None of others.

    None also where the names of fields, which Spark does not quote, leave it open what they are.

    >>> fields_of("array<struct<sku:string,price:decimal(10,2),at:struct<x:int,y:int>>>")
    {'sku': 'string', 'price': 'decimal(10,2)', 'at': 'struct<x:int,y:int>'}
    >>> fields_of("map<string,int>")
    """
    outer, _, inner = spark_type.partition("<")
    if outer == "array":
        return fields_of(inner.removesuffix(">"))
    if outer != "struct":
        return None
    fields: dict[str, str] = {}
    parts = _parts(inner.removesuffix(">"))
    for part in parts or ():
        name, _, kind = part.partition(":")
        if not _TYPE.match(kind) or name.lower() in map(str.lower, fields):
            return None
        fields[name] = kind
    return None if parts is None else fields


def values_of(spark_type: str) -> list[str]:
    """The types of an array's elements, or of a map's keys and values; nothing of other types.

    >>> values_of("array<int>"), values_of("map<string,decimal(10,2)>")
    (['int'], ['string', 'decimal(10,2)'])
    """
    outer, _, inner = spark_type.partition("<")
    return (_parts(inner.removesuffix(">")) or []) if outer in ("array", "map") else []


def _parts(inner: str) -> list[str] | None:
    """What commas separate, but for those within angles and brackets; None if these do not pair."""
    parts, depth = [""] if inner else [], 0
    for sign in inner:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
        if depth < 0:
            return None
    return None if depth else parts


def both_fields(one: str, other: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """The fields of two structs, or of two arrays of structs; None of other types."""
    fields = fields_of(one), fields_of(other)
    alike = one.partition("struct<")[0] == other.partition("struct<")[0]
    return (
        (fields[0], fields[1])
        if alike and fields[0] is not None and fields[1] is not None
        else None
    )


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

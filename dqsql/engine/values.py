"""Values as they leave Spark: numbers, and texts as Spark writes them."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.dialect import quoted
from dqsql.model.by_key import by_key
from dqsql.model.types import FLOATS, TIMES, holds, is_number, joint_digits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

# In place of a text that holds private values.
WITHHELD = "(private)"
# Beside numbers and times: see `survives_arrow`.
_PLAIN_TYPES = frozenset({"boolean", "string", "binary"})
_NEVER_NULL, _NULLABLE = '"nullable":false', '"nullable":true'
_NUMBER_AND_TEXT = ["value", "text"]


def types_of(schema: StructType) -> dict[str, str]:
    """The columns of a relation in order, with their Spark types."""
    return {f.name: f.dataType.simpleString() for f in schema.fields}


def without_values(frame: DataFrame, names: Collection[str]) -> DataFrame:
    """The frame with nulls in the columns of these names."""
    from pyspark.sql import functions as F

    if not names:
        return frame
    # What holds a VARIANT cannot be null on its way to Python.
    types = {
        f.name: "string" if holds(f.dataType.simpleString(), "variant") else f.dataType
        for f in frame.schema.fields
    }
    nulls = {n: F.lit(None).cast(k) for n, k in types.items() if n in names}
    return frame.withColumns(nulls) if nulls else frame


def without_held_values(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """The rows with nulls in the columns of these names."""
    for index, field in enumerate(rows.schema):
        if field.name in names:
            nulls = pa.nulls(rows.num_rows, field.type)
            rows = rows.set_column(index, field.with_nullable(True), nulls)
    return rows


def readable(frame: DataFrame, kept: Collection[str] = ()) -> DataFrame:
    """The frame with values that Python can hold: numbers and texts.

    Whatever else there is (binary, intervals, arrays ..) comes as Spark writes it, and texts as
    valid UTF-8; so do dates and times, since Python's calendar ends with the year 9999, where
    '9999-12-31 23:59:59' in New York does not lie any more. A struct of `value` and `text` stays,
    and may be null in all its fields, since Arrow takes no other. The names of batches and segments
    stay as they are, right or wrong, as do columns that are `kept`.
    """
    from pyspark.sql.types import StructType

    types = types_of(frame.schema)
    fields = frame.schema.fields
    both = {f.name for f in fields if getattr(f.dataType, "names", None) == _NUMBER_AND_TEXT}
    written = {name for name, kind in types.items() if not _is_read(kind)}
    written -= {*both, *kept, "batch", "segment"}
    if written:
        # As texts: columns of PySpark's take several calls to the JVM each.
        names = {name: quoted(name) for name in types}
        texts = {n: f"{_as_text(names[n], types[n])} as {names[n]}" for n in written}
        frame = frame.selectExpr(*(texts.get(n, column) for n, column in names.items()))
    if not both:
        return frame
    text = frame.schema.json()
    return frame.to(StructType.fromJson(json.loads(text.replace(_NEVER_NULL, _NULLABLE))))


def _as_text(value: str, spark_type: str) -> str:
    """A value as Spark writes it; a time with no or six digits behind the second, and its zone.

    SQL of a value, and of the text.
    """
    text = f"cast({value} as string)"
    if not spark_type.startswith("timestamp"):
        return f"make_valid_utf8({text})"
    point = f"instr({text}, '.')"
    padded = f"rpad({text}, if({point} > 0, {point} + 6, length({text})), '0')"
    return f"{padded} || '+00:00'" if spark_type == "timestamp" else padded


def _is_read(spark_type: str) -> bool:
    return is_number(spark_type) or spark_type in ("boolean", "void")


# Of each row the later types have the values of the earlier ones.
_WHOLE = ("byte", "short", "integer", "long")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_MOST_DIGITS = 38


def widest_type(kinds: Sequence[DataType]) -> DataType | None:
    """A type that has the values of some types, of doubles up to rounding; None for no such."""
    from pyspark.sql.types import DecimalType, DoubleType, FloatType

    names = {kind.typeName() for kind in kinds}
    if len(set(kinds)) == 1:
        return kinds[0]
    for row in (_WHOLE, _TIMES):
        if names <= {*row}:
            return max(kinds, key=lambda kind: row.index(kind.typeName()))
    if not names <= {*_WHOLE, *FLOATS, "decimal"}:
        return None
    if names & FLOATS:
        return FloatType() if names <= {"float", "byte", "short"} else DoubleType()
    whole, scale = joint_digits(kind.simpleString() for kind in kinds)
    return DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def merged_schema(schemas: Sequence[StructType], left_out: Collection[str] = ()) -> StructType:
    """The columns of relations that are read as one, each with the widest of its types.

    Structs have the fields of all. Without columns of the names `left_out`, in lower case.
    """
    from pyspark.sql.types import StructField, StructType

    fields = by_key((f.name.lower(), f) for f in chain.from_iterable(schemas))
    return StructType(
        [
            StructField(alike[0].name, _merged_type([f.dataType for f in alike]))
            for name, alike in fields.items()
            if name not in left_out
        ]
    )


def without_fields(schema: StructType, names: Collection[str]) -> StructType:
    """The columns but for those of the `names`, in lower case."""
    from pyspark.sql.types import StructType

    return StructType([field for field in schema if field.name.lower() not in names])


def _merged_type(types: Sequence[DataType]) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructType

    # What a file says no type of has that of the others.
    types = [t for t in types if not isinstance(t, NullType)] or types
    if all(isinstance(t, StructType) for t in types):
        return merged_schema([t for t in types if isinstance(t, StructType)])
    if all(isinstance(t, ArrayType) for t in types):
        return ArrayType(_merged_type([t.elementType for t in types if isinstance(t, ArrayType)]))
    if all(isinstance(t, MapType) for t in types):
        maps = [t for t in types if isinstance(t, MapType)]
        key = _merged_type([t.keyType for t in maps])
        return MapType(key, _merged_type([t.valueType for t in maps]))
    if (widest := widest_type(types)) is not None:
        return widest
    is_nested = any(isinstance(t, StructType | ArrayType | MapType) for t in types)
    return types[-1] if is_nested else StringType()


def survives_arrow(spark_type: str) -> bool:
    """Whether values come back from Arrow as they went."""
    plain = spark_type.removeprefix("array<").removesuffix(">")
    return is_number(plain) or plain in _PLAIN_TYPES or spark_type in TIMES


# Sums of doubles depend on the order in which Spark's tasks end, and on whether batches came
# together or one by one, in the 15th digit or so.
_DIGITS = 13


def stable(value: float) -> float:
    """A number without the digits in which two runs over the same rows may differ."""
    if not math.isfinite(value) or value.is_integer():
        return value
    return float(f"{value:.{_DIGITS}g}")


def as_number_or_text(value: Any) -> tuple[float | None, str | None]:
    """A Spark value as a number where it is one (booleans as 0 and 1), else as text.

    A struct of `value` and `text` is both, and so is a decimal with more digits than a double has.
    """
    if value is None:
        return None, None
    if isinstance(value, Decimal):
        number = float(value)
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return number, None if Decimal(repr(number)) == value else text
    if isinstance(value, bool | int | float):
        return stable(float(value)), None
    if isinstance(value, dt.datetime | dt.date):
        return None, value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)
    if isinstance(value, dict) and value.keys() == {"value", "text"}:
        return as_number_or_text(value["value"])[0], as_number_or_text(value["text"])[1]
    return None, str(value)

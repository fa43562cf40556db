"""The schema of a Parquet file, without the job that Spark starts to learn it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_PLAIN = {
    ("BOOLEAN", "None"): "boolean",
    ("INT32", "None"): "int",
    ("INT64", "None"): "bigint",
    ("FLOAT", "None"): "float",
    ("DOUBLE", "None"): "double",
    ("BYTE_ARRAY", "String"): "string",
    ("INT32", "Date"): "date",
}
_WHOLE = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_PRECISION = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38}


def schema_of(path: str) -> str | StructType | None:
    """What Spark makes of the columns of a file of this machine, as it reads it itself.

    None where that is for Spark to say: nested and unusual types, names that differ in case only,
    a file that cannot be read.
    """
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return None
    written = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if written is not None:
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(written))
    columns = [footer.schema.column(i) for i in range(footer.num_columns)]
    names = [column.path for column in columns]
    if not names or len({name.lower() for name in names}) < len(names):
        return None
    types = [_type_of(column) for column in columns]
    known = [
        f"`{name.replace('`', '``')}` {kind}"
        for name, kind in zip(names, types, strict=True)
        if kind is not None
    ]
    return ", ".join(known) if len(known) == len(names) else None


def _type_of(column: Any) -> str | None:
    """The type of a column by the Parquet format's table of logical types."""
    if column.max_repetition_level or column.path != column.name:
        return None
    physical = column.physical_type
    logical = json.loads(column.logical_type.to_json())
    kind = logical["Type"]
    if kind == "Int":
        return _WHOLE[logical["bitWidth"]] if logical["isSigned"] else None
    if kind == "Timestamp":
        usual = logical["timeUnit"] in ("milliseconds", "microseconds") and physical == "INT64"
        return "timestamp" if usual and logical["isAdjustedToUTC"] else None
    if kind == "Decimal":
        most = _PRECISION.get(physical, 0)
        precision, scale = logical["precision"], logical["scale"]
        return f"decimal({precision},{scale})" if precision <= most else None
    return _PLAIN.get((physical, kind))

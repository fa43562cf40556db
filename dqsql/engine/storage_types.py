"""Spark's types in the log of a Delta table.

A few types of Spark's are none of Delta's. Their columns are stored as the numbers that Spark
writes into Parquet files for them, and the log keeps Spark's type beside: so Spark reads back what
it wrote.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SPARK_TYPE = "dqsql.spark_type"
# What in the JSON of a type is again one or several.
_INNER = frozenset({"type", "fields", "elementType", "keyType", "valueType"})
_STORED_AS = (
    (re.compile(r"interval (year|month)\b.*"), "integer"),
    (re.compile(r"interval (day|hour|minute|second)\b.*"), "long"),
    (re.compile(r"time\(\d+\)"), "long"),
)


def delta_fields(schema: StructType) -> str:
    """A schema of Spark's as JSON for the log of a Delta table."""
    fields = []
    for field in schema.jsonValue()["fields"]:
        stored = _stored(field["type"])
        metadata = {} if stored == field["type"] else {_SPARK_TYPE: json.dumps(field["type"])}
        fields.append({**field, "type": stored, "nullable": True, "metadata": metadata})
    return json.dumps({"type": "struct", "fields": fields})


def spark_schema(log: str) -> StructType:
    """The schema with which Spark reads the files of a table, from the JSON in its log."""
    from pyspark.sql.types import StructType

    fields = []
    for field in json.loads(log)["fields"]:
        own = field["metadata"].get(_SPARK_TYPE)
        kind = field["type"] if own is None else json.loads(own)
        fields.append({**field, "type": kind, "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields})


def _stored(kind: Any) -> Any:
    """A type as JSON, with what Delta does not know replaced by how it is stored."""
    if isinstance(kind, dict):
        return {key: _stored(value) if key in _INNER else value for key, value in kind.items()}
    if isinstance(kind, list):
        return [_stored(value) for value in kind]
    if isinstance(kind, str):
        return next((found for known, found in _STORED_AS if known.fullmatch(kind)), kind)
    return kind

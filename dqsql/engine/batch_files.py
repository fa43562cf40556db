"""Batches of a small file of this machine, counted without a job of Spark's.

Where a model's batches are a column of one Parquet file, and the model's SELECT leaves out no row,
which there are and how many rows they have is known from that column alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dqsql.compiler.segments import batch_source
from dqsql.dialect import quoted
from dqsql.engine.relations import known_schema
from dqsql.engine.small import SMALL_BYTES
from dqsql.model.project import CheckModel, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's types of batches, as Arrow reads them of a file.
_TYPES: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
}
_TEXTS = (pa.large_string(), pa.string_view())
# Spark writes other dates with other calendars, signs or more digits.
_FIRST, _LAST = dt.date(1900, 1, 1), dt.date(9999, 12, 31)


def rows_of_batches(
    spark: SparkSession, project: Project, model: CheckModel, batch_type: str
) -> Mapping[str | None, int] | None:
    """The batches of a model and their rows; None where only Spark can tell.

    The key None is for rows without batch. `batch_type` is the Spark type of `batch_by`.
    """
    if model.relation is not None or model.config.segment_by or batch_type not in _TYPES:
        return None
    found = batch_source(model)
    relation, name = found or ("", "")
    source = next((s for s in project.sources if s.relation == quoted(relation)), None)
    if source is None or source.path is None or known_schema(spark, source) is None:
        return None
    values = _column(Path(source.path), name)
    try:
        if values is not None and pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values is not None and values.type in _TEXTS:
            values = values.cast(pa.string())
        if values is None or values.type != _TYPES[batch_type]:
            return None
        counts = pc.value_counts(values).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError):
        return None  # texts that are no UTF-8
    days = [c["values"] for c in counts if isinstance(c["values"], dt.date)]
    if any(not _FIRST <= day <= _LAST for day in days):
        return None
    return {_text(c["values"]): c["counts"] for c in counts}


def _column(file: Path, name: str) -> Any:
    """The values of a column, whose name may be written in other case; None without a word."""
    try:
        if file.stat().st_size > SMALL_BYTES:
            return None
        reader = pq.ParquetFile(file)
        names = [n for n in reader.schema_arrow.names if n.lower() == name.lower()]
        table = reader.read(columns=names) if len(names) == 1 else None
    except (OSError, pa.ArrowException):
        return None
    return table.column(0) if table is not None and table.column_names == names else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)

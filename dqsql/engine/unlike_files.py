"""Reads Parquet and ORC files in which a column has other types, each file by its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from dqsql.dialect import quoted
from dqsql.engine.parquet_files import UnevenFiles
from dqsql.engine.paths import escaped, file_or_pattern, named_in_paths
from dqsql.engine.values import merged_schema, without_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.types import DataType, StructType

_NESTED = frozenset({"struct", "array", "map"})
# What Spark reads as a larger type by itself. All else is read as it is, and cast.
_READ_AS = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}


def read_unlike(
    reader: DataFrameReader, path: str, uneven: UnevenFiles, options: Mapping[str, str]
) -> DataFrame:
    """The rows of all files at a path, each column with a type that holds the values of all.

    Of a file that says no type of a column the column is not read, and null. Raises Spark's errors.
    """
    in_path = named_in_paths(path, [alike.files[-1] for alike in uneven.unlike], options)
    found = [reader.load(escaped(str(alike.files[-1]))).schema for alike in uneven.unlike]
    schemas = [
        without_fields(own, alike.untyped) for own, alike in zip(found, uneven.unlike, strict=True)
    ]
    wanted = _in_order(merged_schema(schemas, in_path), found)
    place = file_or_pattern(path)
    whole = reader.schema(wanted).load(place)
    by_file = {
        file.resolve(): _as_in_file(wanted, own, alike.untyped)
        for alike, own in zip(uneven.unlike, schemas, strict=True)
        for file in alike.files
    }
    files: dict[StructType, list[str]] = {}
    for name in whole.inputFiles():
        file = Path(unquote(urlsplit(name).path)).resolve()
        # As Spark writes it elsewhere.
        files.setdefault(by_file.get(file, wanted), []).append(name.replace("///", "/", 1))
    if files.keys() <= {wanted}:
        return whole
    # Not by names of files: what their paths say must have one type in all parts.
    parts = [
        _cast(_rows_of(reader.schema(own).load(place), some), wanted) for own, some in files.items()
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    return rows.select(*map(quoted, whole.columns))


def _rows_of(rows: DataFrame, files: Sequence[str]) -> DataFrame:
    return rows.where(rows.metadataColumn("_metadata").getField("file_path").isin(list(files)))


def _in_order(columns: StructType, schemas: Sequence[StructType]) -> StructType:
    """The columns in the order of the files, those without a type among them."""
    from pyspark.sql.types import StructType

    order = list(dict.fromkeys(field.name.lower() for schema in schemas for field in schema))
    return StructType(sorted(columns, key=lambda field: order.index(field.name.lower())))


def _as_in_file(wanted: StructType, own: StructType, untyped: Collection[str]) -> StructType:
    """The columns as they are to be read from a file with the types `own`."""
    from pyspark.sql.types import StructField, StructType

    kinds = {field.name.lower(): field.dataType for field in own}
    return StructType(
        [
            StructField(f.name, kind if _is_apart(kind, f.dataType) else f.dataType)
            for f in wanted
            for kind in [kinds.get(f.name.lower(), f.dataType)]
            if f.name.lower() not in untyped
        ]
    )


def _is_apart(own: DataType, wanted: DataType) -> bool:
    names = (own.typeName(), wanted.typeName())
    return own != wanted and not _NESTED & {*names} and names[1] not in _READ_AS.get(names[0], ())


def _cast(rows: DataFrame, wanted: StructType) -> DataFrame:
    from pyspark.sql import functions as F

    kinds = {field.name: field.dataType for field in wanted}
    others = {
        f.name: F.col(quoted(f.name)).cast(kinds[f.name])
        for f in rows.schema
        if f.name in kinds and f.dataType != kinds[f.name]
    }
    return rows.withColumns(others) if others else rows

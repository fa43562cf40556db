"""Reads Parquet and ORC files in which a column has other types, each file by its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

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
    schemas = [
        without_fields(reader.load(escaped(str(alike.files[-1]))).schema, alike.untyped)
        for alike in uneven.unlike
    ]
    wanted = merged_schema(schemas, in_path)
    files: dict[StructType, list[Path]] = {wanted: [*uneven.others]}
    for alike, own in zip(uneven.unlike, schemas, strict=True):
        files.setdefault(_as_in_file(wanted, own, alike.untyped), []).extend(alike.files)
    if len(files) == 1:
        return reader.schema(wanted).load(file_or_pattern(path))
    if Path(path).is_dir():
        reader = reader.option("basePath", path)
    parts = [
        _cast(reader.schema(own).load([escaped(str(file)) for file in some]), wanted)
        for own, some in files.items()
        if some
    ]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    others = [name for name in rows.columns if name not in wanted.names]
    return rows.select(*(quoted(name) for name in (*wanted.names, *others)))


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
    return rows.withColumns(
        {
            f.name: F.col(quoted(f.name)).cast(kinds[f.name])
            for f in rows.schema
            if f.name in kinds and f.dataType != kinds[f.name]
        }
    )

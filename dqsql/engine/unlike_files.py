"""Reads Parquet and ORC files in which a column has other types, each file by its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dqsql.dialect import quoted
from dqsql.engine.parquet_files import UnevenFiles, as_stored
from dqsql.engine.paths import escaped, file_or_pattern, named_in_paths
from dqsql.engine.values import merged_schema, without_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader
    from pyspark.sql.types import DataType, StructType

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
    said = [
        without_fields(_said(own, alike.schema), alike.untyped)
        for own, alike in zip(found, uneven.unlike, strict=True)
    ]
    wanted = _in_order(_known(merged_schema(said, in_path)), found)
    place = file_or_pattern(path)
    whole = reader.schema(wanted).load(place)
    by_file = {
        file.resolve(): _InFile.of(wanted, own, types)
        for alike, own, types in zip(uneven.unlike, found, said, strict=True)
        for file in alike.files
    }
    files: dict[_InFile, list[str]] = {}
    for name in whole.inputFiles():
        file = Path(unquote(urlsplit(name).path)).resolve()
        in_file = by_file.get(file, _InFile(wanted, wanted))
        # As Spark writes it elsewhere.
        files.setdefault(in_file, []).append(name.replace("///", "/", 1))
    if all(in_file.read == wanted for in_file in files):
        return whole
    # Not by names of files: what their paths say must have one type in all parts.
    parts = [
        _cast(_rows_of(reader.schema(in_file.read).load(place), some), in_file.said, wanted)
        for in_file, some in files.items()
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


@dataclass(frozen=True)
class _InFile:
    """The columns as they are to be `read` from a file, and the types that it has `said` of them.

    Those that it has and says no type of are in neither.
    """

    read: StructType
    said: StructType

    @classmethod
    def of(cls, wanted: StructType, own: StructType, said: StructType) -> _InFile:
        """Those of a file in which Spark finds the types `own`."""
        from pyspark.sql.types import StructField, StructType

        kinds = {field.name.lower(): field.dataType for field in own}
        types = {field.name.lower(): field.dataType for field in said}
        both = []
        for field in wanted:
            name = field.name.lower()
            if name in kinds and name not in types:
                continue
            own_type = types.get(name, field.dataType)
            # What has nothing in common fails where somebody reads that column.
            apart = not _reads_as(own_type, field.dataType) and _casts_to(own_type, field.dataType)
            pair = (kinds[name], types[name]) if apart else (field.dataType, field.dataType)
            both.append([StructField(field.name, kind) for kind in pair])
        return cls(*(StructType([fields[i] for fields in both]) for i in range(2)))


def _said(kind: Any, stored: Any) -> Any:
    """A type of Spark's with none for what a file stores without one: Spark takes whole numbers."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructField, StructType

    if stored is None:
        return kind
    if isinstance(kind, StructType):
        types = {field.name: field.type for field in stored}
        return StructType([StructField(f.name, _said(f.dataType, types.get(f.name))) for f in kind])
    stored = as_stored(stored)
    if pa.types.is_null(stored):
        return NullType()
    if isinstance(kind, ArrayType):
        return ArrayType(_said(kind.elementType, stored.value_type))
    if isinstance(kind, MapType):
        key = _said(kind.keyType, stored.key_type)
        return MapType(key, _said(kind.valueType, stored.item_type))
    return kind


def _known(kind: Any) -> Any:
    """A type with whole numbers for what no file says a type of."""
    from pyspark.sql.types import ArrayType, IntegerType, MapType, NullType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _known(f.dataType)) for f in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_known(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_known(kind.keyType), _known(kind.valueType))
    return IntegerType() if isinstance(kind, NullType) else kind


def _reads_as(own: DataType, wanted: DataType) -> bool:
    """Whether Spark reads what a file has as the type that is wanted."""
    return _holds(
        own, wanted, lambda a, b: a == b or b.typeName() in _READ_AS.get(a.typeName(), ())
    )


def _casts_to(own: DataType, wanted: DataType) -> bool:
    """Whether values of one type can be made those of another without a loss of parts."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    nested = (StructType, ArrayType, MapType)
    return _holds(
        own,
        wanted,
        lambda a, b: isinstance(a, NullType) or not isinstance(a, nested) | isinstance(b, nested),
    )


def _holds(own: DataType, wanted: DataType, test: Callable[[DataType, DataType], bool]) -> bool:
    """Whether a test holds for all that two types are made of, each part of the one with another's.

    Also for the types themselves where they are of two kinds. It does not where a field lacks.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(own, StructType) and isinstance(wanted, StructType):
        fields = {field.name.lower(): field.dataType for field in wanted}
        parts = [(f.dataType, fields.get(f.name.lower())) for f in own]
        return all(kind is not None and _holds(mine, kind, test) for mine, kind in parts)
    if isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        return _holds(own.elementType, wanted.elementType, test)
    if isinstance(own, MapType) and isinstance(wanted, MapType):
        keys = _holds(own.keyType, wanted.keyType, test)
        return keys and _holds(own.valueType, wanted.valueType, test)
    return test(own, wanted)


def _cast(rows: DataFrame, said: StructType, wanted: StructType) -> DataFrame:
    from pyspark.sql import functions as F

    kinds = {field.name: field.dataType for field in wanted}
    others = {
        f.name: _converted(F.col(quoted(f.name)), f.dataType, kinds[f.name])
        for f in said
        if f.dataType != kinds[f.name]
    }
    return rows.withColumns(others) if others else rows


def _converted(value: Column, own: DataType, wanted: DataType) -> Column:
    """A value of one type as one of another, with what it is made of."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    if isinstance(own, NullType):
        return F.lit(None).cast(wanted)
    if own == wanted:
        return value
    if isinstance(own, StructType) and isinstance(wanted, StructType):
        types = {field.name.lower(): field for field in own}
        fields = [
            _converted(value.getField(known.name), known.dataType, field.dataType)
            if (known := types.get(field.name.lower())) is not None
            else F.lit(None).cast(field.dataType)
            for field in wanted
        ]
        named = (f.alias(field.name) for f, field in zip(fields, wanted, strict=True))
        return F.when(value.isNotNull(), F.struct(*named))
    if isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        inner, outer = own.elementType, wanted.elementType
        return F.transform(value, lambda element: _converted(element, inner, outer))
    if isinstance(own, MapType) and isinstance(wanted, MapType):
        return F.map_from_entries(
            F.transform(
                F.map_entries(value),
                lambda entry: F.struct(
                    _converted(entry.getField("key"), own.keyType, wanted.keyType),
                    _converted(entry.getField("value"), own.valueType, wanted.valueType),
                ),
            )
        )
    return value.cast(wanted)

"""CSV files of one source whose headers differ.

Spark takes the names of one file and reads all by position. When it infers types, it takes the
header of each file that is not written like the first one for a row of values, so that all columns
become texts. dqsql looks at the headers of files of this machine: it refuses files with other
columns in the same place, and infers the types of the others for each header.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dqsql.dialect import quoted
from dqsql.engine.csv_files import OTHER_ROWS, has_header, separator_of
from dqsql.engine.parquet_files import UnevenFiles
from dqsql.engine.paths import chosen_files, escaped, named_in, named_in_paths
from dqsql.engine.values import widest_type
from dqsql.errors import EngineError
from dqsql.model.by_key import by_key
from dqsql.model.project import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# Before the names of columns that the path names, too.
IN_PATH = "dqsql in path "
# So many bytes of a header are looked at.
_HEADER = 2**16


@dataclass(frozen=True)
class Header:
    """The first line of a file, and the names in it."""

    line: str
    names: tuple[str, ...]


def headers_of(source: Source, options: Mapping[str, str]) -> dict[Path, Header]:
    """The header of each file of a source, of those that can be read.

    None of files that lie elsewhere, or where `options`, those of Spark, say that it compares
    headers or that there are none.
    """
    given = {name.lower(): value for name, value in options.items()}
    if not has_header(given) or (OTHER_ROWS | {"enforceschema", "quote"}) & given.keys():
        return {}
    files = sorted(chosen_files(source.path, options)) if source.path else ()
    headers = {file: _header(file, separator_of(given)) for file in files}
    return {file: header for file, header in headers.items() if header is not None}


def check_headers(
    source: Source, headers: Mapping[Path, Header], root: Path, about: str | None = None
) -> None:
    """Refuse files of one source whose headers (`headers_of`) name other columns in the same place.

    A file may have more columns at its end. `about` is what people call a source that no file
    names.

    Raises:
        EngineError: two files differ.
    """
    if not headers:
        return
    (first, header), *others = headers.items()
    for file, another in others:
        pairs = zip(header.names, another.names, strict=False)
        other = next(((a, b) for a, b in pairs if a.lower() != b.lower()), None)
        if other is not None:
            raise EngineError(
                f"the files of {about or source.unique_id} have different headers: where"
                f" {named_in(first, root)} has the column {other[0]}, {named_in(file, root)} has"
                f" {other[1]}",
                hint="Spark reads all files of a folder by position, with the header of one of"
                " them; give them the same columns in the same order, or declare two sources",
                span=None if about else source.span,
            )


def common_schema(
    spark: SparkSession, source: Source, headers: Mapping[Path, Header], options: Mapping[str, str]
) -> StructType | None:
    """The columns of a source whose files' headers were checked and are not all written alike.

    As Spark infers them from the files of each header; where types differ, one that has the values
    of both. A column that the path names, too (`day=2024-01-01`), has a name that begins with
    `IN_PATH`: Spark takes the value in the path, and leaves such columns out of a schema, but not
    out of files. None where all headers are alike, or some cannot be read, which is for Spark.

    Raises Spark's errors.
    """
    from pyspark.sql.types import StructField, StructType

    alike = by_key((header.line, file) for file, header in headers.items())
    if len(alike) < 2:
        return None
    files = chosen_files(source.path or "", options)
    if any(f not in headers and f.stat().st_size for f in files):
        return None
    reader = spark.read.format("csv").options(**options)
    read = [reader.load([escaped(str(file)) for file in paths]) for paths in alike.values()]
    frames = sorted(read, key=lambda frame: -len(frame.columns))
    in_path = named_in_paths(source.path or "", headers, options)
    names = [IN_PATH + n if n.lower() in in_path else n for n in frames[0].columns]
    # A date is not written as the format of a timestamp says.
    strict = not {"dateformat", "timestampformat"}.isdisjoint(map(str.lower, options))
    kinds = _kinds(frames)
    return StructType(
        [StructField(n, _common(k, strict=strict)) for n, k in zip(names, kinds, strict=True)]
    )


def _kinds(frames: Sequence[DataFrame]) -> list[list[DataType]]:
    """The types of each column in the frames that have it, of which the first has all columns."""
    from pyspark.sql.types import StringType

    schemas = [frame.schema.fields for frame in frames]
    every = range(len(schemas[0]))
    unlike = {i for i in every if len({s[i].dataType for s in schemas if i < len(s)}) > 1}
    kinds: list[list[DataType]] = [[] for _ in every]
    for frame, fields in zip(frames, schemas, strict=True):
        texts = [i for i in unlike if i < len(fields) and fields[i].dataType == StringType()]
        # Spark takes a column without any value for text.
        empty = set(texts).difference(_filled(frame, texts))
        for place, field in enumerate(fields):
            if place not in empty:
                kinds[place].append(field.dataType)
    return kinds


def _filled(frame: DataFrame, places: Sequence[int]) -> list[int]:
    """Which of some columns have a value."""
    counts = [f"count({quoted(frame.columns[place])})" for place in places]
    row = frame.selectExpr(*counts).first() if counts else None
    return [place for place, count in zip(places, row or (), strict=True) if count]


def _common(kinds: Sequence[DataType], *, strict: bool) -> DataType:
    from pyspark.sql.types import StringType

    names = {kind.typeName() for kind in kinds}
    if strict and "date" in names and len(names) > 1:
        return StringType()
    return widest_type(kinds) or StringType()


def lacking(headers: Mapping[Path, Header], names: Sequence[str]) -> UnevenFiles | None:
    """The columns at the end of older files that the newest file lacks, where there are any.

    `names` are those of all columns, as Spark has them.
    """
    newest = max(headers, key=lambda file: (file.stat().st_mtime, file))
    # Copied files may be dated in any order: the one whose name is last has to agree.
    there = max(len(headers[file].names) for file in (newest, max(headers)))
    missing = [name for name in names[there:] if not name.startswith(IN_PATH)]
    return UnevenFiles(newest, missing) if missing else None


def _header(file: Path, separator: str) -> Header | None:
    """The first line of a CSV file; None where there is none, or it cannot be read in this way."""
    if len(separator) != 1:
        return None
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            line = stream.read(_HEADER).decode("utf-8-sig").splitlines()[:1]
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None
    names = [name.strip() for row in csv.reader(line, delimiter=separator) for name in row]
    return Header(line[0], tuple(names)) if names else None

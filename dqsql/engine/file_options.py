"""The options of Spark that files are read with: those of the source, and what the files say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dqsql import separators
from dqsql.engine.csv_files import has_header, line_options, separator_of
from dqsql.engine.paths import files_at, named_in
from dqsql.errors import QueryError, Span
from dqsql.model.project import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's option to take the columns of all Parquet or ORC files, not of one.
MERGE = "mergeSchema"
# Options of Spark, in lower case, that say how CSV files are read.
_SEPARATORS = frozenset({"sep", "delimiter"})
_ENCODINGS = frozenset({"encoding", "charset"})
_OTHER_JSON = _ENCODINGS | {"pathglobfilter"}


def options_of(spark: SparkSession, source: Source, *, merge: bool) -> dict[str, str]:
    """The options of Spark for the files of a source: those given, and what its files say.

    `merge` asks for the columns of all files, not of one. Raises Spark's errors.
    """
    if source.path is None or source.file_format != "csv":
        return {**source.options, **({MERGE: "true"} if merge else {})}
    found = _seen(source.path, source.options)
    given = {"header": "true", "inferSchema": "true", **found, **source.options}
    return csv_options(spark, source.path, given)


def _seen(path: str, options: Mapping[str, str]) -> dict[str, str]:
    """What CSV files of this machine say of their separator and encoding, where nobody has.

    Nothing where the first and the last of them say different things.
    """
    given = {name.lower(): value for name, value in options.items()}
    chosen = "pathglobfilter" in given or not has_header({"header": "true", **given})
    files = () if chosen else read_by_spark(path)
    sep = separator_of(given) if given.keys() & _SEPARATORS else None
    found = [separators.csv_options(f, sep) for f in (files[0], files[-1])] if files else [{}]
    taken = {"multiLine", *(["sep"] if sep else ())}
    taken |= {"encoding"} if given.keys() & _ENCODINGS else set()
    return {
        name: v for name, v in found[0].items() if name not in taken and found[-1].get(name) == v
    }


def read_by_spark(path: str) -> list[Path]:
    """The files of this machine that are not empty, and that Spark reads by itself."""
    files = sorted(files_at(Path(path)) or ())
    if Path(path).is_dir():
        files = [f for f in files if all("=" in p for p in f.relative_to(path).parts[:-1])]
    return [file for file in files if file.stat().st_size]


def csv_options(spark: SparkSession, path: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options for CSV files at a path: those `given`, and how values are quoted.

    Raises Spark's errors.
    """
    # A quote within quotes is written twice, as RFC 4180 has it, and every spreadsheet. Spark's own
    # default, a backslash, cuts such values at their next comma.
    options = {"escape": '"', **given}
    return {**options, **line_options(spark, path, options)}


def refuse_several_values(
    source: Source, options: Mapping[str, str], root: Path, what: str, place: Span | None
) -> None:
    """Refuse JSON files of which Spark would read the first object alone. Raises QueryError."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    if source.file_format != "json" or given.get("multiline") != "true" or source.path is None:
        return
    if any(name.startswith("allow") or name in _OTHER_JSON for name in given):
        return
    for file in read_by_spark(source.path):
        if separators.has_several_values(file):
            raise QueryError(
                f"{what}: {named_in(file, root)} has several JSON values, and with multiLine Spark"
                " reads the first alone",
                span=place,
                hint="write each object in one line and leave multiLine out, or make the file one"
                " array (`jq -c .` and `jq -s .` do it)",
            )

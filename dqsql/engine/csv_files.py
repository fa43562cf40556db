"""What Spark gets wrong in CSV files without a word, found by looking at files of this machine.

Line breaks in values, which RFC 4180 allows within quotes: Spark splits files at every line break
unless `multiLine` is set; such a value then becomes two rows, one that ends in it and one that
begins in it. With `multiLine` a file is read in one task, so that it is set only where needed.

Rows with more or fewer values than the header names columns: Spark fills up what is missing with
nulls and drops what is too much. To have it tell would take a column more in the source, which
`select *` shows, and a scan of all columns. Looking takes some milliseconds for each megabyte.
"""

from __future__ import annotations

import codecs
import csv
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pc

from dqsql.engine.paths import file_or_pattern, files_at, named_in
from dqsql.model.project import Source
from dqsql.model.wording import plural
from dqsql.resources import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MULTI_LINE = "multiLine"
# Options by which lines or quotes are not what they are by default.
_OTHER_LINES = frozenset({_MULTI_LINE.lower(), "linesep", "quote"})
_QUOTE = '"'
_WIDE = ("UTF-16", "UTF-32", "UTF16", "UTF32")
# Of a file whose quotes are part of texts, so many lines are looked at, with what follows each.
_MOST, _BYTES = 100, 2**20
# Files that are larger together are not searched for ragged rows.
_LARGEST = 256 * 2**20
# Options by which lines are others, or somebody wants to know of such rows by other means.
OTHER_ROWS = frozenset({"linesep", "comment", "mode", "columnnameofcorruptrecord"})
# Any byte is a letter of it, and what separates values is the same in UTF-8.
_UTF_8, _ANY_BYTES = "utf-8", "latin-1"
_COLUMN = "dqsql"


def line_options(spark: SparkSession, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """`multiLine`, where quoted values in CSV files have line breaks and `options` leave it open.

    `options` are those that Spark reads them with, among them `escape`. Raises Spark's errors.
    """
    given = {name.lower(): value for name, value in options.items()}
    if _OTHER_LINES & given.keys():
        return {}
    if given.get("encoding", given.get("charset", "")).upper().startswith(_WIDE):
        # Spark looks for the bytes of line breaks before it decodes.
        return {_MULTI_LINE: "true"}
    files = files_at(Path(path))
    if files is None:
        # Only Spark can read them: quotes that do not come in pairs in some line have to do.
        lines = spark.read.text(file_or_pattern(path))
        broken = bool(lines.where("regexp_count(value, '\"') % 2 = 1").head(1))
    else:
        broken = any(_breaks_lines(f, separator_of(given), given["escape"]) for f in files)
    return {_MULTI_LINE: "true"} if broken else {}


def separator_of(options: Mapping[str, str]) -> str:
    """What separates values; `options` are those of Spark, by names in lower case."""
    return options.get("sep") or options.get("delimiter") or ","


def has_header(options: Mapping[str, str]) -> bool:
    """Whether files begin with a line of names, by the same options."""
    return options.get("header", "false").lower() == "true"


def _breaks_lines(file: Path, separator: str, escape: str) -> bool:
    """Whether a quoted value goes on in the next line."""
    try:
        with unpacked(file) as lines:
            return any(_goes_on(text, separator, escape) for text in _suspects(lines))
    except (OSError, EOFError):
        # Reading it will say what is the matter.
        return False


def _suspects(lines: BinaryIO) -> Iterator[str]:
    """What follows each line whose quotes do not come in pairs, with the line itself."""
    count = 0
    block = _block(lines)
    while block and count < _MOST:
        behind = _block(lines)
        start = 0
        for line in block.splitlines(keepends=True) if b'"' in block else ():
            if line.count(b'"') % 2:
                count += 1
                yield (block[start:] + behind).decode("latin-1")
            start += len(line)
        block = behind


def _block(lines: BinaryIO) -> bytes:
    """The next lines, a megabyte of them."""
    return lines.read(_BYTES) + lines.readline()


def _goes_on(text: str, separator: str, escape: str) -> bool:
    """Whether the first record of a text has a line break in quotes that are closed."""
    try:
        records = csv.reader(
            StringIO(text, newline=""),
            delimiter=separator,
            doublequote=escape == _QUOTE,
            escapechar=None if escape == _QUOTE else escape,
            strict=True,
        )
        return any("\n" in value for value in next(records))
    except (csv.Error, TypeError):
        # A quote that is part of a text, or a separator of several characters.
        return False


@dataclass(frozen=True)
class RaggedRows:
    """The rows of a file that do not have as many values as there are columns.

    `first` is the number of the first one, from 1, without the header and blank lines. It has
    `values` values.
    """

    count: int
    columns: int
    values: int
    first: int


def ragged_notes(source: Source, options: Mapping[str, str], root: Path) -> Iterator[str]:
    """A sentence about each CSV file of a source that has ragged rows; `options` are Spark's.

    Files in the folder `root` are named as they are there.

    Nothing of files that lie elsewhere, or are larger than 256 MB together.
    """
    given = {name.lower(): value for name, value in options.items()}
    files = files_at(Path(source.path or ""))
    if not files or OTHER_ROWS & given.keys() or sum(f.stat().st_size for f in files) > _LARGEST:
        return
    for file in files:
        ragged = ragged_rows(file, given)
        if ragged is None:
            continue
        rows = plural(ragged.count, "row does", "rows do")
        name = named_in(file, root)
        yield (
            f"{name}: {rows} not have {plural(ragged.columns, 'value')} like the header; the"
            f" first one, row {ragged.first:,}, has {ragged.values:,}. Missing ones are read as"
            " null, others are dropped"
        )


def ragged_rows(file: Path, options: Mapping[str, str]) -> RaggedRows | None:
    """The ragged rows of a CSV file; None where it has none, or cannot be read in this way.

    `options` are those that Spark reads it with, by names in lower case.
    """
    first_rows: list[Any] = []
    count = 0

    def note(row: Any) -> str:
        nonlocal count
        count += 1
        if not first_rows:
            first_rows.append(row)
        return "skip"

    parsing = _parsing(options, note)
    if parsing is None:
        return None
    header = has_header(options)
    encoding = options.get("encoding") or options.get("charset") or _UTF_8
    try:
        if not _is_in(encoding, file):
            encoding = _ANY_BYTES
        with (
            pa.input_stream(str(file), compression="detect") as stream,
            pc.open_csv(
                stream,
                # In one thread rows have numbers.
                pc.ReadOptions(
                    use_threads=False, autogenerate_column_names=not header, encoding=encoding
                ),
                parsing,
                pc.ConvertOptions(include_columns=[_COLUMN], include_missing_columns=True),
            ) as blocks,
        ):
            for _ in blocks:
                pass
    except (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeError):
        # Spark says what is the matter with it, or takes it for something else.
        return None
    if not first_rows:
        return None
    first = first_rows[0]
    number = first.number - 1 if header else first.number
    return RaggedRows(count, first.expected_columns, first.actual_columns, number)


def _is_in(encoding: str, file: Path) -> bool:
    """Whether all of a file is in an encoding that Python knows; Java has names of its own."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        with unpacked(file) as stream:
            while block := stream.read(2**20):
                decoder.decode(block)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _parsing(options: Mapping[str, str], handler: Any) -> pc.ParseOptions | None:
    separator = separator_of(options)
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if any(len(sign) != 1 or not sign.isascii() for sign in (separator, quote, escape)):
        return None
    return pc.ParseOptions(
        delimiter=separator,
        quote_char=quote,
        double_quote=escape == quote,
        escape_char=False if escape == quote else escape,
        newlines_in_values=options.get("multiline", "false").lower() == "true",
        invalid_row_handler=handler,
    )

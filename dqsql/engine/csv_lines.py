"""Whether values of CSV files have line breaks, which RFC 4180 allows within quotes.

Spark splits files at every line break unless `multiLine` is set: such a value then becomes two
rows, one that ends in it and one that begins in it. With `multiLine` a file is read in one task, so
that it is set only where it is needed.
"""

from __future__ import annotations

import bz2
import csv
import gzip
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dqsql.engine.paths import file_or_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MULTI_LINE = "multiLine"
# Options by which lines or quotes are not what they are by default.
_OTHER_LINES = frozenset({_MULTI_LINE.lower(), "linesep", "quote"})
_QUOTE = '"'
# Of a file whose quotes are part of texts, so many lines are looked at, with what follows each.
_MOST, _BYTES = 100, 2**20


def line_options(spark: SparkSession, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """`multiLine`, where quoted values in CSV files have line breaks and `options` leave it open.

    `options` are those that Spark reads them with, among them `escape`. Raises Spark's errors.
    """
    given = {name.lower(): value for name, value in options.items()}
    if _OTHER_LINES & given.keys():
        return {}
    files = csv_files(Path(path))
    separator = given.get("sep") or given.get("delimiter") or ","
    if files is None:
        broken = _odd_lines(spark, path)
    else:
        broken = any(_breaks_lines(f, separator, given["escape"]) for f in files)
    return {_MULTI_LINE: "true"} if broken else {}


def csv_files(path: Path) -> list[Path] | None:
    """The files at a path of this machine; None of others, and of patterns."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return None
    hidden = ("_", ".")
    return [
        f
        for f in path.rglob("*")
        if f.is_file() and not any(p.startswith(hidden) for p in f.relative_to(path).parts)
    ]


def _opened(file: Path) -> gzip.GzipFile | bz2.BZ2File | BinaryIO:
    ending = file.suffix.lower()
    if ending == ".gz":
        return gzip.GzipFile(file)
    return bz2.BZ2File(file) if ending == ".bz2" else file.open("rb")


def _breaks_lines(file: Path, separator: str, escape: str) -> bool:
    """Whether a quoted value goes on in the next line."""
    try:
        with _opened(file) as lines:
            return any(_goes_on(text, separator, escape) for text in _suspects(lines))
    except (OSError, EOFError):
        # Reading it will say what is the matter.
        return False


def _suspects(lines: gzip.GzipFile | bz2.BZ2File | BinaryIO) -> Iterator[str]:
    """What follows each line whose quotes do not come in pairs, with the line itself."""
    found = 0
    block = _block(lines)
    while block and found < _MOST:
        behind = _block(lines)
        start = 0
        for line in block.splitlines(keepends=True) if b'"' in block else ():
            if line.count(b'"') % 2:
                found += 1
                yield (block[start:] + behind).decode("latin-1")
            start += len(line)
        block = behind


def _block(lines: gzip.GzipFile | bz2.BZ2File | BinaryIO) -> bytes:
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


def _odd_lines(spark: SparkSession, path: str) -> bool:
    """Whether quotes do not come in pairs in some line of files that only Spark can read."""
    lines = spark.read.text(file_or_pattern(path))
    return bool(lines.where("regexp_count(value, '\"') % 2 = 1").head(1))

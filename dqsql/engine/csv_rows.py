"""Rows of CSV files with more or fewer values than the header names columns.

Spark fills up what is missing with nulls and drops what is too much, without a word. To have it
tell would take a column more in the source, which `select *` shows, and a scan of all columns. So
files of this machine are looked at here, which takes some milliseconds for each megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from dqsql.engine.csv_lines import csv_files
from dqsql.model.project import Source
from dqsql.model.wording import plural

_MOST_BYTES = 256 * 2**20
# Options by which lines are others, or somebody wants to know of such rows by other means.
_OTHER = frozenset({"linesep", "comment", "mode", "columnnameofcorruptrecord", "encoding"})
_COLUMN = "dqsql"


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
    files = csv_files(Path(source.path or ""))
    if not files or _OTHER & given.keys() or sum(f.stat().st_size for f in files) > _MOST_BYTES:
        return
    for file in files:
        found = ragged_rows(file, given)
        if found is None:
            continue
        rows = plural(found.count, "row does", "rows do")
        name = file.relative_to(root) if file.is_relative_to(root) else file
        yield (
            f"{name}: {rows} not have {plural(found.columns, 'value')}, as the header does; the"
            f" first one, row {found.first:,}, has {found.values:,}. Missing ones are read as null,"
            " others are dropped"
        )


def ragged_rows(file: Path, options: Mapping[str, str]) -> RaggedRows | None:
    """The ragged rows of a CSV file; None where it has none, or cannot be read in this way.

    `options` are those that Spark reads it with, by names in lower case.
    """
    found: list[Any] = []
    count = 0

    def note(row: Any) -> str:
        nonlocal count
        count += 1
        if not found:
            found.append(row)
        return "skip"

    parsing = _parsing(options, note)
    if parsing is None:
        return None
    header = options.get("header", "false").lower() == "true"
    try:
        with (
            pa.input_stream(str(file), compression="detect") as stream,
            pc.open_csv(
                stream,
                # In one thread rows have numbers.
                pc.ReadOptions(use_threads=False, autogenerate_column_names=not header),
                parsing,
                pc.ConvertOptions(include_columns=[_COLUMN], include_missing_columns=True),
            ) as blocks,
        ):
            for _ in blocks:
                pass
    except (OSError, pa.ArrowException):
        # Spark says what is the matter with it, or takes it for something else.
        return None
    if not found:
        return None
    first = found[0]
    number = first.number - 1 if header else first.number
    return RaggedRows(count, first.expected_columns, first.actual_columns, number)


def _parsing(options: Mapping[str, str], handler: Any) -> pc.ParseOptions | None:
    separator = options.get("sep") or options.get("delimiter") or ","
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if any(len(sign) != 1 for sign in (separator, quote, escape)):
        return None
    return pc.ParseOptions(
        delimiter=separator,
        quote_char=quote,
        double_quote=escape == quote,
        escape_char=False if escape == quote else escape,
        newlines_in_values=options.get("multiline", "false").lower() == "true",
        invalid_row_handler=handler,
    )

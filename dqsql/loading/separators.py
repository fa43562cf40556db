"""What stands between the values of CSV files that nobody has declared."""

from __future__ import annotations

import bz2
import csv
import gzip
from collections.abc import Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

COMMA = ","
_OTHERS = (";", "\t", "|")
# What is looked at of a file.
_BYTES = 64 * 1024
_RECORDS = 20


def separator_of(file: Path) -> str:
    """What separates the values of a CSV file of this machine, from its first records.

    The one of `;`, tab and `|` that gives each record as many values as the first, where the comma
    does not. A comma where that is none or several, or the file cannot be read.
    """
    text = _beginning(file)
    fitting = [s for s in _OTHERS if _fits(text, s)]
    return fitting[0] if len(fitting) == 1 and not _fits(text, COMMA) else COMMA


def separator_note(columns: Sequence[str]) -> str | None:
    """What to say of a relation whose only column looks like several; None for others."""
    found = [s for s in _OTHERS if len(columns) == 1 and s in columns[0]]
    if not found:
        return None
    shown = "\\t" if found[0] == "\t" else found[0]
    return (
        f"the only column has {'a tab' if shown != found[0] else repr(shown)} in its name: "
        f'if that separates columns, declare the source with options: {{sep: "{shown}"}}'
    )


def _beginning(file: Path) -> str:
    try:
        with _opened(file) as read:
            data = read.read(_BYTES)
    except (OSError, EOFError):
        # Reading it will say what is the matter.
        return ""
    text = data.decode("utf-8-sig", errors="replace")
    # The last record may go on.
    return text if len(data) < _BYTES else text.rpartition("\n")[0]


def _opened(file: Path) -> gzip.GzipFile | bz2.BZ2File | BinaryIO:
    ending = file.suffix.lower()
    if ending == ".gz":
        return gzip.GzipFile(file)
    return bz2.BZ2File(file) if ending == ".bz2" else file.open("rb")


def _fits(text: str, separator: str) -> bool:
    records = csv.reader(StringIO(text, newline=""), delimiter=separator)
    try:
        widths = {len(record) for record in islice(filter(None, records), _RECORDS)}
    except csv.Error:
        return False
    return len(widths) == 1 and widths.pop() > 1

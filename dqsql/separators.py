"""How CSV and JSON files are read where nobody has said it: what their beginning shows."""

from __future__ import annotations

import codecs
import csv
import json
import re
import zlib
from collections.abc import Sequence
from io import StringIO
from itertools import islice
from pathlib import Path

from dqsql.resources import unpacked

COMMA = ","
_OTHERS = (";", "\t", "|")
# Of JSON: texts, in which brackets mean nothing, and brackets.
_JSON = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
# So much is searched for the end of the first value.
_LOOKED_AT = 2**20
# What is the matter, reading the file will say.
_UNREADABLE = (OSError, EOFError, zlib.error)
# What is looked at of a file.
_BYTES = 64 * 1024
_RECORDS = 20
_UTF_16, _UTF_32 = "UTF-16", "UTF-32"


def csv_options(file: Path, separator: str | None = None) -> dict[str, str]:
    """The options with which Spark reads a CSV file of this machine, from its first records.

    `sep` is the one of `;`, tab and `|` that gives each record as many values as the first, where
    the comma does not; or `separator`, if that is known. `encoding` is Latin-1 for bytes that are
    no UTF-8, UTF-16 for its byte order mark. `multiLine` where a value has a line break.
    Nothing where Spark's default fits, or the file cannot be read.
    """
    data = _beginning(file)
    encoding = _encoding_of(data)
    text = data.decode(encoding or "utf-8-sig", errors="replace")
    separator = separator or _separator_of(text)
    options = {} if separator == COMMA else {"sep": separator}
    if encoding is not None:
        options["encoding"] = encoding
    broken = any("\n" in value for record in _records(text, separator) for value in record)
    # Spark looks for the bytes of line breaks before it decodes, which halves UTF-16's characters.
    if broken or encoding in (_UTF_16, _UTF_32):
        options["multiLine"] = "true"
    return options


def json_options(file: Path) -> dict[str, str]:
    """The options with which Spark reads a JSON file of this machine.

    `multiLine` where its objects go over several lines; nothing where each line is one.
    """
    first, *more = _beginning(file).decode("utf-8-sig", errors="replace").split("\n", 1)
    if not more or not first.lstrip().startswith(("[", "{")):
        return {}
    try:
        json.loads(first)
    except ValueError:
        return {"multiLine": "true"}
    return {}


def has_several_values(file: Path) -> bool:
    """Whether a JSON file of this machine holds several objects or arrays, as its beginning shows.

    With `multiLine`, Spark reads the first of them and no other. What is no plain JSON, as with
    texts in single quotes or another encoding, is taken for one.
    """
    try:
        with unpacked(file) as read:
            text = read.read(_LOOKED_AT).decode("utf-8-sig", errors="replace")
    except _UNREADABLE:
        return False
    depth = end = 0
    for token in _JSON.finditer(text):
        if "'" in text[end : token.start()] or "\0" in text[end : token.start()]:
            return False
        end = token.end()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return text[end:].lstrip().startswith(("{", "[", ","))
    return False


def _separator_of(text: str) -> str:
    widths = [len(record) for record in _records(text, COMMA)]
    # Of rows that do not fit, a warning tells.
    if widths and widths[0] > 1 and 2 * widths.count(widths[0]) > len(widths):
        return COMMA
    fitting = [s for s in _OTHERS if _fits(text, s)]
    return fitting[0] if len(fitting) == 1 else COMMA


def _encoding_of(data: bytes) -> str | None:
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return _UTF_32
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _UTF_16
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        # A stray byte among letters of UTF-8 is no other encoding.
        return "ISO-8859-1" if data.decode("utf-8", errors="ignore").isascii() else None
    return None


def separator_note(columns: Sequence[str]) -> str | None:
    """What to say of a relation whose only column looks like several; None for others."""
    separators = [s for s in _OTHERS if len(columns) == 1 and s in columns[0]]
    if not separators:
        return None
    shown = "\\t" if separators[0] == "\t" else separators[0]
    return (
        f"the only column has {'a tab' if shown != separators[0] else repr(shown)} in its name: "
        f'if that separates columns, declare the source with options: {{sep: "{shown}"}}'
    )


def _beginning(file: Path) -> bytes:
    try:
        with unpacked(file) as read:
            data = read.read(_BYTES)
    except _UNREADABLE:
        # Reading it will say what is the matter.
        return b""
    # The last record may go on.
    return data if len(data) < _BYTES else data[: data.rfind(b"\n") + 1]


def _fits(text: str, separator: str) -> bool:
    widths = {len(record) for record in _records(text, separator)}
    return len(widths) == 1 and widths.pop() > 1


def _records(text: str, separator: str) -> list[list[str]]:
    """The first records; none where Python's reader refuses them."""
    try:
        records = csv.reader(StringIO(text, newline=""), delimiter=separator)
        return list(islice(filter(None, records), _RECORDS))
    except (csv.Error, TypeError):
        # Python knows no separators of several characters.
        return []

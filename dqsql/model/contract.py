"""Data contracts: what a relation promises to those who read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dqsql.errors import Span
from dqsql.model.project import Severity
from dqsql.model.types import WHOLE_NUMBERS, fields_of, is_number

# Types of the Open Data Contract Standard that several types of Spark are.
LOGICAL = frozenset(
    {"string", "date", "timestamp", "time", "number", "integer", "object", "array", "boolean"}
    | {"map", "any"}
)
# Custom properties of an object: whether further columns break the contract, and what divides the
# rows of its check model.
CLOSED, BATCH_BY, SEGMENT_BY = "dqsql.closed", "dqsql.batch_by", "dqsql.segment_by"
# The logical type of a column of which only the name is promised.
ANY = "<any>"
_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "character": "string",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_PLAIN = frozenset(
    {"boolean", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"}
    | {"variant", "void"}
    | WHOLE_NUMBERS
)
_NOWHERE = Span("")
# A word that is no name of a field: those stand before a colon.
_WORD = re.compile(r"(?<!\w)([a-z_]\w*)(?!\w)\s*(\([\d\s,]*\))?(?!\s*:)")
# A field without the colon, as SQL also has it: `struct<a int, b string>`.
_FIELD = re.compile(r"(?<=[<,])( ?\w+) (?=[a-z])(?!collate )")
_AFTER_NAME = re.compile(r"^\s+([a-z])")
_QUOTED = re.compile(r"(`(?:[^`]|``)*`)")
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_TIME = re.compile(r"time\(\d\)")
_NESTED = re.compile(r"(array|map|struct)<.*>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """What a contract promises beyond types, as the expression of an annotation.

    `settings` are those that stand behind it: `{"where": "x > 0", "mostly": 0.9}`. `span` is its
    place; None: that of the contract.
    """

    expression: str
    name: str | None = None
    severity: Severity | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    description: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ContractColumn:
    """A column that is promised.

    Attributes:
        name: its name.
        type: a Spark type (`decimal(10,2)`), a logical type in angles (`<number>`), or "" for any.
        required: whether every row has a value.
        unique: whether no value occurs twice.
        key: its place in the primary key, from 1; None: it is no part of it.
        checks: what else is promised of its values.
        span: its place; None: that of the contract.
    """

    name: str
    type: str = ""
    required: bool = False
    unique: bool = False
    key: int | None = None
    checks: tuple[ContractCheck, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Contract:
    """What a relation promises.

    Attributes:
        name: of the relation.
        columns: those that are promised, in order.
        checks: what is promised of the relation as a whole.
        closed: whether further columns break it.
        span: where it is written.
        left: rules in it that dqsql does not check, each with the reason.
        config: the settings of its check model that it names, `batch_by` and `segment_by`.
    """

    name: str
    columns: tuple[ContractColumn, ...]
    checks: tuple[ContractCheck, ...] = ()
    closed: bool = False
    span: Span = _NOWHERE
    left: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        key_columns = [(c.key, c.name) for c in self.columns if c.key is not None]
        return tuple(name for _, name in sorted(key_columns))

    def has_values(self, column: ContractColumn) -> bool:
        """Whether each row has a value of the column, which is so of a key."""
        return column.required or column.key is not None

    def is_unique(self, column: ContractColumn) -> bool:
        """Whether no value of the column occurs twice, which is so of a key alone."""
        return column.unique or self.key == (column.name,)


def spark_type(text: str) -> str | None:
    """A type as Spark's `simpleString` writes it; None where it is none of Spark's.

    Names of other databases that mean one of Spark's types are taken for it: `VARCHAR(18)` is
    `string`, as Spark reads it.
    """
    parts = _QUOTED.split(text.lower())
    # Names of fields in quotes stay as they are; a colon behind them may be left out.
    parts[::2] = (
        _plain_types(_AFTER_NAME.sub(r":\1", p) if i else p) for i, p in enumerate(parts[::2])
    )
    plain_type = "".join(parts)
    parametric = (_DECIMAL, _TIME, _NESTED)
    is_known = plain_type in _PLAIN or any(kind.fullmatch(plain_type) for kind in parametric)
    return plain_type if is_known else None


def _plain_types(text: str) -> str:
    words = " ".join(text.split()).replace("double precision", "double").replace(" not null", "")
    words = _FIELD.sub(r"\1:", words)
    return _WORD.sub(_plain_type, words).replace(" ", "")


def _plain_type(match: re.Match[str]) -> str:
    word, size = _ALIASES.get(match[1], match[1]), (match[2] or "").replace(" ", "")
    if word == "decimal":
        if not size:
            return "decimal(10,0)"
        return word + (size if "," in size else f"{size[:-1]},0)")
    return word if word in ("string",) else word + size


def is_logical(kind: str) -> bool:
    """Whether a column's type is a logical one, in angles."""
    return kind.startswith("<")


def is_of_logical(kind: str, spark: str) -> bool:
    """Whether a Spark type is one of those that a logical type (`<number>`) stands for."""
    name = kind.strip("<>")
    nested = spark.partition("<")[0]
    by_name = {
        "string": spark == "string",
        "integer": spark in WHOLE_NUMBERS or re.fullmatch(r"decimal\(\d+,0\)", spark) is not None,
        "number": is_number(spark),
        "boolean": spark == "boolean",
        # Before version 3.1 of the standard a date may have a time.
        "date": spark in ("date", "timestamp", "timestamp_ntz"),
        "timestamp": spark in ("timestamp", "timestamp_ntz"),
        "time": _TIME.fullmatch(spark) is not None,
        "object": nested in ("struct", "map") or spark == "variant",
        "map": nested == "map",
        "array": nested == "array",
        "any": True,
    }
    return by_name.get(name, False)


def logical_of(spark: str) -> str:
    """The logical type of a Spark type."""
    nested = spark.partition("<")[0]
    if spark in WHOLE_NUMBERS:
        return "integer"
    if is_number(spark):
        return "number"
    if spark.startswith("timestamp"):
        return "timestamp"
    if _TIME.fullmatch(spark):
        return "time"
    known = {"date": "date", "boolean": "boolean", "array": "array", "map": "map"}
    return known.get(nested, "object" if nested in ("struct", "variant") else "string")


class ColumnListError(ValueError):
    """A list of columns with types that cannot be read; the text says why."""


def column_list(text: str) -> dict[str, str]:
    """The columns of `id bigint, amount decimal(10,2)` with their types, in order.

    Raises ColumnListError.
    """
    columns: dict[str, str] = {}
    for part in _parts(text):
        match = re.fullmatch(r"\s*(?:`((?:[^`]|``)+)`|([^\s`,]+))\s+(.+?)\s*", part, re.DOTALL)
        if match is None:
            raise ColumnListError(f"{part.strip()!r} is not a column with its type")
        name = (match[1] or match[2]).replace("``", "`")
        given = match[3]
        if given.lower().endswith("not null"):
            raise ColumnListError(f"{name} says not null: write @not_null on the column")
        kind = given.lower() if given.startswith("<") else spark_type(given)
        if kind is None or (given.startswith("<") and kind.strip("<>") not in LOGICAL):
            raise ColumnListError(f"{given!r} is not a type of Spark")
        if name.casefold() in {n.casefold() for n in columns}:
            raise ColumnListError(f"{name} appears twice")
        columns[name] = kind
    if not columns:
        raise ColumnListError("no column is named")
    return columns


def column_list_text(columns: dict[str, str]) -> str:
    """The inverse of `column_list`."""
    return ", ".join(f"{_name(name)} {kind}" for name, kind in columns.items())


def quoted_fields(kind: str) -> str:
    """A type as SQL reads it: names of fields that are no words stand in backticks.

    >>> quoted_fields("array<struct<zip code:string,city:string>>")
    'array<struct<`zip code`:string,city:string>>'
    """
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "array":
        return f"array<{quoted_fields(inner)}>"
    key, _, value = inner.partition(",")
    if outer == "map" and not {"<", "("} & {*key}:
        return f"map<{key},{quoted_fields(value)}>"
    fields = fields_of(kind) if outer == "struct" else None
    if fields is None:
        return kind
    listed = ",".join(f"{_name(name)}:{quoted_fields(t)}" for name, t in fields.items())
    return f"struct<{listed}>"


def _name(name: str) -> str:
    # Types that people write have their quotes already.
    return name if re.fullmatch(r"\w+|`.+`", name) else "`" + name.replace("`", "``") + "`"


def _parts(text: str) -> Iterator[str]:
    """The text between commas that stand in no brackets and no backticks."""
    depth, start, quoted = 0, 0, False
    for at, sign in enumerate(text):
        if sign == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "(<":
            depth += 1
        elif sign in ")>":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]

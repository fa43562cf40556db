"""Whether a column's name, and its table's, say that its values are unique.

A logistic regression on hashed character n-grams of the names, the type, the column's position and
the names of its neighbours. Source: Schelter et al., "Automating Large-Scale Data Quality
Verification", VLDB 2018, sections 3.3 and 4.2, with position, neighbours and the resemblance of the
two names added. `tests/benchmarks/train_unique_names.py` trains it; docs/unique-names.md is its
model card.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dqsql.errors import LoadError

WEIGHTS_FILE = Path(__file__).with_name("unique_names.json")
BUCKETS = 2**14
_MAX_GRAM = 5

# Words in the names of SQL and Spark types, and the kind that they stand for; the first wins.
_KINDS = (
    ("boolean", ("bool", "bit")),
    ("time", ("date", "time", "year", "interval")),
    ("integer", ("int", "serial", "long", "short")),
    ("fractional", ("dec", "num", "double", "float", "real", "money")),
    ("binary", ("blob", "binary", "bytea", "image", "raw")),
    ("text", ("char", "clob", "text", "string", "enum", "uuid", "set", "name", "json", "xml")),
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONG_TEXTS = ("text", "clob")


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column as the classifier sees it: names, the SQL or Spark type, and all columns' names.

    `ordered` says that `columns` are in the table's own order, which a SELECT need not keep.
    """

    table: str
    column: str
    kind: str
    columns: tuple[str, ...]
    ordered: bool = True


def type_kind(sql_type: str) -> str:
    """The kind of a SQL or Spark type: integer, fractional, text, time, boolean, binary, other."""
    lower = sql_type.lower()
    if any(lower.endswith(word) for word in _LONG_TEXTS) or lower.startswith(("long", "medium")):
        # `longtext` is no `long`, `mediumint` no text.
        lower = lower.removeprefix("long").removeprefix("medium").removeprefix("tiny")
    for kind, words in _KINDS:
        if any(word in lower for word in words):
            return kind
    return "other"


def words(name: str) -> list[str]:
    """The words of a name in lower case, split at underscores and camel case."""
    split = re.sub(r"[\W_]+", "_", _CAMEL.sub("_", name)).strip("_").lower()
    return [w for w in split.split("_") if w]


def features(name: ColumnName) -> list[str]:
    """The features of a column by name; each counts once."""
    column, table = "_".join(words(name.column)), "_".join(words(name.table))
    kind = type_kind(name.kind)
    feature_set = dict.fromkeys(f"c:{g}" for g in _grams(f"^{column}$"))
    feature_set |= dict.fromkeys(f"t:{g}" for g in _grams(f"^{table}$"))
    feature_set |= dict.fromkeys((f"k:{kind}", f"kc:{kind}:{column}"))
    feature_set |= dict.fromkeys(_about_table(column, table, kind))
    feature_set |= dict.fromkeys(_about_neighbors(name, column))
    return list(feature_set)


def _grams(text: str) -> Iterator[str]:
    for length in range(1, _MAX_GRAM + 1):
        for start in range(len(text) - length + 1):
            yield text[start : start + length]


def _about_table(column: str, table: str, kind: str) -> Iterator[str]:
    """How the column's name resembles the table's: `user_id` in `users`."""
    own, last = column.split("_"), singular_of(table.rpartition("_")[2])
    stem, tail = "_".join(own[:-1]), own[-1]
    singular = singular_of(table)
    if stem and stem in (table, singular, last):
        yield f"r:own:{tail}"
        yield f"r:own:{tail}:{kind}"
    elif stem and (singular.endswith(stem) or stem.endswith(last)):
        yield f"r:like:{tail}"
    elif stem:
        yield f"r:foreign:{tail}"
    if column in (table, singular, last):
        yield "r:same"
    squeezed = column.replace("_", "")
    if tail == own[0] and squeezed.endswith("id") and squeezed != "id":
        same = squeezed.removesuffix("id") in (singular.replace("_", ""), last)
        yield "r:own:id" if same else "r:foreign:id"


def singular_of(word: str) -> str:
    """A word without the ending of the plural: `categories` is `category`."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _about_neighbors(name: ColumnName, column: str) -> Iterator[str]:
    """Position, and what the other columns are called."""
    names = ["_".join(words(c)) for c in name.columns]
    mark = "id" if column.endswith("id") else "-"
    yield f"n:{min(len(names), 20).bit_length()}"
    ids = [n for n in names if n.endswith("id") and n != column]
    yield f"o:ids:{min(len(ids), 4)}:{mark}"
    if "id" in ids:
        yield f"o:has_id:{mark}"
    if name.ordered:
        yield from _about_place(names, column, mark)


def _about_place(names: Sequence[str], column: str, mark: str) -> Iterator[str]:
    place = names.index(column) if column in names else len(names)
    yield f"p:{min(place, 4)}"
    yield f"p:{min(place, 4)}:{mark}"
    if place and names[0].endswith("id"):
        yield f"o:first_id:{mark}"
    if place == 0 and len(names) > 1 and names[1].endswith("id"):
        yield f"o:second_id:{mark}"


def hashed(feature_texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """The buckets of features, sorted, each once. Shape (n,), values in [0, BUCKETS)."""
    return np.unique([zlib.crc32(f.encode()) % BUCKETS for f in feature_texts])


@dataclass(frozen=True)
class UniqueNames:
    """The trained classifier: `intercept` and one weight for each bucket."""

    intercept: float
    weights: npt.NDArray[np.float64]

    def probability(self, name: ColumnName) -> float:
        """The probability in (0, 1) that the column is declared unique.

        A row is scaled to length 1, as in training.
        """
        buckets = hashed(features(name))
        score = self.intercept + float(self.weights[buckets].sum()) / np.sqrt(len(buckets))
        return float(1 / (1 + np.exp(-score)))


def from_record(record: Mapping[str, object]) -> UniqueNames:
    """The classifier of a weights file: `buckets`, `intercept`, `index`, `weight`.

    Raises LoadError when the file is of other features than this version's.
    """
    index, weight = record.get("index"), record.get("weight")
    if record.get("buckets") != BUCKETS or not isinstance(index, list):
        raise LoadError(f"{WEIGHTS_FILE.name} does not fit this version of dqsql")
    weights = np.zeros(BUCKETS)
    weights[np.array(index, dtype=np.int64)] = np.array(weight, dtype=float)
    return UniqueNames(float(str(record["intercept"])), weights)


@cache
def unique_names() -> UniqueNames:
    """The classifier that ships with dqsql. Raises LoadError."""
    try:
        return from_record(json.loads(WEIGHTS_FILE.read_text()))
    except (OSError, ValueError) as error:
        raise LoadError(
            f"the installation of dqsql is incomplete: {WEIGHTS_FILE.name}: {error}",
            hint="reinstall dqsql",
        ) from error

"""JSON that others wrote, and JSON that every parser accepts, whatever the metrics were.

What is read has a bounded depth, and a shape that is looked at before it is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

# Any of the types, and null; a mapping of keys, where `?` ends those that may be missing; a list
# of one shape; a dict of `...` to the shape of all values.
Shape = type | tuple[type, ...] | list[Any] | dict[Any, Any] | None
_DEPTH = 100
_WORDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also of one nested deeper than 100 levels."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {_DEPTH} levels") from None
    level = [value]
    for _ in range(_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError(f"nested deeper than {_DEPTH} levels")


def _inside(value: Any) -> list[Any]:
    children = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return [inner for inner in children if isinstance(inner, dict | list)]


def read_json(file: Path, shape: Shape = None) -> Any:
    """The value of a JSON file. Raises OSError; ValueError: no JSON, or of another shape."""
    value = parse_json(file.read_text(encoding="utf-8"))
    if problem := misfit(value, shape):
        raise ValueError(problem)
    return value


def misfit(value: Any, shape: Shape, place: str = "") -> str | None:
    """The first place where a value is not of a shape, in words; None where it fits.

    Null fits everywhere but at the top: what writes artefacts writes null for what is not there.
    """
    if shape is None or (value is None and place):
        return None
    if isinstance(shape, dict):
        return _misfit_of_mapping(value, shape, place)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(value, list, place)
        problems = (misfit(item, shape[0], f"{place}[{i}]") for i, item in enumerate(value))
        return next((p for p in problems if p), None)
    fits = isinstance(value, shape) and not (isinstance(value, bool) and shape is not bool)
    return None if fits else _wrong(value, shape, place)


def _misfit_of_mapping(value: Any, shape: Mapping[Any, Any], place: str) -> str | None:
    if not isinstance(value, dict):
        return _wrong(value, dict, place)
    if ... in shape:
        keys = [(key, key, shape[...]) for key in value]
    else:
        keys = [(str(key), str(key).removesuffix("?"), inner) for key, inner in shape.items()]
    for declared, key, inner in keys:
        where = f"{place}.{key}" if place else str(key)
        if key not in value and not declared.endswith("?"):
            return f"{where} is missing"
        if problem := misfit(value.get(key), inner, where):
            return problem
    return None


def _wrong(value: Any, wanted: type | tuple[type, ...], place: str) -> str:
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    expected = " or ".join(dict.fromkeys(_WORDS.get(kind, "a number") for kind in kinds))
    actual = _WORDS.get(type(value), "null" if value is None else "a number")
    return f"{place or 'the file'} is {actual} and should be {expected}"


def jsonable(value: Any) -> Any:
    """Return `value` made of JSON's own types only.

    Python writes NaN and infinity as words that are not JSON, so NaN becomes null, as a metric
    without a value is, and infinities become the strings `Infinity` and `-Infinity`, since they
    do say something.
    """
    kind = type(value)
    # What nearly all of a document is made of.
    if kind is str:
        return value if value.isascii() else _text(value)
    if value is None or kind is bool or kind is int:
        return value
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, int | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Decimal):
        return _number(float(value))
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, date | PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(jsonable(k)): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted((jsonable(v) for v in value), key=str)
    return _other(value)


def _other(value: Any) -> Any:
    # numpy's scalars and arrays, without importing numpy.
    to_python = getattr(value, "tolist", None)
    if callable(to_python):
        return jsonable(to_python())
    return _text(str(value))


def _text(value: str) -> str:
    # A lone surrogate cannot be encoded as UTF-8; it can come from a file name.
    return value.encode("utf-8", "replace").decode("utf-8")


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def timestamp(moment: datetime) -> str:
    """Return the moment in UTC as dbt's artefacts write it: `2013-02-09T12:00:00.000000Z`.

    A moment without a zone is taken as UTC.
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # strftime does not fill up years before 1000.
    return f"{aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON text; see `jsonable`."""
    return json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False, indent=indent)

"""JSON that every parser accepts, whatever the metrics were."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any


def jsonable(value: Any) -> Any:
    """Return `value` made of JSON's own types only.

    Python writes NaN and infinity as words that are not JSON, so NaN becomes null, as a metric
    without a value is, and infinities become the strings `Infinity` and `-Infinity`, since they
    do say something.
    """
    if isinstance(value, Enum):
        return jsonable(value.value)
    if value is None or isinstance(value, bool | int | str):
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

"""Parquet and ORC files of one source whose columns differ: Spark takes those of one of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.engine.paths import files_at

# Of more files the oldest and the newest are looked at, half of them each: columns come with time.
_MOST = 200


def columns_were_added(path: str, file_format: str = "parquet") -> bool:
    """Whether files at a path of this machine have columns that others lack, and agree otherwise.

    Spark can merge their schemas then (its option `mergeSchema`). Files whose types differ are for
    Spark to refuse or to cast.
    """
    files = sorted(files_at(Path(path)) or (), key=lambda f: f.stat().st_mtime)
    if len(files) < 2:
        return False
    if len(files) > _MOST:
        files = [*files[: _MOST // 2], *files[-_MOST // 2 :]]
    merged: dict[str, pa.DataType] = {}
    numbers = set()
    for file in files:
        try:
            schema = _schema(file, file_format)
        except (OSError, pa.ArrowException):
            # Reading it will say what is the matter.
            return False
        numbers.add(len(schema))
        if any(merged.setdefault(f.name.lower(), f.type) != f.type for f in schema):
            return False
    return numbers != {len(merged)}


def _schema(file: Path, file_format: str) -> pa.Schema:
    if file_format == "orc":
        # Takes a tenth of a second, which the other formats do not spend.
        from pyarrow.orc import ORCFile

        return ORCFile(file).schema
    return pq.read_schema(file)

"""Parquet files of one source whose columns differ: Spark takes the columns of one of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.engine.paths import files_at

# Of more files the oldest and the newest are looked at, half of them each: columns come with time.
_MOST = 200


def columns_were_added(path: str) -> bool:
    """Whether files of a folder of this machine have columns that others lack, and agree otherwise.

    Spark can merge their schemas then (its option `mergeSchema`). Files whose types differ are for
    Spark to refuse or to cast.
    """
    folder = Path(path)
    if not folder.is_dir():
        return False
    files = sorted(files_at(folder) or (), key=lambda f: f.stat().st_mtime)
    if len(files) > _MOST:
        files = [*files[: _MOST // 2], *files[-_MOST // 2 :]]
    merged: dict[str, pa.DataType] = {}
    numbers = set()
    for file in files:
        try:
            schema = pq.read_schema(file)
        except (OSError, pa.ArrowException):
            # Reading it will say what is the matter.
            return False
        numbers.add(len(schema))
        if any(merged.setdefault(f.name.lower(), f.type) != f.type for f in schema):
            return False
    return bool(files) and numbers != {len(merged)}

"""Parquet and ORC files of one source whose columns differ: Spark takes those of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.engine.paths import files_at, named_in_paths

# Of more files the oldest and the newest are looked at, half of them each: columns come with time.
_MOST = 200


@dataclass(frozen=True)
class UnevenFiles:
    """Files that have columns which others lack.

    `missing` are the columns that older files have and the `newest` one lacks. `unlike` has a file
    of each schema, the newest last, where types of numbers differ, and is empty elsewhere.
    """

    newest: Path
    missing: Sequence[str]
    unlike: Sequence[Path] = ()


def uneven_files(path: str, file_format: str = "parquet") -> UnevenFiles | None:
    """The files at a path of this machine where some have columns that others lack.

    Spark can merge their schemas then (its option `mergeSchema`), but not where a column has whole
    numbers of 32 bits in one Parquet file and of 64 in another, though it can read both as the
    latter. None where all have the same columns, and where types differ in other ways, which is for
    Spark to refuse or to cast.
    """
    files = sorted(files_at(Path(path)) or (), key=lambda f: (f.stat().st_mtime, f))
    if len(files) < 2:
        return None
    if len(files) > _MOST:
        files = [*files[: _MOST // 2], *files[-_MOST // 2 :]]
    merged: dict[str, pa.Field] = {}
    names: dict[Path, set[str]] = {}
    schemas: dict[pa.Schema, Path] = {}
    widened = False
    for file in files:
        try:
            schema = _schema(file, file_format)
        except (OSError, pa.ArrowException):
            # Reading it will say what is the matter.
            return None
        others = [f for f in schema if merged.setdefault(f.name.lower(), f).type != f.type]
        kinds = [{f.type, merged[f.name.lower()].type} for f in others]
        if others and (file_format == "orc" or not all(map(_is_widened, kinds))):
            return None
        widened |= bool(others)
        names[file] = {f.name.lower() for f in schema}
        plain = schema.remove_metadata()
        schemas.pop(plain, None)
        schemas[plain] = file
    if not widened and all(file_columns == merged.keys() for file_columns in names.values()):
        return None
    # Copied files may be dated in any order: the one whose name is last has to agree.
    newest = names[files[-1]] | names[max(files)]
    # What the path says, `day=2024-01-01`, is a column of all rows.
    newest |= named_in_paths(path, files[-1:], {})
    missing = sorted(merged[name].name for name in merged.keys() - newest)
    return UnevenFiles(files[-1], missing, list(schemas.values()) if widened else ())


def _is_widened(kinds: set[pa.DataType]) -> bool:
    """Whether Spark reads Parquet files of all of these types as the widest of them."""
    alike = (pa.types.is_signed_integer, pa.types.is_floating)
    decimals = all(map(pa.types.is_decimal, kinds)) and len({kind.scale for kind in kinds}) == 1
    return decimals or any(all(map(test, kinds)) for test in alike)


def _schema(file: Path, file_format: str) -> pa.Schema:
    if file_format == "orc":
        # Takes a tenth of a second, which the other formats do not spend.
        from pyarrow.orc import ORCFile

        return ORCFile(file).schema
    return pq.read_schema(file)

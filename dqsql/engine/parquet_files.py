"""Parquet and ORC files of one source whose columns differ: Spark takes those of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.engine.paths import chosen_files, named_in_paths

# Of more files the oldest and the newest are looked at, half of them each: columns come with time.
_MOST = 2000
_LARGE = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


@dataclass(frozen=True)
class AlikeFiles:
    """Files with one `schema`, the newest last.

    `untyped` are the names, in lower case, of the columns that it says no type of, since they are
    null, and that of others does: Spark takes such a column for one of whole numbers.
    """

    files: Sequence[Path]
    schema: pa.Schema
    untyped: frozenset[str]


@dataclass(frozen=True)
class UnevenFiles:
    """Files that have columns which others lack.

    `missing` are the columns that older files have and the `newest` one lacks; columns may also be
    fields of structs, of which none is listed. Where types differ, `unlike` has all files by their
    schemas, that of the newest last.
    """

    newest: Path
    missing: Sequence[str]
    unlike: Sequence[AlikeFiles] = ()


def uneven_files(
    path: str, file_format: str = "parquet", options: Mapping[str, str] | None = None
) -> UnevenFiles | None:
    """The files that `options` choose at a path of this machine, where some lack columns of others.

    Spark can merge their schemas then (its option `mergeSchema`), but not where a column has whole
    numbers of 32 bits in one Parquet file and of 64 in another, though it can read both as the
    latter; and not where types have nothing in common, though nobody may read that column. Nor does
    it merge or find a schema where a file is empty, though it reads the others. None where all have
    the same columns.
    """
    stats = {file: file.stat() for file in chosen_files(path, options or {})}
    files = sorted((f for f in stats if stats[f].st_size), key=lambda f: (stats[f].st_mtime, f))
    are_empty = len(files) < len(stats)
    if not files or len(stats) < 2:
        return None
    if len(files) > _MOST:
        files = [*files[: _MOST // 2], *files[-_MOST // 2 :]]
    merging = _Merging()
    merged: dict[str, pa.Field] = {}
    names: dict[Path, set[str]] = {}
    schemas: dict[pa.Schema, list[Path]] = {}
    for file in files:
        try:
            schema = _schema(file, file_format)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException):
            # Reading it will say what is the matter.
            return None
        plain = schema.remove_metadata()
        for column in schema if plain not in schemas else ():
            known = merged.setdefault(column.name.lower(), column)
            merged[column.name.lower()] = known.with_type(merging.both(known.type, column.type))
        names[file] = {f.name.lower() for f in schema}
        schemas[plain] = [*schemas.pop(plain, ()), file]
    typed = frozenset(name for name, known in merged.items() if not pa.types.is_null(known.type))
    unlike = [
        AlikeFiles(some, s, typed & {f.name.lower() for f in s if pa.types.is_null(f.type)})
        for s, some in schemas.items()
    ]
    differ = are_empty or merging.widened or any(alike.untyped for alike in unlike)
    if not (differ or merging.lacking) and all(
        file_columns == merged.keys() for file_columns in names.values()
    ):
        return None
    # Copied files may be dated in any order: the one whose name is last has to agree.
    newest = names[files[-1]] | names[max(files)]
    # What the path says, `day=2024-01-01`, is a column of all rows.
    newest |= named_in_paths(path, files[-1:], {})
    missing = sorted(merged[name].name for name in merged.keys() - newest)
    return UnevenFiles(files[-1], missing, unlike if differ else ())


@dataclass
class _Merging:
    """What was seen while types were merged.

    `widened` says that Spark needs to be told the type: where types differ, or fields are written
    in two ways. `lacking` says that structs have fields which others lack.
    """

    widened: bool = False
    lacking: bool = False

    def both(self, one: pa.DataType, other: pa.DataType, *, inside: bool = False) -> pa.DataType:
        """A type with the fields of two, which may stand `inside` of others."""
        one, other = as_stored(one), as_stored(other)
        if one == other:
            return one
        if pa.types.is_null(one) or pa.types.is_null(other):
            self.widened |= inside
            return one if pa.types.is_null(other) else other
        if pa.types.is_struct(one) and pa.types.is_struct(other):
            return self._struct(list(one), list(other))
        if pa.types.is_map(one) and pa.types.is_map(other):
            keys = self.both(one.key_type, other.key_type, inside=True)
            return pa.map_(keys, self.both(one.item_type, other.item_type, inside=True))
        if pa.types.is_list(one) and pa.types.is_list(other):
            return pa.list_(self.both(one.value_type, other.value_type, inside=True))
        self.widened = True
        return one

    def _struct(self, one: Sequence[pa.Field], other: Sequence[pa.Field]) -> pa.DataType:
        fields = {field.name.lower(): field for field in one}
        added = {field.name.lower(): field for field in other}
        self.lacking |= fields.keys() != added.keys()
        for name in fields.keys() & added.keys():
            known = fields[name]
            # Spark merges fields by their exact names, and then finds two of one name.
            self.widened |= known.name != added[name].name
            fields[name] = known.with_type(self.both(known.type, added[name].type, inside=True))
        return pa.struct(list({**added, **fields}.values()))


def as_stored(kind: pa.DataType) -> pa.DataType:
    """A type as Parquet has it: other programs note their own beside it, such as categories."""
    if pa.types.is_dictionary(kind):
        return as_stored(kind.value_type)
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    return _LARGE.get(kind, kind)


def _schema(file: Path, file_format: str) -> pa.Schema:
    if file_format == "orc":
        # Takes a tenth of a second, which the other formats do not spend.
        from pyarrow.orc import ORCFile

        return ORCFile(file).schema
    return pq.read_schema(file)

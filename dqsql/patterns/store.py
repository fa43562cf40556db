"""The corpus index on disk.

An index is a folder:

    index.json        format, settings, totals
    patterns.parquet  one row for each pattern with its sums; sorted by pattern, without patterns of
                      so few columns that no inference may use them; read for look-ups
    contributions/    one Parquet file per bucket of tables, the sums of each table; read only to
                      add or replace tables
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dqsql.errors import PatternError
from dqsql.json_text import read_json
from dqsql.patterns.contributions import COUNTS, Contribution, IndexSettings
from dqsql.patterns.index import INDEX_SCHEMA, PatternIndex, summed

_FORMAT_VERSION = 1
BUCKETS = 32

# Rows of contributions are summed in portions of about this size.
_MAX_UNSUMMED_ROWS = 4_000_000

CONTRIBUTION_SCHEMA = pa.schema([("table", pa.string()), *INDEX_SCHEMA])


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What an index holds and weighs.

    Attributes:
        served_bytes, contribution_bytes: file sizes.
        corpus_bytes: UTF-8 bytes of the sampled values that were read.
    """

    tables: int
    columns: int
    patterns: int
    served_bytes: int
    contribution_bytes: int
    corpus_bytes: int


def load_index(folder: str | os.PathLike[str]) -> PatternIndex:
    """Read the served part of an index folder. Raises PatternError as `read_meta` does."""
    path = Path(folder)
    meta = read_meta(path)
    try:
        table = pq.read_table(path / "patterns.parquet", schema=INDEX_SCHEMA)
    except (OSError, pa.ArrowInvalid) as error:
        raise PatternError(f"{path / 'patterns.parquet'} cannot be read: {error}") from error
    return PatternIndex(
        table["pattern"].combine_chunks(),
        np.column_stack([table[name].to_numpy() for name in COUNTS]),
        columns=meta.columns,
        settings=meta.settings,
    )


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """The content of `index.json`: settings, and tables with their [columns, bytes of values]."""

    settings: IndexSettings
    tables: dict[str, tuple[int, int]]

    @property
    def columns(self) -> int:
        """Number of columns of all tables."""
        return sum(columns for columns, _ in self.tables.values())


def read_meta(folder: Path) -> IndexMeta:
    """Read `index.json`. Raises PatternError: it is missing, damaged, or of another format."""
    try:
        content = read_json(
            folder / "index.json", {"format": int, "settings": dict, "tables": dict}
        )
        if content["format"] != _FORMAT_VERSION:
            raise PatternError(
                f"pattern index {folder} has format {content['format']}, not {_FORMAT_VERSION}",
                hint="build it again with `dqsql index build`",
            )
        tables = {name: (int(c), int(b)) for name, (c, b) in content["tables"].items()}
        return IndexMeta(IndexSettings(**content["settings"]), tables)
    except FileNotFoundError as error:
        raise PatternError(
            f"no pattern index in {folder}", hint="build one with `dqsql index build`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PatternError(f"{folder / 'index.json'} is damaged: {error}") from error


def write_meta(folder: Path, meta: IndexMeta) -> None:
    """Write `index.json` in one step."""
    content = {
        "format": _FORMAT_VERSION,
        "settings": asdict(meta.settings),
        "tables": meta.tables,
    }
    temporary = folder / "index.json.tmp"
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(folder / "index.json")


def bucket_of(table: str) -> int:
    """Return the bucket, in [0, BUCKETS), in which a table's contribution is kept."""
    return zlib.crc32(table.encode("utf-8", "surrogatepass")) % BUCKETS


def contribution_rows(table: str, contribution: Contribution) -> pa.Table:
    """Return a table's contribution as rows of `CONTRIBUTION_SCHEMA`, sorted by pattern."""
    patterns = sorted(contribution.patterns)
    return pa.table(
        {
            "table": [table] * len(patterns),
            "pattern": patterns,
            **{
                name: [contribution.patterns[p][position] for p in patterns]
                for position, name in enumerate(COUNTS)
            },
        },
        schema=CONTRIBUTION_SCHEMA,
    )


def replace_tables(
    folder: str | os.PathLike[str],
    rows: Mapping[str, pa.Table],
    totals: Mapping[str, tuple[int, int]],
    settings: IndexSettings | None = None,
    *,
    serve: bool = True,
) -> SizeReport:
    """Add tables to an index, replacing the contribution of those already in it.

    `rows` are the contributions as rows of `CONTRIBUTION_SCHEMA`, `totals` the columns and bytes of
    values of each table. The folder is made when there is none; then `settings` may be given, and
    others than an index has raise PatternError. The corpus is not read.

    With `serve` false the served part is left as it is, for callers that add tables in several
    steps; the last step has to fold them.
    """
    path = Path(folder)
    parts = path / "contributions"
    parts.mkdir(parents=True, exist_ok=True)
    if (path / "index.json").exists():
        meta = read_meta(path)
        if settings is not None and settings != meta.settings:
            raise PatternError(
                f"pattern index {path} was built with {meta.settings}",
                hint="use the same settings, or build a new index",
            )
    else:
        meta = IndexMeta(settings or IndexSettings(), {})
    gone = set(totals)
    for bucket in sorted({bucket_of(name) for name in gone}):
        file = parts / f"bucket-{bucket:02d}.parquet"
        kept = pq.read_table(file).cast(CONTRIBUTION_SCHEMA) if file.exists() else None
        pieces = [] if kept is None else [_without(kept, gone)]
        pieces += [table for name, table in rows.items() if bucket_of(name) == bucket]
        _write(pa.concat_tables(pieces) if pieces else CONTRIBUTION_SCHEMA.empty_table(), file)
    tables = {name: total for name, total in meta.tables.items() if name not in gone}
    meta = replace(meta, tables={**tables, **totals})
    if serve or not (path / "patterns.parquet").exists():
        _serve(path, meta.settings, meta.columns)
    write_meta(path, meta)
    return size_report(path)


def _without(rows: pa.Table, tables: set[str]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["table"], pa.array(sorted(tables), pa.string()))))


def _serve(folder: Path, settings: IndexSettings, columns: int) -> None:
    """Fold the contributions of all tables to the served part.

    Bucket by bucket; what is held in memory are the distinct patterns, not the contributions.
    """
    total: pa.Table = INDEX_SCHEMA.empty_table()
    for file in sorted((folder / "contributions").glob("bucket-*.parquet")):
        rows = pq.read_table(file, columns=["pattern", *COUNTS])
        total = pa.concat_tables([total, rows.cast(INDEX_SCHEMA)])
        if total.num_rows > _MAX_UNSUMMED_ROWS:
            total = summed(total)
    total = summed(total)
    least = settings.least_coverage(columns)
    served = total.filter(pc.greater_equal(total["coverage"], least))
    _write(served.sort_by("pattern"), folder / "patterns.parquet")


def _write(rows: pa.Table, file: Path) -> None:
    temporary = file.with_suffix(".tmp")
    pq.write_table(
        rows,
        temporary,
        compression="zstd",
        compression_level=9,
        use_dictionary=["table"] if "table" in rows.column_names else False,
        column_encoding={
            "pattern": "DELTA_BYTE_ARRAY",
            **dict.fromkeys(COUNTS, "DELTA_BINARY_PACKED"),
        },
    )
    temporary.replace(file)


def tables_with(folder: str | os.PathLike[str], pattern: str) -> dict[str, int]:
    """Return the tables of an index in which columns match a pattern, with how many columns do.

    Reads the contributions, not the corpus.
    """
    read_meta(Path(folder))
    found: dict[str, int] = {}
    for file in sorted((Path(folder) / "contributions").glob("bucket-*.parquet")):
        rows = pq.read_table(
            file, columns=["table", "coverage"], filters=[("pattern", "=", pattern)]
        )
        for table, columns in zip(
            rows["table"].to_pylist(), rows["coverage"].to_pylist(), strict=True
        ):
            found[table] = found.get(table, 0) + columns
    return found


def size_report(folder: str | os.PathLike[str]) -> SizeReport:
    """Return what an index folder holds and weighs."""
    path = Path(folder)
    meta = read_meta(path)
    parts = (path / "contributions").glob("bucket-*.parquet")
    return SizeReport(
        tables=len(meta.tables),
        columns=meta.columns,
        patterns=pq.read_metadata(path / "patterns.parquet").num_rows,
        served_bytes=(path / "patterns.parquet").stat().st_size,
        contribution_bytes=sum(file.stat().st_size for file in parts),
        corpus_bytes=sum(size for _, size in meta.tables.values()),
    )


GENERAL_INDEX_FOLDER = Path(__file__).parent / "data" / "general"


@lru_cache(maxsize=1)
def general_index() -> PatternIndex:
    """The shipped index. Raises PatternError where the installation lacks it."""
    return load_index(GENERAL_INDEX_FOLDER)


def with_general(lake: PatternIndex) -> PatternIndex:
    """Return a lake's index together with the shipped one; alone where tau differs.

    A small lake knows little of formats that are new to it; in a large one the shipped columns
    do not weigh.
    """
    general = general_index()
    return lake.merged(general) if lake.settings.tau == general.settings.tau else lake

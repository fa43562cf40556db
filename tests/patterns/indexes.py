"""Indexes of columns that are held in memory, and how the one that ships is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.patterns.contributions import COUNTS, IndexSettings, column_patterns
from dqsql.patterns.index import INDEX_SCHEMA, PatternIndex


@dataclass(slots=True)
class Contribution:
    """What columns contribute: for each pattern the sums named in `COUNTS`.

    Attributes:
        columns: number of columns, those without any pattern included.
        value_bytes: UTF-8 bytes of the sampled values.
        patterns: pattern -> sums, in the order of `COUNTS`.
    """

    columns: int
    value_bytes: int
    patterns: dict[str, list[int]]

    @classmethod
    def empty(cls) -> Contribution:
        """The neutral element of merging."""
        return cls(0, 0, {})

    def add_column(self, values: Iterable[str | None], settings: IndexSettings) -> None:
        """Add one column's values; beyond `max_values` they are ignored."""
        kept = [value for value in values if value is not None][: settings.max_values]
        self.columns += 1
        self.value_bytes += sum(map(len, kept))
        for pattern, counts in column_patterns(kept, settings).items():
            sums = self.patterns.setdefault(pattern, [0] * len(COUNTS))
            for place, count in enumerate(counts):
                sums[place] += count


def index_of(contribution: Contribution, settings: IndexSettings | None = None) -> PatternIndex:
    """The index of what columns contribute."""
    settings = settings or IndexSettings()
    least = settings.least_coverage(contribution.columns)
    served = {p: counts for p, counts in contribution.patterns.items() if counts[0] >= least}
    rows = [{"pattern": p, **dict(zip(COUNTS, served[p], strict=True))} for p in sorted(served)]
    table = pa.Table.from_pylist(rows, schema=INDEX_SCHEMA)
    return PatternIndex(table, columns=contribution.columns, settings=settings)


def save_index(index: PatternIndex, folder: Path) -> None:
    """Write an index to a folder, from which `load_index` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        index.table,
        folder / "patterns.parquet",
        compression="zstd",
        compression_level=19,
        use_dictionary=False,
        column_encoding={
            "pattern": "DELTA_BYTE_ARRAY",
            **dict.fromkeys(COUNTS, "DELTA_BINARY_PACKED"),
        },
    )
    about = {"settings": asdict(index.settings), "columns": index.columns}
    (folder / "index.json").write_text(json.dumps(about), encoding="utf-8")

"""The corpus index: look-ups of what the corpus says of patterns (Auto-Validate, section 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dqsql.patterns.contributions import COUNTS, IMPURITY_SCALE, IndexSettings
from dqsql.patterns.parsing import parse_pattern

#: How an index is stored and exchanged: one row for each pattern.
INDEX_SCHEMA = pa.schema([("pattern", pa.string()), *((name, pa.int64()) for name in COUNTS)])


@dataclass(frozen=True, slots=True)
class PatternStatistics:
    """One pattern of an index: coverage in columns, and FPR in [0, 1]."""

    pattern: str
    coverage: int
    fpr: float


class PatternIndex:
    """The served part of an index: look-ups of coverage and FPR by pattern.

    Attributes:
        table: the rows as they are stored, with the columns of `INDEX_SCHEMA`.
        settings: how the index was built; inference must generate patterns the same way.
        columns: number of columns in the corpus.
    """

    def __init__(self, rows: pa.Table, *, columns: int, settings: IndexSettings) -> None:
        """Make an index of rows with the columns of `INDEX_SCHEMA`, and maybe others."""
        self.table = rows.select(INDEX_SCHEMA.names).cast(INDEX_SCHEMA)
        self.settings = settings
        self.columns = columns
        self._counts = np.column_stack([self.table[name].to_numpy() for name in COUNTS])

    def __len__(self) -> int:
        return len(self._counts)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {pattern: row for row, pattern in enumerate(self.table["pattern"].to_pylist())}

    def merged(self, other: PatternIndex) -> PatternIndex:
        """The index of both corpora, which have the same tau, together.

        Exact up to patterns that are left out of a served part for their small coverage.
        """
        rows = pa.concat_tables([self.table, other.table])
        return PatternIndex(
            summed(rows).sort_by("pattern"),
            columns=self.columns + other.columns,
            settings=self.settings,
        )

    def lookup(self, patterns: Sequence[str]) -> PatternEvidence:
        """Return what the corpus says of each pattern, in one batch; zeros for unknown ones."""
        counts = np.zeros((len(patterns), len(COUNTS)), dtype=np.int64)
        pairs = [(i, row) for i, p in enumerate(patterns) if (row := self._rows.get(p)) is not None]
        if pairs:
            places, rows = np.array(pairs).T
            counts[places] = self._counts[rows]
        return PatternEvidence(counts)

    def head(self, limit: int = 50, *, max_fpr: float = 0.1) -> list[PatternStatistics]:
        """Return the common domains: patterns of largest coverage with FPR <= max_fpr.

        Of patterns with the same coverage and FPR, which match the same columns as a rule, only
        the most specific is shown.
        """
        evidence = PatternEvidence(self._counts)
        rows = np.flatnonzero(evidence.fpr <= max_fpr)
        rows = rows[np.argsort(-evidence.coverage[rows], kind="stable")]
        best: dict[tuple[int, int], tuple[int, str]] = {}
        for row in rows:
            key = (int(self._counts[row, 0]), int(self._counts[row, 1]))
            if key not in best and len(best) == limit:
                break
            text = self.table["pattern"][int(row)].as_py()
            rank = (parse_pattern(text).generality, text)
            best[key] = min(best.get(key, rank), rank)
        return [
            PatternStatistics(text, coverage, impurity / (IMPURITY_SCALE * coverage))
            for (coverage, impurity), (_, text) in best.items()
        ]


@dataclass(frozen=True, slots=True)
class PatternEvidence:
    """What a corpus says of a batch of patterns.

    Attributes:
        counts: sums, shape (patterns, len(COUNTS)).
    """

    counts: npt.NDArray[np.int64]

    @property
    def coverage(self) -> npt.NDArray[np.int64]:
        """Cov_T: columns with at least one match, shape (patterns,)."""
        return self.counts[:, 0]

    @property
    def fpr(self) -> npt.NDArray[np.float64]:
        """FPR_T: mean impurity over those columns, in [0, 1], NaN for unknown patterns."""
        coverage = np.where(self.coverage > 0, self.coverage, np.nan)
        rate: npt.NDArray[np.float64] = self.counts[:, 1] / (IMPURITY_SCALE * coverage)
        return rate

    def rehearsals(self, stratum: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rehearsals in columns of a stratum (see `stratum_of`), and how many ended in an alarm."""
        first = COUNTS.index("trials_one") + 2 * stratum
        return self.counts[:, first], self.counts[:, first + 1]


def summed(rows: pa.Table) -> pa.Table:
    """Return rows of `INDEX_SCHEMA` with the sums of equal patterns added up."""
    grouped = rows.group_by("pattern").aggregate([(name, "sum") for name in COUNTS])
    grouped = grouped.select(["pattern", *(f"{name}_sum" for name in COUNTS)])
    return grouped.rename_columns(INDEX_SCHEMA.names).cast(INDEX_SCHEMA)

"""Indexes of columns that are held in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dqsql.patterns.contributions import Contribution, IndexSettings
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.store import SizeReport, contribution_rows, replace_tables


def index_of(contribution: Contribution, settings: IndexSettings | None = None) -> PatternIndex:
    """The index of what columns contribute."""
    settings = settings or IndexSettings()
    least = settings.least_coverage(contribution.columns)
    served = {p: counts for p, counts in contribution.patterns.items() if counts[0] >= least}
    return PatternIndex(
        sorted(served),
        np.array([served[p] for p in sorted(served)], dtype=np.int64),
        columns=contribution.columns,
        settings=settings,
    )


def update_index(
    folder: Path, contributions: Mapping[str, Contribution], settings: IndexSettings | None = None
) -> SizeReport:
    """Add what tables contribute to an index, or replace it."""
    rows = {name: contribution_rows(name, c) for name, c in contributions.items()}
    totals = {name: (c.columns, c.value_bytes) for name, c in contributions.items()}
    return replace_tables(folder, rows, totals, settings)

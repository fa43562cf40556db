"""Indexes of columns that are held in memory."""

from __future__ import annotations

import numpy as np

from dqsql.patterns.contributions import Contribution, IndexSettings
from dqsql.patterns.index import PatternIndex


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

"""The general index that ships with the package, for a lake that has no index of its own yet.

It was built by `tests/benchmarks/build_general_index.py` from generated columns of common
machine-made domains (dates, times, ids, codes, addresses, ..). For more evidence, a project's own
tables and their history can be added: `corpus_index` takes their columns and merges them with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from dqsql.patterns.contributions import Contribution
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.store import load_index

GENERAL_INDEX_FOLDER = Path(__file__).parent / "data" / "general"


@lru_cache(maxsize=1)
def general_index() -> PatternIndex:
    """Return the shipped index.

    Raises:
        PatternError: the installation lacks it.
    """
    return load_index(GENERAL_INDEX_FOLDER)


def with_general(lake: PatternIndex) -> PatternIndex:
    """Return a lake's index together with the shipped one; alone where tau differs.

    A small lake knows little of formats that are new to it; in a large one the shipped columns
    do not weigh.
    """
    general = general_index()
    return lake.merged(general) if lake.settings.tau == general.settings.tau else lake


def corpus_index(columns: Iterable[Iterable[str | None]]) -> PatternIndex:
    """Return the shipped index enlarged by the given columns' values (the fallback corpus)."""
    general = general_index()
    own = Contribution.empty()
    for values in columns:
        own.add_column(values, general.settings)
    return general.merged(PatternIndex.from_contribution(own, general.settings))

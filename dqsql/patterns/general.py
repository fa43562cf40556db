"""The index that is shipped: common formats of dates, times, ids and codes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.errors import PatternError
from dqsql.json_text import read_json
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.index import INDEX_SCHEMA, PatternIndex

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


def load_index(folder: Path) -> PatternIndex:
    """Read the index in a folder. Raises PatternError: a file is missing or damaged."""
    try:
        about = read_json(folder / "index.json", {"settings": dict, "columns": int})
        rows = pq.read_table(folder / "patterns.parquet", schema=INDEX_SCHEMA)
        settings = IndexSettings(**about["settings"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise PatternError(f"the pattern index in {folder} cannot be read: {error}") from error
    return PatternIndex(rows, columns=about["columns"], settings=settings)

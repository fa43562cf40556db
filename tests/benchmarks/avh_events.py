"""What really happened in the batches of the AVH evaluation, by which nothing is falsely alarmed.

Each shows in many columns: the blizzard of 8 February 2013 and the two days in which New York's
airports opened again, Thanksgiving and the storm of 5 December 2013; a wind of 1,048 miles per
hour; an order of 74,215 pieces, cancelled at once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from avh_metrics import METRICS, Traced
from pyarrow import parquet

DAYS = frozenset({"2013-02-08", "2013-02-09", "2013-02-10", "2013-11-28", "2013-12-05"})
# Columns in lower case, and what none of their good values is beyond.
LARGEST = {"wind_speed": 1_000, "wind_gust": 1_000, "quantity": 70_000}


def batch_labels(folder: Path, kind: str) -> dict[str, list[str]]:
    """The days of the batches of each sequence, in order."""
    path = folder / "avh" / f"sequences_{kind}.parquet"
    rows = parquet.read_table(path, columns=["seq_id", "t", "label"]).to_pylist()
    labels: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: int(row["t"])):
        labels.setdefault(row["seq_id"], []).append(str(row["label"]))
    return labels


def events(traced: Traced, kind: str, labels: list[str]) -> np.ndarray:
    """In which of its batches something happened."""
    happened = np.array([label in DAYS for label in labels])
    limit = LARGEST.get(traced.column.lower())
    if kind == "numeric" and limit is not None:
        happened |= traced.values[:, METRICS[kind].index("max")] > limit
    return happened

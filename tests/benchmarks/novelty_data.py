"""Batches of the novelty evaluation, and their metrics, attribute by attribute.

The folder is given by the caller or by the environment variable DQSQL_EVAL_DATA; it holds
`novelty/fbposts/{clean,dirty}.parquet` and `novelty/online_retail.parquet`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dqsql.decisions.novelty_config import Feature
from tests.benchmarks.novelty_metrics import column_metrics, metric_names

FBPOSTS: Mapping[str, Mapping[str, str]] = {
    "the two that differ": {"contenttype": "categorical", "text": "text"},
    "the paper's 4/3/2": {
        "line": "numeric",
        "week": "numeric",
        "num_likes": "numeric",
        "id": "numeric",
        "page": "categorical",
        "contenttype": "categorical",
        "outlet": "categorical",
        "title": "text",
        "text": "text",
    },
    "all 14": {
        "line": "numeric",
        "week": "numeric",
        "num_likes": "numeric",
        "id": "numeric",
        "page": "categorical",
        "contenttype": "categorical",
        "domain": "categorical",
        "outlet": "categorical",
        "right_of_center": "categorical",
        "title": "text",
        "description": "text",
        "text": "text",
        "image": "text",
        "url": "text",
    },
}
RETAIL: Mapping[str, str] = {
    "InvoiceNo": "categorical",
    "StockCode": "categorical",
    "Description": "text",
    "Quantity": "numeric",
    "InvoiceDate": "categorical",
    "UnitPrice": "numeric",
    "CustomerID": "categorical",
    "Country": "categorical",
}


@dataclass(frozen=True, eq=False)
class Partitions:
    """Batches of one dataset, oldest first, and the kinds of its attributes."""

    names: list[str]
    batches: list[pd.DataFrame]
    kinds: Mapping[str, str]

    @property
    def features(self) -> list[Feature]:
        """The metrics, attribute by attribute."""
        return [Feature(c, m) for c, kind in self.kinds.items() for m in metric_names(kind)]

    def metrics(self) -> np.ndarray:
        """Metrics of all batches, K x F."""
        return np.array([self.row(batch) for batch in self.batches])

    def row(self, batch: pd.DataFrame) -> np.ndarray:
        """Metrics of one batch, F."""
        return np.concatenate([column_metrics(batch[c], k) for c, k in self.kinds.items()])

    def replaced(self, row: np.ndarray, columns: Mapping[str, pd.Series]) -> np.ndarray:
        """The row of a batch some of whose columns were corrupted."""
        out, start = row.copy(), 0
        for name, kind in self.kinds.items():
            width = len(metric_names(kind))
            if name in columns:
                out[start : start + width] = column_metrics(columns[name], kind)
            start += width
        return out


def data_folder(argument: str | None = None) -> Path | None:
    """Return the folder with the evaluation data, or None if there is none."""
    name = argument or os.environ.get("DQSQL_EVAL_DATA")
    folder = Path(name) if name else None
    return folder if folder is not None and (folder / "novelty").is_dir() else None


def fbposts(folder: Path, kinds: Mapping[str, str]) -> tuple[Partitions, Partitions]:
    """The clean and the dirty version of the weekly partitions, row by row the same posts."""
    clean, dirty = (
        _split(pd.read_parquet(folder / "novelty" / "fbposts" / f"{version}.parquet"), kinds)
        for version in ("clean", "dirty")
    )
    return clean, dirty


def online_retail(folder: Path, most: int | None = None) -> Partitions:
    """Daily partitions; customers are numbers by name only, so they are categories here."""
    frame = pd.read_parquet(folder / "novelty" / "online_retail.parquet")
    known = frame["CustomerID"].notna()
    frame["CustomerID"] = frame["CustomerID"].astype("Int64").astype(str).where(known, None)
    parts = _split(frame, RETAIL)
    return Partitions(parts.names[:most], parts.batches[:most], RETAIL)


def _split(frame: pd.DataFrame, kinds: Mapping[str, str]) -> Partitions:
    groups = [(str(name), part.reset_index(drop=True)) for name, part in frame.groupby("partition")]
    return Partitions([n for n, _ in groups], [b for _, b in groups], kinds)

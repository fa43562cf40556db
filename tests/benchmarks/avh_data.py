"""Column sequences of the AVH evaluation: 60 batches per column.

The folder is given by the caller or by the environment variable DQSQL_EVAL_DATA; it holds
`avh/sequences_numeric.parquet` and `avh/sequences_categorical.parquet`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow import parquet

KINDS = ("numeric", "categorical")


@dataclass(frozen=True, eq=False)
class Sequence:
    """One column over 60 batches.

    Numeric batches are float arrays with NaN for missing values, categorical batches are object
    arrays of str with None. `neighbor` is the id of another column of the same kind, table and
    segment, the source of the schema-change issue, or None.
    """

    seq_id: str
    source: str
    column: str
    batches: list[np.ndarray]
    neighbor: str | None


def data_folder(argument: str | None = None) -> Path | None:
    """Return the folder with the evaluation data, or None if there is none."""
    name = argument or os.environ.get("DQSQL_EVAL_DATA")
    folder = Path(name) if name else None
    return folder if folder is not None and (folder / "avh").is_dir() else None


def load_sequences(folder: Path, kind: str) -> dict[str, Sequence]:
    """Return the sequences of a kind, by id, sorted."""
    table = parquet.read_table(folder / "avh" / f"sequences_{kind}.parquet")
    rows: dict[str, list[dict[str, object]]] = {}
    meta = table.select(["seq_id", "source", "table", "column", "segment", "t"]).to_pylist()
    values = table.column("values")
    for position, row in enumerate(meta):
        rows.setdefault(str(row["seq_id"]), []).append({**row, "position": position})
    groups: dict[tuple[object, ...], list[str]] = {}
    for seq_id in sorted(rows):
        first = rows[seq_id][0]
        groups.setdefault((first["source"], first["table"], first["segment"]), []).append(seq_id)
    neighbors = {
        seq_id: group[(i + 1) % len(group)] if len(group) > 1 else None
        for group in groups.values()
        for i, seq_id in enumerate(group)
    }
    sequences = {}
    for seq_id in sorted(rows):
        ordered = sorted(rows[seq_id], key=lambda row: int(str(row["t"])))
        sequences[seq_id] = Sequence(
            seq_id=seq_id,
            source=str(ordered[0]["source"]),
            column=str(ordered[0]["column"]),
            batches=[_batch(values[int(str(row["position"]))].as_py(), kind) for row in ordered],
            neighbor=neighbors[seq_id],
        )
    return sequences


def _batch(values: list[object], kind: str) -> np.ndarray:
    if kind == "numeric":
        return np.array([np.nan if v is None else v for v in values], dtype=float)
    return np.array([v if isinstance(v, str) else None for v in values], dtype=object)

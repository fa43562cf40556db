"""Looks at warehouse tables as other tools do: through the log of Delta tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def table_names(warehouse: Path) -> list[str]:
    """The tables in a folder."""
    folders = sorted(warehouse.iterdir()) if warehouse.exists() else []
    return [folder.name for folder in folders if (folder / "_delta_log").is_dir()]


def table_rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in a folder; empty where there is none."""
    if table not in table_names(warehouse):
        return []
    rows: list[dict[str, Any]] = DeltaTable(warehouse / table).to_pyarrow_table().to_pylist()
    return rows

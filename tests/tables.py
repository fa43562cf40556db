"""Looks at warehouse tables as other tools do, and writes what runs would leave in them."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from dqsql.engine.doctor import Examination
from dqsql.engine.ledger import ledger_rows, read_ledgers, refuse_lost_rows, versions_after
from dqsql.engine.storage import BatchPart, Store, open_tables
from dqsql.errors import StorageError
from dqsql.model.project import Target
from dqsql.model.results import BatchRecord, BatchStatus, StoredRows
from dqsql.model.tables import ALL_TABLES, BATCHES, METRICS, MODELS, RESULTS, REVIEWS, RUNS
from dqsql.runner.upkeep import doctor

NOW = dt.datetime.now(dt.UTC)
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


def table_names(warehouse: Path) -> list[str]:
    """The tables in a folder."""
    folders = sorted(warehouse.iterdir()) if warehouse.exists() else []
    return [folder.name for folder in folders if DeltaTable.is_deltatable(str(folder))]


def table_rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in a folder; empty where there is none."""
    if table not in table_names(warehouse):
        return []
    rows: list[dict[str, Any]] = DeltaTable(warehouse / table).to_pyarrow_table().to_pylist()
    return rows


class StoredRuns:
    """The tables of a project with a model, as runs leave them."""

    def __init__(self, root: Path, model: str = "m") -> None:
        self.root = root
        self.model = model
        self.folder = root / "warehouse" / "dq"
        self.store: Store = open_tables(Target("t", "t", warehouse=str(root / "warehouse")))

    def run(self, *days: str, at: dt.datetime = NOW) -> None:
        """What a run of some batches writes."""
        self.write(days, at)
        ledger = {**read_ledgers(self.store).get(self.model, {})}
        versions = self.store.versions(["dq_metrics", "dq_results", f"dq_state__{self.model}"])
        for day in days:
            stored = StoredRows(2, 1, 1, versions)
            ledger[day] = BatchRecord(
                self.model, day, BatchStatus.ACCEPTED, 10, "r", "", True, at, stored
            )
        self.store.replace_partition(BATCHES, ledger_rows(ledger))
        self.store.replace_partition(MODELS, [{"model": self.model, "valid_from": at}])
        row = {"run_id": str(uuid.uuid4()), "started_at": at}
        versions = versions_after(self.store, [self.model])
        self.store.append(RUNS, [{**row, "versions": json.dumps(versions)}])

    def write(self, days: tuple[str, ...], at: dt.datetime = NOW) -> None:
        """All that a run writes before the ledger."""
        metrics = [
            {"model": self.model, "batch": d, "metric": n, "value": 1.0, "computed_at": at}
            for d in days
            for n in ("mean", "sum")
        ]
        results = [
            {"model": self.model, "batch": d, "check_id": f"{self.model}.c", "evaluated_at": at}
            for d in days
        ]
        self.store.replace_batches(METRICS, [BatchPart(self.model, metrics, days)])
        self.store.replace_batches(RESULTS, [BatchPart(self.model, results, days)])
        states = pa.table({"batch": list(days), "segment": pa.nulls(len(days), pa.string())})
        self.store.replace_state(self.model, states, days)

    def read(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table by dqsql's own reader."""
        return self.store.rows(next(t for t in ALL_TABLES if t.name == table))

    def reopen(self, *days: str) -> None:
        """What a run does to the ledger before it checks batches again."""
        ledger = read_ledgers(self.store).get(self.model, {})
        again = {
            b: replace(r, status=BatchStatus.INCOMPLETE, counted=None, stored=None)
            for b, r in ledger.items()
            if b in days
        }
        self.store.replace_partition(BATCHES, ledger_rows({**ledger, **again}))

    def review(self, day: str) -> None:
        """What a review writes."""
        ledger = read_ledgers(self.store)[self.model]
        row = {"model": self.model, "batch": day, "verdict": "reject", "at": NOW}
        self.store.append(REVIEWS, [row])
        rejected = replace(ledger[day], status=BatchStatus.REJECTED)
        self.store.replace_partition(BATCHES, ledger_rows({**ledger, day: rejected}))

    def doctor(self, *, repair: bool = False) -> Examination:
        """Examine the tables."""
        return doctor(self.root, repair=repair)

    def refused(self) -> str | None:
        """What the next run says, if it refuses the tables."""
        try:
            refuse_lost_rows(self.store, read_ledgers(self.store), [self.model])
        except StorageError as error:
            assert error.hint is not None and "dqsql doctor" in error.hint
            return error.message
        return None

    def again(self) -> list[str]:
        """The batches that the next run checks again."""
        ledger = read_ledgers(self.store).get(self.model, {})
        return sorted(b for b, r in ledger.items() if r.status is BatchStatus.INCOMPLETE)

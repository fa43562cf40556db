"""The ledger `dq_batches`: which batches of which models have been checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dqsql.model.batches import batch_order
from dqsql.model.results import BatchRecord
from dqsql.model.tables import BATCHES
from dqsql.runner.rows import Row, batch_record, batch_row

if TYPE_CHECKING:
    from dqsql.engine.storage import Store

# By model and batch.
Ledgers = Mapping[str, Mapping[str, BatchRecord]]


def read_ledgers(store: Store) -> dict[str, dict[str, BatchRecord]]:
    """The ledger of every model: its batches by name. Raises StorageError."""
    ledgers: dict[str, dict[str, BatchRecord]] = {}
    for row in store.rows(BATCHES):
        record = batch_record(row)
        ledgers.setdefault(record.model, {})[record.batch] = record
    return ledgers


def ledger_rows(ledger: Mapping[str, BatchRecord]) -> list[Row]:
    """The rows of dq_batches of one model, in the order of its batches."""
    return [batch_row(r) for r in sorted(ledger.values(), key=lambda r: batch_order(r.batch))]

"""The columns that a model had in earlier runs, as `dq_metrics` keeps them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqsql.model.tables import METRICS

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class StoredSchema:
    """The columns of a model when one batch was checked, as JSON of names and types."""

    batch: str
    columns: str
    computed_at: dt.datetime


def stored_schemas(store: Store, model: str) -> list[StoredSchema]:
    """The stored columns of a model, one entry a batch that was checked with `@schema`.

    Raises StorageError.
    """
    rows = store.select(
        METRICS,
        ("batch", "value_text", "computed_at"),
        {"model": [model], "metric": ["schema"], "segment": None},
    )
    return [
        StoredSchema(r["batch"], r["value_text"], r["computed_at"])
        for r in rows
        if r["value_text"] is not None
    ]

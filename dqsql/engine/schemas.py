"""The columns that a model had in earlier runs, as `dq_metrics` keeps them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqsql.dialect import literal, to_sql
from dqsql.engine.failures import translated
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
    """The stored columns of a model, one entry a batch that was checked with `@schema`."""
    frame = store.read(METRICS)
    if frame is None:
        return []
    with translated(f"cannot read the earlier columns of {model}"):
        found = frame.where(f"model = {to_sql(literal(model))}")
        found = found.where("metric = 'schema' and segment is null and value_text is not null")
        rows = found.select("batch", "value_text", "computed_at").toArrow().to_pylist()
    return [StoredSchema(r["batch"], r["value_text"], r["computed_at"]) for r in rows]

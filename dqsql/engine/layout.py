"""The state tables of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dqsql.model import tables


@dataclass(frozen=True)
class TableFamily:
    """What is kept of a model by batch (`rows`), and of all batches that count (`total`).

    The functions give the names of a model's tables. `keys` identify a row of the first, and
    without the batch one of the second. What is `large` is not written as one file.
    """

    rows: Callable[[str], str]
    total: Callable[[str], str]
    keys: tuple[str, ...]
    large: bool = False

    @property
    def total_keys(self) -> tuple[str, ...]:
        """The columns that identify a row of the total."""
        return self.keys[1:]


STATES = TableFamily(tables.state_table_name, tables.total_table_name, ("batch", "segment"))
COUNTS = TableFamily(
    tables.frequency_table_name,
    tables.frequency_total_table_name,
    ("batch", "segment", "counted", "value"),
    large=True,
)

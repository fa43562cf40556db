"""The base of all stores: the tables of a model, what can be read of tables, and what written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.dialect import literal, quoted, to_sql
from dqsql.model import tables
from dqsql.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


Row = Mapping[str, Any]
# A column with the values that it may have; None: it must be null.
Where = Mapping[str, Collection[str] | None]
# Gives the session when a frame is needed. Small tables are read and written without one where
# the format allows it.
Session = Callable[[], "SparkSession"]

_ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "double": pa.float64(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "array<double>": pa.list_(pa.float64()),
}


@dataclass(frozen=True)
class BatchPart:
    """What a write exchanges of one model in a table of rows by batch.

    `rows` take the place of all rows of `batches`.
    """

    model: str
    rows: Sequence[Row]
    batches: Collection[str]


class Store(ABC):
    """Reads and writes the warehouse tables.

    Every write replaces a part of one table, whole or not at all; the same write twice leaves the
    same table, and so does any order of formats: a sequence of writes gives equal tables in every
    store. All methods raise StorageError for what cannot be read or written.
    """

    def __init__(self, session: Session, location: str) -> None:
        """`location` says where the tables live, for people."""
        self._session = session
        self.location = location

    @property
    def _spark(self) -> SparkSession:
        return self._session()

    # --- tables --------------------------------------------------------------------------------

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The whole of a small table as dictionaries; empty when it does not exist yet."""
        return self.select(table)

    def select(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> list[dict[str, Any]]:
        """Some rows of a table as dictionaries; see `select_arrow`."""
        rows: list[dict[str, Any]] = self.select_arrow(table, columns, where).to_pylist()
        return rows

    @abstractmethod
    def select_arrow(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> pa.Table:
        """Some rows of a table; none when it does not exist yet.

        Args:
            table: what to read.
            columns: those wanted; all by default. One that was added after the table was written is
                null.
            where: conditions that all must hold.
        """

    @abstractmethod
    def make(self, table: Table) -> None:
        """Make a table without rows, unless it is there: views are about all tables."""

    @abstractmethod
    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Replace the rows of batches of some models, each named once, in one write."""

    @abstractmethod
    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Replace all rows of the models that `rows` are of; all rows of a table without models."""

    @abstractmethod
    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""

    # --- states --------------------------------------------------------------------------------

    def read_state(
        self, model: str, batches: Collection[str], family: TableFamily = STATES
    ) -> DataFrame | None:
        """The state rows of some batches of a model; None when there is none yet.

        A column that was added later is null for the batches before.
        """
        return self._read_states(family.rows(model), batches) if batches else None

    def replace_state(
        self,
        model: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str],
        family: TableFamily = STATES,
    ) -> None:
        """Replace the state rows of `batches`; keep those of others.

        Few rows come as an Arrow table, so that no job of Spark's is needed to store them.
        """
        self._replace_states(family.rows(model), rows, batches, family)

    def read_total(self, model: str, family: TableFamily = STATES) -> DataFrame | None:
        """The running totals of a model; None when there are none yet."""
        return self.frame(family.total(model))

    def replace_total(
        self, model: str, rows: DataFrame | pa.Table, family: TableFamily = STATES
    ) -> None:
        """Replace all running totals of a model by some (at least one).

        `rows` may be computed from the old ones.
        """
        self._replace_states(family.total(model), rows, None, family)

    @abstractmethod
    def _read_states(self, name: str, batches: Collection[str] | None) -> DataFrame | None:
        """The rows of batches in a table of states, or all of a table of totals."""

    @abstractmethod
    def _replace_states(
        self,
        name: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str] | None,
        family: TableFamily,
    ) -> None:
        """Replace the rows of batches in a table of states, or all of a table of totals."""

    # --- users' rows ---------------------------------------------------------------------------

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a table of this name."""

    def frame(self, name: str) -> DataFrame | None:
        """All rows of the table of this name; None when there is none."""
        return self._read_states(name, None)

    @abstractmethod
    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """Replace the rows of `batches`, or all, in a table that is laid out by the column `by`.

        The table is made where it is missing, and gets columns that it lacks. Raises StorageError
        also where a column has another type there.
        """

    # --- what there is ---------------------------------------------------------------------------

    def versions(self, names: Iterable[str]) -> dict[str, int]:
        """The versions of tables by name, without those that do not exist.

        Versions grow with each commit. Empty for tables of a catalog, whose owners see to them.
        """
        return {}

    def sizes(self, name: str) -> Mapping[str, int] | None:
        """The numbers of rows of a table by model, by its log; of a table without models as ''.

        None for tables of a catalog, and for one that does not exist.
        """
        return None

    # --- upkeep --------------------------------------------------------------------------------

    def tidy(self) -> None:  # noqa: B027 - a catalog's tables are maintained by their owners
        """Keep the number of files small of what this store has written."""


def no_rows(table: Table, columns: Sequence[str] = ()) -> pa.Table:
    """No rows, with some columns of a table, or all."""
    # Unlike `pa.array`, this does not import pandas.
    empty = arrow_schema(table).empty_table()
    return empty.select(list(columns)) if columns else empty


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a table, whose descriptions become comments of a Delta table."""
    return pa.schema(
        pa.field(f.name, _ARROW_TYPES[f.kind], metadata={"comment": f.description})
        for f in table.fields
    )


def as_arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Rows with the columns of a table."""
    schema = arrow_schema(table)
    columns = [[row.get(field.name) for row in rows] for field in table.fields]
    return pa.table(
        [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def among(name: str, values: Collection[str]) -> str:
    """The SQL condition that a text expression has one of some values; false without any."""
    if not values:
        return "false"
    return f"{name} in ({', '.join(to_sql(literal(v)) for v in sorted(set(values)))})"


def condition_of_where(where: Where) -> str:
    """The SQL condition that all of `where` holds."""
    parts = (
        f"{quoted(name)} is null" if values is None else among(quoted(name), values)
        for name, values in where.items()
    )
    return " and ".join(parts) or "true"

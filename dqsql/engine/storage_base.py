"""What all stores share: rows as frames, conditions, and Spark's failures in dqsql's words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dqsql.engine.failures import SPARK_FAILURES, condition_of, translate
from dqsql.engine.layout import STATES, Family, chunk_of
from dqsql.errors import StorageError
from dqsql.model.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

_ARROW_TYPES: dict[str, pa.DataType] = {
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
# How Spark says that a table is not there.
MISSING = (
    "PATH_NOT_FOUND",
    "UNABLE_TO_INFER_SCHEMA",
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
)
# How Delta and Iceberg say that another writer was faster, in conditions, classes and messages.
_CONFLICTS = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "CommitFailedException",
    "Found conflicting files",
    "Found new conflicting",
)
_FOREIGN = ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "is not a Delta table")
_UNKNOWN_FORMAT = ("DATA_SOURCE_NOT_FOUND", "CATALOG_NOT_FOUND", "CATALOG_PLUGIN_CLASS_NOT_FOUND")
_DUPLICATES = ("MULTIPLE_SOURCE_ROW", "MERGE_CARDINALITY_VIOLATION")
# A file that was listed is gone: another process has replaced it meanwhile.
_REPLACED = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FileNotFoundException")
_READS = 5
_RETYPED = ("CANNOT_MERGE_SCHEMAS", "FAILED_MERGE_FIELDS", "CANNOT_MERGE_INCOMPATIBLE")


@dataclass(frozen=True)
class BatchPart:
    """What a write exchanges of one model in a table of rows by batch.

    `rows` take the place of all rows of `batches`; those of other `checked` batches are kept, and
    what is stored of batches that are not checked may go.
    """

    model: str
    rows: Sequence[Row]
    batches: Collection[str]
    checked: Collection[str]


class BaseStore(ABC):
    """A place for the warehouse tables. `location` says where, for people."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self.location = location

    @abstractmethod
    def read(self, table: Table) -> DataFrame | None:
        """The whole table, or None when it does not exist yet. Raises StorageError."""

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The whole of a small table as dictionaries; empty when it does not exist yet.

        Raises StorageError: the table cannot be read.
        """
        return self.collect(table, lambda frame: frame.select(*table.column_names))

    def collect(
        self, table: Table, wanted: Callable[[DataFrame], DataFrame]
    ) -> list[dict[str, Any]]:
        """What is `wanted` of a table, as dictionaries; empty when it does not exist yet.

        It is read again where another process replaced some of it meanwhile: rows of another model.
        Raises StorageError: the table cannot be read.
        """
        for left in reversed(range(_READS)):
            frame = self.read(table)
            if frame is None:
                break
            try:
                rows: list[dict[str, Any]] = wanted(frame).toArrow().to_pylist()
            except SPARK_FAILURES as error:
                if not left or not _mentions(str(error), _REPLACED):
                    raise self._failure(f"cannot read {table.name}", error) from error
                self._forget(table)
            else:
                return rows
        return []

    def _forget(self, table: Table) -> None:  # noqa: B027 - paths are listed anew by themselves
        """Let Spark list the files of a table anew, where it would not by itself."""

    def _existing(self, read: Callable[[], DataFrame]) -> DataFrame | None:
        """What `read` gives, or None when there is nothing to read yet."""
        try:
            frame = read()
            frame.schema  # noqa: B018 - Spark Connect looks at the table only when asked
        except SPARK_FAILURES as error:
            if condition_of(error).startswith(MISSING):
                return None
            raise self._failure("cannot read the warehouse", error) from error
        return frame

    def _frame(self, table: Table, rows: Sequence[Row], chunk: str | None = None) -> DataFrame:
        """Rows as a frame with the columns of a table, and with their chunks as column `chunk`."""
        if not rows:
            ddl = table.ddl if chunk is None else f"{table.ddl}, `{chunk}` string"
            # Spark Connect takes no empty Arrow table.
            empty: DataFrame = self._spark.createDataFrame([], ddl)
            return empty
        columns = {
            name: pa.array([row.get(name) for row in rows], type=_ARROW_TYPES[kind])
            for name, kind in table.columns
        }
        if chunk is not None:
            columns[chunk] = pa.array([chunk_of(row["batch"]) for row in rows], type=pa.string())
        frame: DataFrame = self._spark.createDataFrame(pa.table(columns))
        return frame

    def _attempt(self, doing: str, work: Callable[[], object]) -> None:
        try:
            work()
        except SPARK_FAILURES as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: Exception) -> StorageError:
        """The StorageError for one of Spark's exceptions: what happened, and what helps."""
        text = f"{condition_of(error)} {error}"
        if _mentions(text, _CONFLICTS):
            return StorageError(
                f"{doing}: another run wrote to the same table at the same time",
                hint="nothing of this write was stored; run again",
            )
        hint = f"the warehouse is {self.location}"
        if _mentions(text, _FOREIGN):
            hint += ", which holds files of another table format: choose another one"
        elif _mentions(text, _UNKNOWN_FORMAT):
            hint = "the session lacks the table format's jars or settings, see docs/storage.md"
        elif _mentions(text, _DUPLICATES):
            hint = "several rows have the same key, which is a defect of dqsql: please report it"
        elif _mentions(text, _RETYPED):
            hint = f"a column changed its type: drop the table in {self.location} and run again"
        return StorageError(translate(error, doing).message, hint=hint)


def is_retyped(error: BaseException) -> bool:
    """Whether one of Spark's exceptions says that files have a column in several types."""
    return _mentions(str(error), _RETYPED)


def _mentions(text: str, words: Collection[str]) -> bool:
    return any(word in text for word in words)


def neighbours(
    batches: Collection[str], checked: Collection[str], family: Family = STATES
) -> list[str]:
    """Checked batches that share a chunk with `batches` and are not among them."""
    chunks = {family.chunk(b) for b in batches}
    replaced = set(batches)
    return sorted(b for b in checked if b not in replaced and family.chunk(b) in chunks)


def among(name: str, values: Collection[str]) -> str:
    """The SQL condition that a text expression has one of some values (at least one)."""
    return f"{name} in ({', '.join(text_literal(v) for v in sorted(set(values)))})"


def text_literal(value: str) -> str:
    """A text as a Spark SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

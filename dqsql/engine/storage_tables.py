"""Tables that have a name in SQL: created when missing, widened when columns are added."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dqsql.dialect import quoted
from dqsql.engine.failures import SPARK_FAILURES, condition_of
from dqsql.engine.storage_base import Session
from dqsql.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Columns = Sequence[tuple[str, str]]
# How Spark says that a table is not there.
MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")


def table_word(name: str) -> str:
    """The name of a table in a catalog: those of Hive's kind take letters, digits and _ alone.

    Names that differ in other characters stay apart by a hash.
    """
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word == name else f"{word}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class NamedTables:
    """Makes tables of one format and keeps their columns up to date.

    `naming` gives a table's SQL identifier; `schema` is the identifier of the schema that is
    created when missing.
    """

    def __init__(
        self,
        session: Session,
        table_format: str,
        naming: Callable[[str], str],
        *,
        schema: str,
    ) -> None:
        self._session = session
        self._format = table_format
        self._naming = naming
        self._schema = schema

    def name(self, table: str) -> str:
        """The SQL identifier of a table."""
        return self._naming(table)

    def frame(self, table: str) -> DataFrame:
        """The whole table. Spark's exceptions pass through."""
        frame: DataFrame = self._session().table(self.name(table))
        return frame

    def prepare(self, table: str, schema: StructType, partitions: Sequence[str]) -> Columns:
        """Make the table or add what it lacks; return its columns with types, in order.

        Spark's exceptions pass through. Raises StorageError: a column has another type.
        """
        wanted = _columns(schema)
        if not self.exists(table):
            self._create(table, wanted, partitions)
            return _columns(self.frame(table).schema)
        present = _columns(self.frame(table).schema)
        added = _added(table, present, wanted)
        if not added:
            return present
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in added)
        self._session().sql(f"alter table {self.name(table)} add columns ({listed})")
        return _columns(self.frame(table).schema)

    def exists(self, table: str) -> bool:
        """Whether there is such a table. Other exceptions of Spark's pass through."""
        try:
            self.frame(table).schema  # noqa: B018 - Spark Connect looks only when asked
        except SPARK_FAILURES as error:
            if condition_of(error).startswith(MISSING):
                return False
            raise
        return True

    def _create(self, table: str, columns: Columns, partitions: Sequence[str]) -> None:
        if not self._session().catalog.databaseExists(self._schema):
            self._session().sql(f"create schema if not exists {self._schema}")
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
        statement = f"create table if not exists {self.name(table)} ({listed}) using {self._format}"
        if partitions:
            statement += f" partitioned by ({', '.join(quoted(p) for p in partitions)})"
        self._session().sql(statement)

    @staticmethod
    def aligned(frame: DataFrame, columns: Columns) -> DataFrame:
        """A frame with exactly these columns in this order; null for those that it lacks."""
        present = {name.lower() for name in frame.columns}
        return frame.selectExpr(
            *(
                quoted(name)
                if name.lower() in present
                else f"cast(null as {kind}) as {quoted(name)}"
                for name, kind in columns
            )
        )


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _added(table: str, present: Columns, wanted: Columns) -> list[tuple[str, str]]:
    """The wanted columns that are not there yet."""
    types = {name.lower(): kind for name, kind in present}
    for name, kind in wanted:
        before = types.get(name.lower(), kind)
        if before != kind:
            raise StorageError(
                f"cannot write {table}: column {name} is {before} in the table and now {kind}",
                hint=f"drop {table} and run again with --full-refresh",
            )
    return [(name, kind) for name, kind in wanted if name.lower() not in types]

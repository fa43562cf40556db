"""What a warehouse table is: documented columns, and what identifies a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_DDL = {"timestamp": "timestamp_ltz"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a warehouse table.

    `kind` is its Spark type. `description` is the one text about it: comments in the warehouse,
    `dqsql docs tables` and the docs page are made of it.
    """

    name: str
    kind: str
    description: str


def _columns_of(kind: str) -> Callable[[str, str], Column]:
    """Makes columns of one kind of a name and a description."""
    return lambda name, description: Column(name, kind, description)


text, whole, real = map(_columns_of, ("string", "bigint", "double"))
time, flag = map(_columns_of, ("timestamp", "boolean"))
texts, reals = map(_columns_of, ("array<string>", "array<double>"))


@dataclass(frozen=True, slots=True)
class Table:
    """A warehouse table: what a row of it is, its columns, and those that identify a row.

    `partitions` are the columns by which tables in folders are laid out: what grows by models and
    batches.
    """

    name: str
    description: str
    fields: tuple[Column, ...]
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and Spark types in order."""
        return tuple((field.name, field.kind) for field in self.fields)

    @property
    def ddl(self) -> str:
        """The columns as a Spark schema string.

        What `timestamp` means there is a setting of the session (`spark.sql.timestampType`).
        """
        return ", ".join(f"`{name}` {_DDL.get(kind, kind)}" for name, kind in self.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(field.name for field in self.fields)

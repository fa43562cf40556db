"""The warehouse tables behind one interface, whatever format they have and wherever they live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.engine.late_pandas import postpone_pandas
from dqsql.engine.storage_base import BatchPart, Row, Session, Store
from dqsql.errors import StorageError
from dqsql.model.project import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BatchPart", "Row", "Store", "open_store", "open_tables"]


def open_store(spark: SparkSession | Session, target: Target) -> Store:
    """The store of a target: by path under `warehouse`, or in the session's catalog without one.

    `spark` may be a function that gives the session: it is called when a session is needed.
    Raises ConfigError: the target's table format is unknown, or its warehouse cannot be used.
    """

    def session() -> SparkSession:
        return spark() if callable(spark) else spark

    if target.warehouse is not None:
        postpone_pandas()
        from dqsql.engine.storage_delta import DeltaFolderStore

        return DeltaFolderStore(session, f"{target.warehouse.rstrip('/')}/{target.schema}")
    from dqsql.engine.formats import format_of
    from dqsql.engine.storage_merge import MergeStore

    return MergeStore(session, target.schema, format_of(target))


def open_tables(target: Target) -> Store:
    """The store of a target whose tables need no session; see `needs_session`.

    Its state rows cannot be read or written.
    """

    def none() -> SparkSession:
        raise StorageError(f"the states in {target.warehouse} are read with Spark only")

    return open_store(none, target)


def needs_session(target: Target) -> bool:
    """Whether even the small tables of a target are read by Spark."""
    return target.warehouse is None

"""Joins with relations that are larger than Spark thinks.

Whether Spark sends one side of a join to all tasks is decided by the bytes that its files have,
which say little of the rows in them: five million keys may be ten megabytes of Parquet, and too
many for the driver's memory. Such a statement is run again with joins that sort.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dqsql.engine.session import configured
from dqsql.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Found = TypeVar("_Found")

_NO_BROADCASTS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
# No memory for it, over the limit of bytes or rows, not ready in time.
_TOO_LARGE = (
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
    "Could not execute broadcast",
)
# The settings are the session's: one thread at a time changes them and puts them back.
_LOCK = threading.Lock()


def sorting_if_too_large(spark: SparkSession, attempt: Callable[[], _Found]) -> _Found:
    """What `attempt` returns; it is called once more where a broadcast of its was too large.

    Raises what the last call raises.
    """
    try:
        return attempt()
    except EngineError as error:
        if not any(words in str(error.__cause__) for words in _TOO_LARGE):
            raise
    with _LOCK, configured(spark, _NO_BROADCASTS):
        return attempt()

"""How many bytes a session has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bytes_read(spark: SparkSession) -> int | None:
    """Bytes of input of all finished tasks of the session's application, as Spark counts them.

    None where Spark does not tell: a server of Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        return None
    try:
        executors = context._jsc.sc().statusStore().executorList(False)
        return sum(int(executors.apply(i).totalInputBytes()) for i in range(executors.size()))
    except Py4JError:
        return None

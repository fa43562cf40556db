"""DataFrames as what a check model reads: a temporary view that is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pandas
from pyspark.sql import DataFrame, SparkSession

from dqsql.dialect import quoted
from dqsql.engine.failures import translated
from dqsql.errors import UsageError


def as_frame(data: object, spark: SparkSession | None) -> DataFrame:
    """A DataFrame of Spark's with the rows of one, or of one of pandas.

    That of pandas goes to `spark`, else to the active session, else to one that is started here and
    stays for the process. Raises UsageError for anything else.
    """
    if isinstance(data, DataFrame):
        return data
    if not isinstance(data, pandas.DataFrame):
        kind = type(data).__name__
        raise UsageError(
            f"dqsql.check takes a DataFrame of Spark or pandas, not a {kind}",
            hint="spark.table('name') makes one of a table, spark.createDataFrame(..) of rows",
        )
    session = spark or SparkSession.getActiveSession()
    if session is None:
        session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    with translated("the pandas DataFrame cannot be given to Spark"):
        return session.createDataFrame(data)


@contextmanager
def as_view(frame: DataFrame, view: str, others: Sequence[str] = ()) -> Iterator[None]:
    """The frame as a temporary view; it and `others` are dropped at the end."""
    with translated("the DataFrame cannot be read"):
        frame.createOrReplaceTempView(quoted(view))
    try:
        yield
    finally:
        for name in (view, *others):
            frame.sparkSession.catalog.dropTempView(name)

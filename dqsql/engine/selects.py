"""SELECT statements as frames, and the rows of frames, with few questions to a server.

A client of Spark Connect lets the server analyse the text of a SELECT when the frame is made, again
for the types of its rows when these are read, and once more when it runs: of a wide statement over
few rows that is most of the work. Here it is analysed when it runs, and when somebody asks for its
columns. A session in this process analyses each statement once in any case.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def is_remote(session: object) -> bool:
    """Whether a session, or a frame, is that of a client of Spark Connect."""
    return ".connect." in type(session).__module__


def select(spark: SparkSession, text: str) -> DataFrame:
    """The rows of a SELECT. What Spark refuses may be raised only when they are used."""
    if not is_remote(spark):
        return spark.sql(text)
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
    from pyspark.sql.connect.plan import SQL

    client: Any = spark
    return RemoteFrame(SQL(text), client)


def fetched(frame: DataFrame) -> pa.Table:
    """All rows of a frame, times in UTC."""
    if not is_remote(frame):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" not in signature(to_arrow_schema).parameters:
        # Spark 4.1 asks for the types once more.
        return frame.toArrow()
    remote: Any = frame
    # The rows come with their types.
    rows, types = remote._to_table()
    return rows.cast(
        to_arrow_schema(types, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    )

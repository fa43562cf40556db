"""Puts sources and check models before Spark as temporary views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dqsql.dialect import identifier, to_sql
from dqsql.engine.failures import (
    SPARK_FAILURES,
    condition_of,
    translate,
    translate_model_error,
)
from dqsql.errors import SourceNotFoundError
from dqsql.model.project import CheckModel, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def register_source(spark: SparkSession, source: Source) -> None:
    """Make a file source readable under the name that `{{ source(..) }}` renders to.

    Sources that are tables need nothing. Raises SourceNotFoundError where the file is missing.
    """
    if source.path is None:
        return
    reader = spark.read.format(source.file_format or "parquet").options(**_options(source))
    try:
        reader.load(source.path).createOrReplaceTempView(source.relation)
    except SPARK_FAILURES as error:
        name = f"{source.name}.{source.table}"
        if condition_of(error).startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
            raise SourceNotFoundError(
                f"the source {name} has no files at {source.path}",
                span=source.span,
                hint="check path in the sources file",
            ) from error
        raise translate(error, f"cannot read the source {name}", source.span) from error


def _options(source: Source) -> dict[str, str]:
    options = dict(source.options)
    if source.file_format == "csv":
        options = {"header": "true", "inferSchema": "true", **options}
    return options


def register_model(spark: SparkSession, model: CheckModel, view: str) -> StructType:
    """Make a check model's SELECT a temporary view; its text runs verbatim.

    Returns its columns with types. Raises an error that points into the model's file.
    """
    try:
        frame = spark.sql(model.sql)
        schema: StructType = frame.schema
        frame.createOrReplaceTempView(to_sql(identifier(view)))
    except SPARK_FAILURES as error:
        raise translate_model_error(error, model) from error
    return schema


def register_dependencies(
    spark: SparkSession,
    model: CheckModel,
    models: Mapping[str, CheckModel],
    sources: Iterable[Source],
    view_of: Mapping[str, str],
    done: set[str],
) -> None:
    """Register what a model reads, first things first; `done` remembers what was registered."""
    for source in sources:
        if source.unique_id in model.depends_on and source.unique_id not in done:
            register_source(spark, source)
            done.add(source.unique_id)
    for unique_id in model.depends_on:
        upstream = models.get(unique_id)
        if upstream is not None and unique_id not in done:
            register_dependencies(spark, upstream, models, sources, view_of, done)
            register_model(spark, upstream, view_of[unique_id])
            done.add(unique_id)

"""Puts sources and check models before Spark as temporary views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.dialect import quoted
from dqsql.engine.failures import (
    SPARK_FAILURES,
    condition_of,
    translate,
    translate_model_error,
    translated,
)
from dqsql.engine.near_names import missing_relation, near_relations
from dqsql.engine.parquet_schema import schema_of
from dqsql.engine.paths import file_or_pattern
from dqsql.engine.values import types_of
from dqsql.errors import SourceNotFoundError
from dqsql.model.project import CheckModel, Project, Source, view_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Bytes of a file that Spark does not split (spark.sql.files.openCostInBytes).
_ONE_TASK = 4 * 2**20


def register_source(spark: SparkSession, source: Source) -> None:
    """Make a file source readable under the name that `{{ source(..) }}` renders to.

    Sources that are tables need nothing. Raises SourceNotFoundError where the file is missing.
    """
    if source.path is None:
        return
    reader = spark.read.format(source.file_format or "parquet").options(**_options(source))
    known = _known_schema(spark, source)
    if known is not None:
        reader = reader.schema(known)
    try:
        rows = reader.load(file_or_pattern(source.path))
        if _is_one_small_file(source.path):
            # Spark reads it in one task anyway; knowing so, it plans no shuffle behind it.
            rows = rows.coalesce(1)
        rows.createOrReplaceTempView(source.relation)
    except SPARK_FAILURES as error:
        name = source.full_name
        if condition_of(error).startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
            raise SourceNotFoundError(
                f"the source {name} has no files at {source.path}",
                span=source.span,
                hint="check path in the sources file",
            ) from error
        raise translate(error, f"cannot read the source {name}", source.span) from error


def _is_one_small_file(path: str) -> bool:
    file = Path(path)
    return file.is_file() and file.stat().st_size < _ONE_TASK


def read_source(spark: SparkSession, source: Source) -> DataFrame:
    """The rows of a source. Raises EngineError."""
    register_source(spark, source)
    with translated(f"cannot read the source {source.full_name}", source.span):
        return spark.sql(f"select * from {source.relation}")


def _known_schema(spark: SparkSession, source: Source) -> str | StructType | None:
    """The schema of a source that is one file of this machine, as Spark would infer it."""
    java: Any = getattr(spark, "_jsc", None)
    is_file = java is not None and source.path is not None and Path(source.path).is_file()
    if not is_file or source.options or (source.file_format or "parquet") != "parquet":
        return None
    if not str(java.hadoopConfiguration().get("fs.defaultFS")).startswith("file:"):
        return None
    return schema_of(str(source.path))


def _options(source: Source) -> dict[str, str]:
    options = dict(source.options)
    if source.file_format == "csv":
        options = {"header": "true", "inferSchema": "true", **options}
    return options


def register_model(
    spark: SparkSession, project: Project, model: CheckModel, done: set[str] | None = None
) -> None:
    """Make a check model's SELECT a temporary view, after what it reads; its text runs verbatim.

    `done` remembers what was registered. Raises an error that points into the model's file.
    """
    register_dependencies(spark, project, model, done)
    _register_view(spark, project, model)


def _register_view(spark: SparkSession, project: Project, model: CheckModel) -> None:
    try:
        spark.sql(model.sql).createOrReplaceTempView(quoted(view_name(model)))
    except SPARK_FAILURES as error:
        problem = translate_model_error(error, model)
        name = missing_relation(str(error))
        if name is not None and model.relation is None:
            problem.hint = near_relations(spark, project, name) or problem.hint
        raise problem from error


def register_dependencies(
    spark: SparkSession, project: Project, model: CheckModel, done: set[str] | None = None
) -> None:
    """Register what a model reads, first things first; `done` remembers what was registered.

    A relation that dbt built is there already, and needs nothing.
    """
    models = {m.unique_id: m for m in project.models}
    _register_upstream(spark, project, models, model, set() if done is None else done)


def _register_upstream(
    spark: SparkSession,
    project: Project,
    models: Mapping[str, CheckModel],
    model: CheckModel,
    done: set[str],
) -> None:
    if model.relation is not None:
        return
    for source in project.sources:
        if source.unique_id in model.depends_on and source.unique_id not in done:
            register_source(spark, source)
            done.add(source.unique_id)
    for unique_id in model.depends_on:
        upstream = models.get(unique_id)
        if upstream is not None and unique_id not in done:
            _register_upstream(spark, project, models, upstream, done)
            _register_view(spark, project, upstream)
            done.add(unique_id)


def read_model(spark: SparkSession, model: CheckModel) -> DataFrame:
    """The rows of a model's SELECT, whose sources are registered. Raises EngineError."""
    try:
        rows: DataFrame = spark.sql(model.sql)
    except SPARK_FAILURES as error:
        raise translate_model_error(error, model) from error
    return rows


def column_types(spark: SparkSession, relation: str, name: str) -> dict[str, str]:
    """The columns of a relation (SQL text) in order, with their Spark types.

    `name` is what people call it. Raises EngineError.
    """
    with translated(f"cannot read {name}"):
        return types_of(spark.sql(f"select * from {relation}").schema)


def expression_types(
    spark: SparkSession, relation: str, expressions: Sequence[str], name: str
) -> list[str]:
    """The Spark types of expressions over a relation, which people call `name`.

    Raises SourceNotFoundError when there is no such relation, QueryError when an expression does
    not work on it.
    """
    selected = ", ".join(f"({e}) as `e{i}`" for i, e in enumerate(expressions)) or "1 as `e`"
    try:
        fields = spark.sql(f"select {selected} from {relation}").schema.fields
    except SPARK_FAILURES as error:
        if condition_of(error).startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            raise SourceNotFoundError(
                f"there is no check model, source or table {name}",
                hint="name a check model, a source (nyc.airports) or a table that Spark knows",
            ) from error
        shown = ", ".join(e.strip("`") for e in expressions)
        raise translate(error, f"{name} has no {shown}") from error
    return [f.dataType.simpleString() for f in fields][: len(expressions)]

"""Puts sources and check models before Spark as temporary views."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.compiler.segments import handed_on
from dqsql.dialect import parse_statement, quoted, tables_read, unquoted
from dqsql.engine.csv_files import ragged_notes
from dqsql.engine.csv_headers import IN_PATH, check_headers, common_schema, headers_of, lacking
from dqsql.engine.failures import (
    SPARK_FAILURES,
    condition_of,
    translate,
    translate_model_error,
    translated,
)
from dqsql.engine.file_options import MERGE, options_of, read_by_spark, refuse_several_values
from dqsql.engine.parquet_files import UnevenFiles, uneven_files
from dqsql.engine.paths import file_or_pattern, files_at, named_in
from dqsql.engine.registered import Registered
from dqsql.engine.selects import select
from dqsql.engine.session_use import put_view, was_started_here
from dqsql.engine.statements import tables_in
from dqsql.engine.unlike_files import read_unlike
from dqsql.engine.values import types_of
from dqsql.errors import SourceNotFoundError, error_of
from dqsql.model.project import CheckModel, Project, Source, view_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# The column that Spark adds where it has seen lines that are no JSON.
_CORRUPT = "_corrupt_record"
_EMPTY = "its files are empty: 0 bytes"
# Bytes of a file that Spark does not split (spark.sql.files.openCostInBytes).
_ONE_TASK = 4 * 2**20
# The first line of a plan with costs that tells a size is that of the whole.
_SIZE = re.compile(r"sizeInBytes=([\d.E+]+) ([KMGTPE]i)?B")
_UNITS = {unit: 2 ** (10 * n) for n, unit in enumerate((None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}


def register_source(
    spark: SparkSession,
    source: Source,
    about: str | None = None,
    on_uneven: Callable[[UnevenFiles], None] = lambda found: None,
    root: Path | None = None,
) -> Mapping[str, str]:
    """Make a file source readable under the name that `{{ source(..) }}` renders to.

    Sources that are tables need nothing. `about` is what people call it, by default the
    source's name. `on_uneven` is called with files that lack columns of others. Files in the
    folder `root`, by default the current one, are named as they are there. Returns the options
    that its files are read with. Raises SourceNotFoundError where the file is missing or has no
    columns, EngineError where its files do not fit together.
    """
    if source.path is None:
        return {}
    file_format = source.file_format or "parquet"
    what = about or f"the source {source.full_name}"
    # What has no place in a sources file is a file by itself, of which there is nothing to quote.
    place = source.span if about is None else None
    known = known_schema(spark, source)
    try:
        uneven = _uneven(source)
        options = options_of(spark, source, merge=uneven is not None)
        reader = spark.read.format(file_format).options(**options)
        if file_format == "csv":
            headers = headers_of(source, options)
            check_headers(source, headers, root or Path.cwd(), about)
            known = common_schema(spark, source, headers, options)
            uneven = None if known is None else lacking(headers, known.names)
        if uneven is not None:
            on_uneven(uneven)
        refuse_several_values(source, options, root or Path.cwd(), what, place)
        if known is not None:
            reader = reader.schema(known)
        if uneven is not None and uneven.unlike:
            rows = read_unlike(reader, source.path, uneven, options)
        else:
            # Delta takes each letter of a path as it is.
            is_plain = file_format.lower() == "delta"
            rows = reader.load(source.path if is_plain else file_or_pattern(source.path))
        if named_twice := [name for name in rows.columns if name.startswith(IN_PATH)]:
            rows = rows.drop(*named_twice)
        if not rows.columns:
            raise SourceNotFoundError(
                f"{what} has no columns: {source.path} is empty",
                span=place,
                hint="a CSV file begins with a line of column names"
                if file_format == "csv"
                else None,
            )
        if file_format == "json" and rows.columns == [_CORRUPT]:
            raise SourceNotFoundError(
                f"{what} has no line that is a JSON object",
                span=place,
                hint="if each file is one object or one array, write options: {multiLine: true}",
            )
        if _is_one_small_file(source.path):
            # Spark reads it in one task anyway; knowing so, it plans no shuffle behind it.
            rows = rows.coalesce(1)
        put_view(rows, unquoted(source.relation))
        return options
    except SPARK_FAILURES as error:
        files = files_at(Path(source.path)) or ()
        are_empty = bool(files) and not any(f.stat().st_size for f in files)
        if condition_of(error).startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
            hint = "check path in the sources file"
            if files and not read_by_spark(source.path):
                hint = "its files lie in folders: write options: {recursiveFileLookup: true}"
            raise SourceNotFoundError(
                f"{what} has no files at {source.path}",
                span=place,
                hint=_EMPTY if are_empty else hint,
            ) from error
        problem = translate(error, f"cannot read {what}", place)
        if condition_of(error).startswith(("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")):
            hint = f"it is read as {file_format}: set `format` if that is wrong"
            problem.hint = _EMPTY if are_empty else hint
        raise problem from error


def _is_one_small_file(path: str) -> bool:
    file = Path(path)
    return file.is_file() and file.stat().st_size < _ONE_TASK


def read_source(spark: SparkSession, source: Source, about: str | None = None) -> DataFrame:
    """The rows of a source, which people call `about`. Raises EngineError."""
    place = source.span if about is None else None
    with translated(f"cannot read {about or f'the source {source.full_name}'}", place):
        register_source(spark, source, about)
        return select(spark, f"select * from {source.relation}")


def known_schema(spark: SparkSession, source: Source) -> str | StructType | None:
    """The schema of a source that is one Parquet file of this machine, as Spark would infer it.

    None where that is for Spark to say.
    """
    java: Any = getattr(spark, "_jsc", None)
    is_file = java is not None and source.path is not None and Path(source.path).is_file()
    if not is_file or source.options or (source.file_format or "parquet") != "parquet":
        return None
    if not str(java.hadoopConfiguration().get("fs.defaultFS")).startswith("file:"):
        return None
    return schema_of(str(source.path))


def _uneven(source: Source) -> UnevenFiles | None:
    """The Parquet or ORC files of a source, where Spark would not read all columns of all."""
    file_format = source.file_format or "parquet"
    chosen = any(name.lower() == MERGE.lower() for name in source.options)
    if source.path is None or chosen or file_format not in ("parquet", "orc"):
        return None
    return uneven_files(source.path, file_format, source.options)


def register_model(
    spark: SparkSession, project: Project, model: CheckModel, done: Registered | None = None
) -> None:
    """Make a check model's SELECT a temporary view, after what it reads; its text runs verbatim.

    `done` remembers what was registered. Raises an error that points into the model's file.
    """
    register_dependencies(spark, project, model, done)
    refresh_tables(spark, [_query(model)], done)
    _register_view(spark, project, model)


def refresh_tables(
    spark: SparkSession, queries: Iterable[str], done: Registered | None = None
) -> None:
    """Let Spark list the files of tables again that queries read.

    A session keeps the list that it made first, so that one which lasts would see no new file. What
    is cached stays. `done` remembers which tables that was done for.
    """
    if was_started_here(spark):
        return
    done = done or Registered()
    for query in map(parse_statement, queries):
        for table in tables_read(query) if query is not None else ():
            name = ".".join(quoted(part.name) for part in table.parts)
            if not table.name.startswith(view_name("")):
                done.once(f"table.{name}", partial(_refresh, spark, name))


def _query(model: CheckModel) -> str:
    return model.sql if model.relation is None else f"select * from {model.relation}"


def _refresh(spark: SparkSession, name: str) -> None:
    # If there is no such table, it is told where it is read.
    with suppress(*SPARK_FAILURES):
        if not spark.catalog.isCached(name):
            spark.catalog.refreshTable(name)


def _register_view(spark: SparkSession, project: Project, model: CheckModel) -> None:
    view = view_name(model)
    if not model.sql and model.name in project.broken:
        raise error_of(project.broken[model.name])
    try:
        if model.relation is None:
            put_view(select(spark, model.sql), view)
        else:
            # Not by SQL, which a server would analyse once more.
            put_view(spark.table(model.relation), view)
            if estimated_bytes(spark, quoted(view)) < _ONE_TASK:
                put_view(spark.table(quoted(view)).coalesce(1), view)
    except SPARK_FAILURES as error:
        problem = translate_model_error(error, model)
        name = missing_relation(str(error))
        if name is not None and model.relation is None:
            problem.hint = near_relations(spark, project, name) or problem.hint
        raise problem from error


def estimated_bytes(spark: SparkSession, relation: str) -> float:
    """The size of a relation by Spark's own estimate; infinite where Spark makes none."""
    row = spark.sql(f"explain cost select * from {relation}").first()
    match = _SIZE.search(row[0]) if row is not None else None
    return math.inf if match is None else float(match[1]) * _UNITS[match[2]]


def register_dependencies(
    spark: SparkSession, project: Project, model: CheckModel, done: Registered | None = None
) -> None:
    """Register what a model reads, first things first; `done` remembers what was registered.

    A relation that dbt built is there already, and needs nothing.
    """
    if model.relation is not None:
        return
    done = done or Registered()
    for source in project.sources:
        if source.unique_id in model.depends_on:
            done.once(source.unique_id, partial(_register_noted, spark, project, source, done))
    for upstream in project.models:
        if upstream.unique_id in model.depends_on:
            done.once(upstream.unique_id, partial(register_model, spark, project, upstream, done))


def _register_noted(
    spark: SparkSession, project: Project, source: Source, done: Registered
) -> None:
    """Register a source, and look at the rows of its CSV and JSON files, the columns of others."""

    def on_uneven(uneven: UnevenFiles) -> None:
        if uneven.missing:
            done.missing[source.unique_id] = uneven.missing
            done.notes.append(
                f"{named_in(uneven.newest, project.root)}, the newest file of {source.full_name},"
                f" has no column {', '.join(uneven.missing)}, which older files have: null there"
            )

    with translated(f"cannot read the source {source.full_name}", source.span):
        options = register_source(spark, source, on_uneven=on_uneven, root=project.root)
        if source.file_format == "csv":
            done.notes += ragged_notes(source, options, project.root)
    if source.file_format == "json" and _CORRUPT in spark.table(source.relation).columns:
        done.notes.append(
            f"{source.full_name}: some lines are no JSON objects and become rows of nulls; the"
            f" column {_CORRUPT} has their text. If each file is one object or one array, set"
            " options: {multiLine: true}"
        )


def missing_columns(project: Project, model: CheckModel, done: Registered) -> list[str]:
    """The columns of a registered model that the newest file of its source lacks."""
    return [
        column
        for source in project.sources
        if source.unique_id in done.missing and source.unique_id in model.depends_on
        for column in handed_on(model, unquoted(source.relation), done.missing[source.unique_id])
    ]


def read_model(spark: SparkSession, model: CheckModel) -> DataFrame:
    """The rows of a model's SELECT, whose sources are registered. Raises EngineError."""
    try:
        return spark.sql(model.sql)
    except SPARK_FAILURES as error:
        raise translate_model_error(error, model) from error


def column_types(spark: SparkSession, relation: str, name: str) -> dict[str, str]:
    """The columns of a relation in order, with their Spark types.

    `name` is what people call it. Raises EngineError.
    """
    with translated(f"cannot read {name}"):
        return types_of(spark.table(relation).schema)


def expression_types(
    spark: SparkSession, relation: str, expressions: Sequence[str], name: str
) -> list[str]:
    """The Spark types of expressions over a relation, which people call `name`.

    Raises SourceNotFoundError when there is no such relation, QueryError when an expression does
    not work on it.
    """
    selected = [f"({e}) as `e{i}`" for i, e in enumerate(expressions)] or ["1 as `e`"]
    try:
        fields = spark.table(relation).selectExpr(*selected).schema.fields
    except SPARK_FAILURES as error:
        if condition_of(error).startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            raise SourceNotFoundError(
                f"there is no check model, source or table {name}",
                hint="name a check model, a source (nyc.airports) or a table that Spark knows",
            ) from error
        shown = ", ".join(e.strip("`") for e in expressions)
        raise translate(error, f"{name} has no {shown}") from error
    return [f.dataType.simpleString() for f in fields][: len(expressions)]


# --- what a relation is probably called that Spark does not find -------------------------------

_NOT_FOUND = re.compile(r"The (?:table or view|schema) ((?:`[^`]+`\.?)+) cannot be found")
_NEAR = 0.6


def missing_relation(message: str) -> str | None:
    """The name in Spark's message that a table, view or schema cannot be found."""
    match = _NOT_FOUND.search(message)
    return None if match is None else match.group(1).replace("`", "")


def near_relations(spark: SparkSession, project: Project, name: str) -> str | None:
    """A hint with the relations whose names are nearest: sources, check models, tables of Spark's.

    None where none is near.
    """
    declared = (
        "the source is declared; set its `database` (the catalog), `schema` or `identifier`,"
        " or `path` if it is a file"
    )
    if any(s.full_name == name and s.path is None for s in project.sources):
        return declared
    others = [s for s in project.sources if s.relation.replace("`", "") != name]
    shown = {s.full_name: f"{{{{ source('{s.name}', '{s.table}') }}}}" for s in others}
    shown |= {s.table: shown[s.full_name] for s in others}
    shown |= {m.name: f"{{{{ ref('{m.name}') }}}}" for m in project.models if m.config.enabled}
    shown |= {table: table for table in _tables(spark, name)}
    by_lower = {known.lower(): text for known, text in shown.items() if known != name}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=_NEAR)
    if name in shown and shown[name] != name:
        # It is there, and not as a table.
        near = [name.lower()]
        by_lower[name.lower()] = shown[name]
    candidates = dict.fromkeys(by_lower[n] for n in near)
    if candidates:
        return f"did you mean {' or '.join(candidates)}?"
    return declared if len(others) < len(project.sources) else None


def _tables(spark: SparkSession, name: str) -> list[str]:
    """The tables beside the one that is missing; the schemas near to its own where that is."""
    *above, _ = name.split(".")
    try:
        schemas = [d.name for d in spark.catalog.listDatabases()]
        schema = above[-1] if above else spark.catalog.currentDatabase()
        near = difflib.get_close_matches(schema, schemas, n=2, cutoff=_NEAR)
        table_names = []
        for one in near:
            prefix = f"{one}." if above else ""
            tables = {n: t for n, t in tables_in(spark, one).items() if n[:7] != "dqsql__"}
            table_names += [
                n if is_temporary else f"{prefix}{n}" for n, is_temporary in tables.items()
            ]
    except SPARK_FAILURES:
        # A catalog may refuse to list what it has; the error itself is told all the same.
        return []
    return table_names


# --- the schema of a Parquet file, without the job that Spark starts to learn it ---------------

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_PLAIN = {
    ("BOOLEAN", "None"): "boolean",
    ("INT32", "None"): "int",
    ("INT64", "None"): "bigint",
    ("FLOAT", "None"): "float",
    ("DOUBLE", "None"): "double",
    ("BYTE_ARRAY", "String"): "string",
    ("INT32", "Date"): "date",
}
_WHOLE = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_PRECISION = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38}


def schema_of(path: str) -> str | StructType | None:
    """What Spark makes of the columns of a file of this machine, as it reads it itself.

    None where that is for Spark to say: nested and unusual types, names that differ in case only,
    a file that cannot be read.
    """
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return None
    written = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if written is not None:
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(written))
    columns = [footer.schema.column(i) for i in range(footer.num_columns)]
    names = [column.path for column in columns]
    if not names or len({name.lower() for name in names}) < len(names):
        return None
    types = [_type_of(column) for column in columns]
    known = [
        f"`{name.replace('`', '``')}` {kind}"
        for name, kind in zip(names, types, strict=True)
        if kind is not None
    ]
    return ", ".join(known) if len(known) == len(names) else None


def _type_of(column: Any) -> str | None:
    """The type of a column by the Parquet format's table of logical types."""
    if column.max_repetition_level or column.path != column.name:
        return None
    physical = column.physical_type
    logical = json.loads(column.logical_type.to_json())
    kind = logical["Type"]
    if kind == "Int":
        return _WHOLE[logical["bitWidth"]] if logical["isSigned"] else None
    if kind == "Timestamp":
        usual = logical["timeUnit"] in ("milliseconds", "microseconds") and physical == "INT64"
        return "timestamp" if usual and logical["isAdjustedToUTC"] else None
    if kind == "Decimal":
        most = _PRECISION.get(physical, 0)
        precision, scale = logical["precision"], logical["scale"]
        return f"decimal({precision},{scale})" if precision <= most else None
    return _PLAIN.get((physical, kind))

"""The Spark job that reads tables and files for a corpus index.

Columns are the unit of distribution: each is sampled to a bounded number of values and becomes one
row (table, column, values); patterns are generated where the row is (`mapInArrow`) and summed by
relation and pattern in Spark. Tables are handled in groups, so that no plan is too large.

This is the only module of the package that needs PySpark.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dqsql.errors import UsageError
from dqsql.patterns.contributions import COUNTS, IndexSettings, column_patterns
from dqsql.patterns.infer import TaggedColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLES_PER_GROUP = 64
_FILE_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".orc": "orc",
}

_TOTALS = ("columns", "value_bytes")
_DDL = "relation string, pattern string, " + ", ".join(f"{n} bigint" for n in (*COUNTS, *_TOTALS))


def sources(
    spark: SparkSession,
    name: str,
    *,
    root: Path,
    unreadable: Callable[[str, Exception], None],
    csv_options: Callable[[str, Mapping[str, str]], Mapping[str, str]],
) -> dict[str, DataFrame]:
    """Return the data frames of a table, a schema or files, by name.

    The names that come back can be given again: tables are called as Spark calls them, files by
    their paths, those below `root` relative to it.

    Args:
        spark: the session.
        name: `catalog.schema.table`, `schema.*` for all tables of a schema, or a path or glob of
            files whose suffix tells their format (parquet, csv, tsv, json, orc; also .csv.gz).
        root: the folder that relative paths are relative to.
        unreadable: is told of tables of a schema that Spark cannot read, which are left out.
        csv_options: the options that a CSV file is read with, by its path and what its name says.

    Raises:
        UsageError: a name is neither a table, a schema, nor a file of a known format.
        pyspark.errors.PySparkException: Spark cannot read what has such a name.
    """
    if file_format(name) is not None:
        return _files(spark, name, root, csv_options)
    if name.endswith(".*"):
        return _tables(spark, name[:-2], unreadable)
    if _table_exists(spark, name):
        return {name: spark.table(name)}
    raise UsageError(
        f"there is no table, schema or file {name}",
        hint="write a check model, source.table, schema.table, schema.*, or a glob such as"
        " 'data/*.parquet'",
    )


def _tables(
    spark: SparkSession, schema: str, unreadable: Callable[[str, Exception], None]
) -> dict[str, DataFrame]:
    from pyspark.errors import PySparkException

    frames: dict[str, DataFrame] = {}
    # Spark's `listTables` fails where plans are interpreted.
    for table in spark.sql(f"show tables in {schema}").collect():
        # Spark lists the session's temporary views among the tables of every schema.
        if not table.isTemporary:
            relation = f"{schema}.{_plain_or_quoted(table.tableName)}"
            try:
                frame = spark.table(relation)
                frame.schema  # noqa: B018 - a Connect session resolves nothing before
                frames[relation] = frame
            except PySparkException as error:
                unreadable(relation, error)
    return frames


def file_format(name: str) -> str | None:
    """Return the Spark format of a path or glob by its suffix, None for what is no file."""
    return _FILE_FORMATS.get(_suffix(name))


def _suffix(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix.lower()


def _plain_or_quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _quoted(name)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _table_exists(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import ParseException

    try:
        return bool(spark.catalog.tableExists(name))
    except ParseException:
        return False


def _files(
    spark: SparkSession,
    name: str,
    root: Path,
    csv_options: Callable[[str, Mapping[str, str]], Mapping[str, str]],
) -> dict[str, DataFrame]:
    form, options = file_format(name), dict[str, str]()
    frames: dict[str, DataFrame] = {}
    for path in _expanded(name, root):
        if form == "csv":
            separator = "\t" if _suffix(name) == ".tsv" else ","
            options = {**csv_options(path, {"header": "true", "sep": separator})}
        frames[_shown(path, root)] = spark.read.format(form or "").options(**options).load(path)
    return frames


def _expanded(name: str, root: Path) -> list[str]:
    if "://" in name:
        return [name]
    if Path(root / name).exists():
        return [str((root / name).resolve())]
    paths = sorted(glob.glob(str(root / name), recursive=True))
    if not paths:
        raise UsageError(f"no file matches {name}", hint=f"it is looked for in {root}")
    return [str(Path(path).resolve()) for path in paths]


def _shown(path: str, root: Path) -> str:
    if "://" in path:
        return path
    absolute = Path(path)
    inside = root.resolve()
    return absolute.relative_to(inside).as_posix() if absolute.is_relative_to(inside) else path


@contextmanager
def contributions(tables: Mapping[str, DataFrame], settings: IndexSettings) -> Iterator[DataFrame]:
    """What tables contribute to an index, computed once and held until the context ends.

    A row for each relation and pattern with the sums named in `COUNTS`, and one for each relation
    without a pattern that has the number of `columns` and their `value_bytes`. Only string columns
    count; of each the first `max_values` non-null values that Spark returns are read.
    """
    held: list[DataFrame] = []
    try:
        for group in _groups(tables):
            held.append(_contributions(group, settings).persist())
            held[-1].count()
        yield _union(held)
    finally:
        for frame in held:
            frame.unpersist()


def _groups(tables: Mapping[str, DataFrame]) -> Iterator[dict[str, DataFrame]]:
    names = sorted(tables)
    for start in range(0, len(names), _TABLES_PER_GROUP):
        yield {name: tables[name] for name in names[start : start + _TABLES_PER_GROUP]}


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b), frames)


def _contributions(tables: Mapping[str, DataFrame], settings: IndexSettings) -> DataFrame:
    from pyspark.sql import functions as F

    session = next(iter(tables.values())).sparkSession
    # A table without string columns is known, too.
    nothing = (None,) * (1 + len(COUNTS))
    parts = [session.createDataFrame([(name, *nothing, 0, 0) for name in tables], _DDL)]
    columns = _columns_of(tables, settings.max_values)
    if columns is not None:
        parts.append(columns.mapInArrow(_Generator(settings), _DDL))
    return (
        _union(parts)
        .groupBy("relation", "pattern")
        .agg(*(F.sum(name).cast("bigint").alias(name) for name in (*COUNTS, *_TOTALS)))
    )


def served(contributed: DataFrame, least_coverage: int) -> DataFrame:
    """The sums over all relations of the patterns that so many columns have, by pattern."""
    from pyspark.sql import functions as F

    sums = (F.sum(name).cast("bigint").alias(name) for name in COUNTS)
    patterns = contributed.where("pattern is not null").groupBy("pattern").agg(*sums)
    return patterns.where(F.col("coverage") >= least_coverage)


def _columns_of(tables: Mapping[str, DataFrame], max_values: int) -> DataFrame | None:
    """Return one row for each string column of tables: table, column, values; None without any."""
    columns = [
        _columns(name, table, strings, max_values)
        for name, table in tables.items()
        if (strings := string_columns(table))
    ]
    return _union(columns) if columns else None


def _columns(name: str, table: DataFrame, strings: Sequence[str], max_values: int) -> DataFrame:
    from pyspark.sql import functions as F

    # One limited read of the table serves all its columns; collect_list drops nulls.
    sampled = table.select(*(F.col(_quoted(c)).alias(f"c{i}") for i, c in enumerate(strings)))
    lists = sampled.limit(max_values).agg(
        *(F.collect_list(f"c{i}").alias(f"c{i}") for i in range(len(strings)))
    )
    entries = F.array(
        *(
            F.struct(F.lit(column).alias("column"), F.col(f"c{i}").alias("values"))
            for i, column in enumerate(strings)
        )
    )
    return lists.select(F.lit(name).alias("table"), F.explode(entries).alias("entry")).select(
        "table", "entry.column", "entry.values"
    )


def string_columns(table: DataFrame) -> list[str]:
    """Return the names of a table's string columns, in order."""
    from pyspark.sql.types import StringType

    return [f.name for f in table.schema.fields if isinstance(f.dataType, StringType)]


def column_values(table: DataFrame, column: str, limit: int) -> list[str | None]:
    """Return the first values of a column, at most `limit`."""
    from pyspark.sql import functions as F

    rows = table.select(F.col(_quoted(column)).alias("value")).limit(limit)
    values: list[str | None] = rows.toArrow()["value"].to_pylist()
    return values


def matching_shares(
    tables: Mapping[str, DataFrame], regex: str, max_values: int
) -> list[TaggedColumn]:
    """The share of values that match an anchored Java regular expression, by string column.

    Of each table the first `max_values` rows are read, as for an index.
    """
    from pyspark.sql import functions as F

    matching = F.filter("values", lambda value: value.rlike(regex))
    shares: list[TaggedColumn] = []
    for group in _groups(tables):
        columns = _columns_of(group, max_values)
        if columns is not None:
            rows = columns.where(F.size("values") > 0).select(
                "table", "column", (F.size(matching) / F.size("values")).alias("share")
            )
            shares += [TaggedColumn(**row) for row in rows.toArrow().to_pylist()]
    return shares


class _Generator:
    """Turns batches of (table, column, values) into contributions; runs in Spark's workers."""

    def __init__(self, settings: IndexSettings) -> None:
        self._settings = settings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            relations = batch.column("table").to_pylist()
            for row, relation in enumerate(relations):
                yield _as_rows(relation, batch.column("values")[row].as_py(), self._settings)


def _as_rows(relation: str, values: list[str], settings: IndexSettings) -> pa.RecordBatch:
    """The rows of `contributions` for what the values of one column contribute."""
    patterns = column_patterns(values, settings)
    none = [None] * len(patterns)
    counts = ([*(sums[i] for sums in patterns.values()), None] for i in range(len(COUNTS)))
    arrays = [
        pa.array([relation] * (len(patterns) + 1), pa.string()),
        pa.array([*patterns, None], pa.string()),
        *(pa.array(column, pa.int64()) for column in counts),
        pa.array([*none, 1], pa.int64()),
        pa.array([*none, sum(map(len, values))], pa.int64()),
    ]
    return pa.record_batch(arrays, names=["relation", "pattern", *COUNTS, *_TOTALS])

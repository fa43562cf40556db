"""The Spark job that builds and updates a corpus index from tables and files.

Columns are the unit of distribution: each is sampled to a bounded number of values and becomes one
row (table, column, values); patterns are generated where the row is (`mapInArrow`) and summed by
table and pattern in Spark. Tables are handled in groups, so that the driver holds the contributions
of one group at a time, whatever the number of columns.

This is the only module of the package that needs PySpark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dqsql.errors import PatternError
from dqsql.patterns.contributions import COUNTS, Contribution, IndexSettings
from dqsql.patterns.store import (
    CONTRIBUTION_SCHEMA,
    SizeReport,
    contribution_rows,
    read_meta,
    replace_tables,
)

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

# A row with this pattern, which no value has, carries the totals of a table: columns and bytes.
_TOTALS = "<totals>"


def sources(spark: SparkSession, names: Iterable[str]) -> dict[str, DataFrame]:
    """Return the data frames of tables, schemas and files, by name.

    Args:
        spark: the session.
        names: `catalog.schema.table`, `schema.*` for all tables of a schema, or a path or glob of
            files whose suffix tells their format (parquet, csv, tsv, json, orc).

    Raises:
        PatternError: a name is neither a table, a schema, nor a file of a known format.
    """
    found: dict[str, DataFrame] = {}
    for name in names:
        suffix = Path(name).suffix.lower()
        if suffix in _FILE_FORMATS:
            found.update(_files(spark, name, _FILE_FORMATS[suffix], suffix))
        elif name.endswith(".*"):
            schema = name[:-2]
            for table in spark.catalog.listTables(schema):
                found[f"{schema}.{table.name}"] = spark.table(f"{schema}.{table.name}")
        elif spark.catalog.tableExists(name):
            found[name] = spark.table(name)
        else:
            raise PatternError(
                f"{name!r} is no table, schema or file",
                hint="write schema.table, schema.*, or a glob such as data/*.parquet",
            )
    return found


def _files(spark: SparkSession, name: str, form: str, suffix: str) -> dict[str, DataFrame]:
    paths = _expanded(name)
    options = {"header": "true", "sep": "\t" if suffix == ".tsv" else ","} if form == "csv" else {}
    return {path: spark.read.format(form).options(**options).load(path) for path in paths}


def _expanded(name: str) -> list[str]:
    import glob

    if "://" in name or not glob.has_magic(name):
        return [name]
    paths = sorted(glob.glob(name, recursive=True))
    if not paths:
        raise PatternError(f"no file matches {name!r}")
    return paths


def build_index(
    folder: str | os.PathLike[str],
    tables: Mapping[str, DataFrame],
    settings: IndexSettings | None = None,
) -> SizeReport:
    """Add tables to the index in a folder, replacing the contribution of those already in it.

    Makes the index when there is none. Only string columns count; of each the first `max_values`
    non-null values that Spark returns are read.

    Raises:
        PatternError: the folder holds an index of other settings, or there are no tables.
    """
    if not tables:
        raise PatternError("no tables to index")
    if (Path(folder) / "index.json").exists():
        existing = read_meta(Path(folder)).settings
        if settings is not None and settings != existing:
            raise PatternError(f"pattern index {folder} was built with {existing}")
        settings = existing
    settings = settings or IndexSettings()
    names = sorted(tables)
    report: SizeReport | None = None
    for start in range(0, len(names), _TABLES_PER_GROUP):
        group = {name: tables[name] for name in names[start : start + _TABLES_PER_GROUP]}
        rows, totals = _contributions(group, settings)
        last = start + _TABLES_PER_GROUP >= len(names)
        report = replace_tables(folder, rows, totals, settings, serve=last)
    assert report is not None
    return report


def _contributions(
    tables: Mapping[str, DataFrame], settings: IndexSettings
) -> tuple[dict[str, pa.Table], dict[str, tuple[int, int]]]:
    from pyspark.sql import functions as F

    totals: dict[str, tuple[int, int]] = dict.fromkeys(tables, (0, 0))
    columns = [
        frame
        for frame in (_columns(name, table, settings) for name, table in tables.items())
        if frame is not None
    ]
    if not columns:
        return {}, totals
    generated = reduce(lambda a, b: a.unionByName(b), columns).mapInArrow(
        _Generator(settings), "table string, pattern string, " + _ddl()
    )
    summed = generated.groupBy("table", "pattern").agg(
        *(F.sum(name).cast("bigint").alias(name) for name in COUNTS)
    )
    collected = summed.toArrow().cast(CONTRIBUTION_SCHEMA).sort_by("pattern")
    rows: dict[str, pa.Table] = {}
    import pyarrow.compute as pc

    for name in tables:
        own = collected.filter(pc.equal(collected["table"], name))
        is_totals = pc.equal(own["pattern"], _TOTALS)
        for total in own.filter(is_totals).to_pylist():
            totals[name] = (total["coverage"], total["impurity"])
        rows[name] = own.filter(pc.invert(is_totals))
    return rows, totals


def _columns(name: str, table: DataFrame, settings: IndexSettings) -> DataFrame | None:
    """Return one row for each string column of a table: table, column, values."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    strings = [f.name for f in table.schema.fields if isinstance(f.dataType, StringType)]
    if not strings:
        return None
    quoted = [F.col(f"`{column.replace('`', '``')}`") for column in strings]
    # One limited read of the table serves all its columns; collect_list drops nulls.
    sampled = table.select(*(q.alias(f"c{i}") for i, q in enumerate(quoted)))
    lists = sampled.limit(settings.max_values).agg(
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


class _Generator:
    """Turns batches of (table, column, values) into contributions; runs in Spark's workers."""

    def __init__(self, settings: IndexSettings) -> None:
        self._settings = settings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            tables = batch.column("table").to_pylist()
            for row, table in enumerate(tables):
                contribution = Contribution.empty()
                contribution.add_column(batch.column("values")[row].as_py(), self._settings)
                totals = [contribution.columns, contribution.value_bytes]
                contribution.patterns[_TOTALS] = totals + [0] * (len(COUNTS) - 2)
                yield from contribution_rows(table, contribution).to_batches()


def _ddl() -> str:
    return ", ".join(f"{name} bigint" for name in COUNTS)

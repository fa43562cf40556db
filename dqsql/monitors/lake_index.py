"""The index of a lake's patterns in the warehouse table `dq_pattern_index`.

The table has what each relation contributes, and the sums over all of them, which alone are read to
learn patterns. A write replaces both in one commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from dqsql.engine.storage_base import among
from dqsql.errors import PatternError
from dqsql.model.tables import PATTERN_INDEX
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import general_index, with_general
from dqsql.patterns.index import PatternIndex

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

# No relation has this name.
_ALL = "*"
_NAME = PATTERN_INDEX.name


@dataclass(frozen=True, slots=True)
class IndexSize:
    """What an index holds.

    Attributes:
        tables: relations that were read.
        columns: their string columns.
        patterns: those that enough columns have, see `IndexSettings.min_coverage`.
        corpus_bytes: UTF-8 bytes of the values that were read.
    """

    tables: int
    columns: int
    patterns: int
    corpus_bytes: int


def location(store: Store) -> str:
    """Where the index is, for people."""
    return f"{_NAME} in {store.location}"


def learning_index(store: Store) -> PatternIndex:
    """The index that patterns are learned with: the lake's with the shipped one, or that alone.

    Held in memory, so that look-ups need no query; load it once a run. Raises PatternError: the
    index is damaged; StorageError.
    """
    lake = _stored(store)
    return general_index() if lake is None else with_general(lake)


def lake_index(store: Store) -> PatternIndex:
    """The index of a lake. Raises PatternError: there is none, or it is damaged; StorageError."""
    index = _stored(store)
    if index is None:
        raise PatternError(
            f"there is no pattern index yet (it would be {location(store)})",
            hint="build one with `dqsql index build`",
        )
    return index


def _stored(store: Store) -> PatternIndex | None:
    rows = store.select_arrow(PATTERN_INDEX, where={"relation": [_ALL]})
    is_pattern = pc.is_valid(rows["pattern"])
    totals = rows.filter(pc.invert(is_pattern)).to_pylist()
    if not totals:
        return None
    patterns = rows.filter(is_pattern).sort_by("pattern")
    settings = _settings(totals[0]["settings"])
    return PatternIndex(patterns, columns=totals[0]["columns"], settings=settings)


def _settings(text: str) -> IndexSettings:
    try:
        return IndexSettings(**json.loads(text))
    except (ValueError, TypeError, PatternError) as error:
        raise PatternError(
            f"the settings of {_NAME} are damaged: {error}",
            hint="build it again with `dqsql index build`",
        ) from error


def index_size(store: Store) -> IndexSize:
    """What the index of a lake holds. Raises PatternError, StorageError."""
    index = lake_index(store)
    relations = store.select(PATTERN_INDEX, ("relation", "value_bytes"), {"pattern": None})
    sizes = {row["relation"]: row["value_bytes"] for row in relations}
    return IndexSize(len(sizes) - 1, index.columns, len(index), sizes[_ALL])


def relations_with(store: Store, pattern: str) -> list[str]:
    """The relations of an index in which columns match a pattern. Raises StorageError."""
    rows = store.select(PATTERN_INDEX, ("relation",), {"pattern": [pattern]})
    return sorted({row["relation"] for row in rows} - {_ALL})


def write_index(
    spark: SparkSession,
    store: Store,
    tables: Mapping[str, DataFrame],
    settings: IndexSettings | None = None,
) -> None:
    """Build an index afresh with some settings, or add tables to the one that there is.

    What tables in it contributed is replaced. Raises PatternError, StorageError.
    """
    from dqsql.patterns.spark_job import contributions

    lake = None if settings is not None else _stored(store)
    settings = settings or (IndexSettings() if lake is None else lake.settings)
    store.make(PATTERN_INDEX)
    with contributions(tables, settings) as fresh:
        known = fresh
        replaced = None
        if lake is not None:
            replaced = [*tables, _ALL]
            kept = store.frame(_NAME)
            assert kept is not None
            known = kept.where(f"not {among('relation', replaced)}").drop("settings")
            known = known.unionByName(fresh)
        rows = fresh.unionByName(_sums(spark, known, settings), allowMissingColumns=True)
        store.replace_rows(
            _NAME,
            rows.select(*PATTERN_INDEX.column_names).repartition("relation"),
            "relation",
            replaced,
        )
    store.tidy()


def _sums(spark: SparkSession, known: DataFrame, settings: IndexSettings) -> DataFrame:
    """The rows of all relations together."""
    from dqsql.patterns.spark_job import served

    totals = known.where("pattern is null").selectExpr("sum(columns)", "sum(value_bytes)")
    columns, value_bytes = totals.collect()[0]
    row = (_ALL, columns, value_bytes, json.dumps(asdict(settings)))
    about = spark.createDataFrame(
        [row], "relation string, columns bigint, value_bytes bigint, settings string"
    )
    patterns = served(known, settings.least_coverage(columns))
    patterns = patterns.selectExpr(f"'{_ALL}' as relation", "*")
    return patterns.unionByName(about, allowMissingColumns=True)

"""The index of a lake's patterns in its table: built, added to, replaced, read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dqsql.engine.storage import open_store, open_tables
from dqsql.errors import PatternError
from dqsql.model.project import Target
from dqsql.model.tables import PATTERN_INDEX
from dqsql.monitors.lake_index import (
    IndexSize,
    index_size,
    lake_index,
    learning_index,
    relations_with,
    write_index,
)
from dqsql.patterns import spark_job
from dqsql.patterns.contributions import COUNTS, IndexSettings
from dqsql.patterns.general import general_index
from tests.patterns.indexes import Contribution, index_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

ALL = IndexSettings(min_coverage=1)
DATES = [f"2019-03-{day:02d}" for day in range(1, 29)]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target("t", "dq", warehouse=str(tmp_path))


@pytest.fixture
def store(spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch) -> Store:
    # Workers must find the same packages as this process.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    return open_store(spark, target)


def frame(spark: SparkSession, **columns: Sequence[str | None]) -> DataFrame:
    schema = ", ".join(f"`{name}` string" for name in columns)
    return spark.createDataFrame([*zip(*columns.values(), strict=True)], schema).coalesce(1)


def contribution(*columns: Sequence[str | None], settings: IndexSettings = ALL) -> Contribution:
    total = Contribution.empty()
    for values in columns:
        total.add_column(values, settings)
    return total


def test_spark_builds_what_python_builds(spark: SparkSession, store: Store, target: Target) -> None:
    settings = IndexSettings(max_values=25, min_coverage=1)
    locales = ["en-US", "fr-FR", None, "de-DE"] * 7
    whole = frame(spark, **{"the 'date'": DATES, "locale": locales})
    numbers = spark.createDataFrame([(1,)], "n int")
    write_index(spark, store, {"it's": whole, "s.numbers": numbers}, settings)
    expected = contribution(DATES[:25], locales[:25], settings=settings)
    assert lake_index(store).table.equals(index_of(expected, settings).table)
    size = IndexSize(2, 2, len(expected.patterns), expected.value_bytes)
    # No session is needed to read it.
    assert index_size(open_tables(target)) == index_size(store) == size
    assert lake_index(store).settings == settings


@pytest.mark.parametrize("group", [1, 64])
def test_adding_and_replacing_gives_what_building_at_once_gives(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr(spark_job, "_TABLES_PER_GROUP", group)
    dates, locales = frame(spark, a=DATES, b=DATES), frame(spark, c=["en-US", "fr-FR"])
    times = frame(spark, a=["12:30", "9:07"])
    write_index(spark, store, {"s.one": dates}, ALL)
    write_index(spark, store, {"s.two": locales, "s.none": frame(spark, x=[None])})
    write_index(spark, store, {"s.one": times})
    added, size = lake_index(store), index_size(store)
    assert relations_with(store, "<lower>{2}-<upper>{2}") == ["s.two"]
    assert relations_with(store, "2019-03-<digit>{2}") == []
    again = {"s.one": times, "s.two": locales, "s.none": frame(spark, x=[None])}
    write_index(spark, store, again, ALL)
    assert added.table.equals(lake_index(store).table)
    assert size == index_size(store)
    assert (size.tables, size.columns, added.columns) == (3, 3, 3)


def test_patterns_of_few_columns_are_kept_but_not_served(spark: SparkSession, store: Store) -> None:
    settings = IndexSettings(min_coverage=2)
    many = frame(spark, **{f"c{i}": ["1"] for i in range(999)})
    write_index(spark, store, {"many": many, "one": frame(spark, x=["a"])}, settings)
    served = lake_index(store).lookup(["<digit>+", "<lower>+"]).coverage
    assert served.tolist() == [999, 0]
    write_index(spark, store, {"two": frame(spark, x=["b"])})
    served = lake_index(store).lookup(["<digit>+", "<lower>+"]).coverage
    assert served.tolist() == [999, 2]


def test_without_an_index_the_shipped_one_is_learned_with(store: Store) -> None:
    assert learning_index(store) is general_index()
    with pytest.raises(PatternError, match="there is no pattern index yet"):
        lake_index(store)


def test_damaged_settings_are_an_error(spark: SparkSession, store: Store) -> None:
    write_index(spark, store, {"t": frame(spark, x=["1"])}, ALL)
    rows = store.rows(PATTERN_INDEX)
    store.replace_partition(PATTERN_INDEX, [{**row, "settings": '{"tau": 0}'} for row in rows])
    with pytest.raises(PatternError, match="damaged") as raised:
        learning_index(store)
    assert "dqsql index build" in (raised.value.hint or "")


def test_the_table_has_all_sums() -> None:
    assert [c for c in PATTERN_INDEX.column_names if c in COUNTS] == list(COUNTS)

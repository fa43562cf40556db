"""Tables of users' rows: batches are replaced exactly, files stay few, types stay what they are."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.compute as pc
import pytest
from deltalake.exceptions import DeltaError

from dqsql.engine import row_files
from dqsql.engine.session import runtime_conf
from dqsql.engine.session_settings import configured
from dqsql.engine.storage import open_store
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.model.project import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME, BY = "orders_good", "dqsql_batch"
# What Arrow has no types for is among them.
ODD = """\
select *, named_struct('a', array(id), 'b', map('k', id)) as nested,
    cast(id as decimal(38, 6)) as d, make_ym_interval(1, int(id)) as months,
    make_dt_interval(0, 0, 0, id + 1.5) as `a.b c`, parse_json(concat('[', id, ']')) as semi,
    timestamp_ntz '-0044-03-15 12:00:00' as early,
    timestamp '2024-03-31 01:30:00 Europe/Berlin' as at, cast(concat('b', id) as binary) as bytes
from values """


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[DeltaFolderStore]:
    target = Target("local", "test", warehouse=str(tmp_path / "ware house {1}?*"))
    with configured(spark, runtime_conf(target)):
        found = open_store(spark, target)
        assert isinstance(found, DeltaFolderStore)
        yield found


def rows_of(spark: SparkSession, given: dict[str, list[int]], sql: str = ODD) -> DataFrame:
    """Numbers by batch, as rows of many types."""
    listed = [(n, b.replace("'", "\\'")) for b, numbers in given.items() for n in numbers]
    values = ", ".join(f"({n}L, '{b}')" for n, b in listed) or "(0L, '')"
    found = spark.sql(f"{sql} {values} as t(id, {BY})")
    return found if listed else found.where("false")


def put(store: DeltaFolderStore, rows: DataFrame, batches: Collection[str]) -> None:
    """Write new batches, each into a file of its own."""
    before = store.table(NAME)
    there = 0 if before is None else len(before.file_uris())
    store.replace_rows(NAME, rows, BY, batches)
    assert len(files(store)) == there + len(batches)


def read(store: DeltaFolderStore) -> list[str]:
    """All rows as Spark reads them, as texts."""
    frame = store._read_states(NAME, None)
    assert frame is not None
    return sorted(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())


def texts(rows: DataFrame) -> list[str]:
    return sorted(row[0] for row in rows.selectExpr("to_json(struct(*))").collect())


def files(store: DeltaFolderStore) -> list[str]:
    table = store.table(NAME)
    assert table is not None
    return table.file_uris()


def test_other_readers_find_rows_by_any_column(
    spark: SparkSession, store: DeltaFolderStore
) -> None:
    sql = "select *, if(id = 2, null, id) as n, concat('x', id) as word, id / 2 as half from values"
    store.replace_rows(NAME, rows_of(spark, {"1": [1, 2], "2": [3]}, sql), BY, ["1", "2"])
    table = store.table(NAME)
    assert table is not None
    rows = table.to_pyarrow_dataset()
    for condition, found in (
        (pc.field("word") == "x3", [3]),
        (pc.field("n").is_null(), [2]),
        (pc.field("half") > 0.6, [2, 3]),
        (pc.field(BY) == "1", [1, 2]),
    ):
        assert sorted(rows.to_table(filter=condition)["id"].to_pylist()) == found, str(condition)


def test_whatever_is_replaced_the_rest_stays(spark: SparkSession, store: DeltaFolderStore) -> None:
    chance = random.Random(1)
    names = [*map(str, range(15)), *(f"2024-01-{d:02d}" for d in range(1, 15)), "", "a/b=%", "it's"]
    known: dict[str, list[int]] = {}
    most = 0
    for step in range(24):
        # Mostly new batches, as runs bring them; now and then many, some of them compacted before.
        chosen = chance.sample(names, 6 if step % 4 == 3 else 1)
        given = {b: [chance.randrange(100) for _ in range(chance.randrange(3))] for b in chosen}
        store.replace_rows(NAME, rows_of(spark, given), BY, chosen)
        known |= given
        store.tidy()
        most = max(most, len(files(store)))
        if step % 12 == 11:
            assert read(store) == texts(rows_of(spark, known))
    assert most <= row_files._MOST_SMALL
    # A column that came later is null in older rows, also where files are put together.
    later = rows_of(spark, {"later": [1]}).selectExpr("*", "'x' as note")
    store.replace_rows(NAME, later, BY, ["later"])
    more = {f"b{number}": [1] for number in range(20)}
    put(store, rows_of(spark, more), more)
    known |= more
    store.tidy()
    assert len(files(store)) <= 2
    whole = rows_of(spark, known).selectExpr("*", "cast(null as string) as note")
    assert read(store) == texts(whole.unionByName(later))
    # All rows of a model without batches.
    store.replace_rows(NAME, rows_of(spark, {"run": [1, 2]}), BY, None)
    assert read(store) == texts(rows_of(spark, {"run": [1, 2]}))


def test_a_column_that_is_spelt_otherwise_is_the_same(
    spark: SparkSession, store: DeltaFolderStore
) -> None:
    store.replace_rows(NAME, rows_of(spark, {"1": [1], "2": [2]}, "select * from values"), BY, None)
    again = rows_of(spark, {"2": [5]}, "select * from values").selectExpr("id as ID", BY)
    store.replace_rows(NAME, again, BY, ["2"])
    assert read(store) == [f'{{"id":1,"{BY}":"1"}}', f'{{"id":5,"{BY}":"2"}}']


def test_two_compactions_at_once_keep_each_row_once(
    spark: SparkSession, store: DeltaFolderStore
) -> None:
    known = {f"{number}": [number] for number in range(row_files._MOST_SMALL + 1)}
    put(store, rows_of(spark, known), known)
    before = read(store)
    first, second = store.table(NAME), store.table(NAME)
    assert first is not None
    assert second is not None
    store._compact(NAME, first)
    with pytest.raises(DeltaError):
        store._compact(NAME, second)
    assert read(store) == before


def test_large_files_are_left_alone(
    spark: SparkSession, store: DeltaFolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "LARGE_FILE", 20_000)
    many = rows_of(spark, {"b00": [1]}).selectExpr(
        "* except (id)", "explode(sequence(1L, 9999L)) id"
    )
    store.replace_rows(NAME, many, BY, ["b00"])
    store.tidy()
    (large,) = files(store)
    for ten in range(1, 5):
        given = {f"b{ten}{digit}": [1] for digit in range(10)}
        put(store, rows_of(spark, given), given)
        store.tidy()
    assert large in files(store)
    sizes = [Path(unquote(file)).stat().st_size for file in files(store) if file != large]
    assert len(sizes) < 25 and max(sizes) < 60_000


def test_only_files_of_replaced_batches_are_written_again(
    spark: SparkSession, store: DeltaFolderStore
) -> None:
    known = {f"{number}": [number] for number in range(17)}
    put(store, rows_of(spark, known), known)
    store.tidy()
    (compacted,) = files(store)
    # Between the smallest and the largest name as a text, but not in the file.
    store.replace_rows(NAME, rows_of(spark, {"50": [1]}), BY, ["50"])
    assert compacted in files(store)
    store.replace_rows(NAME, rows_of(spark, {"3": [1]}), BY, ["3"])
    assert compacted not in files(store) and len(files(store)) == 3


def test_a_batch_replaced_while_files_are_put_together(
    spark: SparkSession, store: DeltaFolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {f"{number}": [number] for number in range(17)}
    put(store, rows_of(spark, known), known)
    compacted = row_files.RowFiles.compacted

    def slowly(self: row_files.RowFiles) -> row_files.Actions:
        actions = compacted(self)
        store.replace_rows(NAME, rows_of(spark, {"3": [33, 34]}), BY, ["3"])
        return actions

    monkeypatch.setattr(row_files.RowFiles, "compacted", slowly)
    store.tidy()
    monkeypatch.undo()
    wanted = texts(rows_of(spark, {**known, "3": [33, 34]}))
    assert read(store) == wanted and len(files(store)) > 10
    # The next run puts them together.
    store.replace_rows(NAME, rows_of(spark, {"3": [33, 34]}), BY, ["3"])
    store.tidy()
    assert read(store) == wanted and len(files(store)) == 1

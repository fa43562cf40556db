"""Folders of Parquet files whose columns differ."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from dqsql.engine.parquet_files import uneven_files
from dqsql.engine.paths import files_at
from dqsql.engine.relations import read_source
from dqsql.errors import EngineError, Span
from dqsql.folders import files_below
from dqsql.model.project import Source

OLD = {"id": pa.array([1, 2])}
ADDED = {"id": pa.array([3]), "y": pa.array(["new"])}
OTHER_TYPE = {"id": pa.array(["3"]), "y": pa.array(["new"])}
STRUCT = pa.array([{"k": 1, "v": [{"x": 2}]}])
MORE = pa.array([{"k": 1, "v": [{"x": 2, "more": "a"}]}])
SWAPPED = pa.array([{"v": [{"x": 2}], "k": 1}])
SHORT = STRUCT.cast(pa.struct({"k": pa.int32(), "v": pa.list_(pa.struct({"x": pa.int64()}))}))
NARROW = {"id": pa.array([3], pa.int32()), "y": pa.array(["new"])}


def folder_of(tmp_path: Path, *tables: dict[str, pa.Array]) -> Path:
    folder = tmp_path / "t [1]"
    for number, columns in enumerate(tables):
        part = folder / f"day={number}"
        part.mkdir(parents=True)
        pq.write_table(pa.table(columns), part / "part.parquet")
    return folder


@pytest.mark.parametrize(
    ("tables", "missing"),
    [
        ((OLD,), None),
        ((OLD, OLD), None),
        ((OLD, ADDED), []),
        ((ADDED, OLD), ["y"]),
        ((OLD, ADDED, OLD), ["y"]),
        ((OLD, OTHER_TYPE), []),
        ((OLD, NARROW), []),
        (({**ADDED, "s": STRUCT}, {"id": pa.array([4]), "s": MORE}), ["y"]),
        ((ADDED, {"id": pa.array([4]), "y": pa.array(["a"], pa.large_string())}), None),
        ((OLD, {**ADDED, "y": pa.array(["a"]).dictionary_encode()}, OLD), ["y"]),
        (
            ({"t": pa.array([0], pa.timestamp("ms"))}, {"t": pa.array([0], pa.timestamp("us"))}),
            None,
        ),
        (
            (
                {"t": pa.array([0], pa.timestamp("us", "UTC"))},
                {"t": pa.array([0], pa.timestamp("us", "Europe/Berlin")), "y": pa.array([1])},
            ),
            [],
        ),
        (({"l": pa.array([[1]])}, {"l": pa.array([[1]], pa.list_(pa.int64(), 1))}), None),
        (({"s": STRUCT}, {"s": MORE}), []),
        (({"s": STRUCT}, {"s": SWAPPED}), None),
        (({"s": STRUCT}, {"s": pa.array([{"K": 1, "v": [{"x": 2}]}])}), []),
        (({"s": STRUCT}, {"s": SHORT}), []),
        (({"s": STRUCT}, {"s": pa.array([{"k": 1, "v": [{"x": "2"}]}]), **ADDED}), []),
        ((), None),
    ],
)
def test_columns_that_some_files_lack(
    tmp_path: Path, tables: tuple[dict[str, pa.Array], ...], missing: list[str] | None
) -> None:
    found = uneven_files(str(folder_of(tmp_path, *tables)))
    assert (None if found is None else list(found.missing)) == missing


@pytest.mark.parametrize("back", [False, True])
def test_numbers_of_other_sizes_are_read(spark: SparkSession, tmp_path: Path, back: bool) -> None:
    narrow = {
        "id": pa.array([1], pa.int32()),
        "x": pa.array([0.5], pa.float32()),
        "d": pa.array([1], pa.decimal128(9, 2)),
    }
    wide = {
        "ID": pa.array([2**40], pa.int64()),
        "x": pa.array([0.1], pa.float64()),
        "d": pa.array([10**9], pa.decimal128(12, 2)),
        "more": pa.array(["a"]),
    }
    folder = folder_of(tmp_path, *((wide, narrow) if back else (narrow, wide)))
    rows = read_source(spark, Source("raw", "t", "`t_of_sizes`", Span("s.yml"), str(folder)))
    types = {f.name.lower(): f.dataType.simpleString() for f in rows.schema}
    assert types == {
        **{"id": "bigint", "x": "double", "d": "decimal(12,2)"},
        **{"more": "string", "day": "int"},
    }
    found = {(r[0], r.x, int(r.d), r.more) for r in rows.select("id", "x", "d", "more").collect()}
    assert found == {(1, 0.5, 1, None), (2**40, 0.1, 10**9, "a")}


def test_a_column_of_two_kinds_leaves_the_others_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = {"id": pa.array([1], pa.int32()), "kind": pa.array([7])}
    new = {"id": pa.array([2**40]), "kind": pa.array(["a"]), "more": pa.array([True])}
    folder = folder_of(tmp_path, old, new)
    rows = read_source(spark, Source("raw", "t", "`t_of_kinds`", Span("s.yml"), str(folder)))
    assert rows.schema["id"].dataType.simpleString() == "bigint"
    # The newest one is what the next files are like.
    assert rows.schema["kind"].dataType.simpleString() == "string"
    assert {(r.id, r.more) for r in rows.select("id", "more").collect()} == {
        (1, None),
        (2**40, True),
    }
    assert [r.kind for r in rows.where("day = 1").select("kind").collect()] == ["a"]


def test_a_file_whose_dates_are_all_null_says_no_type(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet keeps whole numbers then."""
    days = pa.array([dt.date(2024, 1, 1)])
    old = {"at": days, "id": pa.array([1], pa.int32()), "never": pa.nulls(1)}
    new = {"at": pa.nulls(1), "id": pa.array([2]), "never": pa.nulls(1)}
    for number, tables in enumerate([(old, new), (new, old), (old, {**new, "id": old["id"]})]):
        folder = folder_of(tmp_path / str(number), *tables)
        source = Source("raw", "t", f"`t_of_nulls_{number}`", Span("s.yml"), str(folder))
        rows = read_source(spark, source)
        assert rows.schema["at"].dataType.simpleString() == "date"
        assert {str(r["at"]) for r in rows.collect()} == {"2024-01-01", "None"}


def test_what_the_path_says_is_not_missing(tmp_path: Path) -> None:
    found = uneven_files(str(folder_of(tmp_path, {**OLD, "day": pa.array([0, 0])}, OLD)))
    assert found is not None
    assert list(found.missing) == []


def test_the_newest_file_is_the_one_whose_name_is_last_too(tmp_path: Path) -> None:
    # As when a folder is copied, file by file in any order.
    folder = folder_of(tmp_path, OLD, ADDED)
    os.utime(folder / "day=0" / "part.parquet", (2e9, 2e9))
    found = uneven_files(str(folder))
    assert found is not None
    assert list(found.missing) == []


def test_patterns_and_orc_are_looked_at_too(spark: SparkSession, tmp_path: Path) -> None:
    for number, columns in enumerate((OLD, ADDED)):
        orc.write_table(pa.table(columns), tmp_path / f"{number}.orc")
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "1.parquet", tmp_path / "b" / "2.parquet")
    # Spark passes over names that begin so; where a link leads nowhere, there is no file.
    shutil.copy(tmp_path / "1.parquet", tmp_path / "_0.parquet")
    (tmp_path / "2.orc").symlink_to(tmp_path / "nothing")
    patterns = ("*.orc", "{b,0.*}", "x*", "[^0]*.parquet", "2.orc")
    names = {p: [f.name for f in files_at(tmp_path / p) or ()] for p in patterns}
    assert names == {
        "*.orc": ["0.orc", "1.orc"],
        "{b,0.*}": ["2.parquet", "0.orc", "0.parquet"],
        "x*": [],
        "[^0]*.parquet": ["1.parquet"],
        "2.orc": [],
    }
    (tmp_path / "2.orc").unlink()
    for kind in ("orc", "parquet"):
        path = str(tmp_path / f"*.{kind}")
        assert uneven_files(path, kind) is not None
        source = Source("raw", kind, f"`t_{kind}`", Span("s.yml"), path, kind)
        rows = read_source(spark, source)
        found = {tuple(row) for row in rows.select("id", "y").collect()}
        assert found == {(1, None), (2, None), (3, "new")}


@pytest.mark.parametrize("name", ["day=0/a.parquet", "day=1/z.parquet"])
@pytest.mark.parametrize(
    ("tables", "rows"),
    [
        ((OLD, ADDED), {(1, None), (2, None), (3, "new")}),
        ((ADDED, NARROW), {(3, "new")}),
        ((ADDED,), {(3, "new")}),
    ],
)
def test_an_empty_file_leaves_the_others_as_they_are(
    spark: SparkSession,
    tmp_path: Path,
    tables: tuple[dict[str, pa.Array], ...],
    rows: set[tuple[int, str | None]],
    name: str,
) -> None:
    """As a program leaves it that was killed before it wrote."""
    folder = folder_of(tmp_path, *tables)
    (folder / "day=1").mkdir(exist_ok=True)
    (folder / name).touch()
    read = read_source(spark, Source("raw", "t", "`t_of_empty`", Span("s.yml"), str(folder)))
    assert {tuple(row) for row in read.select("id", "y").collect()} == rows
    assert read.schema["id"].dataType.simpleString() == "bigint"


def test_empty_files_alone_are_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    (tmp_path / "b.parquet").touch()
    with pytest.raises(EngineError) as caught:
        read_source(spark, Source("raw", "t", "`t_empty`", Span("s.yml"), str(tmp_path)))
    assert caught.value.hint == "its files are empty: 0 bytes"


def test_partitions_of_columns_that_begin_with_an_underscore(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, columns in enumerate((OLD, ADDED)):
        part = tmp_path / f"_day={number}"
        part.mkdir()
        pq.write_table(pa.table(columns), part / "part.parquet")
    (tmp_path / "_temporary" / "_day=3").mkdir(parents=True)
    (tmp_path / "_temporary" / "_day=3" / "part.parquet").touch()
    rows = read_source(spark, Source("raw", "t", "`t_hidden`", Span("s.yml"), str(tmp_path)))
    found = {tuple(row) for row in rows.select("id", "y", "_day").collect()}
    assert found == {(1, None, 0), (2, None, 0), (3, "new", 1)}


def test_a_file_that_goes_away_is_one_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, OLD, ADDED)
    gone = folder / "day=2" / "part.parquet"
    listed = [*files_below(folder), gone]
    monkeypatch.setattr("dqsql.engine.paths.files_below", lambda folder: iter(listed))
    with pytest.raises(EngineError, match="was there and is gone") as caught:
        read_source(spark, Source("raw", "t", "`t_gone`", Span("s.yml"), str(folder)))
    assert str(gone) in str(caught.value)


def test_only_files_that_the_options_choose_are_looked_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table(OLD), tmp_path / "a_x.parquet")
    pq.write_table(pa.table(OTHER_TYPE), tmp_path / "b_y.parquet")
    (tmp_path / "c_x.parquet").touch()
    options = {"pathGlobFilter": "*_{x,z}.parquet"}
    source = Source("raw", "t", "`t_chosen`", Span("s.yml"), str(tmp_path), options=options)
    assert {tuple(r) for r in read_source(spark, source).collect()} == {(1,), (2,)}


@pytest.mark.parametrize("tables", [(OLD, ADDED), (ADDED, OLD)])
def test_the_columns_of_all_files_are_read(
    spark: SparkSession, tmp_path: Path, tables: tuple[dict[str, pa.Array], ...]
) -> None:
    path = str(folder_of(tmp_path, *tables))
    rows = read_source(spark, Source("raw", "t", "`t_of_parquet`", Span("s.yml"), path, "parquet"))
    assert sorted(map(tuple, rows.select("id", "y").collect())) == [
        (1, None),
        (2, None),
        (3, "new"),
    ]
    # Somebody who says that one file has it all is not corrected.
    one = Source("raw", "t", "`t_of_one`", Span("s.yml"), path, "parquet", {"mergeschema": "false"})
    assert len(read_source(spark, one).columns) == (3 if tables[0] is ADDED else 2)


@pytest.mark.parametrize("k", [pa.int64(), pa.int32()])
@pytest.mark.parametrize("back", [False, True])
def test_fields_of_structs_come_with_time(
    spark: SparkSession, tmp_path: Path, k: pa.DataType, back: bool
) -> None:
    kind = pa.struct({"k": k, "v": pa.list_(pa.struct({"x": pa.int64(), "more": pa.string()}))})
    tables = [{**OLD, "s": pa.concat_arrays([STRUCT, STRUCT])}, {"s": MORE.cast(kind), **ADDED}]
    path = str(folder_of(tmp_path, *(reversed(tables) if back else tables)))
    rows = read_source(spark, Source("raw", "t", "`t_of_structs`", Span("s.yml"), path, "parquet"))
    found = rows.selectExpr("id", "s.k", "s.v[0].more", "y").collect()
    assert sorted(map(tuple, found)) == [(1, 1, None, None), (2, 1, None, None), (3, 1, "a", "new")]


def test_fields_that_are_written_in_two_ways(spark: SparkSession, tmp_path: Path) -> None:
    tables = [{"s": pa.array([{"a": 1}])}, {"s": pa.array([{"A": 2, "b": "new"}])}]
    path = str(folder_of(tmp_path, *tables))
    rows = read_source(spark, Source("raw", "t", "`t_of_cases`", Span("s.yml"), path, "parquet"))
    assert sorted(map(tuple, rows.selectExpr("s.a", "s.b").collect())) == [(1, None), (2, "new")]


TYPED = {
    "text": pa.array(["a", "b"]),
    "whole": pa.array([2**40, 1]),
    "real": pa.array([0.5, 1.5]),
    "flag": pa.array([True, False]),
    "time": pa.array([dt.datetime(2024, 1, 2, 3), None], pa.timestamp("us")),
}


@pytest.mark.parametrize("null_first", [True, False])
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_column_that_is_null_in_a_whole_file(
    spark: SparkSession, tmp_path: Path, null_first: bool, partitioned: bool
) -> None:
    nulls = {"id": pa.array([3]), **{name: pa.nulls(1) for name in TYPED}}
    tables = [{"id": pa.array([1, 2]), **TYPED}, nulls]
    folder = folder_of(tmp_path, *(reversed(tables) if null_first else tables))
    if not partitioned:
        for number, file in enumerate(sorted(folder.rglob("*.parquet"))):
            file.rename(folder / f"{number}.parquet")
            file.parent.rmdir()
    source = Source("raw", "t", "raw__t", Span("sources.yml"), str(folder), "parquet")
    rows = {r["id"]: r for r in read_source(spark, source).collect()}
    assert sorted(rows) == [1, 2, 3]
    assert [*rows[1].asDict()] == ["id", *TYPED, *(["day"] if partitioned else [])]
    for name, values in TYPED.items():
        assert [rows[1][name], rows[2][name]] == values.to_pylist(), name
        assert rows[3][name] is None
    if partitioned:
        assert {r["day"] for r in rows.values()} == {0, 1}


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct({"a": kind}))


# Of each column the values in two files, and what is read of both.
NESTED: dict[str, tuple[pa.Array, pa.Array, list[object]]] = {
    "texts": (
        pa.array([["a"], []]),
        pa.array([[], None], pa.list_(pa.null())),
        [["a"], [], [], None],
    ),
    "numbers": (pa.array([[1], None]), pa.array([[1.5], []]), [[1.0], None, [1.5], []]),
    "days": (
        pa.array([[dt.date(2026, 1, 1)], [None]]),
        pa.array([[None], [None, None]], pa.list_(pa.null())),
        [[dt.date(2026, 1, 1)], [None], [None], [None, None]],
    ),
    "pairs": (
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())),
        [{"k": 1.0}, None, {"k": 1.5}, {}],
    ),
    "record": (
        pa.array([{"x": 1, "y": "q"}, None]),
        pa.array([{"x": 1.5, "y": None}, None], pa.struct({"x": pa.float64(), "y": pa.null()})),
        [(1.0, "q"), None, (1.5, None), None],
    ),
    "records": (
        pa.array([[{"a": 1}], []], _list(pa.int32())),
        pa.array([[{"a": 0.5, "b": "n"}], [None]]),
        [[(1.0, None)], [], [(0.5, "n")], [None]],
    ),
    "nothing": (
        pa.array([[None], None], pa.list_(pa.null())),
        pa.array([[], [None]], pa.list_(pa.null())),
        [[None], None, [], [None]],
    ),
}


@pytest.mark.parametrize("back", [False, True])
def test_types_that_differ_within_others(spark: SparkSession, tmp_path: Path, back: bool) -> None:
    parts = [
        {"id": pa.array([2 * i, 2 * i + 1]), **{n: both[i] for n, both in NESTED.items()}}
        for i in range(2)
    ]
    folder = folder_of(tmp_path, *(reversed(parts) if back else parts))
    source = Source("raw", "t", "raw__t", Span("sources.yml"), str(folder), "parquet")
    rows = read_source(spark, source).orderBy("id").collect()
    for name, (*_, wanted) in NESTED.items():
        assert [row[name] for row in rows] == wanted, name


UNLIKE = {
    "structs and text": ([{"a": 1}], ["x"], [{"b": 1}]),
    "lists of such": ([[{"a": 1}]], [["x"]], [[{"b": 1}]]),
    "text, then a struct": (["x"], [{"a": 1}], [{"a": 2}]),
    "a number, then a list": ([1], [[1]], [[2]]),
    "a list, then a struct": ([[1]], [{"a": 1}], [None]),
}


@pytest.mark.parametrize("values", UNLIKE.values(), ids=UNLIKE)
def test_a_column_without_a_common_type_that_nobody_reads(
    spark: SparkSession, tmp_path: Path, values: tuple[list[object], ...]
) -> None:
    parts = [{"id": pa.array([i]), "payload": pa.array(v)} for i, v in enumerate(values)]
    source = Source(
        "raw", "t", "raw__t", Span("sources.yml"), str(folder_of(tmp_path, *parts)), "parquet"
    )
    rows = read_source(spark, source).select("id").orderBy("id").collect()
    assert [row["id"] for row in rows] == [0, 1, 2]


NULLS = {"x": pa.nulls(1), "id": pa.array([9])}
SOME = {"x": pa.array(["a"]), "id": pa.array([1])}


@pytest.mark.parametrize(
    ("files", "pattern", "wanted"),
    [
        # What paths say has one type in all parts.
        ({"store=001/a": SOME, "store=A12/a": NULLS}, "", {(1, "a", "001"), (9, None, "A12")}),
        ({"store=1/a b%20ü": NULLS, "store=2/a": SOME}, "", {(1, "a", 2), (9, None, 1)}),
        ({"t1/store=1/a": SOME, "t1/store=2/a": NULLS}, "t*", {(1, "a", 1), (9, None, 2)}),
        # Spark does not read folders that say nothing.
        ({"a": SOME, "b": NULLS, "archive/c": SOME}, "", {(1, "a"), (9, None)}),
        (
            {"a": {**SOME, "_metadata": pa.array(["m"])}, "b": NULLS},
            "",
            {(1, "a", "m"), (9, None, None)},
        ),
    ],
)
def test_parts_are_of_the_files_that_spark_reads(
    spark: SparkSession,
    tmp_path: Path,
    files: dict[str, dict[str, pa.Array]],
    pattern: str,
    wanted: set[tuple[object, ...]],
) -> None:
    for name, columns in files.items():
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file)
    source = Source("raw", "t", "`raw__parts`", Span("s.yml"), str(tmp_path / pattern), "parquet")
    rows = read_source(spark, source)
    assert rows.columns[:2] == ["x", "id"]
    found = {(r["id"], r["x"], *r[2:]) for r in rows.collect()}
    assert found == wanted


DAY, HOUR = dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 3)


@pytest.mark.parametrize("kind", ["orc", "parquet"])
@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (pa.array([1], pa.int32()), pa.array([2**40]), [1, 2**40]),
        (pa.array([1]), pa.array(["B-2"]), ["1", "B-2"]),
        # As pandas writes whole numbers of which one is missing.
        (pa.array([1]), pa.array([2.0, None]), [None, 1.0, 2.0]),
        (pa.array([1], pa.int32()), pa.array([1.5]), [1.0, 1.5]),
        (pa.array([0.5], pa.float32()), pa.array([1.5]), [0.5, 1.5]),
        (pa.array([True]), pa.array([2]), ["2", "true"]),
        (pa.array([123456789]), pa.array([0.5], pa.float32()), [0.5, 123456789.0]),
        (
            pa.array([decimal.Decimal("1.25")], pa.decimal128(10, 2)),
            pa.array([decimal.Decimal("12345678901")], pa.decimal128(12, 0)),
            [decimal.Decimal("1.25"), decimal.Decimal("12345678901.00")],
        ),
        (
            pa.array([150_000_000]),
            pa.array([decimal.Decimal("1.25")], pa.decimal128(5, 2)),
            [decimal.Decimal("1.25"), decimal.Decimal("150000000.00")],
        ),
        (
            pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)),
            pa.array([decimal.Decimal("2.25")], pa.decimal128(6, 2)),
            [decimal.Decimal("1.5"), decimal.Decimal("2.25")],
        ),
        (
            pa.array([DAY]),
            pa.array([HOUR], pa.timestamp("us", "UTC")),
            [dt.datetime(2024, 1, 1), HOUR],
        ),
    ],
)
def test_files_with_other_types(
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
    one: pa.Array,
    other: pa.Array,
    wanted: list[object],
) -> None:
    write = orc.write_table if kind == "orc" else pq.write_table
    for name, files in (("up", (one, other)), ("down", (other, one))):
        folder = tmp_path / name
        folder.mkdir()
        for number, column in enumerate(files):
            more = {"y": pa.array(["n"] * len(column))} if number else {}
            write(pa.table({"x": column, **more}), folder / f"{number}.{kind}")
        source = Source("raw", "t", f"`raw__{name}`", Span("sources.yml"), str(folder), kind)
        rows = read_source(spark, source).orderBy("x").collect()
        assert [r["x"] for r in rows] == wanted, name
        assert {r["y"] for r in rows} == {None, "n"}

"""CSV files whose values have line breaks are read as pandas and spreadsheets read them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dqsql.engine.csv_files import line_options, ragged_notes
from dqsql.engine.csv_headers import check_headers, headers_of, lacking
from dqsql.engine.relations import read_source, register_source
from dqsql.errors import EngineError, Span
from dqsql.model.project import Source

WITH_BREAKS = 'id,text,n\n1,"two\nlines",10\n2,"a ""quoted""\n\nword",20\n3,plain,30\n'
WITHOUT = {
    "plain": "id,text,n\n1,a,10\n2,b,20\n",
    "quotes": 'id,text,n\n1,"say ""hi""",10\n2,"a, b",20\n',
    "inches": 'id,text,n\n1,5" pipe,10\n2,6" pipe,20\n',
    "never closed": 'id,text,n\n1,"a,10\n2,b,20\n3,c,30\n',
    "no file": "",
}


def source(path: Path | str, **options: str) -> Source:
    return Source("raw", "t", "`t_of_csv`", Span("s.yml"), str(path), "csv", options)


@pytest.mark.parametrize("kind", ["file", "folder", "pattern", "gzip", "windows"])
def test_values_with_line_breaks(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    text = WITH_BREAKS.replace("\n", "\r\n") if kind == "windows" else WITH_BREAKS
    file = tmp_path / "data" / ("t.csv.gz" if kind == "gzip" else "t.csv")
    file.parent.mkdir()
    if kind == "gzip":
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_bytes(text.encode())
    path = {"folder": file.parent, "pattern": file.parent / "*.csv"}.get(kind, file)
    rows = read_source(spark, source(path)).orderBy("id").toArrow().to_pandas()
    expected = pd.read_csv(file)
    assert rows["n"].tolist() == expected["n"].tolist() == [10, 20, 30]
    texts = rows["text"].str.replace("\r\n", "\n")
    assert texts.tolist() == expected["text"].str.replace("\r\n", "\n").tolist()
    # What is declared is left alone.
    assert len(read_source(spark, source(path, multiline="false")).collect()) > 3


@pytest.mark.parametrize("name", WITHOUT)
def test_files_without_are_read_in_parts(spark: SparkSession, tmp_path: Path, name: str) -> None:
    file = tmp_path / "t.csv"
    if WITHOUT[name]:
        file.write_text(WITHOUT[name], encoding="utf-8")
        assert line_options(spark, str(file), {"escape": '"'}) == {}
        rows = read_source(spark, source(file)).collect()
        assert len(rows) == WITHOUT[name].count("\n") - 1
    else:
        assert line_options(spark, str(tmp_path), {"escape": '"'}) == {}


ODD = 'id,text,n\n1,a,10\n2,b\n3,"c, d",30\n4,e,40,5\n\n5,f,50\n'


@pytest.mark.parametrize("kind", ["file", "gzip", "breaks"])
def test_rows_with_more_or_fewer_values_are_told(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "data" / ("t.csv.gz" if kind == "gzip" else "t.csv")
    file.parent.mkdir()
    text = ODD.replace("c, d", "c\nd") if kind == "breaks" else ODD
    file.write_bytes(gzip.compress(text.encode()) if kind == "gzip" else text.encode())
    options = register_source(spark, source(file.parent))
    assert list(ragged_notes(source(file.parent), options, tmp_path)) == [
        f"data/{file.name}: 2 rows do not have 3 values like the header; the first one,"
        " row 2, has 2. Missing ones are read as null, others are dropped"
    ]
    rows = spark.sql("select id, text, n from t_of_csv order by id").toArrow().to_pylist()
    assert [(r["id"], r["n"]) for r in rows] == [(1, 10), (2, None), (3, 30), (4, 40), (5, 50)]


@pytest.mark.parametrize("name", [*WITHOUT, "with breaks"])
def test_rows_as_the_header_has_them_are_not_told(tmp_path: Path, name: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(WITHOUT.get(name, WITH_BREAKS), encoding="utf-8")
    options = {"header": "true", "escape": '"', "multiLine": str(name == "with breaks").lower()}
    told = list(ragged_notes(source(file), options, tmp_path))
    # Of a quote that is never closed, nobody knows where its value ends.
    assert told == [] or name == "never closed"


@pytest.mark.parametrize("options", [{}, {"encoding": "ISO-8859-1"}])
def test_odd_rows_are_told_whatever_the_letters(tmp_path: Path, options: dict[str, str]) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes("id,name\n1,caf\xe9\n2,caf\xe9,x\n".encode("latin-1"))
    (told,) = ragged_notes(source(file), {"header": "true", "escape": '"', **options}, tmp_path)
    assert "the first one, row 2, has 3" in told


@pytest.mark.parametrize("options", [{"mode": "FAILFAST"}, {"columnNameOfCorruptRecord": "c"}])
def test_who_asks_spark_for_such_rows_is_not_told(tmp_path: Path, options: dict[str, str]) -> None:
    file = tmp_path / "t.csv"
    file.write_text(ODD, encoding="utf-8")
    wanted = {"header": "true", "escape": '"'}
    assert list(ragged_notes(source(file), wanted, tmp_path)) != []
    assert list(ragged_notes(source(file), {**wanted, **options}, tmp_path)) == []


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("id,qty,price", "where data/1.csv has the column price, data/2.csv has qty"),
        ("id,cost,qty", "where data/1.csv has the column price, data/2.csv has cost"),
        ("ID,Price,qty", None),
        ("id,price,qty,note", None),
        ("id,price", None),
        ("", None),
    ],
)
def test_files_with_other_headers_are_refused(
    tmp_path: Path, second: str, told: str | None
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "1.csv").write_text("id,price,qty\n1,5,150\n")
    (folder / "2.csv").write_text(f"{second}\n2,150,5\n" if second else "")
    if told is None:
        check_headers(source(folder), headers_of(source(folder), {"header": "true"}), tmp_path)
        return
    with pytest.raises(EngineError, match=told):
        check_headers(source(folder), headers_of(source(folder), {"header": "true"}), tmp_path)
    check_headers(source(folder), headers_of(source(folder), {"header": "false"}), tmp_path)


@pytest.mark.parametrize("longer", ["a.csv", "b.csv"])
def test_columns_at_the_end_of_some_files(spark: SparkSession, tmp_path: Path, longer: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        more = name == longer
        (folder / name).write_text(
            "id,day,y\n1,2024-01-31,z\n" if more else "id,day\n1.5,2024-02-01\n"
        )
    found = read_source(spark, source(folder))
    types = {"id": "double", "day": "date", "y": "string"}
    assert {f.name: f.dataType.simpleString() for f in found.schema} == types
    rows = {(r.id, str(r.day), r.y) for r in found.collect()}
    assert rows == {(1.0, "2024-01-31", "z"), (1.5, "2024-02-01", None)}
    newest = lacking(headers_of(source(folder), {"header": "true"}), found.columns)
    # Both were written at once: the newest is the one whose name is last.
    assert (newest and list(newest.missing)) == (None if longer == "b.csv" else ["y"])
    assert headers_of(source(folder), {"header": "true", "quote": "'"}) == {}


def test_headers_that_are_written_in_two_ways(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("id,n,m\n1,,5\n")
    (folder / "b.csv").write_text('"ID","n","m"\n2,7,a\n')
    found = read_source(spark, source(folder))
    # A column without a value is no text; one with texts is.
    types = {"id": "int", "n": "int", "m": "string"}
    assert {f.name.lower(): f.dataType.simpleString() for f in found.schema} == types
    assert {tuple(row) for row in found.collect()} == {(1, None, "5"), (2, 7, "a")}


def test_headers_in_partitions(spark: SparkSession, tmp_path: Path) -> None:
    for day, text in (("2024-01-01", "id\n1\n"), ("2024-01-02", "id,x\n2,3\n")):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "part [0].csv").write_text(text)
    found = read_source(spark, source(tmp_path)).orderBy("id")
    assert found.columns == ["id", "x", "day"]
    assert [(r.id, r.x, str(r.day)) for r in found.collect()] == [
        (1, None, "2024-01-01"),
        (2, 3, "2024-01-02"),
    ]


def test_a_column_that_the_path_names_too(spark: SparkSession, tmp_path: Path) -> None:
    texts = {"2024-01-01": "day,id,x\n1999-01-01,1,7\n", "2024-01-02": "day,id,x,y\n,2,8,9\n"}
    for day, text in texts.items():
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "part.csv").write_text(text)
    rows = read_source(spark, source(tmp_path))
    assert sorted(rows.columns) == ["day", "id", "x", "y"]
    found = {(r.id, r.x, r.y, str(r.day)) for r in rows.collect()}
    assert found == {(1, 7, None, "2024-01-01"), (2, 8, 9, "2024-01-02")}


def test_headers_that_cannot_be_read_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "b.csv").write_text('"id","x"\n2,3\n')
    (tmp_path / "c.csv").write_bytes("id,x,größe\n3,2.5,1\n".encode("latin-1"))
    found = read_source(spark, source(tmp_path)).collect()
    assert "2.5" in {str(row[1]) for row in found}


def test_dates_are_not_read_by_the_format_of_timestamps(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,t\n1,2024-01-01\n")
    (tmp_path / "b.csv").write_text("id,t,y\n1,2024-01-01 10:00:00,3\n")
    options = {"timestampFormat": "yyyy-MM-dd HH:mm:ss"}
    found = read_source(spark, source(tmp_path, **options)).collect()
    assert {str(row.t) for row in found} == {"2024-01-01", "2024-01-01 10:00:00"}


def test_folders_above_the_source_name_no_column(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "tenant=acme" / "orders"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id,tenant\n1,acme\n")
    (folder / "b.csv").write_text("id,tenant,x\n2,other,3\n")
    for path in (folder, folder / "*.csv"):
        rows = read_source(spark, source(path))
        assert rows.columns == ["id", "tenant", "x"]
        assert {tuple(row) for row in rows.collect()} == {(1, "acme", None), (2, "other", 3)}

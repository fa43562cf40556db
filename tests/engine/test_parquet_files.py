"""Folders of Parquet files whose columns differ."""

from __future__ import annotations

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
from dqsql.errors import Span
from dqsql.model.project import Source

OLD = {"id": pa.array([1, 2])}
ADDED = {"id": pa.array([3]), "y": pa.array(["new"])}
OTHER_TYPE = {"id": pa.array([3], pa.int32()), "y": pa.array(["new"])}


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
        ((OLD, OTHER_TYPE), None),
        ((), None),
    ],
)
def test_columns_that_some_files_lack(
    tmp_path: Path, tables: tuple[dict[str, pa.Array], ...], missing: list[str] | None
) -> None:
    found = uneven_files(str(folder_of(tmp_path, *tables)))
    assert (None if found is None else list(found.missing)) == missing


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

"""Folders of Parquet files whose columns differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dqsql.engine.parquet_files import columns_were_added
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
    ("tables", "added"),
    [
        ((OLD,), False),
        ((OLD, OLD), False),
        ((OLD, ADDED), True),
        ((ADDED, OLD), True),
        ((OLD, OTHER_TYPE), False),
        ((), False),
    ],
)
def test_columns_were_added(
    tmp_path: Path, tables: tuple[dict[str, pa.Array], ...], added: bool
) -> None:
    assert columns_were_added(str(folder_of(tmp_path, *tables))) is added


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

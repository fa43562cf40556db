"""CSV files whose values have line breaks are read as pandas and spreadsheets read them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dqsql.engine.csv_lines import line_options
from dqsql.engine.relations import read_source
from dqsql.errors import Span
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

"""Files whose sources say nothing of how they are written, or too little."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dqsql.engine.relations import read_source
from dqsql.errors import QueryError, SourceNotFoundError, Span
from dqsql.model.project import Source
from dqsql.separators import has_several_values

CSV = "day;id;name\n2024-01-01;1;Zoë\n2024-01-02;2;a,b\n"


def source_at(path: Path, kind: str, options: Mapping[str, str] | None = None) -> Source:
    return Source("raw", "t", "`t_of_options`", Span("s.yml"), str(path), kind, options or {})


@pytest.mark.parametrize(
    ("separator", "encoding", "options"),
    [
        (";", "utf-8", {}),
        ("|", "utf-8", {}),
        ("\t", "utf-8", {}),
        (";", "utf-16", {}),
        (";", "utf-16", {"encoding": "UTF-16"}),
        (";", "utf-16", {"sep": ";", "charset": "UTF-16"}),
        (";", "latin-1", {}),
        (";", "latin-1", {"delimiter": ";", "encoding": "ISO-8859-1"}),
    ],
)
def test_separators_and_encodings_are_seen(
    spark: SparkSession, tmp_path: Path, separator: str, encoding: str, options: Mapping[str, str]
) -> None:
    (tmp_path / "t.csv").write_bytes(CSV.replace(";", separator).encode(encoding))
    rows = read_source(spark, source_at(tmp_path, "csv", options)).collect()
    assert [(str(r["day"]), r["id"], r["name"]) for r in rows] == [
        ("2024-01-01", 1, "Zoë"),
        ("2024-01-02", 2, "a,b"),
    ]


@pytest.mark.parametrize("separator", ["::", "||"])
def test_separators_of_several_characters(
    spark: SparkSession, tmp_path: Path, separator: str
) -> None:
    (tmp_path / "t.csv").write_text(CSV.replace(";", separator), encoding="utf-8")
    rows = read_source(spark, source_at(tmp_path, "csv", {"sep": separator}))
    assert rows.columns == ["day", "id", "name"]


def test_what_is_said_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8")
    rows = read_source(spark, source_at(tmp_path, "csv", {"sep": "#"}))
    assert rows.columns == ["day;id;name"]


OBJECTS = [{"id": i, "text": 'a "}" b'} for i in range(3)]
PRETTY = "\n".join(json.dumps(o, indent=1) for o in OBJECTS)
LINES = "\n".join(map(json.dumps, OBJECTS))


@pytest.mark.parametrize("text", [PRETTY, LINES, LINES + "\n[]"])
def test_several_values_of_which_spark_would_read_one(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(OBJECTS, indent=1), encoding="utf-8")
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    with pytest.raises(QueryError, match=r"b\.json has several JSON values") as caught:
        read_source(spark, source_at(tmp_path, "json", {"multiLine": "true"}))
    assert "jq -s ." in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (json.dumps(OBJECTS, indent=1), "utf-8"),
        (json.dumps(OBJECTS, indent=1), "utf-8-sig"),
        (json.dumps(OBJECTS, indent=1), "utf-16"),
        (json.dumps(OBJECTS[0], indent=1) + "\n\n\0", "utf-8"),
        ("{'a': '} {'}", "utf-8"),
        ("", "utf-8"),
        ("7", "utf-8"),
        # As JSON within JSON; cut, and as slow as it gets.
        (json.dumps([json.dumps(OBJECTS * 9000)]), "utf-8"),
        ('{"a": "' + 'x\\"' * 600_000, "utf-8"),
    ],
)
def test_one_value_is_one(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding=encoding)
    assert not has_several_values(tmp_path / "a.json")


def test_what_cannot_be_read_is_for_spark_to_tell(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"no gzip")
    assert not has_several_values(tmp_path / "a.json.gz")
    with pytest.raises(QueryError, match="cannot read"):
        read_source(spark, source_at(tmp_path, "json", {"multiLine": "true"})).collect()


@pytest.mark.parametrize(
    ("files", "options", "columns"),
    [
        # A stray byte in UTF-8.
        ([b"id,gr\xc3\xb6\xc3\x9fe\n1,caf\xe9\n"], {}, ["id", "größe"]),
        # Files that differ.
        ([b"id,n\n1,caf\xe9\n", "id,n\n1,Köln\n".encode()], {}, ["id", "n"]),
        (
            [b"id,lat|lon,note\n1,2|3,a\n2,4|5,b\n3,4|5,c, and more\n"],
            {},
            ["id", "lat|lon", "note"],
        ),
        ([b"1;2\n3;4\n"], {"header": "false"}, ["_c0"]),
        ([b"", b"a;b\n1;2\n"], {}, ["a", "b"]),
        ([b"a;b\n1;caf\xe9\n"], {"sep": ";"}, ["a", "b"]),
    ],
)
def test_what_is_not_sure_is_left(
    spark: SparkSession,
    tmp_path: Path,
    files: list[bytes],
    options: Mapping[str, str],
    columns: list[str],
) -> None:
    for number, content in enumerate(files):
        (tmp_path / f"{number}.csv").write_bytes(content)
    rows = read_source(spark, source_at(tmp_path, "csv", options))
    assert rows.columns == columns
    texts = {str(value) for row in rows.collect() for value in row}
    if options == {"sep": ";"}:
        assert "café" in texts
    if len(files) == 2 and files[0]:
        assert "Köln" in texts


def test_files_below_plain_folders(spark: SparkSession, tmp_path: Path) -> None:
    below = tmp_path / "2024" / "01"
    below.mkdir(parents=True)
    (below / "a.csv").write_text(CSV, encoding="utf-8")
    with pytest.raises(SourceNotFoundError) as caught:
        read_source(spark, source_at(tmp_path, "csv"))
    assert "recursiveFileLookup: true" in str(caught.value.hint)
    rows = read_source(spark, source_at(tmp_path, "csv", {"recursiveFileLookup": "true"}))
    assert rows.count() == 2


def test_another_format_than_is_said(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(CSV, encoding="utf-8")
    with pytest.raises(QueryError) as caught:
        read_source(spark, source_at(tmp_path, "parquet"))
    assert caught.value.hint == "it is read as parquet: set `format` if that is wrong"

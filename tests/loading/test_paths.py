"""Paths in project files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dqsql.loading.sources import resolve_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data/a.parquet", "/project/data/a.parquet"),
        ("/data/a.parquet", "/data/a.parquet"),
        ("~/a.parquet", f"{Path.home()}/a.parquet"),
        ("~nobody_of_this_name/a.parquet", "/project/~nobody_of_this_name/a.parquet"),
        ("s3://bucket/a.parquet", "s3://bucket/a.parquet"),
    ],
)
def test_paths_are_absolute(path: str, expected: str) -> None:
    assert resolve_path(path, Path("/project")) == expected

"""The files in folders of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dqsql.folders import files_below


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("t/day=0/part.csv", "t/day=1/part.csv", "elsewhere/b.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    return tmp_path / "t"


def test_folders_that_go_away_are_passed_over(folder: Path) -> None:
    files = files_below(folder)
    assert next(files).parent.name == "day=0"
    shutil.rmtree(folder / "day=1")
    assert list(files) == []


def test_links_are_followed_but_not_around(folder: Path, tmp_path: Path) -> None:
    (folder / "day=0" / "up").symlink_to(folder)
    (folder / "day=1" / "me").symlink_to(folder / "day=1")
    (folder / "day=2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(folder / "day=2")
    (folder / "day=3").symlink_to(tmp_path / "nowhere")
    names = [str(f.relative_to(folder)) for f in files_below(folder)]
    assert names == ["day=0/part.csv", "day=1/part.csv", "day=2/b.csv"]


def test_hidden_ones_are_those_of_spark(folder: Path) -> None:
    for name in ("_temporary/a.csv", ".a.crc", "_SUCCESS", "b.csv._COPYING_", "_day=4/a.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    names = {f.parent.name for f in files_below(folder)}
    assert names == {"_day=4", "day=0", "day=1"}

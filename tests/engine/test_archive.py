"""Who makes the class-data archive, who uses it, and who does without."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dqsql.engine.archive import archive_options, archive_path
from dqsql.engine.java import Java

JAVA = Java("/java", 17, 'openjdk version "17"')


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DQSQL_CLASS_ARCHIVE", raising=False)
    return tmp_path


def made_by(options: list[str]) -> Path:
    (option,) = [o for o in options if o.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def test_one_run_makes_it_the_next_does_without_and_a_later_one_uses_it(cache: Path) -> None:
    written = made_by(archive_options(JAVA))
    assert archive_options(JAVA) == []
    written.write_bytes(b"classes")
    assert archive_options(JAVA) == []
    long_ago = time.time() - 60
    os.utime(written, (long_ago, long_ago))
    assert f"-XX:SharedArchiveFile={archive_path(JAVA)}" in archive_options(JAVA)
    assert archive_path(JAVA).read_bytes() == b"classes"


def test_a_run_that_died_before_it_made_the_archive_is_not_waited_for(cache: Path) -> None:
    archive_options(JAVA)
    claim = archive_path(JAVA).with_suffix(".claim")
    long_ago = time.time() - 3600
    os.utime(claim, (long_ago, long_ago))
    assert made_by(archive_options(JAVA))


def test_it_can_be_switched_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQSQL_CLASS_ARCHIVE", "0")
    assert archive_options(JAVA) == []
    assert not any(cache.rglob("*.claim"))

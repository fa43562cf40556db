"""Who makes the class-data archive, who uses it, who does without, and what a damaged one does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dqsql.engine import archive, java
from dqsql.engine.archive import archive_options, archive_path, archive_state, remove_archive
from dqsql.engine.java import Java, find_java
from dqsql.errors import JavaNotFoundError

GOOD = b"classes" * 100
TRUNCATIONS = (0, 1, 7, 100, 350, 693, 699)
# Lives where it is given no archive, or a whole one; dies as a JVM does of any other.
FAKE = f"""#!{sys.executable}
import os, sys
for option in sys.argv[1:]:
    name, _, path = option.partition("=")
    if name == "-XX:SharedArchiveFile" and os.path.getsize(path) != {len(GOOD)}:
        open("hs_err_pid1.log", "w").write("died")
        os.abort()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DQSQL_CLASS_ARCHIVE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def fake(tmp_path: Path) -> Java:
    path = tmp_path / "java"
    path.write_text(FAKE)
    path.chmod(0o755)
    return Java(str(path), 17, 'openjdk version "17"')


def made_by(options: list[str]) -> Path:
    (option,) = [o for o in options if o.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def uses(java: Java) -> bool:
    return f"-XX:SharedArchiveFile={archive_path(java)}" in archive_options(java)


def put(java: Java, content: bytes) -> Path:
    """An archive that a run has written and the next one has taken over."""
    archive_options(java)
    written = archive_path(java).with_suffix(".7.tmp")
    written.write_bytes(content)
    age(written, 60)
    archive_options(java)
    return archive_path(java)


def test_one_run_makes_it_the_next_does_without_and_a_later_one_uses_it(
    cache: Path, fake: Java
) -> None:
    written = made_by(archive_options(fake))
    assert archive_options(fake) == []
    written.write_bytes(GOOD)
    assert archive_options(fake) == []
    age(written, 60)
    assert uses(fake)
    assert archive_path(fake).read_bytes() == GOOD
    assert archive_state(fake) == (str(archive_path(fake)), True)


def test_a_run_that_died_before_it_made_the_archive_is_not_waited_for(
    cache: Path, fake: Java
) -> None:
    archive_options(fake)
    age(archive_path(fake).with_suffix(".claim"), 3600)
    assert made_by(archive_options(fake))


def test_it_can_be_switched_off(cache: Path, fake: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQSQL_CLASS_ARCHIVE", "0")
    assert archive_options(fake) == []
    assert not any(cache.rglob("*.claim"))
    assert "switched off" in archive_state(fake)[0]


@pytest.mark.parametrize("size", TRUNCATIONS)
def test_one_that_was_cut_off_while_it_was_written_is_not_taken_over(
    cache: Path, fake: Java, size: int
) -> None:
    path = put(fake, GOOD[:size])
    assert not path.exists()
    assert not uses(fake)
    assert list(cache.rglob("*.tmp")) == []


@pytest.mark.parametrize("size", TRUNCATIONS)
def test_one_that_was_cut_off_later_is_named_and_removed(
    cache: Path, fake: Java, size: int
) -> None:
    path = put(fake, GOOD)
    path.write_bytes(GOOD[:size])
    detail, usable = archive_state(fake)
    assert (not usable, str(path) in detail) == (True, True)
    assert not uses(fake)
    assert not path.exists()


def test_one_whose_content_changed_at_the_same_size_is_removed(cache: Path, fake: Java) -> None:
    path = put(fake, GOOD)
    assert uses(fake)
    path.write_bytes(GOOD[:-1] + b"!")
    age(path, 30)
    assert not uses(fake)


def test_the_trial_leaves_no_log_of_a_crash(
    cache: Path, fake: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(fake, GOOD[:10])
    assert list(tmp_path.glob("hs_err_pid*")) == []


def test_a_real_jvm_dies_of_no_truncated_archive(cache: Path) -> None:
    real = find_java()
    whole = cache / "whole.jsa"
    cache.mkdir()
    subprocess.run(
        [real.path, f"-XX:ArchiveClassesAtExit={whole}", "-version"],
        check=True,
        capture_output=True,
    )
    content = whole.read_bytes()
    for eighths in range(9):
        path = put(real, content[: len(content) * eighths // 8])
        assert path.exists() == (eighths == 8)
    for eighths in range(8):
        path.write_bytes(content[: len(content) * eighths // 8])
        assert not uses(real)
        put(real, content)


START = """
import sys
from pathlib import Path
from dqsql.engine.session import open_session
from dqsql.model.project import Target
target = Target(name="local", profile="p", method="session", master="local[1]", url=None,
    schema="dq", warehouse=sys.argv[1], spark_conf={}, ansi=False,
    threads=1)
with open_session(target, Path(sys.argv[1])) as spark:
    print(spark.sql("select 40 + 2").collect()[0][0])
"""


def test_a_start_that_dies_with_the_archive_is_tried_without_it(
    cache: Path, tmp_path: Path
) -> None:
    real = find_java()
    archive_options(real)
    path = archive_path(real)
    whole = tmp_path / "whole.jsa"
    subprocess.run(
        [real.path, f"-XX:ArchiveClassesAtExit={whole}", "-version"],
        check=True,
        capture_output=True,
    )
    path.write_bytes(whole.read_bytes()[:100_000])
    # As if it had been whole: nothing but the start can tell.
    archive._seal(path).write_text(archive._sealed(path))
    here = tmp_path / "project"
    here.mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "warehouse")],
        cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "42", answer.stderr
    assert not path.exists()
    assert list(here.iterdir()) == []
    assert not remove_archive(real)


def test_a_java_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "bin" / "java"
    sleeper.parent.mkdir()
    sleeper.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    sleeper.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java, "_PATIENCE", 0.2)
    with pytest.raises(JavaNotFoundError, match="has not answered"):
        find_java()


def test_a_java_that_cannot_be_started_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_bytes(b"\x00\x01")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="cannot be started"):
        find_java()

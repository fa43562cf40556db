"""Java that is started before the project is read. A small program stands in for Java here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dqsql.engine import head_start
from dqsql.engine.head_start import Found, Launch, begin, note_launch, remember, taken, watched
from tests.conftest import MakeProject

# Announces itself as PythonGatewayServer does, and lives as long as its pipe.
JAVA = """
import os, struct, sys
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".draft", "wb") as file:
    file.write(struct.pack(">ii", 4321, 6) + b"secret")
os.rename(path + ".draft", path)
sys.stdin.read()
"""
PLACE = {"project_dir": ".", "target": None, "profile": None, "profiles_dir": None}


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DQSQL_CLASS_ARCHIVE", "0")
    monkeypatch.setenv("DQSQL_HEAD_START", "1")
    # The session of these tests is one that the head start need not look at.
    monkeypatch.delitem(sys.modules, "pyspark.core.context", raising=False)
    monkeypatch.setattr(head_start, "_launches", [])
    monkeypatch.setattr(head_start, "_used", [])
    yield
    head_start.end_unused()


def launched(tmp_path: Path, code: str = JAVA, wanted: str = "w", option: str = "") -> None:
    command = (sys.executable, "-c", code, *([option] if option else []))
    log, warm = str(tmp_path / "logs" / "spark.log"), str(tmp_path / "warm.json")
    note_launch(Launch(command, log, wanted, warm))


def waiting() -> list[subprocess.Popen[bytes]]:
    return [java.process for java in head_start._waiting]


def test_it_starts_where_a_file_has_changed_and_the_session_finds_it(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("a\n")
    launched(tmp_path)
    remember(PLACE, watched([data]))
    begin(PLACE, surely=False)
    assert waiting() == []
    data.write_text("a\nb\n")
    begin({**PLACE, "target": "other"}, surely=False)
    assert waiting() == []
    begin(PLACE, surely=False)
    (process,) = waiting()
    with taken("w") as (there, _):
        assert there is Found.JAVA
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "4321"
        assert os.environ["PYSPARK_GATEWAY_SECRET"] == "secret"
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    with taken("w") as (there, _):
        assert there is Found.NOTHING


def test_the_end_of_a_process_lets_it_end_too_and_warns_of_nothing(tmp_path: Path) -> None:
    launched(tmp_path)
    remember(PLACE, None)
    program = f"""\
from dqsql.engine import head_start
head_start.begin({PLACE}, surely=True)
with head_start.taken("w") as (there, _):
    assert there is head_start.Found.JAVA
print(head_start._used[0].process.pid)
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{done.stdout.strip()}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_one_that_was_started_in_another_way_is_ended(tmp_path: Path) -> None:
    launched(tmp_path, wanted="w")
    remember(PLACE, None)
    begin(PLACE, surely=False)
    (process,) = waiting()
    with taken("other settings") as (there, _):
        assert there is Found.NOTHING
    assert process.poll() is not None


def test_one_that_dies_leaves_the_start_to_the_session(tmp_path: Path) -> None:
    launched(tmp_path, code="import sys; sys.exit(1)")
    remember(PLACE, None)
    begin(PLACE, surely=False)
    assert waiting()
    with taken("w") as (there, _):
        assert there is Found.NOTHING


def test_a_command_that_others_could_have_left_is_not_run(tmp_path: Path) -> None:
    launched(tmp_path)
    remember(PLACE, None)
    (tmp_path / "cache" / "dqsql" / "starts").chmod(0o777)
    begin(PLACE, surely=True)
    assert waiting() == []


def test_it_does_not_start_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(PLACE, surely=True)
    assert waiting() == [], "nothing is known of this project"
    launched(tmp_path)
    remember(PLACE, None)
    (tmp_path / "warm.json").write_text("{}")
    begin(PLACE, surely=True)
    assert waiting() == [], "there is a warm session"
    (tmp_path / "warm.json").unlink()
    monkeypatch.setenv("DQSQL_HEAD_START", "0")
    begin(PLACE, surely=True)
    assert waiting() == []


def test_a_place_that_cannot_be_written_leaves_the_start_to_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(head_start, "mkdtemp", lambda prefix: str(scratch))
    (tmp_path / "logs").write_text("a file")
    launched(tmp_path)
    remember(PLACE, None)
    begin(PLACE, surely=False)
    assert waiting() == []
    assert not scratch.exists()


@pytest.mark.parametrize(
    "option",
    [
        "spark.hadoop.fs.s3a.secret.key=abc",
        "spark.app.note=hunter2",
        "spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit=/tmp/x.jsa",
    ],
)
def test_secrets_and_starts_of_another_kind_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("DBT_ENV_SECRET_PASSWORD", "hunter2")
    if "Archive" in option:
        monkeypatch.delenv("DQSQL_CLASS_ARCHIVE")
    launched(tmp_path, option=option)
    remember(PLACE, None)
    assert list(tmp_path.rglob("starts/*")) == []


@pytest.mark.slow
def test_a_run_of_something_new_starts_java_first_and_says_the_same(
    make_project: MakeProject, tmp_path: Path
) -> None:
    root = make_project(
        {
            "checks/sources.yml": """\
                sources:
                  - name: raw
                    tables: [{name: t, path: data/t.csv, format: csv, options: {header: "true"}}]
                """,
            "checks/m.sql": """\
                {{ config(batch_by = 'day') }}
                select
                    day,
                    cast(x as int) as x -- @max < 8
                from {{ source('raw', 't') }}
                """,
            "data/t.csv": "day,x\n2024-01-01,1\n",
        }
    )

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-m", "dqsql", "run"],
            cwd=root,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "error" not in done.stderr
        assert "ResourceWarning" not in done.stderr
        return done.stdout

    assert "PASS=1" in run()
    log = root / "target" / "logs" / "spark.log"
    written = log.stat().st_mtime_ns
    time.sleep(0.01)
    assert "nothing new" in run()
    assert log.stat().st_mtime_ns == written
    (root / "data" / "t.csv").write_text("day,x\n2024-01-01,1\n2024-01-02,9\n")
    assert "FAIL=1" in run()
    assert log.stat().st_mtime_ns > written

"""A warm session as commands use it: equal verdicts, found and left by itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.engine.small import SMALL_BYTES
from tests.conftest import MakeProject

pytestmark = pytest.mark.slow
# Starting a server on a busy machine.
PATIENCE = 300.0
FILES = {
    "checks/sources.yml": """\
        sources:
          - name: raw
            tables: [{name: t, path: data/t.csv, format: csv, options: {header: "true"}}]
        """,
    "checks/m.sql": """\
        {{ config(batch_by = 'day') }}
        select
            day,
            cast(x as int) as x -- @not_null @mean between 0 and 10 @median < 100 @max < 8
        from {{ source('raw', 't') }}
        """,
    "data/t.csv": "day,x\n2024-01-01,1\n2024-01-01,3\n2024-01-02,9\n2024-01-02,\n",
}


class Program:
    """`dqsql` as its users call it, with a cache of its own."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("DQSQL_", "DBT_"))},
            "XDG_CACHE_HOME": str(cache),
            "DQSQL_CLASS_ARCHIVE": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("dqsql")), *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def verdicts(self) -> list[tuple[str, str, str, float | None]]:
        found = json.loads((self.root / "target" / "run_results.json").read_text("utf-8"))
        return sorted(
            (r["unique_id"], r.get("batch") or "", r["status"], r.get("failures"))
            for r in found["results"]
        )

    def pid(self) -> int:
        record = next(Path(self.environment["XDG_CACHE_HOME"]).rglob("sessions/*.json"))
        return int(json.loads(record.read_text("utf-8"))["pid"])


@pytest.fixture
def program(make_project: MakeProject, tmp_path: Path) -> Iterator[Program]:
    pytest.importorskip("grpc", reason="the extra 'connect' is not installed")
    found = Program(make_project(FILES), tmp_path / "cache")
    yield found
    found.call("session", "stop")


def gone(pid: int) -> bool:
    """Whether a process has ended, if only its parent does not know it yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2]
    except FileNotFoundError:
        return True
    return state.split()[0] == "Z"


def test_the_session_suits_what_the_project_reads(program: Program) -> None:
    program.call("session", "start")
    command = Path(f"/proc/{program.pid()}/cmdline").read_text("utf-8")
    assert "-XX:TieredStopAtLevel=1" in command
    program.call("session", "stop")
    # As large as a file can be without taking room.
    os.truncate(program.root / "data" / "t.csv", SMALL_BYTES + 1)
    program.call("session", "start")
    command = Path(f"/proc/{program.pid()}/cmdline").read_text("utf-8")
    assert "-XX:TieredStopAtLevel=1" not in command


def test_a_warm_session_gives_the_same_verdicts_and_outlives_commands(program: Program) -> None:
    cold = program.call("run", "--full-refresh")
    expected = program.verdicts()
    assert (cold.returncode, len(expected)) == (1, 4), cold.stdout + cold.stderr
    assert program.call("session", "status").returncode == 1

    started = program.call("session", "start", "--idle", "10m")
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("Started: Spark")
    pid = program.pid()
    assert program.call("session", "start").stdout.startswith("Already running")
    warm = program.call("run", "--full-refresh")
    assert (warm.returncode, program.verdicts()) == (1, expected), warm.stdout + warm.stderr
    assert "Warning:" not in warm.stdout + warm.stderr
    # A client that is killed leaves the server as it was.
    client = subprocess.Popen(
        [sys.executable, "-m", "dqsql", "run", "--full-refresh"],
        cwd=program.root,
        env=program.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(3)
    client.kill()
    client.wait()
    again = program.call("run", "--full-refresh")
    assert (again.returncode, program.verdicts()) == (1, expected)
    assert program.pid() == pid

    assert program.call("session", "stop").stdout.startswith("Stopped: Spark")
    assert program.call("session", "status").returncode == 1
    assert gone(pid)


def test_files_of_other_types_are_read_as_without_a_server(program: Program) -> None:
    folder = program.root / "data" / "p"
    folder.mkdir()
    columns = {"day": ["a"], "x": [1], "y": ["text"]}
    pq.write_table(pa.table(columns), folder / "0.parquet")
    pq.write_table(pa.table({"day": ["b"], "x": [1.5], "y": pa.nulls(1)}), folder / "1.parquet")
    (program.root / "checks" / "sources.yml").write_text(
        "sources:\n  - name: raw\n    tables: [{name: p, path: data/p}]\n"
    )
    (program.root / "checks" / "m.sql").write_text(
        "{{ config(batch_by = 'day') }}\nselect day,\n  x, -- @sum < 1.2 @sum between 1 and 1.5\n"
        "  y -- @not_null\n"
        "from {{ source('raw', 'p') }}\n"
    )
    program.call("run", "--full-refresh")
    expected = program.verdicts()
    assert sorted(status for *_, status, _ in expected) == ["fail", "fail", "pass"]
    program.call("session", "start")
    warm = program.call("run", "--full-refresh")
    assert program.verdicts() == expected, warm.stdout + warm.stderr


def test_a_server_that_is_killed_in_a_run_gives_one_error_and_the_next_run_heals(
    program: Program,
) -> None:
    (program.root / "checks" / "n.sql").write_text(FILES["checks/m.sql"], "utf-8")
    assert program.call("session", "start").returncode == 0
    server = program.pid()
    run = subprocess.Popen(
        [sys.executable, "-m", "dqsql", "run"],
        cwd=program.root,
        env=program.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until_connected(server, run)
    os.kill(server, signal.SIGKILL)
    # The client does not try for minutes to reach a server that is gone.
    said = run.communicate(timeout=PATIENCE / 10)[0]
    assert run.returncode == 2, said
    assert "Traceback" not in said
    assert said.count("hint: see whether the server is up") == 1, said
    # The next one starts a session of its own.
    healed = program.call("run")
    assert healed.returncode == 1, healed.stdout + healed.stderr
    assert len(program.verdicts()) == 8


def wait_until_connected(server: int, client: subprocess.Popen[str]) -> None:
    """Return once the client has an open connection to the server's port."""
    assert client.stdout is not None
    deadline = time.monotonic() + PATIENCE
    while not (sockets(server) & {far for _, far in pairs(client.pid)}):
        assert client.poll() is None, client.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sockets(pid: int) -> set[str]:
    """The near ports of a process's connections, as the system writes them."""
    return {near for near, _ in pairs(pid)}


def pairs(pid: int) -> set[tuple[str, str]]:
    """The near and far ports of a process's connections."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(entry.readlink().name)
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in inodes and words[3] == "01":
                found.add((words[1].rpartition(":")[2], words[2].rpartition(":")[2]))
    return found


def test_a_session_stops_itself_when_nobody_uses_it(program: Program) -> None:
    assert program.call("session", "start", "--idle", "2s").returncode == 0
    deadline = time.monotonic() + PATIENCE
    while program.call("session", "status").returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)

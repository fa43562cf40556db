"""Commands in a copy of a preloaded process do what they do in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dqsql.cli import preload_server, preloaded
from dqsql.engine.warm import WarmPlace, WarmSession
from dqsql.resources import sessions_dir

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")
PATIENCE = 120.0
PROGRAM = str(Path(sys.executable).with_name("dqsql"))
# Runs a command in a copy alone: prints what `run_preloaded` gives.
ALONE = """\
import sys
from dqsql.cli import preloaded
code = preloaded.run_preloaded()
print(f"exit code {code}", file=sys.stderr, flush=True)
"""


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Preloaded:
    """A preloaded process, and the environment in which commands find it."""

    environment: dict[str, str]
    folder: Path
    record: Path

    def alone(
        self, root: Path, *arguments: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command that runs in a copy, or not at all."""
        return self._run([sys.executable, "-c", ALONE], root, arguments, variables)

    def program(
        self, root: Path, *arguments: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return self._run([PROGRAM], root, arguments, variables)

    def _run(
        self, program: list[str], root: Path, arguments: tuple[str, ...], variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments],
            cwd=root,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    # Longer than an address of a socket may be.
    cache = tmp_path_factory.mktemp("a" * 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        folder = sessions_dir()
        folder.mkdir(parents=True, mode=0o700)
        # The session of a process that runs as long as these tests.
        record = folder / "of_tests.json"
        WarmPlace(record).write(WarmSession(0, "", os.getpid(), 0.0, 0.0))
        server = preload_server.start()
        assert server is not None
        place = folder / preloaded.socket_name()
        wait_until(place.exists)
        wait_until(lambda: preloaded.answers(folder))
        assert preload_server.start(anew=False) is None
        yield Preloaded(dict(os.environ), folder, record)
        record.unlink()
        assert server.wait(PATIENCE) == 0
        assert not place.exists()
        assert not preloaded.answers(folder)
        assert (folder / "preloaded.log").read_text() == ""


def test_a_command_prints_the_same(running: Preloaded, project: Path) -> None:
    copied = running.alone(project, "ls")
    own = running.program(project, "ls", DQSQL_PRELOAD="0")
    assert own.returncode == 0 and own.stdout
    assert (copied.stdout, copied.stderr) == (own.stdout, f"{own.stderr}exit code 0\n")


def test_the_program_takes_the_copy_s_exit_code(running: Preloaded, project: Path) -> None:
    (project / "checks" / "broken.sql").write_text("select x -- @not_nul\nfrom t\n")
    for command, code in (["ls"], 2), (["nothing"], 2), (["compile", "--select", "none"], 0):
        copied, again = running.alone(project, *command), running.program(project, *command)
        own = running.program(project, *command, DQSQL_PRELOAD="0")
        assert copied.stderr == f"{own.stderr}exit code {own.returncode}\n"
        assert (again.returncode, again.stderr) == (own.returncode, own.stderr)
        assert own.returncode == code


def test_variables_are_those_of_the_caller(running: Preloaded, project: Path) -> None:
    (project / "checks" / "named.sql").write_text(
        "{{ config(tags = [env_var('TAG_OF_TEST')]) }}\nselect 1 as x -- @not_null\n"
    )
    copied = running.alone(project, "ls", "--select", "tag:tägig", TAG_OF_TEST="tägig")
    assert copied.stdout.split() == ["model.named", "named.x.not_null"]
    absent = running.alone(project, "ls")
    assert "TAG_OF_TEST" in absent.stderr and "exit code 2" in absent.stderr


def test_output_that_nobody_reads(running: Preloaded, project: Path) -> None:
    command = f"{PROGRAM} ls | head -1; echo ${{PIPESTATUS[0]}}"
    found = subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=running.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert len(found.stdout.splitlines()) == 2
    assert "Traceback" not in found.stderr


def test_other_settings_of_python_are_refused(running: Preloaded, project: Path) -> None:
    assert "exit code None" in running.alone(project, "ls", PYTHONWARNINGS="error").stderr
    assert "exit code None" in running.alone(project, "ls", DQSQL_PRELOAD="0").stderr
    assert running.program(project, "ls", PYTHONWARNINGS="default").returncode == 0


def test_a_folder_that_others_may_write_to_is_not_trusted(
    running: Preloaded, project: Path
) -> None:
    running.folder.chmod(0o777)
    try:
        assert "exit code None" in running.alone(project, "ls").stderr
    finally:
        running.folder.chmod(0o700)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_signals_reach_the_command(
    running: Preloaded, project: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [PROGRAM, "docs", "commands"],
        cwd=project,
        env=running.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        # More than the pipe holds: the command waits until somebody reads it.
        assert os.read(command.stdout.fileno(), 10)
        command.send_signal(number)
        assert command.wait(PATIENCE) == code
        said = {signal.SIGINT: b"Interrupted", signal.SIGTERM: b"Terminated"}.get(number, b"")
        assert said in command.stderr.read()
        # Ends when no process is left that could write.
        command.stdout.read()

"""The starter project as a user meets it: `dqsql init`, `dqsql run`, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Where nothing is installed, other folders do not know the package.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def dqsql(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dqsql", *args],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_starter_project_runs_green(tmp_path: Path) -> None:
    assert dqsql(tmp_path, "init", "shop").returncode == 0
    folder = tmp_path / "shop"

    first = dqsql(folder, "run", "--output", "json")
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["status"] == "pass"
    assert report["counts"]["pass"] == report["counts"]["total"] == 30
    assert {r["status"] for r in report["results"]} == {"pass"}

    second = dqsql(folder, "run")
    assert second.returncode == 0, second.stderr
    assert "nothing new" in second.stdout
    # Nothing is left behind but what .gitignore names.
    ignored = (folder / ".gitignore").read_text().split()
    assert {"target/", "warehouse/"} == set(ignored)
    left = {p.name for p in folder.iterdir()} - {"target", "warehouse"}
    assert left == {".gitignore", "checks", "data", "dqsql_project.yml", "macros", "profiles.yml"}

    assert dqsql(folder, "clean").returncode == 0
    assert (folder / "warehouse" / "dq").is_dir()
    assert not (folder / "target").exists()


@pytest.mark.slow
def test_an_interrupt_waits_for_no_statement(tmp_path: Path) -> None:
    assert dqsql(tmp_path, "init", "shop").returncode == 0
    folder = tmp_path / "shop"

    def write(rows: str) -> None:
        for name in ("a", "b"):
            sql = f"-- @min(x) < 5\nselect sin(l.id * r.id) as x from {rows}"
            (folder / "checks" / f"{name}.sql").write_text(sql)

    write("range(2) as l cross join range(2) as r")
    # The next run of the same options starts Java in advance.
    options = ["run", "--select", "a", "b", "--threads", "2", "--log-format", "json"]
    assert dqsql(folder, *options).returncode == 0
    # Hours of work for each of both threads.
    write("range(1000000000) as l cross join range(1000000000) as r")
    with subprocess.Popen(
        [sys.executable, "-m", "dqsql", *options],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert any("scanning" in line for line in running.stdout)
        time.sleep(10)  # now Spark is at it
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 130
        assert said.endswith("Interrupted; batches not finished are checked next time.\n")

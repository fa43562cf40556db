"""The starter project as a user meets it: `dqsql init`, `dqsql run`, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    assert left == {
        ".gitignore",
        "checks",
        "data",
        "dqsql_project.yml",
        "macros",
        "profiles.yml",
    }

    assert dqsql(folder, "clean").returncode == 0
    assert (folder / "warehouse" / "dq").is_dir()
    assert not (folder / "target").exists()

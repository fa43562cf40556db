"""With dbt itself: the same verdicts, on one warehouse. Slow; dbt has an environment of its own.

`DQSQL_TEST_DBT` is the path of the dbt executable:

    python -m venv dbt && dbt/bin/pip install 'dbt-core<1.12' 'dbt-spark[session]'
    DQSQL_TEST_DBT=dbt/bin/dbt pytest -m slow tests/loading/dbt
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dbt() -> Path:
    found = os.environ.get("DQSQL_TEST_DBT")
    if not found:
        pytest.skip("DQSQL_TEST_DBT is not set: it is the path of a dbt executable")
    path = Path(found).absolute()
    if not path.is_file():
        pytest.fail(f"DQSQL_TEST_DBT is {found}, which is no file")
    return path


@pytest.fixture(scope="module")
def project(dbt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, built and tested by dbt."""
    root = tmp_path_factory.mktemp("real") / "shop"
    shutil.copytree(HERE / "project", root)
    for command in ("deps", "seed", "run"):
        done = run_dbt(dbt, root, command)
        assert done.returncode == 0, done.stdout[-3000:]
    return root


def clean_environment() -> dict[str, str]:
    """The environment without what would make one Spark use the files of another."""
    left_out = ("SPARK_HOME", "PYSPARK_", "PYTHONPATH", "DBT_", "DQSQL_", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}


def run_dbt(dbt: Path, root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment()
    environment["PATH"] = f"{dbt.parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [str(dbt), *command], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def run_dqsql(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dqsql", *command],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def results(file: Path) -> dict[str, dict[str, Any]]:
    content = json.loads(file.read_text(encoding="utf-8"))
    return {r["unique_id"]: r for r in content["results"]}


def left_tests(root: Path) -> set[str]:
    """The tests that dqsql leaves to dbt."""
    listed = run_dqsql(root, "ls", "--dbt-tests", "--resource-type", "left_test")
    return {line.partition(": ")[0] for line in listed.stdout.splitlines()}


def test_dbt_does_not_mind_annotations(dbt: Path, project: Path) -> None:
    parsed = run_dbt(dbt, project, "parse", "--no-partial-parse", "--show-all-deprecations")
    assert parsed.returncode == 0
    assert "deprecat" not in parsed.stdout.lower()


def test_same_verdicts_on_one_warehouse(dbt: Path, project: Path) -> None:
    tested = run_dbt(dbt, project, "test")
    assert tested.returncode == 1, tested.stdout[-3000:]
    theirs = results(project / "target" / "run_results.json")
    checked = run_dqsql(project, "run", "--dbt-tests")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    ours = results(project / "target" / "dqsql" / "run_results.json")
    adopted = {uid for uid in theirs if uid.startswith("test.")} - left_tests(project)
    assert len(adopted) > 40
    assert {uid: ours[uid]["status"] for uid in adopted} == {
        uid: theirs[uid]["status"] for uid in adopted
    }
    # dbt's own artefacts are where they were.
    assert results(project / "target" / "run_results.json") == theirs


def test_dbt_reads_the_artefact(dbt: Path, project: Path) -> None:
    file = project / "target" / "dqsql" / "run_results.json"
    if not file.is_file():
        assert run_dqsql(project, "run").returncode in (0, 1)
    code = (
        "import json, sys; from dbt.artifacts.schemas.run import RunResultsArtifact as A;"
        "A.validate(json.load(open(sys.argv[1]))); A.read_and_check_versions(sys.argv[1])"
    )
    read = subprocess.run(
        [str(dbt.parent / "python"), "-c", code, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr[-2000:]


def test_dbt_reads_the_manifest(dbt: Path, project: Path) -> None:
    """Also that of a project of dqsql's own, whose checks are tests there."""
    example = project.parent / "example"
    shutil.copytree(HERE.parents[2] / "example_project", example)
    for root, folder in ((project, "target/dqsql"), (example, "target")):
        assert run_dqsql(root, "compile", "--quiet").returncode == 0
        code = (
            "import sys; from dbt.artifacts.schemas.manifest import WritableManifest as M;"
            "print(len(M.read_and_check_versions(sys.argv[1]).nodes))"
        )
        read = subprocess.run(
            [str(dbt.parent / "python"), "-c", code, str(root / folder / "manifest.json")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert read.returncode == 0, read.stderr[-2000:]
        assert int(read.stdout) > 5


def test_a_metastore_in_use_is_said_at_once(project: Path) -> None:
    lock = project / "metastore_db" / "dbex.lck"
    lock.touch()
    hold = "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{hold}; print('held', flush=True); time.sleep(120)", str(lock)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = run_dqsql(project, "run", "--quiet")
    finally:
        holder.kill()
        holder.communicate()
    assert done.returncode == 2
    assert "another process has the metastore" in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3

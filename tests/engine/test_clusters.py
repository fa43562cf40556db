"""The example project by Spark Connect and on a standalone cluster: the tables of the embedded run.

Slow: servers are started from the PySpark package, on the loopback, and stopped by their ids.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.servers import connect_server, environment, kill_group, standalone
from tests.tables import table_names, table_rows

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
# What differs between two runs that did the same.
OF_THE_RUN = frozenset({"run_id", "versions", "valid_from", "valid_to", "arguments", "git_sha"})
# What a run cost, and which files of this machine it read: a server reads others.
ABOUT_THE_RUN = ("dq_runs", "dq_model_runs", "dq_inputs")
PROFILE = "nyc_flights:\n  target: t\n  outputs:\n    t: {{type: spark, {target}}}\n"
Tables = dict[str, list[str]]
# Of a whole run, on a machine that has other things to do.
RUN_SECONDS = 1200


def example(folder: Path, target: str) -> Path:
    root = folder / "example"
    shutil.copytree(
        ROOT / "example_project", root, ignore=shutil.ignore_patterns("target", "warehouse")
    )
    (root / "profiles.yml").write_text(PROFILE.format(target=target), encoding="utf-8")
    for file in (root / "checks").glob("*.sql"):
        # What @avh learns hangs on sketches of distributions, which are random.
        text = re.sub(r"@avh(\([^)]*\))?", "", file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
    return root


def start_dqsql(root: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dqsql", "run"],
        cwd=root,
        env={**environment(), "DQSQL_CLASS_ARCHIVE": "0", "PYTHONUNBUFFERED": "1", **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_dqsql(root: Path, **more: str) -> tuple[int, str]:
    process = start_dqsql(root, **more)
    try:
        output, _ = process.communicate(timeout=RUN_SECONDS)
    finally:
        process.kill()
    return process.returncode, output


def tables(root: Path) -> Tables:
    """All tables but those about the run itself, as sorted texts; numbers to twelve digits."""
    warehouse = root / "warehouse" / "dq"
    found: Tables = {}
    for name in table_names(warehouse):
        if name not in ABOUT_THE_RUN:
            found[name] = sorted(map(comparable, table_rows(warehouse, name)))
    return found


def comparable(row: dict[str, Any]) -> str:
    """Sums of doubles depend on the order of partitions in their last digits; sketches vary."""
    return str(
        sorted(
            (k, "sketch" if isinstance(v, bytes) else f"{v:.12g}" if isinstance(v, float) else v)
            for k, v in row.items()
            if k not in (*OF_THE_RUN, "message", "details") and not k.endswith("_at")
            if v is not None
        )
    )


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    root = example(
        tmp_path_factory.mktemp("embedded"), "method: session, master: 'local[2]', schema: dq"
    )
    code, output = run_dqsql(root)
    assert code == 0, output
    return tables(root)


def differences(found: Tables, expected: Tables) -> list[str]:
    """The rows that only one of the two has, a few of each table.

    Approximate quantiles are random: what is computed from them is left out.
    """
    assert found.keys() == expected.keys()
    lines: list[str] = []
    for name, rows in expected.items():
        odd = sorted(set(rows) ^ set(found[name]))
        lines += [f"{name}: {r}" for r in odd if "quantile" not in r and "median" not in r][:4]
    return lines


def test_connect_gives_the_same_tables(embedded: Tables, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra dqsql[connect]")
    with connect_server(tmp_path) as port:
        target = f"method: connect, url: 'sc://127.0.0.1:{port}', schema: dq, warehouse: warehouse"
        root = example(tmp_path, target)
        code, output = run_dqsql(root)
    assert code == 0, output
    assert not differences(tables(root), embedded)
    # The server is gone now.
    code, output = run_dqsql(root)
    assert code == 2
    assert f"no Spark Connect server answers at 127.0.0.1:{port}" in output


def test_a_wrong_token_is_one_clear_line(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra dqsql[connect]")
    with connect_server(tmp_path, "spark.connect.authenticate.token=right") as port:
        # PySpark's client sends a token without TLS to the name `localhost` alone.
        root = example(tmp_path, f"method: connect, url: 'sc://localhost:{port}', schema: dq")
        code, output = run_dqsql(root, SPARK_CONNECT_AUTHENTICATE_TOKEN="wrong")
    assert code == 2
    assert "refuses the credentials" in output, output


def test_standalone_gives_the_same_tables_when_a_worker_dies(
    embedded: Tables, tmp_path: Path
) -> None:
    with standalone(tmp_path) as (port, workers):
        target = (
            f"method: session, master: 'spark://127.0.0.1:{port}', schema: dq,"
            " spark_conf: {spark.executor.memory: 640m}"
        )
        root = example(tmp_path, target)
        lines = []
        with start_dqsql(root) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    lines.append(line)
                    if "2 of 3 START" in line:
                        kill_group(workers[1])
                process.wait(timeout=RUN_SECONDS)
            finally:
                process.kill()
        assert workers[1].poll() is not None
    assert process.returncode == 0, "".join(lines)
    assert not differences(tables(root), embedded)
    # Without anything new, nobody would ask for it.
    code, output = run_dqsql(root, DQSQL_FULL_REFRESH="1")
    assert code == 2
    assert f"no Spark master answers at 127.0.0.1:{port}" in output

"""Commands that read what is stored: in a process of their own, where Java would be noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dqsql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    id -- @not_null
from {{ source('raw', 't') }}
"""
SOURCES = "sources: [{name: raw, tables: [{name: t, path: data/t.parquet}]}]"
COMMANDS = (
    "ls",
    "report",
    "report --text m",
    "explain m.id.not_null",
    "explain m.id.not_null@2025-01-02 --output json",
    "review list",
    "review accept m 2025-01-02 --reason checked",
    "finding list",
    "fit --show",
    "docs views",
)
PROGRAM = """
import json, sys
from click.testing import CliRunner
from dqsql.cli.main import cli
codes = {c: CliRunner().invoke(cli, c.split()).exit_code for c in json.loads(sys.argv[1])}
print(json.dumps([codes, "pyspark" in sys.modules]))
"""


def test_what_reads_only_starts_no_java(
    make_project: Callable[..., Path], spark: SparkSession, tmp_path: Path
) -> None:
    root = make_project({"checks/sources.yml": SOURCES, "checks/m.sql": MODEL})
    data = "select '2025-01-0' || id as day, if(id = 2, null, id) as id from range(1, 3)"
    spark.sql(data).write.parquet(str(root / "data" / "t.parquet"))
    assert dqsql.run(root, spark=spark).exit_code == 1
    # Whoever starts Java leaves a file.
    java, started = tmp_path / "home" / "bin" / "java", tmp_path / "started"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch '{started}'\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DQSQL_", "DBT_"))}
    path = os.pathsep.join([str(java.parent), kept["PATH"]])
    python = os.pathsep.join([str(Path(dqsql.__file__).parents[1]), kept.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)],
        env={**kept, "PATH": path, "JAVA_HOME": str(tmp_path / "home"), "PYTHONPATH": python},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    codes, spark_is_there = json.loads(done.stdout.splitlines()[-1])
    assert codes == dict.fromkeys(COMMANDS, 0)
    assert not spark_is_there
    assert not started.exists()

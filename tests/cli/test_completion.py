"""What the Tab key offers: names of the manifest that was written last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from dqsql.cli.main import cli

MANIFEST: dict[str, Any] = {
    "models": {
        "model.orders": {"name": "orders", "tags": ["shop"]},
        "model.visits": {"name": "visits", "tags": []},
    },
    "checks": {
        "orders.id.not_null": {"expression": "not_null"},
        "visits.email.avh": {"expression": "avh"},
    },
}


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that was compiled once."""
    (tmp_path / "dqsql_project.yml").write_text("name: shop\n", encoding="utf-8")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_text(json.dumps(MANIFEST), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def offered(*words: str) -> list[str]:
    """What is offered for the last of some words."""
    found = ShellComplete(cli, {}, "dqsql", "_DQSQL_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("run", "--select", ""), ["orders", "visits", "tag:shop"]),
        (("run", "--select", "v"), ["visits"]),
        (("run", "--select", "orders", "v"), ["visits"]),
        (("run", "--exclude", "1+or"), ["1+orders"]),
        (("run", "-s", "tag:"), ["tag:shop"]),
        (("ls", "-s", "orders,v"), ["orders,visits"]),
        (("report", "--text", "o"), ["orders"]),
        (("review", "accept", "o"), ["orders"]),
        (("contract", "export", "o"), ["orders"]),
        (("explain", "o"), ["orders.id.not_null"]),
        (("finding", "mute", "visits.email.avh", "v"), ["visits.email.avh"]),
        (("run", ""), []),
        (("run", "--sele"), ["--select", "--selector"]),
    ],
)
def test_names_are_those_of_the_manifest(
    compiled: Path, words: tuple[str, ...], names: list[str]
) -> None:
    assert offered(*words) == names


def test_the_project_may_be_elsewhere(
    compiled: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert offered("explain", "o") == []
    assert offered("explain", "--project-dir", str(compiled), "o") == ["orders.id.not_null"]
    monkeypatch.setenv("DQSQL_PROJECT_DIR", str(compiled))
    assert offered("explain", "o") == ["orders.id.not_null"]
    (compiled / "target").rename(compiled / "out")
    assert offered("explain", "o") == []
    (compiled / "dqsql_project.yml").write_text("name: shop\ntarget-path: 'out' # here\n")
    assert offered("explain", "o") == ["orders.id.not_null"]
    # In a dbt project dbt's own manifest lies in that folder.
    (compiled / "dqsql_project.yml").rename(compiled / "dbt_project.yml")
    assert offered("explain", "o") == []
    (compiled / "out" / "dqsql").mkdir()
    (compiled / "out" / "manifest.json").rename(compiled / "out" / "dqsql" / "manifest.json")
    assert offered("explain", "o") == ["orders.id.not_null"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"models": [], "checks": null}', "{}"])
def test_what_is_no_manifest_offers_nothing(compiled: Path, text: str) -> None:
    (compiled / "target" / "manifest.json").write_text(text, encoding="utf-8")
    assert offered("run", "--select", "") == []
    assert offered("explain", "") == []


def test_neither_spark_nor_the_compiler_is_asked(compiled: Path) -> None:
    script = (
        "import sys; from dqsql.cli.main import main\n"
        "try: main()\n"
        "finally: print([m for m in ('pyspark', 'sqlglot', 'dqsql.compiler') if m in sys.modules])"
    )
    environment = {
        **os.environ,
        "_DQSQL_COMPLETE": "bash_complete",
        "COMP_WORDS": "dqsql explain o",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "plain,orders.id.not_null\n[]\n", done.stderr

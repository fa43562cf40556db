"""What a newcomer adds is a file: the paths of ARCHITECTURE.md hold, and files of a kind are found.

Kinds of monitors and aggregates are added by tests of their own.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import dqsql
from dqsql.engine import formats
from dqsql.loading import config as loading
from dqsql.model.project import TABLE_FORMATS
from dqsql.resources import resource_dir

ROOT = Path(__file__).parents[2]
ADDED = ("a metric", "a check", "a kind of monitor", "an aggregate", "a format of catalog tables")


@dataclass(frozen=True)
class AddedPath:
    """A row of the table: what is added, the files to write and to look at, the test."""

    what: str
    files: tuple[Path, ...]
    test: Path


def _rows() -> Iterator[AddedPath]:
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## To add something")[2]
    for line in text.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        paths = [ROOT / path for path in re.findall(r"`([^`]+/[^`]+)`", line)]
        if len(cells) == len(("to add", "write", "found by", "test")) and paths:
            yield AddedPath(cells[0], tuple(paths[:-1]), paths[-1])


def test_the_paths_of_a_newcomer_exist() -> None:
    rows = list(_rows())
    assert [row.what for row in rows] == list(ADDED)
    for row in rows:
        assert row.test.is_file(), row
        for file in row.files:
            # `<name>.sql` stands for files of which some are there.
            folder, pattern = file.parent, re.sub("<.*?>", "*", file.name)
            assert list(folder.glob(pattern)), f"{row.what}: {file}"


def test_a_check_and_a_metric_are_a_file_each(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    shutil.copytree(resource_dir("macros"), shipped)
    (shipped / "metrics" / "spread.sql").write_text(
        "{% macro metric_spread(column) -%} max({{ column }}) - min({{ column }}) {%- endmacro %}"
    )
    (shipped / "checks" / "narrow.sql").write_text(
        "{% macro check_narrow(column, most=1) -%} spread({{ column }}) <= {{ most }}"
        " {%- endmacro %}"
    )
    monkeypatch.setattr(loading, "resource_dir", lambda name: shipped)
    root = make_project({"checks/m.sql": "select 1 as x -- @narrow(2) @spread < 3"})
    compiled = dqsql.compile_project(root)
    assert compiled.errors == ()
    (plan,) = compiled.plans
    assert [m.name for m in plan.metrics] == ["spread"]
    assert [c.expression for c in plan.checks] == ["narrow(2)", "spread < 3"]


def test_a_table_format_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hudi.py").write_text(
        "from dqsql.engine.formats.base import TableFormat\n"
        'FORMAT = TableFormat("hudi", "hudi-spark", "a.b.Extension", {"4.2": "a:b:1"})\n'
    )
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    found = {f.name: f for f in formats.table_formats()}
    sys.modules.pop(f"{formats.__name__}.hudi")
    assert {*TABLE_FORMATS, "hudi"} == found.keys()
    assert found["hudi"].conf({}, "4.2.0") == {
        "spark.sql.extensions": "a.b.Extension",
        "spark.jars.packages": "a:b:1",
    }

"""`dqsql report`: one file from the warehouse tables only."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from dqsql import write_report

from .conftest import DqSql, write_project
from .families import LAST, TENFOLD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.run.conftest import Project


def test_it_reads_the_tables_only(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    shutil.copytree(families.root, root, ignore=shutil.ignore_patterns("data"))
    result = dqsql(root, "report")
    assert result.exit_code == 0, result.output
    assert "1 check model, 30 batches" in result.output
    text = (root / "target" / "report.html").read_text(encoding="utf-8")
    for words in ("sales", LAST, TENFOLD, "emd on amount", "mean(fare)", "&lt;upper&gt;{2}"):
        assert words in text
    assert text.count("<svg") >= 5
    assert 'class="flagged"' in text
    assert "http" not in text
    assert "<script" not in text

    written = tmp_path / "elsewhere" / "r.html"
    chosen = ("--days", "3", "--output-file", str(written), "--output", "json")
    content = json.loads(dqsql(root, "report", *chosen).stdout)
    assert (content["batches"], content["path"]) == (3, str(written))
    assert "2024-01-27:" not in written.read_text(encoding="utf-8")


def test_an_empty_warehouse(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    root = write_project(tmp_path / "new", {"checks/one.sql": "select 1 as x -- @max < 5"})
    result = dqsql(root, "report")
    assert result.exit_code == 0, result.output
    assert "No batch has been checked yet" in result.output
    made = write_report(root, spark=families.spark)
    assert (made.models, made.findings) == (0, 0)
    assert "No batch has been checked yet" in made.path.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = tmp_path / "file" / "report.html"
    result = dqsql(families, "report", "--output-file", str(place))
    assert result.exit_code == 2
    assert "cannot be written" in result.output

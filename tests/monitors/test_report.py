"""`dqsql report`: one file from the warehouse tables only."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

from dqsql import write_report
from tests.report.packed import unpacked

from .conftest import DqSql, write_project
from .families import LAST, TENFOLD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runner.conftest import Project


def pages(file: Path) -> list[Any]:
    """The data of the overview and of the models."""
    return [unpacked(t) for t in re.findall(r'">([\w+/=]+)</script>', file.read_text("utf-8"))]


def test_it_reads_the_tables_only(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    shutil.copytree(families.root, root, ignore=shutil.ignore_patterns("data"))
    result = dqsql(root, "report")
    assert result.exit_code == 0, result.output
    assert "1 check model, 30 batches" in result.output
    overview, model = pages(root / "target" / "report.html")
    assert [m["name"] for m in overview["models"]] == ["sales"]
    open_since = {f["check"]: f["batches"] for f in overview["findings"]}
    assert [LAST] in open_since.values()
    titles = {s["title"] for c in model["checks"] for s in c["series"]}
    assert {"distance of the distribution of values (emd) on amount", "mean(fare)"} <= titles
    assert TENFOLD in model["batches"]
    learned = [b for c in model["checks"] if c["learned"] for b in c["learned"]["bounds"]]
    assert any("<" in b and ">" in b for b in learned), learned

    written = tmp_path / "elsewhere" / "r.html"
    chosen = ("--days", "3", "--output-file", str(written), "--output", "json")
    content = json.loads(dqsql(root, "report", *chosen).stdout)
    assert (content["batches"], content["path"]) == (3, str(written))
    assert len(pages(written)[1]["batches"]) == 3

    (told,) = json.loads(dqsql(root, "report", "--text", "sales", *chosen[-2:]).stdout)["models"]
    assert (told["name"], len(told["batches"])) == ("sales", 30)


def test_an_empty_warehouse(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    root = write_project(tmp_path / "new", {"checks/one.sql": "select 1 as x -- @max < 5"})
    result = dqsql(root, "report")
    assert result.exit_code == 0, result.output
    assert "No batch of these models has been checked yet" in result.output
    made = write_report(root, spark=families.spark)
    assert (made.models, made.findings) == (0, 0)
    assert pages(made.path)[0]["models"] == []


def test_a_file_that_cannot_be_written(families: Project, dqsql: DqSql, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = tmp_path / "file" / "report.html"
    result = dqsql(families, "report", "--output-file", str(place))
    assert result.exit_code == 2
    assert "cannot be written" in result.output

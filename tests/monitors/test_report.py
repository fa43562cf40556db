"""`dqsql report`: one file from the warehouse tables only."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

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


def test_what_waits_and_is_open_is_there_however_old_and_retired_batches_are_not(
    families: Project, tmp_path: Path
) -> None:
    root = tmp_path / "shop"
    shutil.copytree(families.root, root, ignore=shutil.ignore_patterns("data"))
    tables = root / "warehouse" / "dq"
    # As if a review had been due for long, and a check had failed last in January.
    ledger = DeltaTable(tables / "dq_batches")
    ledger.update(updates={"status": "'flagged'"}, predicate="batch = '2024-01-10'")
    ledger.update(updates={"status": "'retired'"}, predicate="batch = '2024-01-30'")
    made = write_report(root, days=2, spark=families.spark)
    overview, model = pages(made.path)
    assert model["batches"] == ["2024-01-28", TENFOLD]
    waiting = [b for w in overview["waiting"] for b in w["batches"]]
    assert waiting == ["2024-01-10", TENFOLD]
    assert made.waiting == len(waiting)
    # What is open and is about the retired batch only is told all the same.
    unresolved = [f for f in overview["findings"] if f["state"] != "resolved"]
    assert made.findings == len(unresolved)
    assert [LAST] in [f["batches"] for f in unresolved]
    assert {f["check"] for f in unresolved} <= {c["id"] for c in model["checks"]}
    assert model["sql"]["file"] == "checks/sales.sql"
    assert model["sql"]["text"].startswith("{{ config(batch_by = 'day'")


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

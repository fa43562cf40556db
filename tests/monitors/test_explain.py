"""`dqsql explain`: stored verdicts are computed again from stored metrics, to the same numbers."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from dqsql import explain
from dqsql.errors import UsageError
from dqsql.model.results import result_id
from tests.runner.conftest import Project

from .conftest import DqSql
from .families import LAST, ODD, TENFOLD

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def stored(families: Project) -> Iterator[list[dict[str, Any]]]:
    yield families.rows("dq_results")


def of(rows: list[dict[str, Any]], batch: str, detector: str, **more: Any) -> dict[str, Any]:
    wanted = {"batch": batch, "detector": detector, "segment": None, **more}
    return next(r for r in rows if all(r[k] == v for k, v in wanted.items()))


def id_of(row: dict[str, Any]) -> str:
    return result_id(row["check_id"], row["batch"], row["segment"])


@pytest.mark.parametrize("detector", ["avh", "anomaly", "novelty", "pattern"])
def test_a_verdict_is_computed_again_to_the_same(
    families: Project, stored: list[dict[str, Any]], detector: str
) -> None:
    row = of(stored, LAST, detector)
    found = explain(id_of(row), project_dir=families.root, spark=families.spark)
    assert found.note is None
    assert [(c.name, c.stored, c.again) for c in found.compared if not c.same] == []
    assert found.same
    assert len(found.compared) >= 4
    assert found.row["message"] == row["message"]
    assert TENFOLD not in found.past
    if detector in ("avh", "anomaly"):
        assert found.values[-1] == (LAST, pytest.approx(row["observed"]))


def test_segments_and_conditions(families: Project, stored: list[dict[str, Any]]) -> None:
    row = of(stored, LAST, "anomaly", segment="shop=small", column_name=None)
    found = explain(
        row["check_id"],
        batch=LAST,
        segment="shop=small",
        project_dir=families.root,
        spark=families.spark,
    )
    assert found.same, found.compared
    assert found.id == f"{row['check_id']}@{LAST}/shop=small"
    assert found.details["excluded"] == [ODD]
    assert explain(found.id, project_dir=families.root, spark=families.spark) == found


def test_a_changed_metric_is_noticed(
    families: Project, stored: list[dict[str, Any]], tmp_path: Path
) -> None:
    copy = Project(tmp_path / "shop", families.spark)
    shutil.copytree(families.root, copy.root)
    # As a person would, with another tool.
    table = DeltaTable(copy.root / "warehouse" / "dq" / "dq_metrics")
    table.update(
        updates={"value": "coalesce(value, 0.0) + 1.0"},
        predicate="batch = '2024-01-20' and column_name = 'fare'",
    )
    row = of(stored, LAST, "anomaly", column_name="fare")
    found = explain(id_of(row), project_dir=copy.root, spark=copy.spark)
    assert found.same is False
    changed = {c.name for c in found.compared if not c.same}
    assert "expected" in changed
    assert "value" not in changed


def test_a_batch_that_was_checked_again_since_is_named(
    families: Project, stored: list[dict[str, Any]], tmp_path: Path
) -> None:
    copy = Project(tmp_path / "shop", families.spark)
    shutil.copytree(families.root, copy.root)
    tables = copy.root / "warehouse" / "dq"
    row = of(stored, LAST, "anomaly", column_name="fare")
    where = "batch = '2024-01-20'"
    DeltaTable(tables / "dq_metrics").update(
        updates={"value": "coalesce(value, 0.0) + 1.0"},
        predicate=f"{where} and column_name = 'fare'",
    )
    DeltaTable(tables / "dq_batches").update(
        new_values={"checked_at": row["evaluated_at"] + dt.timedelta(days=1)}, predicate=where
    )
    found = explain(id_of(row), project_dir=copy.root, spark=copy.spark)
    assert found.note == (
        "2024-01-20 was checked again after it was decided, and had other values then"
    )


def test_the_words(families: Project, stored: list[dict[str, Any]], dqsql: DqSql) -> None:
    row = of(stored, LAST, "anomaly", column_name="fare")
    shown = dqsql(families, "explain", id_of(row))
    assert shown.exit_code == 0, shown.output
    assert id_of(row) in shown.output
    assert "FAIL mean" in shown.output
    assert "history    28 batches, 2024-01-01 to 2024-01-28" in shown.output
    assert "computed again from stored metrics: the same" in shown.output
    assert "  what it saw in the batches up to this one:\n" in shown.output

    before = families.tables()
    result = dqsql(
        families, "explain", row["check_id"], "--batch", LAST, "--output", "json", "--quiet"
    )
    content = json.loads(result.stdout)
    assert content["same"] is True
    assert content["id"] == id_of(row)
    assert math.isclose(content["values"][-1]["value"], row["observed"])
    assert families.tables() == before


def test_the_bounds_of_a_column(
    families: Project, stored: list[dict[str, Any]], dqsql: DqSql
) -> None:
    row = of(stored, LAST, "avh")
    clauses = json.loads(row["details"])["clauses"]
    shown = dqsql(families, "explain", id_of(row)).output.split("the nearest first:\n")[1]
    bounds = shown.split("  what it saw")[0].splitlines()
    assert len(bounds) == len(clauses) > 1
    assert f"{clauses[0]['metric']}" in bounds[0]
    assert all(" is " in line and ", expected " in line for line in bounds)


def test_a_check_shows_what_it_saw_and_has_nothing_to_compute(
    families: Project, stored: list[dict[str, Any]], dqsql: DqSql
) -> None:
    row = of(stored, LAST, "constraint", column_name="note")
    found = explain(id_of(row), project_dir=families.root, spark=families.spark)
    assert (found.same, found.compared) == (None, ())
    assert found.note is not None
    seen = {r["batch"] for r in stored if r["check_id"] == row["check_id"]}
    assert [b for b, _ in found.values] == sorted(b for b in seen if b <= LAST)[-10:]
    assert found.values[-1] == (LAST, row["observed"])
    shown = dqsql(families, "explain", id_of(row)).output
    assert "  lower      0.9\n" in shown
    assert f"  what it saw in the batches up to this one:\n    {found.values[0][0]}  " in shown
    assert "bounds are written" in shown


def test_a_check_without_a_batch_and_its_failing_rows(
    families: Project, stored: list[dict[str, Any]], dqsql: DqSql
) -> None:
    row = of(stored, LAST, "constraint", column_name="note")
    found = explain(row["check_id"], project_dir=families.root, spark=families.spark)
    assert found.id == id_of(row)
    kept = {json.loads(r)["note"] for r in found.failures}
    assert kept == {None} and len(found.failures) == found.details["failures"]["rows"] > 10
    assert found.place == "checks/sales.sql:8"
    shown = dqsql(families, "explain", row["check_name"]).output
    assert f"  written    {found.place}\n" in shown
    assert f"{len(found.failures)} failing rows in dq_failures:" in shown
    assert f"... and {len(found.failures) - 10} more" in shown
    shown = dqsql(families, "explain", f"{found.id}/shop=large").output
    assert f"{len(found.failures)} failing rows of the whole batch in dq_failures:" in shown


def test_what_is_not_there(families: Project, stored: list[dict[str, Any]], dqsql: DqSql) -> None:
    check = of(stored, LAST, "novelty")["check_id"]
    cases = {
        f"{check}@1999-01-01": f"there is no verdict '{check}@1999-01-01'\n"
        f"  hint: its model's batches are 2024-01-01 to {LAST}; write CHECK@BATCH or",
        "nonsense@2024-01-01": "there is no check 'nonsense'",
        "nonsense": "there is no check 'nonsense'",
        "sales.foo": "there is no check 'sales.foo'\n  hint: checks of sales: sales.",
        check.replace("nov", "no"): f"did you mean '{check}'",
        "sales": "'sales' is a check model, and a verdict belongs to one of its checks",
    }
    for text, message in cases.items():
        with pytest.raises(UsageError) as caught:
            explain(text, project_dir=families.root, spark=families.spark)
        assert message in str(caught.value)
    result = dqsql(families, "explain", check, "--batch", "x")
    assert result.exit_code == 2
    assert "on batch 'x'" in result.output


def test_a_check_that_no_run_has_looked_at_yet(families: Project, tmp_path: Path) -> None:
    copy = Project(tmp_path / "shop", families.spark)
    shutil.copytree(families.root, copy.root)
    file = copy.root / "checks" / "sales.sql"
    file.write_text(f"{file.read_text()}\n-- @row_count > 1 {{name: fresh}}\n", encoding="utf-8")
    cases = {
        "sales.fresh": "no run has evaluated the check 'sales.fresh' yet",
        "fresh": "no run has evaluated the check 'fresh' yet",
        "sales.fersh": "did you mean 'sales.fresh'",
    }
    for text, message in cases.items():
        with pytest.raises(UsageError) as caught:
            explain(text, project_dir=copy.root, spark=copy.spark)
        assert message in str(caught.value)

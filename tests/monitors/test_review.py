"""What a person says about a batch decides whether it belongs to history."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from dqsql import review, waiting
from dqsql.cli.commands.review import lines_of
from dqsql.errors import StorageError, UsageError
from dqsql.runner.review import WaitingFinding
from tests.runner.conftest import Project

from .conftest import TOO_HEAVY, DqSql, clean_environment, ledger, sales, write_data, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without a learned monitor: these tests are about the ledger.
MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    weight   -- @max < 100
from {{ source('raw', 't') }}
-- @row_count > 0 {scope: cumulative}
"""
DAYS = 6
LAST = "2024-01-06"


@pytest.fixture(scope="module")
def two_checked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six days, of which the fourth has a weight that is too high; it and the third are checked."""
    root = tmp_path_factory.mktemp("review") / "p"
    project = Project(write_project(root, {"checks/sales.sql": MODEL}, sales(DAYS)), spark)
    with clean_environment():
        project.run(batches=["2024-01-03", TOO_HEAVY])
    assert ledger(project) == {"2024-01-03": ("accepted", True), TOO_HEAVY: ("flagged", False)}
    return root


@pytest.fixture
def project(two_checked: Path, spark: SparkSession, tmp_path: Path) -> Project:
    """A copy of that project, to be changed."""
    return Project(shutil.copytree(two_checked, tmp_path / "p"), spark)


def total(project: Project, batch: str) -> float:
    """The number of rows up to a batch."""
    rows = project.rows("dq_metrics")
    found = [r for r in rows if r["scope"] == "cumulative" and r["batch"] == batch]
    return float(found[0]["value"])


def rows_of(*batches: str, days: int = DAYS) -> int:
    names = pc.cast(sales(days)["day"], pa.string())
    return int(pc.sum(pc.is_in(names, pa.array(batches))).as_py())


def repair(project: Project) -> None:
    data = sales(DAYS)
    weight = pc.min_element_wise(data["weight"], 50.0)
    write_data(project.root, data.set_column(3, "weight", weight))


def test_an_accepted_batch_stays_so_and_counts(project: Project, dqsql: DqSql) -> None:
    args = ("--reason", "weighed twice", "--author", "ann")
    result = dqsql(project, "review", "accept", "sales", TOO_HEAVY, *args)
    assert result.exit_code == 0, result.output
    assert f"sales {TOO_HEAVY}: flagged -> accepted" in result.output
    assert ledger(project)[TOO_HEAVY] == ("accepted", True)
    (row,) = project.rows("dq_reviews")
    assert (row["verdict"], row["reason"], row["author"]) == ("accept", "weighed twice", "ann")
    assert row["run_id"] == project.rows("dq_batches")[0]["run_id"]
    assert project.run(batches=[TOO_HEAVY, "2024-01-05"]).exit_code == 1
    assert ledger(project)[TOO_HEAVY] == ("accepted", True)
    assert total(project, "2024-01-05") == rows_of("2024-01-03", TOO_HEAVY, "2024-01-05")


def test_a_rejected_batch_stays_so_until_it_is_repaired(project: Project, dqsql: DqSql) -> None:
    chosen = ("2024-01-03", TOO_HEAVY)
    result = dqsql(project, "review", "reject", "sales", *chosen, "--reason", "scales broken")
    assert result.exit_code == 0, result.output
    assert set(ledger(project).values()) == {("rejected", False)}
    project.run(batches=[TOO_HEAVY, "2024-01-05"])
    assert ledger(project)[TOO_HEAVY][0] == "rejected"
    # The total that the first run stored is not used: it holds a batch that was rejected since.
    assert total(project, "2024-01-05") == rows_of("2024-01-05")
    repair(project)
    project.run(batches=[*chosen, LAST])
    assert ledger(project)[TOO_HEAVY] == ("accepted", True)
    assert not [r for r in project.rows("dq_results") if r["status"] != "pass"]
    assert total(project, LAST) == rows_of(*chosen, "2024-01-05", LAST)


@pytest.mark.slow
def test_what_a_monitor_found_on_a_rejected_batch_keeps_it_out_of_totals(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All checks hold on it; that it is still odd is known when totals have been measured."""
    checks = MODEL.replace("@max < 100", "@anomaly(max, threshold(0, 100))")
    project = Project(
        write_project(tmp_path / "p", {"checks/sales.sql": checks}, sales(DAYS)), spark
    )
    project.run()
    assert ledger(project)[TOO_HEAVY] == ("flagged", True)
    good = {b for b in ledger(project) if b != TOO_HEAVY}
    assert total(project, LAST) == rows_of(*good, TOO_HEAVY)
    review("sales", [TOO_HEAVY], "reject", "no", project_dir=project.root, spark=spark)
    project.run(full_refresh=True)
    assert ledger(project)[TOO_HEAVY][0] == "rejected"
    assert total(project, LAST) == rows_of(*good)
    write_data(project.root, sales(DAYS + 1))
    project.run()
    assert total(project, "2024-01-07") == rows_of(*good, "2024-01-07", days=DAYS + 1)


def test_a_review_says_which_totals_were_measured_without_it(
    project: Project, dqsql: DqSql
) -> None:
    project.run(batches=["2024-01-05"])
    without = rows_of("2024-01-03", "2024-01-05")
    assert total(project, "2024-01-05") == without
    told = (
        "note: the cumulative metrics of 1 later batch were measured before this review;"
        f" measure them again with --event-time-start {TOO_HEAVY}"
    )
    result = dqsql(project, "review", "accept", "sales", TOO_HEAVY, "--reason", "so")
    assert told in result.output
    project.run(batches=["2024-01-05"])
    assert total(project, "2024-01-05") == without + rows_of(TOO_HEAVY)
    # Twice is once, and a batch after which none was checked leaves nothing to measure.
    args = ("--reason", "so")
    assert "note" not in dqsql(project, "review", "accept", "sales", TOO_HEAVY, *args).output
    assert told in dqsql(project, "review", "reject", "sales", TOO_HEAVY, *args).output
    assert "note" not in dqsql(project, "review", "reject", "sales", "2024-01-05", *args).output


def test_the_newest_review_holds(project: Project) -> None:
    for verdict in ("reject", "accept"):
        review("sales", [TOO_HEAVY], verdict, "so", project_dir=project.root, spark=project.spark)
    project.run(batches=[TOO_HEAVY])
    assert ledger(project)[TOO_HEAVY] == ("accepted", True)
    assert len(project.rows("dq_reviews")) == 2


def test_the_list_says_what_waits_and_why(project: Project, dqsql: DqSql) -> None:
    (found,) = waiting(project.root, spark=project.spark)
    assert (found.model, found.batch, found.rows) == ("sales", TOO_HEAVY, rows_of(TOO_HEAVY))
    assert [f.check for f in found.findings] == ["max < 100"]
    text = dqsql(project, "review", "list").output
    assert f"sales {TOO_HEAVY}" in text
    assert "max(weight) is 400" in text
    assert "1 batch waits for a review." in text
    answer = json.loads(dqsql(project, "review", "list", "--output", "json").stdout)
    assert [b["batch"] for b in answer["waiting"]] == [TOO_HEAVY]
    dqsql(project, "review", "reject", "sales", TOO_HEAVY, "--reason", "no")
    assert "No batch waits for a review." in dqsql(project, "review", "list").output


def test_segments_of_a_check_share_a_line_of_the_list() -> None:
    def found(check: str, segment: str | None) -> WaitingFinding:
        told = f"{check} of {segment}"
        return WaitingFinding(check, None, segment, "constraint", told, f"m.{check}")

    findings = [found("a", None), found("a", "k=x"), found("b", "k=x"), found("b", "k=y")]
    for name in ("in_range", "in_all_batches"):
        # Two checks of one name, as of two scopes, are no segments of one.
        findings.append(WaitingFinding("in(0, 1)", "c", None, "constraint", "2 of 3", f"m.{name}"))
    assert list(lines_of(findings)) == [
        "a: a of None (also in k=x)",
        "b: b of k=x (in k=x; also in k=y)",
        "in(0, 1) on c: 2 of 3",
        "in(0, 1) on c: 2 of 3",
    ]
    shown = list(lines_of([found(f"check {i}", None) for i in range(23)]))
    assert shown[19:] == ["check 19: check 19 of None", "... and 3 more: --output json has all"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("saless", TOO_HEAVY), ("there is no check model 'saless'", "did you mean 'sales'?")),
        (("sales", "2024-01-44"), ("sales has no checked batch '2024-01-44'", "2024-01-04")),
        (("sales", TOO_HEAVY, LAST), (f"sales has no checked batch '{LAST}'",)),
    ],
)
def test_what_is_unknown_is_one_error_and_nothing_is_written(
    args: tuple[str, ...], says: tuple[str, ...], project: Project, dqsql: DqSql
) -> None:
    before = project.tables()
    result = dqsql(project, "review", "accept", *args, "--reason", "x")
    assert result.exit_code == 2
    for words in says:
        assert words in result.output
    assert project.tables() == before


def test_a_review_needs_a_reason(tmp_path: Path, dqsql: DqSql) -> None:
    result = dqsql(tmp_path, "review", "accept", "sales", TOO_HEAVY)
    assert result.exit_code == 2
    assert "--reason" in result.output
    with pytest.raises(UsageError, match="needs a reason"):
        review("sales", [TOO_HEAVY], "accept", " ", project_dir=tmp_path)


def test_several_batches_at_once_and_reviews_by_sql(
    spark: SparkSession, tmp_path: Path, dqsql: DqSql
) -> None:
    """Batches that wait are chosen by an extent; a row of dq_reviews is a review, too."""
    model = MODEL.replace("@max < 100", "@max < 0")
    project = Project(
        write_project(tmp_path / "p", {"checks/sales.sql": model}, sales(DAYS)), spark
    )
    project.run()
    days = [f"2024-01-{d:02d}" for d in range(1, DAYS + 1)]
    assert {s for s, _ in ledger(project).values()} == {"flagged"}
    because = ("--reason", "so")
    result = dqsql(project, "review", "accept", "sales", "--until", "2024-01-02", *because)
    assert result.exit_code == 0, result.output
    result = dqsql(project, "review", "reject", "sales", "--from", days[4], *because)
    assert [ledger(project)[d][0] for d in days] == [
        *["accepted"] * 2,
        "flagged",
        "flagged",
        "rejected",
        "rejected",
    ]
    table = str(project.root / "warehouse" / "dq" / "dq_reviews")
    known = DeltaTable(table).to_pyarrow_table().slice(0, 1).to_pylist()
    now = dt.datetime.now(dt.UTC)
    more = {"batch": days[2], "verdict": "accept", "author": "ann", "at": now, "reason": "sql"}
    write_deltalake(table, pa.Table.from_pylist([{**known[0], **more}]), mode="append")
    assert project.run().exit_code == 1  # One batch still waits.
    assert ledger(project)[days[2]] == ("accepted", True)
    (finding,) = project.rows("dq_findings")
    assert (finding["state"], finding["batches"]) == ("open", days)
    result = dqsql(project, "review", "accept", "sales", "--all", *because)
    assert f"{days[3]}: flagged -> accepted" in result.output
    dqsql(project, "review", "accept", "sales", *days[4:], *because)
    (finding,) = project.rows("dq_findings")
    assert (finding["state"], finding["reason"]) == ("resolved", "so")
    again = dqsql(project, "review", "accept", "sales", "--all", *because)
    assert again.output == "No batch waits for a review.\n"
    wrong = {**known[0], **more, "verdict": "ok", "at": now + dt.timedelta(seconds=1)}
    write_deltalake(table, pa.Table.from_pylist([wrong]), mode="append")
    with pytest.raises(StorageError, match="verdict 'ok' on sales"):
        project.run()


def test_a_day_may_be_named_as_its_midnight(project: Project, dqsql: DqSql) -> None:
    batch = f"{TOO_HEAVY} 00:00:00"
    result = dqsql(project, "review", "accept", "sales", batch, "--reason", "x")
    assert f"sales {TOO_HEAVY}: flagged -> accepted" in result.output
    shown = dqsql(project, "explain", f"sales.weight.max_lt_100@{batch}").output
    assert shown.startswith(f"sales.weight.max_lt_100@{TOO_HEAVY}")


def test_a_range_without_a_batch_that_waits(project: Project, dqsql: DqSql) -> None:
    ranged = ("review", "accept", "sales", "--reason", "x", "--from", LAST)
    assert "No batch of sales in this range waits." in dqsql(project, *ranged).output
    turned = dqsql(project, *ranged, "--until", TOO_HEAVY)
    assert turned.exit_code == 2
    assert f"--from {TOO_HEAVY} --until {LAST}" in turned.output


def test_who_only_reads_need_not_write(
    project: Project, monkeypatch: pytest.MonkeyPatch, dqsql: DqSql
) -> None:
    def refused(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dqsql.runner.warehouse.try_writing", refused)
    for command in (
        ["review", "list"],
        ["finding", "list"],
        ["explain", "sales.weight.max_lt_100"],
    ):
        assert dqsql(project, *command).exit_code == 0
    result = dqsql(project, "review", "accept", "sales", TOO_HEAVY, "--reason", "x")
    assert result.exit_code == 2 and "cannot be written" in result.output

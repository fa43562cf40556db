"""`dqsql backtest` decides as runs did, and tells how that changes with the rate."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dqsql import backtest, review
from dqsql.decisions.avh import AvhConfig, ColumnHistory, evaluate
from dqsql.decisions.bounds import Bounds
from dqsql.decisions.program import breaks
from dqsql.errors import UsageError
from dqsql.monitors.replay import Replayed
from tests.decisions.one_column import fit_program
from tests.runner.conftest import Project

from .conftest import DAYS, TENFOLD, TOO_HEAVY, DqSql, programs

TYPES = {
    "shrunk",
    "sign",
    "minus",
    "schema",
    "missing",
    "null",
    "case",
    "perturb",
    "unit",
    "volume",
    "dist",
    "insert",
    "delete",
    "cut",
    "pad",
}


def of(found: tuple[Replayed, ...], column: str, fpr: float) -> Replayed:
    (one,) = [r for r in found if r.monitor.column == column and r.fpr == fpr]
    return one


def test_it_decides_as_the_run_did(checked: Project) -> None:
    rate = programs(checked)["amount"]["fpr"]
    (model,) = backtest(checked.root, spark=checked.spark, rates=[rate, 0.05])
    assert model.error is None
    rows = [r for r in checked.rows("dq_results") if r["detector"] == "avh"]
    for column, fpr in (("amount", rate), ("code", 0.05)):
        mine = [r for r in rows if r["column_name"] == column]
        broken = {r["batch"] for r in mine if r["status"] == "fail"}
        one = of(model.replayed, column, fpr)
        assert {*one.alarms, *one.found} == broken
        assert one.accepted + one.flagged == sum(r["status"] != "skipped" for r in mine)
        assert one.learning == sum(r["status"] == "skipped" for r in mine)
    assert TENFOLD in of(model.replayed, "amount", rate).found
    assert not {TENFOLD, TOO_HEAVY} & set(of(model.replayed, "amount", rate).alarms)


def test_a_higher_rate_catches_no_less(checked: Project, dqsql: DqSql) -> None:
    before = checked.tables()
    result = dqsql(checked, "backtest", "--fpr", "0.001,0.01,0.05", "--output", "json")
    assert result.exit_code == 0, result.output
    assert checked.tables() == before
    (model,) = json.loads(result.stdout)["models"]
    assert model["batches_per_month"] == pytest.approx(30.44, abs=0.01)
    by_column: dict[str, list[dict[str, float]]] = {}
    for one in model["monitors"]:
        assert 0 <= one["alarm_rate"] <= 1
        assert one["alarms_per_month"] == pytest.approx(one["alarm_rate"] * 30.4375)
        assert set(one["recall_by_type"]) <= TYPES
        # Held out: half as much is to be found by bounds that a tenth chose.
        assert one["recall_by_type"]["volume"] > 0.25
        by_column.setdefault(one["column"], []).append(one)
    for ones in by_column.values():
        assert [one["fpr"] for one in ones] == [0.001, 0.01, 0.05]
        assert ones[0]["recall"] <= ones[1]["recall"] + 0.02
        assert ones[1]["recall"] <= ones[2]["recall"] + 0.02
        assert ones[2]["recall"] > 0.5


def test_nothing_but_tables_is_read(copy: Project, dqsql: DqSql) -> None:
    """The rows are not needed, only their columns."""
    folder = copy.root / "data" / "t"
    copy.spark.read.parquet(str(folder)).limit(0).coalesce(1).write.parquet(str(folder) + "2")
    shutil.rmtree(folder)
    (copy.root / "data" / "t2").rename(folder)
    result = dqsql(copy, "backtest", "--newest", "3", "--fpr", "0.01")
    assert result.exit_code == 0, result.output
    assert "sales, batches 2024-01-14 to 2024-01-16" in result.output
    assert "held-out recall at 0.01 by type of issue:" in result.output
    assert "1 of 1" in result.output
    assert "metrics per batch" in result.output


def test_rejected_batches_are_to_be_found_and_monitors_without_issues_are_left_out(
    copy: Project,
) -> None:
    review("sales", [TENFOLD], "reject", "no", project_dir=copy.root, spark=copy.spark)
    (model,) = backtest(copy.root, spark=copy.spark, rates=[0.01])
    one = of(model.replayed, "amount", 0.01)
    assert one.others == one.found == (TENFOLD,)
    assert model.rejected == {TENFOLD}
    assert model.rejected_by(one) == (1, 1)
    assert one.accepted + one.learning == DAYS - 1
    shutil.rmtree(copy.root / "warehouse" / "dq" / "dq_programs")
    (model,) = backtest(copy.root, spark=copy.spark, rates=[0.01])
    for one in model.replayed:
        assert one.note == "no injected issues are stored: `dqsql fit` measures them"
        assert (one.accepted, one.recall, one.alarm_rate) == (0, None, None)


def test_rates_are_between_0_and_1(checked: Project, dqsql: DqSql) -> None:
    for text in ("2", "0", "x", "0.1,,", "nan"):
        result = dqsql(checked, "backtest", "--fpr", text)
        assert result.exit_code == 2
        assert "write numbers between 0 and 1" in result.output
    with pytest.raises(UsageError, match="between 0 and 1"):
        backtest(checked.root, rates=[1.0])
    with pytest.raises(UsageError, match="needs a rate"):
        backtest(checked.root, rates=[])


@pytest.mark.parametrize("command", ["backtest", "fit"])
def test_a_name_that_no_model_has(checked: Project, dqsql: DqSql, command: str) -> None:
    result = dqsql(checked, command, "--select", "nosuch")
    assert result.exit_code == 2
    assert "no check model matches 'nosuch'" in result.output


@pytest.mark.parametrize("bounds", ["calibrated", "paper"])
def test_many_possible_batches_are_decided_on_as_each_alone(bounds: Bounds) -> None:
    draw = np.random.default_rng(3)
    names = ("mean", "row_count", "sum")
    level = 100 + np.arange(30)[:, None] * np.array([0.0, 0.0, 7.0])
    past = level + draw.normal(0, 2, (30, 3))
    issues = past[-1] * draw.uniform(0.3, 2.0, (40, 3))
    issues[::7, 0] = np.nan
    history = ColumnHistory("c", names, past, tuple(f"i_{i}" for i in range(40)), issues)
    program = fit_program(history, AvhConfig(fpr=0.05, bounds=bounds))
    assert program.clauses
    series = {name: past[:, i] for i, name in enumerate(names)}
    together = breaks(program, series, {n: issues[:, i] for i, n in enumerate(names)}, 40)
    alone = [evaluate(program, series, dict(zip(names, row, strict=True))) for row in issues]
    assert together.tolist() == [verdict.status != "pass" for verdict in alone]
    assert together.sum() > 0

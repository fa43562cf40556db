"""An annotation that does not compile is an error of its own; the other checks of its model run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dqsql
from dqsql.errors import DqsqlError
from dqsql.runner.compilation import compile_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = "{{ config(batch_by='day') }}\n"
ROWS = "from values ('a', 1), ('b', null) as t(day, x)\n"


BAD = {
    "@nul_count = 0": "unknown check, metric or function 'nul_count'",
    "@mean(z) > 0": "has no column 'z'",
    "@mean > 0 {severty: warn}": "severty",
}


def test_other_checks_run(make_project: Callable[..., Path], spark: SparkSession) -> None:
    lines = "".join(f"-- {bad}\n" for bad in BAD)
    root = make_project({"checks/m.sql": f"{HEAD}select day,\n{lines}x -- @not_null\n{ROWS}"})
    result = dqsql.run(root, spark=spark)
    (model,) = result.models
    told = {(r.batch, r.check_id): r.status.value for r in model.results}
    assert told["a", "m.x.not_null"] == "pass"
    assert told["b", "m.x.not_null"] == "fail"
    errors = [(r.batch, r.message) for r in model.results if r.status.value == "error"]
    for batch in ("a", "b"):
        for line, said in enumerate(BAD.values(), start=3):
            at = [m for b, m in errors if b == batch and f"checks/m.sql:{line}" in m and said in m]
            assert len(at) == 1, (line, said, errors)
    assert isinstance(model.error, DqsqlError)
    assert result.exit_code == 2

    # Once it is mended, the same batches are checked again.
    (root / "checks/m.sql").write_text(f"{HEAD}select day,\nx -- @not_null @row_count = 1\n{ROWS}")
    again = dqsql.run(root, spark=spark)
    assert {r.status.value for r in again.results if r.check_id == "m.x.row_count_eq_1"} == {"pass"}
    assert {r.batch for r in again.results} == {"a", "b"}
    assert again.exit_code == 1


def test_an_annotation_that_cannot_be_read_is_told_by_its_text(
    make_project: Callable[..., Path],
) -> None:
    bad = ["@mean > 0 {severty: warn}", "@row_count > 5 {severity: wrn}", "@mean(x) > 1 rows"]
    lines = "".join(f"-- {text}\n" for text in bad)
    root = make_project({"checks/m.sql": f"{HEAD}select day,\n{lines}x {ROWS}"})
    (plan,) = compile_project(root).plans
    assert [(check.name, error.span.line) for check, error in plan.refused if error.span] == [
        (text, line) for line, text in enumerate(bad, start=3)
    ]


MISSET = {
    "@anomaly(row_count, trehshold(1, 2)) {name: a}": "trehshold",
    "@anomaly(row_count, min_histroy => 3) {name: b}": "min_histroy",
    "@novelty(min_history => 'x')": "min_history",
    "@cadence('dailly')": "@cadence takes one of hourly, daily",
    "@row_anomalies(contamination => 7)": "'contamination' of @row_anomalies",
}


def test_settings_of_a_monitor_are_an_error_of_its_own(
    make_project: Callable[..., Path], spark: SparkSession
) -> None:
    lines = "".join(f"-- {bad}\n" for bad in MISSET)
    right = "-- @anomaly(row_count) {name: right} @row_count > 0\n"
    root = make_project({"checks/m.sql": f"{HEAD}select day, x\n{ROWS}{lines}{right}"})
    result = dqsql.run(root, spark=spark)
    (model,) = result.models
    told = {r.check_id: r for r in model.results if r.batch == "a"}
    assert told["m.row_count_gt_0"].status.value == "pass"
    assert told["m.right"].status.value == "skipped"
    errors = {r.check_name: r.message for r in told.values() if r.status.value == "error"}
    assert len(errors) == len(MISSET)
    for line, said in enumerate(MISSET.values(), start=4):
        assert any(f"checks/m.sql:{line}" in m and said in m for m in errors.values()), said
    assert result.exit_code == 2

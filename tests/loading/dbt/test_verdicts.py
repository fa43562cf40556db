"""Adopted tests give the verdicts that `dbt test` gave; nothing of dbt is needed here.

`verdicts.json` is what dbt 1.11 found in the project beside it (see `make_fixture.py`); the
relations are made again from the SQL that dbt compiled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dqsql
from dqsql.errors import UsageError
from dqsql.model.results import RunResult
from dqsql.report.run_results import run_results
from dqsql.runner.compilation import compile_project
from dqsql.runner.finding import open_findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ORDER = ("raw_payments", "stg_customers", "orders", "customers", "payments", "notes")


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The dbt project with its relations built in the session's catalog."""
    root = tmp_path_factory.mktemp("dbt") / "shop"
    shutil.copytree(HERE / "project", root)
    (root / "target").mkdir()
    shutil.copy(HERE / "manifest.json", root / "target" / "manifest.json")
    nodes = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))["nodes"]
    by_name = {n["name"]: n for n in nodes.values() if n["resource_type"] in ("model", "seed")}
    spark.sql("create schema analytics")
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    for name in ORDER:
        node = by_name[name]
        if node["resource_type"] == "seed":
            frame = spark.read.csv(
                str(root / "seeds" / f"{name}.csv"), header=True, inferSchema=True
            )
        else:
            frame = spark.sql(node["compiled_code"])
        frame.coalesce(1).write.saveAsTable(f"analytics.{name}")
    spark.conf.set("spark.sql.ansi.enabled", ansi or "true")
    yield root
    spark.sql("drop schema analytics cascade")
    spark.sql("drop schema if exists analytics_dq cascade")


@pytest.fixture(scope="module")
def result(shop: Path, spark: SparkSession) -> RunResult:
    return dqsql.run(shop, spark=spark, dbt_tests=True)


def entries(result: RunResult, shop: Path) -> dict[str, dict[str, Any]]:
    plans = compile_project(shop, dbt_tests=True).plans
    return {e["unique_id"]: e for e in run_results(result, plans)["results"]}


def test_verdicts_are_those_of_dbt(result: RunResult, shop: Path) -> None:
    assert not [m.error for m in result.models if m.error is not None]
    theirs = json.loads((HERE / "verdicts.json").read_text(encoding="utf-8"))
    ours = entries(result, shop)
    left = {t.unique_id for t in compile_project(shop, dbt_tests=True).project.left_tests}
    assert len(theirs) - len(left) > 40
    assert {uid: ours[uid]["status"] for uid in theirs if uid not in left} == {
        uid: verdict["status"] for uid, verdict in theirs.items() if uid not in left
    }
    assert not left & ours.keys()


def test_failures_are_the_rows_that_dbt_counts(result: RunResult, shop: Path) -> None:
    theirs = json.loads((HERE / "verdicts.json").read_text(encoding="utf-8"))
    ours = entries(result, shop)
    counted = {uid: ours[uid]["failures"] for uid in theirs if uid in ours}
    assert counted == {uid: theirs[uid]["failures"] for uid in counted}
    by_name = {uid.split(".")[2]: failures for uid, failures in counted.items()}
    # Values, not rows; at most `limit`; of the rows that `where` names; a list in a variable.
    assert by_name["unique_notes_note"] == 20
    assert by_name["one_note"] == 19
    assert by_name["one_note_or_none"] == 20
    assert by_name["two_statuses_at_most"] == 2
    assert by_name["statuses_of_web"] == 3
    assert by_name["statuses_of_a_variable"] == 1


def test_a_verdict_is_explained_by_the_name_of_the_test(
    result: RunResult, shop: Path, spark: SparkSession
) -> None:
    assert result.findings
    small = dqsql.explain("amounts_are_small", project_dir=shop, spark=spark)
    assert small.where == "(status = 'placed')"
    assert small.place == "models/schema.yml:107"
    # Of a test with two thresholds the half that found something.
    assert dqsql.explain("no_returns", project_dir=shop, spark=spark).row["severity"] == "warn"
    few = dqsql.explain("no_returns_but_a_few", project_dir=shop, spark=spark)
    assert few.row["severity"] == "error"
    with pytest.raises(UsageError, match="did you mean 'notes_are_few'"):
        dqsql.explain("notes_are_fewer", project_dir=shop, spark=spark)


def test_messages_are_about_the_test(result: RunResult) -> None:
    messages = {r.check_name: r.message for r in result.findings}
    name = "dbt_utils_not_empty_string_stg_customers_country"
    assert messages[name] == "14 failing rows by dbt's test not_empty_string"


def test_a_model_is_read_a_few_times_whatever_the_number_of_tests(result: RunResult) -> None:
    orders = next(m for m in result.models if m.model == "orders")
    assert orders.checks > 30
    # Two kinds of aggregates; and values that are counted: texts, numbers, tuples of numbers.
    assert orders.scans <= 5


def test_annotations_are_checked_on_the_built_relations(result: RunResult) -> None:
    by_name = {(r.model, r.check_name): r.status.value for r in result.results}
    assert by_name["orders", "mean between 50 and 200"] == "pass"
    assert by_name["customers", "row_count = 100"] == "pass"
    assert by_name["stg_customers", "completeness >= 0.85"] == "pass"


def test_a_relation_that_dbt_did_not_build(shop: Path, spark: SparkSession) -> None:
    spark.sql("alter table analytics.payments rename to analytics.payments_away")
    try:
        found = dqsql.run(shop, spark=spark, dbt_tests=True, select=["payments"])
    finally:
        spark.sql("alter table analytics.payments_away rename to analytics.payments")
    (model,) = found.models
    assert model.error is not None
    assert "the relation analytics.payments of payments does not exist" in str(model.error)
    assert "dbt build" in str(model.error.hint)
    assert found.exit_code == 2


def test_a_view_whose_table_is_gone_is_told_where_the_model_reads_it(
    shop: Path, spark: SparkSession
) -> None:
    spark.sql("alter table analytics.payments rename to analytics.payments_away")
    spark.sql("create view analytics.payments as select * from analytics.raw_payments")
    spark.sql("alter table analytics.raw_payments rename to analytics.raw_payments_away")
    try:
        (model,) = dqsql.run(shop, spark=spark, dbt_tests=True, select=["payments"]).models
    finally:
        spark.sql("alter table analytics.raw_payments_away rename to analytics.raw_payments")
        spark.sql("drop view analytics.payments")
        spark.sql("alter table analytics.payments_away rename to analytics.payments")
    assert model.error is not None
    assert "analytics.raw_payments, which does not exist" in model.error.message
    span = model.error.span
    text = (shop / "models/marts/payments.sql").read_text(encoding="utf-8")
    assert span is not None and span.text == "source('raw', 'raw_payments')"
    assert text.splitlines()[span.line - 1][span.column - 1 :].startswith(span.text)


def test_a_run_without_the_tests_leaves_their_findings_alone(
    result: RunResult, shop: Path, spark: SparkSession
) -> None:
    before = {r["check_name"]: r["state"] for r in open_findings(shop, spark=spark)}
    assert {"unique_notes_note", "one_note"} <= before.keys()
    dqsql.run(shop, spark=spark)
    after = {r["check_name"]: r["state"] for r in open_findings(shop, spark=spark)}
    assert after == before
    # With the setting, the project says that it has no such tests any more.
    project = shop / "dbt_project.yml"
    text = project.read_text(encoding="utf-8")
    never = text.replace("severity: error", "adopt_dbt_tests: false")
    project.write_text(never, encoding="utf-8")
    try:
        dqsql.run(shop, spark=spark)
    finally:
        project.write_text(text, encoding="utf-8")
    left = {r["check_name"] for r in open_findings(shop, spark=spark)}
    assert not left & before.keys()

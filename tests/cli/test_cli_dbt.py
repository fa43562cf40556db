"""The commands in a dbt project; none of these needs Spark."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dqsql.cli.main import cli
from dqsql.loading import load_project
from dqsql.runner.warnings import project_warnings

HERE = Path(__file__).parents[1] / "loading" / "dbt"


def call(root: Path, *args: str) -> Result:
    return CliRunner().invoke(cli, [*args, "--project-dir", str(root)])


def test_compile_writes_lineage_beside_dbts_artefacts(shop: Path) -> None:
    dbts = (shop / "target" / "manifest.json").read_bytes()
    done = call(shop, "compile", "--dbt-tests")
    assert done.exit_code == 0, done.output
    assert "left to dbt: not_null_helper_one: helper is ephemeral" in done.stderr
    assert (shop / "target" / "manifest.json").read_bytes() == dbts
    manifest = json.loads((shop / "target/dqsql/manifest.json").read_text(encoding="utf-8"))
    checks = {c["name"]: c for c in manifest["checks"].values()}
    named = checks["customers_with_a_name"]
    assert named["columns"] == ["customer_id"]
    assert named["depends_on"]["nodes"] == ["model.orders", "model.customers"]
    assert named["dbt_test"] == "test.shop.customers_with_a_name.d239538a60"
    fewer = checks["dbt_utils_fewer_rows_than_orders_ref_customers_"]
    assert fewer["depends_on"]["nodes"] == ["model.orders", "model.customers"]
    assert manifest["models"]["model.orders"]["relation_name"] == "analytics.orders"
    assert manifest["models"]["model.orders"]["dbt_unique_id"] == "model.shop.orders"
    assert len(manifest["left_tests"]) == 3
    sql = (shop / "target/dqsql/compiled/orders.sql").read_text(encoding="utf-8")
    assert "dqsql__orders" in sql
    assert call(shop, "clean").exit_code == 0
    assert not (shop / "target/dqsql").exists()
    assert (shop / "target" / "manifest.json").read_bytes() == dbts


@pytest.mark.parametrize(
    ("select", "models"),
    [
        ("orders+", "orders customers"),
        ("+customers", "stg_customers orders customers"),
        ("source:raw", "raw__raw_payments"),
        ("source:raw+", "raw__raw_payments payments"),
        ("group:sales", "orders"),
        ("config.materialized:view", "stg_customers"),
        ("test_name:equal_rowcount", "customers"),
        ("column:status,test_type:generic", "orders"),
        ("column:status,test_type:data", "orders"),
        ("test_type:singular", "orders"),
        ("source:shop.raw.raw_payments", "raw__raw_payments"),
        ("resource_type:seed", "raw_payments"),
        ("package:other", ""),
        ("package:this,orders", "orders"),
        ("fqn:shop.marts.orders", "orders"),
        ("shop.marts", "orders customers payments"),
        ("not_null_orders_order_id", "orders"),
    ],
)
def test_selection(shop: Path, select: str, models: str) -> None:
    done = call(shop, "ls", "--dbt-tests", "--resource-type", "model", "-s", select)
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == [f"model.{name}" for name in models.split()]


def test_what_is_said_of_left_tests_names_a_command_that_lists_them(shop: Path) -> None:
    (hint,) = [w for w in project_warnings(load_project(shop, dbt_tests=True)) if "left" in w]
    words = hint.partition("`dqsql ")[2].partition("`")[0].split()
    listed = call(shop, *words).stdout.splitlines()
    assert len(listed) == 3
    assert all(": " in line for line in listed)


def test_selectors_with_names(shop: Path) -> None:
    text = "selectors:\n  - name: s\n    definition: {method: group, value: sales}\n"
    (shop / "selectors.yml").write_text(text, "utf-8")
    done = call(shop, "ls", "--resource-type", "model", "--selector", "s")
    assert done.stdout.split() == ["model.orders"], done.output
    both = call(shop, "ls", "--selector", "s", "--select", "orders")
    assert "--selector stands alone" in both.stderr


def test_a_selection_of_nothing_says_so_and_exits_0(shop: Path) -> None:
    done = call(shop, "run", "--select", "order", "tag:none")
    assert done.exit_code == 0, done.output
    assert "no check model matches 'order'; did you mean 'orders'?" in done.output
    assert "no check model matches 'tag:none'" in done.output
    assert "nothing to do: no model with checks is selected" in done.output


def test_models_without_checks_are_not_listed(shop: Path) -> None:
    listed = call(shop, "ls", "--resource-type", "model").stdout.split()
    assert listed == ["model.stg_customers", "model.orders", "model.customers"]


def test_state_of_dbt(shop: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(shop / "target" / "manifest.json", state)
    where = ("ls", "--resource-type", "model", "--state", str(state), "-s")
    assert "Nothing is selected" in call(shop, *where, "state:modified").stderr
    file = shop / "models/marts/orders.sql"
    file.write_text(file.read_text("utf-8").replace("@max <= 100", "@max <= 101"), "utf-8")
    done = call(shop, *where, "state:modified+")
    assert done.stdout.split() == ["model.orders", "model.customers"]
    assert "is stale (models/marts/orders.sql has changed)" in done.stderr


def test_retry_without_a_run(shop: Path) -> None:
    done = call(shop, "retry")
    assert done.exit_code == 2
    assert "run_results.json" in done.stderr


def test_errors_as_annotations_of_github(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(shop.parent))
    file = shop / "models/marts/orders.sql"
    # Without another check there is nothing to ask Spark for.
    alone = re.sub(r"@(?!max)[^@\n]*", "", file.read_text("utf-8"))
    file.write_text(alone.replace("@max <= 100", "@maxx <= 100"), "utf-8")
    done = call(shop, "run", "--output", "github", "--select", "orders")
    assert done.exit_code == 2
    start = "::error file=shop/models/marts/orders.sql,line=6,title=compile error::"
    assert any(line.startswith(start) for line in done.stdout.splitlines()), done.stdout


def test_a_project_without_annotations_hears_of_its_tests(shop: Path) -> None:
    for file in (shop / "models").rglob("*.sql"):
        file.write_text(file.read_text("utf-8").replace("@", ""), "utf-8")
    manifest = (shop / "target/manifest.json").read_text("utf-8").replace('"dqsql"', '"other"')
    (shop / "target/manifest.json").write_text(manifest, "utf-8")
    done = call(shop, "run")
    assert done.exit_code == 0, done.output
    assert "no model has an annotation; `--dbt-tests` adopts" in done.output

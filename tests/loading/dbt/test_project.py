"""dbt projects as they are: models, sources, settings, annotations, and what is wrong in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dqsql.errors import DqsqlError, ProfileError
from dqsql.loading import load_project
from dqsql.model.project import Severity
from dqsql.runner.compilation import compile_project
from tests.loading.dbt.manifests import adopted, change, models, the_test


def test_models_sources_and_settings(shop: Path) -> None:
    project = load_project(shop)
    found = models(project)
    assert project.name == "shop"
    assert project.target_path == "target/dqsql"
    assert project.target.schema == "analytics_dq"
    assert project.target.spark_conf["spark.sql.catalogImplementation"] == "hive"
    assert project.vars["rows"] == 1000
    assert "dqsql" not in project.vars
    assert not project.warnings
    orders = found["orders"]
    assert orders.relation == "analytics.orders"
    assert orders.sql == "select * from analytics.orders"
    assert orders.config.owner == "sales"
    assert orders.config.tags == ("daily",)
    assert orders.config.description == "One row an order."
    assert found["stg_customers"].config.severity is Severity.WARN
    assert found["customers"].depends_on == ("model.stg_customers", "model.orders")
    assert not found["helper"].config.enabled
    assert [s.unique_id for s in project.sources] == ["source.raw.raw_payments"]
    assert found["payments"].depends_on == ("source.raw.raw_payments",)
    names = [m.name for m in project.models]
    assert names.index("orders") < names.index("customers")


def test_annotations_of_files_and_of_meta(shop: Path) -> None:
    found = models(load_project(shop))
    stg = {(a.column, a.expression): a.span for a in found["stg_customers"].annotations}
    assert stg["customer_id", "unique"].line == 16
    assert (None, "row_count between 90 and 110") in stg
    meta = {(a.column, a.expression): str(a.span) for a in found["customers"].annotations}
    assert set(meta) == {
        (None, "row_count = 100"),
        (None, "unique(customer_id)"),
        ("orders", "min >= 0"),
    }
    assert all(place.startswith("models/schema.yml:1") for place in meta.values())


def test_settings_of_a_folder_stay_where_a_model_has_settings_of_its_own(shop: Path) -> None:
    """dbt's manifest has the own ones alone."""
    file = shop / "dbt_project.yml"
    folders = (
        "models:\n  +meta: {dqsql: {owner: all, enabled: false, checks: [row_count > 1]}}\n"
        "  shop:\n    meta: {dqsql: {+materialized: view}}\n"
        "    +meta: {dqsql: {pii: [amount], severity: warn, tags: ['{{ var(1) }}', fin],\n"
        "                    description: '{% if x %}', segment_by: [a, '{{ b }}'],\n"
        "                    batch_by: null}}\n"
        "    marts: {orders: {+meta: {dqsql: {store_failures: true}}}}\n"
    )
    file.write_text(re.sub(r"(?ms)^models:.*?(?=^\S)", "", file.read_text() + "\nx:\n") + folders)

    def own(manifest: Any) -> None:
        node = manifest["nodes"]["model.shop.orders"]
        node["meta"] = node["config"]["meta"] = {"dqsql": {"pii": ["note"], "severity": "error"}}

    change(shop, own)
    project = load_project(shop)
    assert not project.broken
    orders = models(project)["orders"]
    config = orders.config
    assert config.enabled and config.batch_by is None and not config.segment_by
    # Those of a folder are of the models that dbt gives them.
    assert "row_count > 1" not in [a.expression for a in orders.annotations]
    assert config.pii[:2] == ("amount", "note")
    assert (config.severity, config.owner) == (Severity.ERROR, "all")
    assert config.extra["store_failures"] is True
    assert "fin" in config.tags and not any("{" in tag for tag in config.tags)


def test_the_owner_of_a_group(shop: Path) -> None:
    change(shop, lambda m: m["nodes"]["model.shop.orders"]["config"].pop("meta"))
    change(shop, lambda m: m["nodes"]["model.shop.orders"].pop("meta"))
    assert models(load_project(shop))["orders"].config.owner == "Sales team"


def test_an_annotated_ephemeral_model(shop: Path) -> None:
    file = shop / "models/marts/helper.sql"
    file.write_text(
        "{{ config(materialized = 'ephemeral') }}\nselect 1 as one -- @not_null\n", "utf-8"
    )
    with pytest.raises(DqsqlError, match="helper is ephemeral") as caught:
        load_project(shop)
    assert str(caught.value.span) == "models/marts/helper.sql:2:20"
    assert [p.model.name for p in compile_project(shop).plans if p.rejected] == ["helper"]


def test_comments_with_an_at_are_prose_in_dbt(shop: Path) -> None:
    file = shop / "models/marts/payments.sql"
    text = file.read_text("utf-8")
    prose = (
        "-- @todo (see #12): what's this?\n/**\n * @param x 1 the thing\n */\n-- @john @@later\n"
    )
    file.write_text(f"{prose}{{{{ not_jinja( }}}}\n{text}", "utf-8")
    project = load_project(shop)
    assert not models(project)["payments"].annotations
    warning = project.warnings[-1]
    for place in ("1: @todo", "3: @param", "5: @john", "5: @@later"):
        assert f"models/marts/payments.sql:{place}" in warning


def test_prose_beside_annotations(shop: Path) -> None:
    file = shop / "models/marts/orders.sql"
    text = file.read_text("utf-8").replace("@max <= 100", "@max <= 100 @see https://x.y/1?z=(2")
    file.write_text(text, "utf-8")
    project = load_project(shop)
    assert ("customer_id", "max <= 100") in {
        (a.column, a.expression) for a in models(project)["orders"].annotations
    }
    assert "models/marts/orders.sql:6: @see" in project.warnings[-1]


@pytest.mark.parametrize("text", ["@not_nul", "@maxx <= 100", "@foo(a) > 1", "@foo > 1", "@(a)"])
def test_what_may_be_a_check_is_no_prose(shop: Path, text: str) -> None:
    file = shop / "models/marts/orders.sql"
    file.write_text(file.read_text("utf-8").replace("@max <= 100", text), "utf-8")
    compiled = compile_project(shop, select=["orders"])
    assert [str(e.span)[:26] for e in compiled.errors] == ["models/marts/orders.sql:6:"]


def test_a_broken_model_does_not_stop_the_others(shop: Path) -> None:
    file = shop / "models/marts/orders.sql"
    file.write_text(file.read_text("utf-8").replace("@max <= 100", "@(x"), "utf-8")
    assert not compile_project(shop, select=["customers"]).errors
    whole = compile_project(shop)
    assert [p.model.name for p in whole.plans if p.rejected] == ["orders"]
    assert whole.sound
    # Its other checks can still be run.
    assert compile_project(shop, select=["orders"]).sound
    with pytest.raises(DqsqlError, match="starts with @ and a name"):
        load_project(shop)


def test_bad_settings_have_places(shop: Path) -> None:
    file = shop / "dbt_project.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("severity: error", "severty: error"), encoding="utf-8")
    with pytest.raises(DqsqlError, match="unknown key 'severty'") as caught:
        load_project(shop)
    assert str(caught.value.span) == "dbt_project.yml:14:5"
    assert "severity" in str(caught.value.hint)


@pytest.mark.parametrize("setting", ["ansi: maybe", "spark_conf: {spark.x: [1]}"])
def test_bad_settings_of_the_target_have_places(shop: Path, setting: str) -> None:
    file = shop / "dbt_project.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("severity: error", setting), encoding="utf-8")
    with pytest.raises(DqsqlError) as caught:
        load_project(shop)
    assert str(caught.value.span) == "dbt_project.yml:14:5"


def test_bad_meta_is_an_error(shop: Path) -> None:
    def bad(manifest: dict[str, Any]) -> None:
        manifest["nodes"]["model.shop.customers"]["config"]["meta"] = {"dqsql": {"batchby": "d"}}

    change(shop, bad)
    with pytest.raises(DqsqlError, match="unknown setting 'batchby'") as caught:
        load_project(shop)
    assert caught.value.span is not None
    assert caught.value.span.file == "models/schema.yml"


@pytest.mark.parametrize("method", ["thrift", "odbc", "http"])
def test_methods_of_dbt_only_need_a_session(
    shop: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    import dqsql

    monkeypatch.setenv("SHOP_METHOD", method)
    assert load_project(shop).target.method == method
    with pytest.raises(DqsqlError, match=f"by the method '{method}'"):
        dqsql.run(shop)


def test_other_warehouses_are_refused(shop: Path) -> None:
    file = shop / "profiles.yml"
    file.write_text(file.read_text("utf-8").replace("type: spark", "type: duckdb"), "utf-8")
    with pytest.raises(DqsqlError, match="the target is of type 'duckdb'"):
        load_project(shop)


def test_a_dqsql_project_comes_first(shop: Path) -> None:
    (shop / "dqsql_project.yml").write_text("name: mine\nprofile: shop\n", encoding="utf-8")
    assert load_project(shop).name == "mine"
    with pytest.raises(DqsqlError, match="--dbt-tests adopts the tests of a dbt project"):
        load_project(shop, dbt_tests=True)


def test_variables_in_a_file_of_their_own(shop: Path) -> None:
    """Since dbt 1.12; also the settings of dqsql, which stand under `vars`."""
    project_file = shop / "dbt_project.yml"
    text = project_file.read_text(encoding="utf-8")
    head, _, rest = text.partition("vars:\n")
    kept = [line for line in rest.splitlines(keepends=True) if not line.startswith((" ", "#"))]
    project_file.write_text(head + "".join(kept), encoding="utf-8")
    variables = "vars:\n  limit: 5\n  shop: {limit: 7}\n  dqsql: {severity: warn}\n"
    (shop / "vars.yml").write_text(variables, encoding="utf-8")

    def limited(manifest: dict[str, Any]) -> None:
        test = the_test("not_null_orders_order_id", manifest)
        test["config"]["where"] = "amount < {{ var('limit', 3) }}"

    change(shop, limited)
    project = load_project(shop, dbt_tests=True)
    found = adopted(project)["not_null_orders_order_id"]
    assert found.settings.where == "(amount < 7)"
    wrong = variables.replace("warn", "grave")
    (shop / "vars.yml").write_text(wrong, encoding="utf-8")
    with pytest.raises(DqsqlError) as caught:
        load_project(shop)
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("vars.yml", 4)


def test_a_manifest_of_another_target(shop: Path) -> None:
    file = shop / "profiles.yml"
    dev = file.read_text("utf-8")
    file.write_text(f"{dev}    prod: {{type: spark, schema: marts}}\n", "utf-8")
    change(shop, lambda m: [n.update(schema="Analytics") for n in m["nodes"].values()])
    assert load_project(shop).target.name == "dev"
    with pytest.raises(
        DqsqlError, match=r"written for the target 'dev'.* not for 'prod'"
    ) as caught:
        load_project(shop, target="prod")
    assert caught.value.hint == "run `dbt parse --target prod` in the dbt project"


def test_relations_in_annotations(shop: Path) -> None:
    file = shop / "models/marts/customers.sql"
    check = "@references({{ ref('stg_customers') }}, customer_id)"
    file.write_text(f"select customer_id -- {check}\nfrom t\n", "utf-8")
    found = models(load_project(shop))["customers"].annotations[0]
    assert found.expression == "references(ref('stg_customers'), customer_id)"


def test_annotations_of_snapshots(shop: Path) -> None:
    block = "\n{{ config(unique_key='customer_id') }}\nselect customer_id -- @not_null\nfrom t\n"
    file = shop / "models/marts/customers.sql"
    file.write_text(f"-- @unique\n{{% snapshot customers %}}{block}{{% endsnapshot %}}\n", "utf-8")
    customers = "model.shop.customers"
    change(shop, lambda m: m["nodes"][customers].update(raw_code=block, resource_type="snapshot"))
    found = models(load_project(shop))["customers"].annotations[0]
    assert (found.expression, found.column) == ("not_null", "customer_id")
    assert str(found.span) == "models/marts/customers.sql:4:23"


def test_what_dbt_did_not_build_is_told(shop: Path) -> None:
    statuses = {
        "model.shop.orders": "error",
        "model.shop.customers": "skipped",
        "test.shop.x": "error",
        "model.shop.payments": "success",
    }
    content = {
        "metadata": {"generated_at": "2026-01-01T00:00:00Z"},
        "results": [{"unique_id": uid, "status": status} for uid, status in statuses.items()],
    }
    (shop / "target/run_results.json").write_text(json.dumps(content), encoding="utf-8")
    told = "orders failed, customers skipped; what is checked is what was there before"
    assert f"dbt's last invocation: {told}" in load_project(shop).warnings
    content["args"] = {"which": "compile"}
    (shop / "target/run_results.json").write_text(json.dumps(content), encoding="utf-8")
    assert not any("last invocation" in w for w in load_project(shop).warnings)


def test_a_project_of_dbt_needs_a_profile(shop: Path) -> None:
    (shop / "profiles.yml").unlink()
    with pytest.raises(ProfileError, match=r"there is no profiles.yml, which says where dbt"):
        load_project(shop)

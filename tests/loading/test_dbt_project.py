"""dbt projects as they are: manifest, settings, sources, tests that are adopted or left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dqsql.compiler.rowchecks import failing_rows
from dqsql.errors import DqsqlError
from dqsql.loading import load_project
from dqsql.loading.dbt.generic import ADOPTED
from dqsql.model.project import DBT_TEST_NAME, Annotation, CheckModel, Project, Severity
from dqsql.runner.compilation import compile_project
from dqsql.runner.warnings import project_warnings

HERE = Path(__file__).parent / "dbt"
Change = Callable[[dict[str, Any]], None]


def change(root: Path, edit: Change) -> None:
    file = root / "target" / "manifest.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    edit(data)
    file.write_text(json.dumps(data), encoding="utf-8")


def models(project: Project) -> dict[str, CheckModel]:
    return {m.name: m for m in project.models}


def adopted(project: Project) -> dict[str, Annotation]:
    return {
        str(a.settings.name): a
        for m in project.models
        for a in m.annotations
        if DBT_TEST_NAME in a.settings.options
    }


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


def test_the_owner_of_a_group(shop: Path) -> None:
    change(shop, lambda m: m["nodes"]["model.shop.orders"]["config"].pop("meta"))
    change(shop, lambda m: m["nodes"]["model.shop.orders"].pop("meta"))
    assert models(load_project(shop))["orders"].config.owner == "Sales team"


def test_tests_are_adopted_on_request_only(shop: Path) -> None:
    assert not adopted(load_project(shop))
    text = (shop / "dbt_project.yml").read_text(encoding="utf-8")
    own = text.replace("    severity: error", "    adopt_dbt_tests: true")
    (shop / "dbt_project.yml").write_text(own, encoding="utf-8")
    assert adopted(load_project(shop))
    assert not adopted(load_project(shop, dbt_tests=False))


def test_adopted_tests(shop: Path) -> None:
    project = load_project(shop, dbt_tests=True)
    found = adopted(project)
    assert "disabled_test" not in found
    few = found["amounts_are_small"]
    assert few.settings.where == "(status = 'placed')"
    assert few.expression == "expect(count_if(not (amount) < 200) = 0)"
    assert few.span.file == "models/schema.yml"
    assert found["no_returns"].settings.severity is Severity.ERROR
    assert found["no_returns"].expression.endswith("<= 1)")
    assert found["no_returns:warn"].settings.severity is Severity.WARN
    assert found["not_null_customers_orders"].settings.options["store_failures"] is True
    assert found["notes_are_few"].settings.severity is Severity.WARN
    left = {t.name: t.reason for t in project.left_tests}
    singular = found["no_negative_amounts"]
    assert singular.expression == "expect(count_if((amount < 0)) = 0)"
    assert (singular.span.file, singular.column) == ("tests/no_negative_amounts.sql", None)
    assert "helper is ephemeral" in left["not_null_helper_one"]
    assert "neighbouring rows" in left["dbt_utils_sequential_values_orders_order_id"]


def test_every_promised_test_is_known() -> None:
    promised = "accepted_range expression_is_true not_null_proportion not_empty_string"
    promised += " unique_combination_of_columns at_least_one not_constant equal_rowcount"
    promised += " fewer_rows_than recency relationships_where"
    assert {f"dbt_utils.{name}" for name in promised.split()} <= ADOPTED
    assert {"unique", "not_null", "accepted_values", "relationships"} <= ADOPTED


def _test_of(name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(n for n in manifest["nodes"].values() if n.get("name") == name)
    return found


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("not_null_orders_order_id", "fail_calc", "sum(x)", "fail_calc is 'sum(x)'"),
        ("not_null_orders_order_id", "where", "{{ my_macro() }}", "only dbt can render"),
        (
            "dbt_utils_equal_rowcount_customers_ref_stg_customers_",
            "where",
            "orders > 1",
            "`where` restricts one of the two relations",
        ),
        ("not_null_orders_order_id", "limit", 0, "it cannot fail"),
        ("dbt_utils_equal_rowcount_customers_ref_stg_customers_", "limit", 0, "it cannot fail"),
    ],
)
def test_configurations_that_are_left(
    shop: Path, name: str, key: str, value: object, reason: str
) -> None:
    change(shop, lambda m: _test_of(name, m)["config"].update({key: value}))
    project = load_project(shop, dbt_tests=True)
    assert name not in adopted(project)
    assert reason in next(t.reason for t in project.left_tests if t.name == name)


def test_a_generic_test_of_the_project_replaces_dbts(shop: Path) -> None:
    def override(manifest: dict[str, Any]) -> None:
        test = _test_of("not_null_orders_order_id", manifest)
        test["depends_on"]["macros"] = ["macro.shop.test_not_null"]

    change(shop, override)
    left = {t.name: t.reason for t in load_project(shop, dbt_tests=True).left_tests}
    assert left["not_null_orders_order_id"] == "the project defines a test not_null of its own"


def test_a_package_has_a_test_of_a_name_that_another_has(shop: Path) -> None:
    def expect(manifest: dict[str, Any]) -> None:
        test = _test_of("not_null_orders_order_id", manifest)
        metadata = {"name": "expression_is_true", "namespace": "dbt_expectations"}
        test["test_metadata"].update(metadata, kwargs={"expression": "total > 0"})
        # dbt looks for the name only when it lists what a test depends on.
        test["depends_on"]["macros"] = ["macro.dbt_utils.test_expression_is_true"]
        for name in ("test_expression_is_true", "default__test_expression_is_true"):
            manifest.setdefault("macros", {})[f"macro.dbt_utils.{name}"] = {}

    change(shop, expect)
    assert "not_null_orders_order_id" in adopted(load_project(shop, dbt_tests=True))


def test_tests_of_the_whole_table_stand_beside_batches(shop: Path) -> None:
    def batches(manifest: dict[str, Any]) -> None:
        config = manifest["nodes"]["model.shop.orders"]["config"]
        config.update(
            {
                "materialized": "incremental",
                "incremental_strategy": "microbatch",
                "event_time": "ordered_at",
                "batch_size": "day",
                "begin": "2025-01-01",
                "lookback": 2,
            }
        )

    change(shop, batches)
    found = models(load_project(shop, dbt_tests=True))
    orders, whole = found["orders"], found["orders__whole"]
    assert orders.config.batch_by == "cast(ordered_at as date)"
    assert orders.config.extra["begin"] == "2025-01-01"
    assert orders.config.extra["lookback"] == 3
    assert whole.config.batch_by is None
    by_row = {a.settings.options.get(DBT_TEST_NAME) for a in orders.annotations}
    of_all = {a.settings.options.get(DBT_TEST_NAME) for a in whole.annotations}
    assert {"not_null", "relationships", "accepted_range"} <= by_row
    assert {"unique", "recency", "expect_column_mean_to_be_between"} <= of_all
    assert "unique" not in by_row


def test_freshness_of_a_source(shop: Path) -> None:
    def fresh(manifest: dict[str, Any]) -> None:
        source = manifest["sources"]["source.shop.raw.raw_payments"]
        source["loaded_at_field"] = "loaded_at"
        source["freshness"] = {
            "warn_after": {"count": 12, "period": "hour"},
            "error_after": {"count": 2, "period": "day"},
            "filter": "cents > 0",
        }

    change(shop, fresh)
    checks = models(load_project(shop))["raw__raw_payments"].annotations
    assert [(c.expression, c.settings.severity, c.settings.where) for c in checks] == [
        ("expect(freshness(loaded_at) <= 48)", Severity.ERROR, "cents > 0"),
        ("expect(freshness(loaded_at) <= 12)", Severity.WARN, "cents > 0"),
    ]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "it has no loaded_at_field"),
        ({"loaded_at_query": "select max(x) from y"}, "loaded_at_query is a separate query"),
        (
            {"loaded_at_field": "of_the_source", "loaded_at_query": "select max(x) from y"},
            "loaded_at_query is a separate query",
        ),
    ],
)
def test_freshness_that_only_dbt_can_judge(shop: Path, more: dict[str, str], reason: str) -> None:
    def fresh(manifest: dict[str, Any]) -> None:
        source = manifest["sources"]["source.shop.raw.raw_payments"]
        source["freshness"] = {"warn_after": {"count": 12, "period": "hour"}}
        source["config"].update(more)

    change(shop, fresh)
    project = load_project(shop)
    assert not models(project)["raw__raw_payments"].annotations
    (left,) = project.left_tests
    assert left.unique_id == "source.shop.raw.raw_payments"
    assert reason in left.reason
    (warning,) = project.warnings
    assert "freshness of raw__raw_payments is left to `dbt source freshness`" in warning
    assert not any("left to `dbt test`" in w for w in project_warnings(project))


def test_a_missing_manifest(shop: Path) -> None:
    (shop / "target" / "manifest.json").unlink()
    with pytest.raises(DqsqlError, match=r"there is no target/manifest.json") as caught:
        load_project(shop)
    assert "dbt parse" in str(caught.value.hint)


@pytest.mark.parametrize("version", [10, 11])
def test_older_manifests(shop: Path, version: int) -> None:
    """What dbt 1.6 and 1.7 wrote: `tests` for `data_tests`, freshness beside the configuration."""
    newest = load_project(shop, dbt_tests=True)

    def older(manifest: dict[str, Any]) -> None:
        schema = f"https://schemas.getdbt.com/dbt/manifest/v{version}.json"
        manifest["metadata"]["dbt_schema_version"] = schema
        manifest["metrics"], manifest["semantic_models"] = {}, {}
        if version == 10:
            manifest.pop("groups")
            for node in manifest["nodes"].values():
                node.pop("group", None)
        for key in ("unit_tests", "saved_queries"):
            manifest.pop(key, None)
        for source in manifest["sources"].values():
            source["config"] = {"enabled": True}

    change(shop, older)
    project = load_project(shop, dbt_tests=True)
    assert [m.name for m in project.models] == [m.name for m in newest.models]
    assert adopted(project) == adopted(newest)
    assert project.left_tests == newest.left_tests


def test_nulls_in_place_of_what_is_empty(shop: Path) -> None:
    """dbt 2 writes null where dbt 1 writes an empty mapping or list, or nothing."""
    before = load_project(shop, dbt_tests=True)

    def nulled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: nulled(v) for key, v in value.items()} or None
        return [nulled(v) for v in value] or None if isinstance(value, list) else value

    def change_all(manifest: dict[str, Any]) -> None:
        optional = ("meta", "tags", "description", "group", "columns", "version", "patch_path")
        for kind in ("nodes", "sources"):
            manifest[kind] = {
                uid: {**dict.fromkeys(optional), **nulled(node)}
                for uid, node in manifest[kind].items()
            }
        manifest["groups"] = nulled(manifest["groups"])
        manifest["disabled"] = nulled(manifest["disabled"])

    change(shop, change_all)
    project = load_project(shop, dbt_tests=True)
    assert [m.name for m in project.models] == [m.name for m in before.models]
    assert adopted(project) == adopted(before)
    assert project.left_tests == before.left_tests


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is not a manifest of dbt"),
        ('{"metadata": {"dbt_schema_version": "x/manifest/v7.json"}}', "(?s)10 to 12.*dbt 1.6"),
        ('{"metadata": {"dbt_schema_version": "x/manifest/v20.json"}}', "(?s)10 to 12.*version 12"),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "other"}}',
            "belongs to the project 'other'",
        ),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v' + "1" * 5000 + '.json"}}',
            "10 to 12",
        ),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "shop"},'
            ' "sources": {"source.shop.a.b": {"unique_id": "source.shop.a.b", "name": "b",'
            ' "resource_type": "source"}}}',
            "not a manifest of dbt: .*source_name",
        ),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "shop"},'
            ' "nodes": {"model.shop.a": {"unique_id": "model.shop.b", "resource_type": "model",'
            ' "name": "a"}}}',
            "not a manifest of dbt: nodes: 'model.shop.a' is called 'model.shop.b'",
        ),
    ],
)
def test_manifests_that_cannot_be_used(shop: Path, content: str, message: str) -> None:
    (shop / "target" / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(DqsqlError, match=message):
        load_project(shop)


@pytest.mark.parametrize("seen", [str.strip, lambda text: " ".join(text.split()), str])
def test_a_manifest_is_as_new_as_its_files(shop: Path, seen: Callable[[str], str]) -> None:
    """By dbt's checksums up to 1.11, of 1.12, and of a whole file."""
    file = shop / "target/manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    assert not load_project(shop).warnings
    for node in manifest["nodes"].values():
        if node["resource_type"] == "model":
            text = (shop / node["original_file_path"]).read_text("utf-8")
            node["checksum"]["checksum"] = hashlib.sha256(seen(text).encode()).hexdigest()
    file.write_text(json.dumps(manifest), "utf-8")
    assert not load_project(shop).warnings


def test_a_stale_manifest_is_said(shop: Path) -> None:
    orders = shop / "models/marts/orders.sql"
    orders.write_text(orders.read_text(encoding="utf-8") + "\n-- @row_count > 1\n", "utf-8")
    (shop / "models/new.sql").write_text("select 1 as a", encoding="utf-8")
    (shop / "models/marts/payments.sql").unlink()
    project = load_project(shop)
    (warning,) = project.warnings
    assert "models/marts/orders.sql has changed" in warning
    assert "models/new.sql is new" in warning
    assert "models/marts/payments.sql is gone" in warning
    assert "dbt parse" in warning
    # Annotations are those of the file as it is now.
    found = [a.expression for a in models(project)["orders"].annotations]
    assert "row_count > 1" in found


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


def test_implementations_of_other_packages_are_not_known(shop: Path) -> None:
    change(shop, lambda m: m["macros"].update({"macro.shop.spark__test_unique": {}}))
    left = {t.name: t.reason for t in load_project(shop, dbt_tests=True).left_tests}
    assert left["unique_orders_order_id"] == "shop replaces the test unique"


@pytest.mark.parametrize(
    ("column", "expression", "about"),
    [
        ("case", "expect(null_count(`case`) = 0)", "case"),
        ("`a b`", "expect(null_count(`a b`) = 0)", "a b"),
        ("lower(status)", "expect(null_count(lower(status)) = 0)", None),
        ("address.city", "expect(null_count(address.city) = 0)", None),
    ],
)
def test_names_of_columns(shop: Path, column: str, expression: str, about: str | None) -> None:
    name = "not_null_orders_order_id"
    change(
        shop,
        lambda m: _test_of(name, m)["test_metadata"]["kwargs"].update({"column_name": column}),
    )
    found = adopted(load_project(shop, dbt_tests=True))[name]
    assert (found.expression, found.column) == (expression, about)


def test_rows_of_a_combination_that_is_not_unique_can_be_sampled(shop: Path) -> None:
    (plan,) = compile_project(shop, select=["orders"], dbt_tests=True).plans
    name = "dbt_utils_unique_combination_of_columns_orders_customer_id__order_id"
    check = next(c for c in plan.checks if c.name == name)
    found = failing_rows(plan, check)
    assert found is not None
    assert [[c.name for c in t.columns] for t in found.unique] == [["customer_id", "order_id"]]


@pytest.mark.parametrize("batch_by", [None, "date(ordered_at)"])
def test_keys_that_tests_want_unique(shop: Path, batch_by: str | None) -> None:
    """Also where a model with batches leaves `unique` to a check model of the whole table."""

    def edit(manifest: dict[str, Any]) -> None:
        meta = manifest["nodes"]["model.shop.orders"]["config"]["meta"]
        meta["dqsql"] = {} if batch_by is None else {"batch_by": batch_by}

    change(shop, edit)
    plans = {p.model.name: p for p in compile_project(shop, dbt_tests=True).plans}
    (orders,) = plans["payments"].relations
    assert (orders.name, orders.unique_keys) == ("orders", (frozenset({"order_id"}),))
    assert ("orders__whole" in plans) == (batch_by is not None)

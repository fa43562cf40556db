"""Which tests of dbt are adopted, as what, and which are left to dbt and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dqsql.compiler.rowchecks import failing_rows
from dqsql.loading import load_project
from dqsql.loading.dbt.generic import ADOPTED
from dqsql.model.project import DBT_TEST_NAME, Severity
from dqsql.runner.compilation import compile_project
from dqsql.runner.warnings import project_warnings
from tests.loading.dbt.manifests import adopted, change, models, the_test


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
    change(shop, lambda m: the_test(name, m)["config"].update({key: value}))
    project = load_project(shop, dbt_tests=True)
    assert name not in adopted(project)
    assert reason in next(t.reason for t in project.left_tests if t.name == name)


def test_a_replaced_where_is_left_to_dbt(shop: Path) -> None:
    name = "spark__get_where_subquery"
    replaced = {f"macro.shop.{name}": {"name": name, "package_name": "shop"}}
    change(shop, lambda m: m.setdefault("macros", {}).update(replaced))
    left = {t.name: t.reason for t in load_project(shop, dbt_tests=True).left_tests}
    assert left["amounts_are_small"].startswith("the project defines get_where_subquery")


def test_unit_tests_are_left_with_a_word(shop: Path) -> None:
    own = {"unit_test.shop.orders.adds_up": {"name": "adds_up", "config": {"enabled": True}}}
    change(shop, lambda m: m.update(unit_tests=own))
    left = {t.unique_id: t.reason for t in load_project(shop, dbt_tests=True).left_tests}
    assert left["unit_test.shop.orders.adds_up"] == "it is a unit test"


def test_a_generic_test_of_the_project_replaces_dbts(shop: Path) -> None:
    def override(manifest: dict[str, Any]) -> None:
        test = the_test("not_null_orders_order_id", manifest)
        test["depends_on"]["macros"] = ["macro.shop.test_not_null"]

    change(shop, override)
    left = {t.name: t.reason for t in load_project(shop, dbt_tests=True).left_tests}
    assert left["not_null_orders_order_id"] == "the project defines a test not_null of its own"


def test_a_package_has_a_test_of_a_name_that_another_has(shop: Path) -> None:
    def expect(manifest: dict[str, Any]) -> None:
        test = the_test("not_null_orders_order_id", manifest)
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


def test_freshness_of_no_hours(shop: Path) -> None:
    def fresh(manifest: dict[str, Any]) -> None:
        source = manifest["sources"]["source.shop.raw.raw_payments"]
        source["loaded_at_field"] = "loaded_at"
        source["freshness"] = {"warn_after": {"count": 0, "period": "hour"}}

    change(shop, fresh)
    (check,) = models(load_project(shop))["raw__raw_payments"].annotations
    assert check.expression == "expect(freshness(loaded_at) <= 0)"


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
        shop, lambda m: the_test(name, m)["test_metadata"]["kwargs"].update({"column_name": column})
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

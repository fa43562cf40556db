"""Contracts that are read: rules of the standard, and what dbt enforces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import compile_model
from dqsql.errors import ConfigError
from dqsql.loading import load_project
from dqsql.loading.contracts.odcs import read_odcs
from dqsql.loading.contracts.rules import Unfit, rule_of, value_checks
from dqsql.model.project import Severity
from dqsql.monitors import registry
from dqsql.monitors.catalog import catalog_of
from dqsql.runner.warnings import project_warnings

# Loading asks which settings monitors have.
assert registry.all_kinds()


@pytest.mark.parametrize(
    ("rule", "expression"),
    [
        ({"metric": "nullValues", "mustBe": 0}, "expect(count_if({c} is null) = 0)"),
        (
            {"metric": "nullValues", "mustBeLessThan": 1, "unit": "percent"},
            "expect(count_if({c} is null) * 100.0 / nullif(count(*), 0) < 1)",
        ),
        (
            {
                "metric": "missingValues",
                "arguments": {"missingValues": [None, "", "N/A"]},
                "mustBeLessOrEqualTo": 100,
            },
            "expect(count_if({c} is null or {c} in ('', 'N/A')) <= 100)",
        ),
        (
            {"rule": "invalidValues", "arguments": {"validValues": [1, 2]}, "mustNotBe": 3},
            "expect(count_if({c} not in (1, 2)) <> 3)",
        ),
        (
            {"metric": "invalidValues", "pattern": r"^\d'+$", "mustBe": 0},
            "expect(count_if(not {c} rlike '^\\\\d\\'+$') = 0)",
        ),
        (
            {"metric": "duplicateValues", "mustBeLessThan": 10},
            "expect(coalesce(duplicate_count({c}), 0) < 10)",
        ),
        ({"metric": "rowCount", "mustBeBetween": [100, 120]}, "row_count between 100 and 120"),
        (
            {"type": "sql", "query": "SELECT max({property}) FROM {object}", "mustBe": 5},
            "expect(MAX(`x`) = 5)",
        ),
        ({"type": "custom", "engine": "dqsql", "implementation": "@avh"}, "avh"),
        (
            {"metric": "nullValues", "mustBeGreaterThan": 0, "mustBeLessThan": "12345678"},
            "expect(count_if({c} is null) > 0 and count_if({c} is null) < 12345678)",
        ),
        (
            {"metric": "rowCount", "mustBeGreaterThan": 0, "mustBeLessThan": 9},
            "expect(count(*) > 0 and count(*) < 9)",
        ),
        (
            {"metric": "invalidValues", "arguments": {"validValues": ["a"]}, "mustBe": 0},
            "accepted_values('a')",
        ),
        (
            {
                "metric": "invalidValues",
                "arguments": {"validValues": ["a"], "pattern": "b"},
                "mustBe": 0,
            },
            "expect(count_if({c} not in ('a') or not {c} rlike 'b') = 0)",
        ),
        # As version 3.0 of the standard calls them.
        ({"rule": "nullCheck"}, "expect(count_if({c} is null) = 0)"),
        ({"rule": "countCheck", "mustBeGreaterThan": 9}, "row_count > 9"),
        (
            {"rule": "duplicateCount", "mustBeLessThan": 10, "unit": "rows"},
            "expect(coalesce(duplicate_count({c}), 0) < 10)",
        ),
        ({"rule": "validValues", "validValues": ["a", "b"]}, "accepted_values('a', 'b')"),
        (
            {"rule": "validValues", "validValues": ["a"], "mustBeGreaterThan": 9},
            "expect(count_if(not ({c} not in ('a'))) > 9)",
        ),
    ],
)
def test_rules(rule: dict[str, Any], expression: str) -> None:
    assert rule_of(rule, "x").expression == expression


def test_a_query_with_a_condition_and_what_is_not_understood() -> None:
    query = "select count(*) from ${object} where ${property} is not null and y > 1"
    found = rule_of(
        {"type": "sql", "query": query, "mustBeGreaterThan": 3, "severity": "Warning"}, "x"
    )
    assert (found.settings, found.severity) == (
        {"where": "NOT `x` IS NULL AND y > 1"},
        Severity.WARN,
    )
    query = "select count({property}) from {object}"
    found = rule_of({"type": "sql", "query": query, "mustBe": 0}, r"a\d")
    assert found.expression == r"expect(COUNT(`a\d`) = 0)"
    for rule, reason in (
        ({"type": "text", "description": "all is well"}, "it is plain text"),
        ({"type": "custom", "engine": "soda"}, "it is for soda"),
        (
            {
                "type": "custom",
                "engine": "dqsql",
                "implementation": "@not_null",
                "customProperties": [{"property": "mostly", "value": 7}],
            },
            "mostly",
        ),
        (
            {
                "type": "custom",
                "engine": "dqsql",
                "implementation": "@not_null {severity: warn} @unique",
            },
            "text after the annotation",
        ),
        ({"metric": "nullValues"}, "has no condition"),
        ({"metric": "odd", "mustBe": 1}, "not in the standard"),
        ({"type": "sql", "query": "select a from {object}", "mustBe": 1}, "not an aggregate"),
        (
            {"type": "sql", "query": "select count(*) from {object} join u", "mustBe": 1},
            "more than one aggregate",
        ),
        ({"metric": "rowCount", "mustBe": "many"}, "not a number"),
        (
            {"metric": "invalidValues", "arguments": {"validValues": [None]}, "mustBe": 0},
            "neither validValues nor pattern",
        ),
        ({"metric": "rowCount", "mustBe": 1, "mustBeLesThan": 9}, "mustBeLesThan is no condition"),
        ({"metric": "rowCount", "mustBeBetween": [1]}, "takes two numbers"),
        ({"metric": "nullValues", "mustBe": 0, "unit": "permille"}, "neither rows nor percent"),
        (
            {
                "type": "sql",
                "query": "select count(*) from {object} tablesample (5 rows)",
                "mustBe": 1,
            },
            "more than one aggregate",
        ),
    ):
        with pytest.raises(Unfit, match=reason):
            rule_of(rule, "x")


def test_settings_of_a_rule_for_dqsql_are_its_custom_properties() -> None:
    given = {"where": "a > 1", "mostly": 0.9, "window": 60, "ticket": "X-1"}
    rule = {
        "type": "custom",
        "engine": "dqsql",
        "implementation": "@anomaly(row_count)",
        "customProperties": [{"property": k, "value": v} for k, v in given.items()],
    }
    # Those of other tools are left alone.
    assert rule_of(rule, None).settings == {k: v for k, v in given.items() if k != "ticket"}


def test_options_of_logical_types() -> None:
    options = {"minLength": 11, "pattern": "ACC[0-9]{8}", "exclusiveMaximum": "2021-01-01"}
    data = {"logicalType": "date", "enum": [{"value": "a"}, {"value": 3}]}
    found, left = value_checks(options, data)
    assert left == []
    assert [c.expression for c in found] == [
        "satisfies({c} is null or {c} < date '2021-01-01')",
        "satisfies({c} is null or length({c}) >= 11)",
        "matches('ACC[0-9]{8}')",
        "accepted_values('a', 3)",
    ]


def test_bounds_before_version_3_1_are_exclusive_by_a_second_option() -> None:
    options = {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    more = {"multipleOf": 5, "uniqueItems": True}
    found, _ = value_checks({**options, **more}, {"logicalType": "integer"})
    assert [c.expression.removeprefix("satisfies({c} is null or ") for c in found] == [
        "{c} <= 9)",
        "{c} > 0)",
        "size(array_distinct({c})) = size({c}))",
        "{c} % 5 = 0)",
    ]
    (found,), _ = value_checks({"multipleOf": 0.1}, {"logicalType": "number"})
    text = "try_cast(cast({c} as string) as decimal(38,18))"
    assert found.expression.endswith(f"{text} % 0.1 = 0)")
    (small,), _ = value_checks({"multipleOf": 0.00001}, {})
    assert small.expression.endswith(" % 0.00001 = 0)")


def test_an_option_that_cannot_be_read_leaves_the_others() -> None:
    options = {"minimum": 0, "maximum": "many", "multipleOf": 0, "pattern": None}
    found, left = value_checks(options, {"enum": [1, None, {"value": 2}]})
    assert [c.expression for c in found] == [
        "satisfies({c} is null or {c} >= 0)",
        "accepted_values(1, 2)",
    ]
    assert left == ["'many' is not a number", "multipleOf 0 is not above 0"]
    # Without a logical type, the physical one says what a bound is.
    (since,), _ = value_checks({"minimum": "2020-01-01"}, {"physicalType": "DATE"})
    assert since.expression == "satisfies({c} is null or {c} >= date '2020-01-01')"


@pytest.mark.parametrize(
    ("promise", "message"),
    [
        ('required: "true"', "required must be true or false, not 'true'"),
        ("unique: 1", "unique must be true or false"),
        ("quality: {metric: nullValues, mustBe: 0}", "quality must be a list"),
        ("quality: [never null]", "a rule of quality is a mapping, not 'never null'"),
        ("enum: EU", "enum must be a list, not 'EU'"),
        ("logicalTypeOptions: [minimum]", "logicalTypeOptions must be a mapping"),
        ("logicalType: string, enum: [NO, SE]", "False is no text"),
        (
            "logicalType: string, quality: [{metric: invalidValues, arguments: {validValues: [NO]},"
            " mustBe: 0}]",
            "False is no text",
        ),
    ],
)
def test_a_promise_that_is_none_is_an_error(tmp_path: Path, promise: str, message: str) -> None:
    file = tmp_path / "c.yaml"
    head = "apiVersion: v3.1.0\nkind: DataContract\n"
    file.write_text(
        f"{head}schema:\n  - name: a\n    properties:\n      - {{name: x, {promise}}}\n"
    )
    with pytest.raises(ConfigError, match=message) as error:
        read_odcs(file, "c.yaml")
    assert error.value.span is not None and error.value.span.line == 6


@pytest.mark.parametrize(("default", "number"), [("error", 1), ("warn", 2)])
def test_a_promise_of_severity_error_is_kept_by_the_default(
    tmp_path: Path, default: str, number: int
) -> None:
    (tmp_path / "dqsql_project.yml").write_text(f"name: shop\nseverity: {default}\n")
    (tmp_path / "checks").mkdir()
    (tmp_path / "c.yaml").write_text(
        "apiVersion: v3.1.0\nkind: DataContract\nschema:\n  - name: m\n    quality:\n"
        "      - {metric: rowCount, mustBeGreaterThan: 0, severity: error}\n"
    )
    text = "{{ config(contract = 'c.yaml') }}\nselect 1 as a\n-- @row_count > 0\n"
    (tmp_path / "checks" / "m.sql").write_text(text)
    (model,) = load_project(tmp_path).models
    assert [a.expression for a in model.annotations] == ["row_count > 0"] * number


def test_what_is_not_checked_is_told_in_each_run(tmp_path: Path) -> None:
    (tmp_path / "dqsql_project.yml").write_text("name: shop\n")
    for name, rule in (("a", "multipleOf: 0"), ("b", "minimum: 0")):
        (tmp_path / f"{name}.yaml").write_text(
            "apiVersion: v3.1.0\nkind: DataContract\nschema:\n  - name: orders\n    properties:\n"
            f"      - {{name: x, logicalTypeOptions: {{{rule}}}}}\n"
        )
        (tmp_path / "checks").mkdir(exist_ok=True)
        text = f"{{{{ config(contract = '{name}.yaml') }}}}\nselect 1 as x"
        (tmp_path / "checks" / f"{name}.sql").write_text(text)
    assert project_warnings(load_project(tmp_path)) == (
        "1 promise of a contract is not checked: orders: x: multipleOf 0 is not above 0",
    )


def test_what_the_model_says_weaker_stands_beside_the_promise(tmp_path: Path) -> None:
    (tmp_path / "dqsql_project.yml").write_text("name: shop\n")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "m.sql").write_text(
        "{{ config(contract = {'columns': {'a': 'int not null', 'b': 'int not null'}}) }}\n"
        "select 1 as a, -- @not_null {severity: warn}\n 2 as b -- @not_null {name: mine}\n"
    )
    (model,) = load_project(tmp_path).models
    assert len(model.annotations) == 4
    said = [
        (a.column, a.settings.severity, a.settings.name, a.settings.tags)
        for a in model.annotations
        if a.expression == "not_null"
    ]
    assert said == [
        ("a", Severity.WARN, None, ()),
        ("b", None, "mine", ("contract",)),
        ("a", None, None, ("contract",)),
    ]


def test_settings_in_braces_of_a_rule_for_dqsql() -> None:
    text = "@row_count < 3 {severity: warn, name: few}"
    rule = {"type": "custom", "engine": "dqsql", "implementation": text}
    found = rule_of(rule, None)
    assert (found.expression, found.settings) == (
        "row_count < 3",
        {"severity": "warn", "name": "few"},
    )
    with pytest.raises(Unfit, match="sevrity"):
        rule_of({**rule, "implementation": "@row_count < 3 {sevrity: warn}"}, None)


def test_what_a_contract_says_and_dqsql_does_not_check(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        """\
apiVersion: v3.1.0
kind: DataContract
slaProperties: [{property: latency, value: 4, unit: d}]
schema:
  - name: a
    properties:
      - name: g
        physicalType: GEOGRAPHY
      - name: mail
        logicalType: string
        logicalTypeOptions: {format: email, minLength: 3}
        quality:
          - {metric: nullValues, mustBe: 0}
      - name: deep
        logicalType: object
        properties: [{name: inner, required: true}]
      - name: plain
        logicalType: array
        items: {logicalType: string}
"""
    )
    contract = read_odcs(file, "c.yaml")
    assert contract.left == (
        "g: 'GEOGRAPHY' is no type of Spark, so that any type passes",
        "mail: the option format of logicalTypeOptions",
        "deep: what is said of its fields",
        "slaProperties: say @freshness or @late in the check model",
    )
    mail = contract.columns[1]
    lines = [mail.span, *(c.span for c in mail.checks)]
    assert [None if span is None else span.line for span in lines] == [9, None, 13]


def test_objects_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = """\
apiVersion: v3.0.2
kind: DataContract
schema:
  - name: a
    physicalName: db.a_1
    properties:
      - {name: x, physicalType: NUMBER(3), logicalType: integer, primaryKey: true, primaryKeyPosition: 2}
      - {name: y, primaryKey: true, primaryKeyPosition: 1, quality: [{type: text, description: fine}]}
  - name: b
    properties: [{name: z}]
"""  # noqa: E501
    file.write_text(text)
    contract = read_odcs(file, "c.yaml", "A_1".replace("A_1", "a"))
    assert (contract.name, contract.key) == ("db.a_1", ("y", "x"))
    assert [c.type for c in contract.columns] == ["<integer>", ""]
    assert contract.left == ("y: fine: it is plain text",)
    with pytest.raises(ConfigError, match="2 objects"):
        read_odcs(file, "c.yaml")
    file.write_text(text.replace("v3.0.2", "v2.2.2"))
    with pytest.raises(ConfigError, match="not a data contract of version 3"):
        read_odcs(file, "c.yaml", "b")


def _enforced(shop: Path, meta: Any = None) -> list[tuple[str | None, str]]:
    file = shop / "target" / "manifest.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    node = data["nodes"]["model.shop.stg_customers"]
    node["config"]["contract"] = {"enforced": True}
    node["config"]["meta"] = {"dqsql": meta} if meta else {}
    node["columns"] = {
        "customer_id": {
            "name": "customer_id",
            "data_type": "BIGINT",
            "constraints": [{"type": "primary_key"}],
        },
        "name": {
            "name": "name",
            "data_type": "varchar(20)",
            "constraints": [{"type": "check", "expression": "length(name) > 1"}],
        },
    }
    node["constraints"] = [{"type": "unique", "columns": ["customer_id", "name"]}]
    file.write_text(json.dumps(data), encoding="utf-8")
    project = load_project(shop)
    model = next(m for m in project.models if m.name == "stg_customers")
    catalog: Catalog = catalog_of(project)
    assert not compile_model(model, project, catalog).rejected
    return [(a.column, a.expression) for a in model.annotations if "contract" in a.settings.tags]


def test_what_dbt_enforces(shop: Path) -> None:
    assert _enforced(shop) == [
        # What the model says already is promised, too.
        ("customer_id", "unique"),
        ("customer_id", "not_null"),
        (None, "schema_is('customer_id bigint, name string', closed => true)"),
        ("name", "satisfies(coalesce(length(name) > 1, true))"),
        (None, "unique(`customer_id`, `name`)"),
    ]


def test_a_contract_may_be_left_to_dbt(shop: Path) -> None:
    assert _enforced(shop, {"contract": False}) == []

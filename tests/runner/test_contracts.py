"""Contracts: the one in the documentation, kept and broken; written and read again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import dqsql
from dqsql.cli.main import cli
from dqsql.errors import ConfigError
from dqsql.model.results import Status

from .conftest import NewProject, Project

DOCS = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text("utf-8")
CONTRACT = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)[0]
MODEL, INLINE = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)[:2]
FILE = "contracts/orders.odcs.yaml"
GOOD = """\
select cast(id as bigint) as order_id, cast(5 as decimal(10,2)) as amount, 'EUR' as currency
from range(200)
"""


def call(project: Project, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [*words, "--project-dir", str(project.root)])
    assert result.exit_code == code, result.output
    return result.output


def statuses(project: Project) -> dict[str, tuple[str, str]]:
    found = project.run(full_refresh=True).results
    return {f"{r.column or ''}:{r.check_name[:9]}": (r.status.value, r.message) for r in found}


def test_the_contract_of_the_documentation(new_project: NewProject) -> None:
    project = new_project(MODEL.replace("'orders')", "'t')"), GOOD, {FILE: CONTRACT})
    assert {status for status, _ in statuses(project).values()} == {"pass"}
    tags = {c.tags for c in dqsql.compile_project(project.root).plans[0].checks}
    assert tags == {("contract",)}

    # Spark reads the narrower type without a word, and no check on values can tell.
    project.data(GOOD.replace("bigint", "int").replace("cast(5 as decimal(10,2)) as amount, ", ""))
    found = statuses(project)
    assert found[":contract"] == (
        "fail",
        "breaking: removed amount (decimal(10,2)), narrowed order_id (bigint -> int)",
    )
    assert found["order_id:unique"][0] == "pass"

    project.data(
        GOOD.replace("decimal(10,2)", "decimal(12,2)")
        .replace("'EUR'", "if(id < 3, 'GBP', 'EUR')")
        .replace("as currency", "as currency, 1 as more")
        .replace("cast(5", "cast(if(id = 7, null, id - 1)")
    )
    found = statuses(project)
    assert found[":contract"] == (
        "warn",
        "compatible: widened amount (decimal(10,2) -> decimal(12,2)), added more (int)",
    )
    assert found["amount:not_null"][0] == "fail"
    assert found["amount:satisfies"][0] == "fail"
    assert [s for n, (s, _) in found.items() if n.startswith("currency")] == ["fail"]

    # Written and read again it is the same.
    text = call(project, "contract", "export", "m")
    exported = yaml.safe_load(text)
    (made,) = exported["schema"]
    assert made["properties"][0] == {
        "name": "order_id",
        "logicalType": "integer",
        # The last run saw bigint again.
        "physicalType": "bigint",
        "required": True,
        "primaryKey": True,
        "primaryKeyPosition": 1,
    }
    project.write({"contracts/again.odcs.yaml": text})
    assert "checks/m.sql" in call(project, "contract", "import", "contracts/again.odcs.yaml")
    again = MODEL.replace("'orders')", "'t')").replace("orders.odcs", "again.odcs")
    before = {(c.column, c.expression) for c in dqsql.compile_project(project.root).plans[0].checks}
    project.write({"checks/m.sql": again})
    compiled = dqsql.compile_project(project.root)
    assert not compiled.errors
    assert {(c.column, c.expression) for c in compiled.plans[0].checks} == before


def test_a_contract_in_the_config_and_types_of_columns(new_project: NewProject) -> None:
    model = INLINE + (
        "select order_id, -- @has_type('<integer>')\n amount, -- @has_type('double')\n"
        " currency from {{ source('raw', 't') }} -- @schema_is('currency string')\n"
    )
    project = new_project(model, GOOD)
    found = {r.check_name[:20]: r for r in project.run().results}
    closed = found["contract"]
    assert (closed.status, closed.message) == (Status.FAIL, "breaking: added currency (string)")
    assert found["has_type('<integer>'"].status is Status.PASS
    wrong = found["has_type('double')"]
    assert (wrong.status, wrong.message) == (
        Status.FAIL,
        "amount is retyped: double -> decimal(10,2)",
    )
    assert found["schema_is('currency "].status is Status.PASS
    assert found["not_null"].status is Status.PASS


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("'contracts/none.yaml'", "there is no contract 'contracts/none.yaml'"),
        (f"'{FILE}#order'", "the contract has no object 'order'"),
        ("{'columns': {'a': 'number(3)'}}", "a: 'number(3)' is not a type of Spark"),
        ("{'colums': {}}", "unknown key 'colums' in a contract"),
        ("{'columns': {'a': 'int'}, 'key': ['b']}", "the contract's key names 'b'"),
    ],
)
def test_what_is_wrong_with_a_contract_is_told(
    new_project: NewProject, setting: str, message: str
) -> None:
    model = f"{{{{ config(contract = {setting}) }}}}\nselect 1 as a -- @not_null\n"
    project = new_project(model, files={FILE: CONTRACT})
    (error,) = dqsql.compile_project(project.root).errors
    assert isinstance(error, ConfigError)
    assert error.message.startswith(message)


def test_a_new_version_that_breaks_readers(new_project: NewProject) -> None:
    new = CONTRACT.replace("physicalType: bigint", "physicalType: int").replace(
        "required: true", "required: false"
    )
    new += "      - {metric: duplicateValues, mustBe: 0, arguments: {properties: [a, b]}}\n"
    project = new_project("select 1 as a -- @not_null\n", files={"a.yaml": CONTRACT, "b.yaml": new})
    files = (str(project.root / "a.yaml"), str(project.root / "b.yaml"))
    result = CliRunner().invoke(cli, ["contract", "diff", *files])
    assert result.exit_code == 1
    assert "BREAKING orders: narrowed order_id (bigint -> int)" in result.output
    assert "BREAKING orders: now nullable amount" in result.output
    assert "compatible orders: newly promised" in result.output
    assert CliRunner().invoke(cli, ["contract", "diff", files[0], files[0]]).exit_code == 0
    for number, text in enumerate(("", "kind: DataContract", "foo: 1", NO_OBJECTS)):
        other = project.write({f"{number}.yaml": text}) or str(project.root / f"{number}.yaml")
        for pair in ((other, files[0]), (files[0], other)):
            result = CliRunner().invoke(cli, ["contract", "diff", *pair])
            assert (result.exit_code, result.stdout) == (2, "")
    assert "describes no objects" in result.output
    mistyped = CliRunner().invoke(cli, ["contract", "diff", *files, "--object", "order"])
    assert mistyped.exit_code == 2
    assert "has no object 'order'" in mistyped.output
    assert "Wrote checks/orders.sql" in call(project, "contract", "import", files[0], "--write")
    written = (project.root / "checks" / "orders.sql").read_text("utf-8")
    assert written.startswith("{{ config(contract = 'a.yaml') }}\nselect *\nfrom ")


NO_OBJECTS = "apiVersion: v3.1.0\nkind: DataContract\nname: t\nschemas: []\n"

BOUNDS = """\
apiVersion: v3.1.0
kind: DataContract
name: t
schema:
  - name: t
    properties:
      - {name: "i d", physicalType: bigint, primaryKey: true}
      - {name: a, physicalType: double, logicalTypeOptions: {minimum: 0, exclusiveMaximum: 9.5}}
      - {name: c, physicalType: string, logicalTypeOptions: {minLength: 2, maxLength: 3}}
      - {name: arr, physicalType: array<int>, logicalTypeOptions: {minItems: 1}}
"""


def test_an_imported_model_survives_a_lost_column_and_is_exported_alike(
    new_project: NewProject,
) -> None:
    rows = "select id as `i d`, id * 1.0D as a, 'EUR' as c, array(1) as arr from range(9)"
    project = new_project(None, rows, {"contracts/t.odcs.yaml": BOUNDS})
    call(project, "contract", "import", "contracts/t.odcs.yaml", "--write")
    assert {r.status for r in project.run().results} == {Status.PASS}
    exported = yaml.safe_load(call(project, "contract", "export", "t"))
    given = yaml.safe_load(BOUNDS)["schema"][0]["properties"]
    kept = ("name", "physicalType", "primaryKey", "logicalTypeOptions")
    made = exported["schema"][0]["properties"]
    assert [{k: v for k, v in p.items() if k in kept} for p in made] == given
    assert not any(p.get("unique") or p.get("quality") for p in made)
    # What is gone is told, and all else is checked.
    project.data(rows.replace("'EUR' as c, ", ""))
    (model,) = project.attempt().models
    told = {f"{r.column or ''}:{r.check_name}": r for r in model.results}
    assert told[":contract"].status is Status.FAIL
    assert "removed c" in told[":contract"].message
    assert told["i d:unique"].status is Status.PASS
    assert {r.message for n, r in told.items() if n[0] == "c"} == {"c is missing, see contract"}
    assert {r.status for n, r in told.items() if n[0] == "c"} == {Status.SKIPPED}


def test_an_export_before_the_first_run_has_what_the_contract_says(new_project: NewProject) -> None:
    rows = "select id as `i d`, id * 1.0D as a, 'EUR' as c, array(1) as arr from range(9)"
    project = new_project(None, rows, {"contracts/t.odcs.yaml": BOUNDS})
    call(project, "contract", "import", "contracts/t.odcs.yaml", "--write")
    (project.root / "again.yaml").write_text(call(project, "contract", "export", "t"), "utf-8")
    files = (str(project.root / f) for f in ("contracts/t.odcs.yaml", "again.yaml"))
    result = CliRunner().invoke(cli, ["contract", "diff", *files])
    assert (result.exit_code, result.output) == (0, "No change.\n")


def test_an_export_divides_rows_alike_and_promises_nothing_that_is_learned(
    new_project: NewProject,
) -> None:
    config = "{{ config(batch_by = \"concat('d', day)\", segment_by = ['c']) }}"
    sql = "select '1' as day, 'x' as c, id from {{ source('raw', 't') }}"
    checks = "-- @cadence('daily') @expected_segments('x') @row_count > 1 {tags: [auto]}"
    project = new_project(f"{config}\n{sql}\n{checks}\n", "select id from range(9)")
    settings = (project.root / "dqsql_project.yml").read_text("utf-8")
    project.write({"dqsql_project.yml": f"{settings}monitors: auto\n"})
    text = call(project, "contract", "export", "m")
    again = new_project(None, "select id from range(9)", {"m.yaml": text}, name="again")
    call(again, "contract", "import", "m.yaml", "--write")
    (plan,) = dqsql.compile_project(again.root).plans
    assert plan.rejected == ()
    assert plan.model.config.batch_by == "concat('d', day)"
    assert plan.model.config.segment_by == ("c",)
    said = {d.expression for d in plan.declared if not d.expression.startswith("schema_is")}
    assert said == {"cadence('daily')", "expected_segments('x')", "row_count > 1"}


@pytest.mark.parametrize("value", ["2024-01-01", "[2024-01-01]", "{a: b}"])
def test_what_divides_rows_is_a_text(new_project: NewProject, value: str) -> None:
    custom = f"customProperties: [{{property: dqsql.segment_by, value: {value}}}]"
    text = BOUNDS.replace("    properties:\n", f"    {custom}\n    properties:\n")
    project = new_project("select 1 as a -- @not_null\n", files={"t.yaml": text})
    result = CliRunner().invoke(
        cli, ["contract", "import", "t.yaml", "--project-dir", str(project.root)]
    )
    assert result.exit_code == 2
    assert "dqsql.segment_by a text or a list of texts" in result.stderr


TOLERANT = """\
{{ config(batch_by = 'day') }}
select
    day,
    c, -- @accepted_values('DE', 'FR') {mostly: 0.8} @unique {where: "c <> 'DE'"}
    a -- @not_null {warn_if: "> 0", error_if: "> 3"} @mean between 1 and 9 {warn: "< 8", after: 2}
from {{ source('raw', 't') }}
-- @row_count >= 5 {no_data: error, segments: false, tags: [volume]}
-- @count_distinct(c) > 1 {scope: cumulative}
"""


def test_settings_of_checks_are_exported_and_imported(new_project: NewProject) -> None:
    rows = "select '1' as day, if(id = 0, 'XX', 'DE') as c, nullif(id, 1) as a from range(9)"
    project = new_project(TOLERANT, rows)
    before = {r.check_name: (r.status, r.message) for r in project.run().results}
    text = call(project, "contract", "export", "m")
    config = "{{ config(batch_by = 'day', contract = 'm.yaml') }}"
    bare = f"{config}\nselect * from {{{{ source('raw', 't') }}}}"
    again = new_project(bare, rows, {"m.yaml": text}, name="again")
    (plan,) = dqsql.compile_project(again.root).plans
    found = {c.expression: c.settings for c in plan.declared}
    assert found["accepted_values('DE', 'FR')"].options == {"mostly": 0.8}
    assert found["unique"].where == "c <> 'DE'"
    assert found["not_null"].options == {"warn_if": "> 0", "error_if": "> 3"}
    assert found["mean between 1 and 9"].options == {"warn": "< 8", "after": 2}
    assert found["row_count >= 5"].options == {"segments": False}
    assert found["row_count >= 5"].no_data == "error"
    assert found["row_count >= 5"].tags == ("volume", "contract")
    assert found["count_distinct(c) > 1"].scope == "cumulative"
    after = {r.check_name: (r.status, r.message) for r in again.run().results}
    assert {name: after[name] for name in before} == before


def test_an_export_keeps_two_bounds_and_what_is_closed(new_project: NewProject) -> None:
    config = "{{ config(contract = {'columns': {'c': 'string'}, 'extra': 'refuse'}) }}"
    checks = "select c -- @matches('^A') @matches('9$')\nfrom {{ source('raw', 't') }}"
    project = new_project(f"{config}\n{checks}", "select 'A9' as c from range(9)")
    project.run()
    made = yaml.safe_load(call(project, "contract", "export", "m"))["schema"][0]
    assert made["customProperties"] == [{"property": "dqsql.closed", "value": True}]
    text = yaml.safe_dump({"apiVersion": "v3.0.2", "kind": "DataContract", "schema": [made]})
    bare = "{{ config(contract = 'm.yaml') }}\nselect * from {{ source('raw', 't') }}"
    again = new_project(bare, "select 'A8' as c from range(9)", {"m.yaml": text}, name="again")
    (plan,) = dqsql.compile_project(again.root).plans
    assert {"matches('^A')", "matches('9$')"} <= {c.expression for c in plan.declared}
    found = {r.check_name: r.status for r in again.run().results}
    assert found["matches('9$')"] is Status.FAIL and found["matches('^A')"] is Status.PASS

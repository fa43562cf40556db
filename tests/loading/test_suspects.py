"""What looks like a check and is none: a warning with its place, and a run that goes on."""

from __future__ import annotations

import pytest

import dqsql
from tests.conftest import MakeProject

SOURCES = """\
sources:
  - name: shop
    tables: [{name: orders, path: data/orders.parquet}]
"""
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    x {column}
from {{{{ source('shop', 'orders') }}}}
{model}
"""


def warnings(make_project: MakeProject, column: str, model: str = "") -> tuple[str, ...]:
    text = MODEL.format(column=column, model=model)
    root = make_project({"checks/sources.yml": SOURCES, "checks/orders.sql": text})
    compiled = dqsql.compile_project(root)
    assert compiled.errors == ()
    return compiled.project.warnings


@pytest.mark.parametrize(
    ("column", "model", "warning"),
    [
        (
            "-- must be there {severity: warn} @not_null",
            "",
            "checks/orders.sql:4:24: the settings {severity: warn} stand before the @, where they"
            " are not read; write @not_null {severity: warn}",
        ),
        (
            "-- @not_null @not_null",
            "",
            "checks/orders.sql:4:20: @not_null appears twice, also at checks/orders.sql:4:10",
        ),
        (
            "-- @mean  > 1\n, x as z -- @mean > 1",
            "-- @mean(x) > 2 @mean(x)  > 2",
            ":7:17: @mean(x)",
        ),
        (
            "-- @not_null @mean < 2",
            "-- @not_null(x) @mean(x) < 3",
            "checks/orders.sql:6:4: @not_null(x) appears twice, also at checks/orders.sql:4:10 as"
            " @not_null",
        ),
        ("-- @avh @avh", "", "checks/orders.sql:4:15: @avh appears twice"),
        (", -- @not_null\n    --y, --@unique\n  z", "", ":5:12: @unique is commented out"),
        ("{# @positive #} -- @not_null", "", ":4:10: @positive is in a comment of Jinja"),
        ("-- @not_null", "{# @row_count > 3 #}", ":6:4: @row_count is in a comment of Jinja"),
        (", -- @not_null\n    -- y, -- @unique\n  z", "", ":5:14: @unique is commented out"),
        ("\n    -- -- @unique\n, y", "-- @row_count > 0", ":5:11: @unique is commented out"),
        (
            ", -- @not_null\n    /*\n    y, -- @unique\n    */\n  z",
            "",
            ":6:11: @unique is commented out",
        ),
        ("# @not_null", "", ":4:7: # begins no comment in Spark's SQL; write -- @not_null"),
        ("-- not_null", "-- @row_count > 0", ":4:10: the comment 'not_null' is not a check; did"),
        ("-- accepted_values(1, 2)", "-- @row_count > 0", "did you mean @accepted_values(1, 2)?"),
        ("-- avh", "-- @row_count > 0", "did you mean @avh?"),
        ("", "", "checks/orders.sql: no check is in this model"),
    ],
)
def test_a_warning_with_its_place(
    make_project: MakeProject, column: str, model: str, warning: str
) -> None:
    found = warnings(make_project, column, model)
    assert any(warning in text for text in found), found


@pytest.mark.parametrize(
    ("column", "model"),
    [
        ("-- @not_null, that is clear", "-- the number of rows"),
        ('-- @not_null {where: "x > 1"} @not_null', ""),
        ("-- @not_null {severity: warn}", "-- @not_null(x) @not_null(day)"),
        ("-- @avh @avh {fpr: 0.1} @mean > 1", "-- @mean(x) > 2 @anomaly(mean(x))"),
        ("-- the count", "-- @row_count > 0"),
        ("-- issue # @positive", ""),
        # A metric demands nothing by itself: as a comment it is prose.
        ("-- count", "-- @row_count > 0"),
        ("{# a template #} -- @positive", ""),
    ],
)
def test_no_warning(make_project: MakeProject, column: str, model: str) -> None:
    assert warnings(make_project, column, model) == ()


def test_a_model_without_checks_that_others_read_is_none(make_project: MakeProject) -> None:
    read = "from {{ source('shop', 'orders') }}\n"
    files = {
        "checks/sources.yml": SOURCES,
        "checks/usual.sql": f"select x {read}",
        "checks/base.sql": f"select x {read}",
        "checks/alone.sql": f"select x {read}",
        "checks/m.sql": f"select x, -- @drift(ks, against => usual) < 0.9\n x as y {read}",
        "checks/n.sql": "select x -- @not_null\nfrom {{ ref('base') }}",
    }
    (warning,) = dqsql.compile_project(make_project(files)).project.warnings
    assert warning.startswith("checks/alone.sql: no check is in this model")


def test_totals_of_a_table_that_each_run_reads_anew(make_project: MakeProject) -> None:
    model = (
        "-- @row_count < 9\n-- @unique(x) {scope: cumulative}\n-- @sum(x) > 1 {scope: cumulative}"
    )
    assert warnings(make_project, "", model) == ()
    text = MODEL.format(column="", model=model).partition("\n")[2]
    root = make_project({"checks/sources.yml": SOURCES, "checks/orders.sql": text})
    (warning,) = dqsql.compile_project(root).project.warnings
    assert warning.startswith("checks/orders.sql:6:4: without batch_by each run is a batch, and")

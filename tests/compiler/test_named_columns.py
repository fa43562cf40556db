"""Monitors about a column that they name: `@avh(amount)` behind FROM, or with `select *`."""

from __future__ import annotations

import pytest

import dqsql
from dqsql.compiler.monitors import with_named_columns
from dqsql.errors import Span
from dqsql.model.plan import Plan
from dqsql.model.project import Annotation, CheckModel, CheckSettings, ModelConfig, Projection
from tests.conftest import MakeProject

MODEL = "select id, `a b`, device, day\nfrom t\n-- {annotation}\n"


def compiled(make_project: MakeProject, text: str) -> dqsql.CompileResult:
    return dqsql.compile_project(make_project({"checks/m.sql": text}))


@pytest.mark.parametrize(
    ("annotation", "beside"),
    [
        ("@avh(ID)", "id -- @avh"),
        ("@avh(id, fpr => 0.1) {severity: warn}", "id -- @avh(fpr => 0.1) {severity: warn}"),
        ("@alive(`a b`)", "`a b` -- @alive"),
        ("@stays_unique( id )", "id -- @stays_unique"),
        ("@has_type(id, 'bigint')", "id -- @has_type('bigint')"),
    ],
)
def test_they_are_as_beside_it(make_project: MakeProject, annotation: str, beside: str) -> None:
    (named,) = compiled(make_project, MODEL.format(annotation=annotation)).plans
    (plan,) = compiled(make_project, f"select\n  {beside}\n, day\nfrom t\n").plans
    for one, other in zip(
        (*named.checks, *named.monitors), (*plan.checks, *plan.monitors), strict=True
    ):
        assert (one.id, one.column, one.metrics) == (other.id, other.column, other.metrics)
    assert [m.watched for m in named.monitors] == [m.watched for m in plan.monitors]
    assert named.checks or named.monitors


def test_with_all_columns_of_a_table(make_project: MakeProject) -> None:
    (plan,) = compiled(make_project, "select * from t\n-- @avh(amount) @alive(amount)\n").plans
    assert [(m.kind, m.column) for m in plan.monitors] == [("avh", "amount"), ("alive", "amount")]


def test_columns_that_differ_in_case() -> None:
    # As with spark.sql.caseSensitive.
    place = Span("m.sql")
    columns = tuple(Projection(name, place) for name in ("a", "A"))
    annotations = [Annotation(text, CheckSettings(), place) for text in ("avh(A)", "alive(a)")]
    model = CheckModel("m", "m.sql", "", "", ModelConfig(), columns, tuple(annotations), ())
    named = with_named_columns(model, lambda name: False).annotations
    assert [(a.expression, a.column) for a in named] == [("avh", "A"), ("alive", "a")]


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        ("@avh(device.browser)", "give it a name in the SELECT, and write @avh beside it"),
        ("@alive(upper(id))", "give it a name in the SELECT, and write @alive beside it"),
        ("@avh(devices)", "did you mean 'device'?"),
        ("@avh", "write it on the line of a column, or config(avh = true) for all of them"),
    ],
)
def test_what_is_no_column(make_project: MakeProject, annotation: str, hint: str) -> None:
    (error,) = compiled(make_project, MODEL.format(annotation=annotation)).errors
    assert error.message.endswith("is about a column")
    assert error.hint == hint


def test_a_pattern_that_is_given_stays_a_check(make_project: MakeProject) -> None:
    (plan,) = compiled(make_project, MODEL.format(annotation="@pattern(id, '<digit>+')")).plans
    assert plan.monitors == ()
    assert [check.expression for check in plan.checks] == ["pattern(id, '<digit>+')"]


ON_TIME = """\
{% macro check_on_time(column, minutes=15, share=0.8) -%}
    compliance({{ column }} <= {{ minutes }}) >= {{ share }}
{%- endmacro %}
"""


def beside_and_below(make_project: MakeProject, beside: str, below: str) -> list[Plan]:
    """The plans with a check beside the column `a`, and with one below FROM."""
    texts = (
        f"select\n  a, -- @{beside}\n  b, day\nfrom t\n",
        f"select\n  a,\n  b, day\nfrom t\n-- @{below}\n",
    )
    made = [{"checks/m.sql": text, "macros/on_time.sql": ON_TIME} for text in texts]
    return [dqsql.compile_project(make_project(files)).plans[0] for files in made]


@pytest.mark.parametrize(
    "check",
    [
        "accepted_values(lower(a), 'open', 'closed')",
        "accepted_values(round(a), 1, 2)",
        "accepted_values(a.kind, 'x')",
        "histogram_values(lower(a), 'x')",
        "unique(lower(a))",
        "unique(a.id)",
        "primary_key(trim(a), b)",
        "approx_count_distinct(lower(a)) > 1",
        "histogram_binned(abs(a), 0, 10) >= 1",
        "on_time(abs(a))",
        "on_time(abs(a), minutes => 5)",
        "count_distinct(lower(a)) > 1",
        "entropy(cast(a as int)) > 1",
        "mean(lower(a)) > 1",
        "unique(column => a)",
    ],
)
def test_an_expression_of_the_column_is_what_is_checked(
    make_project: MakeProject, check: str
) -> None:
    beside, below = beside_and_below(make_project, check, check)
    assert beside.states == below.states
    assert [c.predicate for c in beside.checks] == [c.predicate for c in below.checks]
    assert beside.checks[0].column == "a"


@pytest.mark.parametrize(
    ("check", "whole"),
    [
        ("unique(b, day)", "unique(a, b, day)"),
        ("unique(lower(b))", "unique(a, lower(b))"),
        ("accepted_values(b, 'x')", "accepted_values(a, b, 'x')"),
        ("accepted_values(upper(a))", "accepted_values(a, upper(a))"),
        ("accepted_values(b, lower(a))", "accepted_values(a, b, lower(a))"),
        ("accepted_values(-1, abs(a))", "accepted_values(a, -1, abs(a))"),
        ("less_than(a + 1)", "less_than(a, a + 1)"),
        ("on_time(5)", "on_time(a, 5)"),
    ],
)
def test_other_columns_are_checked_beside_it(
    make_project: MakeProject, check: str, whole: str
) -> None:
    beside, below = beside_and_below(make_project, check, whole)
    assert beside.states == below.states

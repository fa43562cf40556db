"""What is wrong with an annotation that does not compile, and where."""

from __future__ import annotations

import pytest

from dqsql.errors import (
    AnnotationError,
    CompileError,
    DqsqlError,
    MacroError,
    SqlSyntaxError,
    UnknownNameError,
    UnsupportedExpressionError,
)

from .conftest import CompileModel
from .models import of_column, of_model


@pytest.mark.parametrize(
    ("annotation", "kind", "position", "message", "hint"),
    [
        ("@not_nul", UnknownNameError, 11, "unknown check", "'not_null'"),
        ("@completnes > 0.5", UnknownNameError, 11, "'completnes'", "'completeness'"),
        ("@mean > 0 and  meen < 3", UnknownNameError, 25, "'meen'", "'mean'"),
        ("@mean", CompileError, 10, "demands nothing", "@mean > 0"),
        ("@max(x)", CompileError, 10, "demands nothing", "@max(x) > 0"),
        ("@expect()", CompileError, 10, "one condition, not 0", None),
        ("@expect(1, 2)", CompileError, 10, "one condition, not 2", None),
        ("@expect(x > 1)", UnknownNameError, 18, "outside an aggregate", "@satisfies"),
        ("@x > 3", UnknownNameError, 11, "outside an aggregate", "@satisfies"),
        ("@expect(1 > 0)", CompileError, 10, "compares no metric", "@satisfies"),
        ("@expect(sum(x) > a)", UnknownNameError, 27, "'a'", None),
        ("@mean(yy) > 1", UnknownNameError, 16, "no column 'yy'", "'y'"),
        ("@expect(sum(other) > 1)", UnknownNameError, 22, "no column 'other'", "day, s, y, x"),
        (
            "@accepted_values(paid, open)",
            UnknownNameError,
            27,
            "no column 'paid'",
            "quotes: 'paid'",
        ),
        ("@mean > 3 {where: dayy > 1}", UnknownNameError, 28, "no column 'dayy'", "'day'"),
        ("@quantile < 3", MacroError, 10, "needs 'rank'", None),
        ("@quantile(rnk => 1) < 3", MacroError, 10, "no parameter 'rnk'", None),
        ("@in_range(1)", MacroError, 10, "needs 'high'", None),
        ("@not_null(x, y)", MacroError, 10, "got 2 arguments", None),
        ('@mean > 3 {where: "x >"}', SqlSyntaxError, 10, "cannot parse", None),
        ("@expect(sum(x) over () > 1)", UnsupportedExpressionError, 10, "a window", "SELECT"),
        ("@expect(sum(x) > (select 1))", UnsupportedExpressionError, 10, "a subquery", "SELECT"),
        (
            "@expect(min(x) > 8 >> 1)",
            UnsupportedExpressionError,
            10,
            "change its meaning",
            "SELECT",
        ),
        ("@expect(max(s) = 'a' 'b')", UnsupportedExpressionError, 10, "'concat'", "SELECT"),
        ("@avh > 1", AnnotationError, 11, "must stand alone", None),
        ("@not_null >= 0.9", CompileError, 11, "no number", "@completeness"),
        ("@unique between 0.5 and 1", CompileError, 11, "no number", "@uniqueness"),
        ("@in_range(1, 2) > 0.9", CompileError, 11, "no number", "@compliance(condition)"),
        ("@mean between 5 and -1.5", CompileError, 16, "no value is", "first: -1.5 and 5"),
        ("@in_range(10, 2)", CompileError, 10, "no value is between 10 and 2", "2 and 10"),
        ("@freshness < '24 hours'", CompileError, 24, "freshness is a number", "write 24"),
        ("@freshness < '2 days'", CompileError, 24, "is a text that is none", "write 48"),
        ("@mean > 'high'", CompileError, 19, "mean is a number, and 'high'", "without quotes"),
        ("@matches(r'^ORD-(\\d{3}$')", CompileError, 10, "is broken: missing )", "backslash"),
        ("@expect(count_if(s rlike '[a') = 0)", CompileError, 10, "is broken", "backslash"),
        ("@accepted_values('a' 'b')", UnsupportedExpressionError, 10, "'a' 'b'", "a comma missing"),
        ("@in_range(low=1, high=5)", CompileError, 20, "is a comparison", "low => 1"),
        (
            "@relationships(x, y)",
            UnknownNameError,
            11,
            "unknown check",
            "@references(relation, key)",
        ),
        (
            "@expect_column_values_to_be_between(1, 2)",
            UnknownNameError,
            11,
            "unknown check",
            "@in_range(low, high)",
        ),
        ("@expect(foo(x) > 1)", UnknownNameError, 18, "'foo'", None),
        ("@expect(uper(max(s)) = 'A')", UnknownNameError, 18, "'uper'", None),
        ("@approx_percentile(0.5, 0) > 1", UnsupportedExpressionError, 10, "not positive", None),
        ("@approx_count_distinct(2) > 1", UnsupportedExpressionError, 10, "between 0 and 1", None),
        ("@not_null {period: 7}", CompileError, 21, "a setting of monitors", "@avh"),
        ("@mean > 3 {fpr: 0.1}", CompileError, 21, "a setting of monitors", "@anomaly"),
        ('@mean > 1 {where: "y >"}', SqlSyntaxError, 10, "'y >': something is missing", None),
        ("@predictability > 0", MacroError, 10, "needs 'from'", None),
        ("@predictability(from => z) > 0", UnknownNameError, 34, "no column 'z'", None),
        (
            "@predictability(from => y, measure => 'f2') > 0",
            UnsupportedExpressionError,
            10,
            "no measure 'f2'",
            "f1, precision, recall",
        ),
        (
            "@predictability(from => (s, x)) > 0",
            UnsupportedExpressionError,
            10,
            "from itself",
            "leave it out",
        ),
        ("@predictability(from => ()) > 0", UnsupportedExpressionError, 10, "no columns", "zip"),
        (
            "@predictability(from => y, buckets => 0) > 0",
            UnsupportedExpressionError,
            10,
            "no whole number from 1",
            None,
        ),
        (
            "@predictability(from => max(y)) > 0",
            UnsupportedExpressionError,
            10,
            "not the value of a row",
            "expressions of them",
        ),
    ],
)
def test_error_of_a_column_annotation(
    compile_model: CompileModel,
    annotation: str,
    kind: type[DqsqlError],
    position: int,
    message: str,
    hint: str | None,
) -> None:
    compiled = compile_model(of_column(annotation))
    (error,) = compiled.errors
    assert type(error) is kind
    assert message in error.message and "Line 1" not in error.message
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("checks/orders.sql", 6)
    assert error.span.column == position
    assert hint is None or (error.hint is not None and hint in error.hint)
    assert compiled.plan.checks == ()


@pytest.mark.parametrize(
    ("annotation", "position", "message"),
    [
        ("@not_null", 5, "needs a column"),
        ("@freshness < 24", 5, "needs a column"),
        ("@skewness < 2", 4, "has no argument"),
        ("@row_count(x) > 1", 4, "got 1 arguments"),
        ("@row_cuont > 1", 5, "'row_cuont'"),
        ("@accepted_values(1, 2)", 5, "needs a column, and 1 is none"),
        ("@accepted_values(-1)", 5, "needs a column, and -1 is none"),
        ("@mean('x') > 1", 5, "needs a column, and 'x' is none"),
        ("@accepted_values(x)", 4, "needs 'value'"),
    ],
)
def test_error_of_a_model_annotation(
    compile_model: CompileModel, annotation: str, position: int, message: str
) -> None:
    (error,) = compile_model(of_model(annotation)).errors
    assert message in error.message and "Line 1" not in error.message
    assert error.span is not None
    assert (error.span.line, error.span.column) == (9, position)


def test_unknown_column_whose_name_is_part_of_another_word(compile_model: CompileModel) -> None:
    (error,) = compile_model(of_column("@mean(a) > 1")).errors
    assert error.span is not None
    assert error.span.column == 16


def test_a_bad_annotation_leaves_the_others(compile_model: CompileModel) -> None:
    compiled = compile_model(of_column("@not_null @meen > 3 @max < 5 @foo"))
    assert [e.span.column for e in compiled.errors if e.span] == [21, 40]
    assert [c.expression for c in compiled.plan.checks] == ["not_null", "max < 5"]


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        ("@rate > 1", "name the macro metric_rate or check_rate"),
        ("@check_not_null", "did you mean @not_null?"),
        ("@metric_mean > 1", "did you mean @mean?"),
    ],
)
def test_a_macro_by_another_name(compile_model: CompileModel, annotation: str, hint: str) -> None:
    macros = {"macros/rate.sql": "{% macro rate(c) %} sum({{ c }}) {% endmacro %}"}
    (error,) = compile_model(of_column(annotation), macros).errors
    assert isinstance(error, UnknownNameError) and error.hint is not None
    assert hint in error.hint


def test_an_error_in_a_macro_names_the_macro(compile_model: CompileModel) -> None:
    broken = {"macros/check_odd.sql": "{% macro check_odd(c) %} sum({{ c }} > {% endmacro %}"}
    (error,) = compile_model(of_column("@odd"), broken).errors
    assert isinstance(error, MacroError)
    assert "check_odd gave SQL that does not parse" in error.message
    assert error.hint == "the macro stands in macros/check_odd.sql:1"


@pytest.mark.parametrize(
    "circle",
    [
        {
            "macros/check_a.sql": "{% macro check_a(c) %} b({{ c }}) {% endmacro %}",
            "macros/check_b.sql": "{% macro check_b(c) %} a({{ c }}) {% endmacro %}",
        },
        {
            "macros/check_a.sql": "{% macro check_a(c) %} {{ check_b(c) }} {% endmacro %}",
            "macros/check_b.sql": "{% macro check_b(c) %} {{ check_a(c) }} {% endmacro %}",
        },
    ],
    ids=["in SQL", "in Jinja"],
)
def test_circular_macros(compile_model: CompileModel, circle: dict[str, str]) -> None:
    (error,) = compile_model(of_column("@a"), circle).errors
    assert isinstance(error, MacroError)
    assert "circular macro" in error.message
    assert error.span is not None


@pytest.mark.parametrize(
    ("config", "name", "hint"),
    [
        ("batch_by = 'dya'", "dya", "'day'"),
        ("batch_by = \"date_trunc('day', att)\"", "att", "day, s"),
        ("segment_by = ['s', 'origin']", "origin", "day, s"),
        ("pii = ['S', 'adress']", "adress", "day, s"),
    ],
)
def test_config_with_unknown_columns(
    compile_model: CompileModel, config: str, name: str, hint: str
) -> None:
    sql = f"{{{{ config({config}) }}}}\nselect day, s from {{{{ source('shop', 'orders') }}}}"
    (error,) = compile_model(sql).errors
    assert isinstance(error, UnknownNameError)
    assert repr(name) in error.message
    assert error.hint is not None and hint in error.hint
    assert error.span is not None and error.span.file == "checks/orders.sql"

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
        ("@mean", CompileError, 10, "not a condition", "@mean > 0"),
        ("@max(x)", CompileError, 10, "not a condition", "@max(x) <= 100"),
        ("@max(5)", CompileError, 10, "not a condition", "example: @max <= 5"),
        ("@min_length(5)", CompileError, 10, "not a condition", "example: @min_length >= 5"),
        ("@mean(y, 5)", CompileError, 10, "not a condition", "example: @mean(y) <= 5"),
        ("@mean(9, 5)", CompileError, 10, "not a condition", "example: @mean between 5 and 9"),
        ("@avg(5)", CompileError, 10, "not a condition", "example: @avg <= 5"),
        ("@quantile(0.9, 5)", CompileError, 10, "not a condition", "@quantile(0.9) <= 5"),
        ("@quantile(95)", CompileError, 10, "not a condition", "example: @quantile(0.95) > 0"),
        ("@quantile(y, 95)", CompileError, 10, "not a condition", ": @quantile(y, 0.95) > 0"),
        ("@quantile(0.5)", CompileError, 10, "not a condition", "example: @quantile(0.5) > 0"),
        (
            "@in_range('2024-01-01','2024-31-01')",
            CompileError,
            34,
            "'2024-31-01' is not a date",
            "did you mean '2024-01-31'?",
        ),
        (
            "@max <= '2023-02-29 12:00:00'",
            CompileError,
            19,
            "'2023-02-29 12:00:00' is not a date",
            "year, month, day: '2024-01-31'",
        ),
        (
            "@in_range('2024-12-31','2024-01-01')",
            CompileError,
            10,
            "no value is between '2024-12-31' and '2024-01-01'",
            "comes first: '2024-01-01' and '2024-12-31'",
        ),
        ("@row_count(where => 'a') > 0", MacroError, 21, "no parameter", "@row_count {where: ..}"),
        ("@row_count(why => 'a') > 0", MacroError, 21, "no parameter", "it takes none"),
        ("@anomaly(mean > 3)", CompileError, 19, "mean > 3 is a condition", "@expect(mean > 3)"),
        ("@anomaly(mean > 3 and max < 4)", CompileError, 19, "is a condition", "metric alone"),
        ("0 <= @min < 50", AnnotationError, 15, "before the @ is not part", "@expect(..)"),
        ("2 * @max < 30", AnnotationError, 14, "'2 *'", "behind the @"),
        ("sum(y) / @count < 500", AnnotationError, 19, "'sum(y) /'", "@expect(..)"),
        ("not @unique", AnnotationError, 14, "'not'", "@expect(..)"),
        ("@mean > 500 where flag", AnnotationError, 22, "'where flag'", "{where: "),
        ("@unique within status", AnnotationError, 18, "'within status'", "into braces"),
        ("@min >= 0 -5 means unknown", AnnotationError, 23, "'means unknown'", "prose"),
        ("@mean is 3", CompileError, 10, "may follow `is`, not 3", "write mean = 3"),
        (
            "@expect(sum(x) is not 3)",
            CompileError,
            10,
            "may follow `is`, not 3",
            "write sum(x) <> 3",
        ),
        ("@completeness", CompileError, 10, "not a condition", "@completeness >= 0.95"),
        ("@completeness(95)", CompileError, 10, "not a condition", "@completeness >= 0.95"),
        ("@null_count", CompileError, 10, "not a condition", "@null_count = 0"),
        ("@expect(sum(x))", CompileError, 10, "sum(x) is a number", "@expect(sum(x) > 0)"),
        ("@expect(sum(x) / count(*))", CompileError, 10, "is a number, not a condition", "> 0)"),
        ("@expect(uniqueness(x))", CompileError, 10, "uniqueness(x) is a number", "> 0)"),
        ("@max > 0 and mean", CompileError, 10, "mean(x) is a number", "@expect(mean(x) > 0)"),
        ("@expect()", CompileError, 10, "one condition, not 0", "@expect(sum(amount) > 0)"),
        ("@expect(1, 2)", CompileError, 10, "one condition, not 2", "with `and`"),
        ("@expect(x > 1)", UnknownNameError, 18, "outside an aggregate", "@satisfies"),
        ("@x > 3", UnknownNameError, 11, "outside an aggregate", "@satisfies"),
        ("@expect(1 > 0)", CompileError, 10, "not compare a metric", "@satisfies"),
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
        ("@quantile < 3", MacroError, 11, "@quantile needs 'rank'", "example: @quantile(0.9)"),
        ("@quantile(rnk => 1) < 3", MacroError, 20, "no parameter 'rnk'", "'rank'"),
        ("@accepted_values(values => ['a'])", MacroError, 27, "'values'", "one after the other"),
        ("@in_range(1)", MacroError, 11, "@in_range needs 'high'", "@in_range(1, 100)"),
        ("@in_range(low => 1)", MacroError, 11, "needs 'high'", "(low => 1, high => 100)"),
        ("@in_range(1-5)", MacroError, 11, "needs 'high'", "@in_range(1, 5)"),
        ("@accepted_values()", MacroError, 11, "needs 'value'", "@accepted_values('a', 'b')"),
        ("@references(other.id)", MacroError, 11, "needs 'key'", "@references(other, id)"),
        ("@in_range(1, 2, 3)", MacroError, 11, "got 4 arguments", "column, low, high"),
        ("@quantile(0.5, rank => 0.5) < 3", MacroError, 25, "got 'rank' twice", None),
        ("@not_null(x, y)", MacroError, 11, "got 2 arguments and takes 1", "@not_null"),
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
        ("@not_null >= 0.9", CompileError, 11, "not a number", "@completeness"),
        ("@unique between 0.5 and 1", CompileError, 11, "not a number", "@uniqueness"),
        ("@in_range(1, 2) > 0.9", CompileError, 11, "not a number", "@compliance(condition)"),
        ("@mean between 5 and -1.5", CompileError, 16, "no value is", "first: -1.5 and 5"),
        ("@in_range(10, 2)", CompileError, 10, "no value is between 10 and 2", "2 and 10"),
        ("@freshness < '24 hours'", CompileError, 24, "freshness is a number", "write 24"),
        ("@freshness < interval 1 day", CompileError, 23, "INTERVAL '1' DAY is not", "write 24"),
        ("@freshness < 1d", CompileError, 10, "to Spark 1d is the number 1", "write 24"),
        ("@freshness < (.5d)", CompileError, 10, "to Spark .5d is the number .5", "write 12"),
        ("@freshness < 30m", UnknownNameError, 23, "'30m' is not", "or 0.5 for 30 minutes"),
        ("@mean < interval 1 day", CompileError, 18, "mean is a number", "write a number"),
        ("@in_range(null, null)", CompileError, 20, "holds everything", "at least one of the two"),
        ("@mean = null", CompileError, 18, "never true", "write mean is null"),
        ("@satisfies(y <> null)", CompileError, 26, "never true", "write y is not null"),
        ("@equal_to(null)", CompileError, 20, "never true", "is null"),
        ('@mean > 3 {where: "y = null"}', CompileError, 33, "never true", "write y is null"),
        ('@mean > 3 {where: "sum(y) > 1"}', CompileError, 10, "sum(y) > 1 has an", "@expect("),
        ("@mean > 5 < 10", CompileError, 10, "compares a comparison", "mean > 5 and mean < 10"),
        ("@max > 5 || min < 1", CompileError, 10, "compares a comparison", "write or"),
        ("@freshness < 24h", UnknownNameError, 23, "'24h' is not a number", "write 24"),
        ("@mean < 5k", UnknownNameError, 18, "'5k' is not a number", "write 5000"),
        ("@max <= today", UnknownNameError, 18, "'today'", "current_date()"),
        ("@avh > 3", AnnotationError, 11, "must stand alone", "write @avh"),
        ("@anomaly('mean')", CompileError, 20, "'mean' is not one", "@anomaly(mean)"),
        (
            "@freshness < '2 days'",
            CompileError,
            24,
            "is a number, but '2 days' is a text",
            "write 48",
        ),
        ("@mean > 'high'", CompileError, 19, "mean is a number, but 'high'", "without quotes"),
        ("@matches(r'^ORD-(\\d{3}$')", CompileError, 10, "is not valid: missing )", "backslash"),
        ("@expect(count_if(s rlike '[a') = 0)", CompileError, 10, "is not valid", "backslash"),
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
        ("@predictability > 0", MacroError, 11, "needs 'from'", "(from => other_column)"),
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
            "not a whole number from 1",
            None,
        ),
        (
            "@predictability(from => max(y)) > 0",
            UnsupportedExpressionError,
            10,
            "not a value of a row",
            "expressions of them",
        ),
        ("@not_null((x, y))", CompileError, 11, "takes one column", "@not_null(x) @not_null(y)"),
        ("@completeness([x, y]) = 1", CompileError, 11, "takes one column", "@completeness(x)"),
        ("@satisfies(y between 0 and null)", CompileError, 37, "is never true", "compare: >= 0"),
        ("@satisfies(y between null and 5)", CompileError, 31, "is never true", "compare: <= 5"),
        ("@expect(max(mean(x)) > 3)", CompileError, 10, "aggregates an aggregate", "SELECT"),
        ("@bool_and(y > 3)", CompileError, 10, "not a check", "@expect(bool_and(y > 3))"),
        ("@not_null {severity:warn}", AnnotationError, 21, "no value", "write {severity: warn}"),
        (
            "@not_null {where: y in (1, 2)}",
            AnnotationError,
            37,
            "has no value",
            'quotes: {where: "y in (1, 2)"}',
        ),
        (
            "@completeness > 0.5 {warn: >= 0.9}",
            AnnotationError,
            30,
            "not a YAML mapping",
            'quotes: {warn: ">= 0.9"}',
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
        ("@row_count(x) > 1", 5, "got 1 argument and takes none"),
        ("@expect(5 < mean(x) < 10)", 4, "compares a comparison"),
        ("@row_cuont > 1", 5, "'row_cuont'"),
        ("@accepted_values(1, 2)", 5, "needs a column, and 1 is not one"),
        ("@accepted_values(-1)", 5, "needs a column, and -1 is not one"),
        ("@mean('x') > 1", 5, "needs a column, and 'x' is not one"),
        ("@accepted_values(x)", 5, "needs 'value'"),
    ],
)
def test_error_of_a_model_annotation(
    compile_model: CompileModel, annotation: str, position: int, message: str
) -> None:
    (error,) = compile_model(of_model(annotation)).errors
    assert message in error.message and "Line 1" not in error.message
    assert error.span is not None
    assert (error.span.line, error.span.column) == (9, position)


@pytest.mark.parametrize(
    ("annotation", "position", "message", "hint"),
    [
        ("@completeness >= 95", 27, "completeness(x) >= 95 never holds", "did you mean >= 0.95?"),
        ("@completeness <= 95", 27, "<= 95 always holds", "a share is between 0 and 1: did"),
        ("@completeness between 95 and 100", 24, "never holds", "between 0.95 and 1?"),
        ("@completeness between 0 and 1", 24, "always holds", "a share is between 0 and 1"),
        ("@completeness in (95, 96)", 24, "never holds", "a share is between 0 and 1"),
        ("@uniqueness > 1", 24, "uniqueness(x) > 1 never holds", "did you mean = 1?"),
        ("@distinctness <= 1", 27, "always holds", "did you mean < 1?"),
        ("@distinctness > 0", 26, "always holds", "between 0 and 1"),
        ("@unique_value_ratio >= 50", 33, "never holds", "did you mean >= 0.5?"),
        ("@compliance(x > 3) >= 95", 32, "compliance(x > 3) >= 95 never holds", ">= 0.95?"),
        ("@expect(completeness(y) = 100)", 36, "completeness(y) = 100", "did you mean = 1?"),
        ("@completeness <> 2", 27, "<> 2 always holds", "a share is between 0 and 1"),
        ("@row_count >= 0", 24, "row_count >= 0 always holds", "never below 0: did you mean > 0?"),
        ("@null_count < 0", 24, "never holds", "did you mean = 0?"),
        ("@null_count > -1", 24, "always holds", "did you mean > 0?"),
        ("@min_length >= 0", 25, "always holds", "did you mean > 0?"),
        ("@type_consistency < 0.2", 30, "never holds", "between 0.2 and 1"),
        ("@mean > 3 and completeness <= 95", 40, "always holds", "<= 0.95?"),
        ("@completeness > 0.9 {where: y > 1} @completeness > 9", 61, "never holds", "> 0.09?"),
        ('@completeness >= 0.9 {warn: ">= 95"}', 42, "never holds", ">= 0.95?"),
        ('@not_null {warn_if: ">= 0", error_if: "> 3"}', 21, "warn_if: >= 0 always", "below 0"),
        ('@not_null {mostly: 0.9, warn: ">= 95"}', 34, "warn: >= 95 never holds", "0 and 1"),
        ("@quantile(95) < 4", 20, "the rank of quantile is between 0 and 1", "did you mean 0.95?"),
        ("@quantile('p90') > 4", 21, "and 'p90' is not", "0.5 is the median"),
        ("@quantile(-0.5) < 4", 21, "and -0.5 is not", "0.5 is the median"),
        ("@expect(percentile(x, array(0.5, 99)) is null)", 43, "rank of percentile", "0.99?"),
        ("@healthy(y, low => 2) and completeness > 2", 51, "never holds", "did you mean > 0.02?"),
        ("@mostly_there(95)", 24, "@mostly_there always fails: completeness(x) >= 95", ">= 0.95?"),
        ("@mostly_there(0)", 24, "@mostly_there always passes: completeness(x) >= 0", "> 0?"),
        ("@grade > 101", 19, "grade(x) > 101 never holds", "grade(x) is between 0 and 100"),
    ],
)
def test_comparisons_that_say_nothing(
    compile_model: CompileModel, annotation: str, position: int | None, message: str, hint: str
) -> None:
    compiled = compile_model(of_column(annotation), OWN_RANGES)
    if position is None:
        # An annotation begins with a name: this is prose.
        assert compiled.errors == ()
        return
    (error,) = compiled.errors
    assert isinstance(error, CompileError) and error.span is not None and error.hint is not None
    assert message in error.message and hint in error.hint
    assert (error.span.line, error.span.column) == (6, position)


OWN_RANGES = {
    "macros/grades.sql": """\
{# A grade. Range [0, 100]; null without values. #}
{% macro metric_grade(column) %} avg({{ column }}) {% endmacro %}

{# The range [0, 1] of something else. #}
{% macro metric_free(column) %} avg({{ column }}) {% endmacro %}

{% macro check_mostly_there(column, low) %} completeness({{ column }}) >= {{ low }} {% endmacro %}

{% macro check_graded(column, low=0) %}
    completeness({{ column }}) >= {{ low }} and grade({{ column }}) > 3
{% endmacro %}
"""
}


@pytest.mark.parametrize(
    "annotation",
    [
        "@completeness = 1",
        "@completeness >= 1",
        "@completeness <= 0",
        "@completeness between 0.5 and 100",
        "@row_count > 0",
        "@null_count = 0",
        "@null_count <= 0",
        "@null_count in (0, -1)",
        "@min > -1",
        "@grade between 90 and 100",
        "@grade = 100",
        "@free >= 95",
        "@graded",
        "@graded(0.5)",
        "@entropy is not null",
        "@quantile(0) > 3 and quantile(1) < 9",
        "@quantile(rank => 0.5) > 3",
        "@expect(bool_and(x > 3))",
        "@expect(bool_and(x > 3) is not true)",
        "@mean is distinct from 3",
        "@mean is not distinct from 3",
        "@expect(max(y) or any(x > 3))",
        "@expect(count(*) > 0 and not bool_or(x > 3))",
    ],
)
def test_comparisons_that_say_something(compile_model: CompileModel, annotation: str) -> None:
    assert compile_model(of_column(annotation), OWN_RANGES).errors == ()


@pytest.mark.parametrize(
    ("annotation", "position", "message", "hint"),
    [
        ("@references(ref('customers'), id)", 27, "check model 'customers'", "orders, shop.orders"),
        ("@references(ref('order'), id)", 27, "no check model 'order'", "did you mean 'orders'?"),
        ("@references(ref('stoks'), id)", 27, "'stoks'", "did you mean source('shop', 'stocks')?"),
        ("@references(ref('stocks'), id)", 27, "'stocks'", "it is a source: write source('shop'"),
        ("@references(source('shop', 'order'), id)", 38, "no source shop.order", "'shop.orders'"),
        ("@references(source('x', 'order'), id)", 35, "no source x.order", "'shop.orders'"),
    ],
)
def test_unknown_relations(
    compile_model: CompileModel, annotation: str, position: int, message: str, hint: str
) -> None:
    sources = "sources:\n  - name: shop\n    tables:\n      - name: orders\n      - name: stocks\n"
    (error,) = compile_model(of_column(annotation), {"checks/sources.yml": sources}).errors
    assert message in error.message and error.span is not None
    assert error.span.column == position
    assert error.hint is not None and hint in error.hint


def test_unknown_column_whose_name_is_part_of_another_word(compile_model: CompileModel) -> None:
    (error,) = compile_model(of_column("@mean(a) > 1")).errors
    assert error.span is not None
    assert error.span.column == 16


@pytest.mark.parametrize(
    ("item", "checks", "errors"),
    [
        ("*", "@not_null(id) @row_count > 0 @mean(id) > 3 @schema", ""),
        ("*, b + 1 as c", "@not_null(id) @row_count > 0 @mean(c) > 3", ""),
        ("max(x)", "@row_count > 0 @not_null(b)", ""),
        ("*", "@not_null", "an annotation on * could be about any column"),
        ("*", "@avh", "an annotation on * could be about any column"),
        ("*, b + 1 as c", "@mean > 3", "an annotation on * could be about any column"),
        ("max(x)", "@not_null", "the annotated expression has no name"),
    ],
)
def test_beside_a_column_without_a_name(
    compile_model: CompileModel, item: str, checks: str, errors: str
) -> None:
    """What names its column, or needs none, may stand anywhere."""
    found = compile_model(f"select {item} -- {checks}\nfrom t\n")
    if errors:
        (error,) = found.errors
        assert error.message == errors and error.span is not None and error.span.line == 1
    else:
        assert found.errors == ()
        assert len(found.plan.declared) == checks.count("@")


def test_names_of_tables_are_none_of_columns(compile_model: CompileModel) -> None:
    (error,) = compile_model("select a, -- @not_null(t.a)\n b from t\n").errors
    assert error.message == "the model orders has no column 't'"
    assert error.hint == "checks see the columns of the SELECT, not its tables: write a"


def test_two_columns_of_one_name(compile_model: CompileModel) -> None:
    """Spark accepts them, and nobody can say which one a check is about."""
    text = "select t.a, -- @not_null\n u.a,\n t.b -- @not_null\nfrom t join u using (k)\n"
    (error,) = compile_model(text).errors
    assert error.message == "2 columns of orders are called 'a'"
    assert error.span is not None and error.span.line == 1
    # To Spark they are the same whatever their case.
    (error,) = compile_model(text.replace("u.a", "id as A")).errors
    assert error.message == "2 columns of orders are called 'a'"


def test_misspelt_column_beside_several(compile_model: CompileModel) -> None:
    text = of_column("@mean(xx) > 1 @mean > 1").replace("    y,\n    x", "    y, x")
    told = {e.span.text: e.message for e in compile_model(text).errors if e.span is not None}
    assert told["xx"].endswith("has no column 'xx'")
    assert told["@mean > 1"].startswith("the line holds several columns (y, x)")


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        ("@mean between 1 and 2 {severity: warn}", "@mean(y) between 1 and 2"),
        ("@accepted_values(1, 2)", "@completeness(y) > 0.9"),
    ],
)
def test_a_line_of_several_columns_shows_how_to_name_one(
    compile_model: CompileModel, annotation: str, named: str
) -> None:
    text = of_column(annotation).replace("    y,\n    x", "    y, x")
    (error,) = compile_model(text).errors
    assert error.hint == f"put each column on its own line, or name it: {named}"


@pytest.mark.parametrize(
    "annotation",
    [
        "@unique(y, x)",
        "@less_than(y, x)",
        "@satisfies(y < x)",
        "@row_count > 3",
        "@expect(sum(y) < sum(x))",
        "@mean(x) > 1",
    ],
)
def test_on_a_line_of_several_columns_some_checks_need_none(
    compile_model: CompileModel, annotation: str
) -> None:
    text = of_column(annotation).replace("    y,\n    x", "    y, x")
    compiled = compile_model(text)
    assert compiled.errors == () and len(compiled.plan.checks) == 1


def test_a_bad_annotation_leaves_the_others(compile_model: CompileModel) -> None:
    compiled = compile_model(of_column("@not_null @meen > 3 @max < 5 @foo"))
    assert [e.span.column for e in compiled.errors if e.span] == [21, 40]
    assert [c.expression for c in compiled.plan.checks] == ["not_null", "max < 5"]


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        ("@rate > 1", "rename the macro to metric_rate or check_rate"),
        ("@check_not_null", "did you mean @not_null?"),
        ("@metric_mean > 1", "did you mean @mean?"),
        ("@expect_column_mean_to_be_between(1, 2)", "@mean between"),
        ("@expect_compound_columns_to_be_unique(x, y)", "@unique(a, b)"),
        ("@at_least_one", "@count > 0"),
        ("@sequential_values", "lag(x)"),
        ("@not_accepted_values('a')", "x not in ('a', 'b')"),
        ("@not_histogram_values('a')", "@satisfies_if(x is not null, not ..)"),
        ("@is_not_less_than(5)", "did you mean @greater_than_or_equal_to?"),
        ("@is_not_histogram_values('a')", "@satisfies_if(x is not null, not ..)"),
        ("@isComplete", "did you mean @not_null?"),
        ("@isContainedIn('a')", "did you mean @accepted_values(..)?"),
        ("@isNonNegative", "did you mean @non_negative?"),
        ("@hasMin > 1", "did you mean @min?"),
        ("@hasPattern('^a')", "did you mean @matches('regex')?"),
        ("@hasSize > 1", "did you mean @row_count?"),
        ("@ExpectColumnValuesToNotBeNull", "did you mean @not_null?"),
        ("@expect_column_value_lengths_to_be_between(1, 9)", "@min_length >= 1, and @max_length"),
        ("@expect_column_pair_values_to_be_equal(x, y)", "or @satisfies(a <=> b)?"),
        ("@notin('a')", "x not in ('a', 'b')"),
        ("@str_endswith('a')", "did you mean @matches('text$')?"),
    ],
)
def test_a_macro_by_another_name(compile_model: CompileModel, annotation: str, hint: str) -> None:
    macros = {"macros/rate.sql": "{% macro rate(c) %} sum({{ c }}) {% endmacro %}"}
    (error,) = compile_model(of_column(annotation), macros).errors
    assert isinstance(error, UnknownNameError) and error.hint is not None
    assert hint in error.hint


@pytest.mark.parametrize(
    "annotation",
    [
        "@satisfies_if(\"X\" = 'a', y > 1)",
        '@expect(count("x") > 0)',
        '@compliance("x" > 5) < 0.5',
        '@less_than(y, "x")',
        "@row_count > 1 {where: '\"x\" = 1'}",
        "@anomaly(row_count) {exclude_where: '\"x\" = 1'}",
        "@anomaly(row_count) {exclude_where: '\"x\" and y > 3'}",
        "@anomaly(compliance(\"x\" = 'a'))",
        '@anomaly(count(distinct "x"))',
        "@mean(y) > 3 {where: 'isnotnull(\"x\")'}",
        '@mean(y) > 3 {where: \'"x" ilike "a%" or y > 3\'}',
        "@anomaly(mean(y)) {where: '\"x\"'}",
        '@satisfies(y + "x" > 5)',
        '@expect(sum("x" * y) > 5)',
        '@expect(corr("x", y) > 0.5)',
    ],
)
def test_a_column_in_double_quotes_is_a_text(compile_model: CompileModel, annotation: str) -> None:
    (error,) = compile_model(of_column(annotation)).errors
    assert "is a text in Spark's SQL, not the column" in str(error)
    assert str(error.hint).lower() == "for the column, write `x`; for the text, 'x'"


@pytest.mark.parametrize(
    "annotation",
    [
        "@satisfies('y > 3')",
        '@satisfies("y > 3")',
        "@satisfies_if('y > 3', y < 5)",
        "@satisfies_if(y < 5, 'y > 3')",
        "@compliance('y > 3') > 0.5",
        "@satisfies(y < 5 or 'y > 3')",
    ],
)
def test_a_text_is_no_condition(compile_model: CompileModel, annotation: str) -> None:
    (error,) = compile_model(of_column(annotation)).errors
    assert "'y > 3' is a text, not a condition" in str(error)
    assert error.hint == "write the condition without quotes around it"


@pytest.mark.parametrize(
    "annotation",
    [
        '@accepted_values("x y", "x")',
        '@satisfies(x <> "y")',
        '@satisfies(x in ("x", "y") or x like "x")',
        '@satisfies(date_trunc("y", x) = x)',
        '@expect(count(named_struct("x", x)) > 0)',
        "@row_count > 1 {where: 'x = \"y\"'}",
        '@matches("x")',
        '@pattern("x")',
        "@expect(sum(case x when 'x' then 1 else 0 end) > 3)",
        "@satisfies(case x when 'x' then y > 0 else true end)",
        "@row_count > 1 {where: \"case x when 'a' then y > 0 else true end\"}",
        "@satisfies(case when y > 1 then 'true' else false end)",
        '@satisfies(date_trunc("x", y) > y)',
    ],
)
def test_a_text_in_double_quotes_may_be_called_as_a_column(
    compile_model: CompileModel, annotation: str
) -> None:
    compiled = compile_model(of_column(annotation))
    assert compiled.errors == () and len(compiled.plan.checks) == 1


def test_a_column_in_double_quotes_in_a_batch(compile_model: CompileModel) -> None:
    config = "{{ config(batch_by = 'date_trunc(\"x\", x)') }}\n"
    assert compile_model(config + of_column("@avh")).errors == ()


def test_what_is_wrong_within_a_macro_is_told_with_its_place(compile_model: CompileModel) -> None:
    own = {
        "macros/own.sql": "\n{% macro check_far(c) %} foo_bar({{ c }}) > 1 {% endmacro %}\n"
        "{% macro check_twice(c, n) %} sum({{ c }}) > {{ n * 2 }} {% endmacro %}\n"
        "{% macro check_read(c) %} sum({{ c }}) > {{ source('a', 'b') }} {% endmacro %}"
    }
    (unknown,) = compile_model(of_column("@far"), own).errors
    assert str(unknown.hint).endswith("this is in the macro far, macros/own.sql:2")
    (computed,) = compile_model(of_column("@twice(3)"), own).errors
    assert "3 is SQL, not a number" in str(computed) and "macros/own.sql:3" in str(computed)
    (read,) = compile_model(of_column("@read"), own).errors
    assert "write it outside of the braces" in str(read.hint)


def test_an_error_in_a_macro_names_the_macro(compile_model: CompileModel) -> None:
    broken = {"macros/check_odd.sql": "{% macro check_odd(c) %} sum({{ c }} > {% endmacro %}"}
    (error,) = compile_model(of_column("@odd"), broken).errors
    assert isinstance(error, MacroError)
    assert "check_odd produced SQL that does not parse" in error.message
    assert error.hint == "the macro is in macros/check_odd.sql:1"


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


@pytest.mark.parametrize(
    ("batch_by", "why"),
    [
        ("max(day)", "max(day) has an aggregate"),
        ("\\'day\\'", "'day' is the same in all rows"),
        ("3", "3 is the same in all rows"),
        ("(-3)", "is the same in all rows"),
    ],
)
def test_batches_by_what_names_none(compile_model: CompileModel, batch_by: str, why: str) -> None:
    config = f"{{{{ config(batch_by = '{batch_by}') }}}}"
    sql = f"{config}\nselect day from {{{{ source('shop', 'orders') }}}}"
    (error,) = compile_model(sql).errors
    assert isinstance(error, CompileError) and why in error.message
    assert error.span is not None and error.span.file == "checks/orders.sql"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@column_count > 1", "nothing of them is measured here"),
        ("@schema", "nothing of them is measured here"),
        ("@row_count_of(source('shop', 'orders')) > 1", "nothing of them is measured here"),
        ("@cadence", "@cadence looks at the names of batches only"),
    ],
)
def test_a_condition_that_would_choose_nothing(
    compile_model: CompileModel, annotation: str, message: str
) -> None:
    config = "{{ config(batch_by = 'day') }}\n"
    sql = f"{config}select day from {{{{ source('shop', 'orders') }}}}\n-- {annotation}"
    assert compile_model(sql).errors == ()
    (error,) = compile_model(f'{sql} {{where: "day > 1"}}').errors
    assert isinstance(error, CompileError) and message in error.message
    assert error.hint is not None and "leave {where: ..} out" in error.hint
    assert error.span is not None and (error.span.line, error.span.column) == (3, 4)


def test_a_rhythm_of_batches_where_there_are_none(compile_model: CompileModel) -> None:
    sql = "{{ config(\n  cadence = 'daily') }}\nselect day from {{ source('shop', 'orders') }}"
    (error,) = compile_model(f"{sql}\n-- @row_count > 0").errors
    assert isinstance(error, CompileError)
    assert error.message == "@cadence is about batches, and this model has none"
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.text) == (2, 3, "cadence")


def test_names_that_begin_like_a_monitor_take_no_place_of_it(compile_model: CompileModel) -> None:
    config = "{{ config(batch_by = 'day', cadence = 'daily', pattern = true) }}\n"
    sql = f"{config}select '1' as day,\n'x' as code -- @pattern_profile is not null\n-- @cadence_ok"
    macros = {"macros/a.sql": "{% macro check_cadence_ok() %} row_count > 0 {% endmacro %}"}
    plan = compile_model(sql, macros).plan
    assert [(m.kind, m.column) for m in plan.monitors] == [("cadence", None), ("pattern", "code")]


def test_a_cadence_without_a_rhythm_has_that_of_the_config(compile_model: CompileModel) -> None:
    config = "{{ config(batch_by = 'day', cadence = 'monthly') }}\n"
    sql = f"{config}select day from {{{{ source('shop', 'orders') }}}}\n-- @cadence"
    (monitor,) = compile_model(f"{sql} {{severity: error}}").plan.monitors
    assert (monitor.expression, monitor.severity) == ("cadence('monthly')", "error")
    (monitor,) = compile_model(f"{sql}('daily')").plan.monitors
    assert monitor.expression == "cadence('daily')"


@pytest.mark.parametrize("kind", ["novelty", "anomaly", "row_anomalies"])
def test_a_config_that_adds_nothing_is_told(compile_model: CompileModel, kind: str) -> None:
    """What is about no column is not given to all; where it is written, nothing is wrong."""
    text = f"{{{{ config({kind} = true) }}}}\nselect x -- @not_null\nfrom t\n"
    (error,) = compile_model(text).errors
    assert error.message == f"config({kind} = ..) adds no @{kind}, which is not given to columns"
    given = f"{kind}(row_count)" if kind == "anomaly" else kind
    assert compile_model(f"{text}-- @{given}\n").errors == ()
